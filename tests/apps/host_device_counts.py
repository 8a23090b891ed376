#!/usr/bin/env python3
"""Iterations on the host against those on a GPU, over the files in problems/ that a GPU can solve, by the command.

    host_device_counts.py PROTEAN SOURCE_FOLDER [--json FILE] [--markdown FILE]

The ten of TEN, six real matrices among them, must agree within 1 % + 2 and converge in both spaces. They are systems
whose iteration count rounding does not decide: CG, GMRES, and BiCGStab on well-conditioned matrices. BiCGStab on
add20 and sherman4 is run and shown, too; its count there changes by several percent with the last bit of a product
(with the number of threads on one machine, and with the storage format), so only its answer is held to the tolerance.
Exits 77 (skipped) where there is no GPU.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

TEN = ["quickstart", "bcsstk16", "fv2", "orsirr-1", "jpwh-991", "cage8", "poisson", "elasticity", "anisotropic",
       "convection-diffusion"]
REAL = {"quickstart", "bcsstk16", "fv2", "orsirr-1", "jpwh-991", "cage8", "add20", "sherman4"}
# Not solved on a GPU: the preconditioner ic0 runs on a host only.
HOST_ONLY = {"shell"}

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("protean")
arguments.add_argument("source")
arguments.add_argument("--json")
arguments.add_argument("--markdown")
given = arguments.parse_args()


def solve(file, space, folder):
    report = pathlib.Path(folder) / "r.json"
    report.unlink(missing_ok=True)
    run = subprocess.run([given.protean, "solve", str(file), "--quiet", "--set", f"operator.space={space}",
                          "--report", str(report)], capture_output=True, text=True)
    if run.returncode == 3 and space == "device":
        print(f"skipped: no device: {run.stderr.strip()}")
        sys.exit(77)
    if run.returncode not in (0, 1):
        sys.exit(f"{file.name} on the {space}: exit {run.returncode}: {run.stderr}")
    return json.loads(report.read_text())


results, failures = [], []
with tempfile.TemporaryDirectory() as folder:
    files = sorted((f for f in (pathlib.Path(given.source) / "problems").glob("*.yaml") if f.stem not in HOST_ONLY),
                   key=lambda f: (f.stem not in TEN, TEN.index(f.stem) if f.stem in TEN else 0, f.stem))
    for file in files:
        device, host = solve(file, "device", folder), solve(file, "host", folder)
        a, b = host["iterations"], device["iterations"]
        tolerance = device["problem"]["solver"]["relative_tolerance"]
        one = {"problem": file.stem, "real": file.stem in REAL, "of_the_ten": file.stem in TEN,
               "method": device["problem"]["solver"]["method"], "format": device["operator"]["format"],
               "format_host": host["operator"]["format"], "iterations_host": a, "iterations_device": b,
               "true_relative_host": host["residual"]["true_relative"],
               "true_relative_device": device["residual"]["true_relative"], "relative_tolerance": tolerance,
               "status_host": host["status"], "status_device": device["status"],
               "within": abs(a - b) <= 0.01 * a + 2}
        results.append(one)
        if one["status_host"] != "converged" or one["status_device"] != "converged":
            failures.append(f"{file.stem}: {one['status_host']} on the host, {one['status_device']} on the device")
        if one["of_the_ten"] and not one["within"]:
            failures.append(f"{file.stem}: {a} iterations on the host, {b} on the device")
        machine = device["machine"]

gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                     capture_output=True, text=True).stdout.strip()
ten = [r for r in results if r["of_the_ten"]]
lines = ["# Iterations on the host and on a GPU", "",
         f"`tests/apps/host_device_counts.py`; {gpu}. Within 1 % + 2: {sum(r['within'] for r in ten)} of the ten "
         f"problems held to it ({sum(r['real'] for r in ten)} with real matrices), "
         f"{sum(r['within'] for r in results)} of all {len(results)}; equal: "
         f"{sum(r['iterations_host'] == r['iterations_device'] for r in results)}.", "",
         "| problem | matrix | method | format | host | device | within 1 % + 2 | true residual on the device |",
         "|---|---|---|---|---:|---:|---|---:|"]
for r in results:
    formats = r["format"] if r["format"] == r["format_host"] else f"{r['format_host']} / {r['format']}"
    lines.append(f"| {r['problem']}{'' if r['of_the_ten'] else ' (beside the ten)'} | "
                 f"{'real' if r['real'] else 'generated'} | {r['method']} | {formats} | {r['iterations_host']} | "
                 f"{r['iterations_device']} | {'yes' if r['within'] else 'no'} | {r['true_relative_device']:.2e} |")
lines += ["", "The ten are systems whose count rounding does not decide: CG, GMRES, and BiCGStab on well-conditioned "
          "matrices. BiCGStab on add20 and sherman4 amplifies the last bit of a product: its count changes by several "
          "percent with the number of threads and with the format, on the host alone; there the answer is held to the "
          "tolerance, not the count."]
text = "\n".join(lines) + "\n"
print(text)
if given.json:
    pathlib.Path(given.json).write_text(json.dumps({"gpu": gpu, "machine": machine, "results": results}, indent=1)
                                        + "\n")
if given.markdown:
    pathlib.Path(given.markdown).write_text(text)
for failure in failures:
    print("failed:", failure)
sys.exit(1 if failures else 0)
