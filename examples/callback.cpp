// A program has its own product and its own preconditioner. Two small classes are enough for every solver to
// use them.
#include <cstdio>
#include <vector>

#include <protean/protean.hpp>

namespace {

// y := A x for A = tridiag(-1, 2.1, -1). The matrix is not stored.
class Chain final : public protean::LinearOperator<double> {
 public:
  Chain(protean::ContextPtr context, std::int64_t n) : LinearOperator(std::move(context), {n, n}) {}
  std::string_view name() const noexcept override { return "chain"; }

 protected:
  void do_apply(double alpha, protean::VectorView<const double> x, double beta,
                protean::VectorView<double> y) const override {
    for (std::int64_t i = 0; i < rows(); ++i) {
      double sum = 2.1 * x[i];
      if (i > 0) sum -= x[i - 1];
      if (i + 1 < rows()) sum -= x[i + 1];
      y[i] = beta == 0 ? alpha * sum : alpha * sum + beta * y[i];
    }
  }
};

// z := M^-1 r, one symmetric Gauss-Seidel sweep.
class Sweep final : public protean::Preconditioner<double> {
 public:
  explicit Sweep(const Chain& A) : Preconditioner(A.context(), A.shape()), work_(A.rows()) {}
  std::string_view name() const noexcept override { return "sweep"; }

 protected:
  void setup(const protean::LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, protean::VectorView<const double> r, double beta,
                protean::VectorView<double> z) const override {
    const auto n = rows();
    for (std::int64_t i = 0; i < n; ++i) work_[i] = (r[i] + (i > 0 ? work_[i - 1] : 0)) / 2.1;
    for (std::int64_t i = n - 1; i >= 0; --i) work_[i] += (i + 1 < n ? work_[i + 1] : 0) / 2.1;
    for (std::int64_t i = 0; i < n; ++i) z[i] = beta == 0 ? alpha * work_[i] : alpha * work_[i] + beta * z[i];
  }

 private:
  mutable std::vector<double> work_;
};

}  // namespace

int main() {
  const std::int64_t n = 5000;
  const Chain A(protean::Context::host(), n);
  const Sweep M(A);
  std::vector<double> b(n, 1.0), x(n, 0.0);
  const auto cg = protean::make_solver<double>("cg");
  const auto report = cg->solve(A, {b.data(), n}, {x.data(), n}, &M);
  std::printf("%lld iterations, %s\n", static_cast<long long>(report.iterations),
              protean::to_string(report.reason).data());
  return report.converged() ? 0 : 1;
}
