"""Every storage format must give the same solve: each method with each format ends for the same reason, after
the same number of iterations (within 1 % + 2), at a true residual under the tolerance, with an x as near to SciPy's
direct solve as the residual and the condition of the matrix allow. In deterministic mode the number of iterations
must be the same exactly, and x bit for bit, in every format and with one thread or two.

    compare_formats.py PROTEAN SOURCE_FOLDER [--full] [--only=NAME,NAME] [--methods=NAME,NAME]
                       [--mode=default|deterministic] [--space=host|device] [--jobs=N] [--json=FILE] [--table=FILE]

As a test it runs in deterministic mode only (test_every_format compares the solves of the default mode, in one process)
and keeps to what takes a minute:
  - A method sees of a format nothing but its products. So each format solves each small system by one method, and one
    format of each engine solves all systems by all methods.
  - In deterministic mode one bit of one product would show in x from that iteration on: solves end after 50 iterations,
    and formats that do not stand for their engine solve two systems, one of them large enough for two threads.
  - On a host, presets have the arrays and the code of their base: they are left out.
--full goes to the tolerance in every format and adds the long solves and the other five methods. --space=device solves
on a GPU in the formats that have a device side. --jobs runs so many solves at a time. --json adds each solve to a file
(those of earlier runs stay, unless they are of the same solve), --table puts a table of all solves of the JSON file
into a Markdown file, between two marks. Exits 77 (skipped) when NumPy or SciPy is missing, and with --sanitizers=NAMES:
it compares answers, and hundreds of instrumented solves take too long.

BiCGStab amplifies the last bit of a product on hard matrices: a product summed in another order (which is all that
formats differ by) may take 1300 or 2200 iterations to the same answer. There only the answer is compared, the method
is marked `~`, and the spread of the counts is printed. In deterministic mode it counts like the others.
"""
import collections
import concurrent.futures
import datetime
import json
import lzma
import operator
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import scipy.io
    import scipy.sparse
    import scipy.sparse.linalg
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

if any(argument.startswith("--sanitizers=") and argument != "--sanitizers=" for argument in sys.argv):
    print("skipped: hundreds of solves take too long in a build with sanitizers; the other tests cover the code")
    sys.exit(77)
protean, source, full = sys.argv[1], pathlib.Path(sys.argv[2]), "--full" in sys.argv[3:]


def option(name, otherwise=None):
    return next((a.split("=", 1)[1] for a in sys.argv[3:] if a.startswith(f"--{name}=")), otherwise)


modes = [option("mode")] if option("mode") else ["default", "deterministic"]
only = option("only", "").split(",") if option("only") else None
methods = option("methods").split(",") if option("methods") else None
space, jobs = option("space", "host"), int(option("jobs", "1"))
shared = pathlib.Path(os.environ.get("PROTEAN_SHARED", source / ".." / "shared")) / "matrices"
shipped = source / "problems" / "matrices"


def star(n, minus, centre, plus):
    """Seven points on n^3, the first axis fastest: the matrix of the generator by another way."""
    def line(a, b, c):
        return scipy.sparse.diags([a, b, c], [-1, 0, 1], shape=(n, n))
    one = scipy.sparse.identity(n)
    kron = scipy.sparse.kron
    return (kron(one, kron(one, line(minus, centre, plus))) + kron(one, kron(line(minus, 0, plus), one))
            + kron(line(minus, 0, plus), kron(one, one)))


def poisson_3d(n):
    return star(n, -1, 6, -1)


def convection_diffusion_3d(n):
    a, b, inverse_h = 1 / 80, 0.57735026918962576, n + 1
    return star(n, -a * inverse_h**2 - b * inverse_h / 2, 6 * a * inverse_h**2, -a * inverse_h**2 + b * inverse_h / 2)


def generated(kind, n, make):
    return {"generate": {"kind": kind, "n": n}}, lambda: make(n)


def shipped_or_shared(folder, name):
    file = (folder / f"{name}.mtx.xz").resolve()

    def read():
        with lzma.open(file) as stream:
            return scipy.io.mmread(stream)

    return {"file": str(file)}, read


Run = collections.namedtuple("Run", "method tolerance settings", defaults=([],))
restart_1000 = ["solver.restart=1000", "solver.max_iterations=4000"]
few_steps = ["solver.restart=200", "solver.max_iterations=200"]
fewer_steps = ["solver.restart=60", "solver.max_iterations=60"]
deterministic_steps = 50
# The systems of formats that do not stand for their engine: one method each, on what is solved in a moment.
systems_of_all = {"default": ["poisson-3d", "convection-diffusion-3d", "bcsstk16", "fv2", "orsirr_1", "add20"],
                  "deterministic": ["add20", "G2_circuit"]}

# name, matrix, runs of the test, runs added by --full
CASES = [
    ("poisson-3d", generated("poisson-3d", 16, poisson_3d),
     [Run("cg", 1e-10), Run("bicgstab", 1e-8), Run("gmres", 1e-10)],
     [Run("fcg", 1e-10), Run("minres", 1e-10), Run("idr", 1e-8)]),
    ("convection-diffusion-3d", generated("convection-diffusion-3d", 16, convection_diffusion_3d),
     [Run("bicgstab~", 1e-8), Run("gmres", 1e-10)],
     [Run("fgmres", 1e-10), Run("bicgstab2~", 1e-8), Run("idr~", 1e-8)]),
    ("bcsstk16", shipped_or_shared(shipped, "bcsstk16"), [Run("cg", 1e-10)], [Run("fcg", 1e-10), Run("minres", 1e-8)]),
    ("fv2", shipped_or_shared(shipped, "fv2"), [Run("cg", 1e-10)], [Run("minres", 1e-8)]),
    ("orsirr_1", shipped_or_shared(shipped, "orsirr_1"), [Run("gmres", 1e-10)],
     [Run("fgmres", 1e-10), Run("bicgstab2~", 1e-8), Run("idr~", 1e-8)]),
    ("sherman4", shipped_or_shared(shipped, "sherman4"), [Run("bicgstab~", 1e-10)], []),
    ("add20", shipped_or_shared(shipped, "add20"), [Run("gmres", 1e-10), Run("bicgstab~", 1e-10)], []),
    ("G2_circuit", shipped_or_shared(shipped, "G2_circuit"), [Run("cg", 1e-6)],
     [Run("cg", 1e-8), Run("bicgstab~", 1e-8), Run("gmres", 1e-6)]),
    ("bcsstk17", shipped_or_shared(shared, "bcsstk17"), [Run("cg", 1e-8)],
     [Run("bicgstab~", 1e-6), Run("gmres", 1e-4)]),
    # Jacobi is too weak for this one. BiCGStab breaks down, GMRES needs restarts of 1000: the test compares 60
    # steps, --full goes to the tolerance.
    ("af23560", shipped_or_shared(shared, "af23560"), [Run("gmres", 1e-3, fewer_steps)],
     [Run("gmres", 1e-3, few_steps), Run("gmres", 1e-8, restart_1000), Run("bicgstab~", 1e-3)]),
]


def as_pbin(given, folder):
    """The matrix as a file that is mapped, not parsed, for the many solves to come."""
    if "file" not in given:
        return given
    path = pathlib.Path(folder) / "matrix.pbin"
    subprocess.run([protean, "convert", given["file"], path, "--quiet"], check=True)
    return {"file": str(path)}


def solve(folder, problem, settings, threads):
    path = folder / "p.yaml"
    path.write_text(json.dumps(problem))  # JSON is YAML
    for old in ("r.json", "x.mtx"):
        (folder / old).unlink(missing_ok=True)
    command = [protean, "solve", str(path), "--quiet", "--threads", str(threads)]
    for setting in settings:
        command += ["--set", setting]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        return run, None, None
    return run, json.loads((folder / "r.json").read_text()), scipy.io.mmread(folder / "x.mtx").ravel()


def compare(name, given, run_spec, mode, formats, matrix, b, direct, inverse_norm):
    """One method on one system in these formats: the solves, and the number of failures."""
    deterministic = mode == "deterministic"
    method, free_count = run_spec.method.rstrip("~"), run_spec.method.endswith("~") and not deterministic
    base, results, failures = None, [], 0
    few = deterministic and not full

    def solve_in(folder, number_and_id):
        number, id = number_and_id
        mine = folder / str(number)
        mine.mkdir()
        settings = [f"operator.format={id}", *run_spec.settings]
        if few:
            settings.append(f"solver.max_iterations={deterministic_steps}")
        return solve(mine, problem, settings, 1 + number % 2 if deterministic else 1)

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        problem = {
            "matrix": as_pbin(given, folder),
            "rhs": {"solution": "ones"},
            "solver": {"method": method, "relative_tolerance": run_spec.tolerance, "max_iterations": 20000,
                       **({"restart": 60} if method.endswith("gmres") else {})},
            "preconditioner": {"type": "jacobi"},
            "operator": {"format": "csr", "deterministic": deterministic, "space": space},
            "output": {"solution": "x.mtx", "report": "r.json"},
        }
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            solved = list(pool.map(lambda one: solve_in(folder, one), enumerate(formats)))
        for number, (id, (run, report, x)) in enumerate(zip(formats, solved)):
            threads = 1 + number % 2 if deterministic else 1
            if run.returncode == 3 and number == 0:  # csr
                print(f"skipped: no device: {run.stderr.strip()}")
                sys.exit(77)
            if report is None:
                refused = run.returncode == 2 and "refused" in run.stderr \
                    or "does not run in device memory" in run.stderr
                print(f"{name:12} {id:14} {run.stderr.strip()}")
                failures += not refused
                continue
            iterations, reason = report["iterations"], report["reason"]
            if base is None:
                base = iterations, reason, x
            residual = matrix @ x - b
            error = numpy.abs(x - direct).sum()
            bound = 2 * inverse_norm * numpy.abs(residual).sum() + 1e-13 * inverse_norm * numpy.abs(b).sum()
            claimed = report["residual"]["true_relative"]
            actual = numpy.linalg.norm(residual) / numpy.linalg.norm(b)
            # The matrices' own rounding error of b - A x.
            slack = 1e-14 * abs(matrix).dot(numpy.abs(x)).max() * numpy.sqrt(len(x)) / numpy.linalg.norm(b)
            converged = report["status"] == "converged"
            allowed = 0 if deterministic else 0.01 * base[0] + 2
            checks = {
                "iterations": free_count or abs(iterations - base[0]) <= allowed,
                "reason": reason == base[1] and (converged or few or name == "af23560"),
                "tolerance": not converged or actual <= run_spec.tolerance + slack,
                "residual": abs(actual - claimed) <= 0.01 * claimed + slack,
                "error": error <= bound,
                "mode": report["operator"]["deterministic"] == deterministic,
                "same x": not deterministic or x.tobytes() == base[2].tobytes(),
            }
            bad = [key for key, ok in checks.items() if not ok]
            failures += len(bad)
            results.append({"space": space, "system": name, "method": method, "tolerance": run_spec.tolerance,
                            "settings": run_spec.settings, "mode": mode, "format": id, "threads": threads,
                            "iterations": iterations, "reason": reason, "true_relative": claimed,
                            "error": float(error), "error_allowed": float(bound),
                            "x_as_first": x.tobytes() == base[2].tobytes(), "bad": bad})
            print(f"{name:12} {mode:13} {id:14} {method:9} {iterations:6} iterations, {reason}, residual "
                  f"{claimed:.2e} ({actual:.2e}), error {error:.2e} of {bound:.2e} allowed"
                  f"{'  BAD: ' + ', '.join(bad) if bad else ''}", flush=True)
    if results:
        counts = [r["iterations"] for r in results]
        print(f"{name:12} {mode:13} {method}: {len(counts)} formats, {min(counts)} to {max(counts)} iterations",
              flush=True)
    return results, failures


def write_table(path, solves):
    """Puts a line for each system and method between the two marks of a Markdown file."""
    def text(group):
        counts = [r["iterations"] for r in group]
        low, high = min(counts), max(counts)
        trouble = sorted({r["reason"] for r in group if not r["reason"].endswith("-tolerance")})
        return (str(low) if low == high else f"{low} to {high}") + (f" ({', '.join(trouble)})" if trouble else "")

    rows = {}
    for r in solves:
        key = r["system"], r["method"], r["tolerance"], tuple(r["settings"])
        rows.setdefault(key, {}).setdefault(r["mode"], []).append(r)
    order = {name: i for i, (name, *_) in enumerate(CASES)}
    lines = ["| system | method | tolerance | formats | iterations | iterations, deterministic | x, deterministic |",
             "|---|---|---|---|---|---|---|"]
    for (name, method, tolerance, settings), by_mode in sorted(rows.items(),
                                                               key=lambda row: (order[row[0][0]], row[0])):
        usual, fixed = by_mode.get("default"), by_mode.get("deterministic")
        shown = "".join(f", {s.split('.')[1].replace('_', ' ').replace('=', ' ')}" for s in settings)
        group = usual or fixed
        same = fixed and all(r["x_as_first"] for r in fixed)
        lines.append(f"| {name} | {method}{shown} | {tolerance:g} | {len(group)} | "
                     f"{text(usual) if usual else 'not run'} | {text(fixed) if fixed else 'not run'} | "
                     f"{'the same bits' if same else 'differs' if fixed else ''} |")
    begin, end = "<!-- table: compare_formats.py -->", "<!-- end of table -->"
    old = path.read_text()
    before, rest = old.split(begin)
    path.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1])


failures, solves = 0, []
catalogue = [f for f in json.loads(subprocess.check_output([protean, "formats", "--json"]))
             if (full or f["base"] is None or space == "device") and space in f["spaces"]]
if not catalogue:
    print("skipped: no device: this build has no GPU code")
    sys.exit(77)
first_of_engine = {}
for entry in catalogue:
    first_of_engine.setdefault(entry["engine"], entry["id"])


def formats_for(name, mode, is_first_run):
    every = full or is_first_run and name in systems_of_all[mode]
    return [f["id"] for f in catalogue if every or f["id"] in first_of_engine.values()]


for name, (given, make), runs, long_runs in CASES:
    if only and name not in only:
        continue
    if "file" in given and not pathlib.Path(given["file"]).exists():
        print(f"{name}: skipped, {given['file']} is not there")
        continue
    matrix = make().tocsc().astype(float)
    lu = scipy.sparse.linalg.splu(matrix)
    b = matrix @ numpy.ones(matrix.shape[0])
    direct = lu.solve(b)
    direct += lu.solve(b - matrix @ direct)
    # ||A^-1||_1 by estimation: ||x - x*|| <= ||A^-1|| ||r||.
    inverse = scipy.sparse.linalg.LinearOperator(
        matrix.shape, matvec=lu.solve, rmatvec=lambda v: lu.solve(v, "T"), dtype=float)
    inverse_norm = scipy.sparse.linalg.onenormest(inverse)
    for number, run_spec in enumerate(runs + (long_runs if full else [])):
        if methods and run_spec.method.rstrip("~") not in methods:
            continue
        for mode in modes:
            results, bad = compare(name, given, run_spec, mode, formats_for(name, mode, number == 0), matrix, b,
                                   direct, inverse_norm)
            solves += results
            failures += bad
            if option("json"):
                path = pathlib.Path(option("json"))
                key = operator.itemgetter("space", "system", "method", "tolerance", "settings", "mode")
                fresh = [key(r) for r in results]
                known = json.loads(path.read_text())["solves"] if path.exists() else []
                path.write_text(json.dumps({
                    "date": datetime.date.today().isoformat(), "numpy": numpy.__version__, "scipy": scipy.__version__,
                    "solves": [r for r in known if key(r) not in fresh] + results}, indent=1) + "\n")
if option("table"):
    write_table(pathlib.Path(option("table")), json.loads(pathlib.Path(option("json")).read_text())["solves"])
print(f"{len(solves)} solves, {failures} failures")
sys.exit(1 if failures or not solves and not option("table") else 0)
