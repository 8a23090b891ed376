#include "preconditioners/narrow/round.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"

namespace protean::detail {
namespace {

bool on_gpu([[maybe_unused]] const Context& context) noexcept {
#if defined(PROTEAN_HAVE_CUDA)
  return context.space() == Space::device && !context.simulated();
#else
  return false;
#endif
}

// The largest |f(i)|, i = 0 .. n-1; a NaN is larger than all. The bits of numbers without their signs are ordered as
// the numbers, which makes these loops loops of vectors.
template <class Number, class Bits, class F>
Number largest_size(const Context& context, std::int64_t n, F f) {
  std::atomic<Bits> all{0};
  parallel(useful_parts(context, n), [&](int part, int parts) {
    const Range mine = even_range(n, part, parts);
    Bits most = 0;
    for (std::int64_t i = mine.begin; i < mine.end; ++i)
      most = std::max(most, std::bit_cast<Bits>(f(i)) & std::numeric_limits<Bits>::max());
    for (Bits seen = all.load(); most > seen && !all.compare_exchange_weak(seen, most);) {}
  });
  return std::bit_cast<Number>(all.load());
}

// to := s r. Returns the largest |to_i|.
float round_scaled(const Context& context, const VectorView<const double>& r, double s, float* to) {
  const double* const from = r.data;
  return largest_size<float, std::int32_t>(
      context, r.size, [=](std::int64_t i) { return to[i] = static_cast<float>(s * from[i]); });
}

}  // namespace

void round_vector(const Context& context, VectorView<const double> r, int centre, VectorView<float> to,
                  double* numbers) {
#if defined(PROTEAN_HAVE_CUDA)
  if (on_gpu(context)) return device::round_vector(context, r, centre, to, numbers);
#endif
  const DeviceWork work(context, {r.data, to.data, numbers});
  if (work.ended()) return;
  double& scale = numbers[round_blocks];
  scale = 1;
  // One pass is enough for most vectors, and a second one for most others.
  double largest = round_scaled(context, r, 1, to.data);
  if (std::isnan(largest)) return;
  if (largest < static_cast<double>(std::numeric_limits<float>::min()) || std::isinf(largest))
    largest = largest_size<double, std::int64_t>(context, r.size, [&](std::int64_t i) { return r.data[i]; });
  const int e = exponent_for(largest, centre);
  if (e == 0) return;
  scale = two_to(e);
  (void)round_scaled(context, r, scale, to.data);
}

void widen_vector(const Context& context, double alpha, VectorView<const float> z, const double* numbers,
                  double beta, VectorView<double> y) {
#if defined(PROTEAN_HAVE_CUDA)
  if (on_gpu(context)) return device::widen_vector(context, alpha, z, numbers, beta, y);
#endif
  const DeviceWork work(context, {z.data, numbers, y.data});
  if (work.ended()) return;
  const double factor = alpha / numbers[round_blocks];
  const float* const from = z.data;
  double* const to = y.data;
  parallel(useful_parts(context, y.size), [&](int part, int parts) {
    const Range mine = even_range(y.size, part, parts);
    if (beta == 0)
      for (std::int64_t i = mine.begin; i < mine.end; ++i) to[i] = factor * static_cast<double>(from[i]);
    else
      for (std::int64_t i = mine.begin; i < mine.end; ++i)
        to[i] = factor * static_cast<double>(from[i]) + beta * to[i];
  });
}

namespace {

// f(i, part) for the rows.
template <class F>
void for_rows_of(const Context& context, std::int64_t rows, std::int64_t columns, F f) {
  parallel(useful_parts(context, rows * columns), [&](int part, int parts) {
    const Range mine = even_range(rows, part, parts);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) f(i, part);
  });
}

}  // namespace

void round_columns(const Context& context, MultiVectorView<const double> R, int centre,
                   MultiVectorView<float> to, double* scales) {
  const std::int64_t k = R.columns;
  double* const maxima = scales + k;  // the maxima of each part
  std::fill(maxima, maxima + std::int64_t{context.threads()} * k, 0.0);
  for_rows_of(context, R.rows, k, [&](std::int64_t i, int part) {
    double* const most = maxima + std::int64_t{part} * k;
    for (std::int64_t j = 0; j < k; ++j) {
      const double value = R(i, j), size = std::abs(value);
      to(i, j) = static_cast<float>(value);
      if (!(size <= most[j])) most[j] = std::isnan(most[j]) ? most[j] : size;  // a NaN stays
    }
  });
  bool ones = true;
  for (std::int64_t j = 0; j < k; ++j) {
    double most = 0;
    for (int part = 0; part < context.threads(); ++part)
      if (const double own = maxima[std::int64_t{part} * k + j]; !(own <= most))
        most = std::isnan(most) ? most : own;
    scales[j] = two_to(exponent_for(most, centre));
    ones = ones && scales[j] == 1;
  }
  if (ones) return;
  for_rows_of(context, R.rows, k, [&](std::int64_t i, int) {
    for (std::int64_t j = 0; j < k; ++j) to(i, j) = static_cast<float>(scales[j] * R(i, j));
  });
}

void widen_columns(const Context& context, double alpha, MultiVectorView<const float> Z, const double* scales,
                   double beta, MultiVectorView<double> Y) {
  for_rows_of(context, Y.rows, Y.columns, [&](std::int64_t i, int) {
    for (std::int64_t j = 0; j < Y.columns; ++j) {
      const double value = alpha / scales[j] * static_cast<double>(Z(i, j));
      Y(i, j) = beta == 0 ? value : value + beta * Y(i, j);
    }
  });
}

RoundedRows round_rows(const ContextPtr& context, const CsrMatrix<double>& csr) {
  const auto values = std::make_shared<Buffer<float>>(context, csr.nonzeros());
  RoundedRows made;
  made.csr.pattern = csr.pattern, made.csr.values = values->data(), made.csr.values_owner = values;
  if (on_gpu(*context)) {
#if defined(PROTEAN_HAVE_CUDA)
    unsigned long long found[] = {static_cast<unsigned long long>(csr.rows()), 0};
    Buffer<unsigned long long> there(context, 2);
    copy_bytes(*context, there.data(), Space::device, found, Space::host, sizeof found);
    device::round_rows(*context, csr, values->data(), there.data());
    copy_bytes(*context, found, Space::host, there.data(), Space::device, sizeof found);
    const auto bad = static_cast<std::int64_t>(found[0]);
    made.bad_row = bad < csr.rows() ? bad : -1, made.largest = std::bit_cast<double>(found[1]);
#endif
    return made;
  }
  const DeviceWork work(*context);
  const auto borders = balanced_row_borders(csr.pattern, useful_parts(*context, csr.nonzeros()));
  struct Found {
    std::int64_t bad_row = -1;
    double largest = 0;
  };
  std::vector<Found> found(borders.size() - 1);
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    parallel(static_cast<int>(found.size()), [&](int part, int) {
      Found own;
      const auto p = static_cast<std::size_t>(part);
      for (std::int64_t i = borders[p]; i < borders[p + 1]; ++i)
        if (round_row(ptr, csr.pattern.col, csr.values, i, values->data(), own.largest) && own.bad_row < 0)
          own.bad_row = i;
      found[p] = own;
    });
  });
  for (const Found& one : found) {
    if (made.bad_row < 0) made.bad_row = one.bad_row;
    made.largest = std::max(made.largest, one.largest);
  }
  return made;
}

}  // namespace protean::detail
