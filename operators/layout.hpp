// Shows the arrays of a storage format as they are in memory, for tests and for people who study a format.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// A copy of one array. Every number is converted to double without rounding, since indices and offsets are
// below 2^53. A pointer array is copied as it is stored, so its last number is the length of the array it
// points into.
struct LayoutArray {
  std::string name;       // as in the header comment of the format: "row_ptr", "col", "values"
  std::string_view type;  // "int8", "uint16", "int32", "int64", "float", "double", ...
  std::vector<double> numbers;
};

// Ability of an assembled matrix: returns copies of its arrays, in the order of the format's header comment.
// Meant for small matrices; no computation uses it.
class HasLayout {
 public:
  virtual ~HasLayout() = default;
  virtual std::vector<LayoutArray> layout() const = 0;
};

// A LayoutArray of `size` host numbers of type N at `data`.
template <class N>
PROTEAN_HIDDEN LayoutArray layout_array(std::string name, const N* data, std::int64_t size) {
  static_assert(std::is_arithmetic_v<N>);
  constexpr std::string_view floating[] = {"float", "double"};
  constexpr std::string_view whole[2][4] = {{"uint8", "uint16", "uint32", "uint64"},
                                            {"int8", "int16", "int32", "int64"}};
  constexpr int width = sizeof(N) == 1 ? 0 : sizeof(N) == 2 ? 1 : sizeof(N) == 4 ? 2 : 3;
  std::string_view type = whole[std::is_signed_v<N>][width];
  if constexpr (std::is_floating_point_v<N>) type = floating[sizeof(N) == 8];
  return {std::move(name), type, std::vector<double>(data, data + size)};
}

// The same for anything with data() and size(): Buffer, std::vector, std::span.
template <class Array>
PROTEAN_HIDDEN LayoutArray layout_array(std::string name, const Array& array) {
  return layout_array(std::move(name), array.data(), static_cast<std::int64_t>(array.size()));
}

}  // namespace protean
