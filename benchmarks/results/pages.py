"""The tables in the pages of docs/results."""
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys

from results.common import RESULTS, ROOT, TABLES

PLACE = re.compile(r"^<!-- made by: (.+?) -->\n.*?^<!-- end -->$", re.M | re.S)


def made(command):
    """What the command of a page prints, or the reason why it cannot be run."""
    script, *words = shlex.split(command)
    if script == "tables.py":
        text, before = io.StringIO(), os.getcwd()
        os.chdir(RESULTS)
        try:
            with contextlib.redirect_stdout(text):
                TABLES[words[0]](words[1:])
        finally:
            os.chdir(before)
        return text.getvalue()
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / script, *words], cwd=RESULTS, text=True,
                          capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return done.stdout


def write_pages(check):
    """Writes the tables of all pages again; with check returns the places whose table does not fit its data."""
    stale = []
    for page in sorted(RESULTS.glob("*.md")):
        text = page.read_text()

        def again(place):
            table_of_it = re.sub(r"\n{3,}", "\n\n", made(place[1]).strip("\n"))
            new = f"<!-- made by: {place[1]} -->\n{table_of_it}\n<!-- end -->"
            if new != place[0]:
                stale.append(f"{page.name}: {place[1]}")
            return new

        new = PLACE.sub(again, text)
        if new != text and not check:
            page.write_text(new)
    return stale
