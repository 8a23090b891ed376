#!/usr/bin/env python3
"""entropy_bound.py PROTEAN FOLDER [NAME ...]: what an entropy code could save of sell-packed.

For each matrix FOLDER/*.mtx.xz (or NAME) the entropy of zeroth order, in bytes an entry, of

  values   their 64 bits
  columns  the distance from the entry before in the row; of the first entry of a row, from the first one of the row
           above

that is, what an ideal static code of single symbols (Huffman, range coding, tANS) takes in the mean, without its
tables. "with tables" adds 8 bytes for each distinct value and 4 for each distinct distance, and takes 8 or 4 bytes an
entry where that is less. Next to them the bytes of sell-packed, with values in double and with the fewest bytes that
round nothing (in a dictionary, else in float if that is exact, else in double), and how many times as many the latter
are. Needs NumPy and SciPy. Real matrices with 10,000 entries and more count.
"""

import json
import lzma
import math
import pathlib
import subprocess
import sys

import numpy as np
import scipy.io
import scipy.sparse

LEAST_ENTRIES = 10_000
MOST_IN_DICTIONARY = 256


def entropy(symbols, size):
    """Bytes a symbol of an ideal code, the same with a table of symbols of `size` bytes, and how many are distinct."""
    counts = np.unique(symbols, return_counts=True)[1]
    share = counts / symbols.size
    ideal = abs(float((share * np.log2(share)).sum())) / 8
    return ideal, min(float(size), ideal + size * counts.size / symbols.size), counts.size


def distances(csr):
    first = csr.indptr[:-1][np.diff(csr.indptr) > 0]
    steps = np.diff(csr.indices.astype(np.int64), prepend=0)
    starts = csr.indices[first].astype(np.int64)
    steps[first] = np.diff(starts, prepend=0)
    return steps


def bytes_of_packed(protean, file):
    """Bytes of sell-packed with values in double, and how many values it stores; None if it refuses the matrix."""
    done = subprocess.run([protean, "inspect", str(file), "--json", "--no-picture", "--formats", "sell-packed"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return None
    row = json.loads(done.stdout)["formats"][0]
    return (row["bytes"], row["stored_values"]) if row["admitted"] else None


def exact_in_float(values):
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    return bool(np.all((rounded == values) & ((values == 0) | (np.abs(values) >= 2.0**-126))))


def measured(protean, file):
    with lzma.open(file) as text:
        matrix = scipy.io.mmread(text)
    if not scipy.sparse.issparse(matrix) or np.iscomplexobj(matrix.data):
        return None
    csr = scipy.sparse.csr_matrix(matrix, dtype=np.float64)
    csr.sum_duplicates()
    csr.sort_indices()
    if csr.nnz < LEAST_ENTRIES:
        return None
    values, values_with, distinct = entropy(csr.data.view(np.uint64), 8)
    columns, columns_with, _ = entropy(distances(csr), 4)
    packed = bytes_of_packed(protean, file)
    if packed is None:
        return None
    full, stored = packed
    with_zero = distinct + (not np.any(csr.data.view(np.uint64) == 0))
    fewest = (full - 7 * stored + 8 * MOST_IN_DICTIONARY if with_zero <= MOST_IN_DICTIONARY
              else full - 4 * stored if exact_in_float(csr.data) else full)
    return {"matrix": file.name.removesuffix(".mtx.xz"), "entries": int(csr.nnz), "distinct": int(distinct),
            "values": values, "columns": columns, "bound": values + columns,
            "with_tables": values_with + columns_with, "double": full / csr.nnz, "fewest": fewest / csr.nnz}


def mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def main():
    protean, folder, *names = sys.argv[1:]
    files = [pathlib.Path(folder) / f"{name}.mtx.xz" for name in names] or sorted(
        pathlib.Path(folder).glob("*.mtx.xz"))
    found = []
    print("| matrix | entries | distinct values | values | columns | both | with tables | sell-packed, double | fewest "
          "| times |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for file in files:
        try:
            one = measured(protean, file)
        except ValueError as error:
            print(f"{file.name}: {error}", file=sys.stderr)
            continue
        if not one:
            continue
        found.append(one)
        print(f"| {one['matrix']} | {one['entries']:,} | {one['distinct']:,} | {one['values']:.2f} "
              f"| {one['columns']:.2f} | {one['bound']:.2f} | {one['with_tables']:.2f} | {one['double']:.2f} "
              f"| {one['fewest']:.2f} | {one['fewest'] / one['with_tables']:.2f} |", flush=True)
    for text, rows in (
            (f"at most {MOST_IN_DICTIONARY} distinct values",
             [o for o in found if o["distinct"] <= MOST_IN_DICTIONARY]),
            ("more", [o for o in found if o["distinct"] > MOST_IN_DICTIONARY]),
            ("all", found)):
        if rows:
            times = [o["fewest"] / o["with_tables"] for o in rows]
            print(f"{text}: {len(rows)} matrices; bytes of sell-packed over the bytes with tables, geometric mean "
                  f"{mean(times):.2f}, {min(times):.2f} to {max(times):.2f}; in double "
                  f"{mean([o['double'] / o['with_tables'] for o in rows]):.2f}; over the bound without tables "
                  f"{mean([o['fewest'] / o['bound'] for o in rows]):.2f}")


if __name__ == "__main__":
    main()
