#!/usr/bin/env python3
"""What a user of the command finds in an installed prefix: man pages, completion, documentation, problem files, schema.

installed_files.py PREFIX    the prefix of installed_consumer.py; exits with 77 if it is not there
"""
import pathlib
import re
import shutil
import subprocess
import sys

from checks import end, expect, run, skip

prefix = pathlib.Path(sys.argv[1])
if not prefix.is_dir():
    skip(f"there is no {prefix}")
protean = prefix / "bin" / "protean"
if not protean.is_file():
    skip("the command is not part of this build")

# Each command has a page, and a page says what the command's own help says.
commands = re.findall(r"^  ([a-z]+)  ", run(protean, "--help").split("Subcommands:")[1], re.MULTILINE)
expect(len(commands) >= 8, f"too few commands: {commands}")
manual = prefix / "share" / "man"
for name, section, words in [("protean", 1, []), ("protean-problem", 5, ["problem"]),
                             *((f"protean-{command}", 1, [command]) for command in commands)]:
    page = manual / f"man{section}" / f"{name}.{section}"
    if not page.is_file():
        expect(False, f"{page} is missing")
        continue
    expect(page.read_text() == run(protean, "help", "--man", *words), f"{page} is not what the command says")
    if shutil.which("groff"):
        shown = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou", "-ww", str(page)], capture_output=True, text=True,
                               check=False)
        expect(shown.returncode == 0 and not shown.stderr, f"{page}: {shown.stderr}")
        expect("NAME" in shown.stdout, f"{page} is empty")

completion = prefix / "share" / "bash-completion" / "completions" / "protean"
expect(completion.is_file(), f"{completion} is missing")
if completion.is_file() and shutil.which("bash"):
    words = subprocess.run(["bash", "-c", f". {completion}; COMP_WORDS=(protean comp); COMP_CWORD=1; _protean; "
                            "echo ${COMPREPLY[@]}"], capture_output=True, text=True, check=True).stdout
    expect(words == "compare\n", f"bash completes comp to {words!r}")
for shell, name in (("zsh", "zsh/site-functions/_protean"), ("fish", "fish/vendor_completions.d/protean.fish")):
    script = prefix / "share" / name
    expect(script.is_file(), f"{script} is missing")
    if script.is_file():
        expect(script.read_text() == run(protean, "help", "--completion", shell),
               f"{script} is not what the command says")
        if shutil.which(shell):
            subprocess.run([shell, "-n", str(script)], check=True)

# Editors find the schema of problem files from each installed one.
schema = prefix / "share" / "protean" / "protean.schema.json"
expect(schema.is_file() and schema.read_text() == run(protean, "schema"), f"{schema} is not what the command says")
files = sorted((prefix / "share" / "doc" / "Protean" / "problems").glob("*.yaml"))
expect(len(files) >= 15, f"too few problems: {len(files)}")
for problem in files:
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", problem.read_text())
    expect(named and (problem.parent / named[1]).resolve() == schema.resolve(),
           f"{problem} does not begin with a line that names {schema}")
programs = list(prefix.glob("share/doc/*/examples/how-to/*/solve.py"))
expect(programs, "the folders of the how-to have no programs")
expect(not list(prefix.glob("share/doc/*/docs/**/*.py")), "programs that make pages are installed")
expect((prefix / "share" / "protean" / "tables").is_dir(), "the folder of contributed machine tables is missing")

# Links between the installed documents lead somewhere; what is only in the sources is named here.
documents = prefix / "share" / "doc" / "Protean"
only_in_sources = ("benchmarks", "tests", "core", "operators", "formats", "solvers", "preconditioners", "distributed",
                   "apps", "research")
found = 0
for document in [documents / "README.md", documents / "problems" / "README.md", documents / "docs" / "formats.md",
                 documents / "docs" / "adaptive.md", documents / "docs" / "architecture.md"]:
    if not document.is_file():
        expect(False, f"{document} is missing")
        continue
    for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        target = (document.parent / link).resolve()
        inside = target.relative_to(documents.resolve()) if target.is_relative_to(documents.resolve()) else None
        if inside is None or inside.parts[:1] and inside.parts[0] in only_in_sources:
            continue
        found += 1
        expect(target.exists(), f"{document}: the link {link} leads nowhere")
expect(found > 5, "no links were checked")

problem = documents / "problems" / "trefethen-2000.yaml"
expect(problem.is_file(), f"{problem} is missing")
if problem.is_file():
    expect("converged" in run(protean, "solve", problem, "--threads", 1), f"{problem} is not solved")

end(f"{prefix}: {len(commands)} commands with man pages, {found} links")
