// CSR multiplied by Kokkos, on the arrays of csr.cpp: one loop over rows on Kokkos' host device.
// Source: H. C. Edwards, C. R. Trott, D. Sunderland, Kokkos, J. Parallel Distrib. Comput. 74 (2014),
// doi 10.1016/j.jpdc.2014.07.003.
#include "core/kokkos.hpp"
#include "formats/private/csr.hpp"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

template <class T>
class CsrKokkos final : public CsrHolder<T> {
 public:
  explicit CsrKokkos(const BuildRequest<T>& request) : CsrHolder<T>(request) {
    start_kokkos(*request.context);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x_view, T beta, VectorView<T> y_view) const override {
    const std::lock_guard lock(kokkos_mutex());
    this->csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      const std::int32_t* col = this->csr_.pattern.col;
      const T *values = this->csr_.values, *x = x_view.data;
      T* y = y_view.data;
      Kokkos::parallel_for(
          "protean::csr", KokkosRows(0, this->rows()), KOKKOS_LAMBDA(const std::int64_t r) {
            T sum = 0;
            for (auto k = row_ptr[r]; k < row_ptr[r + 1]; ++k) sum += values[k] * x[col[k]];
            y[r] = beta == T(0) ? alpha * sum : alpha * sum + beta * y[r];
          });
      KokkosHost().fence();
    });
  }
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_kokkos_csr(const BuildRequest<T>& request) {
  return std::make_unique<CsrKokkos<T>>(request);
}
template std::unique_ptr<AssembledMatrix<float>> make_kokkos_csr(const BuildRequest<float>&);
template std::unique_ptr<AssembledMatrix<double>> make_kokkos_csr(const BuildRequest<double>&);

}  // namespace protean::formats
