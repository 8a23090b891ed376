#!/usr/bin/env python3
"""Tables of benchmarks/tables.py for a few invented measurements whose figures are known: families.py ROOT"""
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile


def product(name, time, size=0, right=True):
    return {"name": name, "ours": size > 0, "right": right, "microseconds": time, "bytes": size,
            "convert_microseconds": 30}


def file(benchmark, matrices):
    return {"benchmark": benchmark, "machine": {"date": "2026-01-01T00:00:00Z", "commit": "abc"},
            "matrices": [{"matrix": name, "nonzeros": 100, "products": products}
                         for name, products in matrices.items()]}


def main(root):
    script = pathlib.Path(root) / "benchmarks/tables.py"
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def run(*names):
            files = [str(folder / name) for name in names]
            done = subprocess.run([sys.executable, script, "families", *files, "--tables"], capture_output=True,
                                  text=True)
            return done.returncode, done.stdout + done.stderr

        def check(what, fact):
            if not fact:
                failures.append(what)

        def row(text, name):
            return next((line for line in text.splitlines() if line.startswith(f"| {name} |")), "")

        def write(name, *arguments):
            (folder / name).write_text(json.dumps(file(*arguments)))

        # bdia is compared with dia, blsi is said to be slower than hyb, pjds is compared with ellpack-r, which is not
        # there.
        write("new.json", "gpu_spmv", {"pde200": [product("cusparse csr 1", 5), product("csr", 10, 1200),
                                                  product("bdia", 5, 800),
                                                  product("hyb", 10, 1200), product("blsi", 20, 1600)]})
        write("old.json", "gpu_spmv", {
            "pde200": [product("cusparse csr 1", 5), product("csr", 20, 1200), product("dia", 10, 800),
                       product("bdia", 4, 800),
                       product("csr-scalar", 40, 1200), product("csr-vector", 30, 1200), product("cds", 25, 2400)],
            "wave": [product("cusparse csr 1", 5), product("csr", 10, 1200), product("pjds", 8, 1200),
                     product("hdi", 1, 1, right=False)]})
        code, text = run("new.json", "old.json")
        check("runs", code == 0)
        # Of bdia's two times the one of the first file counts: 5 of 10, beside dia with 10 of 20 of the other file.
        check("first file", "| even: dia 1.00 (1) | stencils (1) | 2.00 (2.00 to 2.00) | 1.00 |" in row(text, "bdia"))
        code, turned = run("old.json", "new.json")
        check("other order", "**yes**: dia 2.50 (1)" in row(turned, "bdia"))
        check("slower is what was said", "**yes**: hyb 0.50 (1)" in row(text, "blsi"))
        check("no baseline", "baseline not measured: ellpack-r" in row(text, "pjds"))
        check("not measured", "| not measured |" in row(text, "bellpack"))
        check("a wrong product is left out", "not measured" in row(text, "hdi"))
        check("kernels of 2008", "kernels of 2008, by these means (1): cds 1.20." in text)
        check("size", "cds 0.80, 0.50" in text)
        # A mean figure that is not reached: 1.25 beside hyb, on matrices of varying lengths.
        write("less.json", "gpu_spmv", {"wave": [product("cusparse csr 1", 5), product("csr", 10, 1),
                                                 product("hyb", 11, 1),
                                                 product("csr-ell-matam", 10, 1)]})
        check("by less", "| by less: hyb 1.10 (1) |" in row(run("less.json")[1], "csr-ell-matam"))
        # A host's file has seconds, and other libraries; a claim about GPUs is not compared.
        host = file("spmv", {"hpcg47": [
            {"name": name, "ours": ours, "right": True, "seconds_min": time, "bytes": 1200, "convert_seconds": 0.5}
            for name, ours, time in
            (("csr", True, 0.02), ("dia", True, 0.01), ("csr (mkl)", True, 0.001), ("sell-c-sigma", True, 0.025),
             ("mkl csr", False, 0.03),
             ("eigen row-major", False, 0.04))]})
        (folder / "host.json").write_text(json.dumps(host))
        code, text = run("host.json")
        check("host", code == 0 and "to MKL there | to Eigen there" in text)
        check("host: claims about GPUs", "not compared: its source measured GPUs | stencils (1) | 2.00 (2.00 to 2.00) "
              "| 3.00 | 4.00 | 1.00 |" in row(text, "dia"))
        check("host: claims about any machine", "| no: csr 0.80 (1) |" in row(text, "sell-c-sigma"))
        code, text = run("host.json", "new.json")
        check("two benchmarks", code != 0 and "must all be of one" in text)
        # The same from a compressed file, and two runs in one file.
        both = {"runs": {name: json.loads((folder / f"{name}.json").read_text()) for name in ("new", "old")}}
        (folder / "both.json.xz").write_bytes(lzma.compress(json.dumps(both).encode()))
        code, again = run("both.json.xz")
        check("compressed", code == 0 and row(again, "bdia") == row(run("new.json", "old.json")[1], "bdia"))
        check("one run", row(run("both.json.xz:new")[1], "bdia") == row(run("new.json")[1], "bdia"))
    for what in failures:
        print("FAILED:", what)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
