#!/usr/bin/env python3
"""Iterations of one solve over several GPUs next to one GPU, by the command.

usage: solves.py PROTEAN DEVICES [--preconditioner TYPE] [--runs N] [--only NAME] [--set KEY=VALUE ...]
           for example: solves.py build/cuda-release/protean 1,2

Solves each system N times (3) with each number of devices, in turns, and prints the median time of an iteration, its
ratio to the first number of devices, the iterations and the time of the setup. Method cg to 1e-8, format csr. DEVICES
0 is the host, to try the script."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

SYSTEMS = {
    "7-point 200^3": "{kind: poisson-3d, n: 200}",
    "27-point 128^3": "{kind: poisson-3d, n: 128, points: 27}",
    "7-point 400^3": "{kind: poisson-3d, n: 400}",
    "elasticity 100^3": "{kind: elasticity-3d, n: 100}",
}


def solve(protean, generate, devices, options, folder):
    report = pathlib.Path(folder) / "report.json"
    report.unlink(missing_ok=True)
    place = f"{{format: csr, space: device, devices: {devices}}}" if devices else "{format: csr}"
    problem = pathlib.Path(folder) / "problem.yaml"
    problem.write_text(f"matrix: {{generate: {generate}}}\nrhs: {{random: 1}}\noperator: {place}\n"
                       f"solver: {{method: cg, relative_tolerance: 1.0e-8, max_iterations: {options.iterations}}}\n"
                       f"preconditioner: {{type: {options.preconditioner}}}\nschedule: {{policy: none}}\n")
    command = [protean, "solve", problem, "--quiet", "--report", report]
    for one in options.set:
        command += ["--set", one]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not report.exists():
        return None, done.stderr.strip()
    return json.loads(report.read_text()), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("protean")
    parser.add_argument("devices", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--preconditioner", default="jacobi")
    parser.add_argument("--iterations", type=int, default=2000, help="most of a solve")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=SYSTEMS)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    print("| system | devices | ms an iteration | times as fast | iterations | setup s |\n|---|---|---|---|---|---|")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, generate in SYSTEMS.items():
            if options.only not in (None, name):
                continue
            reports = {count: [] for count in options.devices}
            refused = {}
            for _ in range(options.runs):
                for count in options.devices:
                    if count in refused:
                        continue
                    report, error = solve(options.protean, generate, count, options, folder)
                    if report is None:
                        refused[count] = error
                    else:
                        reports[count].append(report)
            first = None
            for count in options.devices:
                if count in refused:
                    failed = True
                    print(f"| {name} | {count} | {refused[count]} | | | |")
                    continue
                done = reports[count]
                each = statistics.median(1e3 * one["seconds"]["solve"] / max(one["iterations"], 1) for one in done)
                first = first or each
                setup = statistics.median(one["seconds"]["setup"] for one in done)
                print(f"| {name} | {count} | {each:.3f} | {first / each:.2f} | {done[0]['iterations']} | {setup:.3g} |",
                      flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
