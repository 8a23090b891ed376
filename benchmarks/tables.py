#!/usr/bin/env python3
"""Prints the tables of docs/results from what the benchmarks wrote.

    tables.py TABLE FILE... [OPTION...]     one table, in Markdown; `tables.py --list` names the tables
    tables.py pages [--check]               writes all tables of docs/results again, or compares them with their data

FILE is JSON, plain or compressed (.xz). FILE.json.xz:NAME takes one run of a file that holds several.

A page of docs/results has each table between two comments:

    <!-- made by: tables.py cg data/cg-host.json.xz -->
    <!-- end -->

The command runs in docs/results. Its first word is a script of benchmarks. Standard library only.
"""
import contextlib
import csv
import io
import json
import lzma
import math
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
TABLES = {}


def table(function):
    """Registers a function under its name: it takes the words of the command line and prints Markdown."""
    TABLES[function.__name__.rstrip("_").replace("_", "-")] = function
    return function


def read_text(path):
    data = pathlib.Path(path).read_bytes()
    return (lzma.decompress(data) if str(path).endswith(".xz") else data).decode()


def read_runs(name):
    """The runs of a file by name; a file of a benchmark is one run."""
    path, _, wanted = name.partition(":")
    data = json.loads(read_text(path))
    several = isinstance(data, dict) and isinstance(data.get("runs"), dict)
    runs = data["runs"] if several else {pathlib.Path(path).name: data}
    return {wanted: runs[wanted]} if wanted else runs


def read(name):
    runs = list(read_runs(name).values())
    if len(runs) != 1:
        sys.exit(f"{name} holds {len(runs)} runs: name one behind a colon, of {', '.join(read_runs(name))}")
    return runs[0]


def mean(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else float("nan")


def options(words, **defaults):
    """The words without `--name VALUE`, and these values; a flag has the default False."""
    values, rest, words = dict(defaults), [], list(words)
    while words:
        word = words.pop(0)
        name = word[2:].replace("-", "_")
        if not word.startswith("--"):
            rest.append(word)
        elif name not in defaults:
            sys.exit(f"{word} is not an option here, but {', '.join('--' + known for known in defaults) or 'none is'}")
        elif defaults[name] is False:
            values[name] = True
        else:
            values[name] = type(defaults[name])(words.pop(0))
    return rest, values


def labelled(words):
    """LABEL=FILE, or FILE."""
    return [(word.partition("=")[0] if "=" in word else "", word.rpartition("=")[2]) for word in words]


def head(*titles):
    """A title that begins with '>' has its column to the right."""
    print("| " + " | ".join(title.lstrip(">") for title in titles) + " |")
    print("|" + "|".join("--:" if title.startswith(">") else "---" for title in titles) + "|")


def row(*cells):
    print("| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |")


def figure(value, digits):
    """Empty for what was not measured."""
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def least(values):
    """Infinite when there is none, such as a library that a build does not have."""
    return min(values, default=math.inf)


def gpu_of(data):
    """The name of the GPU; empty on a host."""
    return data["machine"].get("gpu") or data.get("gpu") or data.get("gpu_before", "").strip('"').split(",")[0]


def measured_at(data, more=""):
    machine = data["machine"]
    date = machine["date"].replace("T", " ")[:16]
    peers = ", ".join(f"{name} {version}" for name, version in data.get("peers", {}).items() if version != "absent")
    gpu = gpu_of(data)
    cores = "" if gpu else f", {machine['cores']} cores, {machine['threads']} threads"
    print(f"{date} UTC, commit {machine['commit']}, {gpu or machine['processor']}{cores}, {machine['compiler']}"
          f"{'; ' + peers if peers else ''}{more}.\n")


class Plot:
    """A small plot as SVG: a frame of linear axes, points, lines, a legend. x and y are (least, greatest)."""

    def __init__(self, x, y, x_title, y_title, width=900, height=420, title=""):
        self.x, self.y, self.width, self.height = x, y, width, height
        self.left, self.bottom, self.top = 60, 50, 20
        self.items = []
        self._text(width / 2, height - 8, x_title)
        self.items.append(f'<text x="14" y="{height / 2}" transform="rotate(-90 14 {height / 2})" '
                          f'text-anchor="middle">{y_title}</text>')
        if title:
            self._text(width / 2, 14, title)

    def _text(self, x, y, text, anchor="middle"):
        self.items.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>')

    def place(self, x, y):
        """What lies beyond y is drawn at its edge."""
        y = min(max(y, self.y[0]), self.y[1])
        return (self.left + (x - self.x[0]) / (self.x[1] - self.x[0]) * (self.width - self.left - 20),
                self.top + (self.y[1] - y) / (self.y[1] - self.y[0]) * (self.height - self.bottom - self.top))

    def horizontals(self, ys, strong=None):
        for y in ys:
            (ax, ay), (bx, _) = self.place(self.x[0], y), self.place(self.x[1], y)
            colour = "#444" if y == strong else "#ddd"
            self.items.append(f'<line x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{ay:.1f}" stroke="{colour}"/>')
            self._text(self.left - 8, ay + 4, f"{y:.1f}", "end")

    def x_labels(self, labels):
        for x, text in labels:
            if self.x[0] <= x <= self.x[1]:
                px, py = self.place(x, self.y[0])
                self._text(px, py + 18, text)

    def point(self, x, y, colour, title=""):
        px, py = self.place(x, y)
        self.items.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}" '
                          f'fill-opacity="0.7"><title>{title}</title></circle>')

    def line(self, points, colour, dashed=False):
        text = " ".join("{:.1f},{:.1f}".format(*self.place(x, y)) for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.items.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')

    def legend(self, entries, x=None, y=34):
        x = self.left + 20 if x is None else x
        for i, (label, colour) in enumerate(entries):
            at = y + 18 * i
            self.items.append(f'<circle cx="{x:.1f}" cy="{at}" r="4" fill="{colour}"/><text x="{x + 10:.1f}" '
                              f'y="{at + 4}">{label}</text>')

    def write(self, path, *others):
        """This plot, and others to its right."""
        plots = [self, *others]
        width, height = sum(p.width for p in plots), max(p.height for p in plots)
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
               'font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
        at = 0
        for plot in plots:
            out += [f'<g transform="translate({at} 0)">', *plot.items, "</g>"]
            at += plot.width
        pathlib.Path(path).write_text("\n".join([*out, "</svg>"]) + "\n")


# --- Products ---------------------------------------------------------------------------------------------------------

@table
def products(words):
    """FILE of the host's products: csr and the best of ours next to MKL, Eigen and PETSc, least times."""
    data = read(*words)
    measured_at(data)
    head("matrix", ">rows", ">entries", ">csr, ms", "best of ours", ">ms", ">MKL", ">Eigen", ">best of PETSc",
         ">best peer / best of ours", ">csr / Eigen's time")
    ratios, to_eigen = [], []
    for matrix in data["matrices"]:
        times = {p["name"]: p["seconds_min"] for p in matrix["products"]}
        own = {p["name"]: p["seconds_min"] for p in matrix["products"] if p["ours"] and " (" not in p["name"]}
        peers = [least(time for name, time in times.items() if name.startswith(start) and name not in own)
                 for start in ("mkl", "eigen", "petsc")]
        best = min(own, key=own.get)
        ratios.append(min(peers) / own[best])
        to_eigen.append(own["csr"] / peers[1] if math.isfinite(peers[1]) else math.inf)
        row(matrix["matrix"], f"{matrix['rows']:,}", f"{matrix['nonzeros']:,}", f"{1e3 * own['csr']:.3f}", best,
            f"{1e3 * own[best]:.3f}", *(figure(1e3 * peer, 3) for peer in peers), figure(ratios[-1], 2),
            figure(to_eigen[-1], 2))
    if not all(map(math.isfinite, ratios + to_eigen)):
        return
    print(f"\nGeometric mean of {len(ratios)} matrices: the best of ours is **{mean(ratios):.2f} times** as fast as "
          f"the best peer, least {min(ratios):.2f}; csr takes {mean(to_eigen):.2f} of Eigen's time.")


@table
def uneven(words):
    """FILE of csr on rows of varying length: before and after its kernel with masks, a summary."""
    rows = [(m["before_seconds"] / m["now_seconds"], m["matrix"]) for m in read(*words)]
    low, high = min(rows), max(rows)
    print(f"{len(rows)} matrices: {mean(ratio for ratio, _ in rows):.2f} times as fast in the geometric mean, from "
          f"{low[0]:.2f} ({low[1]}) to {high[0]:.2f} ({high[1]}); {sum(ratio < 1 for ratio, _ in rows)} are slower.")


def gpu_products(matrix):
    """(fastest of cuSPARSE's CSR and COO, fastest of cuSPARSE, csr, fastest of our own kernels)"""
    right = [product for product in matrix["products"] if product["right"]]
    def fastest(some):
        return min(some, key=lambda product: product["microseconds"])
    peers = [product for product in right if not product["ours"]]
    own = [p for p in right if p["ours"] and "@cusparse" not in p["name"] and "@kokkos" not in p["name"]]
    return (fastest([p for p in peers if p["name"].split()[1] in ("csr", "coo")]), fastest(peers),
            next(p for p in own if p["name"] == "csr"), fastest([p for p in own if ":balance" not in p["name"]]))


@table
def csr(words):
    """LABEL=FILE... of a GPU's products: csr next to cuSPARSE's CSR and COO, and next to its own other divisions."""
    head("matrices", "GPU, measured at", ">number", ">cuSPARSE CSR or COO / csr: mean", ">least", "csr slower on",
         ">csr / best division: mean", ">worst")
    for label, name in labelled(words):
        data = read(name)
        ratios, divisions = {}, []
        for matrix in data["matrices"]:
            plain, _, own, _ = gpu_products(matrix)
            ratios[matrix["matrix"]] = plain["microseconds"] / own["microseconds"]
            some = [p["microseconds"] for p in matrix["products"] if p["name"].startswith("csr:balance")]
            if some:
                divisions.append(own["microseconds"] / min([*some, own["microseconds"]]))
        slow = ", ".join(f"{name} {ratio:.2f}" for name, ratio in sorted(ratios.items(), key=lambda r: r[1])
                         if ratio < 0.995)
        row(label, f"{gpu_of(data).removeprefix('NVIDIA ')}, {data['machine']['date'].replace('T', ' ')[:16]}",
            len(ratios), f"{mean(ratios.values()):.2f}", f"{min(ratios.values()):.2f}", slow or "none",
            f"{mean(divisions):.2f}" if divisions else "", f"{max(divisions):.2f}" if divisions else "")


@table
def best(words):
    """FILE... of a GPU's products: csr, and the best of our formats, next to the best of cuSPARSE, by group."""
    groups, slow = {}, []
    for name in words:
        for matrix in read(name)["matrices"]:
            plain, peer, own, fastest = gpu_products(matrix)
            pair = plain["microseconds"] / own["microseconds"], peer["microseconds"] / fastest["microseconds"]
            groups.setdefault("regular" if matrix["group"] == "regular" else "irregular", []).append(pair)
            if pair[1] < 1:
                slow.append(f"{matrix['matrix']} {pair[1]:.2f}")
    head("group", ">matrices", ">cuSPARSE CSR or COO / csr: mean", ">least", ">best of cuSPARSE / best of ours: mean",
         ">least")
    for group, pairs in [*sorted(groups.items(), reverse=True), ("all", sum(groups.values(), []))]:
        of_csr, of_best = zip(*pairs)
        row(group, len(pairs), f"{mean(of_csr):.2f}", f"{min(of_csr):.2f}", f"{mean(of_best):.2f}",
            f"{min(of_best):.2f}")
    print(f"\nThe best of cuSPARSE is faster than the best of ours on {', '.join(slow) or 'none'}.")


@table
def wins(words):
    """FILE of a GPU's products: the formats that are the fastest somewhere, and on which matrices."""
    words, given = options(words, matrices=1)
    found = {}
    for name in words:
        for matrix in read(name)["matrices"]:
            own = {p["name"]: p["microseconds"] for p in matrix["products"]
                   if p["ours"] and p["right"] and "@" not in p["name"] and ":" not in p["name"]}
            least = min(own.values())
            for one, time in own.items():
                if time <= 1.02 * least:
                    found.setdefault(one, []).append(matrix["matrix"])
    head("format", ">matrices", "fastest, or within 2 % of it, on")
    for name, matrices in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(matrices) >= given["matrices"]:
            row(name, len(matrices), ", ".join(matrices))


@table
def rules(words):
    """FILE of a GPU's products: csr next to the rule and the tuner of Reguly and Giles and to cuSPARSE."""
    data = read(*words)
    measured_at(data)
    names = {"csr": "our csr", "csr@reguly-giles": "their fixed rule", "csr@reguly-giles-tuned": "their tuner",
             "csr@cusparse": "cuSPARSE"}
    head("matrix", *(f">{title}" for title in names.values()))
    for matrix in data["matrices"]:
        times = {product["name"]: product["microseconds"] for product in matrix["products"] if product["right"]}
        row(matrix["matrix"], *(f"{times[name]:.1f}" for name in names))


@table
def kokkos(words):
    """FILE CG_FILE: Kokkos' kernels next to ours on a GPU."""
    data, iterations = read(words[0]), read(words[1])["results"]
    times = {m["matrix"]: (m["group"], {p["name"]: p["microseconds"] for p in m["products"] if p["right"]})
             for m in data["matrices"]}
    formats = ["csr", "coo", "ell", "sell-c-sigma", "bcsr", "dia"]
    head("our time / Kokkos' time, geometric mean", *(f">{name}" for name in formats))
    for group in dict.fromkeys(group for group, _ in times.values()):
        row(group, *(f"{mean(values):.2f}" if values else "" for values in (
            [its[name] / its[f"{name}@kokkos"] for kind, its in times.values()
             if kind == group and name in its and f"{name}@kokkos" in its] for name in formats)))
    print()
    names = list(dict.fromkeys(r["format"] for r in iterations))
    head("an iteration of Jacobi-CG in a graph, us", *(f">{name}" for name in names), ">cuSPARSE and cuBLAS")
    for matrix in dict.fromkeys(r["matrix"] for r in iterations):
        its = {r["format"]: r for r in iterations if r["matrix"] == matrix}
        row(matrix, *(f"{its[name]['iteration_us']:.1f}" for name in names), f"{its[names[0]]['peer_graph_us']:.1f}")


@table
def columns(words):
    """FILE of several right-hand sides: [--k 8] products with k vectors, and iterations of k solves."""
    words, given = options(words, k=8)
    results = [r for name in words for run in read_runs(name).values() for r in run["results"]]
    peers = {}
    for r in results:
        if r["format"].startswith(("cusparse", "mkl")):
            key = r["matrix"], r["k"]
            peers[key] = min(peers.get(key, math.inf), r["product_seconds"])
    head("matrix", "format", ">k", ">k products, us", ">together", ">gain", ">cuSPARSE csr", ">k solves, an iteration",
         ">together", ">gain")
    for r in results:
        if "interleaved_seconds" not in r or r["k"] != given["k"]:
            continue
        alone, all_of_them = r.get("single_iteration_seconds"), r.get("multi_iteration_seconds")
        def us(seconds):
            return f"{1e6 * seconds:.0f}" if seconds and seconds < math.inf else ""
        row(r["matrix"], r["format"], r["k"], us(r["single_seconds"]), us(r["interleaved_seconds"]),
            f"{r['single_seconds'] / r['interleaved_seconds']:.2f}", us(peers.get((r["matrix"], r["k"]))), us(alone),
            us(all_of_them), f"{alone / all_of_them:.2f}" if alone and all_of_them else "")


# --- Solves -----------------------------------------------------------------------------------------------------------

@table
def cg(words):
    """FILE of CG on a host: an iteration in csr and in the best format next to MKL by hand, Eigen and PETSc."""
    data = read(*words)
    measured_at(data)
    head("matrix", ">rows", ">entries", ">csr, us", "best of ours", ">us", ">MKL by hand", ">Eigen", ">best of PETSc",
         ">MKL / best of ours")
    ratios = {"mkl": [], "eigen": [], "petsc": []}
    for matrix in data["matrices"]:
        own = {s["name"]: s["seconds_min"] for s in matrix["solvers"] if s["ours"]}
        name = min(own, key=own.get)
        peers = {peer: least(s["seconds_min"] for s in matrix["solvers"] if s["name"].startswith(peer))
                 for peer in ratios}
        for peer, time in peers.items():
            ratios[peer].append(time / own[name])
        row(matrix["matrix"], f"{matrix['rows']:,}", f"{matrix['nonzeros']:,}", f"{1e6 * own['csr']:.1f}", name,
            f"{1e6 * own[name]:.1f}", *(figure(1e6 * time, 1) for time in peers.values()), figure(ratios["mkl"][-1], 2))
    names = {"mkl": "MKL by hand", "eigen": "Eigen", "petsc": "PETSc"}
    print("\nThe best of ours, geometric mean and least: " + "; ".join(
        f"{mean(values):.2f} and {min(values):.2f} times as fast as {names[peer]}"
        for peer, values in ratios.items() if math.isfinite(max(values))) + ".")


@table
def gpu_cg(words):
    """FILE of CG on a GPU: microseconds of an iteration next to cuSPARSE and cuBLAS in a graph."""
    data = read(*words)
    measured_at(data, f"; copy bandwidth {data['copy_bandwidth'] / 1e12:.2f} TB/s")
    formats = list(dict.fromkeys(r["format"] for r in data["results"]))
    head("matrix", ">rows", ">cuSPARSE and cuBLAS, graph", *(f">{name}" for name in formats), ">peer / best of ours")
    for matrix in dict.fromkeys(r["matrix"] for r in data["results"]):
        its = {r["format"]: r for r in data["results"] if r["matrix"] == matrix}
        one = its[formats[0]]
        least = min(r["iteration_us"] for r in its.values())
        row(matrix, f"{one['rows']:,}", f"{one['peer_graph_us']:.1f}",
            *(f"{its[name]['iteration_us']:.1f}" for name in formats), f"{one['peer_graph_us'] / least:.2f}")


@table
def loaded(words):
    """FILE of CG next to busy loops: medians of a solve."""
    data = read(*words)
    measured_at(data)
    for matrix in data["matrices"]:
        loads = matrix["loads"]
        head("busy loops", *(f">{s['name']}, ms" for s in loads[0]["solvers"]))
        for load in loads:
            row(load["busy_loops"], *(
                f"{1e3 * s['seconds_median']:.1f}" + ("" if load is loads[0] else
                                                      f" ({s['seconds_median'] / first['seconds_median']:.2f} x)")
                for s, first in zip(load["solvers"], loads[0]["solvers"])))


@table
def scaling(words):
    """FILE of scaling_benchmark.py: milliseconds of an iteration by threads."""
    runs = read(*words)["runs"]
    measured_at(runs[-1])
    for matrix in dict.fromkeys(m["matrix"] for run in runs for m in run["matrices"]):
        times = {run["machine"]["threads"]: {s["name"]: s["seconds_min"] for s in m["solvers"]}
                 for run in runs for m in run["matrices"] if m["matrix"] == matrix}
        threads = sorted(times)
        head(f"{matrix}, ms", *(f">{number} thread{'s' if number > 1 else ''}" for number in threads))
        for name in dict.fromkeys(name for number in threads for name in times[number]):
            row(name, *(f"{1e3 * times[number][name]:.3f} ({times[threads[0]][name] / times[number][name]:.1f})"
                        if name in times[number] else "" for number in threads))
        print()


@table
def default(words):
    """LABEL=FILE...: whole solves with the default format next to csr; [--worst 5] names the worst solves."""
    words, given = options(words, worst=5)
    head("machine", "measured at, commit", ">solves", ">auto / csr: mean", ">worst", ">over 1.05",
         ">known / csr: mean", ">worst", ">look, products, median")
    worst = []
    for label, name in labelled(words):
        data = read(name)
        ratios = {"auto": [], "known": []}
        looks = []
        for matrix in data["matrices"]:
            ways = {way["way"]: way for way in matrix["ways"]}
            csr_time = statistics.median(ways["csr"]["seconds"])
            for key, way in (("auto", ways["auto"]), ("known", ways["auto, iterations known"])):
                ratios[key].append((statistics.median(way["seconds"]) / csr_time, matrix["matrix"],
                                    way["format"], csr_time))
            looks.append(statistics.median(matrix["choice_seconds"]) / matrix["product_seconds"])
        auto, known = ([ratio for ratio, *_ in ratios[key]] for key in ("auto", "known"))
        row(label, f"{data['machine']['date'].replace('T', ' ')[:16]}, {data['machine']['commit']}", len(auto),
            f"{mean(auto):.2f}", f"{max(auto):.2f}", sum(ratio > 1.05 for ratio in auto), f"{mean(known):.2f}",
            f"{max(known):.2f}", f"{statistics.median(looks):.1f}")
        worst.append((label, sorted(ratios["auto"], reverse=True)[:given["worst"]]))
    print()
    for label, solves in worst:
        print(f"- {label}, the worst of auto: " + "; ".join(
            f"{matrix} {ratio:.2f} (ended in {form}, csr {1e3 * time:.3g} ms)" for ratio, matrix, form, time in solves)
            + ".")


@table
def kept(words):
    """LABEL=FILE...: sequences of solves, kept and anew, times as fast as a kept csr."""
    for label, name in labelled(words):
        data = read(name)
        systems = data["systems"]
        head(f"{label}: {data['machine']['date'][:10]}, {data['machine']['commit']}",
             *(f">{s['system']}, {s['rows']:,} rows" for s in systems))
        for position, way in enumerate(way["way"] for way in systems[0]["ways"]):
            cells = []
            for system in systems:
                first, its = (statistics.median(w["seconds"]) if isinstance(w["seconds"], list) else w["seconds"]
                              for w in (system["ways"][0], system["ways"][position]))
                cells.append(f"{first / its:.2f}, {system['ways'][position]['format']}")
            row(way, *cells)
        print()


@table
def order(words):
    """FILE...: orders of the rows in whole solves, by kind of numbering; [--all] each system."""
    words, given = options(words, all=False)
    rows = []
    for name in words:
        for run in read_runs(name).values():
            for system in run["systems"]:
                by = {solve["variant"]: solve for solve in system["solves"]}
                if "csr" in by:
                    rows.append((system, by))
    if given["all"]:
        ways = [way for way in ("policy", "rcm", "peer", "boost") if any(way in by for _, by in rows)]
        head("system", "numbering", ">rows", ">iterations", ">csr, s", *(f">csr / {way}" for way in ways))
        for system, by in rows:
            row(system["matrix"], system["numbering"], f"{system['rows']:,}", by["csr"]["iterations"],
                f"{by['csr']['seconds']:.3f}",
                *(f"{by['csr']['seconds'] / by[way]['seconds']:.2f}" if way in by else "" for way in ways))
        print()
    titles = {"policy": "left to the policy", "rcm": "RCM before the solve", "peer": "the other library's CG",
              "boost": "the same after Boost's RCM"}
    head("numbering", "iterations of csr", "way", ">systems", ">csr / it: mean", ">least",
         ">slower than 1.05 times csr")
    for variant, title in titles.items():
        for numbering in ("random", "natural"):
            for text, long in (("500 and more", True), ("fewer", False)):
                ratios = [by["csr"]["seconds"] / by[variant]["seconds"] for system, by in rows if variant in by
                          and system["numbering"] == numbering and (by["csr"]["iterations"] >= 500) == long]
                if ratios:
                    row(numbering, text, title, len(ratios), f"{mean(ratios):.2f}", f"{min(ratios):.2f}",
                        sum(ratio < 1 / 1.05 for ratio in ratios))


@table
def stages(words):
    """FILE of device_stages.py: where the time of a solve on a GPU goes."""
    data = read(*words)
    seconds = data["median_seconds"]
    head("stage", ">ms", ">of the total")
    rest = seconds["total"]
    for name, time in seconds.items():
        if name != "total" and time > 1e-4:
            row(name, f"{1e3 * time:.1f}", f"{100 * time / seconds['total']:.0f} %")
            rest -= time
    row("rest", f"{1e3 * rest:.1f}", f"{100 * rest / seconds['total']:.0f} %")
    row("total", f"{1e3 * seconds['total']:.1f}", "")


def print_python(data):
    def judged(value, goal, most):
        return "reached" if (value <= goal if most else value >= goal) else "**missed**"

    if "gpu" in data:
        head("system", ">rows", "M", ">iterations, CuPy and ours", ">CuPy, ms", ">ours, ms", ">times faster",
             ">ours with a `Matrix`, ms", ">times faster", "format")
        for r in data["solves"]:
            row(r["system"], f"{r['rows']:,}", r["preconditioner"],
                f"{r['iterations']['cupy']}, {r['iterations']['protean']}",
                f"{1e3 * r['cupy']['seconds']:.3g}", f"{1e3 * r['protean']['seconds']:.3g}", f"{r['ratio']:.2f}",
                f"{1e3 * r['protean with a Matrix']['seconds']:.3g}", f"{r['ratio with a Matrix']:.2f}", r["format"])
        print()
        for key, text in (("ratio", "In the geometric mean"), ("ratio with a Matrix", "With a kept `Matrix`")):
            average = mean(r[key] for r in data["solves"])
            print(f"{text} ours is {average:.2f} times as fast (goal 3: {judged(average, 3, False)}), least "
                  f"{min(r[key] for r in data['solves']):.2f}.")
        return
    head("", ">measured", ">goal", "")
    calls, imports = data["overhead_us"], data["import_seconds"]
    goals = [("solves, geometric mean, times as fast as SciPy", data["geometric_mean"], 2.5, False),
             ("solves, the least", data["least"], 1.0, False),
             (f"call of cg, n = 10, us (SciPy {calls['scipy']:.3g})", calls["protean"], 20, True),
             ("the same with a `Matrix`, us", calls["protean with a Matrix"], 20, True),
             (f"`import protean`, s (`import numpy` {imports['numpy']:.3g})", imports["protean"], 0.15, True)]
    if "install_seconds" in data:
        goals.append(("empty environment, pip install, first solve, s", data["install_seconds"], 15, True))
    if "interrupt_seconds" in data:
        goals.append(("from Ctrl-C to KeyboardInterrupt, the longest, ms",
                      1e3 * max(max(times) for times in data["interrupt_seconds"].values()), 100, True))
    for what, value, goal, most in goals:
        row(what, f"{value:.3g}", f"{'at most' if most else 'at least'} {goal}", judged(value, goal, most))
    print()
    head("system", ">rows", ">entries", "method", ">SciPy, ms", ">protean, ms", ">times faster")
    for r in data["solves"]:
        row(r["system"], f"{r['rows']:,}", f"{r['entries']:,}", r["method"], f"{1e3 * r['scipy']['seconds']:.3g}",
            f"{1e3 * r['protean']['seconds']:.3g}", f"{r['ratio']:.2f}")


@table
def python(words):
    """FILE of python_benchmark.py: next to SciPy, or next to CuPy on a GPU."""
    print_python(read(*words))


# --- Switching and choice ---------------------------------------------------------------------------------------------

MODES = {"blocking": "auto, the solve waits", "overlapped": "auto, beside the solve"}


def switching_rows(data):
    """Oracle: the least of csr alone and each fixed format with its conversion counted."""
    for p in data["problems"]:
        for tolerance, reached in p["fixed"]["csr"].get("to", {}).items():
            name, oracle = "csr", reached["seconds"]
            for other, f in p["fixed"].items():
                total = f["convert"] + f["to"][tolerance]["seconds"] if tolerance in f.get("to", {}) else math.inf
                if other != "csr" and total < oracle:
                    name, oracle = other, total
            yield {"problem": p["problem"], "tolerance": tolerance, "iterations": reached["iterations"],
                   "csr": reached["seconds"], "best": name, "oracle": oracle,
                   "auto": {mode: p["auto"][mode][tolerance] for mode in p.get("auto", {})
                            if tolerance in p["auto"][mode]}}


def switching_picture(rows, path):
    rows = sorted(rows, key=lambda r: r["iterations"])
    xs = [math.log10(max(r["iterations"], 1)) for r in rows]
    plot = Plot((min(xs) - 0.05, max(xs) + 0.05), (0.5, 1.3), "iterations", "time / time of csr alone")
    plot.horizontals([y / 10 for y in range(5, 14)], strong=1)
    plot.x_labels([(math.log10(n), str(n)) for n in [10, 30, 100, 300, 1000, 3000]])
    colours = {"oracle": "#999999", "blocking": "#1f77b4", "overlapped": "#d62728"}
    for r, x in zip(rows, xs):
        for name, y in {"oracle": r["oracle"] / r["csr"],
                        **{m: a["seconds"] / r["csr"] for m, a in r["auto"].items()}}.items():
            plot.point(x, y, colours[name], f'{r["problem"]} to {r["tolerance"]}: {name} {y:.2f}')
    plot.legend([("best fixed format, conversion counted", colours["oracle"]),
                 *((text, colours[mode]) for mode, text in MODES.items())])
    plot.write(path)


@table
def switching(words):
    """FILE: formats changed during the solve; [--worst 8] rows of the slowest solves, [--svg FILE] the plot."""
    words, given = options(words, worst=8, svg="")
    data = read(*words)
    rows = list(switching_rows(data))
    measured_at(data, f"; {len(rows)} solves of {len(data['problems'])} problems")
    head("", *(f">{text}" for text in MODES.values()))
    some = {mode: [r for r in rows if mode in r["auto"]] for mode in MODES}
    long = {mode: [r for r in some[mode] if r["iterations"] > 200] for mode in MODES}

    def line(title, text_of, its=some):
        pairs = {mode: [(r, r["auto"][mode]["seconds"]) for r in its[mode]] for mode in MODES}
        if all(pairs.values()):
            row(title, *(text_of(pairs[mode]) for mode in MODES))

    line("csr alone / auto, geometric mean", lambda rs: f"{mean(r['csr'] / s for r, s in rs):.3f}")
    line(f"the same, the {len(long['blocking'])} solves of more than 200 iterations",
         lambda rs: f"{mean(r['csr'] / s for r, s in rs):.3f}", long)
    line("auto / csr alone, worst", lambda rs: f"{max(s / r['csr'] for r, s in rs):.3f}")
    line("more than 1.05 times csr alone", lambda rs: f"{sum(s > 1.05 * r['csr'] for r, s in rs)} of {len(rs)}")
    line("auto / oracle, geometric mean", lambda rs: f"{mean(s / r['oracle'] for r, s in rs):.3f}")
    line("auto / oracle, more than 200 iterations: mean, worst",
         lambda rs: f"{mean(s / r['oracle'] for r, s in rs):.3f}, {max(s / r['oracle'] for r, s in rs):.2f}", long)
    row("solves that changed", *(f"{sum(bool(r['auto'][mode]['run'].get('switches')) for r in some[mode])} of "
                                 f"{len(some[mode])}" for mode in MODES))
    slow = [s for r in rows for s in r["auto"].get("overlapped", {}).get("slowdown", [])]
    if slow:
        row("slowdown of an iteration beside a build, median", "", f"{100 * statistics.median(slow):.0f} %")
    errors = {"product": [], "convert": []}
    for p in data["problems"]:
        for c in (c for mode in p.get("auto", {}).values() for auto in mode.values()
                  for c in auto["run"].get("candidates", [])):
            real = p["fixed"].get(c["format"], {})
            for key in errors:
                if c["format"] != "csr" and "product" in real and c[f"predicted_{key}"] > 0:
                    errors[key].append(abs(c[f"predicted_{key}"] / real[key] - 1))
    if not all(errors.values()):
        errors = {key: [math.nan] for key in errors}
    print("\nThe oracle is the best of csr alone and each fixed format, conversion counted: it takes "
          f"{mean(r['oracle'] / r['csr'] for r in rows):.3f} of the time of csr. Predictions of candidates are off by "
          f"{100 * statistics.median(errors['product']):.0f} % for products and "
          f"{100 * statistics.median(errors['convert']):.0f} % for conversions, at the median.")
    if given["worst"]:
        print()
        head("slowest next to csr alone", "tolerance", ">iterations", ">csr, ms", "best fixed", ">oracle, ms",
             ">auto, waits", "", ">auto, beside", "")
        worst = sorted(rows, key=lambda r: -max(a["seconds"] / r["csr"] for a in r["auto"].values()))
        for r in worst[:given["worst"]]:
            cells = []
            for mode in MODES:
                its = r["auto"].get(mode)
                switches = its["run"].get("switches", []) if its else []
                changes = ", ".join(f"{s['to']} at {s['iteration']}" for s in switches)
                cells += [f"{1e3 * its['seconds']:.2f}", changes or "stayed"] if its else ["", ""]
            row(r["problem"], r["tolerance"], r["iterations"], f"{1e3 * r['csr']:.2f}", r["best"],
                f"{1e3 * r['oracle']:.2f}", *cells)
    if given["svg"]:
        switching_picture(rows, given["svg"])


@table
def example(words):
    """FILE of switching_example.py: one solve by the policy next to csr alone and the other format alone."""
    data = read(*words)
    head("way", ">convert, ms", ">solve, ms", ">total, ms", ">least to most", ">of csr alone", ">iterations")
    first = next(iter(data["median_seconds"].values()))
    for way, reports in data["reports"].items():
        totals = [sum(r["seconds"][key] for key in ("convert", "setup", "solve")) for r in reports]
        parts = [f"{1e3 * statistics.median(r['seconds'][key] for r in reports):.2f}" for key in ("convert", "solve")]
        total = data["median_seconds"][way]
        row(way, *parts, f"**{1e3 * total:.1f}**", f"{1e3 * min(totals):.1f} to {1e3 * max(totals):.1f}",
            f"{total / first:.2f}", reports[0]["iterations"])


ITERATIONS = {30: "30", 300: "300", 30000: "30,000", 1000000: "the product alone"}


def choices(data, iterations, key):
    return [c[key] for m in data["matrices"] for c in m["choices"] if c["iterations"] == iterations
            and c.get("with_tries", True)]


@table
def selection(words):
    """LABEL=FILE...: what a choice before the solve costs, by measured times; [--svg FILE] the profiles."""
    words, given = options(words, svg="")
    files = [(label, read(name)) for label, name in labelled(words)]
    head("iterations", "machine", ">matrices", ">to the best: mean", ">at 95 %", ">worst", ">to csr: mean", ">worst",
         ">slower than 1.02 times csr")
    for iterations, text in ITERATIONS.items():
        for label, data in files:
            for one in data["summary"]:
                if one["iterations"] == iterations and one.get("with_tries", True):
                    row(text, label, one["matrices"], f"{one['to_best_mean']:.3f}", f"{one['to_best_95']:.2f}",
                        f"{one['to_best_worst']:.2f}", f"{one['to_csr_mean']:.3f}", f"{one['to_csr_worst']:.2f}",
                        f"{one['slower_than_csr']:.0f}")
    print()
    for label, data in files:
        print(f"- {label}: measured {data['machine']['date'].replace('T', ' ')[:16]} UTC, {data['machine']['commit']}. "
              f"Predictions are off by {100 * data['median_product_error']:.0f} % for products and "
              f"{100 * data['median_conversion_error']:.0f} % for conversions, at the median.")
    if given["svg"]:
        selection_picture(files, given["svg"])


def selection_picture(files, path):
    """The performance profile (Dolan and More, Math. Program. 91 (2002) 201)."""
    largest, plots = 2.0, []

    def profile(ratios):
        points = [(1.0, 0.0)]
        for k, ratio in enumerate(sorted(ratios), 1):
            if ratio <= largest:
                points += [(ratio, points[-1][1]), (ratio, k / len(ratios))]
        return points + [(largest, points[-1][1])]

    for iterations in (300, 1000000):
        title = "the product alone" if iterations == 1000000 else f"{iterations} iterations, conversion counted"
        plot = Plot((1, largest), (0, 1), "times as long as the best format", "share of the matrices", width=560,
                    title=title)
        plot.horizontals([k / 5 for k in range(6)])
        plot.x_labels([(1 + k / 5, f"{1 + k / 5:.1f}") for k in range(6)])
        entries = []
        for (label, data), colour in zip(files, ("#d62728", "#1f77b4", "#2ca02c", "#9467bd")):
            to_best = choices(data, iterations, "to_best")
            plot.line(profile(to_best), colour)
            plot.line(profile([b / c for b, c in zip(to_best, choices(data, iterations, "to_csr"))]), colour, True)
            entries.append((label, colour))
        plot.legend([*entries, ("always csr: dashed", "#444")], x=400, y=280)
        plots.append(plot)
    plots[0].write(path, *plots[1:])


@table
def trials(words):
    """LABEL=FILE...: formats that were tried before a long solve, next to all that were looked at."""
    head("machine", "measured at, commit", ">matrices", ">taken / fastest: mean", ">worst", ">taken / csr: mean",
         ">slower than 1.02 times csr", ">the choice, products of csr, median")
    for label, name in labelled(words):
        data = read(name)
        of = data["matrices"]
        row(label, f"{data['machine']['date'].replace('T', ' ')[:16]}, {data['machine']['commit']}", len(of),
            f"{mean(m['taken_seconds'] / m['fastest_seconds'] for m in of):.3f}",
            f"{max(m['taken_seconds'] / m['fastest_seconds'] for m in of):.2f}",
            f"{mean(m['taken_seconds'] / m['csr_seconds'] for m in of):.3f}",
            sum(m["taken_seconds"] > 1.02 * m["csr_seconds"] for m in of),
            f"{statistics.median(m['choice_seconds'] / m['csr_seconds'] for m in of):.0f}")


@table
def selectors(words):
    """FILE: all selectors on the same matrices, by stored times; [--iterations 300] [--generated]"""
    words, given = options(words, iterations=300, generated=False)
    matrices = [m for m in read(*words)["matrices"] if m["generated"] == given["generated"]]

    def quantile(values, part):
        return sorted(values)[max(1, math.ceil(part * len(values))) - 1]

    head("selector", ">mean", ">at 95 %", ">worst", ">slower than csr", ">to csr: mean", ">look, products",
         ">mean with the look")
    rows = []
    for i, selector in enumerate(s["selector"] for s in matrices[0]["selectors"]):
        of = [next(c for c in m["selectors"][i]["choices"] if c["iterations"] == given["iterations"]) for m in matrices]
        looks = [m["selectors"][i]["look_products"] for m in matrices]
        regret, to_csr = [c["to_best"] for c in of], [c["to_csr"] for c in of]
        looked = [r + look / given["iterations"] * r / c for r, c, look in zip(regret, to_csr, looks)]
        rows.append((mean(regret), [selector, f"{mean(regret):.3f}", f"{quantile(regret, 0.95):.2f}",
                                    f"{max(regret):.2f}", f"{100 * sum(c > 1.02 for c in to_csr) / len(of):.0f} %",
                                    f"{mean(to_csr):.3f}", f"{quantile(looks, 0.5):.0f}", f"{mean(looked):.3f}"]))
    regret = [c["to_best"] / c["to_csr"] for m in matrices for c in m["selectors"][0]["choices"]
              if c["iterations"] == given["iterations"]]
    rows.append((mean(regret), ["(always csr)", f"{mean(regret):.3f}", f"{quantile(regret, 0.95):.2f}",
                                f"{max(regret):.2f}", "0 %", "1.000", "0", f"{mean(regret):.3f}"]))
    for _, cells in sorted(rows):
        row(*cells)


# --- Preconditioners --------------------------------------------------------------------------------------------------

def matrix_name(text):
    return re.sub(r"(\.mtx)?(\.xz)?(\.pbin)?$", "", pathlib.Path(text).name).replace(":", "-")


@table
def pays(words):
    """FILE of setups: the fastest preconditioner of each matrix, in times as fast as jacobi."""
    rows = [r for name in words for r in read(name)["preconditioners"]]
    jacobi = {(r["matrix"], r["method"]): r for r in rows if r["type"] == "jacobi"}
    head("matrix", ">rows", "fastest in the solve alone", ">times jacobi", "fastest with setup", ">times jacobi")
    means = [], []
    for matrix in dict.fromkeys(r["matrix"] for r in rows):
        some = [(jacobi[matrix, r["method"]], r) for r in rows
                if r["matrix"] == matrix and r["converged"] and (matrix, r["method"]) in jacobi]
        alone, both = (max(((j["solve_seconds"] + with_setup * j["setup_seconds"])
                            / (r["solve_seconds"] + with_setup * r["setup_seconds"]), r["type"]) for j, r in some)
                       for with_setup in (0, 1))
        means[0].append(alone[0]), means[1].append(both[0])
        row(matrix_name(matrix), f"{next(r['rows'] for r in rows if r['matrix'] == matrix):,}", alone[1],
            f"{alone[0]:.2f}", both[1], f"{both[0]:.2f}")
    row("geometric mean", "", "", f"{mean(means[0]):.2f}", "", f"{mean(means[1]):.2f}")


@table
def setups(words):
    """FILE of setups: [--what solve|setup|new-values|apply|columns] a row a type, a column a matrix."""
    words, given = options(words, what="setup")
    rows = [r for name in words for r in read(name)["preconditioners"]]
    keys = {"setup": "setup_seconds", "new-values": "new_values_seconds", "apply": "apply_seconds",
            "columns": "apply_columns_seconds", "solve": "solve_seconds"}
    matrices = list(dict.fromkeys(r["matrix"] for r in rows))
    jacobi = {(r["matrix"], r["method"]): r["solve_seconds"] for r in rows if r["type"] == "jacobi"}
    head({"setup": "a setup, products of csr", "new-values": "new values, products of csr",
          "apply": "M^-1 r, products of csr", "columns": "8 columns, products of csr",
          "solve": "times as fast as jacobi, setup left out (iterations)"}[given["what"]],
         *(f">{matrix_name(m)}" for m in matrices))
    for kind in dict.fromkeys(r["type"] for r in rows):
        cells = []
        for matrix in matrices:
            its = next((r for r in rows if (r["matrix"], r["type"]) == (matrix, kind)), None)
            if not its:
                cells.append("")
            elif given["what"] == "solve":
                ratio = jacobi.get((matrix, its["method"]), math.nan) / its["solve_seconds"]
                cells.append(f"{ratio:.2f} ({its['iterations']})" if its["converged"] else "not converged")
            else:
                products = its[keys[given["what"]]] / its["product_seconds"]
                cells.append(f"{products:.1f}" if given["what"] == "apply" else f"{products:.0f}")
        row(kind, *cells)


@table
def peers(words):
    """FILE of protean-bench-preconditioners solves and of preconditioner_peers.py: iterations: setup + solve, ms."""
    data = read(*words)
    measured_at(data)
    libraries = list(dict.fromkeys(s["library"] for s in data["solves"]))
    head("matrix", "method", "preconditioner", *libraries)
    for key in dict.fromkeys((s["matrix"], s["method"], s["preconditioner"]) for s in data["solves"]):
        cells = []
        for library in libraries:
            its = next((s for s in data["solves"] if (s["matrix"], s["method"], s["preconditioner"], s["library"])
                        == (*key, library)), None)
            cells.append("" if its is None else f"{its['iterations']:,}: {1e3 * its['setup_seconds']:.2f} + "
                         f"{1e3 * its['solve_seconds']:.2f}"
                         + (f" (residual {its['residual']:.0e})" if its["residual"] > 1e-7 else ""))
        row(*key, *cells)


@table
def incomplete(words):
    """FILE: incomplete factors on a host next to PETSc and Eigen, milliseconds."""
    data = read(*words)
    measured_at(data)
    head("matrix", ">rows", ">entries", "factors", "library", ">threads", ">setup", ">new values", ">apply",
         ">8 columns")
    for r in sorted(data["factors"], key=lambda r: (r["matrix"], r["factors"])):
        row(r["matrix"], f"{r['rows']:,}", f"{r['entries']:,}", r["factors"],
            r["library"] + (f" ({r['what']})" if r["what"] else ""), r["threads"],
            *(f"{1e3 * r[key]:.2f}" if key in r else "" for key in
              ("setup_seconds", "new_values_seconds", "apply_seconds", "apply_columns_seconds")))


@table
def amg_setup(words):
    """FILE of protean-bench-preconditioners amg: milliseconds, and products of csr."""
    data = read(*words)
    measured_at(data)
    head("matrix", ">rows", ">a product, ms", ">setup, ms", ">in products", ">new values, ms", ">in products",
         ">solve, ms", ">iterations", ">a cycle, products")
    for s in data["setups"]:
        product = s["product"]
        row(s["matrix"], f"{s['rows']:,.0f}", f"{1e3 * product:.3f}", f"{1e3 * s['new setup']:.1f}",
            f"{s['new setup'] / product:.0f}", f"{1e3 * s['setup for new values']:.1f}",
            f"{s['setup for new values'] / product:.0f}", f"{1e3 * s['solve']:.1f}", f"{s['iterations']:.0f}",
            f"{s['cycle_products']:.1f}")


@table
def refresh(words):
    """FILE: when a preconditioner is set up again, over a sequence of systems."""
    data = read(*words)
    measured_at(data, f"; {data['rows']:,} rows, {data['nonzeros']:,} entries, {data['steps']} systems")
    first = statistics.median(data["ways"][0]["totals"])
    head("preconditioner", ">seconds", ">setups", ">iterations", ">times as fast as jacobi", "used")
    for way in data["ways"]:
        total = statistics.median(way["totals"])
        changes = [(step, used) for step, used in enumerate(way["used"]) if step == 0 or used != way["used"][step - 1]]
        row(way["way"], f"{total:.3f}", f"{way['setup']:.3f}", f"{sum(way['iterations']):,}", f"{first / total:.2f}",
            ", ".join(f"{used} from step {step}" if step else used for step, used in changes))


# --- Element matrices -------------------------------------------------------------------------------------------------

ELEMENT_COLOURS = {"csr": "#000000", "ell": "#999999", "sell-c-sigma": "#1f77b4", "sell-packed": "#17becf",
                   "lma-atomic": "#d62728", "lma-coloured": "#ff7f0e", "lma-gather": "#2ca02c"}


@table
def degrees(words):
    """FILE: CG on element matrices next to assembled formats, iterations a second; [--svg FILE] the plot."""
    words, given = options(words, svg="")
    data = read(*words)
    measured_at(data)
    rows = [r for r in data["results"] if "cg_iterations_per_second" in r]
    of_degree = sorted({r["degree"] for r in rows})
    kinds = [k for k in [("csr", ""), ("ell", ""), ("sell-c-sigma", ""), ("sell-packed", "")] + [
        (f"lma-{s}", stored) for stored in ("half", "full") for s in ("atomic", "coloured", "gather")]
        if any((r["operator"], r["stored"]) == k for r in rows)]

    def rate(degree, precision, operator, stored=""):
        return next((r["cg_iterations_per_second"] for r in rows if
                     (r["degree"], r["precision"], r["operator"], r["stored"])
                     == (degree, precision, operator, stored)), None)

    plots = []
    for precision in ("double", "single"):
        if not any(r["precision"] == precision for r in rows):
            continue
        head(f"{precision} precision", *(f">degree {d}" for d in of_degree))
        for operator, stored in kinds:
            pairs = [(rate(d, precision, operator, stored), rate(d, precision, "csr")) for d in of_degree]
            row(operator + (f", {stored}" if stored else ""),
                *(f"{r:.1f} ({r / base:.2f})" if r and base else "" for r, base in pairs))
        print()
        shown = [(k, [(d, rate(d, precision, *k) / rate(d, precision, "csr")) for d in of_degree
                      if rate(d, precision, *k)]) for k in kinds]
        top = max(y for _, points in shown for _, y in points)
        plot = Plot((of_degree[0] - 0.2, of_degree[-1] + 0.2), (0, top * 1.05), "degree of the elements",
                    "iterations a second / those of csr", width=560,
                    title=f"{precision} precision, {data['space']}")
        plot.horizontals([y / 2 for y in range(int(2 * top) + 1)], strong=1)
        plot.x_labels([(d, str(d)) for d in of_degree])
        for (operator, stored), points in shown:
            if points:
                plot.line(points, ELEMENT_COLOURS[operator], stored == "full")
        plot.legend([(f"{name}{' (full: dashed)' if name.startswith('lma') else ''}", colour)
                     for name, colour in ELEMENT_COLOURS.items()])
        plots.append(plot)
    assembled = []
    for r in data["results"]:
        if r["operator"] == "assembly" and r["precision"] == "double":
            product = next(c["product_seconds"] for c in rows if (c["degree"], c["precision"], c["operator"])
                           == (r["degree"], "double", "csr"))
            assembled.append(f"{r['seconds'] / product:.0f} at degree {r['degree']}")
    print(f"Assembling takes so many products of csr, in double precision: {', '.join(assembled)}.")
    if given["svg"]:
        plots[0].write(given["svg"], *plots[1:])


@table
def start(words):
    """FILE: from element matrices to the solution, milliseconds; a column a problem."""
    data = read(*words)
    measured_at(data)
    problems = data["problems"]
    head("way", *(f">{p['problem']}: {p['rows']:,} unknowns" for p in problems))
    for way in dict.fromkeys(w["way"] for p in problems for w in p["ways"]):
        cells = []
        for p in problems:
            its = next((w for w in p["ways"] if w["way"] == way), None)
            cells.append(f"{1e3 * its['seconds']:.0f} ({its['over_assembled_first']:.2f}), {its['last_format']}"
                         if its else "")
        row(way, *cells)


@table
def mesh(words):
    """FILE of MFEM's meshes: milliseconds of a product next to MFEM."""
    data = read(*words)
    measured_at(data, f"; {data['mfem']}")
    names = ["mfem csr", "mfem csr, columns sorted", "mfem AssemblyLevel::ELEMENT", "element matrices, half",
             "element matrices, full", "csr", "sell-c-sigma", "sell-packed"]
    head("mesh", *(f">{name}" for name in names), ">assembled: times MFEM's", ">elements: times MFEM's")
    for r in data["results"]:
        times = {p["name"]: p["median_seconds"] for p in r["products"]}
        row(r["name"], *(f"{1e3 * times[name]:.2f}" if name in times else "" for name in names),
            f"{r['assembled_ratio']:.2f}", f"{r['element_ratio']:.2f}" if r.get("element_ratio") else "")
    print()
    head("mesh", ">setup of a solve in csr, products", ">new values, sell-c-sigma", ">sell-packed")
    for r in data["results"]:
        row(r["name"], f"{r['setup_products']:.2f}",
            *(f"{r['update_products'][name]:.2f}" for name in ("sell-c-sigma", "sell-packed")))


# --- Formats and what their sources say -----------------------------------------------------------------------------

# The matrices by what they are: the ones of protean-bench-products (a name without the number at its end is meant for
# all sizes), and the ones of the SuiteSparse collection that were repeated.
CLASSES = {
    "stencils": "pde hpcg poisson-3d 27-point Trefethen_20000 band64",
    "bands": "rcm27 af23560 s1rmt3m1 bcsstk17 bcsstk29 nasa4704 gyro_m band64 hpcg 27-point Trefethen_20000",
    "blocks": "elast elasticity-3d bcsstk17 bcsstk29 s1rmt3m1 nasa4704 gyro_m af23560 band64",
    "similar lengths": "pde hpcg poisson-3d 27-point rcm27 band64 elast elasticity-3d af23560 airfoil_2d bodyy4 "
                       "bratu3d delaunay_n15 wave s1rmt3m1 G2_circuit rail_20209 Trefethen_20000 perm27 rand10",
    "long rows": "elast elasticity-3d band64 s1rmt3m1 bcsstk17 bcsstk29 hpcg 27-point rcm27 Trefethen_20000 "
                 "nasa4704 perm27",
    "short rows": "luxembourg_osm tols4000 p2p-Gnutella31 wikitalk webbase G2_circuit add32 bips98_606 rajat19",
    "varying lengths": "G51 add20 ca-CondMat gyro_m eris1176 zenios bayer03 wave airfoil_2d nasa4704 bcsstk17 bcsstk29 "
                       "gemat11 rail_20209",
    "power law": "webbase wikitalk ca-CondMat p2p-Gnutella31 eris1176 G51",
    "few long rows": "dc1 dcbig adder_dcop_05 rajat01 rajat19 bp_1600 tols4000 bloweybq hangGlider_2",
}
# The class that the source of a format names. Formats without one are for any matrix.
CLASS_OF = {
    "stencils": "dia bdia hdi crsd cds ddd-naive ddd-split hdc ell-dia",
    "bands": "pcsr coadell adell-plus bro-ell bro-csr sparsex sell-packed sss",
    "blocks": "bcsr bsr4 bcsr-cnc bcsr-choi bcsr-xu bcsr-verschoor bcoo bell bsellpack bellpack bin-bcsr bcoo-bcsr "
              "bccoo bccoo-plus tilespmv-csr tilespmv-adpt tilespmv-deferred-coo",
    "similar lengths": "ell ell-psblas ellpack-r ellr-t sell sell-c-sigma sell-p sell-variable warped-ell sic rgcsr "
                       "sliced-ellr-t hll csr-reguly-giles csr-mukunoki",
    "long rows": "cmrs csr-vector icsr ellpack-rp ell-warp",
    "short rows": "csr-wang csr-scalar csr-stream",
    "varying lengths": "jad enhanced-jds pjds biell bijad tjad btjad argcsr bin-csr csr-guo-gropp lightspmv "
                       "csr-ell-maringanti csr-ell-matam shec hec bro-hyb bro-hybr bro-hybr-s",
    "power law": "acsr aligned-coo scoo brc adell tile-composite hyb",
    "few long rows": "csr-adaptive csr5 mgpu-csr merge-csr coo coo-segmented",
}
FAMILIES = {"row": "Compressed rows", "column": "Compressed columns", "coordinate": "Coordinates",
            "ell": "Padded rows and slices",
            "jagged": "Jagged diagonals", "lanes": "Lanes", "diagonal": "Diagonals", "block": "Blocks",
            "compressed": "Indices in few bits", "tiled": "Tiles", "symmetric": "Symmetric halves",
            "hybrid": "Sums of parts",
            "composed": "Sums that users and planners compose"}
PLACES = {"gpu": "GPUs", "cpu": "processors", "fpga": "an FPGA"}
# The products of other libraries, by benchmark: the words of a column, and how their names begin.
LIBRARIES = {"gpu_spmv": {"cuSPARSE": "cusparse"}, "spmv": {"MKL": "mkl", "Eigen": "eigen"}}
EVEN = 0.02
NAIVE = ("csr-scalar", "csr-vector")  # a thread or a warp for each row, as all csr kernels were in 2008


def in_class(matrix, kind):
    words = CLASSES[kind].split()
    return matrix in words or re.sub(r"-?\d+$", "", matrix) in words


class Run:
    """One matrix of one file: microseconds by name (the medians of replays on a GPU, the least on a host, as in their
    own tables), and of our formats bytes and the microseconds of conversion."""

    def __init__(self, matrix, number):
        self.number, self.nonzeros = number, matrix["nonzeros"]
        self.times, self.bytes, self.convert, self.ours = {}, {}, {}, set()
        for p in matrix["products"]:
            name = p["name"]
            time = p.get("microseconds") or 1e6 * p.get("seconds_min", 0)
            if not time or not p.get("right", True) or " (" in name or "@" in name:
                continue
            self.times[name] = time
            if p["ours"]:
                self.bytes[name] = p["bytes"]
                self.convert[name] = p.get("convert_microseconds") or 1e6 * p.get("convert_seconds", 0)
                if ":" not in name:
                    self.ours.add(name)

    def library(self, start):
        return min((time for name, time in self.times.items() if name not in self.bytes and name.startswith(start)),
                   default=None)

    def time(self, name):
        return self.times.get(name) or (self.library(name) if name.split()[0] in ("cusparse", "mkl", "eigen", "petsc")
                                        else None)


class Measured:
    def __init__(self, words):
        runs = [(key, run) for word in words for key, run in read_runs(word).items()]
        names, self.files = [key for key, _ in runs], [run for _, run in runs]
        self.names = names
        kinds = {file["benchmark"] for file in self.files}
        if len(kinds) > 1 or not kinds <= set(LIBRARIES):
            sys.exit(f"the files are of {', '.join(sorted(kinds))}; they must all be of one of {', '.join(LIBRARIES)}")
        self.kind = kinds.pop()
        self.runs = {}  # matrix -> runs, the first named first
        for number, file in enumerate(self.files):
            for matrix in file["matrices"]:
                run = Run(matrix, number)
                if "csr" not in run.times:
                    sys.exit(f"{names[number]}: {matrix['matrix']} has no right product of csr, to which all others "
                             "are compared; run the benchmark with csr among its formats")
                self.runs.setdefault(matrix["matrix"], []).append(run)

    def run(self, name, matrix):
        """The first run of the matrix that has the format, or the library's product."""
        return next((run for run in self.runs[matrix] if run.time(name)), None)

    def matrices(self, name):
        return [matrix for matrix in self.runs if self.run(name, matrix)]

    def fastest(self, matrix):
        """The least time of our formats in units of csr's in the same run."""
        return min(run.times[one] / run.times["csr"] for run in self.runs[matrix] for one in run.ours)

    def to(self, name, other, matrix):
        """Time of `other` over time of the format."""
        run, beside = self.run(name, matrix), self.run(other, matrix)
        if run is None or beside is None:
            return None
        if run.time(other):
            return run.time(other) / run.time(name)
        return run.times["csr"] / run.time(name) * beside.time(other) / beside.times["csr"]


def ratios(measured, name, other, matrices):
    return [ratio for matrix in matrices if (ratio := measured.to(name, other, matrix))]


def cell(values):
    return f"{mean(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else ""


def read_claims():
    with open(pathlib.Path(__file__).resolve().parent / "claims.tsv", newline="") as file:
        return {row["format"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def verdict(measured, name, claim, there):
    """(one of the words below, the cell of "holds here")"""
    host = measured.kind == "spmv"
    if claim["against"] == "none":
        return "nothing claimed", "not compared: no claim about speed in the texts at hand"
    if claim["on"] not in ("any", "cpu" if host else "gpu"):
        return "elsewhere", f"not compared: its source measured {PLACES[claim['on']]}"
    if not measured.matrices(name):
        return "not measured", "not measured"
    if not there:
        return "refused", "not compared: no figures on its class"
    told, holds, missing = [], [], []
    for word in claim["against"].split(","):
        other = "csr" if word == "-" else word.lstrip("<~=")
        values = [] if word.startswith("=") else ratios(measured, name, other, there)
        if not values:
            missing.append(other)
            continue
        ratio = mean(values)
        told.append(f"{other} {ratio:.2f} ({len(values)})")
        factor = float(claim["factor"] or 1)
        if word.startswith("<"):
            holds.append("even" if abs(ratio - 1) < EVEN else "yes" if ratio < 1 else "no")
        elif word.startswith("~"):
            holds.append("yes" if 0.9 <= ratio <= 1 / 0.9 else "no")
        else:
            holds.append("even" if abs(ratio - 1) < EVEN else "no" if ratio < 1 else "yes" if ratio >= factor
                         else "by less")
    if not told:
        return "no baseline", "baseline not measured: " + ", ".join(missing)
    word = holds[0] if len(set(holds)) == 1 else "in part"
    note = f"; baseline not measured: {', '.join(missing)}" if missing else ""
    return word, f"{'**yes**' if word == 'yes' else word}: {', '.join(told)}{note}"


def summary(measured, formats, verdicts, theirs):
    """The lists before the tables."""
    said = {"yes": "It holds", "by less": "Faster than what the source compared with, but by less than its mean figure",
            "even": "As fast as what the source compared with, within 2 %",
            "in part": "It holds beside some of what the source compared with", "no": "It does not hold",
            "no baseline": "What the source compared with was not measured",
            "refused": "Refused on all matrices of its class, or not run on them",
            "elsewhere": "The source measured another kind of machine",
            "nothing claimed": "No claim about speed in the texts at hand",
            "not measured": "Claimed, but not in these files"}
    for word, text in said.items():
        names = [name for name in formats if verdicts[name][0] == word]
        if names:
            print(f"- {text} ({len(names)}): {', '.join(names)}.")
        if word == "yes" and names:
            fast = [name for name in names if mean(ratios(measured, name, "csr", theirs[name])) > 1 + EVEN]
            print(f"  Of these, faster than csr too by more than 2 % ({len(fast)}): {', '.join(fast) or 'none'}.")

    def both(name):
        to_csr = mean(ratios(measured, name, "csr", theirs[name]))
        sizes = [run.bytes["csr"] / run.bytes[name] for matrix in theirs[name]
                 if "csr" in (run := measured.run(name, matrix)).bytes]
        return to_csr, mean(sizes)

    host = measured.kind == "spmv"
    slow = [name for name in formats if theirs.get(name)
            and (host or verdicts[name][0] in ("no", "in part", "by less", "even")) and both(name)[0] < 1]
    print(f"\nThose {'' if host else 'whose claim does not hold, or not in full, and '}that are slower than csr, in "
          "groups by what was measured on the matrices of their class. The two figures are means: speed to csr, and "
          "bytes of csr to theirs, which would be the speed to csr if nothing but these bytes counted.\n")
    if not host:
        beaten = {}
        for name in slow:
            values = [min(pair) for matrix in theirs[name]
                      if all(pair := [measured.to(name, other, matrix) for other in NAIVE])]
            if values and name not in NAIVE and mean(values) > 1:
                beaten[name] = mean(values)
        print(f"- Faster than the better of {' and '.join(NAIVE)}, the kernels of 2008, by these means "
              f"({len(beaten)}): {', '.join(f'{name} {value:.2f}' for name, value in beaten.items())}.")
    rows = [f"{kind} {mean(values):.2f} ({len(values)})" for kind in CLASSES
            if (values := ratios(measured, "csr:balance=rows", "csr",
                                 [matrix for matrix in measured.runs if in_class(matrix, kind)]))]
    if rows:
        print(f"- csr itself without its balance of rows (`csr:balance=rows`), to csr, by class: {', '.join(rows)}.")
    texts = {"- At least a tenth more bytes than csr, so slower for their size alone": lambda size: size < 1 / 1.1,
             "- About as many bytes as csr": lambda size: 1 / 1.1 <= size <= 1.1,
             "- At least a tenth fewer bytes than csr, and slower nevertheless": lambda size: size > 1.1}
    for text, holds in texts.items():
        names = [f"{name} {speed:.2f}, {size:.2f}" for name in slow for speed, size in [both(name)] if holds(size)]
        if names:
            print(f"{text} ({len(names)}): {'; '.join(names)}.")


@table
def families(words):
    """FILE...: what the source of each format says, and what was measured; [--tables] a table for each family.

    FILE: products of a GPU (medians) or of a host (least times), all of the same kind. Each run has csr and the other
    libraries' products. A format that several runs have on a matrix is taken from the first one named that has it, so
    name the newest one first. Formats of different runs are compared by their ratios to the csr of their own runs.

    What the sources say is in claims.tsv in this folder: `against` lists what they compare with, parted by commas:
      NAME     a format, or a product of another library: the source says that the format is faster
      <NAME    the source says that it is slower
      ~NAME    the source says that it is about as fast: within 10 % here
      =TEXT    something that is not built here
      -        the source compares with the kernels of its time, or does not say with what: csr stands for them
      none     the source says nothing about speed
    `on` is the kind of machine of the source: gpu, cpu, fpga or any. `factor` is the mean that it reports, if any.
    Means within 2 % of 1 are called even: so much do two runs of the same format differ.
    """
    words, given = options(words, tables=False)
    measured, claims = Measured(words), read_claims()
    listed = [(family, name.replace("_", "-")) for family, name in
              re.findall(r"^PROTEAN_(?:FORMAT|PRESET)\((\w+), *(\w+)",
                         (ROOT / "formats/catalogue.def").read_text(), re.M)]
    formats = [name for _, name in listed if name != "csr"]
    if missing := [name for name in formats if name not in claims]:
        sys.exit(f"claims.tsv has no line for {', '.join(missing)}; add what their sources say")
    if measured.kind == "spmv":  # the many presets that are their base on a host
        formats = [name for name in formats if measured.matrices(name)]
    kinds = {name: kind for kind, words in CLASS_OF.items() for name in words.split()}
    theirs = {name: [matrix for matrix in measured.matrices(name) if name not in kinds or in_class(matrix, kinds[name])]
              for name in formats}
    verdicts = {name: verdict(measured, name, claims[name], theirs[name]) for name in formats}
    summary(measured, formats, verdicts, theirs)
    print("\nRuns, the first named first, with the number of formats whose figures on some matrix are from there:\n")
    for number, (name, file) in enumerate(zip(measured.names, measured.files)):
        used = {one for one in formats for matrix in measured.matrices(one)
                if measured.run(one, matrix).number == number}
        print(f"- {name}: {file['machine']['date']}, commit {file['machine']['commit']}, "
              f"{len(file['matrices'])} matrices, {len(used)} formats")
    if not given["tables"]:
        return
    libraries = LIBRARIES[measured.kind]
    for family in dict.fromkeys([*FAMILIES, *(family for family, _ in listed)]):
        rows = [name for its, name in listed if its == family and name in formats]
        if not rows:
            continue
        print(f"\n### {FAMILIES.get(family, family)}\n\n| format | its source says | holds here | "
              "class of its source | "
              "to csr there: mean (range) | "
              + "".join(f"to {library} there | " for library in libraries)
              + "to the fastest of ours there | to csr elsewhere | bytes an entry there | conversion, products "
              "of csr |\n"
              + "|---" * (9 + len(libraries)) + "|")
        for name in rows:
            claim, there, kind = claims[name], theirs[name], kinds.get(name)
            elsewhere = [matrix for matrix in measured.matrices(name) if matrix not in there]
            runs = [measured.run(name, matrix) for matrix in there or elsewhere]
            beside = ["" if not (values := [least / run.times[name] for matrix in there
                                            if (run := measured.run(name, matrix))
                                            and (least := run.library(start))]) else f"{mean(values):.2f}"
                      for start in libraries.values()]
            best = [measured.fastest(matrix) * run.times["csr"] / run.times[name] for matrix in there
                    if (run := measured.run(name, matrix))]
            figure = "no figure" if claim["figure"].startswith("no figure") else claim["figure"]
            print(f"| {name} | {claim['claim']} ({figure}) [{claim['source']}] | {verdicts[name][1]} | {kind or 'any'} "
                  f"({len(there)}) | {cell(ratios(measured, name, 'csr', there)) or ('none' if elsewhere else '')} | "
                  f"{' | '.join(beside)} | {f'{mean(best):.2f}' if best else ''} | "
                  f"{(cell(ratios(measured, name, 'csr', elsewhere)) or ('none' if there else '')) if kind else ''} | "
                  + (f"{statistics.median(run.bytes[name] / run.nonzeros for run in runs):.1f} | "
                     f"{statistics.median(run.convert[name] / run.times['csr'] for run in runs):.0f} |" if runs
                     else " | |"))
    print("\nClasses:\n")
    for kind, words in CLASSES.items():
        print(f"- {kind}: {', '.join(words.split())}")


def exhibit_order(exhibit):
    """s0-table-3: by paper, then tables before figures, then numbers."""
    paper, kind, number = exhibit["id"].split("-")
    return paper, kind != "table", int(number)


def judged(found, void, because):
    """The verdict on one statement, and what it rests on, from all exhibits of one machine that judge it."""
    if not found:
        return "not made", ""
    known = [finding for finding in found if finding["holds"] is not None]
    if known and void and re.search(void, known[0]["statement"]):
        return "not judged", because
    parts = dict.fromkeys(part for finding in known or found for part in finding["evidence"].split("; ") if part)
    text = "; ".join(sorted(parts, key=lambda part: part.endswith("stand-ins"))).removesuffix(": not judged")
    if not known:
        return "not judged", text or "what it compares is not in this build"
    return "yes" if all(finding["holds"] for finding in known) else "no", text


@table
def findings_data(words):
    """HOST DEVICE, folders that `protean reproduce -o` wrote: the findings as TSV. [--void REGEX --because TEXT]

    A statement that several exhibits judge counts once, and holds where it holds in each that can judge it. Statements
    that match REGEX are not judged on the device, because TEXT.
    """
    folders, given = options(words, void="", because="")
    statements = {}
    for machine, folder in enumerate(folders):
        exhibits = [json.loads(file.read_text()) for file in pathlib.Path(folder).glob("s*.json")]
        for exhibit in sorted(exhibits, key=exhibit_order):
            for finding in exhibit["findings"]:
                its = statements.setdefault((exhibit["paper"], finding["statement"]), ({}, ([], [])))
                its[0][exhibit["id"]] = exhibit_order(exhibit)
                its[1][machine].append(finding)
    print("paper\texhibits\tfinding\thost\thost_evidence\tgpu\tgpu_evidence")
    for (paper, statement), (ids, found) in sorted(statements.items(), key=lambda item: min(item[1][0].values())):
        exhibits = ", ".join(" ".join(one.split("-")[1:]) for one in sorted(ids, key=ids.get))
        print(paper, exhibits, statement, *judged(found[0], "", ""), *judged(found[1], given["void"], given["because"]),
              sep="\t")


@table
def findings(words):
    """FILE.tsv of the findings of the papers that `protean reproduce` judged."""
    rows = list(csv.DictReader(io.StringIO(read_text(words[0])), delimiter="\t", quoting=csv.QUOTE_NONE))

    def number(**verdicts):
        return sum(all(r[machine] == verdict for machine, verdict in verdicts.items()) for r in rows)

    both = number(host="yes", gpu="yes"), number(host="yes", gpu="no"), number(host="no", gpu="yes")
    print(f"{len(rows)} findings. " + " ".join(
        f"On the {name} {number(**{machine: 'yes'})} hold, {number(**{machine: 'no'})} do not, "
        f"{number(**{machine: 'not judged'})} are not judged, {number(**{machine: 'not made'})} not made."
        for name, machine in (("host", "host"), ("GPU", "gpu"))))
    print(f"Of those that both judge {both[0]} hold on both, {both[1]} on the host alone, {both[2]} on the GPU alone, "
          f"{number(host='no', gpu='no')} on neither.\n")
    head("paper, exhibits", "finding", "host", "GPU")
    for r in rows:
        row(f"{r['paper']} {r['exhibits']}", r["finding"],
            *(": ".join(filter(None, (r[machine], r[f"{machine}_evidence"]))) for machine in ("host", "gpu")))


# --- Pages ------------------------------------------------------------------------------------------------------------

PLACE = re.compile(r"^<!-- made by: (.+?) -->\n.*?^<!-- end -->$", re.M | re.S)


def made(command):
    """What the command of a page prints, or the reason why it cannot be run."""
    script, *words = shlex.split(command)
    if script == "tables.py":
        text, before = io.StringIO(), os.getcwd()
        os.chdir(RESULTS)
        try:
            with contextlib.redirect_stdout(text):
                TABLES[words[0]](words[1:])
        finally:
            os.chdir(before)
        return text.getvalue()
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / script, *words], cwd=RESULTS, text=True,
                          capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return done.stdout


def write_pages(check):
    """Writes the tables of all pages again; with check returns the places whose table is not that of its data."""
    stale = []
    for page in sorted(RESULTS.glob("*.md")):
        text = page.read_text()

        def again(place):
            table_of_it = re.sub(r"\n{3,}", "\n\n", made(place[1]).strip("\n"))
            new = f"<!-- made by: {place[1]} -->\n{table_of_it}\n<!-- end -->"
            if new != place[0]:
                stale.append(f"{page.name}: {place[1]}")
            return new

        new = PLACE.sub(again, text)
        if new != text and not check:
            page.write_text(new)
    return stale


def main(words):
    if words[:1] == ["--list"]:
        for name, function in sorted(TABLES.items()):
            print(f"{name:12} {function.__doc__.splitlines()[0]}")
    elif words[:1] == ["pages"] and words[1:] in ([], ["--check"]):
        check = words[1:] == ["--check"]
        stale = write_pages(check)
        print("\n".join(stale))
        return bool(stale) if check else 0
    elif words and words[0] in TABLES and len(words) > 1:
        TABLES[words[0]](words[1:])
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
