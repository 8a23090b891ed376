import numpy as np
import skfem
from protean.linalg import cg
from skfem.models.poisson import laplace, unit_load

mesh = skfem.MeshTri().refined(6)
basis = skfem.Basis(mesh, skfem.ElementTriP2())
system = skfem.condense(laplace.assemble(basis), unit_load.assemble(basis), D=basis.get_dofs())


def solver(A, b):
    x, info = cg(A, b, rtol=1e-10, M="ic0")
    assert info == 0, f"not converged: {info}"
    return x


u = skfem.solve(*system, solver=solver)
print(u.size, "unknowns, largest value", u.max())
assert abs(u.max() - 0.0737) < 1e-3            # of -laplace u = 1 on the unit square
assert np.allclose(u, skfem.solve(*system), rtol=1e-6, atol=1e-9)
