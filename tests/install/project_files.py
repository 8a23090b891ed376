#!/usr/bin/env python3
"""Files that are not compiled, in the tools for them: project_files.py SOURCE_FOLDER WORK_FOLDER

Workflow, issue forms and CITATION.cff are checked against their schemas, the workflow also for what is unsafe, the
Dockerfiles, the scripts of the shell and pyproject.toml by their linters, the recipes of Conan and conda are read by
these programs, and words are spelled correctly. Nothing is fetched and nothing is built. The linters are first given
something wrong, which they must refuse. Exit code 77: a tool of tests/install/requirements.txt, or shellcheck, is
missing.
"""
import os
import pathlib
import shutil
import subprocess
import sys

from checks import end, expect, make_empty, skip

source, work = (pathlib.Path(word).resolve() for word in sys.argv[1:])
os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
tools = ("check-jsonschema", "codespell", "conan", "hadolint", "shellcheck", "validate-pyproject", "zizmor")
missing = [tool for tool in tools if not shutil.which(tool)]
try:
    import rattler_build
except ImportError:
    missing.append("py-rattler-build")
if missing:
    skip(f"{', '.join(missing)} not installed (tests/install/requirements.txt)")
make_empty(work)
environment = {**os.environ, "CONAN_HOME": str(work / "conan"), "NO_COLOR": "1"}
accepted = 0


def check(name, words, files, wrong=None, said=""):
    """The tool accepts the files. It refuses a file with the text `wrong`, and says `said`."""
    global accepted
    files = [pathlib.Path(file) for file in files]
    expect(files, f"{name}: no file")

    def run(*paths):
        done = subprocess.run([*words, *map(str, paths)], cwd=source, env=environment, text=True, capture_output=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr

    if wrong is not None:
        path = work / name / files[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wrong)
        code, text = run(path)
        expect(code and said in text, f"{name} accepts {wrong!r}, or does not say '{said}': {text[-1000:]}")
    code, text = run(*files)
    expect(code == 0, f"{name}: {text[-4000:]}")
    accepted += len(files)
    print(f"{name}: {len(files)} {'file' if len(files) == 1 else 'files'}")


def found(*patterns):
    return sorted(path.relative_to(source) for pattern in patterns for path in source.glob(pattern))


def schema(name, files, wrong, said):
    check(name, ["check-jsonschema", "--builtin-schema", f"vendor.{name}"], files, wrong, said)


workflows = found(".github/workflows/*.yml")
schema("github-workflows", workflows, "on: push\njobs: {a: {run-on: x, steps: []}}\n", "run-on")
schema("github-issue-forms", [path for path in found(".github/ISSUE_TEMPLATE/*.yml") if path.name != "config.yml"],
       "name: a\ndescription: b\nbody: [{type: paragraph}]\n", "body")
schema("github-issue-config", [".github/ISSUE_TEMPLATE/config.yml"], "blank_issues: maybe\n", "blank_issues")
schema("citation-file-format", ["CITATION.cff"], "title: x\n", "authors")
check("zizmor", ["zizmor", "--offline", "--no-progress"], workflows,
      "on: push\njobs: {a: {runs-on: x, steps: [{uses: actions/checkout@v4}]}}\n", "unpinned-uses")
check("hadolint", ["hadolint"], found("cmake/packages/docker/Dockerfile*"), "FROM debian\nRUN cd /x\n", "DL3006")
check("validate-pyproject", ["validate-pyproject"], ["pyproject.toml"], "[project]\nversion = 1\n", "project")
check("shellcheck", ["shellcheck", "-S", "warning"],
      [".ci/run", *found("cmake/*.sh", "docs/**/*.sh", "research/**/*.sh", "tests/**/*.sh")],
      "#!/bin/sh\nif [ a == b ]; then :; fi\n", "SC3014")
listed = subprocess.run(["git", "-C", source, "ls-files", "-z"], text=True, capture_output=True, check=False)
if listed.returncode == 0:
    # Arguments are not what .codespellrc leaves out, so the root is the only one.
    check("codespell", ["codespell"], ["."])
    wrong = subprocess.run(["codespell", "-"], input="rec" + "ieve\n", text=True, capture_output=True, check=False)
    expect(wrong.returncode, "codespell accepts a misspelled word")

check("conan", ["conan", "export"], ["cmake/packages/conan"])
recipe = source / "cmake/packages/conda/recipe.yaml"
rendered = rattler_build.Stage0Recipe.from_file(str(recipe)).render(rattler_build.VariantConfig())
expect(rendered, "rattler-build renders nothing of the recipe for conda")
print(f"rattler-build: {recipe.name}")
end(f"{accepted + 1} files are accepted")
