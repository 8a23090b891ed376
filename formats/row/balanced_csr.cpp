// Balanced CSR: csr whose rows are divided so that all threads have about the same number of entries.
//
//        | 1 . 2 . |     two threads: 3 entries each
//    A = | . 3 . . |     border = 0 3 4
//        | . . . . |     col    = 0 2 1 | 0 1 3    as in csr
//        | 4 5 . 6 |     values = 1 2 3 | 4 5 6
//
// Arrays:
//   row_ptr, col, values  as in csr: the caller's own arrays.
//   border  [parts + 1] int32: the first row of each thread (on a GPU, of each block of threads), then the number of
//           rows. Border i is the row that begins nearest to entry i nnz / parts.
// Bytes: (v + 4) nnz + p (rows + 1) + 4 (parts + 1), with v bytes a value and p = 4 or 8 bytes a row pointer.
// Parameters: parts, the number of ranges of rows.
// Wins: when the lengths vary and most rows have one to three entries; vectorized-csr is faster on longer rows. Unlike
//   in csr, an empty row counts as no work.
// Refuses: never.
// Source: P. Mpakos, D. Galanopoulos, P. Anastasiadis, N. Papadopoulou, N. Koziris, G. Goumas, Feature-based SpMV
//   performance analysis on contemporary devices, IPDPS 2023 (Balanced-CSR).
//
// The entries of a row are added one by one in the order of its columns. On a GPU a block of threads takes a range, and
// one thread computes a row.
#include "formats/engines/rows/rows.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class BalancedCsr final : public CsrInRanges<T> {
 public:
  using CsrInRanges<T>::CsrInRanges;
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x, T(0), y, true);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->context()->deterministic())
      CsrInRanges<T>::do_apply(alpha, x, beta, y);
    else
      run(alpha, x, beta, y, false);
  }

 private:
  T run(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    return this->with_work(alpha, x, beta, y, [&](const auto& work) {
      PartialSums<T> dots(this->ranges());
      parallel(this->ranges(), [&](int part, int) {
        T dot = 0;
        for (std::int64_t r = this->border(part); r < this->border(part + 1); ++r) {
          T sum = 0;
          for (auto k = work.row_ptr[r]; k < work.row_ptr[r + 1]; ++k)
            sum += work.values[k] * work.x[work.col[k]];
          store(alpha, sum, beta, y.data[r]);
          if (with_dot) dot += x.data[r] * sum;
        }
        dots[part] = dot;
      });
      return dots.total();
    });
  }
};

constexpr ParamDoc params[] = {ranges_param};

constexpr Kernel kernels[] = {native_host_kernel<BalancedCsr>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::balanced_csr{.family = "row",
                                                  .id = "balanced-csr",
                                                  .title = "csr, equal entries a thread",
                                                  .source = "Mpakos et al., IPDPS 2023",
                                                  .traits = {.unsorted_rows = true, .uses_source = true},
                                                  .params = params,
                                                  .kernels = kernels,
                                                  .admit = admit_ranges,
                                                  .device = &device_code::balanced_csr};

}  // namespace protean::formats
