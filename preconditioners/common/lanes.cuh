// Kernels in which some neighbouring threads of a warp, 1, 2, 4 ... 32 lanes, share a row. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/device/kernel_tools.cuh"

namespace protean::device {

// Calls f(std::integral_constant<int, lanes>).
template <class F>
void with_lanes(int lanes, F f) {
  switch (lanes) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 8:
      return f(std::integral_constant<int, 8>());
    case 16:
      return f(std::integral_constant<int, 16>());
    default:
      return f(std::integral_constant<int, 32>());
  }
}
inline std::int64_t blocks_of_rows(std::int64_t rows, int lanes) {
  return (rows * lanes + block_size - 1) / block_size;
}

// The entries of a row for which its lanes have room, of that many bytes an entry: rows of twice the mean length, as
// far as a block gets shared memory without asking. An even number.
inline std::int32_t room_for_rows(std::int64_t entries, std::int64_t rows, int lanes, std::size_t bytes) {
  constexpr std::int64_t of_block = 48 * 1024;
  const std::int64_t wanted = rows > 0 ? 2 * (entries / rows) + 8 : 0,
                     most = of_block / (block_size / lanes) / static_cast<std::int64_t>(bytes);
  return static_cast<std::int32_t>((wanted < most ? wanted : most) / 2 * 2);
}

// The lanes of a warp that share this thread's row. Other rows of the warp may have left their loops.
template <int lanes>
__device__ inline unsigned lanes_of_row() {
  if constexpr (lanes == 32) {
    return 0xffffffffu;
  } else {
    const int first = static_cast<int>(threadIdx.x % 32) / lanes * lanes;
    return ((1u << lanes) - 1u) << first;
  }
}
template <int lanes>
__device__ inline std::int64_t place_of_thread() {
  return (std::int64_t{blockIdx.x} * block_size + threadIdx.x) / lanes;
}

}  // namespace protean::device
