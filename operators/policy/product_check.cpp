#include "operators/policy/product_check.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/blas1.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"

namespace protean::detail {

// It has its own loops instead of the loops of blas1.hpp, because it runs next to a solve, and the context's vector
// kernels may belong to a library that serves one thread at a time.

template <class T>
ProductCheck<T>::ProductCheck(const ContextPtr& context, const CsrMatrix<T>& csr, double relative)
    : context_(context), x_(context, csr.cols()), bounds_(context, csr.rows()) {
  const DeviceWork work(*context);
#if defined(PROTEAN_HAVE_CUDA)
  if (context->space() == Space::device && !context->simulated()) {
    const detail::DeviceScope scope(*context);
    device_sample<T>(*context, x_);
    device_bounds<T>(*context, csr, x_, relative, bounds_);
    return;
  }
#endif
  parallel(*context, [&](int part, int parts) {
    const Range range = even_range(csr.cols(), part, parts);
    for (std::int64_t i = range.begin; i < range.end; ++i) x_[i] = sample_value<T>(i);
  });
  const auto borders = balanced_row_borders(csr.pattern, context->threads());
  parallel(*context, [&](int part, int) {
    for (std::int64_t row = borders[part]; row < borders[part + 1]; ++row) {
      double sum = 0;
      const std::int64_t end = csr.pattern.row_ptr[row + 1];
      for (std::int64_t k = csr.pattern.row_ptr[row]; k < end; ++k)
        sum += std::fabs(static_cast<double>(csr.values[k]) * static_cast<double>(x_[csr.pattern.col[k]]));
      const double terms = static_cast<double>(csr.pattern.row_length(row) + 2);
      bounds_[row] = static_cast<T>((2 * terms * std::numeric_limits<T>::epsilon() + relative) * sum);
    }
  });
}

template <class T>
void ProductCheck<T>::keep(const LinearOperator<T>& matrix) {
  Vector<T> y(context_, bounds_.size());
  matrix.apply(x_, y);
  kept_ = std::move(y);
}

template <class T>
std::int64_t ProductCheck<T>::differing_rows(const LinearOperator<T>& other) const {
  Vector<T> y(context_, bounds_.size());
  other.apply(x_, y);
  const DeviceWork work(*context_);
#if defined(PROTEAN_HAVE_CUDA)
  if (context_->space() == Space::device && !context_->simulated()) {
    Vector<T> result(context_, 1);
    T rows = 0;
    const detail::DeviceScope scope(*context_);
    device_count_differing<T>(*context_, kept_, y, bounds_, result.data());
    copy<T>(*context_, result.view(), {&rows, 1});
    return static_cast<std::int64_t>(rows);
  }
#endif
  std::vector<std::int64_t> differing(static_cast<std::size_t>(context_->threads()), 0);
  parallel(*context_, [&](int part, int parts) {
    const Range range = even_range(y.size(), part, parts);
    std::int64_t count = 0;
    for (std::int64_t i = range.begin; i < range.end; ++i)
      count += !(std::fabs(y[i] - kept_[i]) <= bounds_[i]) && std::isfinite(bounds_[i]);
    differing[part] = count;
  });
  std::int64_t total = 0;
  for (const std::int64_t count : differing) total += count;
  return total;
}

template class ProductCheck<float>;
template class ProductCheck<double>;

}  // namespace protean::detail
