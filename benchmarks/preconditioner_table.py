#!/usr/bin/env python3
"""A Markdown table of preconditioners from reports of `protean solve`.

    preconditioner_table.py REPORT.json [REPORT.json ...] > preconditioners.md

One row for each matrix, method and preconditioner, in the order in which the matrices are first named. Of several reports of
the same solve the fastest counts. "times faster": setup and solve beside those of jacobi with the same matrix and method.
"""
import json
import pathlib
import sys

OPTIONS = ("fill", "block_size", "omega", "degree", "eigenvalue_ratio")
DEFAULTS = {"fill": 1, "block_size": 4, "omega": 1, "degree": 4, "eigenvalue_ratio": 30}


def key_of(report):
    problem = report["problem"]
    matrix = problem["matrix"].get("file") or problem["matrix"]["generate"]["kind"]
    spec = problem["preconditioner"]
    given = [f"{name} {spec[name]:g}" for name in OPTIONS if name in spec and spec[name] != DEFAULTS[name]]
    method = problem["solver"]["method"]
    if method == "gmres":
        method += f"({problem['solver']['restart']})"
    return pathlib.PurePath(matrix).name.split(".")[0], method, ", ".join([spec["type"], *given])


def seconds_of(report):
    return report["seconds"]["setup"] + report["seconds"]["solve"]


def main(paths):
    if not paths:
        sys.exit(__doc__)
    best = {}
    for path in paths:
        report = json.loads(pathlib.Path(path).read_text())
        key = key_of(report)
        if key not in best or seconds_of(report) < seconds_of(best[key]):
            best[key] = report
    machine = next(iter(best.values()))["machine"]
    print(f"{machine['cpu']}, {machine['threads']} threads. Times in milliseconds.\n")
    print("| matrix | rows | method | preconditioner | iterations | setup | solve | times faster | figures |")
    print("|---|--:|---|---|--:|--:|--:|--:|---|")
    order = list(dict.fromkeys(key[:2] for key in best))
    for key, report in sorted(best.items(), key=lambda item: order.index(item[0][:2])):
        jacobi = best.get((*key[:2], "jacobi"))
        done = report["status"] == "converged"
        faster = ""
        if jacobi and jacobi["status"] == "converged" and done:
            faster = f"{seconds_of(jacobi) / seconds_of(report):.1f}"
        figures = {name: value for name, value in report["preconditioner"].items() if name not in ("type", "bytes")}
        print(f"| {key[0]} | {report['matrix']['rows']} | {key[1]} | {key[2]} | "
              f"{report['iterations']}{'' if done else ' (' + report['reason'] + ')'} | "
              f"{report['seconds']['setup'] * 1e3:.2f} | {report['seconds']['solve'] * 1e3:.2f} | {faster} | "
              f"{', '.join(f'{name} {value:g}' for name, value in figures.items())} |")


main(sys.argv[1:])
