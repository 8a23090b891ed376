// Abilities of operators: each wrapper has the abilities of the operator inside, or says why not, and they are right.
// Products and solves with several columns in another order of the rows.
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "able_operators.hpp"
#include "formats/catalogue.hpp"
#include "formats/compose.hpp"
#include "gtest/gtest.h"
#include "operators/callback_operator.hpp"
#include "operators/in_order.hpp"
#include "operators/layout.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/parts.hpp"
#include "operators/rows.hpp"
#include "operators/tuning.hpp"
#include "order_changes.hpp"
#include "solvers/ordered_solve.hpp"
#include "support/elements.hpp"

namespace protean::test {
namespace {

// An operator of a user's with every ability but an order, for a matrix. It counts their uses.
class Everything final : public LinearOperator<double>,
                         public HasDiagonal<double>,
                         public HasApplyDot<double>,
                         public HasMultiProduct<double>,
                         public HasTransposedProduct<double>,
                         public HasRows<double>,
                         public HasRowArrays<double>,
                         public HasTuning,
                         public HasLayout,
                         public HasParts {
 public:
  explicit Everything(const CsrMatrix<double>& csr)
      : LinearOperator<double>(test_context(), {csr.rows(), csr.cols()}),
        A_(make_matrix(find_format("csr"), csr, test_context())) {}
  std::string_view name() const noexcept override { return "everything"; }
  void diagonal(VectorView<double> d) const override { A_->diagonal(d); }
  void do_apply_dot(VectorView<const double> x, VectorView<double> y, double* result) const override {
    ++dots;
    apply_dot<double>(*A_, x, y, result);
  }
  void do_multi_apply(double alpha, MultiVectorView<const double> X, double beta,
                      MultiVectorView<double> Y) const override {
    ++passes;
    multi_apply<double>(*A_, alpha, X, beta, Y);
  }
  void do_apply_transposed(double alpha, VectorView<const double> x, double beta,
                           VectorView<double> y) const override {
    apply_transposed<double>(*A_, alpha, x, beta, y);
  }
  CsrMatrix<double> rows_as_csr() const override { return A_->to_csr(); }
  RowArrays<double> row_arrays() const noexcept override { return {.kind = RowArrays<double>::Kind::csr}; }
  Tuning tuning() const override {
    Tuning tuning;
    tuning.measurements = 17;
    return tuning;
  }
  std::vector<LayoutArray> layout() const override { return {{"of everything", "double", {1, 2}}}; }
  std::vector<PartShare> part_shares() const override { return {{"csr", 3, 4}}; }
  mutable int dots = 0, passes = 0;

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    A_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> A_;
};

// As in a program that was written before there was a set: it derives from two interfaces, and overrides their
// functions.
class OfAUser final : public LinearOperator<double>, public HasDiagonal<double> {
 public:
  explicit OfAUser(std::int64_t n) : LinearOperator<double>(test_context(), {n, n}) {}
  std::string_view name() const noexcept override { return "twice"; }
  void diagonal(VectorView<double> d) const override {
    for (std::int64_t i = 0; i < d.size; ++i) d.data[i] = 2;
  }

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    for (std::int64_t i = 0; i < x.size; ++i)
      y.data[i] = 2 * alpha * x.data[i] + (beta == 0 ? 0 : beta * y.data[i]);
  }
};

std::set<std::string> names_of(const LinearOperator<double>& A) {
  std::set<std::string> names;
  A.abilities().for_each([&](std::string_view name, const auto& ability) {
    if (ability) names.insert(std::string(name));
  });
  return names;
}

// What the operator inside has, the wrapper has or refuses with a reason. `refused`: the abilities that it refuses.
void expect_forwarded(const LinearOperator<double>& inside, const LinearOperator<double>& wrapper,
                      const std::set<std::string>& refused) {
  const std::set<std::string> has = names_of(inside);
  std::set<std::string> missing;
  wrapper.abilities().for_each([&](std::string_view name, const auto& ability) {
    EXPECT_FALSE(ability && !ability.why().empty()) << name;
    if (ability || !has.count(std::string(name))) return;
    missing.insert(std::string(name));
    EXPECT_FALSE(ability.why().empty()) << name << " of " << inside.name() << " is dropped without a reason";
  });
  EXPECT_EQ(missing, refused) << inside.name();
}

TEST(Abilities, AreAllInTheSet) {
  std::set<std::string_view> names;
  int count = 0;
  Abilities<double>().for_each([&](std::string_view name, const auto& ability) {
    names.insert(name), ++count;
    EXPECT_FALSE(ability) << name;
    EXPECT_EQ(ability.why(), "");
  });
  EXPECT_EQ(count * sizeof(Ability<HasTuning>), sizeof(Abilities<double>)) << "for_each() leaves one out";
  EXPECT_EQ(names.size(), static_cast<std::size_t>(count));
}

TEST(Abilities, AreTheInterfacesThatAClassIsDerivedFrom) {
  const Everything A(system());
  const Abilities<double> set = A.abilities();
  EXPECT_EQ(names_of(A).size(), 9u) << "all but order";
  EXPECT_EQ(set.diagonal.get(), static_cast<const HasDiagonal<double>*>(&A));
  EXPECT_EQ(set.parts.get(), static_cast<const HasParts*>(&A));
  const OfAUser B(5);
  EXPECT_EQ(names_of(B), (std::set<std::string>{"diagonal"}));
  Vector<double> b(test_context(), 5), x(test_context(), 5);
  for (int i = 0; i < 5; ++i) b[i] = i, x[i] = 0;
  const auto M = preconditioner("jacobi", B);
  EXPECT_TRUE(make_solver<double>("cg")->solve(B, b, x, M.get()).converged());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(x[i], 0.5 * i);
  const auto csr = in_format("csr", system());
  EXPECT_EQ(names_of(*csr), (std::set<std::string>{"apply_dot", "diagonal", "layout", "multi_product", "rows",
                                                   "transposed_product"}));
}

// All wrappers around all kinds of operators.
TEST(Abilities, OfTheOperatorInsideAreForwardedOrRefusedWithAReason) {
  // With few diagonals, so that no format refuses it.
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const Permutation P = shuffled(csr.rows());
  std::vector<std::shared_ptr<LinearOperator<double>>> operators = {
      std::make_shared<Everything>(csr),
      std::make_shared<OfAUser>(csr.rows()),
      in_format("csr", csr),
      in_format("sell-c-sigma", csr),
      in_format("adell-plus", csr),
      in_format("dia", csr),
      in_format("coo", csr),
      std::make_shared<CallbackOperator<double>>(test_context(), Shape{csr.rows(), csr.rows()},
                                                 HostProductFunction<double>([](const double*, double*) {}))};
  const PartOfSum parts[] = {{.format = "dia", .take = "diagonals"}, {.format = "csr"}};
  operators.push_back(make_sum<double>(parts, csr, test_context()));
  bool tuned = false, composed = false;
  for (const auto& inside : operators) {
    SCOPED_TRACE(inside->name());
    const std::set<std::string> all = names_of(*inside);
    tuned = tuned || all.count("tuning") > 0, composed = composed || all.count("parts") > 0;
    const auto these = [&](std::set<std::string> some) {
      std::erase_if(some, [&](const std::string& name) { return all.count(name) == 0; });
      return some;
    };
    const Matrix<double> ordered(P, inside);
    expect_forwarded(*inside, ordered, these({"row_arrays"}));
    EXPECT_TRUE(ordered.abilities().order);
    expect_forwarded(ordered.in_order(), ordered, these({"row_arrays"}));
    for (const auto& one : {P, Permutation()})
      expect_forwarded(*inside, detail::InOrder<double>(*inside, one), these({"rows", "row_arrays"}));
  }
  EXPECT_TRUE(tuned && composed) << "no operator of this test has tuning, or parts";
  // An adaptive operator and its in_order() compute with matrices, or with element matrices.
  for (const char* format : {"csr", "sell-c-sigma", "adell-plus", "coo"}) {
    SCOPED_TRACE(format);
    Matrix<double> A(csr, make_matrix(find_format(format), csr, test_context()));
    for (const char* order : {"none", "rcm"}) {
      ASSERT_TRUE(A.switch_to(order_only(order), 0) || A.order_id() == order);
      expect_forwarded(A.running(), A, {});
      expect_forwarded(A, A.in_order(), {"order"});
      for (const auto* one : {&A.running(), static_cast<const LinearOperator<double>*>(&A), &A.in_order()})
        for (const char* each : {"diagonal", "rows"}) EXPECT_TRUE(names_of(*one).count(each)) << each;
    }
  }
  const ElementMesh& mesh = element_mesh(element_meshes().front().name);
  const ElementNumbers<double> numbers = element_numbers<double>(mesh, true);
  Matrix<double> elements(
      make_element_operator<double>(test_context(), mesh.nodes, numbers.groups,
                                    {.components = mesh.components, .allow_unused_nodes = mesh.unused}));
  expect_forwarded(elements.running(), elements, {});
  const Tridiagonal M(*operators[0]);
  expect_forwarded(M, detail::OrderedPreconditioner<double>(M, P), {});
  const auto jacobi = preconditioner("jacobi", *operators[0]);
  expect_forwarded(*jacobi, detail::OrderedPreconditioner<double>(*jacobi, P), {});
}

// The numbers, not only the pointers.
TEST(Abilities, OfAnOperatorInAnOrderAreThoseOfTheCallersNumbering) {
  const CsrMatrix<double> csr = system();
  const std::int64_t n = csr.rows();
  PermutedMatrix<double> permuted(test_context(), csr, shuffled(n));
  const auto B = std::make_shared<Everything>(permuted.matrix());
  const Matrix<double> A(permuted.permutation(), B);
  const auto plain = make_matrix(find_format("csr"), csr, test_context());
  Vector<double> x(test_context(), n), y(test_context(), n), z(test_context(), n);
  for (std::int64_t i = 0; i < n; ++i) x[i] = std::sin(static_cast<double>(i));
  double one = 0, two = 0;
  apply_dot<double>(A, x, y, &one), apply_dot<double>(*plain, x, z, &two);
  EXPECT_EQ(B->dots, 1) << "in one pass";
  EXPECT_NEAR(one, two, 1e-10 * std::abs(two));
  for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], z[i], 1e-12 * (1 + std::abs(z[i]))) << i;
  A.abilities().diagonal->diagonal(y), plain->diagonal(z);
  for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], z[i]) << i;
  const std::optional<CsrMatrix<double>> rows = csr_of<double>(A);
  ASSERT_TRUE(rows);
  EXPECT_TRUE(std::equal(rows->values, rows->values + csr.nonzeros(), csr.values));
  EXPECT_TRUE(std::equal(rows->pattern.col, rows->pattern.col + csr.nonzeros(), csr.pattern.col));
  EXPECT_EQ(A.abilities().tuning->tuning().measurements, 17);
  EXPECT_EQ(A.abilities().layout->layout().at(0).name, "of everything");
  EXPECT_EQ(A.abilities().parts->part_shares().at(0).entries, 3);
}

// Tuning, layout and parts belong to the matrix that runs at the time.
TEST(Abilities, OfAMatrixFollowTheFormat) {
  const CsrMatrix<double> csr = system();
  Matrix<double> A(csr, make_matrix(find_format("csr"), csr, test_context()));
  const auto array = [&] { return A.abilities().layout->layout().at(0).name; };
  const std::string of_csr = array();
  EXPECT_FALSE(A.abilities().tuning);
  ASSERT_TRUE(A.switch_to({.entry = &find_format("coo")}, 0)) << A.failures().back().why;
  EXPECT_NE(array(), of_csr);
  ASSERT_TRUE(A.switch_to({.entry = &find_format("adell-plus")}, 0)) << A.failures().back().why;
  ASSERT_TRUE(A.abilities().tuning);
  EXPECT_FALSE(A.abilities().tuning->tuning().choices.empty());
  EXPECT_TRUE(A.in_order().abilities().tuning);
}

}  // namespace
}  // namespace protean::test
