import numpy as np
from protean.linalg import cg
from scipy.sparse.linalg import LinearOperator

n = 200


def product(x):                                # -laplace on n x n points, 0 around them, without a matrix
    u = np.pad(np.reshape(x, (n, n)), 1)
    return (4 * u[1:-1, 1:-1] - u[:-2, 1:-1] - u[2:, 1:-1] - u[1:-1, :-2] - u[1:-1, 2:]).ravel()


A = LinearOperator((n * n, n * n), matvec=product, dtype=float)
M = LinearOperator((n * n, n * n), matvec=lambda r: r / 4, dtype=float)
b = product(np.ones(n * n))
x, info = cg(A, b, rtol=1e-8, M=M)
print("info", info, "error", abs(x - 1).max())
assert info == 0 and np.linalg.norm(b - product(x)) <= 1e-7 * np.linalg.norm(b)
