// The templates of sweeps.hpp.
#pragma once
#include <utility>

#include "core/parallel.hpp"
#include "preconditioners/triangular/sweeps.hpp"

namespace protean::detail {

// Rows and entries from which a stage is worth a parallel region, and the share of the work in such stages from which
// the order by stages is worth more than the order in memory.
inline constexpr std::int64_t worth_a_region = 8192;
inline constexpr double worth_the_order = 0.5;

template <class Lower, class Upper>
void set_row_sizes(const ContextPtr& context, SweepPattern& pattern, Lower lower, Upper upper) {
  const std::int64_t n = pattern.n;
  pattern.lower_ptr = Buffer<std::int64_t>(context, n + 1);
  pattern.upper_ptr = Buffer<std::int64_t>(context, n + 1);
  pattern.lower_ptr[0] = 0;
  for (std::int64_t i = 0; i < n; ++i) pattern.lower_ptr[i + 1] = pattern.lower_ptr[i] + lower(i);
  pattern.upper_ptr[0] = pattern.lower_ptr[n];
  for (std::int64_t k = 0; k < n; ++k) pattern.upper_ptr[k + 1] = pattern.upper_ptr[k] + upper(n - 1 - k);
  pattern.col = Buffer<std::int32_t>(context, pattern.upper_ptr[n]);
}

template <class Work>
Stages::Stages(const ContextPtr& context, const Buffer<std::int32_t>& stage, std::int32_t count, bool natural,
               bool backward, Work work)
    : order_(context, stage.size()), natural_(natural), backward_(backward) {
  const std::int64_t n = stage.size();
  first_.assign(static_cast<std::size_t>(count) + 1, 0);
  std::vector<std::int64_t> weight(static_cast<std::size_t>(count), 0);
  for (std::int64_t i = 0; i < n; ++i) ++first_[stage[i] + 1], weight[stage[i]] += 1 + work(i);
  for (std::int32_t s = 0; s < count; ++s) first_[s + 1] += first_[s];
  std::vector<std::int64_t> next(first_.begin(), first_.end() - 1);
  for (std::int64_t i = 0; i < n; ++i) order_[next[stage[i]]++] = static_cast<std::int32_t>(i);
  std::int64_t all = 0, wide = 0;
  for (std::int32_t s = 0; s < count; ++s) {
    const bool parallel = weight[s] >= worth_a_region;
    all += weight[s], wide += parallel ? weight[s] : 0;
    if (!parallel && !stretches_.empty() && !stretches_.back().parallel)
      stretches_.back().end = first_[s + 1];
    else
      stretches_.push_back({first_[s], first_[s + 1], parallel});
  }
  parallel_share_ = all > 0 ? static_cast<double>(wide) / static_cast<double>(all) : 0;
}

inline bool Stages::parallel(const Context& context) const noexcept {
  return context.threads() > 1 && parallel_share_ >= (natural_ ? worth_the_order : 0);
}

template <class Row>
void Stages::run(const Context& context, Row row) const {
  const std::int64_t n = order_.size();
  if (natural_ && !parallel(context)) {
    if (backward_)
      for (std::int64_t i = n; i-- > 0;) row(i, 0);
    else
      for (std::int64_t i = 0; i < n; ++i) row(i, 0);
    return;
  }
  for (const Stretch& stretch : stretches_) {
    const auto rows = [&](int part, int parts) {
      const Range range = even_range(stretch.end - stretch.begin, part, parts);
      for (std::int64_t k = stretch.begin + range.begin; k < stretch.begin + range.end; ++k)
        row(static_cast<std::int64_t>(order_[k]), part);
    };
    if (stretch.parallel)
      protean::parallel(context, rows);
    else
      rows(0, 1);
  }
}

// The passes of jacobi_sweeps(): pass(upper, rhs, from, scale, to) computes to := scale .* (rhs - N from). The last
// pass of each triangle writes to work_a and z, so that no vector is copied; c = D w stays in work_a.
template <class T, class Pass>
void jacobi_passes(std::int64_t count, const T* r, const T* d, T* z, T* work_a, T* work_b, Pass pass) {
  const T* from = r;
  for (std::int64_t k = 1; k <= count; ++k) {
    T* const to = (count - k) % 2 == 0 ? work_a : z;
    pass(false, r, from, k == count ? d : nullptr, to);
    from = to;
  }
  for (std::int64_t k = 1; k <= count; ++k) {
    T* const to = (count - k) % 2 == 0 ? z : work_b;
    pass(true, static_cast<const T*>(work_a), from, nullptr, to);
    from = to;
  }
}

}  // namespace protean::detail
