#!/usr/bin/env python3
"""Runs every subcommand of a benchmark program on matrices that are so small that it shows no speed, but that it still
runs: run_tiny.py PROGRAM WORK_FOLDER [--device]

--device: those that need a GPU, instead of the others. Without a GPU they must say so, and the test is skipped (77).
A subcommand that PROGRAM --list prints and that has no entry here fails."""
import lzma
import pathlib
import subprocess
import sys
import time

# {t}: a folder of tiny matrices with the names that benchmarks ask for.
HOST = {
    "products host": "--folder {t} --only bcsstk17 --formats csr,ell --threads 1 --seconds 0.001",
    "products columns": "--share 0.01 --only band64 --threads 1 --formats csr --counts 1,2 --iterations 2 "
                        "--seconds 0.001",
    "products instruction-sets": "--set avx2 --only bcsstk17 --folder {t} --formats csr,ell --pairs 1",
    "products bytes": "--folder {t}",
    "products io": "--folder {t} --json {t}/io.json --share 0.1",
    "products fidelity": "--matrices {t}/bcsstk17.mtx",
    # A run takes minutes whatever its options are: here it must say its usage and fail.
    "products cocktail-rates": None,
    "solve host": "--folder {t} --only bcsstk17 --formats csr,ell --threads 1 --iterations 4 --seconds 0.001",
    "solve iteration": "--sizes 12 --methods cg --columns 2 --threads 1 --repeat 1",
    "solve default": "--folder {t} --only bcsstk17 --threads 1 --repeat 1",
    "solve combinations": "--folder {t} --only bcsstk17,poisson-2d-37 --threads 1 --repeat 1 --seconds 1",
    "solve order": "--folder {t} --entries 1000 --only bcsstk17 --threads 1 --iterations 50",
    "solve loaded": "--folder {t} --only bcsstk17 --formats csr --threads 1 --loops 1 --iterations 4 --seconds 0.001",
    "solve values": "--folder {t} --only bcsstk17 --formats csr,sell-packed --threads 1 --seconds 0.001",
    "solve short": "--sizes 4 --threads 1 --repeat 1",
    "solve kept": "--n 8 --threads 1 --steps 1 --repeat 1",
    "solve elements": "--unknowns 200 --degrees 1 --formats csr --precisions double --iterations 3 --threads 1 "
                      "--seconds 0.001",
    "solve element-start": "--problems poisson-1-4 --formats csr --threads 1 --repeat 1",
    "solve mfem": "--n 2 --only hex-30-degree-2 --seconds 0.001",
    "switching policy": "--repeat 1 --threads 1 --folder {t} --only bcsstk17 --formats csr,coo",
    "switching selection": "--truth {t}/truth.yaml --folder {t}",
    "switching selectors": "--truth {t}/truth.yaml --folder {t} --features {t}/features.tsv",
    "switching trials": "--matrices {t}/bcsstk17.mtx --threads 1 --repeat 1",
    "preconditioners solves": "--folder {t} --repeat 1 --only s1rmt3m1",
    "preconditioners setups": "--matrices poisson-3d:6 --types jacobi,ic0 --threads 1 --seconds 0.001",
    "preconditioners amg": "--space host --only poisson-2d-20 --repeat 1",
    "preconditioners incomplete": "--folder {t} --n 4 --threads 1 --seconds 0.001 --only elasticity-3d,s1rmt3m1",
    "preconditioners fields": "--folder {t} --grow 1,1.5 "
                             "--systems stokes-2d:8,darcy-2d:8,reservoir-2d:8,taylor-hood-2d:4:contrast=100,"
                             "taylor-hood-3d:2,utm300",
    "preconditioners refresh": "--n 4 --steps 2 --repeat 1 --threads 1",
    "ranks petsc": "--matrix {t}/bcsstk17.mtx",
    "ranks model": "--repeat 1 --sizes 4",
}
DEVICE = {
    # All formats of the catalogue, with kernels that cannot be recorded.
    "products device": "--folder {t} --entries 2000 --only bcsstk17 --seconds 0.001",
    "products split": "--share 0.01 --device csr --shares 50",
    "products copy": "--size 8 --repeat 1",
    "solve device": "--sizes 30 --formats csr,sell-packed",
    "solve devices": "--systems poisson-3d:n=12 --shorter 4 --longer 12 --repeat 1",
    "solve graph-stop": "",
}
NAMES = ["bcsstk17", "af23560", "wave", "G2_circuit", "s1rmt3m1", "orsirr_1", "sherman3", "saylr4", "utm300"]


def write_matrices(folder):
    """The matrix of 5 points on a grid of 12 x 12 under each name."""
    n = 12
    entries = []
    for i in range(n * n):
        entries.append(f"{i + 1} {i + 1} 4.5")
        if i % n + 1 < n:
            entries += [f"{i + 1} {i + 2} -1", f"{i + 2} {i + 1} -1"]
        if i + n < n * n:
            entries += [f"{i + 1} {i + n + 1} -1", f"{i + n + 1} {i + 1} -1"]
    text = "\n".join(["%%MatrixMarket matrix coordinate real general", f"{n * n} {n * n} {len(entries)}", *entries, ""])
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.mtx").write_text(text)
        (folder / f"{name}.mtx.xz").write_bytes(lzma.compress(text.encode()))
    (folder / "truth.yaml").write_text(
        "machine: \"none\"\nmatrices:\n  - matrix: bcsstk17\n    space: host\n"
        f"    rows: {n * n}\n    nonzeros: {len(entries)}\n    row_changes: 0.2\n    formats:\n"
        "      - [csr, 8576, 1e-6, 1e-6]\n      - [ell, 8640, 2e-6, 5e-6]\n")


def listed(program, device):
    """The subcommands of a program, of a GPU or not."""
    lines = subprocess.run([program, "--list"], capture_output=True, text=True, check=True, timeout=60).stdout
    return [line.split()[0] for line in lines.splitlines() if line.endswith(" CUDA") == device]


def says_usage(program, subcommand):
    run = subprocess.run([program, subcommand, "--no-such-option", "1"], capture_output=True, text=True, timeout=60)
    return run.returncode == 2 and "usage:" in run.stderr


def run_one(program, subcommand, arguments, matrices):
    """What is wrong with the run, or nothing; "no GPU" without one."""
    words = [word.format(t=matrices) for word in arguments.split()]
    run = subprocess.run([program, subcommand, *words], capture_output=True, text=True, timeout=300)
    print(run.stdout[-3000:], run.stderr[-3000:])
    said = run.stdout + run.stderr
    if run.returncode != 0 and ("no CUDA" in said or "no device" in said or "no GPU" in said):
        return "no GPU"
    if "WRONG" in said:
        return "a product is wrong"
    return f"it ended with {run.returncode}" if run.returncode != 0 else ""


def main():
    program, work = (pathlib.Path(argument) for argument in sys.argv[1:3])
    device = "--device" in sys.argv[3:]
    name = program.name.removeprefix("protean-bench-")
    matrices = work / f"tiny-{name}"
    write_matrices(matrices)
    table = DEVICE if device else HOST
    failures, skipped = [], 0
    for subcommand in listed(program, device):
        key = f"{name} {subcommand}"
        print(f"--- {key}", flush=True)
        begin = time.monotonic()
        if key not in table:
            failures.append(f"{key} has no entry in {__file__}; add one, so that it is run")
        elif not says_usage(program, subcommand):
            failures.append(f"{key} does not refuse an option that it does not know")
        elif table[key] is not None and (why := run_one(program, subcommand, table[key], matrices)):
            if device and why == "no GPU":
                skipped += 1
            else:
                failures.append(f"{key}: {why}")
        print(f"{time.monotonic() - begin:.1f} s", flush=True)
    for failure in failures:
        print("FAILED:", failure)
    if skipped and not failures:
        print("skipped: no device: this machine has no GPU")
        return 77
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
