#!/usr/bin/env python3
"""release.py ROOT BUILD_FOLDER [BUILD_FOLDER...] [--release]: the version is the same everywhere, and a release has
what it needs.

The version is that of project() in CMakeLists.txt. CHANGELOG.md opens with its section, pages and recipes name it, and
what the first BUILD_FOLDER has built reports it. Files that are not built are named and left out.

--release is for the moment before a tag: then nothing may be left out, the work tree is clean, no tag of this version
is there, the section of the changelog has its date, and tests pass: of the pages (figures of README.md, results,
limits, links), of the symbols of the library, of the files that are not compiled, and of the packages, which are built
of build folders that are brought up to date before.
Each of them must run in one of the build folders: Debian packages are made without MKL, and that of Python with
PROTEAN_PYTHON.
"""

import json
import pathlib
import re
import subprocess
import sys

release = "--release" in sys.argv
root, build, *others = [pathlib.Path(word).resolve() for word in sys.argv[1:] if word != "--release"]
version = re.search(r"project\(Protean VERSION ([0-9]+\.[0-9]+\.[0-9]+) ", (root / "CMakeLists.txt").read_text())[1]
major, minor, patch = version.split(".")
compatible = f"{major}.{minor}" if major == "0" else major
problems, left_out, places = [], [], 0


def output(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"failed: {done.stderr[-300:]}"


def expect(place, found, wanted):
    """All that was found there is what was wanted, and something was found."""
    global places
    places += 1
    if not found:
        problems.append(f"{place}: the version was not found there")
    problems.extend(f"{place}: {word}, and CMakeLists.txt has {version}" for word in found if word != wanted)


# The sources: file, pattern, and what its group shall be. Every match counts.
SOURCES = [
    ("CHANGELOG.md", r"\A.*?^## ([\d.]+)", version),
    ("CITATION.cff", r"^version: (.*)$", version),
    ("README.md", r"(?:^Version|Protean) (\d+\.\d+\.\d+)", version),
    ("cmake/packages/conda/recipe.yaml", r"^  version: ([\d.]+)$", version),
    ("docs/packaging.md", r"libprotean(?:\.so\.)?(\d[\d.]*\d)", compatible),
    ("docs/citing.md", r"version = \{(.*)\}", version),
    ("docs/architecture.md", r"libprotean\.so\.([\d.]*\d)", compatible),
]
for name, pattern, wanted in SOURCES:
    expect(name, re.findall(pattern, (root / name).read_text(), re.M | re.S if "\\A" in pattern else re.M), wanted)
# The package of CMake, wherever a page or a program asks for it.
asked = [
    (path, re.findall(r"find_package\(Protean ([\d.]+)", path.read_text()))
    for folder in ("README.md", "docs", "examples", "tests/install", "cmake")
    for path in ([root / folder] if (root / folder).is_file() else sorted((root / folder).rglob("*")))
    if path.suffix == ".md" or path.name == "CMakeLists.txt"
]
for path, found in asked:
    if found:
        expect(path.relative_to(root), found, f"{major}.{minor}")
# One place, and what reads it: no second number.
pyproject = (root / "pyproject.toml").read_text()
if 'dynamic = ["version"]' not in pyproject or re.search(r'^version *= *"', pyproject, re.M):
    problems.append("pyproject.toml: it shall read the version from CMakeLists.txt")
if re.search(r'release = "', (root / "docs/site/conf.py").read_text()):
    problems.append("docs/site/conf.py: it shall read the version from CMakeLists.txt")


def built(name, read, wanted=version):
    """A file of the build, if it is there: read() gives the version that it has."""
    path = build / name
    if path.exists():
        expect(name, read(path), wanted)
    else:
        left_out.append(name)


built("include/protean/version.h", lambda path: re.findall(r'PROTEAN_VERSION "(.*)"', path.read_text()))
numbers = re.compile(r"PROTEAN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", re.M)
built("include/protean/version.h", lambda path: [".".join(numbers.findall(path.read_text()))])
built("cmake/library/protean.pc", lambda path: re.findall(r"^Version: (.*)$", path.read_text(), re.M))
built("cmake/library/ProteanConfigVersion.cmake",
      lambda path: re.findall(r'set\(PACKAGE_VERSION "(.*)"', path.read_text())[:1])
built("protean", lambda path: re.findall(r"\bprotean (\d[\d.]*\d)", output(path, "--version"))[:1])
built("apps/manual/man1/protean.1", lambda path: re.findall(r'"protean (\d[\d.]*\d)"', path.read_text()))
built(f"libprotean.so.{version}",
      lambda path: re.findall(r"soname.*\[libprotean\.so\.(.*)\]", output("readelf", "-d", path), re.I), compatible)
CHECK = ("import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).protean_version; f.restype = ctypes.c_char_p; "
         "print(f().decode())")
built(f"libprotean.so.{version}", lambda path: output(sys.executable, "-c", CHECK, path).split())

if release:
    problems += [f"{name} is not built" for name in left_out]
    if output("git", "-C", root, "status", "--porcelain").strip():
        problems.append("the work tree has changes that are not committed")
    if output("git", "-C", root, "tag", "--list", f"v{version}").strip():
        problems.append(f"the tag v{version} is there: raise the version in CMakeLists.txt")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", (root / "CHANGELOG.md").read_text(), re.M):
        problems.append(f"CHANGELOG.md: the section of this release shall be called '## {version} (YEAR-MONTH-DAY)'")
# What takes minutes runs only if all that was found at once is right.
if release and not problems:
    wanted = {"public-symbols", "docs-claims", "docs-results", "docs-families", "docs-limits", "docs-links",
              "project-files", "debian-packages", "pip-install", "subproject"}
    for folder in (build, *others):
        # Packages are made of what is built, which may be older than the sources.
        done = subprocess.run(["cmake", "--build", folder, "--target", "protean", "protean_shared", "protean_command",
                               "protean_manual"], check=False)
        if done.returncode:
            problems.append(f"{folder} could not be brought up to date")
        known = json.loads(output("ctest", "--test-dir", folder, "--show-only=json-v1"))["tests"]
        here = sorted(wanted & {test["name"] for test in known})
        report = folder / "release.junit"
        done = subprocess.run(["ctest", "--test-dir", folder, "-R", f"^({'|'.join(here)})$", "--output-on-failure",
                               "--output-junit", report], check=False) if here else None
        if done and done.returncode:
            problems.append(f"tests of {', '.join(here)} failed in {folder}")
        # One that was skipped there may run in another folder.
        wanted -= set(re.findall(r'<testcase name="([^"]+)"[^>]*status="run"', report.read_text())) if here else set()
    problems += [f"test {name} ran in none of these builds" for name in sorted(wanted)]

for name in left_out:
    print(f"left out: {name} is not built")
print("\n".join(problems) if problems else f"{version} in {places} places")
sys.exit(bool(problems))
