#!/usr/bin/env python3
"""Compiles programs against interfaces/fortran/protean.f90: those that hand over arrays whose address the library may
keep, and those that would hand over a temporary copy, which the compiler must refuse.

fortran_arrays.py PROTEAN_F90
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from checks import skip

compiler = shutil.which("gfortran")
if not compiler:
    skip("gfortran was not found")

PROGRAM = """
program arrays
  use protean
  implicit none
  integer(c_int32_t), target :: row_ptr(3), col(2), wide_col(4)
  integer(c_int64_t), target :: row_ptr64(3)
  real(c_double), target :: values(2), wide(4), matrices(2, 2, 1)
  real(c_double), pointer :: pointed(:)
  real(c_double), allocatable, target :: allocated(:)
  real(c_double) :: plain(2)
  real(c_float), target :: values32(2), wide32(4)
  integer(c_int32_t) :: plain_col(2)
  integer(c_int) :: status
  type(c_ptr) :: context, matrix
  allocate (allocated(2))
  pointed => values
  STATEMENT
end program
"""


def csr(name="csr", row_ptr="row_ptr", col="col", values="values"):
    return (f"status = protean_matrix_{name}(context, 2_c_int64_t, 2_c_int64_t, 2_c_int64_t, {row_ptr}, {col}, &\n"
            f"    {values}, 1_c_int, matrix)")


GOOD = {
    "targets": csr(),
    "an allocatable target": csr(values="allocated"),
    "a section without gaps": csr(values="wide(2:3)"),
    "64-bit row pointers": csr("csr64", "row_ptr64"),
    "single precision": csr("csr_f32", values="values32"),
    "single precision, 64-bit row pointers": csr("csr64_f32", "row_ptr64", values="values32"),
    "new values": "status = protean_matrix_update_values(matrix, values)",
    "new values in single precision": "status = protean_matrix_update_values_f32(matrix, values32)",
    "new element matrices": "status = protean_matrix_update_values(matrix, matrices)",
    "addresses": csr("csr_c", "c_loc(row_ptr)", "c_loc(col)", "c_loc(values)"),
}
BAD = {
    "values without target": csr(values="plain"),
    "columns without target": csr(col="plain_col"),
    "every second value": csr(values="wide(1:4:2)"),
    "every second column": csr(col="wide_col(1:4:2)"),
    "every second value in single precision": csr("csr_f32", values="wide32(1:4:2)"),
    "an expression": csr(values="2 * values"),
    "new values without target": "status = protean_matrix_update_values(matrix, plain)",
    "every second new value": "status = protean_matrix_update_values(matrix, wide(1:4:2))",
}

failures = 0
with tempfile.TemporaryDirectory() as folder:
    def compiled(path):
        return subprocess.run([compiler, "-std=f2018", "-Wall", "-fsyntax-only", "-J", folder, "-I", folder, path],
                              capture_output=True, text=True)

    module = compiled(sys.argv[1])
    if module.returncode != 0 or module.stderr:
        sys.exit(f"{sys.argv[1]} does not compile cleanly:\n{module.stderr}")
    source = pathlib.Path(folder, "arrays.f90")
    for cases, expected in ((GOOD, True), (BAD, False)):
        for what, statement in cases.items():
            source.write_text(PROGRAM.replace("STATEMENT", statement))
            result = compiled(source)
            good = (result.returncode == 0) == expected
            failures += not good
            print(f"{'ok' if good else 'FAILED'}: {'compiled' if expected else 'refused'}: {what}"
                  f"{'' if good else chr(10) + result.stderr}")
sys.exit(1 if failures else 0)
