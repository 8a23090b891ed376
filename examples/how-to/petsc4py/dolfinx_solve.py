import importlib.util

if importlib.util.find_spec("dolfinx_solver"):
    import dolfinx_solver                      # the wheel of PyPI: before all that uses MPI

import dolfinx.fem.petsc
import numpy as np
import scipy.sparse as sp
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc
from protean.linalg import cg

square = mesh.create_unit_square(MPI.COMM_SELF, 64, 64)
V = fem.functionspace(square, ("Lagrange", 2))
u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
square.topology.create_connectivity(1, 2)
edge = fem.locate_dofs_topological(V, 1, mesh.exterior_facet_indices(square.topology))
fixed = fem.dirichletbc(PETSc.ScalarType(0), edge, V)
laplace = fem.form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx)
load = fem.form(fem.Constant(square, PETSc.ScalarType(1)) * v * ufl.dx)

A = fem.petsc.assemble_matrix(laplace, bcs=[fixed])
A.assemble()
b = fem.petsc.assemble_vector(load)
fem.petsc.apply_lifting(b, [laplace], bcs=[[fixed]])
fem.petsc.set_bc(b, [fixed])

indptr, indices, values = A.getValuesCSR()
solution = fem.Function(V)
solution.x.array[:], info = cg(sp.csr_matrix((values, indices, indptr), shape=A.size), b.array, rtol=1e-10, M="ic0")
assert info == 0
print(b.size, "unknowns, largest value", solution.x.array.max())
assert np.isclose(solution.x.array.max(), 0.0737, atol=1e-3)   # of -laplace u = 1 on the unit square
