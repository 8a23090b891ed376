#!/usr/bin/env python3
"""Tables and the performance profile of selection_benchmark, from its JSON:

    selection_table.py LABEL=FILE.json... [OUT.svg]

The profile (Dolan and More, Math. Program. 91 (2002) 201): the share of the matrices on which a choice takes at most x
times as long as the best format. Beside the choices of each file it has that of csr for every matrix, by the first
file."""
import json
import pathlib
import sys

from plot import Plot

COLOURS = "#d62728", "#1f77b4", "#2ca02c", "#9467bd"
ITERATIONS = {30: "30", 300: "300", 30000: "30,000", 1000000: "the product alone"}
LARGEST = 2.0  # of the axis


def of_the_solve(entries, iterations):
    """What a solve of so many iterations does, or did before formats were tried; nothing where it was not asked."""
    return [one for one in entries if one["iterations"] == iterations and one.get("with_tries", True)]


def regrets(data, iterations, key="to_best"):
    return [choice[key] for matrix in data["matrices"] for choice in of_the_solve(matrix["choices"], iterations)]


def table(files):
    lines = ["| iterations | | matrices | to the best: mean | at 95 % | at worst | to csr: mean | at worst "
             "| slower than 1.02 times csr |", "|---|---|---|---|---|---|---|---|---|"]
    for iterations, text in ITERATIONS.items():
        for label, data in files.items():
            for one in of_the_solve(data["summary"], iterations):
                lines.append(f"| {text} | {label} | {one['matrices']} | {one['to_best_mean']:.3f} "
                             f"| {one['to_best_95']:.2f} | {one['to_best_worst']:.2f} | {one['to_csr_mean']:.3f} "
                             f"| {one['to_csr_worst']:.2f} | {one['slower_than_csr']:.0f} |")
                text = ""
    for label, data in files.items():
        lines.append("")
        lines.append(f"{label}: predictions are off by {100 * data['median_product_error']:.0f} % for products and "
                     f"{100 * data['median_conversion_error']:.0f} % for conversions, at the median.")
    return lines


def profile(ratios):
    """The points of the curve; steps at each ratio."""
    ratios = sorted(ratios)
    points = [(1.0, 0.0)]
    for k, ratio in enumerate(ratios, 1):
        if ratio > LARGEST:
            break
        points += [(ratio, points[-1][1]), (ratio, k / len(ratios))]
    return points + [(LARGEST, points[-1][1])]


def picture(files, path):
    plots = []
    for iterations in (300, 1000000):
        what = ITERATIONS[iterations]
        plot = Plot((1, LARGEST), (0, 1), "times as long as the best format", "share of the matrices", width=560,
                    title=what if iterations == 1000000 else f"{what} iterations, conversion counted")
        plot.horizontals([k / 5 for k in range(6)])
        plot.x_labels([(1 + k / 5, f"{1 + k / 5:.1f}") for k in range(6)])
        curves = [(label, colour, regrets(data, iterations))
                  for (label, data), colour in zip(files.items(), COLOURS)]
        first = next(iter(files.values()))
        curves.append(("csr", "#444", [best / csr for best, csr in zip(regrets(first, iterations),
                                                                       regrets(first, iterations, "to_csr"))]))
        for _, colour, ratios in curves:
            plot.line(profile(ratios), colour)
        plot.legend([(label, colour) for label, colour, _ in curves], x=420, y=280)
        plots.append(plot)
    plots[0].write(path, *plots[1:])


if __name__ == "__main__":
    named = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    pictures = [argument for argument in sys.argv[1:] if "=" not in argument]
    if not named or len(pictures) > 1:
        sys.exit(__doc__)
    read = {label: json.loads(pathlib.Path(file).read_text()) for label, file in named.items()}
    print("\n".join(table(read)))
    if pictures:
        picture(read, pictures[0])
