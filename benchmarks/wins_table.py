#!/usr/bin/env python3
"""Where each of our formats wins, from gpu_spmv_benchmark's JSON file: one line a format.

wins_table.py FILE.json > TABLE.md
"""
import json
import math
import sys


def main(name):
    with open(name) as file:
        matrices = json.load(file)["matrices"]
    times = {matrix["matrix"]: {product["name"]: product["microseconds"] for product in matrix["products"]
                                if product["ours"] and product["right"]} for matrix in matrices}
    peers = {matrix["matrix"]: min(product["microseconds"] for product in matrix["products"] if not product["ours"])
             for matrix in matrices}
    formats = sorted({name for products in times.values() for name in products})
    print(f"| format | matrices of {len(matrices)} | to the best of cuSPARSE: mean, best, least | to the best of all "
          "of ours: mean | fastest of ours on | within 10 % of the fastest on |")
    print("|---|---|---|---|---|---|")
    for name in formats:
        taken = [matrix for matrix in times if name in times[matrix]]
        best = {matrix: min(times[matrix].values()) for matrix in taken}
        to_peer = [peers[matrix] / times[matrix][name] for matrix in taken]
        to_best = [best[matrix] / times[matrix][name] for matrix in taken]

        def mean(values):
            return math.exp(sum(map(math.log, values)) / len(values))

        first = [matrix for matrix in taken if times[matrix][name] == best[matrix]]
        near = [matrix for matrix in taken if times[matrix][name] <= 1.1 * best[matrix] and matrix not in first]
        print(f"| {name} | {len(taken)} | {mean(to_peer):.2f}, {max(to_peer):.2f}, {min(to_peer):.2f} | "
              f"{mean(to_best):.2f} | {', '.join(first) or 'none'} | {', '.join(near) or 'none'} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
