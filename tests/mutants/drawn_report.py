"""Prints the table of drawn mutants of docs/results/campaigns.md from their results. Standard library only."""
import collections
import json
import pathlib

import stored

# Why a mutant that survived changes nothing that a caller can see, or why no test sees it: written by hand after
# looking at each one. {"id": {"equivalent": true or false, "reason": "...", "gpu": true}}; gpu: what it changes runs
# on a GPU only. A result may have "since", the test that was written later and kills it, or, of an open one, "later", a
# test that kills it, chosen or written after that run.
REASONS = pathlib.Path(__file__).resolve().parent / "drawn" / "reasons.json"


KINDS = ("killed", "killed since", "killed later", "change nothing", "GPU only", "survived", "open")
KILLED = KINDS[:3]


def share(killed: int, of: int) -> str:
    return f"{killed} of {of}" + (f" ({100 * killed / of:.1f} %)" if of else "")


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


def report(arguments, document, mutants) -> int:
    results = stored.read(arguments.results)
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
    all_kinds = collections.Counter(kinds.values())
    killed = sum(all_kinds[kind] for kind in KILLED)
    judged = killed + all_kinds["survived"]
    at_first = all_kinds["killed"]
    if_open_survived = (f" If also all {all_kinds['open']} open ones survived, it would be "
                        f"{share(killed, judged + all_kinds['GPU only'] + all_kinds['open'])}."
                        if all_kinds["open"] else "")
    print(f"Lines of code changed by the rules of universalmutator {document['universalmutator']}, drawn with the seed "
          f"{document['seed']}: {len(rows)} valid mutants. Of {judged} that change what the code does on a host and "
          f"were judged, the tests kill **{share(killed, judged)}**; in the first run, whose time was limited, they "
          f"killed "
          f"{at_first}. With mutants that need a GPU counted as survivors it is "
          f"{share(killed, judged + all_kinds['GPU only'])}.{if_open_survived} {results['date']}, commit "
          f"{results['commit']}, {results['processors']} processors, CPU build without optional libraries.\n")
    print("| room | mutants | " + " | ".join(KINDS) + " | killed of those that change something and were judged |")
    print("|---" + "|--:" * (len(KINDS) + 1) + "|---|")
    print("\n".join(table))
    print("\n`tests/mutants/drawn/reasons.json` says of each survivor why no test sees it.")
    return 0
