#include "preconditioners/triangular/level_solve.hpp"

#include <algorithm>

namespace protean::detail {
namespace {

// The level of each row; returns their number.
std::int32_t find_common_levels(const SweepPattern& pattern, Buffer<std::int32_t>& level) {
  std::fill(level.begin(), level.end(), 0);
  std::int32_t count = 0;
  for (std::int64_t i = 0; i < pattern.n; ++i) {
    std::int32_t own = level[i];
    const Range lower = pattern.lower(i), upper = pattern.upper(i);
    for (std::int64_t p = lower.begin; p < lower.end; ++p) own = std::max(own, level[pattern.col[p]] + 1);
    level[i] = own, count = std::max(count, own + 1);
    for (std::int64_t p = upper.begin; p < upper.end; ++p)
      level[pattern.col[p]] = std::max(level[pattern.col[p]], own + 1);
  }
  return count;
}

// start - sum of a_k z[col_k]. Four sums, since one would wait for each of its additions; the last entries one after
// another, since the result that the last of them needs is the last to be known.
template <class T>
inline T minus_products(T start, const T* a, const std::int32_t* col, std::int64_t count, const T* z) {
  T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  std::int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    s0 += a[k] * z[col[k]], s1 += a[k + 1] * z[col[k + 1]];
    s2 += a[k + 2] * z[col[k + 2]], s3 += a[k + 3] * z[col[k + 3]];
  }
  T sum = start - ((s0 + s1) + (s2 + s3));
  for (; k < count; ++k) sum -= a[k] * z[col[k]];
  return sum;
}

// sum[j] -= sum of a_k z(col_k, j) for Lanes columns, each added up in the same order whatever their number is.
template <int Lanes, class T>
inline void minus_products(T* sum, const T* a, const std::int32_t* col, std::int64_t count, const T* z,
                           std::int64_t row_step, std::int64_t column_step) {
  T own[Lanes];
  for (int j = 0; j < Lanes; ++j) own[j] = sum[j];
  for (std::int64_t k = 0; k < count; ++k) {
    const T* const from = z + col[k] * row_step;
    for (int j = 0; j < Lanes; ++j) own[j] -= a[k] * from[j * column_step];
  }
  for (int j = 0; j < Lanes; ++j) sum[j] = own[j];
}

// f(first, lanes) for chunks of 8, 4, 2 and 1 of the columns; lanes() is the constant number of a chunk.
template <class F>
void in_chunks(std::int64_t columns, F f) {
  std::int64_t first = 0;
  const auto all_of = [&](auto lanes) {
    for (; first + lanes() <= columns; first += lanes()) f(first, lanes);
  };
  all_of(std::integral_constant<int, 8>{}), all_of(std::integral_constant<int, 4>{});
  all_of(std::integral_constant<int, 2>{}), all_of(std::integral_constant<int, 1>{});
}

// The solve of solve_in_order() for Lanes columns of which neighbours are column_step apart.
template <int Lanes, class T>
void columns_in_order(const SweepPattern& pattern, const SweepValues<T>& values, const T* r,
                      std::int64_t r_row_step, std::int64_t r_column_step, T* z, std::int64_t z_row_step,
                      std::int64_t z_column_step) {
  const std::int64_t n = pattern.n;
  const std::int64_t *const lower = pattern.lower_ptr.data(), *const upper = pattern.upper_ptr.data();
  const std::int32_t* const col = pattern.col.data();
  const T *const entries = values.entries.data(), *const d = values.d.data();
  T sum[Lanes];
  for (std::int64_t i = 0; i < n; ++i) {
    for (int j = 0; j < Lanes; ++j) sum[j] = r[i * r_row_step + j * r_column_step];
    minus_products<Lanes>(sum, entries + lower[i], col + lower[i], lower[i + 1] - lower[i], z, z_row_step,
                          z_column_step);
    for (int j = 0; j < Lanes; ++j) z[i * z_row_step + j * z_column_step] = sum[j];
  }
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = n - 1 - k;
    for (int j = 0; j < Lanes; ++j) sum[j] = d[i] * z[i * z_row_step + j * z_column_step];
    minus_products<Lanes>(sum, entries + upper[k], col + upper[k], upper[k + 1] - upper[k], z, z_row_step,
                          z_column_step);
    for (int j = 0; j < Lanes; ++j) z[i * z_row_step + j * z_column_step] = sum[j];
  }
}

}  // namespace

template <class T>
void solve_in_order(const SweepPattern& pattern, const SweepValues<T>& values, VectorView<const T> r,
                    VectorView<T> z) {
  const std::int64_t n = pattern.n;
  const std::int64_t *const lower = pattern.lower_ptr.data(), *const upper = pattern.upper_ptr.data();
  const std::int32_t* const col = pattern.col.data();
  const T *const entries = values.entries.data(), *const d = values.d.data();
  T* const zs = z.data;
  for (std::int64_t i = 0; i < n; ++i)
    zs[i] = minus_products(r.data[i], entries + lower[i], col + lower[i], lower[i + 1] - lower[i], zs);
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = n - 1 - k;
    zs[i] = minus_products(d[i] * zs[i], entries + upper[k], col + upper[k], upper[k + 1] - upper[k], zs);
  }
}

template <class T>
void solve_in_order(const SweepPattern& pattern, const SweepValues<T>& values, MultiVectorView<const T> R,
                    MultiVectorView<T> Z) {
  in_chunks(R.columns, [&](std::int64_t first, auto lanes) {
    const T* const r = R.data + first * R.column_step();
    T* const z = Z.data + first * Z.column_step();
    // A step that is known lets the compiler take neighbouring columns at once.
    if (R.layout == VectorLayout::interleaved)
      columns_in_order<lanes()>(pattern, values, r, R.stride, 1, z, Z.stride, 1);
    else
      columns_in_order<lanes()>(pattern, values, r, 1, R.stride, z, 1, Z.stride);
  });
}

template <class T>
std::unique_ptr<LevelSolve<T>> LevelSolve<T>::make(const ContextPtr& context, const SweepPattern& pattern) {
  // Rows are read from memory either way, so short rows gain nothing from a second thread.
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
      lower_(context, pattern.n),
      upper_(context, pattern.n),
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
    of_place[k] = level[i];
  }
  upwards_ = Stages(context, of_place, count, false, false,
                    [&](std::int64_t k) { return pattern.lower(row_[k]).size(); });
  for (std::int64_t k = 0; k < n; ++k) of_place[k] = count - 1 - of_place[k];
  downwards_ = Stages(context, of_place, count, false, false,
                      [&](std::int64_t k) { return pattern.upper(row_[k]).size(); });
  // Rows of L in the order of the forward solve, then rows of U in the order of the backward solve.
  std::int64_t begin = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t size = pattern.lower(row_[k]).size();
    lower_[k] = {begin, begin + size}, begin += size;
  }
  for (std::int64_t s = 0; s < n; ++s) {
    const std::int64_t k = downwards_.order()[s], size = pattern.upper(row_[k]).size();
    upper_[k] = {begin, begin + size}, begin += size;
  }
  protean::parallel(useful_parts(*context, col_.size()), [&](int part, int parts) {
    const Range places = even_range(n, part, parts);
    for (std::int64_t k = places.begin; k < places.end; ++k) {
      const auto copy = [&](const Range& from, const Range& to) {
        for (std::int64_t p = 0; p < from.size(); ++p)
          col_[to.begin + p] = place[pattern.col[from.begin + p]];
      };
      copy(pattern.lower(row_[k]), lower_[k]), copy(pattern.upper(row_[k]), upper_[k]);
    }
  });
}

template <class T>
void LevelSolve<T>::set_values(const SweepPattern& pattern, const SweepValues<T>& values) {
  protean::parallel(useful_parts(*context_, col_.size()), [&](int part, int parts) {
    const Range places = even_range(pattern.n, part, parts);
    for (std::int64_t k = places.begin; k < places.end; ++k) {
      const std::int64_t i = row_[k];
      const auto copy = [&](const Range& from, const Range& to) {
        std::copy_n(values.entries.data() + from.begin, from.size(), entries_.data() + to.begin);
      };
      copy(pattern.lower(i), lower_[k]), copy(pattern.upper(i), upper_[k]);
      d_[k] = values.d[i];
    }
  });
}

template <class T>
void LevelSolve<T>::solve(VectorView<const T> r, VectorView<T> z) const {
  const std::lock_guard lock(mutex_);
  const Range *const lower = lower_.data(), *const upper = upper_.data();
  const std::int32_t *const col = col_.data(), *const row = row_.data();
  const T *const entries = entries_.data(), *const d = d_.data(), *const rs = r.data;
  T *const w = w_.data(), *const zs = z.data;
  upwards_.run(*context_, [=](std::int64_t k, int) {
    const Range own = lower[k];
    w[k] = minus_products(rs[row[k]], entries + own.begin, col + own.begin, own.size(), w);
  });
  downwards_.run(*context_, [=](std::int64_t k, int) {
    const Range own = upper[k];
    zs[row[k]] = w[k] = minus_products(d[k] * w[k], entries + own.begin, col + own.begin, own.size(), w);
  });
}

template <class T>
void LevelSolve<T>::solve(MultiVectorView<const T> R, MultiVectorView<T> Z) const {
  const std::lock_guard lock(mutex_);
  const Range *const lower = lower_.data(), *const upper = upper_.data();
  const std::int32_t *const col = col_.data(), *const row = row_.data();
  const T *const entries = entries_.data(), *const d = d_.data();
  in_chunks(R.columns, [&](std::int64_t first, auto chunk) {
    constexpr int lanes = decltype(chunk)::value;
    if (w_.size() < lanes * row_.size()) w_ = Buffer<T>(context_, lanes * row_.size());
    T* const w = w_.data();
    upwards_.run(*context_, [=](std::int64_t k, int) {
      const Range own = lower[k];
      T sum[lanes];
      for (int j = 0; j < lanes; ++j) sum[j] = R(row[k], first + j);
      minus_products<lanes>(sum, entries + own.begin, col + own.begin, own.size(), w, lanes, 1);
      for (int j = 0; j < lanes; ++j) w[k * lanes + j] = sum[j];
    });
    downwards_.run(*context_, [=](std::int64_t k, int) {
      const Range own = upper[k];
      T sum[lanes];
      for (int j = 0; j < lanes; ++j) sum[j] = d[k] * w[k * lanes + j];
      minus_products<lanes>(sum, entries + own.begin, col + own.begin, own.size(), w, lanes, 1);
      for (int j = 0; j < lanes; ++j) Z(row[k], first + j) = w[k * lanes + j] = sum[j];
    });
  });
}

#define PROTEAN_INSTANTIATE(T)                                                                          \
  template void solve_in_order<T>(const SweepPattern&, const SweepValues<T>&, VectorView<const T>,      \
                                  VectorView<T>);                                                       \
  template void solve_in_order<T>(const SweepPattern&, const SweepValues<T>&, MultiVectorView<const T>, \
                                  MultiVectorView<T>);                                                  \
  template class LevelSolve<T>;
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
