// Operators with all abilities, and with few.
#pragma once
#include <memory>

#include "formats/catalogue.hpp"
#include "operators/in_order.hpp"
#include "order_changes.hpp"
#include "solving.hpp"

namespace protean::test {

// A symmetric M^-1 that is no diagonal, and takes several vectors in one pass.
class Tridiagonal final : public Preconditioner<double>, public HasMultiProduct<double> {
 public:
  explicit Tridiagonal(const LinearOperator<double>& A) : Preconditioner<double>(A.context(), A.shape()) {}
  std::string_view name() const noexcept override { return "tridiagonal"; }
  void do_multi_apply(double alpha, MultiVectorView<const double> X, double beta,
                      MultiVectorView<double> Y) const override {
    ++passes;
    for (std::int64_t j = 0; j < X.columns; ++j)
      for (std::int64_t i = 0; i < X.rows; ++i) {
        const double near = (i > 0 ? X(i - 1, j) : 0) + (i + 1 < X.rows ? X(i + 1, j) : 0);
        Y(i, j) = alpha * (0.5 * X(i, j) + 0.1 * near) + (beta == 0 ? 0 : beta * Y(i, j));
      }
  }
  mutable std::int64_t passes = 0;

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    do_multi_apply(alpha, {x.data, x.size, 1, x.size}, beta, {y.data, y.size, 1, y.size});
    --passes;
  }
};

inline CsrMatrix<double> system() { return system_matrix(switched_systems[0]); }

inline Permutation shuffled(std::int64_t n) { return shuffle_of(test_context(), n, 5); }

inline std::shared_ptr<LinearOperator<double>> in_format(std::string_view format,
                                                         const CsrMatrix<double>& csr) {
  return make_matrix(find_format(format), csr, test_context());
}

}  // namespace protean::test
