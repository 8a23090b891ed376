// The largest eigenvalue of D^-1 A in device memory, by the power method from the same first vector as on a host.
// Private to preconditioners/.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/buffer.hpp"
#include "core/transfer.hpp"
#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/multigrid/host/prolongator.hpp"
#include "preconditioners/sparse/device_work_inl.hpp"

namespace protean::detail::levels {

// State `chunk * k` of xorshift64 for each k, so that threads find the numbers of spectral_radius() (prolongator.cpp)
// which one thread finds one after another. A step is linear over the bits of the state: jump[k] maps a state to that
// `chunk * 2^k` steps later; column b is what becomes of bit b.
inline constexpr std::int64_t xorshift_chunk = 64;
inline constexpr int xorshift_jumps = 26;  // 2^31 numbers and more
using XorshiftJump = std::array<std::uint64_t, 64>;
PROTEAN_HOST_DEVICE inline std::uint64_t xorshift(std::uint64_t state) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
PROTEAN_HOST_DEVICE inline std::uint64_t jumped(const std::uint64_t* jump, std::uint64_t state) {
  std::uint64_t sum = 0;
  for (int b = 0; b < 64; ++b)
    if (state >> b & 1) sum ^= jump[b];
  return sum;
}
inline const std::array<XorshiftJump, xorshift_jumps>& xorshift_table() {
  static const std::array<XorshiftJump, xorshift_jumps> table = [] {
    std::array<XorshiftJump, xorshift_jumps> made{};
    for (std::size_t b = 0; b < 64; ++b) {
      std::uint64_t state = std::uint64_t{1} << b;
      for (std::int64_t k = 0; k < xorshift_chunk; ++k) state = xorshift(state);
      made[0][b] = state;
    }
    for (std::size_t k = 1; k < made.size(); ++k)
      for (std::size_t b = 0; b < 64; ++b) made[k][b] = jumped(made[k - 1].data(), made[k - 1][b]);
    return made;
  }();
  return table;
}

template <class Number, class Work>
void start_vector(const Work& work, std::uint64_t seed, std::int64_t n, Number* x) {
  const auto& table = xorshift_table();
  constexpr std::int64_t size = 64 * xorshift_jumps;
  Buffer<std::uint64_t> jumps(work.context, size);
  copy_bytes(*work.context, jumps.data(), Space::device, table.data(), Space::host, jumps.bytes());
  const std::uint64_t* const jump = jumps.data();
  work.each((n + xorshift_chunk - 1) / xorshift_chunk, [=] PROTEAN_ON_DEVICE(std::int64_t c) {
    std::uint64_t state = seed;
    for (int k = 0; k < xorshift_jumps; ++k)
      if (c >> k & 1) state = jumped(jump + 64 * k, state);
    const std::int64_t end = (c + 1) * xorshift_chunk < n ? (c + 1) * xorshift_chunk : n;
    for (std::int64_t i = c * xorshift_chunk; i < end; ++i) {
      state = xorshift(state);
      x[i] = static_cast<Number>(static_cast<double>(state >> 11) * 0x1p-52 - 1);
    }
  });
}
template <class T, class Work>
bool positive_divisors(const Work& work, std::int64_t n, const T* d) {
  Buffer<unsigned> bad = zeros<unsigned>(work, 1);
  unsigned* const flag = bad.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    if (!(d[i] > T(0)) || !is_finite(d[i]) || !is_finite(T(1) / d[i])) raise(flag, 1);
  });
  return read(work, flag) == 0;
}

// One step of the power method: y := A x / (D ||x||), and the terms of ||y||^2.
template <class T>
struct PowerStep {
  MatrixView<T> A;
  const double *divisors, *x, *norm;  // the square of ||x||
  double* y;
  template <class Own>
  PROTEAN_HOST_DEVICE double operator()(std::int64_t i, const Own& own) const {
    double sum = 0;
    for (std::int32_t p = A.ptr[i] + own.id; p < A.ptr[i + 1]; p += Own::count)
      sum += static_cast<double>(A.values[p]) * x[A.col[p]];
    sum = own.sum(sum);
    const double weight = size_of(divisors[i]), factor = 1 / std::sqrt(*norm);
    const double next = factor * sum / weight;
    if (own.id == 0) y[i] = next;
    return weight * next * next;
  }
};

// An estimate of the largest eigenvalue of D^-1 A, as on a host.
template <class T, class Work>
double spectral_radius(const Work& work, const DeviceLevel<T>& level, const double* divisors) {
  const std::int64_t n = level.csr.rows();
  if (n == 0) return 1;
  const MatrixView<T> A = view_of(level.csr);
  Buffer<double> one(work.context, n), other(work.context, n), norms(work.context, spectral_steps + 1);
  Buffer<Count> bound = zeros<Count>(work, 1);
  double *x = one.data(), *y = other.data();
  start_vector(work, spectral_seed, n, x);
  work.largest(n, bound.data(), [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    double sum = 0;
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) sum += size_of(static_cast<double>(A.values[p]));
    return sum / size_of(divisors[i]);
  });
  work.sum(n, norms.data(),
           [=] PROTEAN_ON_DEVICE(std::int64_t i) { return size_of(divisors[i]) * x[i] * x[i]; });
  const int lanes = lanes_for(level.csr.nonzeros(), 2 * n);
  for (int k = 0; k < spectral_steps; ++k) {
    work.sum_rows(n, lanes, norms.data() + k + 1, PowerStep<T>{A, divisors, x, norms.data() + k, y});
    std::swap(x, y);
  }
  std::array<double, spectral_steps + 1> squares{};
  copy_bytes(*work.context, squares.data(), Space::host, norms.data(), Space::device, sizeof squares);
  return spectral_bound(squares, std::bit_cast<double>(read(work, bound.data())));
}

}  // namespace protean::detail::levels
