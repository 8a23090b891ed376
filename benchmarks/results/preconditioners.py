"""Tables of preconditioners."""
import math
import pathlib
import re
import statistics

from results.common import head, mean, measured_at, options, read, row, table


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


def systems_of_fields(data):
    """The figures of each system in the file, which is named by kind, n and parameters."""
    return {name: [f for f in data["fields"] if f["system"] == name]
            for name in dict.fromkeys(f["system"] for f in data["fields"])}


def fastest(figures):
    return min((f for f in figures if f["converged"]), key=lambda f: f["seconds"], default=None)


def called(figure):
    """What a row of a table calls it: ours without the library."""
    library = {"petsc": "PETSc, ", "amgcl": "amgcl, "}.get(figure["library"], "")
    return library + figure["what"].removeprefix("fieldsplit, ")


@table
def fields(words):
    """FILE of protean-bench-preconditioners fields: auto next to the fastest recipe and the fastest peer."""
    data = read(*words)
    measured_at(data)
    head("system", ">rows", "auto takes", ">iterations", ">ms", "fastest recipe", ">iterations",
         ">time of auto / its time", "fastest peer", ">iterations", ">its time / time of auto")
    for name, figures in systems_of_fields(data).items():
        auto = next(f for f in figures if f["what"].startswith("auto"))
        best = fastest(f for f in figures if f["library"] == "protean" and f is not auto)
        peer = fastest(f for f in figures if f["library"] != "protean")
        solved = auto["converged"]
        row(name, f"{auto['rows']:,}", auto["what"].removeprefix("auto: ") + f", {auto['method']}",
            auto["iterations"] if solved else "not solved", f"{1e3 * auto['seconds']:.1f}",
            *((best["what"], best["iterations"], f"{auto['seconds'] / best['seconds']:.2f}" if solved else "")
              if best else ("none", "", "")),
            *((called(peer), peer["iterations"],
               f"{peer['seconds'] / auto['seconds']:.2f}" if solved else "") if peer else ("none", "", "")))


@table
def fields_recipes(words):
    """FILE of protean-bench-preconditioners fields: iterations of each recipe, and its time / the shortest of ours."""
    data = read(*words)
    systems = systems_of_fields(data)
    ways = dict.fromkeys(called(f) for f in data["fields"] if not f["what"].startswith("auto"))
    head("", *(f">{name}" for name in systems))
    for way in ways:
        cells = []
        for figures in systems.values():
            best = fastest(f for f in figures if f["library"] == "protean")
            its = next((f for f in figures if called(f) == way), None)
            cells.append("" if its is None else "-" if not its["converged"]
                         else f"{its['iterations']}: {its['seconds'] / best['seconds']:.2f}")
        row(way, *cells)


@table
def fields_growth(words):
    """FILE of protean-bench-preconditioners fields with --grow: iterations of one system by its size."""
    data = read(*words)
    measured_at(data)
    systems = {}
    for f in data["fields"]:
        if f["what"] == "none" or "commutator" in f["what"]:
            continue
        kind, n, *rest = f["system"].split(":")
        key = ":".join([kind, *rest])
        label = f["what"].partition(":")[0] if f["what"].startswith("auto") else called(f)
        systems.setdefault((key, label), {})[int(n)] = f
    head("system", "recipe", "n: iterations", ">rows")
    for (key, what), by_size in systems.items():
        row(key, what,
            ", ".join(f"{n}: {f['iterations'] if f['converged'] else '-'}" for n, f in sorted(by_size.items())),
            ", ".join(f"{f['rows']:,}" for _, f in sorted(by_size.items())))


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
