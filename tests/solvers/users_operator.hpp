// An operator as a user writes one, whose products do not heed the stop.
#pragma once

#include <memory>
#include <utility>

#include "operators/assembled_matrix.hpp"
#include "operators/linear_operator.hpp"

namespace protean::test {

// An operator of a user, who knows nothing of the stop, with a product and dot product of its own.
class OfAUser final : public LinearOperator<double>, public HasDiagonal<double>, public HasApplyDot<double> {
 public:
  explicit OfAUser(std::unique_ptr<AssembledMatrix<double>> A)
      : LinearOperator<double>(A->context(), A->shape()), A_(std::move(A)) {}
  std::string_view name() const noexcept override { return "of a user"; }
  void diagonal(VectorView<double> d) const override { A_->diagonal(d); }
  void do_apply_dot(VectorView<const double> x, VectorView<double> y, double* result) const override {
    protean::apply_dot<double>(*A_, x, y, result);
  }

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    A_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> A_;
};

}  // namespace protean::test
