#include "preconditioners/level_solve.hpp"

#include <algorithm>

namespace protean::detail {
namespace {

// The level of each row; returns their number.
std::int32_t find_common_levels(const SweepPattern& pattern, Buffer<std::int32_t>& level) {
  std::fill(level.begin(), level.end(), 0);
  std::int32_t count = 0;
  for (std::int64_t i = 0; i < pattern.n; ++i) {
    std::int32_t own = level[i];
    for (std::int64_t p = pattern.ptr[i]; p < pattern.mid[i]; ++p)
      own = std::max(own, level[pattern.col[p]] + 1);
    level[i] = own, count = std::max(count, own + 1);
    for (std::int64_t p = pattern.mid[i]; p < pattern.ptr[i + 1]; ++p)
      level[pattern.col[p]] = std::max(level[pattern.col[p]], own + 1);
  }
  return count;
}

}  // namespace

template <class T>
void solve_in_order(const SweepPattern& pattern, const SweepValues<T>& values, VectorView<const T> r,
                    VectorView<T> z) {
  const std::int64_t *const ptr = pattern.ptr.data(), *const mid = pattern.mid.data();
  const std::int32_t* const col = pattern.col.data();
  const T *const entries = values.entries.data(), *const d = values.d.data();
  T* const zs = z.data;
  for (std::int64_t i = 0; i < pattern.n; ++i) {
    T sum = r.data[i];
    for (std::int64_t p = ptr[i]; p < mid[i]; ++p) sum -= entries[p] * zs[col[p]];
    zs[i] = sum;
  }
  for (std::int64_t i = pattern.n; i-- > 0;) {
    T sum = d[i] * zs[i];
    for (std::int64_t p = mid[i]; p < ptr[i + 1]; ++p) sum -= entries[p] * zs[col[p]];
    zs[i] = sum;
  }
}

template <class T>
std::unique_ptr<LevelSolve<T>> LevelSolve<T>::make(const ContextPtr& context, const SweepPattern& pattern) {
  // Rows are read from memory either way. Two threads that solve rows of 6 entries by levels take as long as one in order (a
  // 7-point stencil, 1,000,000 rows: 14 and 15 ms), for rows of 76 half as long (elasticity, 200,000 rows: 23 and 53 ms).
  constexpr std::int64_t entries_for_two = 16;
  const int threads = context->threads();
  if (threads == 1 || (threads == 2 && pattern.col.size() < entries_for_two * pattern.n)) return nullptr;
  Buffer<std::int32_t> level(context, pattern.n);
  const std::int32_t count = find_common_levels(pattern, level);
  std::unique_ptr<LevelSolve> made(new LevelSolve(context, pattern, level, count));
  return made->upwards_.parallel_share() >= worth_the_order ? std::move(made) : nullptr;
}

template <class T>
std::unique_ptr<LevelSolve<T>> LevelSolve<T>::make(const ContextPtr& context, const SweepPattern& pattern,
                                                   const Buffer<std::int32_t>& level, std::int32_t count) {
  return std::unique_ptr<LevelSolve>(new LevelSolve(context, pattern, level, count));
}

template <class T>
LevelSolve<T>::LevelSolve(const ContextPtr& context, const SweepPattern& pattern,
                          const Buffer<std::int32_t>& level, std::int32_t count)
    : context_(context),
      row_(context, pattern.n),
      ptr_(context, pattern.n + 1),
      mid_(context, pattern.n),
      col_(context, pattern.col.size()),
      entries_(context, pattern.col.size()),
      d_(context, pattern.n),
      w_(context, pattern.n) {
  const std::int64_t n = pattern.n;
  std::vector<std::int64_t> next(static_cast<std::size_t>(count) + 1, 0);
  for (std::int64_t i = 0; i < n; ++i) ++next[static_cast<std::size_t>(level[i]) + 1];
  for (std::size_t l = 0; l < static_cast<std::size_t>(count); ++l) next[l + 1] += next[l];
  Buffer<std::int32_t> place(context, n), of_place(context, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t k = next[static_cast<std::size_t>(level[i])]++;
    row_[k] = static_cast<std::int32_t>(i), place[i] = static_cast<std::int32_t>(k);
  }
  ptr_[0] = 0;
  for (std::int64_t k = 0; k < n; ++k)
    ptr_[k + 1] = ptr_[k] + pattern.ptr[row_[k] + 1] - pattern.ptr[row_[k]];
  protean::parallel(useful_parts(*context, col_.size()), [&](int part, int parts) {
    const Range places = even_range(n, part, parts);
    for (std::int64_t k = places.begin; k < places.end; ++k) {
      const std::int64_t i = row_[k], begin = pattern.ptr[i];
      of_place[k] = level[i], mid_[k] = ptr_[k] + pattern.mid[i] - begin;
      for (std::int64_t p = begin; p < pattern.ptr[i + 1]; ++p)
        col_[ptr_[k] + p - begin] = place[pattern.col[p]];
    }
  });
  const auto work = [&](std::int64_t k) { return (ptr_[k + 1] - ptr_[k]) / 2; };
  upwards_ = Stages(context, of_place, count, false, false, work);
  for (std::int64_t k = 0; k < n; ++k) of_place[k] = count - 1 - of_place[k];
  downwards_ = Stages(context, of_place, count, false, false, work);
}

template <class T>
void LevelSolve<T>::set_values(const SweepPattern& pattern, const SweepValues<T>& values) {
  protean::parallel(useful_parts(*context_, col_.size()), [&](int part, int parts) {
    const Range places = even_range(pattern.n, part, parts);
    for (std::int64_t k = places.begin; k < places.end; ++k) {
      const std::int64_t i = row_[k];
      std::copy(values.entries.data() + pattern.ptr[i], values.entries.data() + pattern.ptr[i + 1],
                entries_.data() + ptr_[k]);
      d_[k] = values.d[i];
    }
  });
}

template <class T>
void LevelSolve<T>::solve(VectorView<const T> r, VectorView<T> z) const {
  const std::lock_guard lock(mutex_);
  const std::int64_t *const ptr = ptr_.data(), *const mid = mid_.data();
  const std::int32_t *const col = col_.data(), *const row = row_.data();
  const T *const entries = entries_.data(), *const d = d_.data(), *const rs = r.data;
  T *const w = w_.data(), *const zs = z.data;
  upwards_.run(*context_, [=](std::int64_t k, int) {
    T sum = rs[row[k]];
    for (std::int64_t p = ptr[k]; p < mid[k]; ++p) sum -= entries[p] * w[col[p]];
    w[k] = sum;
  });
  downwards_.run(*context_, [=](std::int64_t k, int) {
    T sum = d[k] * w[k];
    for (std::int64_t p = mid[k]; p < ptr[k + 1]; ++p) sum -= entries[p] * w[col[p]];
    w[k] = sum, zs[row[k]] = sum;
  });
}

template void solve_in_order<float>(const SweepPattern&, const SweepValues<float>&, VectorView<const float>,
                                    VectorView<float>);
template void solve_in_order<double>(const SweepPattern&, const SweepValues<double>&,
                                     VectorView<const double>, VectorView<double>);
template class LevelSolve<float>;
template class LevelSolve<double>;

}  // namespace protean::detail
