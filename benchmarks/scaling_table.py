#!/usr/bin/env python3
"""Table in Markdown of scaling_benchmark.py.

usage: scaling_table.py JSON"""
import json
import sys


def table(rows):
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def main(path):
    with open(path) as file:
        report = json.load(file)
    machine = report["runs"][0]["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in report["runs"][0]["peers"].items() if name != "petsc")
    print(f"Date {machine['date']}, commit {machine['commit']}, {machine['processor']}, {machine['cores']} cores, "
          f"{machine['compiler']}; {peers}.\n")
    matrices = list(dict.fromkeys(m["matrix"] for run in report["runs"] for m in run["matrices"]))
    for matrix in matrices:
        # {threads: {solver: seconds}}
        times = {run["machine"]["threads"]: {s["name"]: s["seconds_min"] for s in m["solvers"]}
                 for run in report["runs"] for m in run["matrices"] if m["matrix"] == matrix}
        threads = sorted(times)
        names = list(dict.fromkeys(name for number in threads for name in times[number]))
        print(f"{matrix}: least milliseconds of an iteration (times as fast as with {threads[0]}).\n")
        rows = [["threads"] + [str(number) for number in threads]]
        for name in names:
            first = times[threads[0]].get(name)
            cells = []
            for number in threads:
                seconds = times[number].get(name)
                cells.append("" if seconds is None else
                             f"{1e3 * seconds:.3f}" + (f" ({first / seconds:.1f})" if first else ""))
            rows.append([name] + cells)
        print(table(rows))
    for run in report["not_run"]:
        print(f"Not run: {run['matrix']} with {run['threads']} threads.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
