#!/usr/bin/env python3
"""Debian packages of a build: made, checked, installed, used and removed, without compiling the library again.

debian_packages.py CMAKE BUILD_FOLDER WORK_FOLDER SOURCE_FOLDER VERSION

They are made by cpack from what BUILD_FOLDER has built, checked by lintian, and installed by dpkg into a folder of
their own, whose database has the packages of this machine, so that dependencies are really checked. There `protean`
solves, and a program is built by find_package() and by pkg-config. In the end nothing of them is left. Exit code 77:
skipped, since a tool is missing, this is not root, or the build has only a part.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from checks import end, expect, make_empty, run, skip

cmake, build, work, source = sys.argv[1], *(pathlib.Path(word).resolve() for word in sys.argv[2:5])
version = sys.argv[5]
compatible = ".".join(version.split(".")[:2]) if version.startswith("0.") else version.split(".")[0]
shared = f"libprotean{compatible}"
missing = [tool for tool in ("cpack", "dpkg", "dpkg-deb", "dpkg-shlibdeps", "pkg-config") if not shutil.which(tool)]
if missing:
    skip(f"{', '.join(missing)} not installed (Debian: dpkg-dev)")
if os.geteuid():
    skip("dpkg installs as root only")
needed = ["libprotean.a", f"libprotean.so.{version}", "protean", "apps/manual/man1/protean.1"]
if missing := [name for name in needed if not (build / name).exists()]:
    skip(f"{', '.join(missing)} not built")

make_empty(work)
maker = {**os.environ, "DEBFULLNAME": "Jane Doe", "DEBEMAIL": "jane.doe@example.org", "SOURCE_DATE_EPOCH": "1795000000",
         "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
nobody = {name: value for name, value in maker.items() if name != "DEBEMAIL"}
refused = subprocess.run(["cpack", "-G", "DEB", "-B", work / "refused"], cwd=build, env=nobody, text=True,
                         capture_output=True, check=False)
expect(refused.returncode and "DEBEMAIL" in refused.stderr, "packages were made by nobody")
run("cpack", "-G", "DEB", "-B", work / "packages", cwd=build, env=maker)
packages = {path.name.split("_")[0]: path for path in (work / "packages").glob("*.deb")}
print(*(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB" for path in packages.values()), sep="\n")
wanted = {shared, "libprotean-dev", "protean", "protean-doc"}
expect(wanted <= set(packages) <= wanted | {"protean-petsc"}, f"the packages are {sorted(packages)}")


def field(package, name):
    return run("dpkg-deb", "-f", packages[package], name).strip()


for package in packages:
    expect(field(package, "Version") == f"{version}-1", f"{package} has version {field(package, 'Version')}")
    expect(field(package, "Maintainer") == "Jane Doe <jane.doe@example.org>", f"{package} was made by another one")
for needed in ("libc6", "libgomp1", "libfmt"):
    expect(needed in field(shared, "Depends"), f"{shared} does not depend on {needed}")
expect("libyaml-cpp" in field("protean", "Depends"), "protean does not depend on what it is linked with")
expect(f"{shared} (= {version}-1)" in field("libprotean-dev", "Depends"), "libprotean-dev takes any library")
expect(field("protean-doc", "Architecture") == "all", "protean-doc is for one architecture")
controls = run("dpkg-deb", "--ctrl-tarfile", packages[shared], encoding="latin-1")
expect("triggers" in controls and "shlibs" in controls, f"{shared} has no trigger or no shlibs")
expect("postinst" not in controls, f"{shared} has scripts")

if shutil.which("lintian"):
    # Debian itself wants an issue that asks for the package. In /usr/local, for which this folder may be configured,
    # the libraries lie in lib, and not in the folder of the architecture.
    tags = "initial-upload-closes-no-bugs"
    if not re.search(r"^CMAKE_INSTALL_PREFIX:PATH=/usr$", (build / "CMakeCache.txt").read_text(), re.M):
        tags += ",pkg-config-unavailable-for-cross-compilation"
    checked = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", tags,
                              *packages.values()], text=True, capture_output=True, check=False)
    print("lintian:", checked.stdout or "nothing to say")
    expect(checked.returncode == 0, f"lintian: {checked.stderr[-1000:]}")
else:
    print("left out: lintian is not installed")

# A root with the database of this machine, without its files: dpkg believes that the dependencies are there, and they
# are. The warnings are about the lists of their files.
root = work / "root"
database = root / "var/lib/dpkg"
for folder in ("info", "updates", "triggers"):
    (database / folder).mkdir(parents=True)
status = pathlib.Path("/var/lib/dpkg/status").read_text()
(database / "status").write_text(status)
before = set(root.rglob("*"))
dpkg = ("dpkg", f"--root={root}", "--no-triggers", "--log=/dev/null", "--force-not-root")
order = [shared, "libprotean-dev", "protean", "protean-doc"] + ["protean-petsc"] * ("protean-petsc" in packages)
run(*dpkg, "--install", *(packages[name] for name in order))
usr = root / "usr"
libraries = next(usr.rglob(f"libprotean.so.{compatible}")).parent
solved = run(usr / "bin/protean", "solve", usr / "share/doc/Protean/problems/trefethen-2000.yaml", "--threads", 1)
expect("converged" in solved, f"protean does not solve: {solved}")
expect((usr / "share/man/man1/protean-solve.1.gz").is_file(), "there is no compressed man page")
expect((usr / "share/bash-completion/completions/protean").is_file(), "there is no completion")

program = usr / "share/doc/Protean/examples/c_api.c"
(work / "consumer").mkdir()
(work / "consumer/CMakeLists.txt").write_text(
    "cmake_minimum_required(VERSION 3.22)\nproject(Consumer LANGUAGES C CXX)\n"
    f"find_package(Protean {version} EXACT REQUIRED)\nadd_executable(consumer {program})\n"
    "target_link_libraries(consumer PRIVATE Protean::protean)\n")
run(cmake, "-S", work / "consumer", "-B", work / "consumer/build", f"-DCMAKE_PREFIX_PATH={usr}")
expect(f"Protean_DIR:PATH={libraries / 'cmake/Protean'}" in (work / "consumer/build/CMakeCache.txt").read_text(),
       "another Protean was found")
run(cmake, "--build", work / "consumer/build")
run(work / "consumer/build/consumer")
flags = run("pkg-config", "--cflags", "--libs", "protean",
            env={**os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}).split()
run("cc", program, *flags, "-lm", "-o", work / "by-hand")
run(work / "by-hand", env={**os.environ, "LD_LIBRARY_PATH": str(libraries)})

# Others keep what they need: the library cannot go before the headers. In the end all is as it was.
kept = subprocess.run([*dpkg, "--remove", shared], text=True, capture_output=True, check=False)
expect(kept.returncode and "libprotean-dev depends on" in kept.stderr, "the library went, and the headers stayed")
run(*dpkg, "--purge", *reversed(order))
left = [path for path in set(root.rglob("*")) - before if not path.is_relative_to(database)]
expect(not left, f"left: {left[:5]}")
known = (database / "status").read_text()
expect(not re.search(r"^Package: (lib)?protean", known, re.M), "the database has them still")
end(f"{len(packages)} packages made, installed, used and removed")
