"""Which of SciPy's tests do not hold of protean.linalg, and why. Each must fail: one that passes is an error."""

# The functions that take the place of SciPy's.
OURS = ("bicgstab", "cg", "gmres", "minres")

_COMPLEX = "complex numbers are refused"

_COMPLEX_CASES = [
    f"{case}{single}-{solver}"
    for case, solvers in (
        ("rand-cmplx", ("bicgstab", "gmres")),
        ("rand-cmplx-herm", ("bicgstab", "gmres")),
        ("rand-cmplx-sym-pd", ("bicgstab", "cg", "gmres")),
    )
    for single in ("", "-F")
    for solver in solvers
] + ["nonsymposdef-F-bicgstab", "nonsymposdef-F-gmres"]  # type F is complex

EXCEPTIONS = {
    f"{test}[{case}]": _COMPLEX
    for test in ("test_maxiter", "test_convergence", "test_precond_dummy", "test_x0_equals_Mb")
    for case in _COMPLEX_CASES
}
EXCEPTIONS["test_abi"] = _COMPLEX
EXCEPTIONS["test_callback"] = "M of gmres is applied on the right: the callback gets the residual, not M times it"

# Tests that SciPy itself skips, whatever the function: its own solvers break down there, or its minres has no such
# argument. They are left out; other tests that SciPy skips are reported.
SKIPPED_BY_SCIPY = [
    "test_maxiter[sym-nonpd-bicgstab]",
    "test_precond_dummy[sym-nonpd-bicgstab]",
    "test_x0_equals_Mb[nonsymposdef-bicgstab]",
    *[f"test_maxiter_worsening[{solver}]" for solver in ("bicgstab", "cg", "minres")],
    "test_atol[minres]",
    *[f"test_invalid_atol[minres-{atol}]" for atol in ("legacy", "None", "-1")],
]
