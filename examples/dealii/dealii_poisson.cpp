// deal.II's step 4 with the solvers of Protean: -laplace u = f in a cube, u given on the boundary, quadratic
// elements. The exact solution |p|^2 is in the space, so the only error is the error of the solver.
//
// The system is solved in format csr on the arrays of deal.II, then in another format, then with other values
// (a term c u is added in steps, as in time stepping). Each result is compared with the result of deal.II's conjugate
// gradients. Before that, SolverCG and its
// kin here take the place of deal.II's in the same calls, with its preconditioners and controls.
//
// usage: dealii_poisson [refinements [format]]
#include <deal.II/base/function_lib.h>
#include <deal.II/base/quadrature_lib.h>
#include <deal.II/dofs/dof_handler.h>
#include <deal.II/dofs/dof_tools.h>
#include <deal.II/fe/fe_q.h>
#include <deal.II/fe/fe_values.h>
#include <deal.II/grid/grid_generator.h>
#include <deal.II/grid/tria.h>
#include <deal.II/lac/dynamic_sparsity_pattern.h>
#include <deal.II/lac/precondition.h>
#include <deal.II/lac/solver_cg.h>
#include <deal.II/lac/solver_control.h>
#include <deal.II/numerics/matrix_tools.h>
#include <deal.II/numerics/vector_tools.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include <protean/dealii/protean_dealii.hpp>

namespace {

constexpr int dim = 3;

struct Problem {
  dealii::Triangulation<dim> mesh;
  dealii::FE_Q<dim> element{2};
  dealii::DoFHandler<dim> unknowns{mesh};
  dealii::SparsityPattern pattern;
  dealii::SparseMatrix<double> A;
  dealii::Vector<double> b;
  const dealii::Functions::SquareFunction<dim> exact;  // |p|^2

  explicit Problem(unsigned refinements) {
    dealii::GridGenerator::hyper_cube(mesh, -1, 1);
    mesh.refine_global(refinements);
    unknowns.distribute_dofs(element);
    dealii::DynamicSparsityPattern entries(unknowns.n_dofs());
    dealii::DoFTools::make_sparsity_pattern(unknowns, entries);
    pattern.copy_from(entries);
    A.reinit(pattern);
    b.reinit(unknowns.n_dofs());
  }

  // -laplace u + c u = -6 + c |p|^2
  void assemble(double c) {
    A = 0, b = 0;
    const dealii::QGauss<dim> quadrature(3);
    dealii::FEValues<dim> values(element, quadrature,
                                 dealii::update_values | dealii::update_gradients |
                                     dealii::update_JxW_values | dealii::update_quadrature_points);
    const unsigned m = element.n_dofs_per_cell();
    dealii::FullMatrix<double> k(m, m);
    dealii::Vector<double> f(m);
    std::vector<dealii::types::global_dof_index> dofs(m);
    for (const auto& cell : unknowns.active_cell_iterators()) {
      values.reinit(cell);
      k = 0, f = 0;
      for (unsigned q = 0; q < quadrature.size(); ++q)
        for (unsigned i = 0; i < m; ++i) {
          for (unsigned j = 0; j < m; ++j)
            k(i, j) += (values.shape_grad(i, q) * values.shape_grad(j, q) +
                        c * values.shape_value(i, q) * values.shape_value(j, q)) *
                       values.JxW(q);
          f(i) +=
              values.shape_value(i, q) * (-6 + c * values.quadrature_point(q).norm_square()) * values.JxW(q);
        }
      cell->get_dof_indices(dofs);
      A.add(dofs, k);
      b.add(dofs, f);
    }
    std::map<dealii::types::global_dof_index, double> boundary;
    dealii::VectorTools::interpolate_boundary_values(unknowns, 0, exact, boundary);
    dealii::Vector<double> ignored(b.size());
    dealii::MatrixTools::apply_boundary_values(boundary, A, ignored, b);
  }

  double error(const dealii::Vector<double>& u) const {
    dealii::Vector<float> of_cells(mesh.n_active_cells());
    dealii::VectorTools::integrate_difference(unknowns, u, exact, of_cells, dealii::QGauss<dim>(3),
                                              dealii::VectorTools::L2_norm);
    return dealii::VectorTools::compute_global_error(mesh, of_cells, dealii::VectorTools::L2_norm);
  }
};

bool say(const char* what, bool good) {
  std::printf("%s: %s\n", good ? "ok" : "FAILED", what);
  return good;
}

// deal.II's solver and ours by the same calls. Returns whether the two agree.
template <class Ours, class Theirs, class Preconditioner>
bool same_calls(const char* what, Problem& problem, const Preconditioner& preconditioner) {
  dealii::Vector<double> u(problem.b.size()), expected(problem.b.size()), r(problem.b.size());
  dealii::SolverControl control(1000, 1e-10 * problem.b.l2_norm()), theirs(1000, 1e-10 * problem.b.l2_norm());
  Theirs(theirs).solve(problem.A, expected, problem.b, preconditioner);
  Ours(control).solve(problem.A, u, problem.b, preconditioner);
  problem.A.residual(r, u, problem.b);
  dealii::Vector<double> gap(u);
  gap -= expected;
  std::printf("%s: %u steps, deal.II %u, difference %.1e, |b - A x| = %.1e\n", what, control.last_step(),
              theirs.last_step(), gap.linfty_norm() / expected.linfty_norm(), r.l2_norm());
  return say(what, gap.linfty_norm() < 1e-7 * expected.linfty_norm() &&
                       r.l2_norm() <= 1.01 * control.tolerance() &&
                       std::abs(control.last_value() - r.l2_norm()) <= 1e-3 * control.tolerance() &&
                       control.last_check() == dealii::SolverControl::success &&
                       control.last_step() <= theirs.last_step() * 5 / 4 + 3);
}

// A matrix that is not a SparseMatrix: twice another one.
struct Twice {
  const dealii::SparseMatrix<double>& A;
  unsigned m() const { return A.m(); }
  unsigned n() const { return A.n(); }
  void vmult(dealii::Vector<double>& y, const dealii::Vector<double>& x) const {
    A.vmult(y, x);
    y *= 2;
  }
};

bool in_place_of_deal_ii(Problem& problem) {
  using Vector = dealii::Vector<double>;
  dealii::PreconditionSSOR<dealii::SparseMatrix<double>> ssor;
  ssor.initialize(problem.A, 1.2);
  bool good = same_calls<protean_dealii::SolverCG<Vector>, dealii::SolverCG<Vector>>(
      "SolverCG", problem, dealii::PreconditionIdentity());
  good = same_calls<protean_dealii::SolverCG<Vector>, dealii::SolverCG<Vector>>("SolverCG, SSOR", problem,
                                                                                ssor) &&
         good;
  good = same_calls<protean_dealii::SolverBicgstab<>, dealii::SolverCG<Vector>>("SolverBicgstab, SSOR",
                                                                                problem, ssor) &&
         good;
  good = same_calls<protean_dealii::SolverGMRES<>, dealii::SolverCG<Vector>>("SolverGMRES, SSOR", problem,
                                                                             ssor) &&
         good;

  // It throws as deal.II does, with the step and the residual.
  const auto fails = [&](const char* what, dealii::SolverControl& control, unsigned step) {
    Vector u(problem.b.size()), r(problem.b.size());
    protean_dealii::SolverCG<Vector> solver(control);
    try {
      solver.solve(problem.A, u, problem.b, dealii::PreconditionIdentity());
    } catch (const dealii::SolverControl::NoConvergence& error) {
      problem.A.residual(r, u, problem.b);
      return say(what, error.last_step == step &&
                           std::abs(error.last_residual - r.l2_norm()) <= 1e-6 * r.l2_norm() &&
                           control.last_check() == dealii::SolverControl::failure);
    }
    return say(what, false);
  };
  dealii::SolverControl few(5, 1e-12);
  good = fails("NoConvergence after 5 steps", few, 5) && good;

  // Other controls: the reduction is relative to the initial residual; a number of steps is a success.
  Vector u(problem.b.size()), r(problem.b.size());
  dealii::ReductionControl reduction(1000, 0, 1e-4);
  protean_dealii::SolverCG<Vector>(reduction).solve(problem.A, u, problem.b, dealii::PreconditionIdentity());
  problem.A.residual(r, u, problem.b);
  good = say("ReductionControl",
             r.l2_norm() <= 1.01e-4 * problem.b.l2_norm() && r.l2_norm() > 1e-7 * problem.b.l2_norm()) &&
         good;
  dealii::IterationNumberControl steps(7, 1e-12);
  u = 0;
  protean_dealii::SolverCG<Vector>(steps).solve(problem.A, u, problem.b, dealii::PreconditionIdentity());
  good = say("IterationNumberControl", steps.last_step() == 7) && good;

  // Any matrix with vmult(): half of the solution.
  const Twice twice{problem.A};
  dealii::SolverControl control(1000, 1e-10 * problem.b.l2_norm());
  // What deal.II logs of a solve, and how often.
  std::ostringstream log;
  dealii::deallog.attach(log), dealii::deallog.depth_file(2);
  u = 0;
  protean_dealii::SolverCG<Vector>(control).solve(problem.A, u, problem.b, ssor);
  dealii::deallog.detach();
  const std::string text = log.str();
  const auto line = text.find("cg::Convergence step");
  good =
      say("the log", line != std::string::npos && text.find("Convergence", line + 5) == std::string::npos) &&
      good;
  u = 0;
  protean_dealii::SolverCG<Vector>(control).solve(twice, u, problem.b, ssor);
  u *= 2;
  problem.A.residual(r, u, problem.b);
  good = say("a matrix with vmult()", r.l2_norm() <= 1.01 * control.tolerance()) && good;

  // A right-hand side 0 is solved at once.
  u = 1;
  dealii::Vector<double> zero(problem.b.size());
  protean_dealii::SolverCG<Vector>(control).solve(problem.A, u, zero, dealii::PreconditionIdentity());
  return say("b = 0", u.linfty_norm() == 0 && control.last_check() == dealii::SolverControl::success) && good;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned refinements = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 3;
  const std::string format = argc > 2 ? argv[2] : "sell-c-sigma";
  Problem problem(refinements);
  problem.assemble(0);
  std::printf("%u unknowns, %zu entries\n", problem.unknowns.n_dofs(), problem.pattern.n_nonzero_elements());

  const auto context = protean::Context::host();
  protean_dealii::SolverOptions options;
  options.solver.stopping.relative_tolerance = 1e-12;
  protean_dealii::Solver in_place(context, options);
  options.format = format;
  protean_dealii::Solver converted(context, options);
  in_place.initialize(problem.A);
  converted.initialize(problem.A);

  bool good = true;
  // Nothing was copied: the values are the array of deal.II, and so are the columns if it allows access to
  // them.
  const protean::CsrMatrix<double> used = in_place.matrix().to_csr();
  good = good && used.values == &problem.A.diag_element(0) &&
         used.nonzeros() == static_cast<std::int64_t>(problem.A.n_nonzero_elements());
  const protean_dealii::PatternCopy copy(problem.pattern);
  for (std::int64_t k = 0; k < used.nonzeros(); ++k) good = good && used.pattern.col[k] == copy.col[k];
  std::printf("%s\n", good ? "csr computes on deal.II's arrays" : "WRONG arrays");

  good = in_place_of_deal_ii(problem) && good;
  options.format = "auto", options.preconditioner = "ssor";
  protean_dealii::Solver chosen(context, options);
  chosen.initialize(problem.A);
  dealii::Vector<double> by_choice(problem.b.size());
  chosen.vmult(by_choice, problem.b);
  std::printf("format auto is %s\n", std::string(chosen.matrix().name()).c_str());
  good = say("format auto", chosen.report().converged() && problem.error(by_choice) < 1e-9) && good;

  for (const double c : {0.0, 1.0, 10.0}) {
    if (c > 0) {
      problem.assemble(c);
      in_place.update_values();
      converted.update_values();
    }
    dealii::Vector<double> expected(problem.b.size());
    dealii::SolverControl control(10000, 1e-12 * problem.b.l2_norm());
    dealii::PreconditionJacobi<dealii::SparseMatrix<double>> jacobi;
    jacobi.initialize(problem.A);
    dealii::SolverCG<dealii::Vector<double>>(control).solve(problem.A, expected, problem.b, jacobi);
    for (protean_dealii::Solver* solver : {&in_place, &converted}) {
      dealii::Vector<double> u(problem.b.size());
      solver->vmult(u, problem.b);
      const double error = problem.error(u);
      dealii::Vector<double> gap(u);
      gap -= expected;
      const double difference = gap.linfty_norm() / expected.linfty_norm();
      std::printf(
          "c = %4.1f  %-12s %4lld iterations (deal.II %u), |b - A x| / |b| = %.1e, L2 error %.1e, "
          "from deal.II's %.1e\n",
          c, solver->matrix().name().data(), static_cast<long long>(solver->report().iterations),
          control.last_step(), solver->report().true_relative, error, difference);
      good = good && solver->report().converged() && error < 1e-9 && difference < 1e-9;
    }
  }
  return good ? 0 : 1;
}
