#!/usr/bin/env python3
"""Writes docs/house.md: code lines of each format and engine, the longest files and functions, includes between
folders.

house.py [BEFORE]    BEFORE: a commit; its lines of the same formats are in the columns "before"

A code line is neither empty nor only a comment. Files that only one format has count for that format: NAME.*, NAME_*.*.
Functions are found by universal-ctags; without it that table is left out.
"""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
rooms = ["core", "operators", "formats", "preconditioners", "solvers", "systems", "capi", "apps", "research"]
engine_note = "headers and sources together; host: .hpp, .cpp; device: .cuh, .cu"


way = """`operator: {format: sell-c-sigma, parameters: {C: 16}}` on its way to the kernel:

1. `apps/problem/problem_file.cpp`: `read_parameters()` checks name and value with `resolve_params()`, and \
complains with line and column.
2. `apps/solve/solve.cpp`: hands the `FormatParams` on to `SystemMatrix::set_format()`.
3. `systems/system_matrix.cpp`: `settle()` calls `make_matrix()` when the solve begins.
4. `operators/assembled_matrix.cpp`: `make_matrix()` adds defaults and what a preset fixes, and calls \
`admit()`, then the maker, of the kernel's space.
5. `formats/ell/sell_c_sigma.cpp`: turns the parameters into the rule of its slices.
6. `formats/engines/slices.cpp` or `slices.cu`: plans, fills and multiplies by the rule; `slot_product.cpp` is the \
host's kernel."""


def code_lines(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


class Tree:
    """The sources at a commit, or of the work tree."""

    def __init__(self, commit=None):
        if commit:
            listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", commit], cwd=root, check=True,
                                    capture_output=True, text=True).stdout.split()
            read = lambda f: subprocess.run(["git", "show", f"{commit}:{f}"], cwd=root, check=True,
                                            capture_output=True, text=True).stdout
        else:
            listed = [str(f.relative_to(root)) for room in rooms for f in (root / room).rglob("*") if f.is_file()]
            read = lambda f: (root / f).read_text()
        wanted = (".hpp", ".cpp", ".cuh", ".cu", ".def")
        self.text = {f: read(f) for f in sorted(listed) if f.startswith(tuple(r + "/" for r in rooms))
                     and f.endswith(wanted)}

    def formats(self):
        for kind, family, name in re.findall(r"^PROTEAN_(FORMAT|PRESET)\((\w+), *(\w+)",
                                             self.text["formats/catalogue.def"], re.M):
            yield kind, family, name

    def lines_of_format(self, family, name):
        names = sorted((n for _, f, n in self.formats() if f == family), key=len, reverse=True)
        sums = collections.Counter()
        for file, text in self.text.items():
            path = pathlib.PurePosixPath(file)
            if str(path.parent) != f"formats/{family}":
                continue
            owner = next((n for n in names if path.stem == n or path.stem.startswith(n + "_")), None)
            if owner == name and not path.stem.endswith(("_kokkos", "_mkl")):
                sums["device" if path.suffix in (".cu", ".cuh") else "host"] += code_lines(text)
        return sums


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] +
                     ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]) + "\n"


def longest_functions():
    if not shutil.which("ctags"):
        return None
    files = [f for f in Tree().text if f.endswith((".cpp", ".cu", ".hpp", ".cuh"))]
    run = subprocess.run(["ctags", "--output-format=json", "--fields=+ne", "--languages=C++", "--langmap=C++:+.cu.cuh",
                          "--kinds-C++=f", "-I",
                          "__launch_bounds__+,__global__,__device__,PROTEAN_HOST_DEVICE,HWY_INLINE",
                          "-f", "-", "-L", "-"], cwd=root, input="\n".join(files), text=True,
                         capture_output=True, check=True)
    found = []
    for line in run.stdout.splitlines():
        tag = json.loads(line)
        if "end" in tag:
            found.append((tag["end"] - tag["line"] + 1, tag["name"], tag["path"]))
    return sorted(found, reverse=True)[:12]


def main():
    now = Tree()
    before = Tree(sys.argv[1]) if len(sys.argv) > 1 else None
    known = {(f, n) for _, f, n in before.formats()} if before else set()
    out = ["# The house in numbers", "", "Written by docs/house.py. A code line is neither empty nor only a comment.",
           ""]
    if before:
        out += [f"Before: commit {sys.argv[1]}.", ""]
    rows = []
    for kind, family, name in now.formats():
        lines = now.lines_of_format(family, name)
        old = before.lines_of_format(family, name) if (family, name) in known else {}
        rows.append((name.replace("_", "-"), family, "preset" if kind == "PRESET" else "layout", lines["host"] or "",
                     lines["device"] or "",
                     old.get("host", ""), old.get("device", "")))
    out += ["## Formats", "", table(["format", "family", "kind", "host", "device", "host before", "device before"],
                                    rows)]
    engines = collections.defaultdict(collections.Counter)
    for file, text in now.text.items():
        path = pathlib.PurePosixPath(file)
        if str(path.parent) in ("formats/engines", "formats/private"):
            side = "device" if path.suffix in (".cu", ".cuh") else "host"
            engines[f"{path.parent.name}/{path.stem.removesuffix('-inl')}"][side] += code_lines(text)
    out += ["## Engines and what formats share", "", engine_note + ".", "",
            table(["engine", "host", "device"], [(n, c["host"] or "", c["device"] or "")
                                                 for n, c in sorted(engines.items())])]
    longest = sorted(((code_lines(t), f) for f, t in now.text.items()), reverse=True)[:12]
    out += ["## Longest files", "", table(["code lines", "file"], longest)]
    if functions := longest_functions():
        out += ["## Longest functions", "", table(["lines", "function", "file"], functions)]
    out += ["## The way of a parameter", "", way, ""]
    edges = collections.Counter()
    for file, text in now.text.items():
        here = file.split("/")[0]
        for other in re.findall(r'^\s*#\s*include\s*"([a-z_]+)/', text, re.M):
            if other in rooms and other != here:
                edges[here, other] += 1
    assert not any((b, a) in edges for a, b in edges), "two folders include each other"
    out += ["## Includes between folders", "", "An arrow from A to B: files of A include headers of B, with "
            "their number.", "",
            "```mermaid", "graph TD"] + [f"  {a} -->|{n}| {b}" for (a, b), n in sorted(edges.items())] + ["```", ""]
    (root / "docs/house.md").write_text("\n".join(out))


main()
