#!/usr/bin/env python3
"""Where the time of `protean solve` on a GPU goes, stage by stage, from the command's own reports.

    device_stages.py PROTEAN PROBLEM --json FILE --markdown FILE [--copies FILE] [--rounds 5] [--set K=V]...

The command is a new process each round. --copies takes the JSON of protean-bench-products copy of the same run.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

STAGES = [
    ("start", "driver, libraries, context"),
    ("read", "generate matrix and right-hand side, in host memory"),
    ("upload", "matrix, b and x0 to the GPU"),
    ("convert", "CSR to the format, on the GPU"),
    ("setup", "preconditioner, on the GPU"),
    ("solve", "Krylov loop with recording its graph"),
    ("download", "x to the host"),
]

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("protean")
arguments.add_argument("problem")
arguments.add_argument("--set", action="append", default=[], dest="settings")
arguments.add_argument("--json")
arguments.add_argument("--markdown")
arguments.add_argument("--copies")
arguments.add_argument("--rounds", type=int, default=5)
given = arguments.parse_args()

reports = []
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "r.json"
    for _ in range(given.rounds):
        command = [given.protean, "solve", given.problem, "--quiet", "--report", str(file)]
        for setting in given.settings + ["operator.space=device"]:
            command += ["--set", setting]
        subprocess.run(command, check=True)
        reports.append(json.loads(file.read_text()))

last = reports[-1]
medians = {key: statistics.median(r["seconds"][key] for r in reports) for key in last["seconds"]}
gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"],
                     capture_output=True, text=True).stdout.strip()
result = {"problem": pathlib.Path(given.problem).name, "settings": given.settings, "rounds": given.rounds, "gpu": gpu,
          "machine": last["machine"], "rows": last.get("matrix", {}).get("rows"), "iterations": last["iterations"],
          "operator": last["operator"], "median_seconds": medians, "seconds": [r["seconds"] for r in reports]}
copies = json.loads(pathlib.Path(given.copies).read_text()) if given.copies else None
if copies:
    result["copies"] = copies

lines = ["# Where the time of a solve on a GPU goes", "",
         f"`protean solve {result['problem']} {' '.join('--set ' + s for s in given.settings)} --set "
         f"operator.space=device`, {last['iterations']} iterations, format {last['operator']['format']}; median of "
         f"{given.rounds} processes; {gpu}; {last['machine'].get('threads', '?')} host threads.", "",
         "| stage | what | ms | of the total |", "|---|---|---:|---:|"]
for key, what in STAGES:
    lines.append(f"| {key} | {what} | {1e3 * medians[key]:.1f} | {100 * medians[key] / medians['total']:.0f} % |")
rest = medians["total"] - sum(medians[key] for key, _ in STAGES)
lines.append(f"| rest | problem file, error against the known solution, report | {1e3 * rest:.1f} | "
             f"{100 * rest / medians['total']:.0f} % |")
lines.append(f"| total | | {1e3 * medians['total']:.1f} | |")
if copies:
    lines += ["",
              f"Copies of {copies['bytes'] / 1e6:.0f} MB (the matrix alone, `protean-bench-products copy`, same run, "
              f"median of {copies['rounds']}):", "", "| | GB/s | of a pinned copy |", "|---|---:|---:|"]
    for name, key, part in [("pinned copy to the GPU", "pinned_in_bytes_per_second", None),
                            ("upload() from pageable memory", "upload_bytes_per_second", "upload_of_pinned"),
                            ("pinned copy from the GPU", "pinned_out_bytes_per_second", None),
                            ("download() into fresh pageable memory", "download_bytes_per_second",
                             "download_of_pinned")]:
        lines.append(f"| {name} | {copies[key] / 1e9:.1f} | {f'{100 * copies[part]:.0f} %' if part else ''} |")
    lines.append(f"\nThe first upload of a process, which takes pinned and GPU memory from the driver: "
                 f"{copies['bytes'] / copies['first_upload_seconds'] / 1e9:.1f} GB/s.")
text = "\n".join(lines) + "\n"
print(text)
if given.json:
    pathlib.Path(given.json).write_text(json.dumps(result, indent=1) + "\n")
if given.markdown:
    pathlib.Path(given.markdown).write_text(text)
