// CSC: compressed sparse columns, the entries of each column one after another.
//
//        | 1 . 2 . |     col_ptr = 0 2 4 5 6
//    A = | . 3 . . |     row     = 0 3 | 1 3 | 0 | 3
//        | . . . . |     values  = 1 4 | 3 5 | 2 | 6
//        | 4 5 . 6 |
//
// Arrays:
//   col_ptr  [cols + 1] int32 or int64, as wide as the row pointers of the CSR matrix it is built from:
//            nondecreasing from 0 to nnz.
//   row      [nnz] int32: ascending within a column.
//   values   [nnz].
//   split    [(t - 1) cols] for t threads, as wide as col_ptr: split[p cols + j] is the first entry of column
//            j whose row belongs to a thread after thread p.
//   sums     [rows], in deterministic mode only: the sums of a product that needs the old y. A lock lets one
//            such product run at a time.
// Bytes: (v + 4) nnz + p (cols + 1) + p (t - 1) cols, with v bytes a value and p = 4 or 8 bytes a pointer; v
//   rows more in deterministic mode.
// Parameters: none.
// Wins: when the entries of a column are needed together, as in products with A^T, which are products of csr on these
//   arrays. y := A x is slower than in csr.
// Refuses: never.
// Source: I. S. Duff, R. G. Grimes, J. G. Lewis, Sparse matrix test problems, ACM TOMS 15 (1989),
//   doi:10.1145/62038.62043.
//
// A column adds to any row of y. Therefore each thread owns a block of rows and takes the entries of every column in
// these rows. No thread needs a copy of y or atomic operations, and a row is summed in the order of its columns with
// any number of threads. The blocks have nearly the same number of rows + entries. A small matrix gets one thread and
// no split.
#define PROTEAN_WITHOUT_AVX512  // not written in SIMD: see core/simd.hpp
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/column/csc.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/view/ordered-inl.hpp"

#ifndef PROTEAN_FORMATS_CSC
#define PROTEAN_FORMATS_CSC
namespace protean::formats {
namespace {

// Rows [row_begin, row_end) of a product in deterministic mode; column j has entries [begin[j], end[j]) in
// them.
template <class T, class P>
struct CscWork {
  const P *begin, *end;
  std::int64_t col_begin, col_end, row_begin, row_end;
  const std::int32_t* row;
  const T* values;
  T alpha;
  const T* x;
  T beta;
  T *y, *sums;  // may be the same array when beta is 0
};

}  // namespace
}  // namespace protean::formats
#endif

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

template <class T, class P>
HWY_INLINE void csc_rows(const CscWork<T, P>& w) {
  T* const sums = w.sums;
  std::fill(sums + w.row_begin, sums + w.row_end, T(0));
  for (std::int64_t j = w.col_begin; j < w.col_end; ++j) {
    const T xj = w.x[j];
    for (P k = w.begin[j]; k < w.end[j]; ++k) sums[w.row[k]] = std::fma(w.values[k], xj, sums[w.row[k]]);
  }
  for (std::int64_t r = w.row_begin; r < w.row_end; ++r) store_ordered(w.alpha, sums[r], w.beta, w.y[r]);
}

void csc_f64_p32(const CscWork<double, std::int32_t>& w) { csc_rows(w); }
void csc_f64_p64(const CscWork<double, std::int64_t>& w) { csc_rows(w); }
void csc_f32_p32(const CscWork<float, std::int32_t>& w) { csc_rows(w); }
void csc_f32_p64(const CscWork<float, std::int64_t>& w) { csc_rows(w); }

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <hwy/cache_control.h>

#include <mutex>

#include "formats/engines/view/entry_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

HWY_EXPORT(csc_f64_p32);
HWY_EXPORT(csc_f64_p64);
HWY_EXPORT(csc_f32_p32);
HWY_EXPORT(csc_f32_p64);

void multiply_ordered(const CscWork<double, std::int32_t>& w) { HWY_DYNAMIC_DISPATCH(csc_f64_p32)(w); }
void multiply_ordered(const CscWork<double, std::int64_t>& w) { HWY_DYNAMIC_DISPATCH(csc_f64_p64)(w); }
void multiply_ordered(const CscWork<float, std::int32_t>& w) { HWY_DYNAMIC_DISPATCH(csc_f32_p32)(w); }
void multiply_ordered(const CscWork<float, std::int64_t>& w) { HWY_DYNAMIC_DISPATCH(csc_f32_p64)(w); }

// The number of threads that share a matrix of this pattern. admit() and the constructor must agree.
int csc_parts(const Context& context, const SparsityPattern& pattern) {
  return useful_parts(context, pattern.nonzeros + pattern.rows);
}

// The blocks of rows of the threads (entry_view.hpp).
template <class T, class P>
struct CscEntries {
  int parts;
  const std::int64_t* row_borders;
  std::int64_t cols;
  const P *col_ptr, *split;
  const std::int32_t* row;
  const T* values;
  int blocks() const { return parts; }
  Range rows(int part) const { return {row_borders[part], row_borders[part + 1]}; }
  // The entries of column j that lie in the rows of a part: [begins(part)[j], ends(part)[j]).
  const P* begins(int part) const { return part == 0 ? col_ptr : split + (part - 1) * cols; }
  const P* ends(int part) const { return part + 1 == parts ? col_ptr + 1 : split + part * cols; }
  template <class F>
  void for_entries(int part, F&& f) const {
    const P *begin = begins(part), *end = ends(part);
    for (std::int64_t j = 0; j < cols; ++j)
      for (P k = begin[j]; k < end[j]; ++k) f(row[k], static_cast<std::int32_t>(j), std::int64_t{k});
  }
};

template <class T, class P>
class Csc final : public AssembledMatrix<T>, public HasApplyDot<T>, public HasLayout {
 public:
  explicit Csc(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request),
        parts_(csc_parts(*request.context, request.csr.pattern)),
        row_borders_(balanced_row_borders(request.csr.pattern, parts_)),
        col_ptr_(request.context, this->cols() + 1),
        row_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()),
        split_(request.context, (parts_ - 1) * this->cols()),
        sums_(request.context, request.context->deterministic() ? this->rows() : 0) {
    const std::int64_t cols = this->cols();
    const SparsityPattern& pattern = request.csr.pattern;
    // cursor[p cols + j]: first the number of entries of column j in the rows of part p, then the place of
    // the next one. When a part has finished, its cursors are at the beginning of the next part.
    Buffer<P> cursor(request.context, parts_ * cols);
    parallel(parts_, [&](int part, int) {
      P* count = cursor.data() + part * cols;
      std::fill(count, count + cols, P(0));
      const std::int64_t end = pattern.row_ptr[row_borders_[part + 1]];
      for (std::int64_t k = pattern.row_ptr[row_borders_[part]]; k < end; ++k) ++count[pattern.col[k]];
    });
    std::vector<P> before(static_cast<std::size_t>(parts_) + 1, P(0));
    parallel(parts_, [&](int part, int) {
      const Range range = even_range(cols, part, parts_);
      P sum = 0;
      for (int p = 0; p < parts_; ++p)
        for (std::int64_t j = range.begin; j < range.end; ++j) sum += cursor[p * cols + j];
      before[part + 1] = sum;
    });
    for (int part = 0; part < parts_; ++part) before[part + 1] += before[part];
    col_ptr_[0] = 0;
    parallel(parts_, [&](int part, int) {
      const Range range = even_range(cols, part, parts_);
      P next = before[part];
      for (std::int64_t j = range.begin; j < range.end; ++j) {
        for (int p = 0; p < parts_; ++p) next += std::exchange(cursor[p * cols + j], next);
        col_ptr_[j + 1] = next;
      }
    });
    parallel(parts_, [&](int part, int) {
      P* next = cursor.data() + part * cols;
      for (std::int64_t r = row_borders_[part]; r < row_borders_[part + 1]; ++r)
        for (std::int64_t k = pattern.row_ptr[r]; k < pattern.row_ptr[r + 1]; ++k) {
          const P to = next[pattern.col[k]]++;
          values_[to] = request.csr.values[k], row_[to] = static_cast<std::int32_t>(r);
        }
    });
    copy_array(*request.context, cursor.data(), split_.size(), split_.data());
    for (int part = 0; part < parts_; ++part) col_ranges_.push_back(used_columns(part));
  }

  CsrMatrix<T> to_csr() const override {
    return csr_from_entries<T>(this->context(), this->rows(), this->cols(), values_.size(), entries(),
                               sizeof(P) == 8);
  }
  std::size_t bytes() const noexcept override {
    return col_ptr_.bytes() + row_.bytes() + values_.bytes() + split_.bytes() + sums_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("col_ptr", col_ptr_), layout_array("row", row_), layout_array("values", values_),
            layout_array("split", split_)};
  }
  void diagonal(VectorView<T> d) const override {
    diagonal_from_entries(*this->context(), entries(), values_.size(), d);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    PartialSums<T> dots(parts_);
    parallel(parts_, [&](int part, int) {
      multiply(part, T(1), x.data, T(0), y.data);
      T sum = 0;
      for (std::int64_t r = row_borders_[part]; r < row_borders_[part + 1]; ++r) sum += x.data[r] * y.data[r];
      dots[part] = sum;
    });
    *result = dots.total();
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    update_from_entries(*this->context(), entries(), csr, values_.data());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->context()->deterministic()) {
      std::unique_lock<std::mutex> lock(sums_mutex_, std::defer_lock);
      if (beta != T(0)) lock.lock();
      T* const sums = beta == T(0) ? y.data : const_cast<T*>(sums_.data());  // guarded by the mutex
      parallel(parts_, [&](int part, int) {
        multiply_ordered(CscWork<T, P>{entries().begins(part), entries().ends(part), col_ranges_[part].begin,
                                       col_ranges_[part].end, row_borders_[part], row_borders_[part + 1],
                                       row_.data(), values_.data(), alpha, x.data, beta, y.data, sums});
      });
      return;
    }
    parallel(parts_, [&](int part, int) { multiply(part, alpha, x.data, beta, y.data); });
  }
  CsrMatrix<T> own_transpose() const override {
    return csr_view<T>(this->cols(), this->rows(), col_ptr_.data(), row_.data(), values_.data());
  }

 private:
  CscEntries<T, P> entries() const {
    return {parts_,        row_borders_.data(), this->cols(),  col_ptr_.data(),
            split_.data(), row_.data(),         values_.data()};
  }

  Range used_columns(int part) const {
    const P *begin = entries().begins(part), *end = entries().ends(part);
    Range range{0, this->cols()};
    while (range.begin < range.end && begin[range.begin] == end[range.begin]) ++range.begin;
    while (range.begin < range.end && begin[range.end - 1] == end[range.end - 1]) --range.end;
    return range;
  }

  void multiply(int part, T alpha, const T* x, T beta, T* y) const {
    for (std::int64_t r = row_borders_[part]; r < row_borders_[part + 1]; ++r)
      y[r] = beta == T(0) ? T(0) : beta * y[r];
    const P *begin = entries().begins(part), *end = entries().ends(part);
    const std::int32_t* row = row_.data();
    const T* values = values_.data();
    for (std::int64_t j = col_ranges_[part].begin; j < col_ranges_[part].end; ++j) {
      const T factor = alpha * x[j];
      hwy::Prefetch(values + begin[j] + 512);
      hwy::Prefetch(row + begin[j] + 512);
      for (P k = begin[j]; k < end[j]; ++k) y[row[k]] += values[k] * factor;
    }
  }

  int parts_;
  std::vector<std::int64_t> row_borders_;
  std::vector<Range> col_ranges_;  // from the first to the last column with entries in the part
  Buffer<P> col_ptr_;
  Buffer<std::int32_t> row_;
  Buffer<T> values_;
  Buffer<P> split_;
  Buffer<T> sums_;
  mutable std::mutex sums_mutex_;
};

template <class T>
std::unique_ptr<AssembledMatrix<T>> make(const BuildRequest<T>& request) {
  if (request.csr.pattern.row_ptr.width() == 4) return std::make_unique<Csc<T, std::int32_t>>(request);
  return std::make_unique<Csc<T, std::int64_t>>(request);
}

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  const std::size_t pointers = static_cast<std::size_t>(pattern.cols) * csc_parts(context, pattern) + 1;
  return Admission::accept(
      static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 4) + pointers * pattern.row_ptr.width() +
          (context.deterministic() ? static_cast<std::size_t>(pattern.rows) * value_bytes : 0),
      pattern.nonzeros);
}

constexpr Kernel kernels[] = {{"native", true, false, {}, make<double>, make<float>, {}, true, true}};

}  // namespace

constinit const FormatEntry entries::csc{
    .family = "column",
    .id = "csc",
    .title = "Compressed sparse columns",
    .source = "Duff, Grimes and Lewis, Sparse matrix test problems, ACM TOMS 15 (1989)",
    .traits = {},
    .params = {},
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::csc};

}  // namespace protean::formats
#endif  // HWY_ONCE
