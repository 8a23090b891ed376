// Arrays of a program in host memory that know their lengths: std::vector, std::array, std::span and the like.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <protean/core/export.hpp>
#include <protean/core/vector.hpp>

namespace PROTEAN_EXPORT protean {

// An array with contiguous entries, data() and size(). Not the vectors of this library, which know their memory space.
template <class A>
concept HostArray = requires(A& a) {
  typename std::remove_cvref_t<A>::value_type;
  { a.data() } -> std::convertible_to<const void*>;
  { a.size() } -> std::convertible_to<std::size_t>;
};

namespace detail {

template <class A>
using EntryOf = std::remove_cv_t<typename std::remove_cvref_t<A>::value_type>;

template <class A>
VectorView<const EntryOf<A>> read_view(const A& array) noexcept {
  return {array.data(), static_cast<std::int64_t>(array.size()), Space::host};
}
template <class A>
VectorView<EntryOf<A>> write_view(A& array) noexcept {
  return {array.data(), static_cast<std::int64_t>(array.size()), Space::host};
}

}  // namespace detail
}  // namespace protean
