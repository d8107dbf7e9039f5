"""How many wrong programs the tests notice: `python -m tests.mutants draw|show|reach|kill`.

- `draw` writes `places.json`: mutants at places drawn with a fixed seed. The file is kept, and changed by hand when
  code moves, so that the same wrong programs are tried before and after a change of the tests.
- `show` prints mutants as changes of lines, with ten lines on either side.
- `reach` runs the tests once in a copy of the checkout and notes which tests reach which mutants.
- `kill` tries each mutant on the quickest files of tests that reach it, up to a number of seconds. The mutants that
  survive are then tried together in whole, as one wrong program: a test that passes with all of them in place notices
  none, and a test that fails is tried with each of them alone.

Each run is in copies of the checkout below `build/mutants`. `-m` selects tests as in pytest.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from difflib import unified_diff
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.operators import Mutant, draw
from tests.mutants.reach import instrument, read_notes

ROOT = Path(__file__).resolve().parents[2]
PLACES = Path(__file__).with_name("places.json")
WORK = ROOT / "build" / "mutants"
SEED, COUNT = 28, 200
PATIENCE = 600
"""Seconds of processor time after which the tests of a mutant count as endless, and so as failed."""

Outcomes = dict[str, tuple[float, str]]
"""Seconds and outcome of tests."""


def main() -> None:
    """Parse the command line and run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("command", choices=["draw", "show", "reach", "kill"])
    parser.add_argument("-m", dest="marked", default="", help="which tests, as in pytest")
    parser.add_argument("--seconds", type=float, default=40, help="of tests for each mutant alone, before all together")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutants; all by default")
    given = parser.parse_args()
    if given.command == "draw":
        PLACES.write_text(json.dumps([asdict(mutant) for mutant in draw(ROOT, COUNT, SEED)], indent=1) + "\n")
        return
    mutants = [Mutant(**place) for place in json.loads(PLACES.read_text())]
    numbers = given.only or range(len(mutants))
    if given.command == "show":
        show(mutants, numbers)
    elif given.command == "reach":
        find_reach(mutants, given.marked)
    else:
        kill(mutants, numbers, given.seconds)


def show(mutants: Sequence[Mutant], numbers: Iterable[int]) -> None:
    """Print mutants, each as a difference."""
    for number in numbers:
        mutant = mutants[number]
        source = (ROOT / mutant.path).read_text()
        changed = mutant.mutate(source).splitlines()
        print(f"{number} {mutant.path} {mutant.function}")
        print(*list(unified_diff(source.splitlines(), changed, n=10, lineterm=""))[2:], sep="\n", end="\n\n")


def find_reach(mutants: Sequence[Mutant], marked: str) -> None:
    """Write `reach.json`: the outcomes of all tests, and the tests that reach each mutant."""
    tree = copy_checkout("reach")
    probes = instrument(tree, mutants)
    notes = WORK / "notes"
    shutil.rmtree(notes, ignore_errors=True)
    notes.mkdir()
    variables = {"PYTHONPATH": f"{tree}:{probes}", "STIRRED_MUTANTS_REACHED": str(notes)}
    outcomes = run_tests(tree, ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", "-m", marked], variables)
    reached = {number: sorted(tests) for number, tests in sorted(read_notes(notes, outcomes).items())}
    (WORK / "reach.json").write_text(json.dumps({"outcomes": outcomes, "reached": reached}))


def kill(mutants: Sequence[Mutant], numbers: Iterable[int], seconds: float) -> None:
    """Write `killed.json`: for each mutant the test that fails with it; null if none does, "" if none reaches it."""
    reach = json.loads((WORK / "reach.json").read_text())
    outcomes: Outcomes = {test: (spent, outcome) for test, (spent, outcome) in reach["outcomes"].items()}
    passing = {test for test, (_, outcome) in outcomes.items() if outcome == "passed"}
    reached = {
        number: sorted(passing & set(reach["reached"].get(str(number), [])), key=lambda test: outcomes[test][0])
        for number in numbers
    }
    killed: dict[int, str | None] = {number: None if tests else "" for number, tests in reached.items()}
    trees: SimpleQueue[Path] = SimpleQueue()
    for worker in range(os.cpu_count() or 1):
        trees.put(copy_checkout(f"worker_{worker}"))

    def failing_alone(number: int, tests: Collection[str]) -> str | None:
        tree = trees.get()
        try:
            return first_failure(tree, [mutants[number]], tests)
        finally:
            trees.put(tree)

    def report(number: int, test: str | None) -> None:
        killed[number] = test
        print(f"{number:4} {mutants[number].path} {mutants[number].function}: {test or 'survives so far'}", flush=True)
        (WORK / "killed.json").write_text(json.dumps(killed, indent=1, sort_keys=True))

    with ThreadPoolExecutor(trees.qsize()) as pool:
        tried = [number for number, tests in reached.items() if tests]
        for number, test in zip(
            tried, pool.map(lambda n: failing_alone(n, quickest(reached[n], outcomes, seconds)), tried), strict=True
        ):
            report(number, test)
        left = [number for number in tried if killed[number] is None]
        tree = trees.get()
        failing: Collection[str] = sorted({test for number in left for test in reached[number]})
        while left and (failing := failures(tree, [mutants[number] for number in left], failing)):
            print(f"{len(left)} mutants together fail {len(failing)} tests", flush=True)
            for number in left:
                if test := first_failure(
                    tree, [mutants[number]], [test for test in reached[number] if test in failing]
                ):
                    report(number, test)
            if not (found := [number for number in left if killed[number] is not None]):
                print(f"only together, the mutants {left} fail {sorted(failing)}")
                break
            left = [number for number in left if number not in found]
    print(f"{sum(bool(test) for test in killed.values())} of {len(killed)} killed")


def quickest(tests: Sequence[str], outcomes: Outcomes, seconds: float) -> list[str]:
    """The tests of the quickest files, as many as fit into this time together; at least one file.

    Tests of one file share their set-up, so that some of a file take hardly less time than all.
    """
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.split("::")[0]].append(test)
    chosen: list[str] = []
    for file in sorted(by_file.values(), key=lambda file: sum(outcomes[test][0] for test in file)):
        seconds -= sum(outcomes[test][0] for test in file)
        if chosen and seconds < 0:
            break
        chosen += file
    return chosen


def first_failure(tree: Path, mutants: Sequence[Mutant], tests: Collection[str]) -> str | None:
    """The first test that fails in a checkout with the mutants in place; None if all pass."""
    return next(iter(failures(tree, mutants, tests, "-x")), None) if tests else None


def failures(tree: Path, mutants: Sequence[Mutant], tests: Collection[str], *options: str) -> list[str]:
    """The tests that fail, or do not end, in a checkout with the mutants in place."""
    restore(tree)
    for mutant in mutants:
        mutant.apply(tree)
    forget_kernels(tree, mutants)
    (tree / "tests.txt").write_text("\n".join(tests))
    spread = [] if options else ["-n", "auto", "--dist", "loadfile"]
    outcomes = run_tests(tree, [*options, *spread, "@tests.txt"], {"PYTHONPATH": str(tree)})
    missing = "the tests do not start or end" if not outcomes and tests else None
    return [test for test, (_, outcome) in outcomes.items() if outcome == "failed"] + ([missing] if missing else [])


def run_tests(tree: Path, arguments: Sequence[str], variables: dict[str, str]) -> Outcomes:
    """The outcomes of tests run in a checkout; none if they end before they start, or not at all."""
    record = tree / "outcomes.json"
    record.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutants.recorder", *arguments]
    environment = os.environ | variables | {"STIRRED_TESTS_RECORD": str(record)}
    if "-x" in arguments:
        # A limit of processor time, because a test slowed by other work is not endless; and a limit for a deadlock.
        limited = f'ulimit -t {PATIENCE} && exec timeout {10 * PATIENCE} "$@"'
        command = ["bash", "-c", limited, "limited", *command]
    with (tree / "tests.log").open("w") as log:
        subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=log, start_new_session=True, check=False)
    return json.loads(record.read_text()) if record.exists() else {}


def copy_checkout(name: str) -> Path:
    """A copy of the tracked files as they are, with the compiled kernels and a link to the environment."""
    tree = WORK / name
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    tracked = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    kernels = [str(path.relative_to(ROOT)) for path in (ROOT / "mechanisms").rglob("*.nb?")]
    for path in [*tracked.splitlines(), *kernels]:
        if (ROOT / path).is_file():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, tree / path)
    (tree / ".venv").symlink_to(ROOT / ".venv")
    return tree


def restore(tree: Path) -> None:
    """Undo mutants."""
    for place in json.loads(PLACES.read_text()):
        if (tree / place["path"]).read_bytes() != (ROOT / place["path"]).read_bytes():
            shutil.copy2(ROOT / place["path"], tree / place["path"])


def forget_kernels(tree: Path, mutants: Sequence[Mutant]) -> None:
    """Delete compiled kernels that a mutant may be part of: Numba notices a change of their own file only."""
    if any("numba" in (tree / mutant.path).read_text() for mutant in mutants):
        for path in (tree / "mechanisms").rglob("*.nb?"):
            path.unlink()


if __name__ == "__main__":
    main()
