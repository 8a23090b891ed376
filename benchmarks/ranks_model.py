#!/usr/bin/env python3
"""A model of an iteration of CG with Jacobi on ranks, checked on 1, 2 and 4, and what it says for more.

usage: ranks_model.py measure PROTEAN_BENCH_RANKS OUT.json   runs its subcommand model on 1, 2 and 4 ranks
       ranks_model.py table IN.json                          prints the tables in Markdown; IN.json or IN.json.xz

The model, for a rank with n rows of 7 entries in a cube with six neighbours (in slabs with two where it is checked):

  T(P) = product(n) + vectors(n) + neighbours (latency + 8 face seconds_per_byte) + 3 reduction(P)

Product and vectors are proportional to n, with rates that were measured at one size with P ranks at work. reduction(P)
grows with log2 P from the value for two ranks."""
import json
import math
import os
import pathlib
import subprocess
import sys

from results.common import read_text

SIZES, FORMATS, ROUNDS = "100,90,110,120", "csr,dia", "6"
# Next to the latency and the bandwidth that were measured, between ranks of one machine: an assumption, not a
# measurement.
ASSUMED = {"latency": 2e-6, "seconds_per_byte": 1e-10}
RANKS = (64, 1024, 16384)
LEAST_GAIN = 0.03  # of an iteration, below which the policy changes nothing


def measure(program, out):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMP_NUM_THREADS="1", OMPI_MCA_plm_rsh_agent="false")
    runs = []
    for ranks in (1, 2, 4):
        more = ["--oversubscribe"] if ranks > os.cpu_count() else ["--mca", "mpi_yield_when_idle", "0"]
        done = subprocess.run(["mpirun", "-n", str(ranks), "--bind-to", "none", *more, program, "model",
                               "--repeat", ROUNDS, "--sizes", SIZES, "--formats", FORMATS],
                              capture_output=True, text=True, check=True, env=environment)
        runs.append(json.loads(done.stdout))
    pathlib.Path(out).write_text(json.dumps(runs, indent=1) + "\n")


def rates(run, form):
    """Seconds of product and vectors for a row of all rows, as they were measured."""
    system = next(one for one in run["systems"] if one["format"] == form and "product" in one)
    return system["product"] / system["n"] ** 3, system["vectors"] / system["n"] ** 3, system["n"]


def slabs(run, form, n):
    product, vectors, _ = rates(run, form)
    neighbours = {1: 0, 2: 1}.get(run["ranks"], 2)
    return ((product + vectors) * n ** 3 + 3 * run["reduction"]
            + neighbours * (run["latency"] + 8 * n ** 2 * run["seconds_per_byte"]))


def cubes(two, form, rows, ranks, network):
    """The parts of an iteration of a rank with that many rows; rates of two ranks at work."""
    product, vectors, _ = (2 * rate for rate in rates(two, form))  # a rank has half of the rows there
    messages = 6 * (network["latency"] + 8 * rows ** (2 / 3) * network["seconds_per_byte"])
    # A step of a reduction is a message here and there.
    step = network["latency"] / two["latency"] * two["reduction"]
    return {"product": product * rows, "vectors": vectors * rows, "messages": messages,
            "reductions": 3 * math.log2(ranks) * step}


def gain(two, rows, ranks, network):
    """What dia saves of an iteration in csr."""
    csr, dia = (cubes(two, form, rows, ranks, network) for form in ("csr", "dia"))
    return 1 - sum(dia.values()) / sum(csr.values())


def least_rows(two, ranks, network):
    """Rows of a rank below which the gain is less than LEAST_GAIN."""
    low, high = 1.0, 1e9
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if gain(two, middle, ranks, network) >= LEAST_GAIN else (middle, high)
    return high


def micro(seconds):
    return f"{seconds * 1e6:,.0f}".replace(",", " ") if seconds >= 1e-5 else f"{seconds * 1e6:.2f}"


def table(path):
    runs = json.loads(read_text(path))
    two = next(run for run in runs if run["ranks"] == 2)
    print("| ranks | format | n | measured | model | difference |\n|---|---|---|---|---|---|")
    worst = 0
    for run in runs:
        for system in run["systems"]:
            expected = slabs(run, system["format"], system["n"])
            off = expected / system["iteration"] - 1
            worst = max(worst, abs(off))
            used = ", rates" if "product" in system else ""
            print(f"| {run['ranks']} | {system['format']} | {system['n']}{used} | {micro(system['iteration'])} | "
                  f"{micro(expected)} | {100 * off:+.0f} % |")
    print(f"\nThe largest difference is {100 * worst:.0f} %.\n")
    for run in runs[1:]:
        print(f"{run['ranks']} ranks: reduction {micro(run['reduction'])}, message of 8 bytes {micro(run['latency'])} "
              f"microseconds, {1e-9 / run['seconds_per_byte']:.1f} GB/s.")
    networks = {"measured in one machine": two, "assumed": ASSUMED}
    print("\n| network | ranks | rows a rank | product csr | product dia | vectors | messages | reductions "
          "| dia saves |\n|---|---|---|---|---|---|---|---|---|")
    for name, network in networks.items():
        for ranks in RANKS:
            for rows in (1000, 10000, 100000, 1000000):
                csr, dia = (cubes(two, form, rows, ranks, network) for form in ("csr", "dia"))
                print(f"| {name} | {ranks} | {rows} | {micro(csr['product'])} | {micro(dia['product'])} | "
                      f"{micro(csr['vectors'])} | {micro(csr['messages'])} | {micro(csr['reductions'])} | "
                      f"{100 * gain(two, rows, ranks, network):.0f} % |")
    print("\n| network | ranks | below this many rows a rank the gain is less than 3 % |\n|---|---|---|")
    for name, network in networks.items():
        for ranks in RANKS:
            print(f"| {name} | {ranks} | {least_rows(two, ranks, network):,.0f} |".replace(",", " "))


if len(sys.argv) == 4 and sys.argv[1] == "measure":
    measure(*sys.argv[2:])
elif len(sys.argv) == 3 and sys.argv[1] == "table":
    table(*sys.argv[2:])
else:
    sys.exit(__doc__)
