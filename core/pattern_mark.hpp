// What is remembered of a pattern, so that another one can be compared with it after its arrays are gone.
#pragma once
#include <cstdint>
#include <memory>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// Says that the caller knows the pattern to be the same, so that it is not compared.
struct SamePattern {};

// A number of 64 bits that differs between two patterns of the same size, except for one pair in 2^64. It is the same
// in either space and for row pointers of either width. The pattern lies in the space of the context. Reads rows + 1
// row pointers and `nonzeros` columns, whatever they are, once and in parallel; on a device the host waits for the
// number.
std::uint64_t hash_of(const Context& context, const SparsityPattern& pattern);

namespace PROTEAN_HIDDEN detail {
// Whether both are the very same arrays. Nothing is read.
bool same_arrays(const SparsityPattern& a, const SparsityPattern& b) noexcept;
}  // namespace detail

// Sizes, hash and addresses of a pattern. It keeps no array alive.
class PatternMark {
 public:
  PatternMark() = default;
  // context: of the space in which the pattern lies.
  PatternMark(const Context& context, const SparsityPattern& pattern);

  // Whether it is this pattern: rows, columns and their order in each row. Arrays of an owner that still exists are
  // known by their address. All others are read, since memory at the same address may have been freed or written.
  bool is(const Context& context, const SparsityPattern& pattern) const;
  // Throws ShapeMismatch unless it is this pattern, of new values.
  void require(const Context& context, const SparsityPattern& pattern) const;

 private:
  std::int64_t rows_ = 0, cols_ = 0, nonzeros_ = 0;
  std::uint64_t hash_ = 0;
  const void* row_ptr_ = nullptr;
  const std::int32_t* col_ = nullptr;
  std::weak_ptr<const void> owner_;
};

}  // namespace protean
