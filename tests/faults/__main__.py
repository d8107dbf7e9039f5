"""Faults at full size: `python -m tests.faults`, or `make faults`; the figures go to `benchmarks/reliability.json`.

python -m tests.faults                       every section, and the figures are written
python -m tests.faults writes moments        some sections
python -m tests.faults writes --every 20     every 20th case; figures are written only if --figures names a file
python -m tests.faults altered_tables --strata    one case of each alteration of each table
"""

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from multiprocessing import get_context
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from tests.faults import attacks, canaries, cluster, kills, launches, sequences, strace, tampering
from tests.faults.releases import RELEASES, from_charge, prepare, warm_up, whole_job

FIGURES = Path(__file__).parents[2] / "benchmarks" / "reliability.json"

Case = tuple[str, str, Callable[[], tuple[bool, list[str]]]]
"""The release, what happens to it, and a function that does it: whether the fault took effect, and what was wrong."""


def steps(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """A job is killed at the start of each of its steps."""
    cases: list[tuple[Any, ...]] = []
    for name in names:
        release = prepare(folder, name, whole_job)
        found = kills.steps_of(release)
        cases += [
            (name, f"before step {step}{also}", kills.killed_at_step, release, number, f"step-{number}")
            for number, (step, is_other) in enumerate(found)
            for also in ("" if is_other else ", with the same files as before the last step",)
        ]
    return cases


def moments(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """A job is killed at 200 random moments, over all releases."""
    cases: list[tuple[Any, ...]] = []
    for position, name in enumerate(names):
        release = prepare(folder, name, whole_job)
        taken = kills.duration(release)
        for number, part in enumerate(kills.moments(-(-200 // len(names)), seed=position)):
            label = f"moment-{number}"
            cases.append((name, f"after {part:.3f} of the job", kills.killed_after, release, part * taken, label))
    return cases


def writes(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The stages from the charge on are killed right before each effect on disk."""
    cases: list[tuple[Any, ...]] = []
    for name in names:
        release = prepare(folder, name, from_charge)
        for number, effect in enumerate(kills.at_effects(release)):
            cases.append((name, f"before {effect.words}", kills.killed_before, release, effect, f"write-{number}"))
    return cases


def full_disk(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """From each write on, every write of the stages from the charge on fails, because the disk is full."""
    cases: list[tuple[Any, ...]] = []
    for name in names:
        release = prepare(folder, name, from_charge)
        writing = [effect for effect in kills.at_effects(release) if effect.call in strace.WRITES]
        for number, effect in enumerate(writing):
            cases.append((name, f"full from {effect.words}", kills.full_from, release, effect, f"full-{number}"))
    return cases


def in_sequence(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The stages from the charge on are killed right before each effect on disk, then something changes, and then comes
    the next launch. With an ephemeral key, each change follows each kill; with another one, they take turns."""
    cases: list[tuple[Any, ...]] = []
    changes = list(sequences.CHANGES)
    for name in names:
        release = prepare(folder, name, from_charge)
        for number, effect in enumerate(kills.at_effects(release)):
            every = RELEASES[name].custody == "ephemeral"
            for change in changes if every else changes[number % len(changes) :][:1]:
                words, label = f"before {effect.words}, then {change}", f"sequence-{number}-{changes.index(change)}"
                cases.append((name, words, sequences.killed_then, release, effect, change, label))
    return cases


def altered_tables(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """In every table of the three databases a value is altered, two are exchanged, a row is deleted or repeated, a
    column becomes one of texts, or the table becomes a view or gets a computed column."""
    cases: list[tuple[Any, ...]] = []
    for name in _escrowed(names):
        release = tampering.published(folder, name)
        cases += [(name, str(each), tampering.table_altered, release, each) for each in tampering.alterations(release)]
    return cases


def altered_ledger(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Every field of every entry is altered and the chain rebuilt, entries are cut off, the anchor is altered."""
    cases: list[tuple[Any, ...]] = []
    for name in _escrowed(names):
        release = tampering.published(folder, name)
        for words, argument in tampering.ledger_alterations(release):
            cases.append((name, words, tampering.ledger_altered, release, argument))
    return cases


def altered_files(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Every published file is altered, cut off or deleted, with and without new checksums, and one is added."""
    cases: list[tuple[Any, ...]] = []
    for name in _escrowed(names):
        release = tampering.published(folder, name)
        for words, how, file in tampering.file_alterations(release):
            cases.append((name, words, tampering.file_altered, release, how, file))
    return cases


def attacked(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """In 2,400 tries from fixed seeds over all releases, whoever has no key alters a value of the public zone and adds
    what a DuckDB file can carry, exchanges the zone's file, or alters published files and folders."""
    chosen = _escrowed(names)
    return [
        (name, f"attack {seed}", attacks.attacked, attacks.published(folder, name), seed)
        for name in chosen
        for seed in range(-(-2400 // len(chosen)))
    ]


def launched_at_once(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Five launches of three releases at once, by hand, schedule and sensor, under a cap that admits two of a finite
    loss: 20 times by swapping, and twice by each other kind."""
    return [
        (name, f"round {number}", launches.at_once, folder, name, number)
        for name in names
        for number in (range(20) if name == "swapping" else (0, 9))
    ]


def planted(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Values planted in the data are searched for in all that a release leaves, whether it goes well or badly."""
    return [
        (name, scenario, canaries.left, folder, name, scenario, f"{name}-{number}")
        for name in names
        if name in canaries.KEYED
        for number, scenario in enumerate(canaries.SCENARIOS)
    ]


CLUSTER = cluster.OneCluster()


def in_cluster(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """At the start of each step of a job in a cluster, the database restarts, the S3 server is gone, the run or the
    code location is killed, or the disk of the catalog is full."""
    return [
        (name, f"{fault} at {step}", disturbed_at, folder, name, fault, step)
        for name in names
        if name in cluster.KINDS
        for step in CLUSTER.of(folder, name).steps()
        for fault in cluster.FAULTS
    ]


def disturbed_at(folder: Path, name: str, fault: str, step: str) -> tuple[bool, list[str]]:
    return CLUSTER.of(folder, name).attempt(fault, step)


def _escrowed(names: Sequence[str]) -> list[str]:
    """The releases without those whose key is ephemeral: it is gone once they are published."""
    return [name for name in names if RELEASES[name].custody == "escrowed"]


SECTIONS: dict[str, Callable[[Path, Sequence[str]], list[tuple[Any, ...]]]] = {
    "steps": steps,
    "moments": moments,
    "writes": writes,
    "full_disk": full_disk,
    "in_sequence": in_sequence,
    "launched_at_once": launched_at_once,
    "planted": planted,
    "altered_tables": altered_tables,
    "altered_ledger": altered_ledger,
    "altered_files": altered_files,
    "attacked": attacked,
    "cluster": in_cluster,
}


def attempt(case: tuple[Any, ...]) -> tuple[str, str, bool, list[str]]:
    """Let one fault happen. Returns the release, the fault, whether it took effect, and what was wrong."""
    name, words, function, *arguments = case
    try:
        took, wrong = function(*arguments)
    except Exception as error:
        took, wrong = False, [f"the fault could not be tried: {type(error).__name__}: {error}"]
    return name, words, took, wrong


WITHIN_STRATA = {
    "steps": r"( step )[^,]+(?=, with the same files)",
    "cluster": r"( at )\S+",
    "altered_tables": r"( in \w+\.\w+\.\w+)\.[^,]+",
    "altered_ledger": r"(entry )\d+",
    "altered_files": r"( )\S*/(?:[^/]*(?=\.(?:csv|parquet)$))?",
}
"""Parts of a case's words that do not tell its stratum, such as a column, or a step before which nothing is written."""


def pick_of_strata(section: str, cases: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A case of each stratum of each release, at random, and the same each time."""
    shuffled = random.Random(section).sample(cases, len(cases))
    pattern = WITHIN_STRATA.get(section, "(.)^")
    return list(
        {(name, re.sub(pattern, r"\1", words)): (name, words, *rest) for name, words, *rest in shuffled}.values()
    )


def run(section: str, folder: Path, names: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """All cases of a section, or those that the options choose; the rest is left if interrupted."""
    begun = time.monotonic()
    cases = [case for case in SECTIONS[section](folder, names) if options.only in case[1]]
    chosen = (pick_of_strata(section, cases) if options.strata else cases)[:: options.every]
    if section != "cluster":
        # So that those that were tried before an interruption are of all releases.
        random.Random(section).shuffle(chosen)
    by_release: dict[str, dict[str, int]] = {}
    wrong: list[str] = []
    # A cluster is disturbed by the process that started it.
    pool = ThreadPool(1) if section == "cluster" else get_context("fork").Pool(options.processes)
    with pool, suppress(KeyboardInterrupt):
        for number, (name, words, took, problems) in enumerate(pool.imap_unordered(attempt, chosen), 1):
            counted = by_release.setdefault(name, {"tried": 0, "took_effect": 0, "wrong": 0})
            counted["tried"] += 1
            counted["took_effect"] += took
            counted["wrong"] += bool(problems)
            if problems:
                wrong.append(f"{name}, {words}: {'; '.join(problems)}")
                print(f"wrong: {wrong[-1]}", file=sys.stderr, flush=True)
            if number % (1 if section == "cluster" else 50) == 0:
                print(f"{section}: {number} of {len(chosen)}, {len(wrong)} wrong", file=sys.stderr, flush=True)
        pool.close()
        pool.join()
    return {
        "what": " ".join(str(SECTIONS[section].__doc__).split()),
        "cases": len(cases),
        "tried": sum(each["tried"] for each in by_release.values()),
        "took_effect": sum(each["took_effect"] for each in by_release.values()),
        "wrong": sorted(wrong),
        "by_release": by_release,
        "seconds": round(time.monotonic() - begun),
        "command": f"python -m tests.faults {section}"
        + (f" --every {options.every}" if options.every > 1 else "")
        + (" --strata" if options.strata else "")
        + (f" --only {options.only!r}" if options.only else "")
        + (" --releases …" if set(names) != set(RELEASES) else ""),
    }


WORDS = {
    "steps": "a release's job killed at the start of each of its steps",
    "moments": "a release's job killed at a random moment",
    "writes": "killed right before each write, sync, rename, link and removal from the charge on",
    "full_disk": "the disk full from each write on",
    "in_sequence": "killed as above, then a record, the custody or the declaration changed, the release withdrawn, or "
    "audited; then launched",
    "launched_at_once": "five launches of three releases at once: by hand, schedule and sensor",
    "planted": "values planted in the data, searched for in all that is left",
    "altered_tables": "a value, row, order or kind of every table of the three databases altered",
    "altered_ledger": "the ledger's entries, chain, anchor or file altered",
    "altered_files": "a published file altered, cut off, deleted or added",
    "attacked": "generated: the public zone with altered values and what a DuckDB file can carry besides, its file "
    "exchanged, published files and folders rewritten, linked, moved or added",
    "cluster": "in a cluster, at a step: the database restarted, the S3 server gone, the run or the code location "
    "killed, the catalog's disk full",
}
"""The faults in the words of README's table."""


def row(section: str, found: dict[str, Any]) -> str:
    """The row of README's table for the figures of a section."""
    tried = f"{found['tried']:,}" + (f" of {found['cases']:,}" if found["tried"] < found["cases"] else "")
    return f"| {WORDS[section]} | {tried} | {len(found['wrong'])} | `{found['command']}` |"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--every", type=int, default=1, help="try only every n-th case")
    parser.add_argument("--strata", action="store_true", help="try only one case of each stratum (`WITHIN_STRATA`)")
    parser.add_argument("--only", default="", help="try only cases whose words contain this")
    parser.add_argument("--releases", nargs="+", choices=RELEASES, default=list(RELEASES), help="only these releases")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--figures", type=Path, help="a file that the figures are added to")
    chosen = parser.parse_args(arguments)
    # Only root can make the small disk of a cluster's database.
    sections = chosen.sections or [section for section in SECTIONS if section != "cluster" or not os.geteuid()]
    if unknown := set(sections) - set(SECTIONS):
        parser.error(f"there is no section {sorted(unknown)[0]}")
    figures = chosen.figures or (
        FIGURES if chosen.every == 1 and not (chosen.strata or chosen.sections or chosen.only) else None
    )
    found = json.loads(figures.read_text()) if figures and figures.exists() else {}
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="stirred-faults-") as folder, closing(CLUSTER):
        if sections != ["cluster"]:
            warm_up(Path(folder), tuple(chosen.releases))
        for section in sections:
            found[section] = run(section, Path(folder), chosen.releases, chosen)
            wrong += len(found[section]["wrong"])
            if figures:
                figures.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    for section in sections:
        print(row(section, found[section]))
    print(json.dumps({section: found[section] for section in sections}, ensure_ascii=False))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
