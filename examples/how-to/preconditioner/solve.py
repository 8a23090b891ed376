import numpy as np
import protean
import scipy.sparse as sp
from protean.linalg import cg

line = sp.diags_array([-np.ones(99), 2 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1])
A = sp.csr_array(sp.kronsum(line, line))
b = A @ np.ones(A.shape[0])

for preconditioner in ("none", "jacobi", "ic0", {"type": "ic", "fill": 2}, "amg"):
    report = protean.solve(A, b, method="cg", preconditioner=preconditioner)
    print(preconditioner, report.iterations, "iterations")
    assert report.converged

x, info = cg(A, b, M="ic0")                    # the same in SciPy's call
assert info == 0
