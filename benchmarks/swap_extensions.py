"""The swap stage of each extension of swapping, against that of the plain swap on the same households.

Every run of an extension alternates with one of the plain swap, each in a process of its own.
"""

import shutil
import tempfile
from typing import Any

from benchmarks.processes import measured
from benchmarks.result import Result
from benchmarks.swap_stage import charge, declared, generate, swap_release

HOUSEHOLDS = 2_000_000
RUNS = 3
LIMIT = 1.5

EXTENSIONS: dict[str, dict[str, Any]] = {
    "rates by stratum": {"swap_rate": {"by": [{"when": {"size": [1, 2]}, "rate": "1/2"}, {"rate": "1/4"}]}},
    "one ε for all strata": {"swap_rate": {"epsilon": 8}},
    "rates by record, from rarity": {
        "swap_rate": None,
        "risk": {"cases": [{"at_most": 30, "rate": "3/4"}, {"at_most": 100, "rate": "1/2"}, {"rate": "1/4"}]},
    },
    "exempt records": {"exempt": {"size": 7}},
    "two stirs": {"second_stir": {"match": ["state"], "swap_rate": "1/20"}},
    "noise before": {"noise_before": {"tenure": "9/10", "race": "9/10", "age": "3/4"}},
}


def measure() -> list[Result]:
    """Seconds of the stage with each extension: the run with the median ratio of three."""
    home = tempfile.mkdtemp(prefix="stirred-bench-")
    try:
        measured(generate, home, HOUSEHOLDS)
        return [_measure(home, number, words, changes) for number, (words, changes) in enumerate(EXTENSIONS.items())]
    finally:
        shutil.rmtree(home)


def _measure(home: str, number: int, words: str, changes: dict[str, Any]) -> Result:
    pairs = []
    for run in range(RUNS):
        extended, plain = f"extended{number}_{run}", f"plain{number}_{run}"
        measured(_charge, home, extended, changes)
        measured(_charge, home, plain, {})
        pairs.append((measured(_swap, home, extended, changes)[0], measured(_swap, home, plain, {})[0]))
    ours, other = sorted(pairs, key=lambda pair: pair[0] / pair[1])[RUNS // 2]
    return Result(f"swap stage with {words}, {HOUSEHOLDS:,} households, against the plain swap (s)", ours, other, LIMIT)


def _charge(home: str, name: str, changes: dict[str, Any]) -> None:
    charge(home, declared(home, name, **changes))


def _swap(home: str, name: str, changes: dict[str, Any]) -> None:
    swap_release(home, declared(home, name, **changes))
