#!/usr/bin/env python3
"""`protean solve` on several ranks with engine protean against one rank: own_on_ranks.py FOLDER PROTEAN PART. Exit code
77: skipped."""
import os
import signal
import time

import ranks
from ranks import Run, begin, check, report, vector

folder, protean, part, work, solve = begin("own")


def same(found, expected, slack=0):
    return ranks.same(found, expected, slack) and found.get("engine") == {"name": "protean"}


def close(a, b):
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 1e-6 * max(map(abs, b))


def write(name, text):
    (work / name).write_text(text)


def systems():
    write("P.yaml", "matrix: {generate: {kind: poisson-2d, n: 60}}\nsolver: {method: cg}\n"
          "preconditioner: {type: jacobi}\nrhs: {solution: {random: 3}}\nengine: protean\n")
    for file in ("A.mtx", "A.pbin"):
        done = Run(0, protean, "generate", work / "P.yaml", "-o", work / file, "--quiet")
        check(done.code == 0, f"write {file}", done.told)
    one, run = solve(0, "--solution", work / "one.mtx")
    check(run.code == 0, "one rank", run.told)
    for count in (2, 3):
        for source in ("{generate: {kind: poisson-2d, n: 60}}", "{file: A.pbin}", "{file: A.mtx}"):
            found, run = solve(count, "--set", f"matrix={source}", "--solution", work / "x.mtx")
            by_rank = found.get("ranks", {}).get("by_rank", [])
            check(run.code == 0 and same(found, one, 2) and close(vector(work / "x.mtx"), vector(work / "one.mtx")),
                  f"{count} ranks, matrix {source}", run.told)
            check([rank["rank"] for rank in by_rank] == list(range(count))
                  and sum(rank["nonzeros"] for rank in by_rank) == one["matrix"]["nonzeros"]
                  and found["ranks"]["sent_by_a_product"] == {"bytes": 2 * 8 * 60 * (count - 1),
                                                              "messages": 2 * (count - 1)}
                  and [block["format"] for block in by_rank[0]["blocks"]] == ["csr", "csr"]
                  and all(rank["seconds"]["products"] > 0 for rank in by_rank),
                  f"{count} ranks share entries and send the rows of neighbours", found.get("ranks"))
    # The same bits from run to run.
    texts = []
    for _ in range(3):
        _, run = solve(3, "--solution", work / "x.mtx")
        texts.append((work / "x.mtx").read_bytes())
    check(texts[0] == texts[1] == texts[2], "three runs have the same bits")
    # Another owner of each row; the solution keeps the order of the file. Rank 0 of the last one has no rows.
    write("parts.txt", "".join(f"{(7 * i // 11) % 3}\n" for i in range(3600)))
    write("last.txt", "".join(f"{1 + i % 2}\n" for i in range(3600)))
    for partition in ("graph", "{file: parts.txt}", "{file: last.txt}"):
        found, run = solve(3, "--set", f"partition={partition}", "--solution", work / "x.mtx")
        check(run.code == 0 and same(found, one, 2) and close(vector(work / "x.mtx"), vector(work / "one.mtx")),
              f"partition {partition}", run.told)
    check(found["ranks"]["by_rank"][0]["rows"] == 0, "rank 0 without rows", found["ranks"])
    # Right-hand side and guess from files, which rank 0 reads.
    write("b.mtx", "%%MatrixMarket matrix array real general\n3600 1\n"
          + "".join(f"{(i % 17) - 8.5}\n" for i in range(3600)))
    expected, run = solve(0, "--set", "rhs={file: b.mtx}", "--solution", work / "one.mtx")
    found, run = solve(3, "--set", "rhs={file: b.mtx}", "--solution", work / "x.mtx")
    check(run.code == 0 and close(vector(work / "x.mtx"), vector(work / "one.mtx")), "rhs of a file", run.told)
    found, run = solve(2, "--set", "rhs={file: b.mtx}", "--set", "initial_guess={file: one.mtx}")
    check(run.code == 0 and found["iterations"] <= 2, "an initial guess that is the solution", run.told)
    # Few rows, and finite elements.
    write("small.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 4\n1 1 4\n2 2 5\n1 2 1\n2 1 1\n")
    for M in ("none", "jacobi", "ic0", "block-jacobi", "chebyshev", "amg"):
        found, run = solve(3, "--set", "matrix={file: small.mtx}", "--preconditioner", M)
        check(run.code == 0 and found["status"] == "converged"
              and min(r["rows"] for r in found["ranks"]["by_rank"]) == 0, f"more ranks than rows, {M}", run.told)
    fem = ["--set", "matrix={generate: {kind: fem-hex, n: 8}}"]
    expected, _ = solve(0, *fem)
    found, run = solve(3, *fem)
    check(run.code == 0 and same(found, expected, 2), "finite elements, assembled", run.told)
    # Summary, and the exit code of a solve that does not converge.
    run = Run(2, protean, "solve", work / "P.yaml", "--explain")
    check(run.code == 0 and "largest over mean" in run.out and run.out.count("  status ") == 1, "one summary", run.told)
    run = Run(2, protean, "solve", work / "P.yaml", "--set", "solver.max_iterations=3", "--report", work / "r.json")
    check(run.code == 1 and report(work / "r.json")["reason"] == "max-iterations", "exit code 1, not converged",
          run.told)
    run = Run(2, protean, "solve", work / "P.yaml", "--quiet", "--history", work / "h.csv", "--report", work / "r.json")
    lines = (work / "h.csv").read_text().splitlines()
    check(run.code == 0 and len(lines) == report(work / "r.json")["iterations"] + 2, "the history of rank 0", run.told)


def methods():
    write("P.yaml", "matrix: {generate: {kind: convection-diffusion-3d, n: 12}}\nsolver: {method: gmres}\n"
          "preconditioner: {type: jacobi}\nrhs: {solution: {random: 3}}\nengine: protean\noperator: {format: csr}\n")
    spd = ["--set", "matrix={generate: {kind: poisson-3d, n: 14}}"]
    for method, M, more in (("gmres", "ilu0", []), ("fgmres", "gauss-seidel", []), ("bicgstab", "ilu", []),
                            ("bicgstab2", "jacobi", []), ("idr", "block-jacobi", []), ("cg", "none", spd),
                            ("cg", "ssor", spd), ("cg", "ic0", spd), ("fcg", "chebyshev", spd),
                            ("cg", "amg", spd), ("bicgstab", "amg", []),
                            ("minres", "jacobi", spd), ("auto", "auto", []), ("auto", "auto", spd)):
        one, _ = solve(0, *more, "--method", method, "--preconditioner", M)
        found, run = solve(2, *more, "--method", method, "--preconditioner", M)
        check(run.code == 0 and same(found, one, 0.6 * one["iterations"] + 6),
              f"{method}, {M}: {found.get('iterations')} iterations, {one['iterations']} on one rank", run.told)
        blocks = M in ("ilu0", "gauss-seidel", "ilu", "block-jacobi", "ssor", "ic0")
        check(("rows of each rank" in found.get("note", "")) == blocks, f"{M}: the note", found.get("note"))
        if method == "auto":
            check(found["solver"]["chosen"] == one["solver"]["chosen"], "auto takes the same method", found["solver"])
    for form in ("ell", "sell-packed", "bcsr", "coo"):
        found, run = solve(2, *spd, "--method", "cg", "--format", form)
        check(run.code == 0 and found["operator"]["format"] == form and found["status"] == "converged",
              f"format {form}", run.told)
    # Options of the solve, and the time.
    ring = [f"{i} {j} {v}\n" for i in range(1, 301) for j, v in ((i, 2), (i % 300 + 1, -1), ((i - 2) % 300 + 1, -1))]
    write("ring.mtx", f"%%MatrixMarket matrix coordinate real general\n300 300 {len(ring)}\n" + "".join(ring))
    pure = ["--set", "matrix={file: ring.mtx}", "--method", "cg", "--set", "solver.null_space=constant"]
    one, _ = solve(0, *pure)
    found, run = solve(3, *pure)
    check(run.code == 0 and abs(found["iterations"] - one["iterations"]) <= 3, "a constant null space", run.told)
    for M in ("ic0", "jacobi"):
        found, run = solve(2, *spd, "--method", "cg", "--preconditioner", M, "--set", "solver.max_seconds=0")
        check(run.code == 1 and found["reason"] == "time-limit" and found["iterations"] <= 1,
              f"{M}: no time for setup and iterations", run.told)
    found, run = solve(2, *spd, "--method", "cg", "--set", "operator.deterministic=true")
    check(run.code == 0 and found["operator"]["deterministic"], "deterministic", run.told)


def refused():
    write("P.yaml", "matrix: {generate: {kind: poisson-2d, n: 20}}\nengine: protean\n"
          "solver: {method: cg}\npreconditioner: {type: jacobi}\n")
    for option, *parts in (("preconditioner.type=spai0", "spai0 is not served over several ranks", "chebyshev"),
                           ("preconditioner={type: amg, smoother: gauss-seidel}", "several ranks", "l1-jacobi"),
                           ("preconditioner={type: composition, parts: [{type: jacobi}, {type: ic0}]}", "composition"),
                           ("matrix.order=rcm", "order of the rows", "partition graph"),
                           ("schedule=[{at_iteration: 2, format: ell}]", "a schedule"),
                           ("schedule={policy: auto}", "a policy"), ("partition=grph", "Did you mean 'graph'"),
                           ("rhs={random: 1, columns: 3}", "one right-hand side"),
                           ("operator.space=device", "operator.devices"), ("petsc_options=-ksp_view", "engine: petsc"),
                           ("operator.expected_iterations=50", "expected_iterations"),
                           ("matrix.generate={kind: fem-hex, n: 4, storage: element}", "assembled")):
        _, run = solve(2, "--set", option)
        check(run.code == 2 and len(run.errors) == 1 and all(one in run.errors[0] for one in parts)
              and (f"--set {option}" in run.errors[0] or "P.yaml" in run.errors[0]), f"refused: {option}", run.told)
    run = Run(2, protean, "solve", work / "P.yaml", "--checkpoint", "1", "--solution", work / "x.mtx")
    check(run.code == 2 and "--checkpoint" in run.err, "refused: --checkpoint", run.told)
    _, run = solve(0, "--set", "partition=graph")
    check(run.code == 2 and "operator.devices" in run.err and "mpirun" in run.err, "a partition on one rank", run.told)


def faults():
    """What goes wrong on one rank: all end, with one message that names it, and nothing is half written."""
    outputs = ["--solution", "x.mtx", "--report", "r.json", "--set", "engine=protean"]

    def ended(run, what, code, *parts, errors=1):
        message = run.errors[0] if run.errors else ""
        good = run.code == code and "it did not end" not in run.err and len(run.errors) == errors
        left = [file.name for file in work.rglob("*") if file.name in ("x.mtx", "r.json") or file.suffix == ".tmp"]
        check(good and all(one in message for one in parts) and not left, f"{what}: {message}",
              f"left {left}\n{run.told}")

    # A pivot that is zero on rank 3.
    write("zero.mtx", "%%MatrixMarket matrix coordinate real general\n40 40 78\n"
          + "".join(f"{i} {i} 2\n" for i in range(1, 41) if i != 35)
          + "".join(f"{i} {i + 1} -1\n" for i in range(1, 40)))
    for M in ("ilu0", "jacobi"):
        ended(Run(4, protean, "solve", "zero.mtx", "--method", "gmres", "--preconditioner", M, *outputs, cwd=work),
              f"no diagonal entry on rank 3, {M}", 2, "rank 3 of 4", "row")
    # A format that refuses the rows of one rank alone.
    n, lines = 400, []
    for i in range(1, n + 1):
        other = i % 200 + 1 if i <= 200 else 37 * i * i % 200 + 201
        lines += [f"{i} {i} 4\n"] + ([f"{i} {other} 1\n"] if other != i else [])
    write("far.mtx", f"%%MatrixMarket matrix coordinate real general\n{n} {n} {len(lines)}\n" + "".join(lines))
    ended(Run(2, protean, "solve", "far.mtx", "--method", "gmres", "--format", "dia", *outputs,
              cwd=work), "a format that the rows of rank 1 do not fit", 2,
          "rank 1 of 2", "'dia' refused")
    write("long.yaml", "matrix: {generate: {kind: poisson-2d, n: 200}}\nrhs: {random: 1}\nengine: protean\n"
          "preconditioner: {type: none}\n"
          "solver: {method: gmres, relative_tolerance: 1.0e-300, absolute_tolerance: 0, max_iterations: 100000000, "
          "divergence: .inf, stagnation_window: 0}\n")

    def interrupt(process, whom, number):
        for _ in range(600):
            time.sleep(0.05)
            if (work / "h.csv").exists() and (work / "pid1").exists():
                break
        time.sleep(0.3)
        os.kill(process.pid if whom == "mpirun" else int((work / "pid1").read_text()), number)

    ended(Run(3, protean, "solve", "long.yaml", "--history", "h.csv", *outputs, cwd=work,
              started=lambda process: interrupt(process, "rank 1", signal.SIGKILL),
              before="echo $$ >pid$OMPI_COMM_WORLD_RANK"), "rank 1 is killed", 137, errors=0)
    for name in ("h.csv", "pid1"):
        (work / name).unlink(missing_ok=True)
    run = Run(3, protean, "solve", "long.yaml", "--history", "h.csv", *outputs, cwd=work,
              started=lambda process: interrupt(process, "rank 1", signal.SIGINT),
              before="echo $$ >pid$OMPI_COMM_WORLD_RANK")
    said = report(work / "r.json") if (work / "r.json").exists() else {}
    check(said.get("reason") == "interrupted" and said.get("iterations", 0) > 0 and run.code == 130
          and "interrupted" in run.out and len(vector(work / "x.mtx")) == 40000,
          f"Ctrl-C to rank 1: exit code {run.code} after {run.seconds:.1f} s", f"{said.get('reason')}\n{run.told}")
    for name in ("h.csv", "x.mtx", "r.json"):
        (work / name).unlink(missing_ok=True)
    # A rank without memory in the middle of the setup of gmres, and for its blocks.
    write("large.yaml", "matrix: {generate: {kind: poisson-3d, n: 60}}\nrhs: {value: 1}\nengine: protean\n"
          "solver: {method: gmres, restart: 100}\noperator: {format: csr}\npreconditioner: {type: jacobi}\n")
    refuse = f"LD_PRELOAD='{folder / 'libno_memory.so'}' PROTEAN_TEST_LARGEST_BLOCK={32 << 20}"
    ended(Run(2, protean, "solve", "large.yaml", *outputs, cwd=work,
              before=f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then export {refuse}; fi'),
          "rank 1 without memory for the basis", 3, "rank 1 of 2", "memory")


{"systems": systems, "methods": methods, "refused": refused, "faults": faults}[part]()
ranks.finish()
