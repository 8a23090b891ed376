#!/usr/bin/env python3
"""Opens the page of `protean compare` in headless Chromium: a click sorts the table, every plot is there, the
console has no error, nothing is asked of a network. Skipped (exit 77) without Chromium.

usage: compare_page.py PROTEAN SOURCE_FOLDER"""
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROBE = """
<script>
(() => {
  const numbers = () => [...document.querySelectorAll("#table tbody tr")].map(tr => tr.cells[1].textContent).map(Number);
  const heads = () => [...document.querySelectorAll("#table th")].map(th => th.textContent);
  const click = i => document.querySelectorAll("#table th button")[i].click();
  const out = {rows: numbers().length, columns: heads()};
  click(1); out.up = numbers();
  click(1); out.down = numbers();
  click(0); out.names = [...document.querySelectorAll("#table tbody tr")].map(tr => tr.cells[0].textContent);
  out.bars = document.querySelectorAll("#bars rect").length;
  out.bytes = document.querySelectorAll("#bytes rect").length;
  out.curves = document.querySelectorAll("#curves polyline").length;
  out.roof = document.querySelectorAll("#roof circle").length;
  out.profile = document.querySelectorAll("#profile path").length;
  out.regret = document.querySelectorAll("#regret rect").length;
  out.suite = !document.getElementById("suite").hidden;
  const choose = document.getElementById("problem");
  if (out.suite) { const before = document.getElementById("title").textContent; choose.value = "1"; choose.onchange({target: choose});
    out.changed = before !== document.getElementById("title").textContent; }
  out.requests = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  out.errors = window.errors;
  const pre = document.createElement("pre"); pre.id = "probe"; pre.textContent = JSON.stringify(out); document.body.appendChild(pre);
})();
</script></body>"""
CATCH = "<head><script>window.errors = []; window.onerror = m => { window.errors.push(m); };" \
        "const old = console.error; console.error = (...a) => { window.errors.push(a.join(' ')); old(...a); };</script>"


def probe(browser, page, folder):
    text = page.read_text().replace("<head>", CATCH, 1).replace("</body>", PROBE, 1)
    copy = folder / "probe.html"
    copy.write_text(text)
    result = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
         f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="probe">(.*?)</pre>', result.stdout, re.S)
    assert match, "the page's script did not come to its end\n" + result.stderr[-2000:]
    return json.loads(html.unescape(match.group(1)))


def check(seen, suite):
    assert seen["errors"] == [], seen["errors"]
    assert seen["requests"] == [], seen["requests"]
    assert seen["rows"] >= 5, seen
    for column in ("format", "B/nnz", "B/nnz predicted", "stored", "padding", "conversion", "in products", "product",
                   "GFLOPS", "% of copy", "effective GB/s", "minimum GB/s", "iterations", "true residual", "s/iteration",
                   "setup", "solve", "total", "break-even", "same bits"):
        assert column in seen["columns"], (column, seen["columns"])
    assert seen["up"] == sorted(seen["up"]) and len(set(seen["up"])) > 1, seen["up"]
    assert seen["down"] == sorted(seen["down"], reverse=True), seen["down"]
    assert seen["names"] == sorted(seen["names"]), seen["names"]
    assert seen["bars"] == 3 * seen["rows"], seen
    assert seen["bytes"] == seen["roof"] == seen["rows"], seen
    assert seen["curves"] >= 5, seen
    assert seen["suite"] == suite
    if suite:
        assert seen["profile"] >= 5 and seen["regret"] >= 1 and seen["changed"], seen


def main():
    browser = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
    if not browser:
        print("skipped: no Chromium to open the page with")
        return 77
    command, source = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        problems = source / "problems"
        for problem, several in ((problems / "fv2.yaml", False), (problems / "suites" / "small.yaml", True)):
            page = folder / "page.html"
            subprocess.run([command, "compare", problem, "--html", page, "--quiet", "--budget", "40", "--formats", "all",
                            "--kernels", "native"], check=True, timeout=300)
            check(probe(browser, page, folder), several)
    print("the page works: sorted by a click, all plots there, no error, no network")
    return 0


if __name__ == "__main__":
    sys.exit(main())
