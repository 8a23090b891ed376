#!/usr/bin/env python3
"""`protean solve` on several ranks against one rank: solve_on_ranks.py FOLDER PROTEAN PART. Exit code 77: skipped."""
import shutil

import ranks
from ranks import Run, begin, check, report, same, vector

folder, protean, part, work, solve = begin("solve")


def close(a, b):
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 1e-6 * max(map(abs, b))


def write(name, text):
    (work / name).write_text(text)


def systems():
    write("P.yaml", "matrix: {generate: {kind: poisson-2d, n: 60}}\nsolver: {method: cg}\n"
          "preconditioner: {type: jacobi}\nrhs: {solution: {random: 3}}\n")
    for file in ("A.mtx", "A.pbin"):
        done = Run(0, protean, "generate", work / "P.yaml", "-o", work / file, "--quiet")
        check(done.code == 0, f"write {file}", done.told)
    one, run = solve(0, "--solution", work / "one.mtx")
    check(run.code == 0, "one rank, engine protean", run.told)
    alone, run = solve(0, "--set", "engine=petsc")
    check(run.code == 0 and same(alone, one, 1) and alone["engine"]["name"] == "petsc" and alone["ranks"]["count"] == 1,
          "one rank without mpirun, engine petsc", run.told)
    for count in (2, 3, 4, 8):
        for source in ("{generate: {kind: poisson-2d, n: 60}}", "{file: A.pbin}", "{file: A.mtx}"):
            if count in (3, 8) and "mtx" in source:
                continue
            found, run = solve(count, "--set", f"matrix={source}", "--solution", work / "x.mtx")
            by_rank = found.get("ranks", {}).get("by_rank", [])
            entries = [rank["nonzeros"] for rank in by_rank]
            check(run.code == 0 and same(found, one, 1) and close(vector(work / "x.mtx"), vector(work / "one.mtx")),
                  f"{count} ranks, matrix {source}", run.told)
            check([rank["rank"] for rank in by_rank] == list(range(count)) and sum(entries) == one["matrix"]["nonzeros"]
                  and max(entries) - min(entries) <= 10
                  and found["ranks"]["sent_by_a_product"] == {"bytes": 2 * 8 * 60 * (count - 1),
                                                              "messages": 2 * (count - 1)},
                  f"{count} ranks share entries equally and send the rows of neighbours", (entries, found.get("ranks")))
    # By parts into another kind of file.
    solve(3, "--solution", work / "x.npy")
    data = (work / "x.npy").read_bytes()
    import struct
    numbers = struct.unpack(f"<{3600}d", data[-3600 * 8:])
    check(data.startswith(b"\x93NUMPY") and close(numbers, vector(work / "one.mtx")), "a .npy file by parts")
    # Another owner of each row; the solution keeps the order of the file.
    write("parts.txt", "".join(f"{(7 * i // 11) % 3}\n" for i in range(3600)))
    for partition in ("graph", "{file: parts.txt}"):
        found, run = solve(3, "--set", f"partition={partition}", "--solution", work / "x.mtx")
        check(run.code == 0 and same(found, one, 1) and close(vector(work / "x.mtx"), vector(work / "one.mtx")),
              f"partition {partition}", run.told)
    rows = {rank["rank"]: rank["rows"] for rank in found["ranks"]["by_rank"]}
    expected = {k: sum((7 * i // 11) % 3 == k for i in range(3600)) for k in range(3)}
    check(rows == expected, "rows as the file says", rows)
    # Right-hand side and guess from files, which rank 0 reads.
    write("b.mtx", "%%MatrixMarket matrix array real general\n3600 1\n"
          + "".join(f"{(i % 17) - 8.5}\n" for i in range(3600)))
    expected, run = solve(0, "--set", "rhs={file: b.mtx}", "--solution", work / "one.mtx")
    found, run = solve(4, "--set", "rhs={file: b.mtx}", "--solution", work / "x.mtx")
    check(run.code == 0 and close(vector(work / "x.mtx"), vector(work / "one.mtx")), "rhs of a file", run.told)
    found, run = solve(2, "--set", "rhs={file: b.mtx}", "--set", "initial_guess={file: one.mtx}")
    check(run.code == 0 and found["iterations"] <= 2, "an initial guess that is the solution", run.told)
    # Few rows.
    write("small.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 1 4\n2 2 5\n3 3 6\n1 2 1\n2 1 1\n")
    found, run = solve(4, "--set", "matrix={file: small.mtx}")
    check(run.code == 0 and found["status"] == "converged" and min(r["rows"] for r in found["ranks"]["by_rank"]) == 0,
          "more ranks than rows", run.told)
    # Summary and explanation.
    run = Run(4, protean, "solve", work / "P.yaml", "--explain")
    check(run.code == 0 and "largest over mean" in run.out and "rank 3, diagonal block" in run.out
          and run.out.count("  status ") == 1, "one summary, and an explanation of each rank", run.told)
    run = Run(2, protean, "solve", work / "P.yaml", "--set", "solver.max_iterations=3", "--report", work / "r.json")
    check(run.code == 1 and report(work / "r.json")["reason"] == "max-iterations", "exit code 1, not converged",
          run.told)


def shifted(n):
    """A symmetric positive definite matrix whose factors without fill have negative pivots: Kershaw's matrices of
    four rows, coupled with the next ones, and rows of very different sizes."""
    scale = [10.0 ** (i % 5 - 2) for i in range(n)]
    entries = {(i, i): 3.15 for i in range(n)}
    for k in range(0, n, 4):
        entries.update({(k + 1, k): -2.0, (k + 2, k + 1): -2.0, (k + 3, k + 2): -2.0, (k + 3, k): 2.0})
    entries.update({(i, i - 4): -0.1 for i in range(4, n)})
    lines = [f"{i + 1} {j + 1} {value * scale[i] * scale[j]!r}\n" for (i, j), value in sorted(entries.items())]
    return f"%%MatrixMarket matrix coordinate real symmetric\n{n} {n} {len(lines)}\n" + "".join(lines)


def methods():
    write("P.yaml", "matrix: {generate: {kind: convection-diffusion-3d, n: 12}}\nsolver: {method: gmres}\n"
          "preconditioner: {type: jacobi}\nrhs: {solution: {random: 3}}\n")
    for method, M in (("gmres", "ilu0"), ("fgmres", "gauss-seidel"), ("bicgstab", "ilu"), ("bicgstab2", "jacobi")):
        one, _ = solve(0, "--method", method, "--preconditioner", M)
        found, run = solve(2, "--method", method, "--preconditioner", M)
        # Factors and sweeps belong to the blocks of the ranks, so there are a few more iterations. PETSc counts the two
        # products of a step of bicgstab2 as two iterations.
        slack = one["iterations"] * (1 if method == "bicgstab2" else 0.6) + 4
        check(run.code == 0 and same(found, one, slack),
              f"{method}, {M}: {found.get('iterations')} iterations, {one['iterations']} on one rank", run.told)
    spd = ["--set", "matrix={generate: {kind: poisson-3d, n: 14}}"]
    for method, M in (("cg", "none"), ("cg", "ssor"), ("cg", "ic0"), ("cg", "chebyshev"), ("fcg", "amg"),
                      ("minres", "jacobi")):
        one, _ = solve(0, *spd, "--method", method, "--preconditioner", M)
        found, run = solve(2, *spd, "--method", method, "--preconditioner", M)
        check(run.code == 0 and same(found, one, 0.6 * one["iterations"] + 6),
              f"{method}, {M}: {found.get('iterations')} iterations, {one['iterations']} on one rank", run.told)
    # Factors that need a shift: on one rank the same as without PETSc, on two the factors of the blocks, and a note
    # says so.
    write("shifted.mtx", shifted(700))
    shift = ["--set", "matrix={file: shifted.mtx}", "--method", "cg"]
    for M in ("ic0", "ic", "block-jacobi"):
        one, run = solve(0, *shift, "--preconditioner", M)
        alone, run = solve(1, *shift, "--preconditioner", M, "--set", "engine=petsc")
        check(run.code == 0 and same(alone, one, 2) and alone["engine"]["pc_type"] == f"protean {M}"
              and "note" not in alone,
              f"{M} on one rank: {alone.get('iterations')} iterations, {one['iterations']} without PETSc", run.told)
        check(M != "ic0" or one["preconditioner"]["shift"] > 0, "ic0 needs a shift", one["preconditioner"])
        found, run = solve(2, *shift, "--preconditioner", M)
        check(run.code == 0 and same(found, one, 2 * one["iterations"] + 6)
              and "rows of each rank" in found.get("note", ""),
              f"{M} on two ranks: {found.get('iterations')} iterations", run.told)
    found, run = solve(2, *shift, "--set", "petsc_options=-pc_type bjacobi -sub_pc_type icc", "--preconditioner", "ic0")
    check(found["engine"]["pc_type"] == "bjacobi" and "rows of each rank" not in found.get("note", ""),
          "PETSc's own factors by petsc_options", run.told)
    # The setup counts. The advice names what this engine has.
    for M in ("ic0", "jacobi"):
        found, run = solve(2, *shift, "--preconditioner", M, "--set", "solver.max_seconds=0")
        check(run.code == 1 and found["reason"] == "time-limit" and found["iterations"] <= 1,
              f"{M}: no time for setup and iterations", run.told)
    found, run = solve(2, *shift, "--set", "solver.max_iterations=3")
    check(found["reason"] == "max-iterations" and "rows of their own rank" in found["advice"],
          "the advice is that of this engine", found.get("advice"))
    found, run = solve(2, "--set", "petsc_options=-ksp_type tfqmr -pc_type asm")
    check(run.code == 0 and found["engine"]["ksp_type"] == "tfqmr" and found["engine"]["pc_type"] == "asm",
          "methods of PETSc's by petsc_options", run.told)
    check("note" not in found, "all options were used", found.get("note"))
    found, run = solve(2, "--set", "petsc_options=-ksp_tpye tfqmr")
    check(run.code == 0 and found["engine"]["ksp_type"] == "gmres" and "-ksp_tpye" in found.get("note", ""),
          "a misspelt option of PETSc's is named", run.told)
    for option, part in (("solver.method=idr", "cg, fcg, minres"), ("preconditioner.type=spai0", "jacobi"),
                         ("matrix.order=rcm", "partition: graph"), ("operator.deterministic=true", "engine petsc"),
                         ("output.fields=f.mtx", "take fields or auto"),
                         ("schedule=[{at_iteration: 2, format: ell}]", "policy: auto"),
                         ("partition=grph", "Did you mean 'graph'"),
                         ("rhs={random: 1, columns: 3}", "one right-hand side"),
                         ("preconditioner={type: chebyshev, degree: 0}", "degree")):
        _, run = solve(2, "--set", option)
        check(run.code == 2 and len(run.errors) == 1 and part in run.errors[0], f"refused: {option}", run.told)


def elements():
    for physics, degree in (("poisson", 1), ("elasticity", 1), ("poisson", 3)):
        n = 8 if degree == 1 else 4
        write("P.yaml",
              f"matrix: {{generate: {{kind: fem-hex, n: {n}, degree: {degree}, physics: {physics}, "
              "distortion: 0.05}}\n"
              "solver: {method: cg}\npreconditioner: {type: jacobi}\nrhs: {solution: {random: 3}}\n")
        element = ["--set", "matrix.generate.storage=element"]
        one, run = solve(0)
        for count in (1, 2, 3, 4):
            assembled, run = solve(count, "--set", "engine=petsc", "--solution", work / "assembled.mtx")
            check(run.code == 0 and same(assembled, one, 1), f"{physics}, degree {degree}, {count} ranks, assembled",
                  run.told)
            found, run = solve(count, "--set", "engine=petsc", *element, "--solution", work / "element.mtx")
            # Sums in another order round in another way.
            check(run.code == 0 and abs(found["iterations"] - assembled["iterations"]) <= 2
                  and close(vector(work / "element.mtx"), vector(work / "assembled.mtx"))
                  and sum(rank["elements"] for rank in found["ranks"]["by_rank"]) == n ** 3,
                  f"{physics}, degree {degree}, {count} ranks, element matrices: {found.get('iterations')} iterations",
                  run.told)
    _, run = solve(2, *element, "--set", "preconditioner.type=ic0")
    check(run.code == 2 and len(run.errors) == 1 and "jacobi" in run.errors[0], "ic0 needs the assembled matrix",
          run.told)


def without():
    """The command without its program for ranks."""
    alone = work / "bin" / "protean"
    alone.parent.mkdir()
    shutil.copy(protean, alone)
    write("P.yaml", "matrix: {generate: {kind: poisson-2d, n: 10}}\n")
    for count, more in ((2, []), (0, ["--set", "engine=petsc"])):
        run = Run(count, alone, "solve", work / "P.yaml", *more)
        check(run.code == 3 and len(run.errors) == 1 and "petsc-dev" in run.errors[0]
              and f"make install PREFIX={work}`" in run.errors[0],
              f"no protean-ranks, {count} ranks", run.told)
    run = Run(0, alone, "solve", work / "P.yaml")
    check(run.code == 0, "one rank needs it not", run.told)


{"systems": systems, "methods": methods, "elements": elements, "without": without}[part]()
ranks.finish()
