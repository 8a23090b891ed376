"""Writes docs/results/drawn-mutants.md from the results of drawn mutants. Standard library only."""
import collections
import json
import pathlib

# Why a mutant that survived changes nothing that a caller can see, or why no test sees it: written by hand after
# looking at each one. {"id": {"equivalent": true or false, "reason": "...", "gpu": true}}; gpu: what it changes runs
# on a GPU only. A result may have "since", the test that was written later and kills it, or, of an open one, "later", a
# test that kills it, chosen or written after that run.
REASONS = pathlib.Path(__file__).resolve().parent / "drawn" / "reasons.json"


KINDS = ("killed", "killed since", "killed later", "change nothing", "GPU only", "survived", "open")
KILLED = KINDS[:3]


def share(killed: int, of: int) -> str:
    return f"{killed} of {of}" + (f" ({100 * killed / of:.1f} %)" if of else "")


def cell(text: str) -> str:
    short = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return short if len(short) <= 110 else short[:107] + "..."


def kind_of(result: dict, reason: dict) -> str:
    if result["status"] == "killed":
        return "killed"
    if "since" in result or "later" in result:
        return "killed since" if "since" in result else "killed later"
    if reason.get("equivalent"):
        return "change nothing"
    if reason.get("gpu"):
        return "GPU only"
    return "open" if result["status"] == "open" and not reason else "survived"


def killer(result: dict) -> str:
    return cell(result["by"]) + (f" ({result['how']})" if result["how"] != "failed" else "")


def row_of(result: dict, last) -> str:
    row = (f"| {result['id']} | `{result['file']}:{result['line']}` | `{cell(result['original'])}` | "
           f"`{cell(result['mutated'])}` |")
    return row if last is None else f"{row} {last} |"


def report(arguments, document, mutants) -> int:
    results = json.loads(arguments.results.read_text())
    rows = {r["id"]: r for r in results["mutants"]}
    reasons = json.loads(REASONS.read_text()) if REASONS.exists() else {}
    rows = [rows[m.id] for m in sorted(mutants, key=lambda m: m.id) if m.id in rows][:document["wanted"]]
    kinds = {r["id"]: kind_of(r, reasons.get(str(r["id"]), {})) for r in rows}
    table = []
    for room in [*sorted({r["room"] for r in rows}), None]:
        mine = collections.Counter(kinds[r["id"]] for r in rows if room in (None, r["room"]))
        killed = sum(mine[kind] for kind in KILLED)
        table.append(f"| {room or '**all**'} | {mine.total()} | " + " | ".join(str(mine[kind]) for kind in KINDS)
                     + f" | {share(killed, killed + mine['survived'])} |")
    verdicts = document["verdicts"]
    all_kinds = collections.Counter(kinds.values())
    killed = sum(all_kinds[kind] for kind in KILLED)
    judged = killed + all_kinds["survived"]
    at_first = all_kinds["killed"]
    if_open_survived = (f" If also all {all_kinds['open']} open ones survived, it would be "
                        f"{share(killed, judged + all_kinds['GPU only'] + all_kinds['open'])}."
                        if all_kinds["open"] else "")
    lines = [
        "# Mutants drawn by a program", "",
        f"Lines of code changed by the rules of universalmutator {document['universalmutator']}, drawn with the seed "
        f"{document['seed']}: {len(rows)} valid mutants. Of {judged} that change what the code does on a host and were "
        f"judged, the tests kill **{share(killed, judged)}**. In the first run, whose time was limited, they killed "
        f"{at_first}. With mutants that need a GPU counted as survivors it is "
        f"{share(killed, judged + all_kinds['GPU only'])}.{if_open_survived} Mutants written by hand are in "
        "[mutants.md](mutants.md).", "",
        f"{results['date']}, the list of the rules' mutants is of commit {document['commit']}, draw and run of commit "
        f"{results['commit']} on {results['processors']} processors; build for the CPU without optional libraries. "
        "`tests/mutants/README.md` says how to run it again.", *results.get("notes", []), "",
        "- *killed*: by the tests of that commit;",
        "- *killed since*: survived, and fails a test that was written for it since, or a build with AddressSanitizer "
        "(named below);",
        "- *change nothing*: no caller can see it; the reason is given below;",
        "- *GPU only*: the code, or what the change does to it, runs with a GPU only, which this build has not;",
        "- *survived*: passes all tests that run its code;",
        "- *killed later*: there was no time for all of its tests in that run; a test that was chosen or written for "
        "it kills it (named below);",
        "- *open*: as before, but none of the chosen tests kills it, or none was tried: neither killed nor survived.",
        "",
        "| room | mutants | " + " | ".join(KINDS) + " | killed of those that change something and were judged |",
        "|---" * (len(KINDS) + 3) + "|", *table, "",
        "## How they were drawn", "",
        f"The rules make {document['mutants_of_lines']} mutants of lines in these rooms ("
        + ", ".join(f"{room} {n}" for room, n in document["by_room"].items()) + "). Dropped before: "
        + ", ".join(f"{what} {n}" for what, n in document["dropped_before"].items()) + ". "
        f"Then {document['drawn']} were drawn, each with the same chance, until {document['wanted']} were valid. "
        f"Not valid: {verdicts.get('no piece', 0)} have no expression or statement that a switch can be put around "
        f"(declarations, heads of functions, parts of a statement), {verdicts.get('refused', 0)} do not compile, "
        f"{verdicts.get('absent', 0)} are in code that a build for the CPU does not have, "
        f"{verdicts.get('gone', 0)} in lines that were changed after the draw. This is a bias: a fault in a "
        "declaration is not measured.", "",
        "A mutant is killed when a test fails, crashes or does not end in its time. In the first run that was "
        "repeated: the test passes without the mutant at that moment and fails with it once more.", "",
        "## Survived", "",
        "| | file | line | mutant | reason |", "|---|---|---|---|---|"]
    words = {"survived": "", "GPU only": "GPU only: ", "change nothing": "Changes nothing: "}
    for kind, begin in words.items():
        for r in rows:
            if kinds[r["id"]] == kind:
                lines.append(row_of(r, begin + reasons.get(str(r["id"]), {}).get("reason", "not looked at yet")))
    if all_kinds["open"]:
        lines += ["", "## Open", "", "| | file | line | mutant |", "|---|---|---|---|"]
        lines += [row_of(r, None) for r in rows if kinds[r["id"]] == "open"]
    lines += ["", "## Killed since by new tests", "", "| | file | line | mutant | killed by |", "|---|---|---|---|---|"]
    lines += [row_of(r, killer(r["since"])) for r in rows if kinds[r["id"]] == "killed since"]
    lines += ["", "## Killed later by chosen or new tests", "", "| | file | line | mutant | killed by |",
              "|---|---|---|---|---|"]
    lines += [row_of(r, killer(r["later"])) for r in rows if kinds[r["id"]] == "killed later"]
    lines += ["", "## Killed", "", "| | file | line | mutant | killed by |", "|---|---|---|---|---|"]
    for r in rows:
        if r["status"] == "killed":
            lines.append(row_of(r, killer(r)))
    path = arguments.results.with_suffix(".md")
    path.write_text("\n".join(lines) + "\n")
    print(f"{share(killed, judged)} killed; {path.name} is written")
    return 0
