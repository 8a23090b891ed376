import numpy as np
import protean
import scipy.sparse as sp

line = sp.diags_array([-np.ones(149), 2 * np.ones(150), -np.ones(149)], offsets=[-1, 0, 1])
A = sp.csr_array(sp.kronsum(line, line))
b = A @ np.ones(A.shape[0])

report = protean.solve(A, b, method="cg", preconditioner="jacobi", format="csr",
                       schedule=[{"at_iteration": 20, "format": "sell-packed"}])
print(report.explain())                        # sell-packed is begun at 20, and used as soon as it is there
assert report.converged
assert all(one["iteration"] >= 20 and one["to"] == "sell-packed" for one in report.switches)

still = protean.solve(A, b, method="cg", preconditioner="jacobi", policy="none")
assert still.converged and not still.switches
