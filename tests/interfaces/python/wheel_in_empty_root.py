#!/usr/bin/env python3
"""Installs a wheel and uses it where nothing else is: wheel_in_empty_root.py WHEEL. As root, with this interpreter.

The root has the interpreter, the libraries that the interpreter itself needs, those that manylinux lets a wheel expect
(the C and C++ libraries, libz), NumPy from PyPI, and the wheel. There is no compiler, no CUDA, no library of
Debian's that the build has used, and no shell. Exit code 77: skipped, with the reason."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROBLEM = "matrix: {generate: {kind: poisson-2d, n: 40}}\nrhs: {solution: ones}\nsolver: {method: cg}\n"
USE = """
import sys, time
begin = time.perf_counter()
import numpy as np
import protean
from protean import _core, linalg
print(f"import {time.perf_counter() - begin:.3f} s, version {protean.__version__}, GPU code: {_core.has_gpu_code}")
A = 4 * np.eye(400) - np.eye(400, k=1) - np.eye(400, k=-1)
b = np.ones(400)
x, info = linalg.cg(A, b, rtol=1e-10, M="ic0")
assert info == 0 and np.linalg.norm(b - A @ x) <= 1e-9 * 20
report = protean.solve(A, b, method="gmres", format="sell-packed")
assert report.converged and report.format == "sell-packed", report
print(report)
assert _core.device_count() == 0
try:
    protean.matrix(A, space="device")
    sys.exit("a matrix was put on a GPU that is not there")
except protean.errors.NotAvailable as refused:
    print("without a GPU:", refused)
try:
    _core.nvidia_libraries()
    sys.exit("libraries of NVIDIA were found in an empty root")
except protean.errors.NotAvailable as refused:
    print("without NVIDIA's packages:", refused)
    assert not _core.has_gpu_code or f"protean[cu{_core.cuda_major}]" in str(refused)
"""


def run(*command, **more):
    done = subprocess.run(command, text=True, capture_output=True, **more)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n")
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def libraries_of(files):
    """What the loader finds for these files, and for the files that it finds."""
    found = set()
    for file in files:
        text = subprocess.run(["ldd", file], text=True, capture_output=True).stdout
        found |= {pathlib.Path(path) for path in re.findall(r"(/\S+\.so\S*) \(", text)}
    return found


def main(wheel):
    if os.geteuid() != 0:
        print("skipped: an empty root needs chroot and mount, which root alone may call")
        return 77
    base = pathlib.Path(sys.base_prefix).resolve()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        environment = root / "environment"
        root.mkdir()
        run(sys.executable, "-m", "venv", environment)
        run(environment / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        interpreter = [pathlib.Path(sys.executable).resolve(), *base.glob("lib/python3*/lib-dynload/*.so")]
        allowed = re.compile(r"lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|z)\.so|ld-linux")
        expected = [one for one in libraries_of(environment.rglob("*.so")) if allowed.match(one.name)]
        for library in libraries_of(interpreter) | set(expected):
            if base in library.parents:
                continue
            to = root / library.relative_to("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, to)
        for name in ("proc", "dev", "tmp", str(base.relative_to("/"))):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "use.py").write_text(USE)
        (root / "problem.yaml").write_text(PROBLEM)
        (root / "dev/null").touch()
        python = "/environment/bin/python"
        # The environment names its folder outside; the interpreter follows pyvenv.cfg, which names the folder of the
        # base.
        script = f"""set -e
            mount --bind '{base}' '{root / base.relative_to("/")}'
            mount -t proc proc '{root}/proc'
            mount --bind /dev/null '{root}/dev/null'
            env -i HOME=/tmp /usr/sbin/chroot '{root}' {python} /use.py
            env -i HOME=/tmp /usr/sbin/chroot '{root}' {python} -m protean solve /problem.yaml
        """
        print(run("unshare", "-m", "sh", "-c", script))
    print(f"ok: {pathlib.Path(wheel).name} works in an empty root with Python {sys.version.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
