#!/usr/bin/env python3
"""Solves systems with each preconditioner by `protean solve`, and prints a Markdown table of the reports.

    preconditioner_solves.py --protean build/cpu-release/protean --runs 2 > preconditioners.md
    preconditioner_solves.py REPORT.json [REPORT.json ...] > preconditioners.md

The first form runs the solves: the systems below, or those that --systems names, with each preconditioner, --runs times
each, and keeps problem files and reports in --folder. A solve that takes longer than --seconds ends, and the table says
so. --list names the systems. --quick takes small ones. --types takes these types only (and jacobi). amg is among them,
on the host also that of hypre in a build with it. Of poisson-3d-200 only those are taken whose setup is short. The
second form makes the table of reports that are there.

One row for each matrix, method and preconditioner, in the order in which the matrices are first named. Of several
reports of the same solve the fastest counts. "times faster": setup and solve next to those of jacobi with the same
matrix and method; "solve only" leaves the setup out. "products": what M^-1 r takes, in products of A, when the first
form ran the solves. It is the time of an iteration less that of one with jacobi, whose steps are not in one kernel
(`solver.device_steps: graph`), for each M^-1 r of an iteration, over the time of a product by `protean compare`.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

OPTIONS = ("storage", "fill", "ordering", "power", "solve", "sweeps", "block_size", "blocks", "subdomain_size",
           "partition", "overlap", "omega", "degree", "eigenvalue_ratio", "smoother", "setup",
           "coarsening", "strong_threshold", "aggressive_levels", "strength", "level_format", "max_levels",
           "cycles", "unknowns")
DEFAULTS = {"storage": "double", "fill": 1, "ordering": "auto", "power": 1, "solve": "auto", "block_size": "auto",
            "blocks": "found",
            "subdomain_size": "auto", "partition": "order", "overlap": 0, "omega": 1, "degree": 4,
            "eigenvalue_ratio": 30, "smoother": "l1-jacobi", "setup": "aggregation", "coarsening": "hmis",
            "strong_threshold": 0.25, "aggressive_levels": 0, "strength": 0.08,
            "level_format": "auto", "max_levels": 25, "cycles": 1, "unknowns": 1}

MATRICES = pathlib.Path(__file__).resolve().parent.parent / "problems" / "matrices"
# name: matrix, method, the same but small
SYSTEMS = {
    "poisson-3d-60": ("{generate: {kind: poisson-3d, n: 60}}", "cg", "{generate: {kind: poisson-3d, n: 18}}"),
    "poisson-3d-100": ("{generate: {kind: poisson-3d, n: 100}}", "cg", "{generate: {kind: poisson-3d, n: 20}}"),
    "poisson-3d-200": ("{generate: {kind: poisson-3d, n: 200}}", "cg", "{generate: {kind: poisson-3d, n: 24}}"),
    "anisotropic-3d-100": ("{generate: {kind: anisotropic-3d, n: 100}}", "cg",
                           "{generate: {kind: anisotropic-3d, n: 16}}"),
    "elasticity-3d-40": ("{generate: {kind: elasticity-3d, n: 40}}", "cg", "{generate: {kind: elasticity-3d, n: 6}}"),
    "s1rmt3m1": ("{file: %s}" % (MATRICES / "s1rmt3m1.mtx.xz"), "cg", None),
    "bcsstk16": ("{file: %s}" % (MATRICES / "bcsstk16.mtx.xz"), "cg", None),
    "G2_circuit": ("{file: %s}" % (MATRICES / "G2_circuit.mtx.xz"), "cg", None),
    "convection-diffusion-3d-100": ("{generate: {kind: convection-diffusion-3d, n: 100}}", "bicgstab",
                                    "{generate: {kind: convection-diffusion-3d, n: 16}}"),
    "orsirr_1": ("{file: %s}" % (MATRICES / "orsirr_1.mtx.xz"), "bicgstab", None),
}
# The systems that are taken on a device if --systems names none.
ON_DEVICE = ("poisson-3d-100", "poisson-3d-200", "elasticity-3d-40", "s1rmt3m1", "convection-diffusion-3d-100",
             "G2_circuit")
# M^-1 r in an iteration.
APPLICATIONS = {"cg": 1, "bicgstab": 2}
SHARED = ["{type: jacobi}", "{type: block-jacobi}", "{type: block-jacobi, block_size: 12, blocks: found}",
          "{type: spai0}"]
SWEPT = ["solve: levels", "solve: cusparse", "solve: sweeps, sweeps: 1", "solve: sweeps, sweeps: 2",
         "solve: sweeps, sweeps: 4", "solve: sweeps, sweeps: 8"]
MULTIGRID = ["{type: amg}", "{type: amg, level_format: csr}", "{type: amg, smoother: gauss-seidel}"]
CLASSICAL = ["{type: amg, setup: classical}", "{type: amg, setup: classical, smoother: gauss-seidel}",
             "{type: amg, setup: classical, aggressive_levels: 1}",
             "{type: amg, setup: classical, smoother: gauss-seidel, aggressive_levels: 1}"]


def has_hypre(protean):
    version = subprocess.run([protean, "--version"], text=True, capture_output=True).stdout
    return any(line.split()[:2] == ["hypre", "yes"] for line in version.splitlines())


def preconditioners_for(method, space, system, classical):
    ways = [way for way in SWEPT if space == "device" or "cusparse" not in way]
    kinds, coloured = (("ic0", "ic"), "ssor") if method == "cg" else (("ilu0", "ilu"), "gauss-seidel")
    own = ["{type: chebyshev}"] if method == "cg" else []
    some = [way for way in ways if way in ("solve: levels", "solve: cusparse", "solve: sweeps, sweeps: 4")]
    kinds_of_amg = MULTIGRID + (["{type: amg, smoother: chebyshev}"] if method == "cg" else [])
    kinds_of_amg += CLASSICAL if classical and space == "host" else []
    nodes = [kind.replace("}", ", unknowns: 3}") for kind in kinds_of_amg if "aggressive" not in kind]
    own = own + kinds_of_amg + (nodes if system.startswith("elasticity") else [])
    if system == "poisson-3d-200":
        coloured = ["{type: ic0, ordering: colours}", "{type: isai}"] if space == "device" else []
        return SHARED[:1] + SHARED[3:] + own + coloured
    inverse = "isai" if method == "cg" else "isai-lu"
    own = own + ["{type: %s}" % inverse, "{type: %s, power: 2}" % inverse,
                 "{type: %s, ordering: colours}" % kinds[0], "{type: %s, ordering: natural}" % kinds[0]]
    own += ["{type: subdomain-%s}" % kinds[0], "{type: subdomain-%s, partition: metis}" % kinds[0]]
    own += ["{type: subdomain-ilu0, overlap: 1}"] if method != "cg" else []
    return (SHARED + own + ["{type: %s}" % coloured] + ["{type: %s, %s}" % (kinds[0], way) for way in ways]
            + ["{type: %s, %s}" % (kinds[1], way) for way in some])


def problem_text(name, matrix, method, spec, arguments, more=""):
    return (f"title: {name}\nmatrix: {matrix}\nrhs: {{solution: ones}}\n"
            f"solver: {{method: {method}, relative_tolerance: 1.0e-8, max_iterations: 20000, "
            f"max_seconds: {arguments.seconds}{more}}}\n"
            f"preconditioner: {spec}\noperator: {{format: csr, space: {arguments.space}}}\n")


def times_of_steps(name, matrix, method, arguments, folder):
    """Seconds of a product, and of an iteration with jacobi; None if `protean compare` does not tell."""
    problem, report = folder / f"{name}-product.yaml", folder / f"{name}-product.json"
    more = ", device_steps: graph" if arguments.space == "device" else ""
    problem.write_text(problem_text(name, matrix, method, "{type: jacobi}", arguments, more))
    report.unlink(missing_ok=True)
    done = subprocess.run([arguments.protean, "compare", problem, "--quiet", "--formats", "csr", "--kernels", "native",
                           "--report", report], text=True, capture_output=True)
    if not report.exists():
        print(f"{name}: no times of a product, exit status {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        return None
    seconds = json.loads(report.read_text())["results"][0].get("seconds")
    return seconds and (seconds["per_product"], seconds["per_iteration"])


def run_all(arguments):
    """The paths of the reports, and by name of system what times_of_steps() tells. Complains about solves that left no
    report, and goes on."""
    folder = pathlib.Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    reports, steps = [], {}
    classical = has_hypre(arguments.protean)
    names = ON_DEVICE if arguments.space == "device" else SYSTEMS
    for name in arguments.systems or [name for name in names if not (arguments.quick and name == "G2_circuit")]:
        matrix, method, small = SYSTEMS[name]
        matrix = small or matrix if arguments.quick else matrix
        steps[name] = times_of_steps(name, matrix, method, arguments, folder)
        for number, spec in enumerate(preconditioners_for(method, arguments.space, name, classical)):
            kind = spec.strip("{}").split(",")[0].removeprefix("type: ")
            if arguments.types and kind not in [*arguments.types, "jacobi"]:
                continue
            problem = folder / f"{name}-{number}.yaml"
            problem.write_text(problem_text(name, matrix, method, spec, arguments))
            for run in range(arguments.runs):
                report = folder / f"{name}-{number}-{run}.json"
                report.unlink(missing_ok=True)
                done = subprocess.run([arguments.protean, "solve", problem, "--quiet", "--set",
                                       f"output.report={report}"], text=True, capture_output=True)
                if report.exists():
                    reports.append(report)
                else:
                    print(f"{name} {spec}: no report, exit status {done.returncode}: {done.stderr.strip()}",
                          file=sys.stderr)
                    break
    return reports, steps


def key_of(report):
    problem = report["problem"]
    matrix = problem["matrix"].get("file") or problem["matrix"]["generate"]["kind"]
    name = problem.get("title") or pathlib.PurePath(matrix).name.split(".")[0]
    spec = problem["preconditioner"]
    given = [f"{option} {spec[option]}" for option in OPTIONS
             if option in spec and spec[option] != DEFAULTS.get(option)]
    method = problem["solver"]["method"]
    if method == "gmres":
        method += f"({problem['solver']['restart']})"
    return name, method, ", ".join([spec["type"], *given])


def seconds_of(report):
    return report["seconds"]["setup"] + report["seconds"]["solve"]


def products_of(report, name, method, steps):
    """What M^-1 r takes, in products; empty if that is not known."""
    if not steps.get(name) or report["iterations"] == 0 or method not in APPLICATIONS:
        return ""
    product, iteration = steps[name]
    return f"{(report['seconds']['solve'] / report['iterations'] - iteration) / APPLICATIONS[method] / product:.1f}"


def table(paths, steps):
    """Lines of Markdown: the machine, and the table."""
    best = {}
    for path in paths:
        report = json.loads(pathlib.Path(path).read_text())
        key = key_of(report)
        if key not in best or seconds_of(report) < seconds_of(best[key]):
            best[key] = report
    first = next(iter(best.values()))
    machine = first["machine"]
    where = f"{machine['cpu']}, {machine['threads']} threads"
    if first["operator"]["space"] == "device":
        asked = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                               text=True, capture_output=True) \
            if shutil.which("nvidia-smi") else None
        gpu = asked.stdout.splitlines()[0] if asked and asked.stdout.strip() \
            else "a GPU that nvidia-smi does not name here"
        where = f"{gpu}; setup by {where}"
    lines = [f"{where}. Times in milliseconds.", "",
             "| matrix | rows | method | preconditioner | iterations | setup | solve | times faster | solve only | "
             "products | figures |",
             "|---|--:|---|---|--:|--:|--:|--:|--:|--:|---|"]
    order = list(dict.fromkeys(key[:2] for key in best))
    for key, report in sorted(best.items(), key=lambda item: order.index(item[0][:2])):
        jacobi = best.get((*key[:2], "jacobi"))
        done = report["status"] == "converged"
        faster = alone = ""
        if jacobi and jacobi["status"] == "converged" and done:
            faster = f"{seconds_of(jacobi) / seconds_of(report):.1f}"
            alone = f"{jacobi['seconds']['solve'] / report['seconds']['solve']:.1f}"
        figures = {name: value for name, value in report["preconditioner"].items() if name not in ("type", "bytes")}
        lines.append(
            f"| {key[0]} | {report['matrix']['rows']} | {key[1]} | {key[2]} | "
            f"{report['iterations']}{'' if done else ' (' + report['reason'] + ')'} | "
            f"{report['seconds']['setup'] * 1e3:.2f} | {report['seconds']['solve'] * 1e3:.2f} | {faster} | {alone} | "
            f"{products_of(report, key[0], key[1], steps)} | "
            f"{', '.join(f'{name} {value:g}' for name, value in figures.items())} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", metavar="REPORT.json")
    parser.add_argument("--protean", help="the command; runs the solves first")
    parser.add_argument("--space", choices=("host", "device"), default="host")
    parser.add_argument("--folder", default="preconditioner-reports")
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument("--types", nargs="+", metavar="TYPE")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        print(*SYSTEMS, sep="\n")
        return
    if bool(arguments.protean) == bool(arguments.reports):
        parser.error("give either reports or --protean")
    reports, steps = run_all(arguments) if arguments.protean else (arguments.reports, {})
    if not reports:
        sys.exit("no solve left a report")
    print(*table(reports, steps), sep="\n")


main()
