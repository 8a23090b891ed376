#include "apps/ranks/elements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "apps/command/clock.hpp"
#include "core/parallel.hpp"
#include "interfaces/petsc/guard.hpp"

namespace protean::apps::ranks {
namespace {

using protean_types::guarded;
using protean_types::must;

// What a product needs in addition to the elements.
struct Shell {
  const OwnElements* own = nullptr;
  VecScatter scatter = nullptr;
  Vec x = nullptr, y = nullptr;  // of the unknowns of this rank's elements
};

PetscErrorCode destroy(Mat A) {
  Shell* shell = nullptr;
  PetscCall(MatShellGetContext(A, &shell));
  PetscCall(VecScatterDestroy(&shell->scatter));
  PetscCall(VecDestroy(&shell->x));
  PetscCall(VecDestroy(&shell->y));
  delete shell;
  return PetscErrorCode(0);
}

// y := sum of what f writes on each rank
template <class F>
PetscErrorCode add_of_all(Shell& shell, Vec y, F&& f) {
  double* data = nullptr;
  PetscInt size = 0;
  PetscCall(VecGetLocalSize(shell.y, &size));
  PetscCall(VecGetArrayWrite(shell.y, &data));
  PetscCall(guarded(nullptr, [&] {
    if (shell.own->op) f(VectorView<double>{data, size, Space::host});
  }));
  PetscCall(VecRestoreArrayWrite(shell.y, &data));
  PetscCall(VecZeroEntries(y));
  PetscCall(VecScatterBegin(shell.scatter, shell.y, y, ADD_VALUES, SCATTER_REVERSE));
  PetscCall(VecScatterEnd(shell.scatter, shell.y, y, ADD_VALUES, SCATTER_REVERSE));
  return PetscErrorCode(0);
}

PetscErrorCode multiply(Mat A, Vec x, Vec y) {
  Shell* shell = nullptr;
  const double* from = nullptr;
  PetscCall(MatShellGetContext(A, &shell));
  PetscCall(VecScatterBegin(shell->scatter, x, shell->x, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecScatterEnd(shell->scatter, x, shell->x, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecGetArrayRead(shell->x, &from));
  PetscCall(add_of_all(*shell, y, [&](VectorView<double> to) {
    const Clock clock;
    shell->own->op->apply(VectorView<const double>{from, to.size, Space::host}, to);
    shell->own->seconds += clock.total();
  }));
  return VecRestoreArrayRead(shell->x, &from);
}

PetscErrorCode diagonal(Mat A, Vec d) {
  Shell* shell = nullptr;
  PetscCall(MatShellGetContext(A, &shell));
  return add_of_all(*shell, d, [&](VectorView<double> to) { shell->own->op->diagonal(to); });
}

// Elements [begin, end) with their nodes, numbered again in their order.
struct PartOfMesh {
  fem::Mesh mesh;
  std::vector<std::int32_t> nodes;  // number of each node in the whole mesh
};
PartOfMesh part_of(const fem::Mesh& whole, Range elements) {
  PartOfMesh part;
  const auto m = static_cast<std::ptrdiff_t>(whole.nodes_of_element());
  part.mesh.shape = whole.shape, part.mesh.degree = whole.degree, part.mesh.uniform = whole.uniform;
  part.mesh.connectivity.assign(whole.connectivity.begin() + elements.begin * m,
                                whole.connectivity.begin() + elements.end * m);
  part.nodes = part.mesh.connectivity;
  std::sort(part.nodes.begin(), part.nodes.end());
  part.nodes.erase(std::unique(part.nodes.begin(), part.nodes.end()), part.nodes.end());
  const auto number = [&](std::int32_t node) {
    return static_cast<std::int32_t>(std::lower_bound(part.nodes.begin(), part.nodes.end(), node) -
                                     part.nodes.begin());
  };
  for (std::int32_t& node : part.mesh.connectivity) node = number(node);
  for (const std::int32_t node : part.nodes)
    part.mesh.nodes.push_back(whole.nodes[static_cast<std::size_t>(node)]);
  return part;
}

Vec new_vector(MPI_Comm comm, PetscInt own, PetscInt all) {
  Vec v = nullptr;
  must(VecCreate(comm, &v)), must(VecSetSizes(v, own, all)), must(VecSetType(v, VECSTANDARD));
  return v;
}

}  // namespace

OwnElements make_elements(const Ranks& ranks, const Problem& problem) {
  OwnElements own;
  ranks.each([&] {
    const fem::Spec& spec = *problem.matrix.fem;
    const ContextPtr context = Context::host(std::max(problem.op.threads, 1));
    const fem::System whole = fem::make_mesh(spec);
    own.all_elements = whole.mesh.elements();
    // The number of each unknown in the system, -1 if its value is given.
    const std::int64_t unknowns =
        std::int64_t{fem::components(spec.physics)} * static_cast<std::int64_t>(whole.mesh.nodes.size());
    if (unknowns > std::numeric_limits<PetscInt>::max())
      throw NotAvailable(fmt::format("the mesh has {} unknowns; PETSc counts up to {} here", unknowns,
                                     std::numeric_limits<PetscInt>::max()));
    std::vector<PetscInt> number(static_cast<std::size_t>(unknowns), 0);
    for (const std::int64_t given : whole.constrained) number[static_cast<std::size_t>(given)] = -1;
    for (PetscInt& each : number)
      if (each == 0) each = static_cast<PetscInt>(own.rows++);
    if (own.rows == 0)
      fail(problem.matrix.place, "all nodes of the mesh are on its boundary; there is nothing to solve");
    const Range mine = even_range(own.all_elements, ranks.rank(), ranks.count());
    own.elements = mine.end - mine.begin;
    if (own.elements == 0) return;
    PartOfMesh part = part_of(whole.mesh, mine);
    const int c = fem::components(spec.physics);
    fem::System system;
    system.physics = spec.physics;
    for (std::size_t k = 0; k < part.nodes.size(); ++k)
      for (int i = 0; i < c; ++i) {
        const PetscInt of = number[static_cast<std::size_t>(part.nodes[k]) * static_cast<std::size_t>(c) +
                                   static_cast<std::size_t>(i)];
        if (of < 0)
          system.constrained.push_back(static_cast<std::int64_t>(k) * c + i);
        else
          own.unknowns.push_back(of);
      }
    if (own.unknowns.empty()) return;  // all its nodes are on the boundary
    system.mesh = std::move(part.mesh);
    system.matrices = fem::stiffness(*context, system.mesh, spec.physics, spec.material);
    for (double& value : system.matrices) value *= problem.matrix.scale;
    own.op = system.on(context, problem.op.variant);
  });
  return own;
}

Mat element_matrix(const Ranks& ranks, const OwnElements& own) {
  auto shell = std::make_unique<Shell>();
  shell->own = &own;
  const auto size = static_cast<PetscInt>(own.unknowns.size());
  shell->x = new_vector(PETSC_COMM_SELF, size, size);
  must(VecDuplicate(shell->x, &shell->y));
  Vec all = new_vector(ranks.comm(), PETSC_DECIDE, static_cast<PetscInt>(own.rows));
  IS unknowns = nullptr;
  must(ISCreateGeneral(PETSC_COMM_SELF, size, own.unknowns.data(), PETSC_COPY_VALUES, &unknowns));
  must(VecScatterCreate(all, unknowns, shell->x, nullptr, &shell->scatter));
  must(ISDestroy(&unknowns));
  PetscInt local = 0;
  must(VecGetLocalSize(all, &local));
  must(VecDestroy(&all));
  Mat A = nullptr;
  must(MatCreateShell(ranks.comm(), local, local, static_cast<PetscInt>(own.rows),
                      static_cast<PetscInt>(own.rows), shell.get(), &A));
  shell.release();
  must(MatShellSetOperation(A, MATOP_MULT, reinterpret_cast<void (*)(void)>(multiply)));
  must(MatShellSetOperation(A, MATOP_GET_DIAGONAL, reinterpret_cast<void (*)(void)>(diagonal)));
  must(MatShellSetOperation(A, MATOP_DESTROY, reinterpret_cast<void (*)(void)>(destroy)));
  return A;
}

Mat assembled_matrix(const Ranks& ranks, const OwnElements& own) {
  std::vector<PetscInt> row, col;
  CsrMatrix<double> csr;
  ranks.each([&] {
    if (!own.op) return;
    csr = own.op->assemble();
    if (csr.nonzeros() > std::numeric_limits<PetscInt>::max())
      throw NotAvailable(
          fmt::format("this rank has {} entries of the matrix, more than PETSc counts here; take more ranks",
                      csr.nonzeros()));
    row.reserve(static_cast<std::size_t>(csr.nonzeros())),
        col.reserve(static_cast<std::size_t>(csr.nonzeros()));
    for (std::int64_t i = 0; i < csr.rows(); ++i)
      for (const std::int32_t j : csr.pattern.row(i)) {
        row.push_back(own.unknowns[static_cast<std::size_t>(i)]);
        col.push_back(own.unknowns[static_cast<std::size_t>(j)]);
      }
  });
  Mat A = nullptr;
  must(MatCreate(ranks.comm(), &A));
  must(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, static_cast<PetscInt>(own.rows),
                   static_cast<PetscInt>(own.rows)));
  must(MatSetType(A, MATAIJ));
  must(MatSetPreallocationCOO(A, static_cast<PetscCount>(row.size()), row.data(), col.data()));
  must(MatSetValuesCOO(A, csr.values, ADD_VALUES));
  return A;
}

}  // namespace protean::apps::ranks
