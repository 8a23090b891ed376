// What float storage does with vectors and matrices of a solve in double precision: they are rounded to float, and
// results go back. Private to preconditioners/.
#pragma once
#include <bit>
#include <cstdint>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "core/multi_vector.hpp"
#include "core/vector.hpp"

namespace protean::detail {

// Entries of a matrix that float storage takes: they and their inverses are normal numbers in float.
inline constexpr double least_rounded = 0x1p-126, most_rounded = 0x1p126;

// A vector r becomes 2^e r in float. e is 0 if the largest |r_i| lies between 2^(centre - 40) and 2^(centre + 20); else
// it brings that to about 2^centre, so that r may be of any size. A power of two rounds nothing. Zeros, and vectors
// with an entry that is not finite, have e = 0.
constexpr int room_below = 40, room_above = 20;
PROTEAN_HOST_DEVICE inline int exponent_for(double largest, int centre) {
#if defined(__CUDA_ARCH__)
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(largest));
#else
  const auto bits = std::bit_cast<std::uint64_t>(largest);
#endif
  const int power = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  if (largest == 0 || power > 1023) return 0;
  if (power >= centre - room_below && power <= centre + room_above) return 0;
  const int wanted = centre - power;
  return wanted > 1000 ? 1000 : wanted < -1000 ? -1000 : wanted;
}
// 2^e, |e| <= 1022
PROTEAN_HOST_DEVICE inline double two_to(int e) {
  const auto bits = static_cast<std::uint64_t>(e + 1023) << 52;
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return std::bit_cast<double>(bits);
#endif
}

// The maxima of this many blocks, followed by the scale: numbers that round_vector() and widen_vector() share.
inline constexpr std::int64_t round_blocks = 512, round_numbers = round_blocks + 1;

// to := s r, rounded, with s = 2^exponent_for(max |r_i|, centre), which is kept in `numbers` (round_numbers of them, in
// the space of the context). On a device nothing waits for the host, and the kernels heed the stop.
void round_vector(const Context& context, VectorView<const double> r, int centre, VectorView<float> to,
                  double* numbers);
// y := alpha / s z + beta y. With beta == 0 y is not read.
void widen_vector(const Context& context, double alpha, VectorView<const float> z, const double* numbers,
                  double beta, VectorView<double> y);

// The same for each column, in host memory. scales: (threads + 1) k numbers, of which the first k are the scales.
void round_columns(const Context& context, MultiVectorView<const double> R, int centre,
                   MultiVectorView<float> to, double* scales);
void widen_columns(const Context& context, double alpha, MultiVectorView<const float> Z, const double* scales,
                   double beta, MultiVectorView<double> Y);

// The entries of a matrix in float.
struct RoundedRows {
  CsrMatrix<float> csr;  // shares the pattern
  // The first row that float cannot hold: with a finite entry above most_rounded, with a largest or a diagonal entry
  // that is not zero and below least_rounded; -1 if there is none. Smaller entries next to a larger one become zero or
  // lose digits: their error is within float's rounding of the largest.
  std::int64_t bad_row = -1;
  double largest = 0;  // of the finite |a_ij|
};
// csr lies in the space of the context; on a device the host waits. Entries that are not finite stay that.
RoundedRows round_rows(const ContextPtr& context, const CsrMatrix<double>& csr);

// What is wrong with a row. Updates the largest finite |a_ij|, and writes the entries in float.
template <class Pointer>
PROTEAN_HOST_DEVICE bool round_row(const Pointer* ptr, const std::int32_t* col, const double* a,
                                   std::int64_t i, float* to, double& largest) {
  double most = 0;
  bool bad = false, finite = true;
  for (auto p = ptr[i]; p < ptr[i + 1]; ++p) {
    const double value = a[p], size = value < 0 ? -value : value;
    to[p] = static_cast<float>(value);
    if (!(value - value == 0)) {
      finite = false;
      continue;
    }
    if (size > most) most = size;
    if (size > most_rounded || (col[p] == i && size > 0 && size < least_rounded)) bad = true;
  }
  if (most > largest) largest = most;
  return bad || (finite && most > 0 && most < least_rounded);
}

}  // namespace protean::detail

// Defined in round.cu. CUDA builds only.
namespace protean::device {

void round_vector(const Context& context, VectorView<const double> r, int centre, VectorView<float> to,
                  double* numbers);
void widen_vector(const Context& context, double alpha, VectorView<const float> z, const double* numbers,
                  double beta, VectorView<double> y);
// found[0]: the smallest number of a bad row, at first the number of rows; found[1]: the bits of the largest |a_ij|, at
// first 0.
void round_rows(const Context& context, const CsrMatrix<double>& csr, float* to, unsigned long long* found);

}  // namespace protean::device
