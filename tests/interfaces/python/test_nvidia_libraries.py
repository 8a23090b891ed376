"""NVIDIA's libraries, which a build with GPU code loads when it needs them."""

import os
import pathlib
import subprocess
import sys

import pytest

from protean import _core

with_gpu_code = pytest.mark.skipif(not _core.has_gpu_code, reason="no device: the package was built without CUDA")


def run_python(code, **more):
    environment = {**os.environ, **more}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


@with_gpu_code
def test_the_host_needs_no_library_of_nvidia():
    code = (
        "import numpy as np, protean; assert protean.solve(np.eye(9), np.ones(9)).converged; "
        "names = {line.split('/')[-1] for line in open('/proc/self/maps').read().splitlines()}; "
        "print([one for one in names if one.startswith(('libcu', 'libnv'))])"
    )
    done = run_python(code)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@with_gpu_code
def test_the_libraries_of_packages_come_before_those_of_the_loader(tmp_path):
    found = {pathlib.Path(one) for one in _core.nvidia_libraries()}
    assert len(found) == 2 and all(one.exists() for one in found)
    folder = tmp_path / "nvidia" / f"cu{_core.cuda_major}" / "lib"
    folder.mkdir(parents=True)
    for one in found:
        for name in one.parent.glob("lib[cn]*.so.*"):
            (folder / name.name).unlink(missing_ok=True)
            (folder / name.name).symlink_to(name)
    code = "from protean import _core; print(*_core.nvidia_libraries(), sep='\\n')"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run_python(code, PYTHONPATH=path)
    assert {pathlib.Path(one).parent for one in done.stdout.split()} == {folder}, done.stdout + done.stderr


@with_gpu_code
def test_a_library_that_cannot_be_loaded_is_named(tmp_path):
    folder = tmp_path / "nvidia" / f"cu{_core.cuda_major}" / "lib"
    folder.mkdir(parents=True)
    names = [pathlib.Path(one).name for one in _core.nvidia_libraries()]
    code = (
        "import numpy as np, protean\n"
        "from protean import _core, errors\n"
        # Packages of this environment that have the libraries would be taken instead.
        f"_core.search_nvidia_libraries([{str(folder)!r}])\n"
        "try:\n    _core.nvidia_libraries()\n"
        "except errors.NotAvailable as refused:\n    print(refused)\n"
        "assert protean.solve(np.eye(9), np.ones(9)).converged"
    )
    # The files of the package and those that the loader finds first are no libraries.
    for name in names:
        (folder / name).write_text("no library")
        (tmp_path / name).write_text("no library")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    # The extension's own libraries may lie in a folder that is named there.
    searched = os.pathsep.join([str(tmp_path), os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep)
    done = run_python(code, PYTHONPATH=path, LD_LIBRARY_PATH=searched)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (names[0], f"pip install 'protean[cu{_core.cuda_major}]'", "LD_LIBRARY_PATH", str(folder / names[0])):
        assert said in done.stdout
