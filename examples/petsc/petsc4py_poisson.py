"""Solves -div grad u = 1 on a square with petsc4py and matrices of type aijprotean:

    mpirun -n 2 python3 petsc4py_poisson.py -dll_append libprotean_petsc.so -mat_type aijprotean -ksp_monitor

All options are PETSc's; docs/distributed.md has ours.
"""
import sys

import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc  # noqa: E402

n = PETSc.Options().getInt("n", 100)
A = PETSc.Mat().create()
A.setSizes(n * n)
A.setFromOptions()
A.setPreallocationNNZ((5, 4))
begin, end = A.getOwnershipRange()
for row in range(begin, end):
    i, j = divmod(row, n)
    A[row, row] = 4.0
    for other, inside in ((row - n, i > 0), (row + n, i < n - 1), (row - 1, j > 0), (row + 1, j < n - 1)):
        if inside:
            A[row, other] = -1.0
A.assemble()

x, b = A.createVecs()
b.set(1.0 / (n + 1) ** 2)
ksp = PETSc.KSP().create()
ksp.setOperators(A)
ksp.setType("cg")
ksp.getPC().setType("jacobi")
ksp.setTolerances(rtol=1e-8, max_it=10000)
ksp.setFromOptions()
ksp.solve(b, x)
r = b - A * x
residual, size, largest, kind = r.norm(), b.norm(), x.max()[1], A.getType()
if A.comm.rank == 0:
    print(f"{n * n} rows on {A.comm.size} ranks, type {kind}: {ksp.getIterationNumber()} iterations, "
          f"residual {residual / size:.1e}, largest u {largest:.6f}")
sys.exit(0 if ksp.getConvergedReason() > 0 else 1)
