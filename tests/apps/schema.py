#!/usr/bin/env python3
"""The schema of `protean schema` in the validator that users have.

usage: schema.py PROTEAN SOURCE

PROTEAN: the command. SOURCE: the sources, whose problem files must be valid and must name the schema of the build.
Problem files that are wrong must fail with a message that names the place, and the command must refuse them, too. Exit
code 77: this Python has no jsonschema or no PyYAML."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing} (tests/interfaces/python/requirements.txt names it)")
    sys.exit(77)


class Loader(yaml.SafeLoader):
    """Numbers and words as YAML 1.2 has them, and editors: 1e-8 is a number, yes and off are words."""


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", r"[-+]?[0-9]+", "-+0123456789"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)", "-+.0123456789"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""])):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$"), list(first))
Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value.replace(".inf", "inf")))

# What is wrong, the path that the validator must name, and a word that its message must have.
WRONG = [
    ("matrix: {file: A.mtx}\nsolvr: {method: cg}", "$", "solvr"),
    ("solver: {method: cg}", "$", "matrix"),
    ("matrix: {file: A.mtx, oder: rcm}", "$.matrix", "oder"),
    ("matrix: A.mtx", "$.matrix", "object"),
    ("matrix: {generate: {kind: poisson-4d}}", "$.matrix.generate.kind", "poisson-4d"),
    ("matrix: {generate: {kind: poisson-2d, epsilon_x: 1}}", "$.matrix.generate", "epsilon_x"),
    ("matrix: {generate: {kind: poisson-2d, n: 0}}", "$.matrix.generate.n", "minimum"),
    ("matrix: {file: A.mtx}\nsolver: {method: cgg}", "$.solver.method", "cgg"),
    ("matrix: {file: A.mtx}\nsolver: {method: cg, restart: 5}", "$.solver", "restart"),
    ("matrix: {file: A.mtx}\nsolver: {relative_tolerance: 1}", "$.solver.relative_tolerance", "maximum"),
    ("matrix: {file: A.mtx}\nsolver: {relative_tolerance: small}", "$.solver.relative_tolerance", "small"),
    ("matrix: {file: A.mtx}\nsolver: {max_iterations: 1.5}", "$.solver.max_iterations", "1.5"),
    ("matrix: {file: A.mtx}\npreconditioner: {type: jacobi, smoother: chebyshev}", "$.preconditioner", "smoother"),
    ("matrix: {file: A.mtx}\npreconditioner: {type: composition}", "$.preconditioner", "parts"),
    ("matrix: {file: A.mtx}\npreconditioner: {type: composition, parts: [{type: ic0, drop: 1}]}",
     "$.preconditioner.parts[0]", "drop"),
    ("matrix: {file: A.mtx}\noperator: {format: sell}\nschedule: [{at_iteration: 3}]", "$.schedule[0]", "at_iteration"),
    ("matrix: {file: A.mtx}\noperator: {format: sell-c-sigma, parameters: {C: -1}}", "$.operator.parameters.C", "-1"),
    ("matrix: {file: A.mtx}\noperator: {format: ell, parts: []}", "$.operator.parts", "parts|False|\\[\\]"),
    ("matrix: {file: A.mtx}\noperator: {space: gpu}", "$.operator.space", "gpu"),
    ("matrix: {file: A.mtx}\noperator: {deterministic: 3}", "$.operator.deterministic", "3"),
    ("matrix: {file: A.mtx}\nrhs: {value: 1, random: 2}", "$.rhs", "value"),
    ("matrix: {file: A.mtx}\ninitial_guess: ones", "$.initial_guess", "ones"),
    ("matrix: {file: A.mtx}\noutput: {solution: [x.mtx]}", "$.output.solution", "x.mtx"),
]


def errors_of(validator, text):
    """(path, message) of each error, the innermost ones."""
    found = []

    def collect(error):
        found.append((error.json_path, error.message))
        for inner in error.context or []:
            collect(inner)

    for error in validator.iter_errors(yaml.load(text, Loader)):
        collect(error)
    return found


def main():
    command, source = sys.argv[1], pathlib.Path(sys.argv[2])
    schema = json.loads(subprocess.run([command, "schema"], check=True, capture_output=True, text=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failures = []
    problems = sorted((source / "problems").glob("*.yaml"))
    how_to = sorted((source / "examples/how-to").glob("*/problem.yaml"))
    texts = {str(path.relative_to(source)): path.read_text() for path in [*problems, *how_to]}
    pages = [source / "README.md", *sorted((source / "docs").rglob("*.md")),
             *sorted((source / "problems").glob("*.md"))]
    for page in pages:  # whole problems that the pages show
        for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)):
            try:
                value = yaml.load(block, Loader)
            except yaml.YAMLError:
                continue
            if isinstance(value, dict) and "matrix" in value and "suite" not in value:
                texts[f"{page.relative_to(source)}, block {number + 1}"] = block
    for name, text in texts.items():
        failures += [f"{name}: {path}: {message}" for path, message in errors_of(validator, text)]
    # Problems name the schema of the build, and those of folders that are downloaded one that lies next to them.
    for files, schema_file in ((problems, "../build/cpu-release/protean.schema.json"), (how_to, "protean.schema.json")):
        for path in files:
            first = path.read_text().split("\n", 1)[0]
            if first != f"# yaml-language-server: $schema={schema_file}":
                failures.append(f"{path}: the first line does not name the schema {schema_file}: {first}")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "A.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2\n")
        for text, path, word in WRONG:
            found = errors_of(validator, text)
            if not any(at == path and re.search(word, message) for at, message in found):
                failures.append(f"{text!r}: no error at {path} about {word}: {found}")
            (pathlib.Path(folder) / "p.yaml").write_text(text)
            done = subprocess.run([command, "solve", "p.yaml"], cwd=folder, capture_output=True, text=True)
            if done.returncode != 2:
                failures.append(f"{text!r}: `protean solve` ends with {done.returncode}")
    print(f"{len(texts)} problems are valid, {len(WRONG)} are wrong")
    sys.exit("\n".join(failures) if failures else 0)


main()
