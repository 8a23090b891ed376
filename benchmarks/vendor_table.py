#!/usr/bin/env python3
"""Table of gpu_spmv_benchmark's JSON files: csr and the best of our formats beside cuSPARSE, matrix by matrix.

vendor_table.py FILE.json ... > TABLE.md
"""
import json
import math
import sys


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def fastest(products):
    return min(products, key=lambda product: product["microseconds"])


def rows_of(matrix):
    products = [product for product in matrix["products"] if product["right"]]
    peers = [product for product in products if not product["ours"]]
    own = [product for product in products if product["ours"] and "@cusparse" not in product["name"]
           and "@kokkos" not in product["name"]]
    # CSR and COO are what a user has without a conversion.
    plain = fastest([product for product in peers if product["name"].split()[1] in ("csr", "coo")])
    csr = next(product for product in own if product["name"] == "csr")
    return plain, fastest(peers), csr, fastest(own)


def main(files):
    ratios = {}
    print("| matrix | group | rows | entries a row | cuSPARSE CSR or COO | csr | ratio | best of cuSPARSE | best of "
          "ours | ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in files:
        with open(name) as file:
            report = json.load(file)
        for matrix in report["matrices"]:
            plain, peer, csr, best = rows_of(matrix)
            group = "regular" if matrix["group"] == "regular" else "irregular"
            first = plain["microseconds"] / csr["microseconds"]
            second = peer["microseconds"] / best["microseconds"]
            ratios.setdefault(group, []).append((first, second))
            print(f"| {matrix['matrix']} | {group} | {matrix['rows']:,} | {matrix['nonzeros'] / matrix['rows']:.1f} | "
                  f"{plain['name'].removeprefix('cusparse ')} {plain['microseconds']:.1f} | {csr['microseconds']:.1f} "
                  f"| {first:.2f} | {peer['name'].removeprefix('cusparse ')} {peer['microseconds']:.1f} | "
                  f"{best['name']} {best['microseconds']:.1f} | {second:.2f} |")
    print("\n| group | matrices | csr to cuSPARSE CSR or COO: mean, least | best of ours to best of cuSPARSE: "
          "mean, least |")
    print("|---|---|---|---|")
    for group, pairs in sorted(ratios.items(), reverse=True) + [("all", sum(ratios.values(), []))]:
        firsts, seconds = zip(*pairs)
        print(f"| {group} | {len(pairs)} | {mean(firsts):.2f}, {min(firsts):.2f} | {mean(seconds):.2f}, "
              f"{min(seconds):.2f} |")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
