// Compares interfaces/mfem/protean_mfem.hpp with the products and solvers of MFEM, using the installed package.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <sstream>

#include <protean/mfem/protean_mfem.hpp>

namespace {

int failures = 0;
void expect(bool good, const char* what) {
  std::printf("%s: %s\n", good ? "ok" : "FAILED", what);
  failures += good ? 0 : 1;
}
template <class Error>
void expect_thrown(const std::function<void()>& action, const char* what) {
  try {
    action();
    expect(false, what);
  } catch (const Error& error) { expect(true, (std::string(what) + ": " + error.what()).c_str()); }
}

mfem::Vector sample(int size) {
  mfem::Vector v(size);
  for (int i = 0; i < size; ++i) v(i) = std::sin(0.37 * i + 1);
  return v;
}
double difference(const mfem::Vector& a, const mfem::Vector& b) {
  mfem::Vector gap(a);
  gap -= b;
  return gap.Normlinf() / std::max(a.Normlinf(), 1e-300);
}

// A square with quadrilaterals on the left and triangles on the right.
mfem::Mesh mixed_mesh(int n) {
  mfem::Mesh mesh(2, (n + 1) * (n + 1), 0, 0);
  for (int y = 0; y <= n; ++y)
    for (int x = 0; x <= n; ++x) mesh.AddVertex(x / double(n), y / double(n) + 0.02 * std::sin(9.0 * x));
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      const int a = y * (n + 1) + x, b = a + 1, c = b + n + 1, d = a + n + 1;
      if (x < n / 2)
        mesh.AddQuad(a, b, c, d);
      else
        mesh.AddTriangle(a, b, c), mesh.AddTriangle(a, c, d);
    }
  mesh.FinalizeMesh();
  return mesh;
}

using Integrators = std::function<void(mfem::BilinearForm&)>;

// Compares product and right-hand side of the element matrices with the assembled system.
void compare(const char* what, mfem::FiniteElementSpace& space, bool symmetric, const Integrators& add) {
  const auto context = protean::Context::host(2);
  mfem::Array<int> essential, boundary(space.GetMesh()->bdr_attributes.Max());
  boundary = 1;
  space.GetEssentialTrueDofs(boundary, essential);
  mfem::BilinearForm form(&space), assembled(&space);
  add(form), add(assembled);
  assembled.SetDiagonalPolicy(mfem::Operator::DIAG_ONE);
  assembled.Assemble();
  mfem::Vector u(space.GetVSize()), b = sample(space.GetVSize()), X, B;
  u = 0.0;
  for (const int dof : essential) u(dof) = 1 + 0.1 * (dof % 7);
  mfem::Vector right(b);
  mfem::SparseMatrix A;
  assembled.FormLinearSystem(essential, u, b, A, X, B);

  protean_mfem::ElementMatrices K(context, form, essential, symmetric);
  const mfem::Vector x = sample(space.GetVSize());
  mfem::Vector ours, theirs(space.GetVSize()), d(space.GetVSize()), d_ours;
  K.Mult(x, ours), A.Mult(x, theirs);
  A.GetDiag(d), K.AssembleDiagonal(d_ours);
  K.EliminateRHS(u, right);
  const double product = difference(theirs, ours), diagonal = difference(d, d_ours),
               rhs = difference(B, right);
  char text[200];
  std::snprintf(text, sizeof text, "%s, %d unknowns: product %.1e, diagonal %.1e, right-hand side %.1e", what,
                space.GetVSize(), product, diagonal, rhs);
  expect(product < 1e-13 && diagonal < 1e-13 && rhs < 1e-13, text);
}

void element_matrices() {
  mfem::Mesh cube = mfem::Mesh::MakeCartesian3D(3, 4, 3, mfem::Element::HEXAHEDRON);
  mfem::Mesh tets = mfem::Mesh::MakeCartesian3D(2, 3, 3, mfem::Element::TETRAHEDRON);
  mfem::Mesh mixed = mixed_mesh(8);
  mfem::Vector wind3(3), wind2(2);
  wind3(0) = 3, wind3(1) = -1, wind3(2) = 2, wind2(0) = 5, wind2(1) = 1;
  mfem::VectorConstantCoefficient v3(wind3), v2(wind2);
  mfem::ConstantCoefficient lambda(2), mu(1);
  const mfem::H1_FECollection h1(2, 3), h1_flat(3, 2);
  mfem::FiniteElementSpace scalar(&cube, &h1), nodes(&cube, &h1, 3, mfem::Ordering::byNODES),
      vdim(&tets, &h1, 3, mfem::Ordering::byVDIM), flat(&mixed, &h1_flat);
  const Integrators diffusion = [](auto& a) { a.AddDomainIntegrator(new mfem::DiffusionIntegrator); };
  const Integrators elasticity = [&](auto& a) {
    a.AddDomainIntegrator(new mfem::ElasticityIntegrator(lambda, mu));
  };
  compare("quadratic hexahedra", scalar, true, diffusion);
  compare("convection in hexahedra", scalar, false, [&](auto& a) {
    diffusion(a);
    a.AddDomainIntegrator(new mfem::ConvectionIntegrator(v3));
  });
  compare("elasticity in hexahedra by nodes", nodes, true, elasticity);
  compare("elasticity in tetrahedra by components", vdim, true, elasticity);
  compare("convection in quadrilaterals and triangles", flat, false, [&](auto& a) {
    diffusion(a);
    a.AddDomainIntegrator(new mfem::ConvectionIntegrator(v2));
  });
  compare("symmetric in quadrilaterals and triangles", flat, true, diffusion);
  const mfem::ND_FECollection nedelec(2, 3);
  mfem::FiniteElementSpace edges(&cube, &nedelec);
  compare("edge elements with signs", edges, true, [](auto& a) {
    a.AddDomainIntegrator(new mfem::CurlCurlIntegrator);
    a.AddDomainIntegrator(new mfem::VectorFEMassIntegrator);
  });
}

void drop_in() {
  const auto context = protean::Context::host(2);
  mfem::Mesh cube = mfem::Mesh::MakeCartesian3D(4, 4, 4, mfem::Element::HEXAHEDRON);
  const mfem::H1_FECollection h1(2, 3);
  mfem::FiniteElementSpace space(&cube, &h1);
  mfem::Array<int> essential, boundary(cube.bdr_attributes.Max());
  boundary = 1;
  space.GetEssentialTrueDofs(boundary, essential);
  mfem::BilinearForm form(&space);
  form.AddDomainIntegrator(new mfem::DiffusionIntegrator);
  form.Assemble();
  mfem::SparseMatrix A;
  form.FormSystemMatrix(essential, A);
  mfem::Vector b = sample(A.Height()), x(b.Size()), expected(b.Size());
  for (const int dof : essential) b(dof) = 0;
  mfem::CGSolver reference;
  reference.SetRelTol(1e-12), reference.SetMaxIter(1000), reference.SetOperator(A);
  expected = 0.0;
  reference.Mult(b, expected);

  protean_mfem::SolverOptions options;
  options.solver.stopping.relative_tolerance = 1e-12;
  protean_mfem::Solver solver(context, options);
  solver.SetOperator(A);
  const auto* matrix = dynamic_cast<const protean::AssembledMatrix<double>*>(solver.get());
  expect(matrix && matrix->to_csr().values == A.GetData() && matrix->to_csr().pattern.col == A.GetJ(),
         "format csr computes on MFEM's arrays");
  expect(!A.ColumnsAreSorted(), "whose rows are not sorted");
  solver.Mult(b, x);
  expect(solver.report().converged() && difference(expected, x) < 1e-10, "cg as MFEM's");

  protean_mfem::SolverOptions sliced = options;
  sliced.format = "sell-c-sigma";
  expect_thrown<protean::BadMatrix>([&] { protean_mfem::Solver(context, sliced).SetOperator(A); },
                                    "another format with unsorted rows");
  A.SortColumnIndices();
  protean_mfem::Solver with_format(context, sliced);
  with_format.SetOperator(A);
  with_format.Mult(b, x);
  expect(difference(expected, x) < 1e-10, "sell-c-sigma once they are sorted");

  // New values, in both formats: the solution halves.
  A *= 2.0;
  expected *= 0.5;
  solver.SetOperator(A);
  for (protean_mfem::Solver* each : {&solver, &with_format}) {
    each->UpdateValues();
    each->Mult(b, x);
    expect(each->report().converged() && difference(expected, x) < 1e-10, "new values");
  }

  // It is an mfem::Solver, so it can be used as a preconditioner or inside another solver, and it accepts any
  // operator.
  mfem::BilinearForm partial(&space);
  partial.SetAssemblyLevel(mfem::AssemblyLevel::PARTIAL);
  partial.AddDomainIntegrator(new mfem::DiffusionIntegrator);
  partial.Assemble();
  mfem::OperatorPtr matrix_free;
  partial.FormSystemMatrix(essential, matrix_free);
  expected *= 2.0;
  mfem::Solver& as_mfem = solver;
  as_mfem.SetOperator(*matrix_free);
  as_mfem.Mult(b, x);
  expect(solver.report().converged() && difference(expected, x) < 1e-10, "an operator of partial assembly");

  // Element matrices with new coefficients.
  mfem::ConstantCoefficient four(1);
  mfem::BilinearForm local(&space);
  local.AddDomainIntegrator(new mfem::DiffusionIntegrator(four));
  protean_mfem::ElementMatrices K(context, local, essential, true);
  solver.SetOperator(K);
  solver.Mult(b, x);
  expect(solver.report().converged() && difference(expected, x) < 1e-10, "element matrices");
  four.constant = 4;
  K.Update();
  solver.UpdateValues();
  solver.Mult(b, x);
  expected *= 0.25;
  expect(solver.report().converged() && difference(expected, x) < 1e-10, "element matrices, updated");
}

// MFEM's own solvers next to ours: the same calls, the same answers.
template <class Ours, class Theirs>
void same_calls(const char* what, const mfem::SparseMatrix& A, const mfem::Vector& b, mfem::Solver* M) {
  Ours ours;
  Theirs theirs;
  mfem::Vector x(b.Size()), expected(b.Size());
  mfem::IterativeSolver* const both[] = {&ours, &theirs};
  for (mfem::IterativeSolver* each : both) {
    each->iterative_mode = false;
    each->SetRelTol(1e-10), each->SetAbsTol(0), each->SetMaxIter(500);
    if (M) each->SetPreconditioner(*M);
    each->SetOperator(A);
    each->Mult(b, each == &ours ? x : expected);
  }
  mfem::Vector r(b);
  A.AddMult(x, r, -1.0);
  char text[200];
  std::snprintf(text, sizeof text, "%s: %d iterations, MFEM's %d, difference %.1e, ||b - A x|| = %.1e", what,
                ours.GetNumIterations(), theirs.GetNumIterations(), difference(expected, x), r.Norml2());
  expect(
      ours.GetConverged() && difference(expected, x) < 1e-6 && r.Norml2() <= 1.01e-10 * b.Norml2() &&
          std::abs(ours.GetFinalNorm() - r.Norml2()) <= 1e-12 * b.Norml2() &&
          std::abs(ours.GetInitialNorm() - b.Norml2()) <= 1e-12 * b.Norml2() &&
          std::abs(ours.GetNumIterations() - theirs.GetNumIterations()) <= 3 + theirs.GetNumIterations() / 4,
      text);
}

void as_iterative_solver() {
  mfem::Mesh cube = mfem::Mesh::MakeCartesian3D(6, 6, 6, mfem::Element::HEXAHEDRON);
  const mfem::H1_FECollection h1(2, 3);
  mfem::FiniteElementSpace space(&cube, &h1);
  mfem::Array<int> essential, boundary(cube.bdr_attributes.Max());
  boundary = 1;
  space.GetEssentialTrueDofs(boundary, essential);
  mfem::BilinearForm form(&space);
  form.AddDomainIntegrator(new mfem::DiffusionIntegrator);
  form.Assemble();
  mfem::SparseMatrix A;
  form.FormSystemMatrix(essential, A);
  mfem::Vector b = sample(A.Height());
  for (const int dof : essential) b(dof) = 0;

  mfem::GSSmoother gauss_seidel(A);
  mfem::DSmoother jacobi(A);
  same_calls<protean_mfem::CGSolver, mfem::CGSolver>("cg", A, b, nullptr);
  same_calls<protean_mfem::CGSolver, mfem::CGSolver>("cg, MFEM's Gauss-Seidel", A, b, &gauss_seidel);
  same_calls<protean_mfem::GMRESSolver, mfem::GMRESSolver>("gmres, MFEM's Jacobi", A, b, &jacobi);
  same_calls<protean_mfem::BiCGSTABSolver, mfem::BiCGSTABSolver>("bicgstab, MFEM's Gauss-Seidel", A, b,
                                                                 &gauss_seidel);

  // A preconditioner takes effect.
  protean_mfem::CGSolver plain, helped;
  mfem::Vector x(b.Size());
  for (protean_mfem::CGSolver* each : {&plain, &helped}) {
    each->SetRelTol(1e-8), each->SetMaxIter(500);
    if (each == &helped) each->SetPreconditioner(gauss_seidel);
    each->SetOperator(A);
    x = 0.0;
    each->Mult(b, x);
  }
  expect(helped.GetNumIterations() < 0.7 * plain.GetNumIterations(), "Gauss-Seidel saves iterations");
  // Also in a solver that has an operator, and the operator of the preconditioner is set by SetOperator().
  mfem::GSSmoother late;
  protean_mfem::CGSolver order;
  order.SetRelTol(1e-8), order.SetMaxIter(500);
  order.SetPreconditioner(late);
  order.SetOperator(A);
  x = 0.0;
  order.Mult(b, x);
  expect(order.GetConverged() && order.GetNumIterations() == helped.GetNumIterations(),
         "SetOperator() sets that of the preconditioner");
  x = 0.0;
  plain.SetPreconditioner(gauss_seidel);
  plain.Mult(b, x);
  expect(plain.GetNumIterations() == helped.GetNumIterations(), "SetPreconditioner() after SetOperator()");

  // Limits that are set between two solves; iterative_mode: relative to the initial residual, as in MFEM.
  x = 0.0;
  helped.SetMaxIter(3);
  helped.Mult(b, x);
  expect(!helped.GetConverged() && helped.GetNumIterations() == 3, "SetMaxIter() ends a solve");
  const double before = helped.GetFinalNorm();
  helped.SetMaxIter(500), helped.SetRelTol(0.1);
  helped.Mult(b, x);
  expect(helped.GetConverged() && std::abs(helped.GetInitialNorm() - before) < 1e-9 * before &&
             helped.GetFinalNorm() <= 0.1 * before && helped.GetFinalRelNorm() <= 0.1,
         "iterative_mode goes on from x");
  helped.SetRelTol(0), helped.SetAbsTol(1e-3);
  helped.Mult(b, x);
  expect(helped.GetConverged() && helped.GetFinalNorm() <= 1e-3 && helped.GetFinalNorm() > 1e-9,
         "SetAbsTol()");

  // What is printed at each level.
  const auto printed = [&](int level) {
    std::ostringstream text;
    mfem::out.SetStream(text);
    protean_mfem::CGSolver solver;
    solver.SetRelTol(1e-8), solver.SetMaxIter(5), solver.SetPrintLevel(level);
    solver.SetOperator(A);
    x = 0.0;
    solver.Mult(b, x);
    mfem::out.SetStream(std::cout);
    return text.str();
  };
  const auto count = [](const std::string& text, const char* part) {
    int found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  expect(printed(-1).empty(), "print level -1 is silent");
  expect(count(printed(0), "Iteration") == 0 && count(printed(0), "No convergence!") == 1, "print level 0");
  expect(count(printed(1), "Iteration") == 6, "print level 1: the initial guess and 5 iterations");
  expect(count(printed(2), "Iteration") == 0 && count(printed(2), "5 iterations") == 1, "print level 2");
  expect(count(printed(3), "Iteration") == 2, "print level 3: first and last");

  // PCG() takes squares of tolerances.
  mfem::Vector theirs(b.Size()), ours(b.Size());
  ours = 0.0, theirs = 0.0;
  mfem::PCG(A, gauss_seidel, b, theirs, -1, 500, 1e-20, 0.0);
  protean_mfem::PCG(A, gauss_seidel, b, ours, -1, 500, 1e-20, 0.0);
  mfem::Vector r(b);
  A.AddMult(ours, r, -1.0);
  expect(r.Norml2() <= 1.01e-10 * b.Norml2() && difference(theirs, ours) < 1e-8, "PCG()");
  ours = 0.0;
  protean_mfem::PCG(A, gauss_seidel, b, ours, -1, 500, 1e-4, 0.0);
  r = b;
  A.AddMult(ours, r, -1.0);
  expect(r.Norml2() <= 1.01e-2 * b.Norml2() && r.Norml2() > 1e-6 * b.Norml2(), "PCG() with other tolerances");

  struct Watch final : protean::SolveObserver {
    int calls = 0;
    bool on_iteration(const protean::IterationInfo&) override { return ++calls < 4; }
  } watch;
  plain.SetObserver(&watch);
  x = 0.0;
  plain.Mult(b, x);
  expect(watch.calls == 4 && !plain.GetConverged(), "an observer may end the solve");
  mfem::IterativeSolverMonitor monitor;
  plain.SetMonitor(monitor);
  expect_thrown<protean::NotAvailable>([&] { plain.Mult(b, x); }, "a monitor of MFEM's");

  protean_mfem::SolverOptions automatic;
  automatic.format = "auto", automatic.preconditioner = "ssor";
  A.SortColumnIndices();
  protean_mfem::Solver chosen(protean::Context::host(2), automatic);
  chosen.SetOperator(A);
  x = 0.0;
  chosen.Mult(b, x);
  const auto by_rule = protean::make_matrix("auto", protean_mfem::csr_view(A), protean::Context::host(2));
  expect(chosen.GetConverged() && chosen.get()->name() == by_rule->name(), "format auto");
}

void refusals() {
  const auto context = protean::Context::host(1);
  mfem::Mesh square = mfem::Mesh::MakeCartesian2D(3, 3, mfem::Element::QUADRILATERAL);
  const mfem::H1_FECollection h1(1, 2);
  mfem::FiniteElementSpace space(&square, &h1);
  const mfem::Array<int> none;
  mfem::BilinearForm form(&space);
  form.AddDomainIntegrator(new mfem::DiffusionIntegrator);
  form.AddBoundaryIntegrator(new mfem::MassIntegrator);
  expect_thrown<protean::NotAvailable>([&] { protean_mfem::ElementMatrices(context, form, none, true); },
                                       "boundary integrators");
  mfem::Vector wind(2);
  wind = 1.0;
  mfem::VectorConstantCoefficient v(wind);
  mfem::BilinearForm convection(&space);
  convection.AddDomainIntegrator(new mfem::ConvectionIntegrator(v));
  expect_thrown<protean::BadMatrix>([&] { protean_mfem::ElementMatrices(context, convection, none, true); },
                                    "unsymmetric element matrices called symmetric");
  mfem::SparseMatrix open(3, 3);
  open.Add(0, 0, 1.0);
  expect_thrown<protean::BadMatrix>([&] { protean_mfem::csr_view(open); }, "a matrix that is not finalised");
  mfem::Vector x(3), b(3);
  expect_thrown<protean::BadArgument>([&] { protean_mfem::Solver(context).Mult(b, x); }, "no operator");
  mfem::Mesh hanging = mfem::Mesh::MakeCartesian2D(2, 2, mfem::Element::QUADRILATERAL);
  mfem::Array<int> one;
  one.Append(0);
  hanging.GeneralRefinement(one, 1);
  mfem::FiniteElementSpace refined(&hanging, &h1);
  mfem::BilinearForm on_refined(&refined);
  on_refined.AddDomainIntegrator(new mfem::DiffusionIntegrator);
  expect_thrown<protean::NotAvailable>(
      [&] { protean_mfem::ElementMatrices(context, on_refined, none, true); }, "hanging nodes");
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  element_matrices();
  drop_in();
  as_iterative_solver();
  refusals();
  return failures == 0 ? 0 : 1;
}
