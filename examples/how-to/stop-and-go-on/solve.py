import numpy as np
import protean
import scipy.sparse as sp

line = sp.diags_array([-np.ones(99), 2 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1])
A = sp.csr_array(sp.kronsum(line, line))
b = A @ np.ones(A.shape[0])

first = protean.solve(A, b, method="cg", preconditioner="jacobi", max_iterations=60, max_seconds=60)
assert not first.converged
print(first.reason, first.advice)
second = protean.solve(A, b, first.x, method="cg", preconditioner="jacobi")
print(second)
assert second.converged
