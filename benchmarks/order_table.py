#!/usr/bin/env python3
"""A Markdown table of what order_benchmark wrote: order_table.py FILE.json...

Ratios are the time of csr as it is over the time of the other way, everything counted: above 1 that way is faster. The
other library and Boost's order before it are charged the order, the permuted matrix, its copy to a GPU, and as many
iterations as csr took."""
import json
import math
import pathlib
import statistics
import sys


def main(names):
    rows, lines = [], []
    for name in names:
        for system in json.loads(pathlib.Path(name).read_text())["systems"]:
            by = {solve["variant"]: solve for solve in system["solves"]}
            if "csr" in by:
                rows.append((system, by))
    def ratio(by, variant):
        return format(by["csr"]["seconds"] / by[variant]["seconds"], ".2f") if variant in by else ""

    def products(system, by, variant):
        return format(by[variant]["order_seconds"] / system["product_seconds"], ".0f") if variant in by else ""

    ways = {variant for _, by in rows for variant in by}
    peer = " and ".join(sorted({by["peer"]["library"] for _, by in rows if "peer" in by}))

    def ends(by, variant):
        policy = by.get(variant)
        return "" if policy is None else policy["format"] + ("" if policy["order"] == "none"
                                                             else f" in {policy['order']}")

    # Each column: the way that it needs, its title, its cell. A column of which no file has the way is left out.
    columns = [("policy", "policy: csr / it", lambda system, by: ratio(by, "policy")),
               ("policy", "ends in", lambda system, by: ends(by, "policy")),
               ("rcm", "rcm before: csr / it", lambda system, by: ratio(by, "rcm")),
               ("rcm", "RCM, products", lambda system, by: products(system, by, "rcm")),
               ("peer", f"{peer}: csr / it", lambda system, by: ratio(by, "peer")),
               ("boost", f"{peer} after Boost's RCM: csr / it", lambda system, by: ratio(by, "boost")),
               ("boost", "Boost's RCM, products", lambda system, by: products(system, by, "boost"))]
    columns = [column for column in columns if column[0] in ways]
    print("| system | numbering | rows | product, us | iterations | csr, s | "
          + " | ".join(title for _, title, _ in columns) + " |")
    print("|---|---|--:|--:|--:|--:|" + "".join("---|" if title == "ends in" else "--:|" for _, title, _ in columns))
    for system, by in rows:
        csr = by["csr"]
        print(f"| {system['matrix']} | {system['numbering']} | {system['rows']:,} | "
              f"{system['product_seconds'] * 1e6:.0f} | {csr['iterations']:,} | {csr['seconds']:.3f} | "
              + " | ".join(cell(system, by) for _, _, cell in columns) + " |")

    def summary(title, chosen, variant):
        ratios = [by["csr"]["seconds"] / by[variant]["seconds"] for system, by in rows
                  if variant in by and chosen(system, by)]
        if ratios:
            lines.append(f"| {title} | {variant} | {len(ratios)} | "
                         f"{math.exp(statistics.fmean(map(math.log, ratios))):.2f} | {min(ratios):.2f} | "
                         f"{sum(r < 1 / 1.05 for r in ratios)} |")

    for variant in ("policy", "rcm", "peer", "boost"):
        for numbering in ("random", "natural"):
            summary(f"{numbering}, 500 iterations and more",
                    lambda s, by: s["numbering"] == numbering and by["csr"]["iterations"] >= 500, variant)
            summary(f"{numbering}, fewer",
                    lambda s, by: s["numbering"] == numbering and by["csr"]["iterations"] < 500, variant)
    print("\n| systems | way | number | csr / it: mean | least | slower than 1.05 times csr "
          "|\n|---|---|--:|--:|--:|--:|")
    print("\n".join(lines))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
