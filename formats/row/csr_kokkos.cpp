// CSR multiplied by Kokkos, on the caller's arrays as csr.cpp describes them. A row has one thread on a host, and 1 to
// 32 lanes on a device, by the mean row length.
// Source: H. C. Edwards, C. R. Trott, D. Sunderland, Kokkos, J. Parallel Distrib. Comput. 74 (2014),
// doi:10.1016/j.jpdc.2014.07.003.
#include "formats/engines/library/kokkos_matrix.hpp"

namespace protean::formats {
namespace {

template <class Exec, class T, class P>
struct CsrTerms {
  KokkosArray<Exec, const P> row_ptr;
  KokkosArray<Exec, const std::int32_t> col;
  KokkosArray<Exec, const T> values, x;

  struct Row {
    const CsrTerms& a;
    std::int64_t begin, end;
    KOKKOS_FUNCTION T term(std::int64_t k) const { return a.values(k) * a.x(a.col(k)); }
  };
  KOKKOS_FUNCTION Row row(std::int64_t r) const { return {*this, row_ptr(r), row_ptr(r + 1)}; }
};

// Columns need not ascend.
template <class Exec, class T, class P>
struct CsrDiagonal {
  KokkosArray<Exec, const P> row_ptr;
  KokkosArray<Exec, const std::int32_t> col;
  KokkosArray<Exec, const T> values;
  KokkosArray<Exec, T> d;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    T found = 0;
    for (std::int64_t k = row_ptr(r); k < static_cast<std::int64_t>(row_ptr(r + 1)); ++k)
      if (col(k) == r) found = values(k);
    d(r) = found;
  }
};

template <class T>
class CsrKokkos final : public KokkosMatrix<T> {
 public:
  explicit CsrKokkos(const BuildRequest<T>& request) : KokkosMatrix<T>(request), csr_(request.csr) {}

  CsrMatrix<T> to_csr() const override { return csr_; }
  std::size_t bytes() const noexcept override { return csr_.bytes(); }

  void diagonal(VectorView<T> d) const override {
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      visit<Exec>([&](auto row_ptr, auto col, auto values) {
        using P = std::remove_const_t<typename decltype(row_ptr)::value_type>;
        kokkos_for("protean::csr_diagonal", exec, stop, d.size,
                   CsrDiagonal<Exec, T, P>{row_ptr, col, values, kokkos_array<Exec>(d.data, d.size)});
      });
    });
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    csr_.values = csr.values, csr_.values_owner = csr.values_owner, csr_.watch = csr.watch;
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const double mean =
        static_cast<double>(csr_.nonzeros()) / static_cast<double>(std::max<std::int64_t>(1, csr_.rows()));
    with_kokkos(*this->context(), [&](const auto& exec, const auto& stop) {
      using Exec = std::decay_t<decltype(exec)>;
      visit<Exec>([&](auto row_ptr, auto col, auto values) {
        using P = std::remove_const_t<typename decltype(row_ptr)::value_type>;
        kokkos_rows("protean::csr", exec, stop, csr_.rows(), mean,
                    CsrTerms<Exec, T, P>{row_ptr, col, values, kokkos_array<Exec>(x.data, x.size)},
                    KokkosResult<Exec, T>{alpha, beta, kokkos_array<Exec>(y.data, y.size)});
      });
    });
    this->has_multiplied();
  }

 private:
  template <class Exec, class Use>
  void visit(Use use) const {
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      use(kokkos_array<Exec>(row_ptr, csr_.rows() + 1), kokkos_array<Exec>(csr_.pattern.col, csr_.nonzeros()),
          kokkos_array<Exec>(csr_.values, csr_.nonzeros()));
    });
  }

  CsrMatrix<T> csr_;
};

}  // namespace

PROTEAN_DEFINE_KOKKOS_KERNEL(csr, CsrKokkos)

}  // namespace protean::formats
