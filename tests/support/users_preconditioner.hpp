// A preconditioner as a user writes one, with the M^-1 of another one.
#pragma once
#include "preconditioners/preconditioner.hpp"

namespace protean::test {

// It shows no diagonal, so that a solver asks it each time; it does not heed the stop, and cannot multiply several
// vectors at once.
class PreconditionerOfAUser final : public Preconditioner<double> {
 public:
  explicit PreconditionerOfAUser(const Preconditioner<double>& M)
      : Preconditioner<double>(M.context(), M.shape()), M_(M) {}
  std::string_view name() const noexcept override { return "of a user"; }
  bool symmetric() const noexcept override { return M_.symmetric(); }
  std::size_t bytes() const noexcept override { return 0; }

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    M_.apply(alpha, x, beta, y);
  }

 private:
  const Preconditioner<double>& M_;
};

}  // namespace protean::test
