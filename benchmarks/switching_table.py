#!/usr/bin/env python3
"""Tables and a plot from switching_benchmark's JSON.

    switching_table.py switching-host.json [--svg switching-host.svg] > switching-host.md

Oracle: the least of csr alone and every fixed format with its conversion counted. Runs that do not reach a tolerance
are left out.
"""
import json
import math
import statistics
import sys

from plot import Plot


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else float("nan")


def rows_of(data):
    for p in data["problems"]:
        csr = p["fixed"]["csr"]
        for tolerance, reached in csr.get("to", {}).items():
            best, oracle = "csr", reached["seconds"]
            for name, f in p["fixed"].items():
                if name == "csr" or tolerance not in f.get("to", {}):
                    continue
                total = f["convert"] + f["to"][tolerance]["seconds"]
                if total < oracle:
                    best, oracle = name, total
            yield {"problem": p["problem"], "group": p["group"], "tolerance": tolerance,
                   "iterations": reached["iterations"],
                   "csr": reached["seconds"], "best": best, "oracle": oracle,
                   "auto": {mode: p["auto"][mode][tolerance] for mode in p.get("auto", {})
                            if tolerance in p["auto"][mode]}}


def where(auto):
    switches = auto["run"].get("switches", [])
    return ", ".join(f"{s['to']} at {s['iteration']}" for s in switches) or "stayed"


def errors(data):
    """Predicted over real, of every candidate that was also run in its fixed format."""
    product, convert, own_product, own_convert = [], [], [], []
    for p in data["problems"]:
        for mode in p.get("auto", {}).values():
            for auto in mode.values():
                for c in auto["run"].get("candidates", []):
                    real = p["fixed"].get(c["format"], {})
                    if c["format"] == "csr" or "product" not in real:
                        continue
                    if c["predicted_product"] > 0:
                        product.append(abs(c["predicted_product"] / real["product"] - 1))
                    if c["predicted_convert"] > 0:
                        convert.append(abs(c["predicted_convert"] / real["convert"] - 1))
                    if c["measured_product"] > 0 and c["predicted_product"] > 0:
                        own_product.append(abs(c["predicted_product"] / c["measured_product"] - 1))
                    if c["measured_convert"] > 0 and c["predicted_convert"] > 0:
                        own_convert.append(abs(c["predicted_convert"] / c["measured_convert"] - 1))
    return product, convert, own_product, own_convert


def svg(rows, path):
    rows = sorted(rows, key=lambda r: r["iterations"])
    xs = [math.log10(max(r["iterations"], 1)) for r in rows]
    plot = Plot((min(xs) - 0.05, max(xs) + 0.05), (0.5, 1.3), "iterations", "time / time of csr alone")
    plot.horizontals([y / 10 for y in range(5, 14)], strong=1)
    plot.x_labels([(math.log10(n), str(n)) for n in [10, 30, 100, 300, 1000, 3000]])
    colours = {"oracle": "#999999", "blocking": "#1f77b4", "overlapped": "#d62728"}
    for r, x in zip(rows, xs):
        points = {"oracle": r["oracle"] / r["csr"], **{m: a["seconds"] / r["csr"] for m, a in r["auto"].items()}}
        for name, y in points.items():
            plot.point(x, y, colours[name], f'{r["problem"]} to {r["tolerance"]}: {name} {y:.2f}')
    plot.legend([("best fixed format, conversion counted", colours["oracle"]),
                 ("auto, solve waits", colours["blocking"]),
                 ("auto, beside the solve", colours["overlapped"])])
    plot.write(path)


def main():
    data = json.load(open(sys.argv[1]))
    rows = list(rows_of(data))
    machine = data["machine"]
    print(f"# Formats changed during the solve, {data['space']}\n")
    print(f"Date {machine['date']}, commit {machine['commit']}, {machine['processor']}, {machine['cores']} cores, "
          f"{machine['threads']} threads, {machine['compiler']}. Load of the machine before {data['load_before']:.1f}, "
          f"after {data['load_after']:.1f}.\n")
    print(f"{len(rows)} solves of {len(data['problems'])} problems. Milliseconds, least of the repetitions.\n")
    modes = ["blocking", "overlapped"]
    print("| | auto, solve waits | auto, beside the solve |\n|---|---|---|")
    with_auto = {m: [r for r in rows if m in r["auto"]] for m in modes}

    def line(title, figure):
        print(f"| {title} | " + " | ".join(figure(with_auto[m], m) for m in modes) + " |")

    line("time over the oracle's, geometric mean",
         lambda rs, m: f"{geomean([r['auto'][m]['seconds'] / r['oracle'] for r in rs]):.3f}")
    line("time over csr alone, worst", lambda rs, m: f"{max(r['auto'][m]['seconds'] / r['csr'] for r in rs):.3f}")
    line("over 1.05 times csr alone",
         lambda rs, m: f"{sum(r['auto'][m]['seconds'] > 1.05 * r['csr'] for r in rs)} of {len(rs)}")
    line("csr alone over auto, geometric mean",
         lambda rs, m: f"{geomean([r['csr'] / r['auto'][m]['seconds'] for r in rs]):.3f}")
    line("the same, more than 200 iterations",
         lambda rs, m: (lambda long: f"{geomean([r['csr'] / r['auto'][m]['seconds'] for r in long]):.3f} "
                        f"({len(long)} solves)")([r for r in rs if r["iterations"] > 200]))
    line("solves that changed",
         lambda rs, m: f"{sum(bool(r['auto'][m]['run'].get('switches')) for r in rs)} of {len(rs)}")
    slow = [s for r in rows for s in r["auto"].get("overlapped", {}).get("slowdown", [])]
    if slow:
        line("slowdown of an iteration beside a build, median",
             lambda rs, m: "" if m == "blocking" else f"{100 * statistics.median(slow):.0f} %")
    print()
    product, convert, own_product, own_convert = errors(data)

    def median(values):
        return f"{100 * statistics.median(values):.0f} % of {len(values)}" if values else "none"

    print(f"Predicted against real, median error: products {median(product)}, conversions {median(convert)} (every "
          "candidate against its run in a fixed format); of formats that were adopted, in the run itself: products "
          f"{median(own_product)}, conversions {median(own_convert)}.\n")
    print(f"Oracle over csr alone, geometric mean: {geomean([r['oracle'] / r['csr'] for r in rows]):.3f}.\n")
    print("| problem | goal | iterations | csr | best fixed | oracle | auto, waits | | auto, beside | "
          "|\n|---|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        cells = [r["problem"], r["tolerance"], str(r["iterations"]), f"{1e3 * r['csr']:.2f}", r["best"],
                 f"{1e3 * r['oracle']:.2f}"]
        for m in modes:
            a = r["auto"].get(m)
            cells += [f"{1e3 * a['seconds']:.2f}", where(a)] if a else ["", ""]
        print("| " + " | ".join(cells) + " |")
    if data.get("not_run"):
        print(f"\nNot run: {', '.join(data['not_run'])}.")
    if "--svg" in sys.argv:
        svg(rows, sys.argv[sys.argv.index("--svg") + 1])


main()
