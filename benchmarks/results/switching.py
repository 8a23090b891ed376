"""Tables of changes of format in a solve, and of choices before it."""
import math
import statistics

from results.common import Plot, head, labelled, mean, measured_at, options, read, row, table

MODES = {"blocking": "auto, the solve waits", "overlapped": "auto, next to the solve"}


def switching_rows(data):
    """Oracle: the least of csr alone and each fixed format with its conversion counted."""
    for p in data["problems"]:
        for tolerance, reached in p["fixed"]["csr"].get("to", {}).items():
            name, oracle = "csr", reached["seconds"]
            for other, f in p["fixed"].items():
                total = f["convert"] + f["to"][tolerance]["seconds"] if tolerance in f.get("to", {}) else math.inf
                if other != "csr" and total < oracle:
                    name, oracle = other, total
            yield {"problem": p["problem"], "tolerance": tolerance, "iterations": reached["iterations"],
                   "csr": reached["seconds"], "best": name, "oracle": oracle,
                   "auto": {mode: p["auto"][mode][tolerance] for mode in p.get("auto", {})
                            if tolerance in p["auto"][mode]}}


def switching_picture(rows, path):
    rows = sorted(rows, key=lambda r: r["iterations"])
    xs = [math.log10(max(r["iterations"], 1)) for r in rows]
    plot = Plot((min(xs) - 0.05, max(xs) + 0.05), (0.5, 1.3), "iterations", "time / time of csr alone")
    plot.horizontals([y / 10 for y in range(5, 14)], strong=1)
    plot.x_labels([(math.log10(n), str(n)) for n in [10, 30, 100, 300, 1000, 3000]])
    colours = {"oracle": "#999999", "blocking": "#1f77b4", "overlapped": "#d62728"}
    for r, x in zip(rows, xs):
        for name, y in {"oracle": r["oracle"] / r["csr"],
                        **{m: a["seconds"] / r["csr"] for m, a in r["auto"].items()}}.items():
            plot.point(x, y, colours[name], f'{r["problem"]} to {r["tolerance"]}: {name} {y:.2f}')
    plot.legend([("best fixed format, conversion counted", colours["oracle"]),
                 *((text, colours[mode]) for mode, text in MODES.items())])
    plot.write(path)


@table
def switching(words):
    """FILE: formats changed during the solve; [--worst 8] rows of the slowest solves, [--svg FILE] the plot."""
    words, given = options(words, worst=8, svg="")
    data = read(*words)
    rows = list(switching_rows(data))
    measured_at(data, f"; {len(rows)} solves of {len(data['problems'])} problems")
    head("", *(f">{text}" for text in MODES.values()))
    some = {mode: [r for r in rows if mode in r["auto"]] for mode in MODES}
    long = {mode: [r for r in some[mode] if r["iterations"] > 200] for mode in MODES}

    def line(title, text_of, its=some):
        pairs = {mode: [(r, r["auto"][mode]["seconds"]) for r in its[mode]] for mode in MODES}
        if all(pairs.values()):
            row(title, *(text_of(pairs[mode]) for mode in MODES))

    line("csr alone / auto, geometric mean", lambda rs: f"{mean(r['csr'] / s for r, s in rs):.3f}")
    line(f"the same, the {len(long['blocking'])} solves of more than 200 iterations",
         lambda rs: f"{mean(r['csr'] / s for r, s in rs):.3f}", long)
    line("auto / csr alone, worst", lambda rs: f"{max(s / r['csr'] for r, s in rs):.3f}")
    line("more than 1.05 times csr alone", lambda rs: f"{sum(s > 1.05 * r['csr'] for r, s in rs)} of {len(rs)}")
    line("auto / oracle, geometric mean", lambda rs: f"{mean(s / r['oracle'] for r, s in rs):.3f}")
    line("auto / oracle, more than 200 iterations: mean, worst",
         lambda rs: f"{mean(s / r['oracle'] for r, s in rs):.3f}, {max(s / r['oracle'] for r, s in rs):.2f}", long)
    row("solves that changed", *(f"{sum(bool(r['auto'][mode]['run'].get('switches')) for r in some[mode])} of "
                                 f"{len(some[mode])}" for mode in MODES))
    slow = [s for r in rows for s in r["auto"].get("overlapped", {}).get("slowdown", [])]
    if slow:
        row("slowdown of an iteration during a build, median", "", f"{100 * statistics.median(slow):.0f} %")
    errors = {"product": [], "convert": []}
    for p in data["problems"]:
        for c in (c for mode in p.get("auto", {}).values() for auto in mode.values()
                  for c in auto["run"].get("candidates", [])):
            real = p["fixed"].get(c["format"], {})
            for key in errors:
                if c["format"] != "csr" and "product" in real and c[f"predicted_{key}"] > 0:
                    errors[key].append(abs(c[f"predicted_{key}"] / real[key] - 1))
    if not all(errors.values()):
        errors = {key: [math.nan] for key in errors}
    print("\nThe oracle is the best of csr alone and each fixed format, conversion counted: it takes "
          f"{mean(r['oracle'] / r['csr'] for r in rows):.3f} of the time of csr. Predictions of candidates are off by "
          f"{100 * statistics.median(errors['product']):.0f} % for products and "
          f"{100 * statistics.median(errors['convert']):.0f} % for conversions, at the median.")
    if given["worst"]:
        print()
        head("slowest next to csr alone", "tolerance", ">iterations", ">csr, ms", "best fixed", ">oracle, ms",
             ">auto, waits", "", ">auto, next to the solve", "")
        worst = sorted(rows, key=lambda r: -max(a["seconds"] / r["csr"] for a in r["auto"].values()))
        for r in worst[:given["worst"]]:
            cells = []
            for mode in MODES:
                its = r["auto"].get(mode)
                switches = its["run"].get("switches", []) if its else []
                changes = ", ".join(f"{s['to']} at {s['iteration']}" for s in switches)
                cells += [f"{1e3 * its['seconds']:.2f}", changes or "stayed"] if its else ["", ""]
            row(r["problem"], r["tolerance"], r["iterations"], f"{1e3 * r['csr']:.2f}", r["best"],
                f"{1e3 * r['oracle']:.2f}", *cells)
    if given["svg"]:
        switching_picture(rows, given["svg"])


@table
def example(words):
    """FILE of switching_example.py: one solve by the policy next to csr alone and the other format alone."""
    data = read(*words)
    head("way", ">convert, ms", ">solve, ms", ">total, ms", ">least to most", ">of csr alone", ">iterations")
    first = next(iter(data["median_seconds"].values()))
    for way, reports in data["reports"].items():
        totals = [sum(r["seconds"][key] for key in ("convert", "setup", "solve")) for r in reports]
        parts = [f"{1e3 * statistics.median(r['seconds'][key] for r in reports):.2f}" for key in ("convert", "solve")]
        total = data["median_seconds"][way]
        row(way, *parts, f"**{1e3 * total:.1f}**", f"{1e3 * min(totals):.1f} to {1e3 * max(totals):.1f}",
            f"{total / first:.2f}", reports[0]["iterations"])


ITERATIONS = {30: "30", 300: "300", 30000: "30,000", 1000000: "the product alone"}


def choices(data, iterations, key):
    return [c[key] for m in data["matrices"] for c in m["choices"] if c["iterations"] == iterations
            and c.get("with_tries", True)]


@table
def selection(words):
    """LABEL=FILE...: what a choice before the solve costs, by measured times; [--svg FILE] the profiles."""
    words, given = options(words, svg="")
    files = [(label, read(name)) for label, name in labelled(words)]
    head("iterations", "machine", ">matrices", ">to the best: mean", ">at 95 %", ">worst", ">to csr: mean", ">worst",
         ">slower than 1.02 times csr")
    for iterations, text in ITERATIONS.items():
        for label, data in files:
            for one in data["summary"]:
                if one["iterations"] == iterations and one.get("with_tries", True):
                    row(text, label, one["matrices"], f"{one['to_best_mean']:.3f}", f"{one['to_best_95']:.2f}",
                        f"{one['to_best_worst']:.2f}", f"{one['to_csr_mean']:.3f}", f"{one['to_csr_worst']:.2f}",
                        f"{one['slower_than_csr']:.0f}")
    print()
    for label, data in files:
        print(f"- {label}: measured {data['machine']['date'].replace('T', ' ')[:16]} UTC, {data['machine']['commit']}. "
              f"Predictions are off by {100 * data['median_product_error']:.0f} % for products and "
              f"{100 * data['median_conversion_error']:.0f} % for conversions, at the median.")
    if given["svg"]:
        selection_picture(files, given["svg"])


def selection_picture(files, path):
    """The performance profile (Dolan and More, Math. Program. 91 (2002) 201)."""
    largest, plots = 2.0, []

    def profile(ratios):
        points = [(1.0, 0.0)]
        for k, ratio in enumerate(sorted(ratios), 1):
            if ratio <= largest:
                points += [(ratio, points[-1][1]), (ratio, k / len(ratios))]
        return points + [(largest, points[-1][1])]

    for iterations in (300, 1000000):
        title = "the product alone" if iterations == 1000000 else f"{iterations} iterations, conversion counted"
        plot = Plot((1, largest), (0, 1), "times as long as the best format", "share of the matrices", width=560,
                    title=title)
        plot.horizontals([k / 5 for k in range(6)])
        plot.x_labels([(1 + k / 5, f"{1 + k / 5:.1f}") for k in range(6)])
        entries = []
        for (label, data), colour in zip(files, ("#d62728", "#1f77b4", "#2ca02c", "#9467bd")):
            to_best = choices(data, iterations, "to_best")
            plot.line(profile(to_best), colour)
            plot.line(profile([b / c for b, c in zip(to_best, choices(data, iterations, "to_csr"))]), colour, True)
            entries.append((label, colour))
        plot.legend([*entries, ("always csr: dashed", "#444")], x=400, y=280)
        plots.append(plot)
    plots[0].write(path, *plots[1:])


@table
def trials(words):
    """LABEL=FILE...: formats that were tried before a long solve, next to all that were looked at."""
    head("machine", "measured at, commit", ">matrices", ">taken / fastest: mean", ">worst", ">taken / csr: mean",
         ">slower than 1.02 times csr", ">the choice, products of csr, median")
    for label, name in labelled(words):
        data = read(name)
        of = data["matrices"]
        row(label, f"{data['machine']['date'].replace('T', ' ')[:16]}, {data['machine']['commit']}", len(of),
            f"{mean(m['taken_seconds'] / m['fastest_seconds'] for m in of):.3f}",
            f"{max(m['taken_seconds'] / m['fastest_seconds'] for m in of):.2f}",
            f"{mean(m['taken_seconds'] / m['csr_seconds'] for m in of):.3f}",
            sum(m["taken_seconds"] > 1.02 * m["csr_seconds"] for m in of),
            f"{statistics.median(m['choice_seconds'] / m['csr_seconds'] for m in of):.0f}")


@table
def selectors(words):
    """FILE: all selectors on the same matrices, by stored times; [--iterations 300] [--generated]"""
    words, given = options(words, iterations=300, generated=False)
    matrices = [m for m in read(*words)["matrices"] if m["generated"] == given["generated"]]

    def quantile(values, part):
        return sorted(values)[max(1, math.ceil(part * len(values))) - 1]

    head("selector", ">mean", ">at 95 %", ">worst", ">slower than csr", ">to csr: mean", ">look, products",
         ">mean with the look")
    rows = []
    for i, selector in enumerate(s["selector"] for s in matrices[0]["selectors"]):
        of = [next(c for c in m["selectors"][i]["choices"] if c["iterations"] == given["iterations"]) for m in matrices]
        looks = [m["selectors"][i]["look_products"] for m in matrices]
        regret, to_csr = [c["to_best"] for c in of], [c["to_csr"] for c in of]
        looked = [r + look / given["iterations"] * r / c for r, c, look in zip(regret, to_csr, looks)]
        rows.append((mean(regret), [selector, f"{mean(regret):.3f}", f"{quantile(regret, 0.95):.2f}",
                                    f"{max(regret):.2f}", f"{100 * sum(c > 1.02 for c in to_csr) / len(of):.0f} %",
                                    f"{mean(to_csr):.3f}", f"{quantile(looks, 0.5):.0f}", f"{mean(looked):.3f}"]))
    regret = [c["to_best"] / c["to_csr"] for m in matrices for c in m["selectors"][0]["choices"]
              if c["iterations"] == given["iterations"]]
    rows.append((mean(regret), ["(always csr)", f"{mean(regret):.3f}", f"{quantile(regret, 0.95):.2f}",
                                f"{max(regret):.2f}", "0 %", "1.000", "0", f"{mean(regret):.3f}"]))
    for _, cells in sorted(rows):
        row(*cells)
