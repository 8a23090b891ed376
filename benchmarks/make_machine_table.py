#!/usr/bin/env python3
"""Makes the built-in machine table from measured products.

    cd docs/results/data; make_machine_table.py \\
        "host:tune-host-intel-avx512.yaml.xz:Intel Xeon, AVX-512, 2 threads, 2026-11-28" \\
        "named:tune-gpu-h100.yaml.xz:NVIDIA H100, 2026-11-28" "named:tune-gpu-h200.yaml.xz:NVIDIA H200, 2026-11-28" \\
        element-degrees-host.json.xz element-degrees-gpu.json.xz > ../../../operators/policy/builtin_machine.tsv

host:FILE:TEXT and named:FILE:TEXT are tables of `protean tune`, whose TEXT describes the machine. Of named:, which are
of GPUs, the native kernels alone are taken. again:FILE after one is a second run of the same command on such a machine,
as below. Each file may be compressed (.xz). The other files are such tables (.yaml), or JSON of the subcommands
protean-bench-products device and protean-bench-solve elements, of which double precision is taken.
Of a FILE named orders:TABLE.yaml only the prices of orders (order-ID) are taken, for the matrices of the other files
that have the same name; today there is none, since the policy estimates those of a GPU from levels and rows.
Of a FILE named newer:FILE, of protean-bench-products device, the formats replace the other files' for the matrices of
the same name, except for csr, to which the others were compared in their runs. So do those of a newer:TABLE.yaml of
`protean tune --spaces device --formats F,F`: what they took there in products of csr, they take here; another GPU may
have measured them. Prices of orders in a FILE are left out.
The table of a host
alone comes from one table of `protean tune`, without its prices of orders; the text describes the machine:

    cd docs/results/data; make_machine_table.py --host tune-host-avx2.yaml.xz \\
        "AMD EPYC, AVX2, 2 threads, 2026-11-25" > ../../../operators/policy/builtin_avx2.tsv

More files behind the text, of `protean tune --formats F,F`, replace these formats: what they took there in products of
csr, they take here. Another machine, or other threads, may have measured them. again:FILE is a second run of the first
file's command on the same machine: of each product and each conversion the shorter time counts, since other work on a
machine lengthens some and shortens none.

Behind the line of the machine belong the few formats that are worth a look, which the program chooses from the times:
test_policy --gtest_filter=BuiltinMachine.TheFewAreThoseOfTheTimes names the lines.

A table with the shorter times of two runs, as a truth for protean-bench-switching selection:

    make_machine_table.py --shorter tune.yaml tune-again.yaml > tune-both.yaml

The tables of an H100, of AMD and of Intel with AVX-512 in docs/results/data were made so, of two runs each.

Names "csr (mkl)" and
"csr@cusparse" become "csr/mkl" and "csr/cusparse". Nothing is rounded but to four digits.
"""
import json
import pathlib
import re
import sys
from decimal import Decimal

import yaml

from results.common import read_text


def name_of(text):
    text = re.sub(r" \((\w+)\)$", r"/\1", text)
    return text.replace("@", "/")


CATALOGUE = pathlib.Path(__file__).resolve().parent.parent / "formats/catalogue.def"
LAYOUTS = {name.replace("_", "-") for name in re.findall(r"^PROTEAN_FORMAT\(\w+, *(\w+)", CATALOGUE.read_text(), re.M)}


def device(path):
    # A preset, and a format with other parameters ("csr:balance=rows"), are not for the table.
    for matrix in json.loads(read_text(path))["matrices"]:
        formats = [(name_of(p["name"]), p["bytes"], p["microseconds"] * 1e-6, p["convert_microseconds"] * 1e-6)
                   for p in matrix["products"] if p.get("ours") and p.get("right") and p.get("convert_microseconds")
                   and p["name"].split("@")[0] in LAYOUTS]
        yield matrix["matrix"], "device", matrix["rows"], matrix["nonzeros"], formats, -1


def tuned(path):
    for matrix in yaml.safe_load(read_text(path))["matrices"]:
        formats = [(name, size, float(product), float(convert)) for name, size, product, convert in matrix["formats"]]
        yield matrix["matrix"], matrix["space"], matrix["rows"], matrix["nonzeros"], formats, \
            matrix.get("row_changes", -1)


def elements(path):
    data = json.loads(read_text(path))
    rows = [r for r in data["results"] if r["precision"] == "double"]
    for degree in sorted({r["degree"] for r in rows}):
        of = [r for r in rows if r["degree"] == degree]
        assembly = next(r for r in of if r["operator"] == "assembly")
        assembled = [(r["operator"], r["bytes"], r["product_seconds"], r["setup_seconds"]) for r in of
                     if not r.get("stored") and "bytes" in r]
        csr = next(f for f in assembled if f[0] == "csr")
        for stored in ["half", "full"]:
            formats = [(r["operator"], r["bytes"], r["product_seconds"], 0) for r in of if r.get("stored") == stored]
            if stored == "half":
                formats = assembled + [("assembly", csr[1], csr[2], assembly["seconds"])] + formats
            else:
                formats = [csr] + formats
            yield f"fem-hex-{degree}-{stored}", data["space"], assembly["rows"], assembly["nonzeros"], formats, -1


def print_head(described):
    print("# Made by benchmarks/make_machine_table.py from files of docs/results/data; edit only the lines of few:\n"
          f"# {', '.join(sys.argv[1:])}\n"
          "# Fields, separated by tabs:\n"
          "#   machine, its description\n"
          "#   few, space, likely or rare, the formats that are worth a look\n"
          "#   matrix, name, space, rows, nonzeros, row_changes (-1: unknown)\n"
          "#   a tab and then: format, bytes, microseconds of a product, microseconds of the conversion from csr\n"
          f"machine\t{described}")


def microseconds(seconds):
    """Four digits, without an exponent."""
    text = format(Decimal(f"{seconds:.4g}").scaleb(6), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def print_matrix(matrix, space, rows, nonzeros, formats, row_changes):
    print(f"matrix\t{matrix}\t{space}\t{int(rows)}\t{int(nonzeros)}\t{row_changes:.3g}")
    for name, size, product, convert in formats:
        print(f"\t{name}\t{int(size)}\t{microseconds(product)}\t{microseconds(convert)}")


def in_products_of_csr(paths, wanted="host"):
    """{(matrix, format): (bytes, product, conversion)} of a space, both in products of csr in the same file."""
    found = {}
    for path in paths:
        for matrix, space, _, _, formats, _ in tuned(path):
            csr = next(f for f in formats if f[0] == "csr")
            if space == wanted:
                found.update({(matrix, name): (size, product / csr[2], convert / csr[2])
                              for name, size, product, convert in formats if name != "csr"})
    return found


def with_newer(matrix, formats, newer):
    """The formats, those of `newer` as in_products_of_csr() has them in place of their own."""
    csr = next((f[2] for f in formats if f[0] == "csr"), None)
    for name, size, product, convert in formats:
        its = newer.get((matrix, name)) if csr else None
        yield (name, its[0], its[1] * csr, its[2] * csr) if its else (name, size, product, convert)


def shorter(path, again):
    """The matrices of the first file, with the shorter times of both."""
    second = {(matrix, space, f[0]): f for matrix, space, _, _, formats, _ in tuned(again) for f in formats}
    for matrix, space, rows, nonzeros, formats, row_changes in tuned(path):
        both = [(name, size, product, convert, second.get((matrix, space, name), (name, size, product, convert)))
                for name, size, product, convert in formats]
        yield matrix, space, rows, nonzeros, \
            [(name, size, min(product, other[2]), min(convert, other[3]))
             for name, size, product, convert, other in both], row_changes


def host_alone(path, described, *newer):
    print_head(described)
    again = [p.removeprefix("again:") for p in newer if p.startswith("again:")]
    replaced = in_products_of_csr([p for p in newer if not p.startswith("again:")])
    for matrix, space, rows, nonzeros, formats, row_changes in shorter(path, again[0]) if again else tuned(path):
        if space == "host":
            formats = [f for f in formats if not f[0].startswith("order-")]
            print_matrix(matrix, space, rows, nonzeros, with_newer(matrix, formats, replaced), row_changes)


def print_shorter(path, again):
    formats = {}
    for matrix, space, _, _, its, _ in shorter(path, again):
        formats.update({(matrix, space, name): (product, convert) for name, _, product, convert in its})
    matrix = space = None
    for line in read_text(path).splitlines(keepends=True):
        if found := re.match(r'  - matrix: "?([^"\n]*)', line):
            matrix = found[1]
        elif found := re.match(r"    space: (\w+)", line):
            space = found[1]
        elif found := re.match(r'(      - \["?([^",]+)"?, \d+), ', line):
            line = "{}, {:.5e}, {:.5e}]\n".format(found[1], *formats[matrix, space, found[2]])
        sys.stdout.write(line)


def main():
    if sys.argv[1] == "--host":
        return host_alone(*sys.argv[2:])
    if sys.argv[1] == "--shorter":
        return print_shorter(*sys.argv[2:])
    more = sys.argv[1:]
    described = {p.split(":", 2)[1]: p.split(":", 2)[2] for p in more if p.startswith(("host:", "named:"))}
    native = {p.split(":", 2)[1] for p in more if p.startswith("named:")}
    again = {p.split(":", 2)[1]: a.removeprefix("again:") for p, a in zip(more, more[1:]) if a.startswith("again:")}
    more = [p for p in more if not p.startswith("again:")]
    more = [p.split(":", 2)[1] if p.startswith(("host:", "named:")) else p for p in more]
    print_head("; ".join(described.values()))
    orders = {}
    for path in [p.removeprefix("orders:") for p in more if p.startswith("orders:")]:
        for matrix, space, _, _, formats, _ in tuned(path):
            orders[matrix, space] = [f for f in formats if f[0].startswith("order-")]
    newer = {}
    newer_files = [p.removeprefix("newer:") for p in more if p.startswith("newer:")]
    of_tune = in_products_of_csr([p for p in newer_files if p.removesuffix(".xz").endswith(".yaml")], "device")
    for path in [p for p in newer_files if not p.removesuffix(".xz").endswith(".yaml")]:
        for matrix, space, _, _, formats, _ in device(path):
            newer.setdefault((matrix, space), {}).update({f[0]: f for f in formats if f[0] != "csr"})
    more = [p for p in more if not p.startswith(("orders:", "newer:"))]

    def rows_of(path):
        if path in described:
            for *matrix, formats, row_changes in shorter(path, again[path]) if path in again else tuned(path):
                yield *matrix, [f for f in formats if path not in native or "/" not in f[0]], row_changes
        elif path.removesuffix(".xz").endswith(".yaml"):
            yield from tuned(path)
        else:
            yield from device(path) if json.loads(read_text(path)).get("benchmark") == "gpu_spmv" else elements(path)

    for matrix, space, rows, nonzeros, formats, row_changes in (m for file in more for m in rows_of(file)):
        formats = [newer.get((matrix, space), {}).get(f[0], f) for f in formats if not f[0].startswith("order-")]
        if space == "device":
            formats = list(with_newer(matrix, formats, of_tune))
        known = {name for name, *_ in formats}
        more_orders = [f for f in orders.pop((matrix, space), []) if f[0] not in known]
        print_matrix(matrix, space, rows, nonzeros, [*formats, *more_orders], row_changes)


main()
