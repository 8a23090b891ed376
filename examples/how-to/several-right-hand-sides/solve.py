import numpy as np
import protean
import scipy.sparse as sp

line = sp.diags_array([-np.ones(99), 2 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1])
A = sp.csr_array(sp.kronsum(line, line))
B = np.random.default_rng(7).standard_normal((A.shape[0], 8))

report = protean.solve(A, B, method="cg", preconditioner="ic0")
print(report)
assert report.converged and report.x.shape == B.shape
assert np.all(np.linalg.norm(B - A @ report.x, axis=0) <= 1e-7 * np.linalg.norm(B, axis=0))
