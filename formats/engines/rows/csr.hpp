// The arrays of csr and everything except the product, for each of its kernels.
#pragma once
#include <vector>

#include "formats/host_support.hpp"

namespace protean::formats {

template <class T>
class CsrHolder : public AssembledMatrix<T>, public HasLayout {
 public:
  explicit CsrHolder(const BuildRequest<T>& request) : AssembledMatrix<T>(request), csr_(request.csr) {}

  CsrMatrix<T> to_csr() const override { return csr_; }
  std::size_t bytes() const noexcept override { return csr_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {csr_.pattern.row_ptr.visit([&](auto* p) { return layout_array("row_ptr", p, csr_.rows() + 1); }),
            layout_array("col", csr_.pattern.col, csr_.nonzeros()),
            layout_array("values", csr_.values, csr_.nonzeros())};
  }
  void diagonal(VectorView<T> d) const override { extract_diagonal(*this->context(), csr_, d.data); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    csr_.values = csr.values, csr_.values_owner = csr.values_owner, csr_.watch = csr.watch;
  }

  CsrMatrix<T> csr_;
};

}  // namespace protean::formats
