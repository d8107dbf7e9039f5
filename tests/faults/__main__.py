"""Faults at full size: `python -m tests.faults`, or `make faults`; the figures go to `benchmarks/reliability.json`.

python -m tests.faults                       every section, and the figures are written
python -m tests.faults writes moments        some sections
python -m tests.faults writes --sample 20    20 cases of each release, from a fixed seed; figures are written only if
                                             --figures names a file
python -m tests.faults writes --tries FILE   go on with the tries of an interrupted run, and append to them
python -m tests.faults cluster --sample 1    one fault at each step of each release in a cluster; with --in-pairs,
                                             in half as many launches
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from itertools import chain, groupby
from multiprocessing import get_context
from multiprocessing.pool import Pool, ThreadPool
from operator import itemgetter
from pathlib import Path
from typing import Any

from tests.faults import attacks, canaries, cluster, kills, lakes, launches, sequences, strace, tampering
from tests.faults.releases import RELEASES, die_with_parent, from_charge, prepare, warm_up, whole_job

FIGURES = Path(__file__).parents[2] / "benchmarks" / "reliability.json"

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Both interrupt the command: Dagster makes one act like the other."""

_WITHOUT_CHARGE = ("steps", "moments", "writes", "full_disk", "attacked", "cluster")
"""The sections that a release without a charge of its own has cases in."""

Case = tuple[str, str, Callable[[], tuple[bool | str, list[str]]]]
"""The release, a description of its fault, and a function that causes the fault. The function returns whether the fault
took effect, or a description of it, and the failures."""


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
    """The stages from the charge on, or all after the CEF without one, are killed right before each effect on disk."""
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
    """In 2,400 tries from fixed seeds over all releases, an attacker without a key alters a value of the public zone
    and adds other objects of a DuckDB file, exchanges the zone's file, or alters published files and folders. In
    further tries, the attacker makes each kind of alteration to each release."""
    chosen = _escrowed(names)
    drawn = [(f"attack {seed}", seed, "") for seed in range(-(-2400 // len(chosen)))]
    of_kinds = [(f"an attack with {kind}", number, kind) for number, kind in enumerate(attacks.KINDS)]
    return [
        (name, words, attacks.attacked, attacks.published(folder, name), seed, kind)
        for name in chosen
        for words, seed, kind in [*drawn, *of_kinds]
    ]


def attacked_lakes(folder: Path, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """In 510 tries from fixed seeds over all releases, an attacker without a key alters a public zone in a lake: by
    statements, in the catalog, in the data files, or back to an earlier state."""
    chosen = _escrowed(names)
    return [
        (name, f"attack {seed}", lakes.attacked, folder, name, seed)
        for name in chosen
        for seed in range(-(-510 // len(chosen)))
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
    cases: list[tuple[Any, ...]] = []
    faults = list(cluster.FAULTS)
    for name in names:
        steps = CLUSTER.of(folder, name).steps() if name in cluster.KINDS else []
        for turn in range(len(faults)):
            for number, step in enumerate(steps):
                fault = faults[(turn + number) % len(faults)]
                cases.append((name, f"{fault} at {step}", folder, fault, step))
    return cases


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
    "attacked_lakes": attacked_lakes,
    "cluster": in_cluster,
}


def attempt(case: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Let one fault happen. Returns the record of the try."""
    _, _, function, *arguments = case

    def happen() -> tuple[list[bool | str], list[str]]:
        took, wrong = function(*arguments)
        return [took], wrong

    return _try([case], happen)


def attempt_in_cluster(cases: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Let the faults of some cases happen in one launch in a cluster. Returns the record of each."""
    name, _, folder, *_ = cases[0]
    return _try(cases, lambda: CLUSTER.of(folder, name).attempt([(fault, step) for *_, fault, step in cases]))


def _try(
    cases: Sequence[tuple[Any, ...]], happen: Callable[[], tuple[Sequence[bool | str], list[str]]]
) -> list[dict[str, Any]]:
    begun = time.monotonic()
    took: Sequence[bool | str]
    try:
        took, wrong = happen()
    except Exception as error:
        took, wrong = [False] * len(cases), [f"the fault could not be tried: {type(error).__name__}: {error}"]
    seconds = round((time.monotonic() - begun) / len(cases), 2)
    return [
        {
            "release": name,
            "fault": fault,
            "words": words if isinstance(words, str) else "",
            "took_effect": bool(words),
            "wrong": wrong,
            "seconds": seconds,
        }
        for (name, fault, *_), words in zip(cases, took, strict=True)
    ]


def pair(cases: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """The cases of each release in pairs that are far apart. Any fault can end a run, and the queue launches a run
    again only four times."""
    pairs = []
    for _, each in groupby(cases, key=itemgetter(0)):
        of_release = list(each)
        number = -(-len(of_release) // 2)
        pairs += [of_release[first::number] for first in range(number)]
    return pairs


def choose(section: str, cases: Sequence[tuple[Any, ...]], sample: int | None) -> list[tuple[Any, ...]]:
    """All cases, or a sample for each release, in a random but reproducible order that alternates between kinds of
    faults, so that an interrupted command has tried a sample of all. Cases with the same description are numbered.

    In a cluster, all cases or a sample for each step, in the order of the steps, also alternating between kinds of
    faults.
    """
    seen, taken = Counter[tuple[str, str]](), Counter[str]()
    if section == "cluster":
        return [case for case in cases if _count(seen, (case[0], case[-1])) <= (sample or len(cases))]
    numbered, in_turn = [], []
    for name, words, *rest in cases:
        seen[name, words] += 1
        again = f" ({seen[name, words]})" if seen[name, words] > 1 else ""
        numbered.append((name, words + again, *rest))
    seen.clear()
    for case in sorted(numbered, key=lambda case: sha256(f"{section}: {case[0]}, {case[1]}".encode()).digest()):
        seen[kind := (case[0], re.split(" (?:at|in) ", case[1])[0])] += 1
        in_turn.append((seen[kind], case))
    chosen = []
    for _, case in sorted(in_turn, key=itemgetter(0)):
        taken[case[0]] += 1
        if not sample or taken[case[0]] <= sample:
            chosen.append(case)
    return chosen


def _count(seen: Counter[tuple[str, str]], what: tuple[str, str]) -> int:
    seen[what] += 1
    return seen[what]


def run(section: str, folder: Path, names: Sequence[str], options: argparse.Namespace) -> None:
    """Try the cases of a section that the options choose and that were not tried yet. Each is recorded at once."""
    if section not in _WITHOUT_CHARGE:
        names = [name for name in names if RELEASES[name].charges]
    cases = [case for case in SECTIONS[section](folder, names) if options.only in case[1]]
    command = f"python -m tests.faults {section}"
    command += f" --sample {options.sample}" if options.sample else ""
    command += " --in-pairs" if options.in_pairs else ""
    command += f" --only {options.only!r}" if options.only else ""
    command += " --releases …" if set(names) != set(RELEASES) else ""
    begin = {"cases": Counter(name for name, *_ in cases), "command": command, "commit": _commit()}
    _record(options.tries, {"section": section, **begin})
    chosen = choose(section, cases, options.sample)
    records = map(json.loads, options.tries.read_text().splitlines())
    done = {(each["release"], each["fault"]) for each in records if each["section"] == section and "fault" in each}
    chosen = [case for case in chosen if (case[0], case[1]) not in done]
    # Servers are disturbed by the process that started them. An interruption is for this process alone.
    has_servers = section in ("cluster", "attacked_lakes")
    with ThreadPool(1) if has_servers else _pool(options.processes) as pool:
        if section == "cluster":
            launches = pair(chosen) if options.in_pairs else [[case] for case in chosen]
            tried = pool.imap(attempt_in_cluster, launches)
        else:
            tried = pool.imap_unordered(attempt, chosen)
        for number, record in enumerate(chain.from_iterable(tried), 1):
            _record(options.tries, {"section": section, **record})
            if record["wrong"]:
                print(f"wrong: {record['release']}, {record['fault']}: {record['wrong']}", file=sys.stderr, flush=True)
            if number % (1 if section == "cluster" else 50) == 0:
                print(f"{section}: {number} of {len(chosen)}", file=sys.stderr, flush=True)


def _pool(processes: int) -> Pool:
    """Forked processes for tries. They begin with signals blocked: Python ignores an exception in the functions that it
    calls at a fork, so a process that the end of the pool interrupts there would live on, and the pool would wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        return get_context("fork").Pool(processes, _outlive)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _outlive() -> None:
    """Leave an interruption to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _commit() -> str:
    told = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return told.stdout.strip()


def _record(tries: Path, record: Mapping[str, Any]) -> None:
    with tries.open("a") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def summarize(tries: Path) -> dict[str, dict[str, Any]]:
    """The figures of each section of a file of tries, whether they ended or not."""
    found: dict[str, dict[str, Any]] = {}
    for record in map(json.loads, tries.read_text().splitlines()):
        section = record["section"]
        if "cases" in record:
            what = " ".join(str(SECTIONS[section].__doc__).split())
            at = found.setdefault(section, {"what": what, "wrong": [], "by_release": {}, "seconds": 0, "commits": []})
            for name, cases in record["cases"].items():
                at["by_release"].setdefault(name, {"tried": 0, "took_effect": 0, "wrong": 0})["cases"] = cases
            at["command"] = record["command"]
            at["commits"] = sorted({*at["commits"], record["commit"]})
            continue
        at = found[section]
        counted = at["by_release"][record["release"]]
        counted["tried"] += 1
        counted["took_effect"] += record["took_effect"]
        counted["wrong"] += bool(record["wrong"])
        at["seconds"] = round(at["seconds"] + record["seconds"], 2)
        at["wrong"] += [f"{record['release']}, {record['fault']}: {'; '.join(record['wrong'])}"] * bool(record["wrong"])
    for at in found.values():
        sums = {key: sum(each[key] for each in at["by_release"].values()) for key in ("cases", "tried", "took_effect")}
        at |= sums
    return found


WORDS = {
    "steps": "a release's job killed at the start of each of its steps",
    "moments": "a release's job killed at a random moment",
    "writes": "from the charge on, a release's job killed right before each write, sync, rename, link or removal of a "
    "file",
    "full_disk": "the disk full from each write on",
    "in_sequence": "a sequence of events: a release's job killed as above; a record, the custody or the declaration "
    "changed, or the release withdrawn or audited",
    "launched_at_once": "five simultaneous launches of three releases: by hand, schedule and sensor",
    "planted": "recognizable values planted in the data, and searched for in everything that the release leaves",
    "altered_tables": "in every table of the three databases: a value altered, two values exchanged, a row deleted or "
    "repeated",
    "altered_ledger": "the ledger's entries, chain, anchor or file altered",
    "altered_files": "a published file altered, cut off, deleted or added",
    "attacked": "generated attacks: values of the public zone altered, views, indexes and other objects added to it, "
    "its file exchanged; published files and folders rewritten, linked, moved or added",
    "attacked_lakes": "generated attacks on a public zone in [a lake](../reference/deployment.md#a-lake): on values "
    "and tables, rows and definitions of the catalog, data files and earlier states",
    "cluster": "in [a cluster](../how-to/cluster.md), at a step: the database restarted, the S3 server gone, the run "
    "or the code location killed, the catalog's disk full",
}
"""The faults in the words of the page on reliability."""


def row(section: str, found: dict[str, Any]) -> str:
    """The row of that page for the figures of a section."""
    tried = f"{found['tried']:,}" + (f" of {found['cases']:,}" if found["tried"] < found["cases"] else "")
    command = found["command"].removeprefix("python -m tests.faults ").removesuffix(" --releases …")
    return f"| {WORDS[section]} | {tried} | {len(found['wrong'])} | `{command}` |"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--sample", type=int, help="try only as many cases of each release, from a fixed seed")
    parser.add_argument("--in-pairs", action="store_true", help="in a cluster, two faults in each launch")
    parser.add_argument("--only", default="", help="try only cases whose words contain this")
    parser.add_argument("--releases", nargs="+", choices=RELEASES, default=list(RELEASES), help="only these releases")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tries", type=Path, help="a file that each try is appended to; those it has are not repeated")
    parser.add_argument("--figures", type=Path, help="a file that the figures are added to")
    chosen = parser.parse_args(arguments)
    # Only root can make the small disk of a cluster's database.
    sections = chosen.sections or [section for section in SECTIONS if section != "cluster" or not os.geteuid()]
    if unknown := set(sections) - set(SECTIONS):
        parser.error(f"there is no section {sorted(unknown)[0]}")
    figures = chosen.figures or (None if chosen.sample or chosen.sections or chosen.only else FIGURES)
    chosen.tries = chosen.tries or Path(tempfile.mkstemp(prefix="stirred-faults-", suffix=".jsonl")[1])
    chosen.tries.touch()
    print(f"each try is appended to {chosen.tries}", file=sys.stderr)
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    is_interrupted = False
    try:
        with (
            tempfile.TemporaryDirectory(prefix="stirred-faults-", ignore_cleanup_errors=True) as folder,
            closing(CLUSTER),
        ):
            if sections != ["cluster"]:
                warm_up(Path(folder), tuple(chosen.releases))
            for section in sections:
                run(section, Path(folder), chosen.releases, chosen)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        is_interrupted = True
    found = summarize(chosen.tries)
    if figures:
        earlier = json.loads(figures.read_text()) if figures.exists() else {}
        figures.write_text(json.dumps(earlier | found, indent=2, ensure_ascii=False) + "\n")
    for section, of_section in found.items():
        print(row(section, of_section))
    print(json.dumps(found, ensure_ascii=False))
    return 130 if is_interrupted else any(of_section["wrong"] for of_section in found.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
