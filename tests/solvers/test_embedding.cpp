// A long-running program: one solver, preconditioner and matrix for hundreds of solves with changing values,
// on the arrays of the program.
#include <cmath>
#include <functional>
#include <string>
#include <thread>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/memory.hpp"
#include "count_new.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/elements/element_operator.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/elements.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

struct Taken {
  std::int64_t news = 0;
  std::size_t buffers = 0;
};

// Two hundred solves; update(k) sets the values for solve k. Returns the memory that was allocated after the
// third one, when all workspace exists.
template <class Update>
Taken solve_often(const LinearOperator<double>& A, Update update) {
  const auto M = make_preconditioner<double>("jacobi", A);
  const auto cg = make_solver<double>("cg");
  const auto b = sample_vector<double>(A.rows(), 3);
  std::vector<double> x(b.size());
  Taken taken;
  for (int k = 0; k < 200; ++k) {
    if (k == 3) taken = {count_of_new(), allocated_bytes()};
    update(k);
    M->ensure(A);
    const SolveReport report = cg->solve(A, {b.data(), A.rows()}, {x.data(), A.rows()}, M.get());
    EXPECT_TRUE(report.converged()) << to_string(report.reason);
    EXPECT_LE(report.true_relative, 1e-8);
  }
  return {count_of_new() - taken.news, allocated_bytes() - taken.buffers};
}

TEST(Embedding, TwoHundredSolvesOnTheCallersArraysTakeNoMemory) {
  const auto source = generate(test_context(), "poisson-2d", {{"n", 20}});
  std::vector<double> values(source.values, source.values + source.nonzeros());
  for (const char* format : {"csr", "sell-c-sigma", "ell", "sell-packed", "bcsr"}) {
    SCOPED_TRACE(format);
    const auto csr = with_values(source, values.data());
    const auto A = make_matrix(find_format(format), csr, test_context());
    const Taken taken = solve_often(*A, [&](int k) {
      for (std::int64_t i = 0; i < source.nonzeros(); ++i)
        values[i] = source.values[i] * (1 + 0.001 * k);  // changes the program's array in place
      A->update_values(csr);
    });
    EXPECT_EQ(taken.buffers, 0u);
    // sell-packed allocates small helper arrays during an update.
    if (std::string_view(format) != "sell-packed") { EXPECT_EQ(taken.news, 0); }
  }
}

TEST(Embedding, ASecondThreadOnOneSolverIsRefusedAndDisturbsNothing) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const auto A = make_matrix(find_format("csr"), csr, Context::host(1));
  const auto b = sample_vector<double>(A->rows(), 3);
  for (const char* method : {"cg", "bicgstab", "gmres"}) {
    const auto solver = make_solver<double>(method);
    std::vector<double> undisturbed(b.size(), 0.0), x(b.size(), 0.0), other(b.size(), 0.0);
    const std::vector<double> zeros = other;
    solver->solve(*A, {b.data(), A->rows()}, {undisturbed.data(), A->rows()});
    struct Second final : SolveObserver {
      std::function<void()> then;
      bool on_iteration(const IterationInfo& info) override {
        if (info.iteration == 3) then();
        return true;
      }
    } second;
    int refused = 0;
    second.then = [&] {
      std::thread([&] {
        try {
          (void)solver->solve(*A, {b.data(), A->rows()}, {other.data(), A->rows()});
        } catch (const BadArgument& error) {
          refused += std::string(error.what()).find("give each thread its own solver") != std::string::npos;
        }
      }).join();
    };
    EXPECT_TRUE(
        solver->solve(*A, {b.data(), A->rows()}, {x.data(), A->rows()}, nullptr, &second).converged());
    EXPECT_EQ(refused, 1) << method;
    EXPECT_EQ(x, undisturbed);
    EXPECT_EQ(other, zeros);
  }
}

TEST(Embedding, TwoHundredSolvesOnElementMatricesTakeNoMemory) {
  const ElementMesh& mesh = element_mesh("cubes_1");
  auto numbers = element_numbers<double>(mesh, true);
  const auto first = numbers.matrices[0];
  for (const auto scatter : {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather}) {
    SCOPED_TRACE(to_string(scatter));
    ElementOptions options;
    options.symmetric = true, options.scatter = scatter;
    const auto A = make_element_operator<double>(test_context(), mesh.nodes, numbers.groups, options);
    const Taken taken = solve_often(*A, [&](int k) {
      for (std::size_t i = 0; i < first.size(); ++i) numbers.matrices[0][i] = first[i] * (1 + 0.001 * k);
      A->update_values(numbers.groups);
    });
    EXPECT_EQ(taken.buffers, 0u);
    EXPECT_EQ(taken.news, 0);
  }
}

}  // namespace
}  // namespace protean::test
