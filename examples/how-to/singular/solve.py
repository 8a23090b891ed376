import numpy as np
import protean
import scipy.sparse as sp

n = 500                                        # a chain of springs that nothing holds
A = sp.diags_array([-np.ones(n - 1), np.r_[1, 2 * np.ones(n - 2), 1], -np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()
b = np.arange(n) - (n - 1) / 2                 # forces that sum to zero

report = protean.solve(A, b, method="cg", null_space="constant")
print(report)
assert report.converged and abs(report.x.sum()) < 1e-6 * abs(report.x).sum()
assert np.linalg.norm(b - A @ report.x) <= 1e-7 * np.linalg.norm(b)
