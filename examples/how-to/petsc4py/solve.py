import numpy as np
import scipy.sparse as sp
from petsc4py import PETSc
from protean.linalg import cg


def assembled(n):                              # -laplace on n x n points, 0 around them
    A = PETSc.Mat().createAIJ((n * n, n * n), nnz=5)
    for row in range(n * n):
        i, j = divmod(row, n)
        A[row, row] = 4.0
        for other, inside in ((row - n, i > 0), (row + n, i < n - 1), (row - 1, j > 0), (row + 1, j < n - 1)):
            if inside:
                A[row, other] = -1.0
    A.assemble()
    return A


A = assembled(60)
b = A.createVecLeft()
b.set(1.0)
indptr, indices, values = A.getValuesCSR()
rows = sp.csr_matrix((values, indices, indptr), shape=A.size)

x, info = cg(rows, b.array, rtol=1e-8, M="ic0")
assert info == 0

u = A.createVecRight()                         # back to PETSc, which checks it
u.array = x
residual = (b - A * u).norm() / b.norm()
print("residual", residual)
assert residual <= 1e-7
