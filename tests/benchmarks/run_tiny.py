#!/usr/bin/env python3
"""Runs a benchmark on matrices that are so small that it shows no speed, but that it still runs:
run_tiny.py PROGRAM WORK_FOLDER [--device]

--device: it needs a GPU. Without one it must say so, and the test is skipped (77). run_tiny.py --list prints the
programs that are known, each with "device" if it needs a GPU."""
import lzma
import pathlib
import subprocess
import sys

# {t}: a folder of tiny matrices with the names that benchmarks ask for.
HOST = {
    "amg_setup_benchmark": "--space host --only poisson-2d-20 --runs 1",
    "bytes_table": "--matrices {t}",
    "cg_benchmark": "--matrices {t} --only bcsstk17 --formats csr,ell --threads 1 --iterations 4 --seconds 0.001",
    "cocktail_rates": None,  # a run takes minutes whatever its arguments are: here it must say its usage and fail
    "default_benchmark": "--folder {t} --matrices bcsstk17 --threads 1 --repeat 1",
    "element_benchmark": "--unknowns 200 --degrees 1 --formats csr --precisions double --iterations 3 --threads 1 "
                         "--seconds 0.001",
    "element_start_benchmark": "--problems poisson-1-4 --formats csr --threads 1 --repeat 1",
    "fem_benchmark": "--n 2 --cases hex-30-degree-2 --seconds 0.001",
    "fidelity_benchmark": "1 {t}/bcsstk17.mtx",
    "incomplete_benchmark": "--matrices {t} --n 4 --threads 1 --seconds 0.001 --only elasticity-3d,s1rmt3m1",
    "instruction_sets_benchmark": "--sets avx2 --matrices bcsstk17 --folder {t} --formats csr,ell --pairs 1",
    "io_benchmark": "{t} {t}/io.json 0.1",
    "loaded_benchmark": "--matrices {t} --only bcsstk17 --formats csr --threads 1 --loops 1 --iterations 4 "
                        "--seconds 0.001",
    "multi_benchmark": "--share 0.01 --only band64 --threads 1 --formats csr --counts 1,2 --iterations 2 "
                       "--seconds 0.001",
    "order_benchmark": "--matrices {t} --entries 1000 --only bcsstk17 --threads 1 --iterations 50",
    "petsc_ranks_benchmark": "{t}/bcsstk17.mtx",
    "preconditioner_benchmark": "--matrices {t} --runs 1 --only s1rmt3m1",
    "ranks_model_benchmark": "1 4 aij",
    "refresh_benchmark": "--n 4 --steps 2 --repeat 1 --threads 1",
    "selection_benchmark": "--truth {t}/truth.yaml --folder {t}",
    "selectors_benchmark": "--truth {t}/truth.yaml --folder {t} --features {t}/features.tsv",
    "sequence_benchmark": "--threads 1 --steps 1 --repeat 1",
    "setup_benchmark": "--matrices poisson-3d:6 --types jacobi,ic0 --threads 1 --seconds 0.001",
    "spmv_benchmark": "--matrices {t} --only bcsstk17 --formats csr,ell --threads 1 --seconds 0.001",
    "switching_benchmark": "--repeat 1 --threads 1 --matrices {t} --only bcsstk17 --formats csr,coo",
    "trials_benchmark": "--matrices {t}/bcsstk17.mtx --threads 1 --turns 1",
}
DEVICE = {
    "gpu_block_benchmark": "",
    "gpu_cg_benchmark": "--sizes 30 --formats csr,sell-packed",
    "gpu_copy_benchmark": "--size 8 --rounds 1",
    # All formats of the catalogue, with kernels that cannot be recorded.
    "gpu_spmv_benchmark": "--matrices {t} --entries 2000 --only bcsstk17 --seconds 0.001",
    "graph_stop_benchmark": "",
    "split_benchmark": "--share-of-size 0.01 --device csr --shares 50",
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


def main():
    if sys.argv[1:] == ["--list"]:
        for name in HOST:
            print(name)
        for name in DEVICE:
            print(name, "device")
        return 0
    program, work = (pathlib.Path(argument) for argument in sys.argv[1:3])
    needs_device = "--device" in sys.argv[3:]
    name = program.name
    table = DEVICE if needs_device else HOST
    if name not in table:
        print(f"{name} has no entry in {__file__}; add one, so that it is run")
        return 1
    if table[name] is None:
        run = subprocess.run([program, "no-such-target"], capture_output=True, text=True, timeout=60)
        print(run.stdout, run.stderr)
        return 0 if run.returncode == 2 and "usage:" in run.stderr else 1
    matrices = work / f"tiny-{name}"
    write_matrices(matrices)
    arguments = [word.format(t=matrices) for word in table[name].split()]
    run = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300)
    print(run.stdout[-3000:], run.stderr[-3000:])
    said = run.stdout + run.stderr
    if needs_device and run.returncode != 0 and ("no CUDA" in said or "no device" in said or "no GPU" in said):
        print("skipped: no device: this machine has no GPU")
        return 77
    if "WRONG" in said:
        print("a product is wrong")
        return 1
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
