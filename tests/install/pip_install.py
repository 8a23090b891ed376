#!/usr/bin/env python3
"""The Python package by pip, from the checkout and without compiling the library again; and its source archive.

pip_install.py CMAKE BUILD_FOLDER WORK_FOLDER SOURCE_FOLDER VERSION WHEELS [NAME=VALUE...]

Run with the interpreter of the build. NAME=VALUE are the options of BUILD_FOLDER, whose library the package is linked
with. WHEELS: a folder with the packages that pyproject.toml asks for. With it pip builds as it does for users, in an
environment of its own, and installs into an empty one; without it (an empty word) pip uses the environment of the
build. The package solves there. The archive has every source, so that it is configured alone. Nothing is fetched. Exit
code 77: skipped, with the reason.
"""
import email
import importlib.util
import json
import os
import pathlib
import re
import sys
import tarfile
import zipfile

from checks import end, expect, make_empty, run, skip

cmake, build, work, source = sys.argv[1], *(pathlib.Path(word).resolve() for word in sys.argv[2:5])
version, wheels, options = sys.argv[5], sys.argv[6], sys.argv[7:]
wanted = ("scikit_build_core", "nanobind", "numpy", "pip")
if missing := [name for name in wanted if not importlib.util.find_spec(name)]:
    skip(f"{', '.join(missing)} not installed for {sys.executable}")
if not (build / "libprotean.a").exists() or not (build / "apps/libprotean_apps.a").exists():
    skip("the library and the command are not built")

make_empty(work)
pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
defines = [word for name in (f"PROTEAN_BUILT={build}", *options) for word in ("-C", f"cmake.define.{name}")]
apart = ("--find-links", wheels) if wheels else ("--no-build-isolation",)
run(*pip, "wheel", *apart, "--no-deps", "--no-index", "-C", f"build-dir={work / 'build'}", *defines, "--wheel-dir",
    work, source)
wheel, = work.glob("protean-*.whl")
tag = "cp312-abi3" if sys.version_info >= (3, 12) else "cp311-cp311"
expect(wheel.name.startswith(f"protean-{version}-{tag}-"), f"the wheel is {wheel.name}")
with zipfile.ZipFile(wheel) as packed:
    names = packed.namelist()
    data = email.message_from_bytes(packed.read(f"protean-{version}.dist-info/METADATA"))
expect(data["Version"] == version, f"METADATA has version {data['Version']}")
expect(any(re.match(r"scipy.*extra == .scipy", need) for need in data.get_all("Requires-Dist")), "no extra scipy")
expect(f"protean-{version}.dist-info/licenses/LICENSE" in names, "the licence is not in the wheel")
expect(f"protean-{version}.dist-info/licenses/nanobind.txt" in names, "nanobind's licence is not in the wheel")
modules = {f"protean/{path.name}" for path in (source / "interfaces/python/protean").glob("*.py*")}
expect(modules <= set(names), f"not in the wheel: {sorted(modules - set(names))}")
stray = [name for name in names if not re.match(r"protean(-[\d.]+\.dist-info)?/", name)]
expect(not stray, f"also in the wheel: {stray[:5]}")
compiled = [path for path in (work / "build").rglob("*.o") if "nanobind" not in str(path)]
ours = {path.stem for path in (source / "interfaces/python/src").glob("*.cpp")}
others = [path.name for path in compiled if path.name.removesuffix(".cpp.o") not in ours]
expect(compiled and not others, f"compiled again: {others[:5]}")

if wheels:
    run(sys.executable, "-m", "venv", work / "environment")
    python, path = work / "environment/bin/python", ""
    before = json.loads(run(python, "-m", "pip", "list", "--format=json"))
    run(python, *pip[1:], "install", "--no-index", "--find-links", wheels, wheel)
    after = json.loads(run(python, "-m", "pip", "list", "--format=json"))
    added = {one["name"] for one in after} - {one["name"] for one in before}
    expect(added == {"protean", "numpy"}, f"installed: {sorted(added)}")
else:
    python, path = sys.executable, work / "site"
    run(*pip, "install", "--no-deps", "--no-index", "--target", path, wheel)
print(run(python, "-c", """
import numpy as np, protean, pathlib
from protean.linalg import cg
A = 4 * np.eye(400) - np.eye(400, k=1) - np.eye(400, k=-1)
b = np.ones(400)
x, info = cg(A, b, rtol=1e-10, M="ic0")
assert info == 0 and np.linalg.norm(b - A @ x) <= 1e-9 * 20
print(protean.__version__, pathlib.Path(protean.__file__).parent)
""", cwd=work, env={**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}).strip())

(work / "archive").mkdir()
run(sys.executable, "-c", "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])", work / "archive",
    cwd=source)
archive, = (work / "archive").glob("*.tar.gz")
expect(archive.name == f"protean-{version}.tar.gz", f"the archive is {archive.name}")
with tarfile.open(archive) as packed:
    packed.extractall(work / "archive", filter="data")
print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; {archive.name}: {archive.stat().st_size / 1e6:.1f} MB")
alone = run(cmake, "-S", work / "archive" / f"protean-{version}", "-B", work / "archive/build", "-G", "Ninja",
            "-DPROTEAN_PYTHON=ON", "-DPROTEAN_TESTS=OFF", f"-DPython_EXECUTABLE={sys.executable}",
            *(f"-DPROTEAN_{name}=OFF" for name in ("CUDA", "KOKKOS", "MKL", "METIS", "HYPRE", "PETSC")))
expect(f"Protean {version}" in alone, "the archive has another version")
where = "an environment of its own" if wheels else "the environment of the build"
end(f"built in {where}: the wheel solves, and the archive is whole")
