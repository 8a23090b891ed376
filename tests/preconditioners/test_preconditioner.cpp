// What all preconditioners share: their table, options, shapes, and the entries of the operator.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/io/matrix_market.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/elements/element_operator.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/rows.hpp"
#include "preconditioners/all_ids.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST(Preconditioners, EntriesOfEveryOperator) {
  const Dense A = poisson_1d(6);
  struct WithRows final : DenseOperator<double>, HasRows<double> {
    using DenseOperator<double>::DenseOperator;
    CsrMatrix<double> rows_as_csr() const override { return sparse(matrix()); }
  };
  const WithRows rows(A);
  expect_same(dense_inverse(*ready<double>("ic0", rows)), inverse(A), 1e-14);
  const DenseOperator<double> none(A);
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("ic0", none); }),
              "ic0 needs the entries of the matrix, which operator 'dense' cannot give");
  // Element matrices: the bars of poisson_1d, with both ends fixed.
  std::vector<std::int32_t> nodes;
  std::vector<double> bars;
  for (std::int32_t e = 0; e < 7; ++e)
    nodes.insert(nodes.end(), {e, e + 1}), bars.insert(bars.end(), {1, -1, -1, 1});
  const ElementGroup<double> group{.elements = 7, .nodes = 2, .connectivity = nodes, .matrices = bars};
  const std::int64_t ends[] = {0, 7};
  const ElementOptions options{.constrained = ends, .constrained_rows = ConstrainedRows::eliminate};
  auto elements = make_element_operator<double>(test_context(), 8, {&group, 1}, options);
  expect_same(dense_inverse(*ready<double>("ic0", *elements)), inverse(A), 1e-14);
  Matrix<double> adaptive(std::move(elements));
  expect_same(dense_inverse(*ready<double>("ic0", adaptive)), inverse(A), 1e-14);
  ASSERT_TRUE(adaptive.switch_to({.entry = &find_format("csr")}, 1));
  expect_same(dense_inverse(*ready<double>("ic0", adaptive)), inverse(A), 1e-14);
}

TEST(Preconditioners, OptionsOutOfRange) {
  const DenseOperator<double> A(poisson_1d(4));
  const auto refused = [&](PreconditionerOptions options) {
    return message<BadArgument>([&] { make_preconditioner<double>("jacobi", A, options); });
  };
  EXPECT_SAYS(refused({.fill = -1}), "fill is -1; it must be a whole number from 0 to 1000");
  EXPECT_SAYS(refused({.block_size = 65}),
              "block_size is 65; it must be 0 for auto, or a whole number from 1");
  EXPECT_SAYS(refused({.omega = 2}), "omega is 2; it must be a number above 0 and below 2");
  EXPECT_SAYS(refused({.omega = std::nan("")}), "omega is nan");
  EXPECT_SAYS(refused({.smoother = static_cast<Smoother>(7)}),
              "smoother is 7; it must be one of: l1-jacobi, gauss-seidel, chebyshev");
  // In range, but jacobi does not read them.
  EXPECT_SAYS(
      refused({.omega = 1.5}),
      "omega is for preconditioner ssor; the preconditioner is jacobi: leave it at 1, or take that one");
  EXPECT_SAYS(refused({.fill = 2}), "fill is for preconditioners ic and ilu; the preconditioner is jacobi");
  EXPECT_SAYS(
      message<BadArgument>(
          [&] { make_preconditioner<double>("none", A, {.zero_diagonal = ZeroDiagonal::one}); }),
      "zero_diagonal is for each preconditioner except none, block-jacobi and fields; the preconditioner is none");
  EXPECT_SAYS(message<BadArgument>([&] { make_preconditioner<double>("ic0", A, {.sweeps = 5}); }),
              "sweeps is for solve: sweeps; solve is auto: leave it at 4");
  EXPECT_EQ(preconditioner_options_read_by("ic", {.fill = 3, .omega = 1.5}),
            PreconditionerOptions{.fill = 3});
}

TEST(Preconditioners, RectangularAndEmpty) {
  const auto empty =
      assembled(csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{}));
  for (const std::string& id : all_ids()) EXPECT_TRUE(applied(*ready<double>(id, *empty), {}).empty()) << id;
  const std::vector<Triplet<double>> entries = {{0, 0, 2}, {1, 1, 3}};
  for (const auto& [rows, cols] : {std::pair(2, 3), std::pair(3, 2), std::pair(2, 0)}) {
    const auto A = assembled(csr_from_triplets<double>(test_context(), rows, cols,
                                                       cols == 0 ? std::vector<Triplet<double>>{} : entries));
    for (const std::string& id : all_ids())
      EXPECT_SAYS(message<ShapeMismatch>([&] { (void)make_preconditioner<double>(id, *A); }),
                  "the operator is " + std::to_string(rows) + " x " + std::to_string(cols) +
                      "; a preconditioner needs a square one");
    EXPECT_EQ(make_preconditioner<double>("none", *A), nullptr);
  }
}

// Each entry of the table makes what it names.
TEST(Preconditioners, EveryEntryMakesItsOwn) {
  const CsrMatrix<double> csr = sparse(poisson_2d(5));
  const auto A = assembled(csr);
  const auto B = assembled(sparse<float>(poisson_2d(5)));
  for (const PreconditionerEntry& entry : preconditioners()) {
    EXPECT_FALSE(entry.title.empty()) << entry.id;
    if (entry.id == "none") continue;
    if (!entry.unavailable.empty()) {
      EXPECT_THROW((void)make_preconditioner<double>(entry.id, *A), NotAvailable) << entry.id;
      continue;
    }
    const auto M = make_preconditioner<double>(entry.id, *A);
    EXPECT_EQ(M->name(), entry.id);
    EXPECT_EQ(M->symmetric(), entry.symmetric) << entry.id;
    EXPECT_EQ(make_preconditioner<float>(entry.id, *B)->name(), entry.id);
  }
}

std::int64_t iterations(const CsrMatrix<double>& csr, const char* method, const char* id) {
  const auto A = assembled(csr);
  const auto M = ready<double>(id, *A);
  const std::vector<double> ones(static_cast<std::size_t>(csr.rows()), 1.0);
  std::vector<double> b(ones.size()), x(ones.size());
  A->apply(view(ones), view(b));
  const SolveReport report = make_solver<double>(method, {.stopping = {.max_iterations = 100000}})
                                 ->solve(*A, view(std::as_const(b)), view(x), M.get());
  EXPECT_TRUE(report.converged()) << id << ' ' << to_string(report.reason);
  return report.iterations;
}
CsrMatrix<double> shipped(const std::string& name) {
  return read_matrix(test_context(),
                     std::string(PROTEAN_SOURCE_DIR "/problems/matrices/") + name + ".mtx.xz");
}

TEST(RealMatrices, FewerIterationsThanJacobi) {
  const CsrMatrix<double> structure = shipped("bcsstk16"), shell = shipped("s1rmt3m1"),
                          reservoir = shipped("orsirr_1");
  EXPECT_LT(3 * iterations(structure, "cg", "ic0"), iterations(structure, "cg", "jacobi"));
  EXPECT_LT(4 * iterations(shell, "cg", "ic0"), iterations(shell, "cg", "jacobi"));
  EXPECT_LT(5 * iterations(reservoir, "bicgstab", "ilu0"), iterations(reservoir, "bicgstab", "jacobi"));
}

TEST(Preconditioners, NamesAndShapes) {
  const DenseOperator<double> A(diagonal_matrix({2, 4})), three(diagonal_matrix({1, 2, 3}));
  EXPECT_EQ(make_preconditioner<double>("none", A), nullptr);
  const std::string text = message<BadArgument>([&] { make_preconditioner<double>("jakobi", A); });
  EXPECT_NE(text.find("Did you mean 'jacobi'?"), std::string::npos) << text;
  const auto M = make_preconditioner<double>("jacobi", A);
  EXPECT_THROW(M->ensure(three), ShapeMismatch);
  struct Identity final : LinearOperator<double> {
    Identity() : LinearOperator<double>(test_context(), {2, 2}) {}
    std::string_view name() const noexcept override { return "identity"; }
    void do_apply(double, VectorView<const double>, double, VectorView<double>) const override {}
  };
  const Identity unknown;
  const std::string no_diagonal = message<BadArgument>([&] { M->ensure(unknown); });
  EXPECT_NE(no_diagonal.find("'identity'"), std::string::npos) << no_diagonal;
  std::vector<double> x(2, 1.0), y(2);
  EXPECT_THROW(M->apply(view(std::as_const(x)), view(y)), BadArgument) << "not set up";
}

TEST(Preconditioner, IsToldWhetherThePatternIsAnotherOne) {
  DenseOperator<double> A(poisson_1d(4)), other(poisson_1d(4));
  std::vector<bool> changes;
  CallbackPreconditioner<double> M(
      A.context(), A.shape(), [](const double* r, double* z, CUstream_st*) { std::copy(r, r + 4, z); },
      [&](const LinearOperator<double>&, bool pattern_changed) { changes.push_back(pattern_changed); });
  M.ensure(A);
  ++A.revision_.values;
  M.ensure(A);
  ++A.revision_.pattern;
  M.ensure(A), M.ensure(A);
  M.ensure(other);
  EXPECT_EQ(changes, (std::vector<bool>{true, false, true, true}));
}

}  // namespace
}  // namespace protean::test
