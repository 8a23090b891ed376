"""Tables of solves, on a host, on a GPU and in Python."""
import math
import statistics

from results.common import figure, head, labelled, least, mean, measured_at, options, read, read_runs, row, table


@table
def cg(words):
    """FILE of CG on a host: an iteration in csr and in the best format next to MKL by hand, Eigen and PETSc."""
    data = read(*words)
    measured_at(data)
    head("matrix", ">rows", ">entries", ">csr, us", "our best", ">us", ">MKL by hand", ">Eigen", ">best of PETSc",
         ">MKL / our best")
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
    print("\nOur best, geometric mean and least: " + "; ".join(
        f"{mean(values):.2f} and {min(values):.2f} times as fast as {names[peer]}"
        for peer, values in ratios.items() if math.isfinite(max(values))) + ".")


@table
def gpu_cg(words):
    """FILE of CG on a GPU: microseconds of an iteration next to cuSPARSE and cuBLAS in a graph."""
    data = read(*words)
    measured_at(data, f"; copy bandwidth {data['copy_bandwidth'] / 1e12:.2f} TB/s")
    formats = list(dict.fromkeys(r["format"] for r in data["results"]))
    head("matrix", ">rows", ">cuSPARSE and cuBLAS, graph", *(f">{name}" for name in formats), ">peer / our best")
    for matrix in dict.fromkeys(r["matrix"] for r in data["results"]):
        its = {r["format"]: r for r in data["results"] if r["matrix"] == matrix}
        one = its[formats[0]]
        least = min(r["iteration_us"] for r in its.values())
        row(matrix, f"{one['rows']:,}", f"{one['peer_graph_us']:.1f}",
            *(f"{its[name]['iteration_us']:.1f}" for name in formats), f"{one['peer_graph_us'] / least:.2f}")


@table
def iteration(words):
    """FILE of an iteration of each method: microseconds, with one vector and with several."""
    data = read(*words)
    measured_at(data)
    results = data["results"]
    ways = list(dict.fromkeys((r["rows"], r["columns"], r["steps"]) for r in results))
    ways.sort(key=lambda way: (way[1], way[0]))
    head("method", *(f">{rows:,} rows, " + (steps or "host" if columns == 1 else f"{columns} columns")
                     for rows, columns, steps in ways))
    for method in dict.fromkeys(r["method"] for r in results):
        its = {(r["rows"], r["columns"], r["steps"]): r["seconds"] for r in results if r["method"] == method}
        row(method, *(figure(1e6 * its.get(way, math.nan), 1) for way in ways))


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
    """LABEL=FILE...: sequences of solves, kept and built again, times as fast as a kept csr."""
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
def values(words):
    """FILE of protean-bench-solve values: float and dictionary over double, a product and a Jacobi-CG solve."""
    data = read(*words)
    head("matrix", "format", "values", ">MB", ">product, us", ">times", ">iterations", ">solve, ms", ">times")
    for entry in data["matrices"]:
        full = entry["ways"][0]
        for narrow in entry["ways"][1:]:
            row(entry["matrix"], entry["format"], narrow["values"],
                f"{full['bytes'] / 1e6:.0f}, {narrow['bytes'] / 1e6:.0f}",
                f"{full['product_seconds'] * 1e6:.1f}, {narrow['product_seconds'] * 1e6:.1f}",
                f"{full['product_seconds'] / narrow['product_seconds']:.2f}",
                f"{full['iterations']}, {narrow['iterations']}",
                f"{full['solve_seconds'] * 1e3:.1f}, {narrow['solve_seconds'] * 1e3:.1f}",
                f"{full['solve_seconds'] / narrow['solve_seconds']:.2f}")


@table
def short(words):
    """FILE of short solves: microseconds in one call, and in a kept system."""
    data = read(*words)
    measured_at(data)
    rows = list(dict.fromkeys(r["rows"] for r in data["results"]))
    head("method", *(f">{n:,} rows: one, kept" for n in rows))
    for method in dict.fromkeys(r["method"] for r in data["results"]):
        its = {r["rows"]: r for r in data["results"] if r["method"] == method}
        row(method, *(f"{its[n]['one_us']:.0f}, {its[n]['kept_us']:.0f}" for n in rows))


@table
def devices(words):
    """FILE of one GPU and several: an iteration, and a whole solve."""
    data = read(*words)
    measured_at(data)
    head("system", ">rows", ">GPUs", ">iteration, us", ">times", ">whole solve, ms", ">times")
    for system in dict.fromkeys(r["system"] for r in data["results"]):
        its = [r for r in data["results"] if r["system"] == system]
        for r in its:
            one, whole = (its[0][key] / r[key] if r[key] else math.nan
                          for key in ("iteration_seconds", "whole_seconds"))
            row(system, f"{r['rows']:,}", r["devices"], f"{1e6 * r['iteration_seconds']:.1f}", figure(one, 2),
                f"{1e3 * r['whole_seconds']:.0f}", figure(whole, 2))


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


@table
def combinations(words):
    """LABEL=FILE... of default solves next to the best of methods, preconditioners and formats, and next to Jacobi."""
    head("machine", "measured at, commit", ">systems", ">default / best: mean", ">at 95 %", ">worst",
         ">default / jacobi in csr: mean", ">worst", ">not converged")
    misses = []
    for label, name in labelled(words):
        for data in read_runs(name).values():
            done = [m for m in data["matrices"] if m["converged"]]
            best = sorted(m["to_best"] for m in done)
            jacobi = [m["to_jacobi"] for m in done if m["to_jacobi"] > 0]
            machine = data["machine"]
            row(label, f"{machine['date'][:16].replace('T', ' ')}, {machine['commit']}", len(data["matrices"]),
                f"{mean(best):.2f}", f"{best[math.ceil(0.95 * len(best)) - 1]:.2f}", f"{best[-1]:.2f}",
                f"{mean(jacobi):.2f}", f"{max(jacobi):.2f}", len(data["matrices"]) - len(done))
            worst = sorted((m for m in done if m["to_best"] > 1.8), key=lambda m: -m["to_best"])
            failed = [m["matrix"] for m in data["matrices"] if not m["converged"]]
            misses.append((label, worst, failed))
    print()
    for label, worst, failed in misses:
        print(f"- {label}: above 1.8 on " + (", ".join(
            f"{m['matrix']} {m['to_best']:.2f} ({m['best']['way']})" for m in worst) or "none")
              + ("; not converged: " + ", ".join(failed) if failed else "") + ".")
