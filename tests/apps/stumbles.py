#!/usr/bin/env python3
"""What stopped new users of the command: the commands that they typed, and what each must print today.

    stumbles.py check PROTEAN     exits 1 when a stumble is back
    stumbles.py list              the table of docs/results/campaigns.md

Matrices are those of problems/ of this checkout and some that the script writes. Standard library only.
"""
import argparse
import dataclasses
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclasses.dataclass
class Stumble:
    title: str
    stumbled: str            # over what
    commands: list
    now: list                # regular expressions, one for each command: what its output must have today
    changed: str


STUMBLES = [
    Stumble("Which system was solved",
            "A matrix alone was solved for x = 1. For many matrices that b is a gift, here it is an eigenvector, and "
            "no line said which b it was.",
            ["protean generate graph-laplacian -o graph.mtx --set matrix.generate.n=2000 --quiet && "
             "protean solve graph.mtx"],
            [r"random"],
            "The default solution is made of random numbers with a fixed seed, and the summary names it."),
    Stumble("A better preconditioner, but which",
            "The advice was to use a better preconditioner, and named none.",
            ["protean solve problems/matrices/s1rmt3m1.mtx.xz --max-iterations 100"],
            [r"take preconditioner ic0"],
            "The advice names preconditioners that this build has, and that suit the method and the matrix."),
    Stumble("cg on a matrix that is not symmetric",
            "The advice began with what does not help. That cg cannot solve this system stood last, and a program that "
            "calls the library was not told it at all.",
            ["protean solve problems/matrices/sherman4.mtx.xz --method cg --max-iterations 100"],
            [r"The matrix is not symmetric, and cg needs a symmetric one"],
            "A failed solve looks at the matrix, and the advice says that it is not symmetric and what to take."),
    Stumble("A singular matrix that converges",
            "Only differences of the pressure count in these equations, so x is one solution of many. The solve "
            "converged with a large error, without a word on singularity.",
            ["protean solve stokes.mtx --method minres"],
            [r"The matrix is singular"],
            "A note says that the matrix is singular, how that is known, and what chooses one of the solutions."),
    Stumble("A zero on the diagonal",
            "The advice was to reorder the matrix. No order here moves an entry to the diagonal.",
            ["protean solve circuit.mtx --method gmres --preconditioner ilu0"],
            [r"maximum_bipartite_matching"],
            "The message names a tool that finds such an order (SciPy's matching) and what else can be done."),
    Stumble("compare knew no --preconditioner",
            "The options of solve that stand for keys were unknown to compare.",
            ["protean compare problems/matrices/bcsstk16.mtx.xz --preconditioner ic0 --formats csr --kernels native"],
            [r"cg, preconditioner ic0, .*(?s:.*)best: csr"],
            "compare has the options of solve that describe system, method and preconditioner."),
    Stumble("solve knew no --json",
            "inspect and formats had it, solve had not.",
            ["protean solve problems/poisson.yaml --json | head -4"],
            [r'(?m)^\s*"'],
            "`--json` prints the report to the standard output, and nothing else."),
    Stumble("Completion for bash alone",
            "zsh and fish had none.",
            ["protean help --completion zsh > _protean && head -2 _protean",
             "protean help --completion fish > protean.fish && head -2 protean.fish"],
            [r"#compdef protean", r"Completion of protean in fish"],
            "The three scripts are made of the same list of commands and options."),
    Stumble("A table wider than the terminal",
            "Lines of 200 characters and more were broken by the terminal.",
            ["protean formats | awk '{ if (length > most) most = length } END { print most, \"columns\" }'",
             "protean formats --family row | head -7"],
            [r"^([1-7]?\d|80) columns", r"csr"],
            "The table fits the terminal, or 80 columns where there is none."),
    Stumble("Files of SciPy and MATLAB",
            "They were read as YAML, and the message spoke of that.",
            ["protean solve A.npz", "protean solve A.mat"],
            [r"scipy\.sparse\.load_npz", r"scipy\.io\.loadmat"],
            "The message says what the file is, and has the command that converts it."),
    Stumble("An option with another name",
            "Option and value were named in the wrong order, and nothing was suggested.",
            ["protean solve problems/poisson.yaml --tol 1e-3"],
            [r"--tol\b.*--tolerance"],
            "The unknown option is named, with the one that was probably meant."),
    Stumble("Blocks that cut through nodes",
            "block-jacobi took 4 rows a block by default. With 3 unknowns a node it needed more iterations than "
            "jacobi.",
            ["protean solve problems/elasticity.yaml --preconditioner jacobi",
             "protean solve problems/elasticity.yaml --preconditioner block-jacobi"],
            [r"converged", r"converged"],
            "Without a size block-jacobi finds the nodes in the pattern."),
    Stumble("Recipes in CONTRIBUTING.md",
            "It promised one line for a preconditioner, which takes more, and had no recipe for an option.",
            ["grep -n '^## Add\\|; its line in' CONTRIBUTING.md"],
            [r"(?s)Add a preconditioner.*Add a method.*Add an option"],
            "There is a recipe for each of these."),
]


def matrix_market(path, n, entries, symmetry):
    lines = [f"%%MatrixMarket matrix coordinate real {symmetry}", f"{n} {n} {len(entries)}"]
    path.write_text("\n".join(lines + [f"{i + 1} {j + 1} {value}" for i, j, value in entries]) + "\n")


def stokes(n):
    """The lower triangle of Stokes equations on n x n cells, velocities on their faces, pressure in their middle
    (Harlow and Welch, Phys. Fluids 8 (1965) 2182), without flow through the border."""
    faces = n * (n - 1)
    entries = []

    def couple(a, b, value):
        entries.append((max(a, b), min(a, b), value))

    def p(i, j):
        return 2 * faces + j * n + i

    for j in range(n):
        for i in range(n):
            for along in (0, 1):  # velocities in x, then in y: the same with the axes exchanged
                one, other = (i, j) if along == 0 else (j, i)
                if one + 1 == n:
                    continue

                def u(k, l, along=along):
                    return l * (n - 1) + k if along == 0 else faces + k * n + l

                couple(u(one, other), u(one, other), 4)
                if one + 2 < n:
                    couple(u(one, other), u(one + 1, other), -1)
                if other + 1 < n:
                    couple(u(one, other), u(one, other + 1), -1)
                couple(u(one, other), p(i, j), -1)
                couple(u(one, other), p(i + 1, j) if along == 0 else p(i, j + 1), 1)
    return 2 * faces + n * n, entries


def npy(kind, values):
    """An array of one dimension in NumPy's file format 1.0."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len(values) // int(kind[-1])},), }}"
    head += " " * ((64 - (10 + len(head) + 1) % 64) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values


def write_inputs(folder, tree):
    (folder / "problems").symlink_to(SOURCE / "problems")
    (folder / "CONTRIBUTING.md").symlink_to(tree / "CONTRIBUTING.md")
    matrix_market(folder / "stokes.mtx", *stokes(20), "symmetric")
    # Two nodes, a voltage source: the current of the source has no entry on the diagonal.
    matrix_market(folder / "circuit.mtx", 3, [(0, 0, 1), (0, 1, -1), (0, 2, 1), (1, 0, -1), (1, 1, 2), (2, 0, 1)],
                  "general")
    # What scipy.sparse.save_npz writes of a diagonal of two ones, and the head of a file of MATLAB 5.
    text = io.BytesIO()
    with zipfile.ZipFile(text, "w") as archive:
        archive.writestr("indices.npy", npy("<i4", bytes([0, 0, 0, 0, 1, 0, 0, 0])))
        archive.writestr("indptr.npy", npy("<i4", bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0])))
        archive.writestr("format.npy", npy("|S3", b"csr"))
        archive.writestr("data.npy", npy("<f8", bytes([0] * 6 + [0xf0, 0x3f]) * 2))
    (folder / "A.npz").write_bytes(text.getvalue())
    (folder / "A.mat").write_bytes(b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x01IM")


def typed(protean, tree):
    """What each command prints, standard output and errors together, and its exit code."""
    results = []
    with tempfile.TemporaryDirectory() as place:
        folder, programs = pathlib.Path(place) / "work", pathlib.Path(place) / "bin"
        folder.mkdir(), programs.mkdir()
        (programs / "protean").symlink_to(pathlib.Path(protean).resolve())
        write_inputs(folder, tree)
        environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        for stumble in STUMBLES:
            runs = []
            for command in stumble.commands:
                run = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, text=True,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     timeout=300)
                runs.append({"command": command, "exit": run.returncode,
                             "printed": run.stdout.replace(str(folder) + "/", "")})
            results.append({"title": stumble.title, "runs": runs})
    return results


def check(protean):
    failures = []
    for stumble, result in zip(STUMBLES, typed(protean, SOURCE)):
        for expression, run in zip(stumble.now, result["runs"], strict=True):
            if not re.search(expression, run["printed"]):
                failures.append(f"{stumble.title}: $ {run['command']}\n{run['printed']}\nhas no {expression!r}")
    print("\n\n".join(failures) if failures else f"none of {len(STUMBLES)} is back")
    return bool(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("protean")
    commands.add_parser("list")
    given = parser.parse_args()
    if given.command == "check":
        return check(given.protean)
    print("| stumble | what happened | now |\n|---|---|---|")
    for stumble in STUMBLES:
        print(f"| {stumble.title} | {stumble.stumbled} | {stumble.changed} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
