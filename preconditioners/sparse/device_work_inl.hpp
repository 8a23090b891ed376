// What the steps of device_levels.hpp are made of: the work that runs them, numbers that its threads share, and views
// of matrices in device memory. A Work has
//   context                                the ContextPtr
//   each(n, f)                             f(i) for i in 0 .. n - 1, in any order
//   rows(n, lanes, f)                      f(i, own), where `own` are the lanes of a warp that share i
//   tables(n, lanes, size, f)              f(i, own, table), with a table of that many numbers for each group of lanes:
//                                          -1 at first, and left so by f
//   rows_with_memory(n, lanes, bytes, f)   f(i, own, memory), with that many bytes that these lanes share, of any
//                                          content; a multiple of 8, and memory_of_group(lanes) at most
//   sum(n, result, f)                      result := the sum of f(i), in a fixed order
//   sum_rows(n, lanes, result, f)          the same of f(i, own), whose lanes return the same
//   largest(n, result, f)                  result := the largest f(i) >= 0
//   fold(n, steps, f)                      f(step, e, pivot) for all e, step after step; pivot: the best that the step
//                                          before has returned (EliminateEntry)
//   scan(data, n)                          data[i] := data[0] + ... + data[i - 1]
//   sort(keys, items, n, bits)             pairs by their keys, stable
//   fill(data, n, byte)
// All are queued; read() waits. device_levels.cu has the work of a GPU, device_levels.cpp the work of the simulated
// device. Private to preconditioners/.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "core/transfer.hpp"
#include "preconditioners/sparse/sparse_work.hpp"

#if defined(__CUDACC__)
#define PROTEAN_ON_DEVICE __device__
#else
#define PROTEAN_ON_DEVICE
#endif

namespace protean::detail::levels {

using Count = unsigned long long;

// What threads do to a number that they share. The results do not depend on their order, except for take().
PROTEAN_HOST_DEVICE inline void raise(unsigned* flags, unsigned more) {
#if defined(__CUDA_ARCH__)
  atomicOr(flags, more);
#else
  *flags |= more;
#endif
}
PROTEAN_HOST_DEVICE inline void raise_to(Count* number, Count least) {
#if defined(__CUDA_ARCH__)
  atomicMax(number, least);
#else
  if (*number < least) *number = least;
#endif
}
PROTEAN_HOST_DEVICE inline void lower_to(Count* number, Count most) {
#if defined(__CUDA_ARCH__)
  atomicMin(number, most);
#else
  if (*number > most) *number = most;
#endif
}
PROTEAN_HOST_DEVICE inline std::int32_t take(std::int32_t* counter) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(counter, 1);
#else
  return (*counter)++;
#endif
}
// Writes key if there is none (-1). Returns what was there.
PROTEAN_HOST_DEVICE inline std::int32_t claim(std::int32_t* place, std::int32_t key) {
#if defined(__CUDA_ARCH__)
  return atomicCAS(place, -1, key);
#else
  const std::int32_t was = *place;
  if (was < 0) *place = key;
  return was;
#endif
}
// What other lanes may just have changed by one of these.
PROTEAN_HOST_DEVICE inline std::int32_t seen(const std::int32_t* where) {
#if defined(__CUDA_ARCH__)
  return *const_cast<const volatile std::int32_t*>(where);
#else
  return *where;
#endif
}

PROTEAN_HOST_DEVICE inline double size_of(double a) { return a < 0 ? -a : a; }
template <class T>
PROTEAN_HOST_DEVICE inline bool is_finite(T a) {
  return a - a == T(0);
}
PROTEAN_HOST_DEVICE inline Count bits_of(double size) { return std::bit_cast<Count>(size); }

// The first place from begin on whose number is `least` or more; end if there is none. The numbers ascend.
template <class Number, class Place>
PROTEAN_HOST_DEVICE inline Place lower_bound(const Number* numbers, Place begin, Place end, Number least) {
  while (begin < end) {
    const Place middle = begin + (end - begin) / 2;
    if (numbers[middle] < least)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

// `count` neighbouring threads of a warp; on the simulated device one.
template <int lanes>
struct Lanes {
  int id = 0;
  unsigned mask = 1;
  static constexpr int count = lanes;
  PROTEAN_HOST_DEVICE void sync() const {
#if defined(__CUDA_ARCH__)
    if constexpr (lanes > 1) __syncwarp(mask);
#endif
  }
  // In all lanes, in a fixed order.
  template <class Number>
  PROTEAN_HOST_DEVICE Number sum(Number value) const {
#if defined(__CUDA_ARCH__)
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step, lanes);
#endif
    return value;
  }
  // The number of lane k.
  template <class Number>
  PROTEAN_HOST_DEVICE Number of(Number value, int k) const {
#if defined(__CUDA_ARCH__)
    return __shfl_sync(mask, value, k, lanes);
#else
    (void)k;
    return value;
#endif
  }
  PROTEAN_HOST_DEVICE Count largest(Count value) const {
#if defined(__CUDA_ARCH__)
    for (int step = lanes / 2; step > 0; step /= 2) {
      const Count other = __shfl_xor_sync(mask, value, step, lanes);
      value = value > other ? value : other;
    }
#endif
    return value;
  }
};

struct NodesView {
  const std::int32_t *first, *of;
  std::int32_t size;
  PROTEAN_HOST_DEVICE std::int32_t node(std::int64_t row) const {
    return of ? of[row] : static_cast<std::int32_t>(row) / size;
  }
  PROTEAN_HOST_DEVICE std::int64_t begin(std::int64_t node) const {
    return first ? first[node] : node * size;
  }
  // Each row is a node.
  PROTEAN_HOST_DEVICE bool single() const { return !first && size == 1; }
};
inline NodesView view_of(const DeviceNodes& nodes) {
  return {nodes.first.data(), nodes.of.data(), nodes.size};
}

template <class T>
struct MatrixView {
  const std::int32_t *ptr, *col;
  const T* values;
};
template <class T>
MatrixView<T> view_of(const CsrMatrix<T>& csr) {
  return {csr.pattern.row_ptr.p32, csr.pattern.col, csr.values};
}

// ---- The host's view of device memory.

template <class Work, class Number>
Number read(const Work& work, const Number* where) {
  Number value{};
  copy_bytes(*work.context, &value, Space::host, where, Space::device, sizeof value);
  return value;
}
template <class Number, class Work>
Buffer<Number> zeros(const Work& work, std::int64_t size) {
  Buffer<Number> made(work.context, size);
  work.fill(made.data(), size, 0);
  return made;
}

struct PatternArrays {
  Buffer<std::int32_t> ptr, col;
};
inline SparsityPattern pattern_of(std::int64_t rows, std::int64_t cols, Buffer<std::int32_t> ptr,
                                  Buffer<std::int32_t> col) {
  auto arrays = std::make_shared<PatternArrays>(PatternArrays{std::move(ptr), std::move(col)});
  SparsityPattern made;
  made.rows = rows, made.cols = cols, made.nonzeros = arrays->col.size();
  made.row_ptr.p32 = arrays->ptr.data(), made.col = arrays->col.data();
  made.space = Space::device, made.owner = std::move(arrays);
  return made;
}
template <class T>
CsrMatrix<T> matrix_in(const SparsityPattern& pattern, Buffer<T> values) {
  CsrMatrix<T> made;
  made.pattern = pattern;
  auto owned = std::make_shared<const Buffer<T>>(std::move(values));
  made.values = owned->data(), made.values_owner = std::move(owned);
  return made;
}

// Row pointers of these lengths (n + 1 numbers, of which the last needs no value), and the number of entries.
template <class Work>
std::pair<Buffer<std::int32_t>, std::int64_t> pointers(const Work& work, Buffer<std::int64_t>& lengths) {
  const std::int64_t size = lengths.size();
  work.scan(lengths.data(), size);
  const std::int64_t entries = read(work, lengths.data() + size - 1);
  if (entries > std::numeric_limits<std::int32_t>::max()) throw TooManyEntries();
  Buffer<std::int32_t> ptr(work.context, size);
  const std::int64_t* const from = lengths.data();
  std::int32_t* const to = ptr.data();
  work.each(size, [=] PROTEAN_ON_DEVICE(std::int64_t i) { to[i] = static_cast<std::int32_t>(from[i]); });
  return {std::move(ptr), entries};
}

// As many lanes as items, 1 to 32.
inline int lanes_for(std::int64_t items, std::int64_t rows) {
  int lanes = 1;
  while (lanes < 32 && 2 * lanes * rows <= items) lanes *= 2;
  return lanes;
}

}  // namespace protean::detail::levels
