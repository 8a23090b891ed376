// MFEM's example 1 with the solvers of Protean: -laplace u = f in a cube of hexahedra, u given on the
// boundary. The same mfem::Solver solves the system three times:
//
//   1. the assembled mfem::SparseMatrix in format csr, on the arrays of MFEM
//   2. the same matrix in another format
//   3. the element matrices of the form, without assembly
//
// usage: mfem_poisson [elements along a side [degree [format]]]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <protean/mfem/protean_mfem.hpp>

namespace {

// -laplace u = 3 pi^2 u; not 0 on the faces x = 0 and x = 1.
double solution(const mfem::Vector& p) {
  const double pi = 3.14159265358979324;
  return std::cos(pi * p(0)) * std::sin(pi * p(1)) * std::sin(pi * p(2));
}
double source(const mfem::Vector& p) { return 3 * std::pow(3.14159265358979324, 2) * solution(p); }

bool say(const char* what, const protean_mfem::Solver& solver, double error) {
  const protean::SolveReport& report = solver.report();
  std::printf("%-28s %-14s %4lld iterations, |b - A x| / |b| = %.1e, L2 error %.6e\n", what,
              solver.get()->name().data(), static_cast<long long>(report.iterations), report.true_relative,
              error);
  return report.converged();
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 8, degree = argc > 2 ? std::atoi(argv[2]) : 2;
  const std::string format = argc > 3 ? argv[3] : "sell-packed";

  mfem::Mesh mesh = mfem::Mesh::MakeCartesian3D(n, n, n, mfem::Element::HEXAHEDRON);
  const mfem::H1_FECollection collection(degree, 3);
  mfem::FiniteElementSpace space(&mesh, &collection);
  mfem::Array<int> boundary(mesh.bdr_attributes.Max()), essential;
  boundary = 1;
  space.GetEssentialTrueDofs(boundary, essential);

  mfem::FunctionCoefficient exact(solution), f(source);
  mfem::LinearForm b(&space);
  b.AddDomainIntegrator(new mfem::DomainLFIntegrator(f));
  b.Assemble();
  mfem::Vector right(b);  // FormLinearSystem() works on b itself
  mfem::GridFunction u(&space);
  const auto start = [&] { u = 0.0, u.ProjectBdrCoefficient(exact, boundary); };
  const auto context = protean::Context::host();
  protean_mfem::SolverOptions options;  // Jacobi-CG
  options.solver.stopping.relative_tolerance = 1e-10;
  bool good = true;
  std::printf("%d unknowns, %d elements of degree %d\n", space.GetVSize(), mesh.GetNE(), degree);

  // The assembled matrix, as in MFEM's example, with another solver.
  mfem::BilinearForm a(&space);
  a.AddDomainIntegrator(new mfem::DiffusionIntegrator);
  a.Assemble();
  start();
  mfem::SparseMatrix A;
  mfem::Vector B, X;
  a.FormLinearSystem(essential, u, b, A, X, B);
  double errors[3];
  {
    protean_mfem::Solver solver(context, options);
    solver.iterative_mode = true;  // X holds the boundary values
    solver.SetOperator(A);
    solver.Mult(B, X);
    a.RecoverFEMSolution(X, b, u);
    errors[0] = u.ComputeL2Error(exact);
    good = say("mfem::SparseMatrix in place", solver, errors[0]) && good;
  }
  {
    A.SortColumnIndices();  // in place; formats other than csr need it
    protean_mfem::SolverOptions converted = options;
    converted.format = format;
    protean_mfem::Solver solver(context, converted);
    solver.SetOperator(A);
    solver.Mult(B, X);
    a.RecoverFEMSolution(X, b, u);
    errors[1] = u.ComputeL2Error(exact);
    good = say("mfem::SparseMatrix, converted", solver, errors[1]) && good;
  }

  // Without assembly.
  mfem::BilinearForm local(&space);
  local.AddDomainIntegrator(new mfem::DiffusionIntegrator);
  protean_mfem::ElementMatrices K(context, local, essential, /*symmetric=*/true);
  {
    start();
    K.EliminateRHS(u, right);
    local.FreeElementMatrices();  // Protean has its own copy
    protean_mfem::Solver solver(context, options);
    solver.iterative_mode = true;
    solver.SetOperator(K);
    solver.Mult(right, u);
    errors[2] = u.ComputeL2Error(exact);
    good = say("element matrices", solver, errors[2]) && good;
  }

  // The three are the same discrete solution, and it is close to the exact one.
  const double bound = degree == 1 ? 0.1 : 0.01;
  for (const double error : errors)
    good = good && error < bound && std::abs(error - errors[0]) < 1e-6 * errors[0];
  return good ? 0 : 1;
}
