"""The swap stage of each extension of swapping, against that of the plain swap on the same households.

Every run of an extension alternates with one of the plain swap, each in a process of its own. A withheld swap writes
its records out as values, and counts its margins only while it swaps. So it is compared with the plain swap from its
invariants to the swapped values.
"""

import shutil
import tempfile
from typing import Any

from assets.release.contents import counted_from
from assets.release.seal import seal_stage
from assets.swapping.withheld import STRATA, WITHHELD, stage_withheld, swap_loss, withheld_version, write_strata
from benchmarks.processes import measured
from benchmarks.resources import opened
from benchmarks.result import Result
from benchmarks.swap_stage import charge, declared, generate, swap_release, write_values
from resources.statements import Zone

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
        found = [_measure(home, number, words, changes) for number, (words, changes) in enumerate(EXTENSIONS.items())]
        return [*found, _measure_withheld(home)]
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


def _measure_withheld(home: str) -> Result:
    pairs = []
    for run in range(RUNS):
        ours, _, _ = measured(_withhold, home, f"withheld{run}")
        pairs.append((ours, measured(_from_invariants_to_values, home, f"values{run}")[0]))
    ours, other = sorted(pairs, key=lambda pair: pair[0] / pair[1])[RUNS // 2]
    words = f"withheld swap, from invariants to records, {HOUSEHOLDS:,} households, against the plain swap (s)"
    return Result(words, ours, other, LIMIT)


def _withhold(home: str, name: str) -> None:
    """Write the sizes of strata and the withheld records, as the two assets do."""
    warehouse, custody, _ = opened(home)
    release = declared(home, name, withheld=True, products=[])
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session, session.transaction():
        write_strata(session, release)
        counted = counted_from(session, custody, release.dataset, release.design.as_record())
        seal_stage(session, custody, release.schema, "invariants", [release.public(STRATA)], counted)
    with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
        swap_loss(session, release, custody)
        with session.transaction():
            session.create(
                release.confidential(WITHHELD), "warehouse/all", source=stage_withheld(session, release, custody)
            )
        withheld_version(session, release, custody)


def _from_invariants_to_values(home: str, name: str) -> None:
    release = declared(home, name)
    charge(home, release)
    swap_release(home, release)
    write_values(home, release)


def _charge(home: str, name: str, changes: dict[str, Any]) -> None:
    charge(home, declared(home, name, **changes))


def _swap(home: str, name: str, changes: dict[str, Any]) -> None:
    swap_release(home, declared(home, name, **changes))
