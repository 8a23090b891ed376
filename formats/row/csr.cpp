// CSR: compressed sparse rows, the caller's own arrays used in place.
//
//        | 1 . 2 . |     row_ptr = 0 2 3 3 6
//    A = | . 3 . . |     col     = 0 2 | 1 | | 0 1 3
//        | . . . . |     values  = 1 2 | 3 | | 4 5 6
//        | 4 5 . 6 |
//
// Arrays:
//   row_ptr  [rows + 1] int32 or int64: nondecreasing, row_ptr[0] = 0, row_ptr[rows] = nnz.
//   col      [nnz] int32: distinct within a row. On the host in any order, which is the order of the sum;
//            ascending on a device and in deterministic mode.
//   values   [nnz]. With values float: a copy in float.
// Bytes: (v + 4) nnz + p (rows + 1), with v bytes a value and p = 4 or 8 bytes a row pointer. Nothing except values
//   in float is copied: a view of the caller's arrays must outlive the matrix.
// Parameters:
//   balance  how the work is divided among the threads.
//            rows   whole rows, nearly the same number of rows + entries for each thread. Any number of
//                   threads gives the same bits.
//            merge  the same number of rows + entries for each thread. A row may be cut; its pieces are added
//                   in order.
//            blocks on a GPU, a block of threads takes whole rows; on a host as rows.
//            auto   rows, unless one thread would then do more than 1.1 times its fair share; then merge.
//            On a GPU see csr.cu.
//            In deterministic mode rows are never cut.
//            Kernel naive does not use it: each thread has the same number of rows, and adds the entries of a row
//            one after another (naive-csr of Mpakos et al., IPDPS 2023). Other kernels are compared with it.
//   values   how values are stored next to vectors in double: auto, double or float (docs/precision.md). On the host.
// Wins: when there are few products, or the matrix has no regularity.
// Refuses: never.
// Source: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 3.4,
//   doi:10.1137/1.9780898718003; merge: D. Merrill, M. Garland, Merge-based parallel sparse matrix-vector
//   multiplication, SC 2016, doi:10.1109/SC.2016.57.
//
// Products with several vectors read each row once. A row then belongs to one thread, whatever `balance` is, so a
// single very long row is not divided.
//
// Kernels: native; kokkos (csr_kokkos.cpp) and mkl (csr_mkl.cpp), on the same arrays; they do not use `balance`.

#include <algorithm>

#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/engines/several/multi_rows.hpp"
#include "formats/entries.hpp"
#include "operators/multi_product.hpp"

namespace protean::formats {
namespace {

std::vector<RowShare> divide_work(const SparsityPattern& pattern, int parts, const std::string& balance,
                                  bool whole_rows) {
  if (balance == "merge" && !whole_rows) return shares_of_equal_size(pattern, parts);
  std::vector<RowShare> shares = shares_of_whole_rows(pattern, parts);
  if (balance != "auto" || whole_rows) return shares;
  std::int64_t heaviest = 0;
  for (const RowShare& s : shares)
    heaviest = std::max(heaviest, s.row_end - s.row_begin + s.k_end - s.k_begin);
  const double fair = static_cast<double>(pattern.rows + pattern.nonzeros) / parts;
  if (static_cast<double>(heaviest) > 1.1 * fair) return shares_of_equal_size(pattern, parts);
  return shares;
}

template <class T>
class Csr final : public CsrInShares<T>, public HasMultiProduct<T> {
 public:
  explicit Csr(const BuildRequest<T>& request)
      : CsrInShares<T>(request),
        shares_(divide_work(request.csr.pattern, this->parts(), request.params.word("balance"),
                            request.context->deterministic())),
        prefetch_(worth_prefetching(request.csr.pattern, sizeof(T))) {
    this->set_shares(shares_);
    if (request.float_values) round_values(request.csr);
  }
  CsrMatrix<T> to_csr() const override {
    if (floats_.empty()) return csr_;
    const auto values = std::make_shared<Buffer<T>>(this->context(), this->nonzeros());
    copy_array(*this->context(), floats_.data(), floats_.size(), values->data());
    return {csr_.pattern, values->data(), values};
  }
  std::size_t bytes() const noexcept override {
    return floats_.empty() ? csr_.bytes() : csr_.pattern.bytes() + floats_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    std::vector<LayoutArray> arrays = CsrInShares<T>::layout();
    if (!floats_.empty()) arrays.back() = layout_array("values", floats_);
    return arrays;
  }
  void diagonal(VectorView<T> d) const override {
    CsrInShares<T>::diagonal(d);
    if (floats_.empty()) return;
    for (std::int64_t i = 0; i < d.size; ++i) d.data[i] = static_cast<float>(d.data[i]);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x, T(0), y, true);
  }
  std::string_view no_multi_product() const noexcept override {
    return floats_.empty() ? std::string_view()
                           : "format csr with values in float has a product with one vector only";
  }
  // A row that is cut belongs to the share in which it ends.
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    const MultiTask<T> task(*this->context(), alpha, X, beta, Y);
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      const MultiCsr<T, std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>> csr{
          row_ptr, csr_.pattern.col, csr_.values, prefetch_};
      parallel(static_cast<int>(shares_.size()), [&](int part, int) {
        multi_product(csr, task, shares_[part].row_begin, shares_[part].row_end);
      });
    });
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run(alpha, x, beta, y, false);
  }
  void do_update_values(const CsrMatrix<T>& csr) override {
    if (this->float_values())
      round_values(csr);
    else
      floats_ = {};
    CsrInShares<T>::do_update_values(csr);
  }
  CsrMatrix<T> arrays_in_use() const override { return csr_; }

 private:
  T run(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    return floats_.empty() ? this->run_on(csr_.values, alpha, x, beta, y, with_dot)
                           : this->run_on(floats_.data(), alpha, x, beta, y, with_dot);
  }
  void round_values(const CsrMatrix<T>& csr) {
    if (floats_.empty()) floats_ = Buffer<float>(this->context(), csr.nonzeros());
    parallel(useful_parts(*this->context(), csr.nonzeros(), 65536), [&](int part, int parts) {
      const Range range = even_range(csr.nonzeros(), part, parts);
      for (std::int64_t k = range.begin; k < range.end; ++k) floats_[k] = static_cast<float>(csr.values[k]);
    });
  }

  using CsrInShares<T>::csr_;
  std::vector<RowShare> shares_;
  bool prefetch_;
  Buffer<float> floats_;  // the values, if they are stored in float; csr_ has the pattern
};

// The loop of a textbook: each thread has the same number of rows, and adds the entries of a row one after another.
template <class T>
class CsrNaive final : public CsrHolder<T> {
 public:
  using CsrHolder<T>::CsrHolder;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      parallel(useful_parts(*this->context(), this->nonzeros() + this->rows()), [&](int part, int parts) {
        const Range rows = even_range(this->rows(), part, parts);
        for (std::int64_t r = rows.begin; r < rows.end; ++r) {
          T sum = 0;
          for (auto k = row_ptr[r]; k < row_ptr[r + 1]; ++k)
            sum += csr_.values[k] * x.data[csr_.pattern.col[k]];
          store(alpha, sum, beta, y.data[r]);
        }
      });
    });
  }

 private:
  using CsrHolder<T>::csr_;
};
constexpr Kernel naive() {
  Kernel kernel = native_host_kernel<CsrNaive>();
  kernel.name = "naive";
  return kernel;
}

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes,
                           pattern.nonzeros);
}

constexpr ParamDoc params[] = {{.name = "balance",
                                .doc =
                                    "what a thread takes: rows: whole rows; merge: as many entries as "
                                    "each other thread, so rows may be cut; blocks: on a GPU, a block of "
                                    "threads takes whole rows; auto: on a host rows, or merge if one thread "
                                    "would do more than 1.1 times its share, on a GPU by the lengths of the "
                                    "rows",
                                .default_value = "auto",
                                .choices = "auto|rows|merge|blocks"}};

constexpr Kernel kernels[] = {native_host_kernel<Csr>(Sums::ordered, Values::either), naive(),
                              PROTEAN_KOKKOS_KERNEL(csr), PROTEAN_MKL_KERNEL(csr)};

}  // namespace

constinit const FormatEntry entries::csr{
    .family = "row",
    .id = "csr",
    .title = "Compressed sparse rows",
    .source = "Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 3.4",
    .traits = {.unsorted_rows = true, .uses_source = true, .shares_rows = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::csr};

}  // namespace protean::formats
