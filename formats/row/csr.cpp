// CSR: compressed sparse rows, the caller's own arrays used in place.
//
//        | 1 . 2 . |     row_ptr = 0 2 3 3 6
//    A = | . 3 . . |     col     = 0 2 1 0 1 3
//        | . . . . |     values  = 1 2 3 4 5 6
//        | 4 5 . 6 |
//
// row_ptr [rows+1] int32 or int64: nondecreasing, row_ptr[0] = 0.
// col     [nnz] int32: ascending within a row.
// values  [nnz].
// Bytes: (v + 4) nnz + p (rows + 1), v bytes a value, p = 4 or 8 bytes a row pointer. Nothing is copied.
// Parameters: none. Rows are dealt to threads by rows + nonzeros.
// Wins when there are few products or no regularity. Never refuses.
// Source: textbook; Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 3.4.
#include "formats/host_support.hpp"

namespace protean::formats {
namespace {

template <class T>
class Csr final : public AssembledMatrix<T>, public HasLayout {
 public:
  explicit Csr(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request),
        csr_(request.csr),
        borders_(balanced_row_borders(csr_.pattern,
                                      useful_parts(*request.context, csr_.nonzeros() + csr_.rows()))) {}

  CsrMatrix<T> to_csr() const override { return csr_; }
  std::size_t bytes() const noexcept override { return csr_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {csr_.pattern.row_ptr.visit(
                [&](auto* row_ptr) { return layout_array("row_ptr", row_ptr, csr_.rows() + 1); }),
            layout_array("col", csr_.pattern.col, csr_.nonzeros()),
            layout_array("values", csr_.values, csr_.nonzeros())};
  }
  void diagonal(VectorView<T> d) const override { extract_diagonal(*this->context(), csr_, d.data); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    csr_.values = csr.values, csr_.values_owner = csr.values_owner;
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
        for (std::int64_t r = borders_[part]; r < borders_[part + 1]; ++r) {
          T sum = 0;
          for (auto k = row_ptr[r]; k < row_ptr[r + 1]; ++k)
            sum += csr_.values[k] * x.data[csr_.pattern.col[k]];
          store(alpha, sum, beta, y.data[r]);
        }
      });
    });
  }

 private:
  CsrMatrix<T> csr_;
  std::vector<std::int64_t> borders_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes,
                           pattern.nonzeros);
}

constexpr Kernel kernels[] = {native_host_kernel<Csr>()};

}  // namespace

extern const FormatEntry csr;
constinit const FormatEntry csr{
    .family = "row",
    .id = "csr",
    .title = "Compressed sparse rows",
    .source = "Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 3.4",
    .traits = {},
    .params = {},
    .kernels = kernels,
    .admit = admit};

}  // namespace protean::formats
