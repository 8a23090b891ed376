#!/usr/bin/env python3
"""Prints the tables of docs/results/selectors-host.md from the JSON of selectors_benchmark.

    selectors_table.py selectors-host.json [tune-host-avx2.yaml tune-host.yaml]

The second and third file: two tables of `protean tune` that have matrices in common, for the labels that flip.
"""
import json
import math
import sys

import yaml

SLOWER = 1.02  # times csr


def quantile(values, part):
    values = sorted(values)
    return values[max(1, math.ceil(part * len(values))) - 1]


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def table(matrices, iterations):
    names = [s["selector"] for s in matrices[0]["selectors"]]
    print("| selector | mean | at 95 % | worst | slower than csr | to csr: mean | takes the best | look, products "
          "| mean with the look |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows = []
    for i, name in enumerate(names):
        choices = [next(c for c in m["selectors"][i]["choices"] if c["iterations"] == iterations) for m in matrices]
        looks = [m["selectors"][i]["look_products"] for m in matrices]
        regret = [c["to_best"] for c in choices]
        csr = [c["to_csr"] for c in choices]
        # The look in times of the best: products of csr over those of csr that the best takes.
        looked = [r + look / iterations * r / c for r, c, look in zip(regret, csr, looks)]
        rows.append((mean(regret), f"| {name} | {mean(regret):.3f} | {quantile(regret, 0.95):.2f} | "
                     f"{max(regret):.2f} | "
                     f"{100 * sum(c > SLOWER for c in csr) / len(csr):.0f} % | {mean(csr):.3f} | "
                     f"{100 * sum(c['chosen'] == c['best'] for c in choices) / len(choices):.0f} % | "
                     f"{quantile(looks, 0.5):.0f} | {mean(looked):.3f} |"))
    any_choices = [next(c for c in m["selectors"][0]["choices"] if c["iterations"] == iterations)
                   for m in matrices]
    csr = [c["to_best"] / c["to_csr"] for c in any_choices]
    rows.append((mean(csr), f"| (always csr) | {mean(csr):.3f} | {quantile(csr, 0.95):.2f} | {max(csr):.2f} | 0 % | "
                 f"1.000 | | 0 | {mean(csr):.3f} |"))
    for _, row in sorted(rows):
        print(row)
    print()


def read(path):
    return {m["matrix"]: {f[0]: float(f[2]) for f in m["formats"] if "/" not in f[0] and not f[0].startswith("order-")}
            for m in yaml.safe_load(open(path))["matrices"] if m["space"] == "host"}


def flips(one, other):
    one, other = read(one), read(other)
    common = sorted(set(one) & set(other))
    flipped, cost = 0, []
    for m in common:
        formats = set(one[m]) & set(other[m])
        a, b = (min(formats, key=t[m].get) for t in (one, other))
        flipped += a != b
        cost.append(other[m][a] / other[m][b])
    print(f"{flipped} of {len(common)} labels flip between the two tables; the label of the first costs "
          f"{mean(cost):.3f} times the best of the second in the mean, {max(cost):.2f} at worst\n")


def main():
    data = json.load(open(sys.argv[1]))
    matrices = data["matrices"]
    real = [m for m in matrices if not m["generated"]]
    for title, some in [("real matrices", real), ("generated matrices", [m for m in matrices if m["generated"]])]:
        if not some:
            continue
        near = [sum(m["second_to_best"] < 1 + d for m in some) for d in (0.02, 0.05)]
        print(f"{len(some)} {title}; on {near[0]} the second best product is within 2 % of the best, on {near[1]} "
              "within 5 %\n")
        for iterations in [c["iterations"] for c in some[0]["selectors"][0]["choices"]]:
            print(f"{iterations} iterations\n" if iterations < 1000000 else "the product alone\n")
            table(some, iterations)
    if len(sys.argv) > 3:
        flips(sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
