#!/usr/bin/env python3
"""Makes the built-in machine table from measured products.

    make_machine_table.py docs/results/spmv-host.json docs/results/spmv-gpu.json docs/results/tune-host.yaml \\
        > operators/builtin_machine.cpp

The last is a table of `protean tune`. Host figures are medians of spmv_benchmark, device figures those of
gpu_spmv_benchmark. Names "csr (mkl)" and "csr@cusparse" become "csr/mkl" and "csr/cusparse". Nothing is rounded but to four digits.
"""
import json
import re
import sys

import yaml


def name_of(text):
    text = re.sub(r" \((\w+)\)$", r"/\1", text)
    return text.replace("@", "/")


def host(path):
    for matrix in json.load(open(path))["matrices"]:
        formats = [(name_of(p["name"]), p["bytes"], p["seconds_median"], p["convert_seconds"])
                   for p in matrix["products"] if p.get("ours")]
        yield matrix["matrix"], "host", matrix["rows"], matrix["nonzeros"], formats


def device(path):
    for matrix in json.load(open(path))["matrices"]:
        formats = [(name_of(p["name"]), p["bytes"], p["microseconds"] * 1e-6, p["convert_microseconds"] * 1e-6)
                   for p in matrix["products"] if p.get("ours") and p.get("right") and p.get("convert_microseconds")]
        yield matrix["matrix"], "device", matrix["rows"], matrix["nonzeros"], formats


def tuned(path):
    for matrix in yaml.safe_load(open(path))["matrices"]:
        formats = [(name, size, float(product), float(convert)) for name, size, product, convert in matrix["formats"]]
        yield matrix["matrix"], matrix["space"], matrix["rows"], matrix["nonzeros"], formats


def main():
    host_file, device_file, tune_file = sys.argv[1:]
    machine = json.load(open(host_file))["machine"]
    gpu = json.load(open(device_file))
    described = (f"{machine['processor']}, {machine['threads']} threads, {machine['date'][:10]}; "
                 f"{gpu['gpu_before'].split(',')[0]}, {gpu['machine']['date'][:10]}")
    print("// Made by benchmarks/make_machine_table.py from docs/results/spmv-host.json, spmv-gpu.json\n// and tune-host.yaml; do not edit.\n"
          "// Each line: format, bytes, seconds of a product, seconds of the conversion from csr.\n"
          '#include "operators/cost_model.hpp"\n\n'
          "// clang-format off\n"
          "namespace protean {\n\n"
          "const MachineTable& builtin_machine() {\n"
          "  static const MachineTable table{\n"
          f'    "{described}",\n'
          "    {")
    for matrix, space, rows, nonzeros, formats in [*host(host_file), *device(device_file), *tuned(tune_file)]:
        print(f'      {{"{matrix}", Space::{space}, {int(rows)}, {int(nonzeros)}, {{')
        for name, size, product, convert in formats:
            print(f'        {{"{name}", {int(size)}, {product:.4g}, {convert:.4g}}},')
        print("      }},")
    print("    }};\n  return table;\n}\n\n}  // namespace protean\n// clang-format on")


main()
