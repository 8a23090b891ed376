#!/usr/bin/env python3
"""What goes wrong on one rank of `protean solve`: all ranks end, with one message that names rank and reason, and
nothing is half written. faults.py FOLDER PROTEAN [--print]: with the seconds from the start, or from the kill, to the
end. Exit code 77: skipped."""
import os
import pathlib
import re
import shutil
import signal
import struct
import sys
import time

import ranks
from ranks import Run, check

folder, protean = pathlib.Path(sys.argv[1]).resolve(), str(pathlib.Path(sys.argv[2]).resolve())
ranks.skip_unless_built(folder)
work = folder / "faults"
shutil.rmtree(work, ignore_errors=True)
work.mkdir()
outputs = ["--solution", "x.mtx", "--report", "r.json"]


def ended(run, what, code, *parts, errors=1):
    message = run.errors[0] if run.errors else ""
    good = run.code == code and "it did not end" not in run.err and len(run.errors) == errors
    good = good and all(part in message for part in parts)
    left = [file.name for file in work.rglob("*") if file.name in ("x.mtx", "r.json") or file.name.endswith(".tmp")]
    check(good and not left, f"{what}: {message}", f"left {left}\n{run.told}")
    if "--print" in sys.argv:
        print(f"    exit code {run.code} after {run.seconds:.1f} s")


def write(name, text):
    (work / name).parent.mkdir(exist_ok=True)
    (work / name).write_text(text)


write("P.yaml", "matrix: {generate: {kind: poisson-2d, n: 40}}\nrhs: {value: 1}\n")
small = Run(0, protean, "generate", "P.yaml", "-o", "A.pbin", "--quiet", cwd=work)
check(small.code == 0, "write A.pbin", small.told)

# A file that only rank 0 sees.
for rank in range(3):
    write(f"rank{rank}/P.yaml", "matrix: {file: A.pbin}\n")
shutil.copy(work / "A.pbin", work / "rank0/A.pbin")
into = "cd rank$OMPI_COMM_WORLD_RANK"
ended(Run(3, protean, "solve", "P.yaml", before=into, cwd=work), "a matrix that only rank 0 sees", 2,
      "rank 1 of 3", "A.pbin")
shutil.copy(work / "A.pbin", work / "rank1/A.pbin")
(work / "rank2/P.yaml").unlink()
ended(Run(3, protean, "solve", "P.yaml", before=into, cwd=work), "a problem that rank 2 does not see", 2,
      "rank 2 of 3", "P.yaml")

# Other problems on other ranks.
write("Q.yaml", "matrix: {generate: {kind: poisson-2d, n: 41}}\nrhs: {value: 1}\n")
run = Run(0, protean, commands=[["solve", "P.yaml", *outputs], ["solve", "Q.yaml", *outputs]], cwd=work)
ended(run, "two problem files", 2, "rank 1 of 2", "the problem is not the same as on rank 0")

# Rows of rank 2 are damaged: a column out of range.
data = bytearray((work / "A.pbin").read_bytes())
entries = struct.unpack_from("<q", data, 40)[0]
columns = struct.unpack_from("<q", data, 56)[0]
struct.pack_into("<i", data, columns + 4 * (entries * 5 // 8), 1 << 30)
(work / "B.pbin").write_bytes(data)
ended(Run(4, protean, "solve", "B.pbin", *outputs, cwd=work), "damaged rows of rank 2", 2, "rank 2 of 4",
      "column 1073741824")

# A value that is another number, and as good as any: only the checksum of the file shows it.
data = bytearray((work / "A.pbin").read_bytes())
values = struct.unpack_from("<q", data, 64)[0]
struct.pack_into("<d", data, values + 8 * (entries * 5 // 8), 3.25)
(work / "C.pbin").write_bytes(data)
ended(Run(4, protean, "solve", "C.pbin", *outputs, cwd=work), "a changed value", 2, "C.pbin", "its values are damaged")

# The factors of one rank have a pivot that is zero: a diagonal entry is missing in its rows.
write("zero.mtx", "%%MatrixMarket matrix coordinate real general\n40 40 78\n"
      + "".join(f"{i} {i} 2\n" for i in range(1, 41) if i != 35)
      + "".join(f"{i} {i + 1} -1\n" for i in range(1, 40)))
ended(Run(4, protean, "solve", "zero.mtx", "--method", "gmres", "--preconditioner", "ilu0", *outputs, cwd=work),
      "no diagonal entry on rank 3", 2, "rank 3 of 4", "row 34")

# Nothing is read if an output cannot be written.
run = Run(2, protean, "solve", "P.yaml", "--solution", "missing/x.mtx", cwd=work)
ended(run, "a folder for the solution that is not there", 2, "missing")

# A rank that is killed in the middle of the solve. The method is gmres: the residual of its recurrence is computed
# anew at each restart, so that it stays where rounding leaves it. The residual of cg goes on to zero, and PETSc's cg
# ends there after 7,270 iterations, which a fast machine does in half a second.
write("long.yaml", "matrix: {generate: {kind: poisson-2d, n: 200}}\nrhs: {random: 1}\n"
      "solver: {method: gmres, relative_tolerance: 1.0e-300, absolute_tolerance: 0, max_iterations: 100000000, "
      "divergence: .inf}\n")


peaks = []


def kill_one(_):
    for _ in range(600):
        time.sleep(0.05)
        if (work / "h.csv").exists() and (work / "pid2").exists():
            break
    status = pathlib.Path("/proc", (work / "pid1").read_text().strip(), "status").read_text()
    peaks.append(int(re.search(r"VmPeak:\s+(\d+) kB", status)[1]))
    os.kill(int((work / "pid2").read_text()), signal.SIGKILL)


run = Run(3, protean, "solve", "long.yaml", "--history", "h.csv", *outputs, cwd=work, started=kill_one,
          before="echo $$ >pid$OMPI_COMM_WORLD_RANK")
ended(run, "rank 2 is killed", 137, errors=0)

# Ctrl-C: the terminal signals mpirun, which signals the ranks, or somebody signals a single rank. As on one rank the
# solve ends after an iteration, x and report are written, and the summary says so.
def interrupt(process, whom):
    for _ in range(600):
        time.sleep(0.05)
        if (work / "h.csv").exists() and (work / "pid1").exists():
            break
    time.sleep(0.3)
    os.kill(process.pid if whom == "mpirun" else int((work / "pid1").read_text()), signal.SIGINT)


for whom in ("rank 1", "mpirun"):
    for name in ("h.csv", "pid1"):
        (work / name).unlink(missing_ok=True)
    run = Run(3, protean, "solve", "long.yaml", "--history", "h.csv", *outputs, cwd=work,
              started=lambda process, whom=whom: interrupt(process, whom),
              before="echo $$ >pid$OMPI_COMM_WORLD_RANK")
    said = ranks.report(work / "r.json") if (work / "r.json").exists() else {}
    solution = ranks.vector(work / "x.mtx") if (work / "x.mtx").exists() else []
    good = said.get("reason") == "interrupted" and said.get("iterations", 0) > 0 and len(solution) == 40000
    good = good and "interrupted" in run.out and "it did not end" not in run.err
    good = good and (run.code == 130 if whom == "rank 1" else run.code != 0)
    check(good, f"Ctrl-C to {whom}: exit code {run.code} after {run.seconds:.1f} s",
          f"{said.get('reason')}\n{run.told}")
    for name in ("h.csv", "x.mtx", "r.json"):
        (work / name).unlink(missing_ok=True)

# A rank without memory for its rows. The matrix is generated by each rank, mapped, or read by rank 0 alone.
problem = ["poisson-3d", "--set", "matrix.generate.n=60"]
for file in ("rows.pbin", "rows.mtx"):
    check(Run(0, protean, "generate", *problem, "-o", file, "--quiet", cwd=work).code == 0, f"write {file}")
write("rows.yaml", "matrix: {generate: {kind: poisson-3d, n: 60}}\nrhs: {value: 1}\n")
largest = 4 << 20  # bytes; more than the libraries take at once, and less than the values of half the rows
refuse = f"LD_PRELOAD='{folder / 'libno_memory.so'}' PROTEAN_TEST_LARGEST_BLOCK={largest}"
for given in ("rows.yaml", "rows.pbin", "rows.mtx"):
    for limit, rank in ((0, 1), (1, 1), (1, 0)):
        before = f'if [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then export {refuse}; fi' if limit else ""
        run = Run(2, protean, "solve", given, *outputs, "--set", "operator.format=csr", before=before, cwd=work)
        if limit:
            ended(run, f"rank {rank} without memory for {given}", 3, f"rank {rank} of 2", "memory")
        else:
            check(run.code == 0, f"{given} with memory", run.told)
            for name in ("x.mtx", "r.json"):
                (work / name).unlink(missing_ok=True)

# A rank without memory: a small solve has shown how much the program and its MPI take.
write("large.yaml", "matrix: {generate: {kind: poisson-3d, n: 90}}\nrhs: {value: 1}\n"
      "solver: {method: gmres, restart: 100}\noperator: {format: csr}\n")
# Less room would be too little for MKL, if the build has it; MKL ends the process when it cannot be loaded.
run = Run(2, protean, "solve", "large.yaml", *outputs, cwd=work,
          before=f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then ulimit -v {peaks[0] + 160 * 1024}; fi')
ended(run, "rank 1 without memory while solving", 3, "rank 1 of 2", "memory")
ranks.finish()
