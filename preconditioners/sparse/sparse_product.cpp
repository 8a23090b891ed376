// The values are compiled once for each instruction set by Highway.
#include "core/simd.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preconditioners/sparse/sparse_product.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/background.hpp"
#include "core/parallel.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

#ifndef PROTEAN_SPARSE_PRODUCT_ONCE
#define PROTEAN_SPARSE_PRODUCT_ONCE
namespace protean::detail {
namespace {

// Whether row i has the columns of the one before it.
inline bool repeats_row(const SparsityPattern& pattern, std::int64_t i) noexcept {
  const auto row = pattern.row(i), before = pattern.row(i - 1);
  return row.size() == before.size() && std::equal(row.begin(), row.end(), before.begin());
}

// Columns of a row that follow each other.
struct ColumnRun {
  std::int32_t first, size;
};

// The runs of each row; none if they are too short to be of use.
struct ColumnRuns {
  std::vector<std::int64_t> ptr;
  std::vector<ColumnRun> run;
  std::span<const ColumnRun> row(std::int64_t i) const noexcept {
    const auto k = static_cast<std::size_t>(i);
    return {run.data() + ptr[k], static_cast<std::size_t>(ptr[k + 1] - ptr[k])};
  }
};

// What all threads read.
template <class T>
struct ProductWork {
  const CsrMatrix<T>& A;
  const CsrMatrix<T>& B;
  const Graph& pattern;
  ColumnRuns runs;  // of B
  std::vector<unsigned char>
      repeats;  // of each row of B, with runs, whether it has the columns of the one before it
  T* values;
};

}  // namespace
}  // namespace protean::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace protean::detail::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// sum[r width + t] += a[r size + k] b[k stride + t] for r < rows, k < inner, t < count, one k after another.
template <class T>
HWY_INLINE void add_products(std::int64_t rows, std::int64_t inner, std::size_t count, const T* a,
                             std::int64_t size, const T* b, std::int64_t stride, T* sum, std::int64_t width) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t t = 0;
  for (; t + lanes <= count; t += lanes)
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const to = sum + r * width + t;
      auto kept = hn::LoadU(d, to);
      for (std::int64_t k = 0; k < inner; ++k)
        kept = hn::Add(kept, hn::Mul(hn::Set(d, a[r * size + k]),
                                     hn::LoadU(d, b + k * stride + static_cast<std::int64_t>(t))));
      hn::StoreU(kept, d, to);
    }
  if (t == count) return;
  const auto rest = hn::FirstN(d, count - t);
  for (std::int64_t r = 0; r < rows; ++r) {
    T* const to = sum + r * width + t;
    auto kept = hn::MaskedLoad(rest, d, to);
    for (std::int64_t k = 0; k < inner; ++k)
      kept = hn::Add(kept, hn::Mul(hn::Set(d, a[r * size + k]),
                                   hn::MaskedLoad(rest, d, b + k * stride + static_cast<std::int64_t>(t))));
    hn::BlendedStore(kept, rest, d, to);
  }
}

template <class T>
HWY_INLINE void multiply_rows(const ProductWork<T>& work, Range rows) {
  constexpr std::int64_t most_together = 16;  // their sums stay in the cache
  const auto& [A, B, pattern, runs, repeats, values] = work;
  const auto &from = A.pattern.row_ptr, &of_B = B.pattern.row_ptr;
  const bool in_runs = !runs.run.empty();
  // Of each column of the rows at hand: its place in them.
  std::vector<std::int32_t> place(static_cast<std::size_t>(B.cols()));
  CheckedSteps steps;
  for (std::int64_t i = rows.begin; i < rows.end;) {
    std::int64_t together = 1;  // rows with the same columns
    while (together < most_together && i + together < rows.end && repeats_row(A.pattern, i + together))
      ++together;
    const std::span<const std::int32_t> columns = pattern.row(i);
    for (std::size_t k = 0; k < columns.size(); ++k)
      place[static_cast<std::size_t>(columns[k])] = static_cast<std::int32_t>(k);
    const auto width = static_cast<std::int64_t>(columns.size());
    const std::int64_t begin = from[i], size = from[i + 1] - begin;
    T* const sum = values + pattern.ptr[static_cast<std::size_t>(i)];
    std::fill_n(sum, together * width, T(0));
    for (std::int64_t p = begin; p < begin + size;) {
      const std::int64_t k = A.pattern.col[p];
      const T* b = B.values + of_B[k];
      steps.did(together * (of_B[k + 1] - of_B[k]));
      if (!in_runs) {
        const std::span<const std::int32_t> row = B.pattern.row(k);
        for (std::int64_t r = 0; r < together; ++r) {
          const T a = A.values[p + r * size];
          T* const to = sum + r * width;
          for (std::size_t q = 0; q < row.size(); ++q)
            to[place[static_cast<std::size_t>(row[q])]] += a * b[q];
        }
        ++p;
        continue;
      }
      std::int64_t inner = 1;  // rows of B with the same columns
      while (p + inner < begin + size && A.pattern.col[p + inner] == k + inner &&
             repeats[static_cast<std::size_t>(k + inner)] != 0)
        ++inner;
      const std::int64_t stride = of_B[k + 1] - of_B[k];
      for (const ColumnRun& run : runs.row(k)) {
        add_products(together, inner, static_cast<std::size_t>(run.size), A.values + p, size, b, stride,
                     sum + place[static_cast<std::size_t>(run.first)], width);
        b += run.size;
      }
      p += inner;
    }
    i += together;
  }
}

void multiply_f64(const ProductWork<double>& work, Range rows) { multiply_rows(work, rows); }
void multiply_f32(const ProductWork<float>& work, Range rows) { multiply_rows(work, rows); }

}  // namespace
}  // namespace protean::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::detail {
namespace {

HWY_EXPORT(multiply_f64);
HWY_EXPORT(multiply_f32);
void multiply(const ProductWork<double>& work, Range rows) { HWY_DYNAMIC_DISPATCH(multiply_f64)(work, rows); }
void multiply(const ProductWork<float>& work, Range rows) { HWY_DYNAMIC_DISPATCH(multiply_f32)(work, rows); }

std::vector<unsigned char> repeating_rows(const Context& context, const SparsityPattern& pattern) {
  std::vector<unsigned char> repeats(static_cast<std::size_t>(pattern.rows), 0);
  protean::parallel(useful_parts(context, pattern.nonzeros), [&](int part, int parts) {
    const Range rows = even_range(pattern.rows, part, parts);
    for (std::int64_t k = std::max<std::int64_t>(rows.begin, 1); k < rows.end; ++k)
      repeats[static_cast<std::size_t>(k)] = repeats_row(pattern, k);
  });
  return repeats;
}

ColumnRuns column_runs(const Context& context, const SparsityPattern& pattern) {
  constexpr std::int64_t least = 3;  // columns of a run in the mean
  const auto begins = [](std::span<const std::int32_t> row, std::size_t k) {
    return k == 0 || row[k] != row[k - 1] + 1;
  };
  const auto each_row = [&](auto f) {
    protean::parallel(useful_parts(context, pattern.nonzeros), [&](int part, int parts) {
      const Range rows = even_range(pattern.rows, part, parts);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) f(static_cast<std::size_t>(i), pattern.row(i));
    });
  };
  ColumnRuns runs;
  runs.ptr.assign(static_cast<std::size_t>(pattern.rows) + 1, 0);
  each_row([&](std::size_t i, std::span<const std::int32_t> row) {
    for (std::size_t k = 0; k < row.size(); ++k) runs.ptr[i + 1] += begins(row, k);
  });
  for (std::size_t i = 1; i < runs.ptr.size(); ++i) runs.ptr[i] += runs.ptr[i - 1];
  if (runs.ptr.back() * least > pattern.nonzeros) return {};
  runs.run.resize(static_cast<std::size_t>(runs.ptr.back()));
  each_row([&](std::size_t i, std::span<const std::int32_t> row) {
    ColumnRun* to = runs.run.data() + runs.ptr[i];
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (begins(row, k)) *to++ = {row[k], 0};
      ++to[-1].size;
    }
  });
  return runs;
}

}  // namespace

Graph product_pattern(const Context& context, const SparsityPattern& A, const SparsityPattern& B) {
  const std::vector<unsigned char> repeats = repeating_rows(context, B);
  const auto append_rows = [&](Range rows, std::vector<std::int32_t>& col, std::int64_t* size) {
    std::vector<std::int64_t> seen(static_cast<std::size_t>(B.cols), -1);
    CheckedSteps steps;
    for (std::int64_t i = rows.begin; i < rows.end; ++i, ++size) {
      const std::size_t before = col.size();
      if (i > rows.begin && repeats_row(A, i)) {
        const auto same = static_cast<std::size_t>(size[-1]);
        col.resize(before + same);
        std::copy_n(col.data() + (before - same), same, col.data() + before);
        size[0] = size[-1];
        continue;
      }
      std::int64_t last_row = -2;
      for (const std::int32_t k : A.row(i)) {
        const bool known = k == last_row + 1 && repeats[static_cast<std::size_t>(k)] != 0;
        last_row = k;
        if (known) continue;
        steps.did(std::ssize(B.row(k)));
        for (const std::int32_t j : B.row(k))
          if (std::int64_t& last = seen[static_cast<std::size_t>(j)]; last != i) last = i, col.push_back(j);
      }
      std::sort(col.begin() + static_cast<std::ptrdiff_t>(before), col.end());
      size[0] = static_cast<std::int64_t>(col.size() - before);
    }
  };
  return collect_rows(context, A.rows, A.nonzeros, append_rows);
}

template <class T>
Buffer<T> product_values(const ContextPtr& context, const CsrMatrix<T>& A, const CsrMatrix<T>& B,
                         const Graph& pattern) {
  Buffer<T> values(context, pattern.size());
  ProductWork<T> work{A, B, pattern, column_runs(*context, B.pattern), {}, values.data()};
  if (!work.runs.run.empty()) work.repeats = repeating_rows(*context, B.pattern);
  protean::parallel(useful_parts(*context, A.nonzeros()),
                    [&](int part, int parts) { multiply(work, even_range(A.rows(), part, parts)); });
  return values;
}
template Buffer<float> product_values<float>(const ContextPtr&, const CsrMatrix<float>&,
                                             const CsrMatrix<float>&, const Graph&);
template Buffer<double> product_values<double>(const ContextPtr&, const CsrMatrix<double>&,
                                               const CsrMatrix<double>&, const Graph&);

}  // namespace protean::detail
#endif
