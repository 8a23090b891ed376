#!/usr/bin/env python3
"""Our types of PETSc's matrices next to its own on two ranks, for ten matrices.

usage: petsc_ranks.py measure BUILD MATRICES JSON [NAME...]
           runs protean-bench-ranks petsc; five matrices are files of the folder MATRICES (.mtx.xz), five are generated.
           With names, those alone are measured again, and their numbers are replaced in the file
       petsc_ranks.py table JSON
           prints the tables of docs/results/ranks.md; JSON may be compressed (.xz)

BUILD has protean and protean-bench-ranks (PROTEAN_BENCHMARKS=ON)."""
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from results.common import read_text

# Name; what `protean generate` makes, or None for a file; whether CG is for it.
MATRICES = [
    ("G2_circuit", None, True),
    ("af23560", None, False),
    ("bcsstk17", None, True),
    ("Trefethen_20000", None, True),
    ("wave", None, False),
    ("poisson-2d-700", ["poisson-2d", "--set", "matrix.generate.n=700"], True),
    ("poisson-3d-80", ["poisson-3d", "--set", "matrix.generate.n=80"], True),
    ("poisson-3d-27-60", ["poisson-3d", "--set", "matrix.generate.n=60", "--set", "matrix.generate.points=27"], True),
    ("elasticity-3d-30", ["elasticity-3d", "--set", "matrix.generate.n=30"], True),
    ("fem-tet-36", ["fem-tet", "--set", "matrix.generate.n=36"], True),
]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm_rsh_agent": "false",
}


def measure(build, matrices, file, *only):
    build, matrices = pathlib.Path(build).resolve(), pathlib.Path(matrices).resolve()
    program = next(build.rglob("protean-bench-ranks"), None)
    if program is None:
        sys.exit(f"{build} has no protean-bench-ranks: configure with -DPROTEAN_BENCHMARKS=ON where PETSc is found")
    environment = {**os.environ, **ENVIRONMENT}
    result = {"date": datetime.date.today().isoformat(), "processors": len(os.sched_getaffinity(0)), "matrices": []}
    if only:
        result = json.loads(pathlib.Path(file).read_text())
        if unknown := set(only) - {row["matrix"] for row in result["matrices"]}:
            sys.exit(f"{file} has no {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as work:
        for name, generated, positive_definite in MATRICES:
            if only and name not in only:
                continue
            begin = time.monotonic()
            path = matrices / f"{name}.mtx.xz"
            if generated:
                path = pathlib.Path(work) / f"{name}.pbin"
                subprocess.run([build / "protean", "generate", "--quiet", *generated, "-o", path], check=True)
            # The program binds its ranks, since one rank alone has all processors in the last measurement.
            command = ["mpirun", "-n", "2", "--bind-to", "none", program, "petsc", "--matrix", path, "--threads", "2"]
            done = subprocess.run([*command, *(["--cg", "yes"] if positive_definite else [])], env=environment,
                                  stdout=subprocess.PIPE, text=True)
            if done.returncode != 0:
                sys.exit(f"{name}: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}")
            row = json.loads(done.stdout)
            row["matrix"] = name
            if only:
                result["matrices"] = [row if one["matrix"] == name else one for one in result["matrices"]]
            else:
                result["matrices"].append(row)
            if generated:
                path.unlink()
            print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
            save(result, pathlib.Path(file))  # what was measured so far
    table(file)


def save(result, path):
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(json.dumps(result, indent=1) + "\n")
    beside.rename(path)


def spread(seconds, scale):
    times = sorted(scale * one for one in seconds)

    def digits(time):
        return f"{time:,.0f}" if time >= 1000 else f"{time:.3g}"

    return f"{digits(statistics.median(times))} ({digits(times[0])} to {digits(times[-1])})"


def ratios(rows, kind, of, name):
    """The median times of type `of` over those of `name`."""
    return [
        statistics.median(row[kind][of]["seconds"]) / statistics.median(row[kind][name]["seconds"]) for row in rows
    ]


def lines_of_ratios(rows, kind, names, others, before):
    for of in others:
        cells = []
        for name in names:
            if name in others and others.index(name) <= others.index(of):
                cells.append("")
                continue
            all = ratios(rows, kind, of, name)
            cells.append(f"{statistics.geometric_mean(all):.2f} ({min(all):.2f} to {max(all):.2f})")
        head = f"| times faster than {of}, mean (smallest to largest) |" + " |" * before
        print(head + " " + " | ".join(cells) + " |")


def table(file):
    result = json.loads(read_text(file))
    rows = result["matrices"]
    print(f"{result['date']}, {result['processors']} processors. Microseconds of a product, median (smallest to "
          "largest):\n")
    names = list(rows[0]["products"])
    others = [name for name in names if name in ("aij", "aijsell", "aijmkl")]
    print("| matrix | rows | entries | " + " | ".join(names) + " |\n" + "|---" * (3 + len(names)) + "|")
    for row in rows:
        cells = [spread(row["products"][name]["seconds"], 1e6) for name in names]
        print(f"| {row['matrix']} | {row['rows']:,} | {row['entries']:,} | " + " | ".join(cells) + " |")
    lines_of_ratios(rows, "products", names, others, 2)

    solved = [row for row in rows if "solves" in row]
    names = list(solved[0]["solves"])
    print("\nMilliseconds of a solve by CG with Jacobi, with conversions, median (smallest to largest):\n")
    print("| matrix | iterations | " + " | ".join(names) + " |\n" + "|---" * (2 + len(names)) + "|")
    for row in solved:
        counts = sorted({row["solves"][name]["iterations"] for name in names})
        cells = [spread(row["solves"][name]["seconds"], 1e3) for name in names]
        print(f"| {row['matrix']} | {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} | "
              + " | ".join(cells) + " |")
    lines_of_ratios(solved, "solves", names, [name for name in names if name in ("aij", "aijsell")], 1)

    print("\nMicroseconds of a product on two ranks of one thread, and on one rank of two threads:\n")
    print("| matrix | csr, two ranks | one rank | ranks / rank | sell-packed, two ranks | one rank | ranks / rank |")
    print("|---" * 7 + "|")
    means = {"csr": [], "sell-packed": []}
    for row in rows:
        cells = []
        for format in means:
            two, one = row["products"][format]["seconds"], row["one_rank"][format]["seconds"]
            ratio = statistics.median(two) / statistics.median(one)
            means[format].append(ratio)
            cells += [spread(two, 1e6), spread(one, 1e6), f"{ratio:.2f}"]
        print(f"| {row['matrix']} | " + " | ".join(cells) + " |")
    print("| mean | | | " + " | | | ".join(
        f"{statistics.geometric_mean(all):.2f} ({min(all):.2f} to {max(all):.2f})" for all in means.values()) + " |")


if __name__ == "__main__":
    if len(sys.argv) >= 5 and sys.argv[1] == "measure":
        measure(*sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "table":
        table(sys.argv[2])
    else:
        sys.exit(__doc__)
