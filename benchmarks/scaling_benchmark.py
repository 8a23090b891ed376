#!/usr/bin/env python3
"""One iteration of Jacobi-CG on 1 to 16 threads: csr and the fastest formats next to MKL by hand and Eigen.

usage: scaling_benchmark.py PROTEAN_BENCH_SOLVE JSON [--threads 1,2,4,8,16] [--budget SECONDS]

Runs protean-bench-solve host for each number of threads, on the 7-point stencil of 100^3 rows and on elasticity. The
runs with the most threads, which take least, come first. No run begins after the budget (60 s if not given), and the
running one is ended then; the file says what was not run. tables.py scaling makes the table."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

MATRICES = ["poisson-3d-100", "elasticity-3d-24"]
FORMATS = "csr,hdi,sell-packed"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("json")
    parser.add_argument("--threads", default="1,2,4,8,16")
    parser.add_argument("--budget", type=float, default=60)
    arguments = parser.parse_args()
    threads = sorted((int(word) for word in arguments.threads.split(",")), reverse=True)
    end = time.monotonic() + arguments.budget
    runs, missing = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "run.json"
        for number in threads:
            for matrix in MATRICES:
                left = end - time.monotonic()
                command = [arguments.program, "host", "--only", matrix, "--formats", FORMATS, "--peers", "mkl,eigen",
                           "--threads", str(number), "--iterations", "20", "--seconds", "0.1", "--json", str(file)]
                try:
                    if left <= 0:
                        raise subprocess.TimeoutExpired(command, left)
                    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=left)
                except subprocess.TimeoutExpired:
                    missing.append({"threads": number, "matrix": matrix})
                    continue
                runs.append(json.loads(file.read_text()))
                print(f"{matrix}, {number} threads: done", flush=True)
    report = {"benchmark": "scaling", "runs": runs, "not_run": missing}
    pathlib.Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
    for run in missing:
        print(f"not run in {arguments.budget:g} s: {run['matrix']} with {run['threads']} threads")
    return 0 if runs else 1


if __name__ == "__main__":
    sys.exit(main())
