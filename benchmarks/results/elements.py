"""Tables of element matrices."""

from results.common import Plot, head, measured_at, options, read, row, table

ELEMENT_COLOURS = {"csr": "#000000", "ell": "#999999", "sell-c-sigma": "#1f77b4", "sell-packed": "#17becf",
                   "lma-atomic": "#d62728", "lma-coloured": "#ff7f0e", "lma-gather": "#2ca02c"}


@table
def degrees(words):
    """FILE: CG on element matrices next to assembled formats, iterations a second; [--svg FILE] the plot."""
    words, given = options(words, svg="")
    data = read(*words)
    measured_at(data)
    rows = [r for r in data["results"] if "cg_iterations_per_second" in r]
    of_degree = sorted({r["degree"] for r in rows})
    kinds = [k for k in [("csr", ""), ("ell", ""), ("sell-c-sigma", ""), ("sell-packed", "")] + [
        (f"lma-{s}", stored) for stored in ("half", "full") for s in ("atomic", "coloured", "gather")]
        if any((r["operator"], r["stored"]) == k for r in rows)]

    def rate(degree, precision, operator, stored=""):
        return next((r["cg_iterations_per_second"] for r in rows if
                     (r["degree"], r["precision"], r["operator"], r["stored"])
                     == (degree, precision, operator, stored)), None)

    plots = []
    for precision in ("double", "single"):
        if not any(r["precision"] == precision for r in rows):
            continue
        head(f"{precision} precision", *(f">degree {d}" for d in of_degree))
        for operator, stored in kinds:
            pairs = [(rate(d, precision, operator, stored), rate(d, precision, "csr")) for d in of_degree]
            row(operator + (f", {stored}" if stored else ""),
                *(f"{r:.1f} ({r / base:.2f})" if r and base else "" for r, base in pairs))
        print()
        shown = [(k, [(d, rate(d, precision, *k) / rate(d, precision, "csr")) for d in of_degree
                      if rate(d, precision, *k)]) for k in kinds]
        top = max(y for _, points in shown for _, y in points)
        plot = Plot((of_degree[0] - 0.2, of_degree[-1] + 0.2), (0, top * 1.05), "degree of the elements",
                    "iterations a second / iterations a second in csr", width=560,
                    title=f"{precision} precision, {data['space']}")
        plot.horizontals([y / 2 for y in range(int(2 * top) + 1)], strong=1)
        plot.x_labels([(d, str(d)) for d in of_degree])
        for (operator, stored), points in shown:
            if points:
                plot.line(points, ELEMENT_COLOURS[operator], stored == "full")
        plot.legend([(f"{name}{' (full: dashed)' if name.startswith('lma') else ''}", colour)
                     for name, colour in ELEMENT_COLOURS.items()])
        plots.append(plot)
    assembled = []
    for r in data["results"]:
        if r["operator"] == "assembly" and r["precision"] == "double":
            product = next(c["product_seconds"] for c in rows if (c["degree"], c["precision"], c["operator"])
                           == (r["degree"], "double", "csr"))
            assembled.append(f"{r['seconds'] / product:.0f} at degree {r['degree']}")
    print(f"Assembling takes this many products of csr, in double precision: {', '.join(assembled)}.")
    if given["svg"]:
        plots[0].write(given["svg"], *plots[1:])


@table
def start(words):
    """FILE: from element matrices to the solution, milliseconds; a column a problem."""
    data = read(*words)
    measured_at(data)
    problems = data["problems"]
    head("way", *(f">{p['problem']}: {p['rows']:,} unknowns" for p in problems))
    for way in dict.fromkeys(w["way"] for p in problems for w in p["ways"]):
        cells = []
        for p in problems:
            its = next((w for w in p["ways"] if w["way"] == way), None)
            cells.append(f"{1e3 * its['seconds']:.0f} ({its['over_assembled_first']:.2f}), {its['last_format']}"
                         if its else "")
        row(way, *cells)


@table
def mesh(words):
    """FILE of MFEM's meshes: milliseconds of a product next to MFEM."""
    data = read(*words)
    measured_at(data, f"; {data['mfem']}")
    names = ["mfem csr", "mfem csr, columns sorted", "mfem AssemblyLevel::ELEMENT", "element matrices, half",
             "element matrices, full", "csr", "sell-c-sigma", "sell-packed"]
    head("mesh", *(f">{name}" for name in names), ">assembled: times MFEM's", ">elements: times MFEM's")
    for r in data["results"]:
        times = {p["name"]: p["median_seconds"] for p in r["products"]}
        row(r["name"], *(f"{1e3 * times[name]:.2f}" if name in times else "" for name in names),
            f"{r['assembled_ratio']:.2f}", f"{r['element_ratio']:.2f}" if r.get("element_ratio") else "")
    print()
    head("mesh", ">setup of a solve in csr, products", ">new values, sell-c-sigma", ">sell-packed")
    for r in data["results"]:
        row(r["name"], f"{r['setup_products']:.2f}",
            *(f"{r['update_products'][name]:.2f}" for name in ("sell-c-sigma", "sell-packed")))
