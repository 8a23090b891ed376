#!/usr/bin/env python3
"""Markdown tables of setup_benchmark's figures: setup_table.py FILE.json [FILE.json ...]

The first table has a row for each matrix and preconditioner. "products" are those of csr. "solve only" and "with
setup": how many times as fast as jacobi with the same matrix and method. The second one has, for each matrix, the
fastest preconditioner in solve only and with setup, and the geometric means.
"""
import json
import math
import pathlib
import sys


def name_of(matrix):
    return pathlib.Path(matrix).name.removesuffix(".xz").removesuffix(".mtx").removesuffix(".pbin").replace(":", "-")


def number(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def main(files):
    rows = [row for file in files for row in json.loads(pathlib.Path(file).read_text())["preconditioners"]]
    jacobi = {(row["matrix"], row["method"]): row for row in rows if row["type"] == "jacobi"}
    print("| matrix | rows | preconditioner | iterations | setup, ms | products | new values, ms | products "
          "| M^-1 r, products | 8 columns, products | solve, ms | solve only | with setup |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    best = {}
    for row in rows:
        product, beside = row["product_seconds"], jacobi.get((row["matrix"], row["method"]))
        setup, solve = row["setup_seconds"], row["solve_seconds"]
        alone = both = None
        if beside and row["converged"]:
            alone = beside["solve_seconds"] / solve
            both = (beside["solve_seconds"] + beside["setup_seconds"]) / (solve + setup)
            mine = best.setdefault(row["matrix"], {"alone": (0, ""), "both": (0, "")})
            mine["alone"], mine["both"] = (max(mine["alone"], (alone, row["type"])),
                                           max(mine["both"], (both, row["type"])))
        print(f"| {name_of(row['matrix'])} | {row['rows']:,} | {row['type']} | {row['iterations']}, {row['method']}"
              f"{'' if row['converged'] else ', not converged'} | {number(1e3 * setup)} | {setup / product:.0f} "
              f"| {number(1e3 * row['new_values_seconds'])} | {row['new_values_seconds'] / product:.0f} "
              f"| {row['apply_seconds'] / product:.1f} | {row['apply_columns_seconds'] / product:.1f} "
              f"| {number(1e3 * solve)} | {f'{alone:.2f}' if alone else ''} | {f'{both:.2f}' if both else ''} |")
    print("\n| matrix | fastest in solve only | times jacobi | fastest with setup | times jacobi |")
    print("|---|---|--:|---|--:|")
    for matrix, mine in best.items():
        print(f"| {name_of(matrix)} | {mine['alone'][1]} | {mine['alone'][0]:.2f} | {mine['both'][1]} "
              f"| {mine['both'][0]:.2f} |")
    means = [math.exp(sum(math.log(mine[key][0]) for mine in best.values()) / len(best)) for key in ("alone", "both")]
    print(f"| geometric mean | | {means[0]:.2f} | | {means[1]:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
