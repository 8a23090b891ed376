#!/usr/bin/env python3
"""A Markdown table of products with several vectors from the JSON of multi_benchmark.

    multi_table.py FILE.json... > multi.md

Times in microseconds of products with k vectors: k products one after another, and one product with interleaved vectors
and with vectors one after another ("by columns"), with "gain", how many times as fast the interleaved product is; the
best product of another library in the same run; and an iteration of k solves one after another beside that of one solve
of all.
"""
import argparse
import json

LIBRARIES = ("cusparse csr", "mkl csr")


def cell(seconds):
    return "" if not seconds else f"{seconds * 1e6:.0f}" if seconds >= 1e-4 else f"{seconds * 1e6:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    results = []
    for name in parser.parse_args().files:
        with open(name, encoding="utf-8") as file:
            results += json.load(file)["results"]
    library = {}
    for row in results:
        if row["format"] in LIBRARIES:
            key = row["matrix"], row["k"]
            library[key] = min(library.get(key, float("inf")), row["product_seconds"])
    name = next((row["format"] for row in results if row["format"] in LIBRARIES), "another library")
    print(f"| matrix | k | format | k products | interleaved | by columns | gain | {name} | k solves, an iteration | "
          "together | gain |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for row in results:
        if row["format"] in LIBRARIES:
            continue
        products, together = row["single_seconds"], row.get("multi_iteration_seconds")
        solves = row.get("single_iteration_seconds")
        print("|", " | ".join([
            row["matrix"], str(row["k"]), row["format"], cell(products), cell(row["interleaved_seconds"]),
            cell(row["columns_seconds"]), f"{products / row['interleaved_seconds']:.2f}",
            cell(library.get((row["matrix"], row["k"]))), cell(solves), cell(together),
            f"{solves / together:.2f}" if solves and together else ""]), "|")


if __name__ == "__main__":
    main()
