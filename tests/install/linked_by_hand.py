#!/usr/bin/env python3
"""Links programs by hand against the package that installed_consumer.py has installed, and runs them.

linked_by_hand.py WORK_FOLDER EXAMPLES_FOLDER CXX

Exceptions and types across the border of the shared library, with this compiler and with g++ and clang++ where they are
found. A program in C and one in C++ with -lprotean alone, then with the words of `pkg-config --libs`, then with those
of `pkg-config --static --libs` in a copy of the package that has the archive only. Then what a compiler says without
-std=c++20. Exit status 77: skipped.
"""
import os
import pathlib
import shutil
import subprocess
import sys

from checks import skip

work, examples, cxx = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
prefix = work / "prefix"
configs = sorted(prefix.rglob("protean.pc"))
if not configs:
    skip("installed-consumer installs the package, and was not run or was skipped itself")
if not shutil.which("pkg-config"):
    skip("there is no pkg-config")
libraries = configs[0].parent.parent
moved = work / "moved"
shutil.rmtree(moved, ignore_errors=True)
shutil.copytree(prefix, moved, symlinks=True)
static = moved / libraries.relative_to(prefix)
shared = sorted(libraries.glob("libprotean.so*"))
archive = libraries / "libprotean.a"
for file in static.glob("libprotean.so*"):
    file.unlink()


def run(*command, **more):
    print("+", *command, flush=True)
    return subprocess.run([str(part) for part in command], check=True, **more)


def words(folder, *options):
    """What pkg-config says about the package in a folder of libraries."""
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder / "pkgconfig")}
    environment.pop("PKG_CONFIG_LIBDIR", None)
    return run("pkg-config", *options, "protean", env=environment, capture_output=True, text=True).stdout.split()


def with_libraries(folder):
    """The environment in which programs find the libraries of a folder first."""
    return {**os.environ, "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def build_and_run(name, flags, link, path=None):
    environment = with_libraries(path) if path else None
    out = work / f"by_hand_{name}"
    for source, compiler in ((examples / "c_api.c", ["cc", "-std=c99"]),
                             (examples / "assembled.cpp", [cxx, "-std=c++20"])):
        math = ["-lm"] if source.suffix == ".c" else []  # fabs() of the program itself
        run(*compiler, source, *flags, "-o", out, *link, *math)
        run(out, env=environment, stdout=subprocess.DEVNULL)
    return out


tested = 0
if shared:
    flags = words(libraries, "--cflags")
    program = build_and_run("alone", flags, [f"-L{libraries}", "-lprotean"], libraries)
    needed = run("ldd", program, env=with_libraries(libraries), capture_output=True,
                 text=True).stdout
    if "libprotean.so" not in needed:
        sys.exit(f"the program does not use the shared library:\n{needed}")
    link = words(libraries, "--libs")
    if [word for word in link if word.startswith("-l")] != ["-lprotean"]:
        sys.exit(f"pkg-config asks for more than -lprotean: {link}")
    build_and_run("pkg_config", flags, link, libraries)
    # The optimization and the visibility of the program's own code do not matter.
    border = pathlib.Path(__file__).parent / "consumer" / "border.cpp"
    for compiler in dict.fromkeys([cxx, *filter(shutil.which, ("g++", "clang++"))]):
        for option in ("-O0", "-O2", "-fvisibility=hidden"):
            out = work / "by_hand_border"
            run(compiler, "-std=c++20", option, "-Wall", "-Werror", border, *flags, "-o", out, f"-L{libraries}",
                "-lprotean")
            run(out, env=with_libraries(libraries))
    tested += 1
if archive.exists():
    # The package was moved, so these words must lead to the copy.
    flags, link = words(static, "--cflags"), words(static, "--static", "--libs")
    if f"-L{static}" not in [os.path.normpath(word) if word[0] != "-" else
                             word[:2] + os.path.normpath(word[2:]) for word in link]:
        sys.exit(f"pkg-config does not follow a package that was moved: {link}")
    build_and_run("static", flags, link)
    tested += 1
# A program without -std=c++20 gets that message before anything else.
flags = words(libraries, "--cflags")
older = subprocess.run([cxx, "-std=c++17", *flags, "-fsyntax-only", "-x", "c++", "-"], check=False, text=True,
                       input="#include <protean/protean.hpp>\n", capture_output=True)
first = next((line for line in older.stderr.splitlines() if "error" in line), "")
if older.returncode == 0 or "compile with -std=c++20" not in first:
    sys.exit(f"with -std=c++17 the first error is: {first}")
shutil.rmtree(moved)
if not tested:
    sys.exit(f"{libraries} has neither libprotean.so nor libprotean.a")
