#!/usr/bin/env python3
"""The commands that an error prints for files of other programs are run, as a user would paste them into a shell, and
what they make is read.

    printed_commands.py PROTEAN

Exits 77 where NumPy or SciPy is missing.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy
    import scipy.io
    import scipy.sparse
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

A = numpy.array([[4.0, 1, 0], [1, 5, 2], [0, 2, 6]])
C = A + 1j * numpy.diag([1.0, 2, 3])
REAL_FORM = numpy.block([[C.real, -C.imag], [C.imag, C.real]])
TEXT = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 4\n2 2 5\n"
DIAGONAL = numpy.diag([4.0, 5])
# A shell and Python would both see more in these characters than a name.
NAME = "it's \"A\" $HOME `id` [1]"


def write_zip(path):
    import zipfile
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("B.mtx", TEXT)


# Ending of the file, what writes it, the file that the command makes, the matrix in that, programs it needs.
MATRICES = [
    (".npz", lambda path: scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(A)), NAME + ".mtx", A, []),
    (".npy", lambda path: numpy.save(path, A), NAME + ".mtx", A, []),
    (".complex.npy", lambda path: numpy.save(path, C), NAME + ".complex.mtx", REAL_FORM, []),
    (".object.npy", lambda path: numpy.save(path, scipy.sparse.csr_matrix(A), allow_pickle=True),
     NAME + ".object.mtx", A, []),
    (".mat", lambda path: scipy.io.savemat(path, {"A": scipy.sparse.csc_matrix(A)}), NAME + ".mtx", A, []),
    (".utf.mtx", lambda path: path.write_bytes(TEXT.encode("utf-16")), NAME + ".utf.utf8.mtx", DIAGONAL, ["iconv"]),
    (".be.mtx", lambda path: path.write_bytes(TEXT.encode("utf-16-be")), NAME + ".be.utf8.mtx", DIAGONAL, ["iconv"]),
    (".zip", write_zip, "B.mtx", DIAGONAL, ["unzip"]),
]


def main():
    protean, failures, left_out = str(pathlib.Path(sys.argv[1]).resolve()), [], []
    environment = os.environ | {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}

    def command_of(folder, words):
        """The command in the message about these arguments."""
        refused = subprocess.run([protean, *words], cwd=folder, capture_output=True, text=True)
        found = re.search(r": ((python3 -c|iconv|unzip) .*?)( \(.*\))?\n$", refused.stderr)
        if refused.returncode != 2 or not found:
            failures.append(f"{words}: exit {refused.returncode}, {refused.stderr}")
            return None
        return found.group(1)

    def runs(folder, command):
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            failures.append(f"$ {command}\n{done.stdout}{done.stderr}")
        return done.returncode == 0

    for ending, write, made, matrix, programs in MATRICES:
        missing = [program for program in programs if not shutil.which(program)]
        if missing:
            left_out.append(f"{ending}: no {missing[0]} here")
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            name = NAME + ending
            write(folder / name)
            command = command_of(folder, ["solve", name])
            if not command or not runs(folder, command):
                continue
            read = subprocess.run([protean, "convert", made, "again.mtx", "--quiet"], cwd=folder, capture_output=True,
                                  text=True)
            if read.returncode != 0 or not numpy.array_equal(scipy.io.mmread(folder / "again.mtx").toarray(), matrix):
                failures.append(f"{ending}: {made} is another matrix; {read.stderr}")

    # A complex system, solved in the form that both commands make.
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        x = numpy.array([1 + 2j, -1j, 3])
        numpy.save(folder / "A.npy", C), numpy.save(folder / "it's b.npy", C @ x)
        first = command_of(folder, ["solve", "A.npy"])
        if first and runs(folder, first):
            second = command_of(folder, ["solve", "A.mtx", "--rhs", "it's b.npy"])
            if second and runs(folder, second):
                solved = subprocess.run([protean, "solve", "A.mtx", "--rhs", "it's b.real.npy", "--method", "gmres",
                                         "--tolerance", "1e-12", "--solution", "x.npy", "--quiet"], cwd=folder,
                                        capture_output=True, text=True)
                result = numpy.load(folder / "x.npy") if solved.returncode == 0 else numpy.zeros(6)
                if not numpy.allclose(result, numpy.concatenate([x.real, x.imag]), atol=1e-9):
                    failures.append(f"the complex system: {result}, {solved.stderr}")

    print("\n\n".join(failures) if failures else
          f"the printed commands make {len(MATRICES) - len(left_out)} matrices and a complex system; "
          f"left out: {left_out}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
