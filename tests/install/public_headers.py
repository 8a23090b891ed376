#!/usr/bin/env python3
"""Compiles each installed header alone: public_headers.py COMPILER INCLUDE_FOLDER LIST_OF_HEADERS

Also fails when a public header includes anything but the standard library and <protean/...>.
"""
import pathlib
import re
import subprocess
import sys

compiler, folder = sys.argv[1], pathlib.Path(sys.argv[2])
headers = pathlib.Path(sys.argv[3]).read_text().split()
standard = re.compile(r"^[a-z_0-9]+(\.h)?$")
bad = 0
for name in headers:
    for line, text in enumerate((folder / "protean" / name).read_text().splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*([<"])([^>"]+)', text):
            if not (match[1] == "<" and (match[2].startswith("protean/") or standard.match(match[2]))):
                print(f"{name}:{line}: a public header may not include {match[1]}{match[2]}")
                bad += 1
    run = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", folder, "-x", "c++", "-"],
        input=f"#include <protean/{name}>\n", text=True, capture_output=True)
    if run.returncode:
        print(f"{name} does not compile alone:\n{run.stderr[:2000]}")
        bad += 1
print(f"{len(headers)} public headers, {bad} problems")
sys.exit(1 if bad or not headers else 0)
