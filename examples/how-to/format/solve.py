import numpy as np
import protean
import scipy.sparse as sp

line = sp.diags_array([-np.ones(99), 2 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1])
A = sp.csr_array(sp.kronsum(line, line))
b = A @ np.ones(A.shape[0])

report = protean.solve(A, b, format="sell-packed")
print(report.format, report.iterations, "iterations, error", abs(report.x - 1).max())
assert report.converged and report.format == "sell-packed"

print(protean.choose(A))                       # formats with predicted times
