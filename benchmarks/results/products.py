"""Tables of products."""
import math

from results.common import (
    figure, gpu_of, head, labelled, least, mean, measured_at, options, read, read_runs, row, table,
)


@table
def products(words):
    """FILE of the host's products: csr and our best format next to MKL, Eigen and PETSc, least times."""
    data = read(*words)
    measured_at(data)
    head("matrix", ">rows", ">entries", ">csr, ms", "our best", ">ms", ">MKL", ">Eigen", ">best of PETSc",
         ">best peer / our best", ">csr / Eigen's time")
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
    print(f"\nGeometric mean of {len(ratios)} matrices: our best is **{mean(ratios):.2f} times** as fast as "
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
    head("group", ">matrices", ">cuSPARSE CSR or COO / csr: mean", ">least", ">best of cuSPARSE / our best: mean",
         ">least")
    for group, pairs in [*sorted(groups.items(), reverse=True), ("all", sum(groups.values(), []))]:
        of_csr, of_best = zip(*pairs)
        row(group, len(pairs), f"{mean(of_csr):.2f}", f"{min(of_csr):.2f}", f"{mean(of_best):.2f}",
            f"{min(of_best):.2f}")
    print(f"\nThe best of cuSPARSE is faster than our best on {', '.join(slow) or 'none'}.")


@table
def newer_cusparse(words):
    """FILE of a GPU's products: the calls that came with cuSPARSE 12.9.4 next to its older ones and to ours."""
    data = read(*words)
    names = {"cusparse op 1": "plan, algorithm 1", "cusparse op 2": "plan, algorithm 2", "cusparse half": "one half"}
    found = {name: [] for name in names}
    head("calls", ">matrices", ">best of the older calls / it: mean", ">most", ">it / our best: mean", ">least")
    for matrix in data["matrices"]:
        times = {p["name"]: p["microseconds"] for p in matrix["products"] if p["right"]}
        own = min(p["microseconds"] for p in matrix["products"] if p["ours"] and p["right"])
        older = min(time for name, time in times.items() if name.startswith("cusparse") and name not in names)
        for name, ratios in found.items():
            if name in times:
                ratios.append((older / times[name], times[name] / own))
    for name, ratios in found.items():
        if ratios:
            to_older, to_own = zip(*ratios)
            row(names[name], len(ratios), f"{mean(to_older):.2f}", f"{max(to_older):.2f}", f"{mean(to_own):.2f}",
                f"{min(to_own):.2f}")


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
