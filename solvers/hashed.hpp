// Numbers that look random, the same on every machine and in every run. Private to solvers/.
#pragma once
#include <cstdint>

#include "core/context.hpp"
#include "core/host_device.hpp"
#include "core/vector.hpp"

namespace protean::detail {

// Number i, in [-1, 1): splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
PROTEAN_HOST_DEVICE inline double hashed(std::uint64_t i) noexcept {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

// v_i := number first + i, made where v lies. Takes no memory.
template <class T>
void fill_hashed(const Context& context, std::uint64_t first, VectorView<T> v);
#if defined(PROTEAN_HAVE_CUDA)
template <class T>
void device_fill_hashed(const Context& context, std::uint64_t first, VectorView<T> v);  // hashed.cu
#endif

}  // namespace protean::detail
