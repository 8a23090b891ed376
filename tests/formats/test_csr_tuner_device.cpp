// csr tuned after Reguly and Giles on a GPU: right with all parameters that the tuner tries, and recorded
// once it has settled.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "operators/tuning.hpp"
#include "solvers/solver.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

template <class T>
void products_while_it_tries(const ContextPtr& context, const CsrMatrix<T>& csr, const char* kernel) {
  const auto A = make_matrix(find_format("csr"), placed(context, csr), context, {}, kernel);
  EXPECT_FALSE(A->recording().allowed);
  const std::vector<T> x = sample_vector<T>(csr.cols(), 3), y0 = sample_vector<T>(csr.rows(), 4);
  const Placed<T> there(context, x);
  int products = 0;
  for (; !A->recording().allowed && products < 200; ++products) {
    Placed<T> y(context, y0);
    A->apply(T(-0.5), there.read(), T(2), y.view());
    ASSERT_TRUE(product_is_right(csr, T(-0.5), x, T(2), y0, y.fetch())) << products;
  }
  EXPECT_GE(products, 3);
  EXPECT_LT(products, 60);
  // It says what it chose.
  const Tuning tuning = dynamic_cast<const HasTuning&>(*A).tuning();
  EXPECT_TRUE(tuning.settled);
  EXPECT_EQ(tuning.measurements, products - 1);  // the last product reads the time of the one before
  std::string options;
  for (const Tuning::Choice& choice : tuning.choices) {
    options += std::string(choice.option) + " ";
    EXPECT_GE(std::stoi(choice.value), 1);
    EXPECT_EQ(choice.by, "time");
  }
  EXPECT_EQ(options, "T repeat block ");
}

TEST(CsrTunedOnADevice, IsRightWithWhateverItTriesAndSettles) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  const ContextPtr host = test_context();
  for (const char* kernel : {"reguly-giles-tuned", "gridification"}) {
    SCOPED_TRACE(kernel);
    products_while_it_tries(context, generate(host, "poisson-3d", {{"n", 40}}), kernel);
    products_while_it_tries(context, generate(host, "elasticity-3d", {{"n", 12}}), kernel);
    products_while_it_tries(context, generate(host, "graph-laplacian", {{"n", 20000}}), kernel);
    products_while_it_tries(context, battery_matrix("one_full_row_300"), kernel);
  }
}

TEST(CsrTunedOnADevice, ASolveGoesOnThroughItsTrialsAndIsRecordedThen) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  const CsrMatrix<double> csr = upload(context, generate(test_context(), "poisson-3d", {{"n", 30}}));
  Vector<double> b(context, csr.rows()), x(context, csr.rows());
  fill<double>(*context, 1.0, b);
  std::int64_t iterations[2];
  for (const char* kernel : {"native", "reguly-giles-tuned"}) {
    const bool tuned = std::string_view(kernel) != "native";
    const auto A = make_matrix(find_format("csr"), csr, context, {}, kernel);
    fill<double>(*context, 0.0, x);
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-10;
    options.device_steps = "graph";
    const SolveReport report = make_solver<double>("cg", options)->solve(*A, b, x);
    EXPECT_TRUE(report.converged());
    EXPECT_TRUE(A->recording().allowed);
    EXPECT_GE(report.graphs_recorded, 1);
    iterations[tuned] = report.iterations;
  }
  EXPECT_NEAR(static_cast<double>(iterations[1]), static_cast<double>(iterations[0]), 3);
}

}  // namespace
}  // namespace protean::test
