#!/usr/bin/env python3
"""How long `protean compare` and `inspect` take and how fast a large page opens; prints Markdown.

    compare_limits.py PROTEAN [--threads N]

1. compare over all formats and kernels on a matrix of 5 million nonzeros, nothing left out.
2. inspect on the same matrix, in products of csr.
3. a page of 100 problems x 30 variants (a real page's data, repeated): its size, and the time Chromium takes to load it
   and draw, by the page's own clock (navigation start to the end of its script and the load event).
4. generate: nonzeros a second to .pbin, .mtx and .mtx.xz.
"""
import copy
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

protean = str(pathlib.Path(sys.argv[1]).resolve())
threads = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else str(os.cpu_count())
PROBLEM = """title: Poisson on a cube, 5 million nonzeros
matrix: {generate: {kind: poisson-3d, n: 90}}
solver: {method: cg, relative_tolerance: 1.0e-8}
preconditioner: {type: jacobi}
"""
PROBE = """<script>addEventListener("load", () => setTimeout(() => {
  const n = performance.getEntriesByType("navigation")[0], pre = document.createElement("pre");
  pre.id = "probe"; pre.textContent = JSON.stringify({load: n.loadEventEnd - n.startTime,
    rows: document.querySelectorAll("#table tbody tr").length,
    paths: document.querySelectorAll("#profile path").length});
  document.body.appendChild(pre); }, 0));</script></body>"""


def timed(*arguments):
    begin = time.perf_counter()
    subprocess.run([protean, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def repeated(page, problems, variants):
    """The page with its one problem's data taken many times, variants thinned as the command would thin them."""
    data = json.loads(re.search(r"^const data = (.*);$", page, re.M).group(1))
    points = max(8, min(300, 60000 // (problems * variants)))
    source = data["problems"][0]
    runs = []
    for i in range(variants):
        run = copy.deepcopy(source["runs"][i % len(source["runs"])])
        run["name"], run["i"] = f"{run['name']} {i}", i
        curve = run["curve"]
        run["curve"] = [curve[k * (len(curve) - 1) // (points - 1)] for k in range(min(points, len(curve)))]
        runs.append(run)
    data["problems"] = [{**source, "title": f"problem {k}", "runs": runs, "best": 0, "auto": 1}
                        for k in range(problems)]
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return re.sub(r"^const data = .*;$", lambda _: f"const data = {text};", page, flags=re.M)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        problem, report, page = folder / "p.yaml", folder / "r.json", folder / "p.html"
        problem.write_text(PROBLEM)
        print("| what | measured | limit |\n|---|---|---|")
        seconds = timed("compare", str(problem), "--formats", "all", "--report", str(report), "--html", str(page),
                        "--quiet",
                        "--threads", threads)
        result = json.loads(report.read_text())
        ran = [v for v in result["results"] if "iterations" in v]
        product = next(v for v in ran if v["format"] == "csr" and v["kernel"] == "native")["seconds"]["per_product"]
        print(f"| compare, {len({v['format'] for v in result['results']})} formats, {len(ran)} variants run, "
              f"{result['matrix']['nonzeros']} nonzeros, {threads} threads | {seconds:.0f} s | 120 s |")
        seen = json.loads(subprocess.run([protean, "inspect", str(problem), "--formats", "all", "--json",
                                          "--threads", threads],
                                         check=True, capture_output=True, text=True).stdout)
        print(f"| inspect on it, in products of csr ({product * 1e3:.2f} ms) | {seen['seconds'] / product:.0f} | 60 |")
        large = folder / "large.html"
        large.write_text(repeated(page.read_text(), 100, 30).replace("</body>", PROBE, 1))
        browser = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
        if browser:
            dom = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--timeout=10000",
                                  f"--user-data-dir={folder / 'profile'}", "--dump-dom", large.as_uri()],
                                 capture_output=True, text=True, timeout=120).stdout
            probe = json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S).group(1)))
            assert probe["rows"] == 30 and probe["paths"] == 30, probe
            opened = f"{probe['load'] / 1000:.2f} s"
        else:
            opened = "no Chromium here"
        print(f"| page of 100 problems x 30 variants: size | {large.stat().st_size / 1e6:.2f} MB | 2 MB |")
        print(f"| the same: opened in headless Chromium | {opened} | 2 s |")
        spec = folder / "g.yaml"
        for ending, rows in ((".pbin", 1000000), (".mtx", 500000), (".mtx.xz", 100000)):
            spec.write_text(f"matrix: {{generate: {{kind: artificial, n: {rows}, mean: 20, "
                            "deviation: 5, similarity: 0.8}}\n")
            rate = 20 * rows / timed("generate", str(spec), "-o", str(folder / f"g{ending}"), "--threads", threads)
            limit = "10 million" if ending == ".pbin" else ""
            print(f"| generate, nonzeros a second to {ending} | {rate / 1e6:.1f} million | {limit} |")


main()
