import numpy as np
import protean
import scipy.sparse as sp

line = sp.diags_array([-np.ones(99), 2 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1])
laplacian = sp.csr_array(sp.kronsum(line, line))
n = laplacian.shape[0]
system = laplacian + sp.eye_array(n)
A, solver = protean.matrix(system), protean.Solver(method="cg", preconditioner="ic0")
u = np.ones(n)
for step in range(5):                          # implicit Euler steps of u' = -L u that become longer
    length = 1.0 + step
    A.update(sp.csr_array(length * laplacian + sp.eye_array(n)).data)
    report = solver.solve(A, u, u)             # begins with the last solution
    assert report.converged
    u = report.x
    print(f"step {step}: {report.iterations} iterations, largest value {u.max():.4f}")
