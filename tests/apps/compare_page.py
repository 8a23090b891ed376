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
  const $ = id => document.getElementById(id);
  const heads = () => [...document.querySelectorAll("#table th")].map(th => th.textContent);
  const rows = () => [...document.querySelectorAll("#table tbody tr:not(.family)")];
  const column = name => rows().map(tr => tr.cells[heads().indexOf(name)].textContent);
  const click = name => document.querySelectorAll("#table th button")[heads().indexOf(name)].click();
  const set = (id, name, value) => { $(id)[name] = value; $(id).dispatchEvent(new Event("input")); };
  // The smallest scale at which a picture is shown, and by how much the page and the table are too wide.
  const layout = () => ({
    scale: Math.min(...[...document.querySelectorAll("svg")].map(
      e => e.getBoundingClientRect().width / e.viewBox.baseVal.width)),
    page: document.body.scrollWidth - document.body.clientWidth,
    table: $("table").scrollWidth - $("table").parentElement.clientWidth});
  const out = {first: heads(), shown: rows().length, layout: layout(), window: window.innerWidth};
  // The verdict if all is clear, if nothing is, and if no solve was finished.
  const kept_problem = JSON.stringify(shown_problem), verdict = change => {
    const p = JSON.parse(kept_problem);
    change(p), problem(p);
    return [$("verdict").textContent, $("others").textContent];
  };
  const fastest = p => p.runs.find(r => r.i === p.best);
  out.clear = verdict(p => { p.ties = []; fastest(p).saved = fastest(p).name === "csr" ? null : true; });
  out.tied = verdict(p => { p.ties = p.runs.filter(r => r.i !== p.best).map(r => r.i); fastest(p).saved = false; });
  out.cut = verdict(p => { p.runs = [], p.best = -1, p.auto = -1, p.ties = [];
    p.cut = [["slow", 2e-3, 1e-3, "left out"], ["fast", 1e-3, 1e-3, "left out"]]; });
  problem(JSON.parse(kept_problem));
  if (!$("more").hidden) { out.more = $("more").textContent; $("more").click(); }
  out.rows = rows().length;
  set("wide", "checked", true);
  out.columns = heads();
  click("B/nnz"); out.up = column("B/nnz").map(Number);
  click("B/nnz"); out.down = column("B/nnz").map(Number);
  click("format"); out.names = column("format");
  set("grouped", "checked", true);
  out.families = [...document.querySelectorAll("#table tr.family")].map(tr => tr.textContent);
  out.grouped = column("family");
  set("grouped", "checked", false);
  set("find", "value", "csr"); out.found = column("format");
  set("find", "value", "no such format"); out.nothing = rows().length;
  set("find", "value", "");
  set("family", "value", out.families[0]); out.family = column("family"); set("family", "value", "");
  out.bars = document.querySelectorAll("#bars rect").length;
  out.bytes = document.querySelectorAll("#bytes rect").length;
  out.curves = document.querySelectorAll("#curves polyline").length;
  out.roof = document.querySelectorAll("#roof circle").length;
  out.profile = document.querySelectorAll("#profile path").length;
  out.regret = document.querySelectorAll("#regret rect").length;
  out.suite = !$("suite").hidden;
  if (out.suite) { const before = $("title").textContent; $("problem").value = "1";
    $("problem").onchange({target: $("problem")});
    out.changed = before !== $("title").textContent; }
  // Names in the roofline, of formats that are equally fast, too: the number of pairs that cover each other.
  const covered = () => {
    const boxes = [...document.querySelectorAll("#roof text.name")].map(e => e.getBoundingClientRect());
    let pairs = 0;
    boxes.forEach((a, i) => boxes.slice(0, i).forEach(b => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2) ++pairs; }));
    return [boxes.length, pairs];
  };
  out.named = [covered()];
  const kept = JSON.stringify(shown_problem.runs), runs = shown_problem.runs;
  for (const at of [0, runs.length - 1]) {
    for (const r of runs) { r.moved = runs[at].moved; r.product = runs[at].product; }
    draw(shown_problem), out.named.push(covered());
  }
  // Two groups side by side, from near to far: names of one reach into the other.
  const moved = runs[0].moved;
  ranked(shown_problem).forEach((r, i) => { r.group = i % 2; r.name += " with-a-long-name"; });
  for (let factor = 1.02; factor < 4; factor *= 1.1) {
    for (const r of runs) r.moved = moved * (r.group ? factor : 1);
    draw(shown_problem), out.named.push(covered());
  }
  shown_problem.runs = JSON.parse(kept);
  // As on a telephone.
  set("wide", "checked", false);
  document.body.style.maxWidth = "400px";
  if (out.suite) suite();
  draw(shown_problem);
  out.narrow = layout();
  out.requests = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  out.errors = window.errors;
  const pre = document.createElement("pre"); pre.id = "probe"; pre.textContent = JSON.stringify(out);
  document.body.appendChild(pre);
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
         f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--window-size=1200,900", "--dump-dom",
         copy.as_uri()],
        capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="probe">(.*?)</pre>', result.stdout, re.S)
    assert match, "the page's script did not come to its end\n" + result.stderr[-2000:]
    return json.loads(html.unescape(match.group(1)))


def check(seen, suite):
    assert seen["errors"] == [], seen["errors"]
    assert seen["requests"] == [], seen["requests"]
    assert seen["rows"] >= 5, seen
    assert "solves it fastest" in seen["clear"][0] and "No clear difference" not in seen["clear"][0], seen["clear"]
    assert "No clear difference between" in seen["tied"][0] and "times as fast" not in seen["tied"][0], seen["tied"]
    assert seen["cut"][0] == "No solve was finished. The fastest product has fast.", seen["cut"]
    assert seen["cut"][1].index("fast: product") < seen["cut"][1].index("slow: product"), seen["cut"]
    # What a user came for is there at once and fits; if there are many formats, the fastest ones.
    assert seen["first"][:7] == ["format", "total", "solve", "conversion", "setup", "iterations",
                                 "break-even"], seen["first"]
    assert seen["window"] == 1200 and seen["layout"]["table"] <= 0 and seen["layout"]["page"] <= 0, seen["layout"]
    assert seen["shown"] <= 24 and (seen["shown"] < seen["rows"]) == ("more" in seen), seen
    # Text in a picture has the size of text, in a narrow window too.
    assert seen["layout"]["scale"] > 0.99 and seen["narrow"]["scale"] > 0.99 and seen["narrow"]["page"] <= 0, seen
    for column in ("format", "B/nnz", "B/nnz predicted", "stored", "padding", "conversion", "in products", "product",
                   "GFLOPS", "% of copy", "effective GB/s", "minimum GB/s", "iterations", "true residual",
                   "s/iteration",
                   "setup", "solve", "total", "break-even", "family", "same bits"):
        assert column in seen["columns"], (column, seen["columns"])
    assert seen["grouped"] == sorted(seen["grouped"]), seen["grouped"]
    assert seen["families"] == sorted(set(seen["grouped"])), seen["families"]
    assert set(seen["family"]) == {seen["families"][0]}, seen["family"]
    assert seen["found"] and all("csr" in name for name in seen["found"]) and seen["nothing"] == 0, seen["found"]
    assert seen["up"] == sorted(seen["up"]) and len(set(seen["up"])) > 1, seen["up"]
    assert seen["down"] == sorted(seen["down"], reverse=True), seen["down"]
    assert seen["names"] == sorted(seen["names"]), seen["names"]
    assert seen["bars"] == 3 * seen["rows"], seen
    assert seen["bytes"] == seen["roof"] == seen["rows"], seen
    assert seen["curves"] >= 5, seen
    assert all(names >= 6 and covered == 0 for names, covered in seen["named"]), seen["named"]
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
            subprocess.run([command, "compare", problem, "--html", page, "--quiet", "--budget", "40",
                            "--formats", "all",
                            "--kernels", "native"], check=True, timeout=300)
            check(probe(browser, page, folder), several)
    print("the page works: sorted by a click, all plots there, no error, no network")
    return 0


if __name__ == "__main__":
    sys.exit(main())
