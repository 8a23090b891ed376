#!/usr/bin/env python3
"""Protean inside of another project, by FetchContent as docs/programs.md says: subproject.py CMAKE SOURCE_FOLDER WORK

The other project is configured, not built: the targets are the library and its rooms, none of them runs, is tested or
is installed, and no variable of the other project has changed. Then a source of it and one of the library are compiled,
with the flags that the other project gives them.
"""
import json
import pathlib
import re
import shutil
import sys

from checks import end, expect, run

cmake, source, work = sys.argv[1], *(pathlib.Path(word).resolve() for word in sys.argv[2:])
shutil.rmtree(work, ignore_errors=True)
(work / "project").mkdir(parents=True)
page = (source / "docs/programs.md").read_text()
snippet = re.search(r"```cmake\n(include\(FetchContent\).*?)```", page, re.S)
if not snippet:
    sys.exit("docs/programs.md has no block with include(FetchContent)")
fetched = re.sub(r"SOURCE_DIR [^)\n]+", f"SOURCE_DIR {source}", snippet[1])
(work / "project/CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.22)
project(Outer LANGUAGES CXX)
enable_testing()
foreach(round before after)
  get_cmake_property(names VARIABLES)
  foreach(name IN LISTS names)
    if(name MATCHES "^(CMAKE_(CXX|C|BUILD|EXE|SHARED|POSITION|EXPORT|INTERPROCEDURAL|MODULE_PATH|INSTALL).*|BUILD_.*)$")
      string(APPEND ${{round}} "${{name}}=${{${{name}}}}\\n")
    endif()
  endforeach()
  if(round STREQUAL "before")
    add_executable(my_code main.cpp)
    {fetched}
  endif()
endforeach()
file(WRITE ${{CMAKE_BINARY_DIR}}/before "${{before}}")
file(WRITE ${{CMAKE_BINARY_DIR}}/after "${{after}}")
function(list_targets folder)
  get_property(targets DIRECTORY ${{folder}} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${{target}} TYPE)
    file(APPEND ${{CMAKE_BINARY_DIR}}/targets "${{target}} ${{type}}\\n")
  endforeach()
  get_property(folders DIRECTORY ${{folder}} PROPERTY SUBDIRECTORIES)
  foreach(each IN LISTS folders)
    list_targets(${{each}})
  endforeach()
endfunction()
list_targets(${{CMAKE_SOURCE_DIR}})
""")
(work / "project/main.cpp").write_text("""
#include <protean/solve.hpp>
#include <protean/version.h>
static_assert(PROTEAN_VERSION_NUMBER > 0);
int main() {
  const int row_ptr[] = {0, 1}, col[] = {0};
  const double value[] = {2.0}, b[] = {4.0};
  double x[] = {0.0};
  return protean::solve(protean::csr_view(1, 1, row_ptr, col, value), {b, 1}, {x, 1}).converged() ? 0 : 1;
}
""")
build = work / "build"
run(cmake, "-S", work / "project", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
    "-DCMAKE_CXX_FLAGS=-DOF_THE_OUTER_PROJECT", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
    f"-DCMAKE_INSTALL_PREFIX={work / 'prefix'}")
targets = dict(line.split() for line in (build / "targets").read_text().splitlines())
expect(targets.pop("my_code", "") == "EXECUTABLE", "my_code is missing")
expect(targets.get("protean") == "STATIC_LIBRARY", f"protean is {targets.get('protean')}")
for name, kind in targets.items():
    expect(name.startswith("protean"), f"target {name} could be one of the outer project")
    expect(name == "protean" or kind in ("OBJECT_LIBRARY", "INTERFACE_LIBRARY", "UTILITY"), f"{name} is {kind}")
before, after = ((build / name).read_text().splitlines() for name in ("before", "after"))
expect(len(before) > 20, "too few variables were compared")
# find_package(OpenMP), project() and the like leave what CMake itself has for a language.
changed = {line for line in set(before) ^ set(after) if not re.match(r"CMAKE_(CXX_KNOWN|CXX_COMPILE_FEATURES)", line)}
expect(not changed, f"variables of the outer project changed: {sorted(changed)[:6]}")
shown = json.loads(run("ctest", "--test-dir", build, "--show-only=json-v1"))
expect(not shown["tests"], f"tests in the outer project: {[test['name'] for test in shown['tests'][:5]]}")
run(cmake, "--install", build)
installed = [path for path in (work / "prefix").rglob("*")] if (work / "prefix").exists() else []
expect(not installed, f"installed: {installed[:5]}")
commands = (build / "build.ninja").read_text()
sources = (r"my_code\.dir/main\.cpp", r"/error\.cpp")
objects = [re.search(rf"^build (\S*{name}\.o):", commands, re.M) for name in sources]
if not all(objects):
    sys.exit("build.ninja has no object of main.cpp or error.cpp")
run("ninja", "-C", build, *(found[1] for found in objects))
for found in objects:
    block = commands[found.start():].split("\n\n")[0]
    expect("-DOF_THE_OUTER_PROJECT" in block and " -g" in block, f"{found[1]} has other flags")
end(f"{len(targets)} targets, {len(before)} variables as they were")
