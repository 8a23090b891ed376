#!/usr/bin/env python3
"""The table of refresh_benchmark in Markdown, and its picture: refresh_table.py IN.json [OUT.svg]"""
import json
import pathlib
import statistics
import sys

from plot import Plot

COLOURS = {"jacobi": "#444", "ic0, when-slower": "#1f77b4", "amg, every": "#9467bd", "amg, when-slower": "#2ca02c",
           "auto": "#d62728"}
OF_BEAM = {"jacobi": "#444", "jacobi, format auto": "#1f77b4", "amg, every, format auto": "#9467bd",
           "amg, when-slower, format auto": "#2ca02c", "auto, format auto": "#ff7f0e",
           "auto, solves 15, format auto": "#d62728"}


def table(data):
    lines = ["| preconditioner | seconds | of it setups | iterations | times as fast as jacobi | used |",
             "|---|--:|--:|--:|--:|---|"]
    base = statistics.median(data["ways"][0]["totals"])
    for way in data["ways"]:
        total = statistics.median(way["totals"])
        changes = [(step, used) for step, used in enumerate(way["used"])
                   if step == 0 or used != way["used"][step - 1]]
        lines.append(f"| {way['way']} | {total:.3f} | {way['setup']:.3f} | "
                     f"{sum(way['iterations'])} | {base / total:.2f} | "
                     + ", ".join(f"{used} from step {step}" if step else used for step, used in changes) + " |")
    return lines


def picture(data, path):
    """The seconds that each way has taken after each step."""
    colours = OF_BEAM if data.get("problem") == "beam" else COLOURS
    most = max(sum(way["seconds"]) for way in data["ways"] if way["way"] in colours)
    plot = Plot((0, data["steps"]), (0, most), "step", "seconds so far",
                title=f"{data['rows']:,} rows, {data['steps']} steps, {data['space']}")
    plot.horizontals([most * k / 5 for k in range(6)], label="{:.2f}")
    plot.x_labels([(k, str(k)) for k in range(0, data["steps"] + 1, 10)])
    for way in data["ways"]:
        if way["way"] not in colours:
            continue
        points, total = [(0, 0)], 0
        for step, seconds in enumerate(way["seconds"], 1):
            total += seconds
            points.append((step, total))
        plot.line(points, colours[way["way"]])
    plot.legend(list(colours.items()))
    plot.write(path)


if __name__ == "__main__":
    measured = json.loads(pathlib.Path(sys.argv[1]).read_text())
    print("\n".join(table(measured)))
    if len(sys.argv) > 2:
        picture(measured, sys.argv[2])
