#!/usr/bin/env python3
"""Tables and the plot of element matrices beside assembled formats.

    element_table.py degrees RUN.json [RUN.json ...] [--json ALL.json] [--svg FILE.svg] > element-degrees-host.md
    element_table.py start RUN.json > element-start-host.md

degrees: element_benchmark's runs, of which several make one table; start: element_start_benchmark's.
"""
import json
import sys

from plot import Plot

COLOURS = {"csr": "#000000", "ell": "#999999", "sell-c-sigma": "#1f77b4", "sell-packed": "#17becf",
           "lma-atomic": "#d62728", "lma-coloured": "#ff7f0e", "lma-gather": "#2ca02c"}

PAPER = """> Reguly and Giles (InPar 2012, section 8; Fermi GPU, 4 million unknowns, quadrilaterals, rows of 9 to 81 \
entries), on their
> figures 17 and 18: "the advantage of the LMA approach which has to move significantly less index data"; "In double \
precision
> the LMA performs worse because of expensive synchronisation operations required to avoid write conflicts. However, its
> relative performance increases with the increasing degree of polynomials"; and that LMA "can provide more than 50% \
better
> performance provided atomic operations are available"."""


def machine_line(data):
    m = data["machine"]
    return (f"Date {m['date']}, commit {m['commit']}, {m['processor']}, {m['cores']} cores, {data['threads']} threads, "
            f"{m['compiler']}.")


def degrees(paths, json_path, svg_path):
    data = json.load(open(paths[0]))
    for path in paths[1:]:
        data["results"] += json.load(open(path))["results"]
    if json_path:
        with open(json_path, "w") as file:
            json.dump(data, file, indent=1)
            file.write("\n")
    rows = [r for r in data["results"] if "cg_iterations_per_second" in r]
    of_degree = sorted({r["degree"] for r in rows})

    def rate(degree, precision, operator, stored=""):
        found = [r["cg_iterations_per_second"] for r in rows
                 if (r["degree"], r["precision"], r["operator"], r["stored"]) == (degree, precision, operator, stored)]
        return found[0] if found else None

    print(f"# Element matrices and assembled formats by degree, {data['space']}\n")
    print(machine_line(data) + "\n")
    print(PAPER + "\n")
    print("Poisson's equation on a cube of hexahedra (three dimensions: rows of 27 to 729 entries), iterations of CG a "
          "second without preconditioner, median of whole solves. Beside the element matrices: half of each stored "
          "(they are symmetric), then all of it. In brackets: times csr.\n")
    kinds = [("csr", ""), ("ell", ""), ("sell-c-sigma", ""), ("sell-packed", "")] + [
        (f"lma-{s}", stored) for stored in ["half", "full"] for s in ["atomic", "coloured", "gather"]]
    kinds = [k for k in kinds if any((r["operator"], r["stored"]) == k for r in rows)]
    for precision in ["double", "single"]:
        if not any(r["precision"] == precision for r in rows):
            continue
        print(f"| {precision} | " + " | ".join(f"degree {d}" for d in of_degree) + " |\n|---|"
              + "---|" * len(of_degree))
        for operator, stored in kinds:
            cells = []
            for d in of_degree:
                r, csr = rate(d, precision, operator, stored), rate(d, precision, "csr")
                cells.append(f"{r:.1f} ({r / csr:.2f})" if r and csr else "")
            print(f"| {operator}{', ' + stored if stored else ''} | " + " | ".join(cells) + " |")
        print()
    print("| double | degree | rows | milliseconds of a product | MB | GB/s |\n|---|---|---|---|---|---|")
    for r in rows:
        if r["precision"] == "double" and r["stored"] != "full":
            print(f"| {r['operator']} | {r['degree']} | {r['rows']} | {1e3 * r['product_seconds']:.2f} | "
                  f"{r['bytes'] / 1e6:.1f} | {r['bytes'] / r['product_seconds'] / 1e9:.1f} |")
    print()
    for r in data["results"]:
        if r["operator"] == "assembly":
            csr = next(c for c in rows
                       if (c["degree"], c["precision"], c["operator"]) == (r["degree"], r["precision"], "csr"))
            print(f"Degree {r['degree']}, {r['precision']}: assembled in {r['seconds']:.3f} s, "
                  f"{r['seconds'] / csr['product_seconds']:.0f} products of csr.")
    if svg_path:
        plots = []
        for precision in ["double", "single"]:
            shown = [(k, [(d, rate(d, precision, *k) / rate(d, precision, "csr")) for d in of_degree
                          if rate(d, precision, *k)]) for k in kinds]
            shown = [(k, points) for k, points in shown if points]
            if not shown:
                continue
            top = max(y for _, points in shown for _, y in points)
            plot = Plot((of_degree[0] - 0.2, of_degree[-1] + 0.2), (0, top * 1.05), "degree of the elements",
                        "iterations a second / those of csr", width=560,
                        title=f"{precision} precision, {data['space']}")
            plot.horizontals([y / 2 for y in range(int(2 * top) + 1)], strong=1)
            plot.x_labels([(d, str(d)) for d in of_degree])
            for (operator, stored), points in shown:
                plot.line(points, COLOURS[operator], stored == "full")
                for x, y in points:
                    plot.point(x, y, COLOURS[operator], f"{operator} {stored}, degree {x}: {y:.2f}")
            plot.legend([(f"{name}{' (full: dashed)' if name.startswith('lma') else ''}", COLOURS[name])
                         for name in COLOURS])
            plots.append(plot)
        plots[0].write(svg_path, *plots[1:])


def start(paths):
    data = json.load(open(paths[0]))
    for path in paths[1:]:
        data["problems"] += json.load(open(path))["problems"]
    print(f"# From element matrices to the solution, {data['space']}\n")
    print(machine_line(data) + f" Load of the machine before {data['load_before']:.1f}.\n")
    print(f"Jacobi-CG to {data['tolerance']:g}, medians of {data['repeat']} interleaved repetitions, milliseconds. "
          "Counted: making the operator of element matrices, assembling, converting, Jacobi, the solve, and the end of "
          "what was still being built. `assembled first` makes the element operator only to assemble it. `element "
          "start` begins on the element matrices and assembles from iteration 0 on in a thread of its own and of low "
          "priority; where the solve has all processors, that gets what they leave. Ways with `1 thread` solve, or "
          "assemble first, with one, so that a processor is free beside the solve. Last columns: over the better of "
          "those assembled first with as many threads, and over the better of those with all.\n")
    for p in data["problems"]:
        print(f"## {p['problem']}: {p['rows']} unknowns, {p['elements']} elements, {p['nonzeros']} entries\n")
        print("| way | make | assemble | convert | solve | iterations | went on in | total | over assembled first | "
              "with all threads |\n|---|---|---|---|---|---|---|---|---|---|")
        for w in p["ways"]:
            went = f"{w['last_format']} from {w['adopted_at']}" if w["adopted_at"] >= 0 else w["last_format"]
            ms = [f"{1e3 * w[k]:.1f}" for k in ["make_seconds", "assemble_seconds", "convert_seconds", "solve_seconds"]]
            print(f"| {w['way']} | " + " | ".join(ms) + f" | {w['iterations']} | {went} | {1e3 * w['seconds']:.1f} | "
                  f"{w['over_assembled_first']:.2f} | {w['over_two_threads']:.2f} |")
        print()


def main():
    arguments = sys.argv[1:]
    options = {}
    for name in ["--json", "--svg"]:
        if name in arguments:
            at = arguments.index(name)
            options[name] = arguments[at + 1]
            del arguments[at:at + 2]
    if arguments[:1] == ["degrees"]:
        degrees(arguments[1:], options.get("--json"), options.get("--svg"))
    elif arguments[:1] == ["start"]:
        start(arguments[1:])
    else:
        sys.exit(__doc__)


main()
