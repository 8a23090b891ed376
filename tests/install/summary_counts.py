#!/usr/bin/env python3
"""Checks that tests/summary.py counts right, also what died, timed out or was skipped: summary_counts.py SUMMARY"""
import pathlib
import subprocess
import sys
import tempfile

JUNIT = """<?xml version="1.0"?><testsuite>
<testcase name="plain" status="run"><system-out>Test Passed.</system-out></testcase>
<testcase name="bad" status="fail"><failure message=""/></testcase>
<testcase name="skips" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>a
skipped: no luck
</system-out></testcase>
<testcase name="absent" status="notrun"><skipped message="Unable to find executable"/></testcase>
<testcase name="off" status="disabled"/>
<testcase name="cases" status="fail"><failure message=""/></testcase>
<testcase name="died-late" status="fail"><failure message=""/></testcase>
<testcase name="died-early" status="fail"><failure message=""/></testcase>
<testcase name="empty" status="run"/>
<testcase name="pytest" status="fail"><failure message=""/></testcase>
</testsuite>"""
CASES = """<testsuites><testsuite>
<testcase classname="A" name="passes" status="run"/>
<testcase classname="A" name="skips" status="run"><skipped message="here.cpp:7&#x0A;no luck"/></testcase>
<testcase classname="A" name="fails" status="run"><failure message="x"/></testcase>
<testcase classname="A" name="filtered" status="notrun"/>
<testcase classname="A" name="sees-a-refusal" status="run"><properties><property name="refused" value="too long"/>
</properties></testcase>
</testsuite></testsuites>"""
PYTEST = """<testsuites><testsuite>
<testcase classname="P" name="passes" time="0.1"/>
<testcase classname="P" name="must-fail" time="0.1"><skipped type="pytest.xfail" message="complex numbers"/></testcase>
<testcase classname="P" name="must-fail-and-passes" time="0.1"><failure message="[XPASS(strict)]"/></testcase>
<testcase classname="P" name="not-set-up" time="0.1"><error message="failed on setup"/></testcase>
<testcase classname="P" name="skips" time="0.0"><skipped type="pytest.skip" message="no luck">/p.py:7: no luck</skipped>
</testcase>
<testcase classname="" name="file" time="0.0"><skipped message="collection skipped">('/p.py', 7, 'Skipped: no file')
</skipped></testcase>
</testsuite></testsuites>"""
GOOD = """<testsuite><testcase name="plain" status="run"/>
<testcase name="gpu" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>skipped: no device: no GPU
</system-out></testcase></testsuite>"""
PASSES = '<testsuites><testsuite><testcase classname="B" name="passes" status="run"/></testsuite></testsuites>'

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    (folder / "ctest.junit").write_text(JUNIT)
    (folder / "cases.xml").write_text(CASES)
    (folder / "died-late.xml").write_text(PASSES)
    (folder / "pytest.xml").write_text(PYTEST)
    (folder / "empty.xml").write_text("<testsuites/>")
    def summary(*options):
        return subprocess.run([sys.executable, sys.argv[1], folder, folder / "ctest.junit", *options], text=True,
                              capture_output=True)
    run = summary()
    # One that passes, one skipped for want of a device, and none that fails.
    (folder / "ctest.junit").write_text(GOOD)
    strict = {reason: summary("--allow-skips", reason) for reason in ("^no device", "device$", "^no luck", "[")}
    loose = summary()
print(run.stdout, run.stderr)
lines = run.stdout.splitlines()
expected = {
    "the counts": lines[-1] == "5 passed, 8 failed, 5 skipped, 1 saw only a refusal",
    "the exit status": run.returncode == 1,
    "one reason for three": "skipped (3): no luck" in lines and "    skips, A.skips, P.skips" in lines,
    "a file that is skipped": "skipped (1): no file" in lines,
    "who failed": [line for line in lines if line.startswith("failed: ")] == [
        "failed: bad", "failed: absent", "failed: A.fails", "failed: died-late (it failed outside its tests)",
        "failed: died-early", "failed: empty (it has no test)", "failed: P.must-fail-and-passes",
        "failed: P.not-set-up"],
    "skips that are allowed": loose.returncode == 0 and strict["^no device"].returncode == 0
        and "must not" not in strict["^no device"].stdout,
    "skips that are not": all(strict[reason].returncode == 1
                              and "must not be skipped (1): no device: no GPU" in strict[reason].stdout
                              for reason in ("device$", "^no luck")),
    "a wrong expression": strict["["].returncode == 2,
}
print(expected)
sys.exit(0 if all(expected.values()) else 1)
