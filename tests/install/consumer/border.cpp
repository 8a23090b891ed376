// What crosses the border of the shared library: exceptions, type information, and classes of the program that the
// library calls. The exit status is the number of failures.
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include <protean/protean.hpp>

namespace {

int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

// Which of the handlers catches what `call` throws: the first that fits.
template <class Call>
std::string caught_as(Call&& call) {
  try {
    call();
  } catch (const protean::FormatRefused& error) {
    return "FormatRefused of " + error.format();
  } catch (const protean::BadFile& error) {
    return "BadFile " + error.file();
  } catch (const protean::BadArgument& error) {
    return typeid(error) == typeid(protean::BadArgument) ? "BadArgument" : "BadArgument, another type";
  } catch (const protean::ShapeMismatch&) { return "ShapeMismatch"; } catch (const protean::Error&) {
    return "Error";
  } catch (const std::exception&) { return "exception"; } catch (int number) {
    return "int " + std::to_string(number);
  }
  return "nothing";
}

// An operator of the program with an ability that the library asks for by dynamic_cast.
class Scaling final : public protean::LinearOperator<double>, public protean::HasDiagonal<double> {
 public:
  Scaling(protean::ContextPtr context, std::int64_t n)
      : LinearOperator(std::move(context), protean::Shape{n, n}) {}
  std::string_view name() const noexcept override { return "scaling"; }
  void diagonal(protean::VectorView<double> d) const override {
    for (std::int64_t i = 0; i < rows(); ++i) d.data[i] = static_cast<double>(i + 1);
  }
  int throws = 0;

 private:
  void do_apply(double alpha, protean::VectorView<const double> x, double beta,
                protean::VectorView<double> y) const override {
    if (throws) throw throws;
    for (std::int64_t i = 0; i < rows(); ++i)
      y.data[i] = alpha * static_cast<double>(i + 1) * x.data[i] + (beta == 0 ? 0.0 : beta * y.data[i]);
  }
};

class Counter final : public protean::SolveObserver {
 public:
  bool on_iteration(const protean::IterationInfo&) override { return ++calls > 0; }
  int calls = 0;
};

}  // namespace

int main() {
  constexpr std::int64_t n = 50;
  const auto context = protean::Context::host(1);
  expect(caught_as([] { (void)protean::find_solver("gmrs"); }) == "BadArgument",
         "BadArgument is caught by its type");
  expect(caught_as([] {
           (void)protean::read_matrix_market(protean::Context::host(1), "no such file.mtx");
         }).rfind("BadFile", 0) == 0,
         "BadFile is caught with its members");

  // One dense row: ell refuses it.
  std::vector<std::int32_t> row_ptr{0}, col;
  std::vector<double> values;
  for (std::int32_t i = 0; i < n; ++i) {
    if (i == 0)
      for (std::int32_t j = 0; j < n; ++j) col.push_back(j), values.push_back(j == 0 ? 2.0 * n : 0.5);
    else
      col.push_back(i), values.push_back(2);
    row_ptr.push_back(static_cast<std::int32_t>(col.size()));
  }
  const auto csr = protean::csr_view(n, n, row_ptr.data(), col.data(), values.data());
  expect(caught_as([&] { (void)protean::make_matrix(protean::find_format("ell"), csr, context); }) ==
             "FormatRefused of ell",
         "FormatRefused is caught with its members");
  const auto matrix = protean::make_matrix(protean::find_format("csr"), csr, context);
  expect(dynamic_cast<const protean::HasMultiProduct<double>*>(matrix.get()) != nullptr,
         "the program finds an ability of a matrix of the library");

  Scaling A(context, n);
  std::vector<double> b(n, 1.0), x(n, 0.0), wrong(n + 1);
  expect(caught_as([&] {
           A.apply({wrong.data(), n + 1}, {x.data(), n});
         }) == "ShapeMismatch",
         "ShapeMismatch is caught");
  const auto M = protean::make_preconditioner("jacobi", A);
  M->ensure(A);
  Counter counter;
  const auto cg = protean::make_solver<double>("cg");
  const protean::SolveReport report = cg->solve(A, {b.data(), n}, {x.data(), n}, M.get(), &counter);
  expect(report.converged() && std::abs(x[n - 1] - 1.0 / n) < 1e-10,
         "the library finds the diagonal of the program's operator");
  expect(counter.calls > 0, "the library calls the program's observer");
  A.throws = 7;
  expect(caught_as([&] {
           (void)cg->solve(A, {b.data(), n}, {x.data(), n});
         }) == "int 7",
         "what the program's operator throws passes through the library");
  if (failures == 0) std::puts("exceptions and types cross the border of the library");
  return failures;
}
