// A matrix that is a sum of several matrices, each in its own format.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// A part of a matrix, and its share of the entries.
struct PartShare {
  std::string_view format;
  std::int64_t entries = 0;
  std::size_t bytes = 0;  // 0 for a part without entries, which is not stored
  // "GPU" or "host" for a part of a matrix that both share; empty: in the memory of the matrix.
  std::string_view where = {};
};

// Ability of a matrix of several parts that each are a matrix.
class HasParts {
 public:
  virtual ~HasParts() = default;
  virtual std::vector<PartShare> part_shares() const = 0;
};

}  // namespace protean
