"""The swap stage on 20 million households, its extensions, and the 2010 procedure.

The stage does the work of the asset `swapped`: from the table of the CEF to the stored and settled swapped data,
including randomness and ledger. Its peer is DuckDB's random order of the same table.

Extensions and the 2010 procedure alternate with the plain swap on the same households. A withheld swap writes its
records out as values, and counts its margins only while it swaps, so it is compared with the plain swap from its
invariants to the swapped values; the 2010 procedure, from stored confidential records to a stored result: from coded
households, with their risks, to the block of each after the exchange.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from assets.pair_swapping.records import IN_ORDER, as_households
from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.draw import SWAPPED
from assets.swapping.method import Swapping
from assets.swapping.release import SwappingRelease
from benchmarks import harness
from mechanisms.pair_swapping.pairing import NOBODY, swap_pairs
from mechanisms.sampling.stream import RandomStream
from orchestration.components.swapping import PermutationSwapping
from resources.statements import SQL, Table, Zone

HOUSEHOLDS, FEWER_HOUSEHOLDS = 20_000_000, 2_000_000
"""For the stage itself, and for its extensions."""

RUNS = 3

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
EXTENSION_LIMIT = 1.5

PAIR_SWAP_RATE = Fraction(1, 25)
_CODED = Table(Zone.CONFIDENTIAL, "bench", "coded")

_SHUFFLED = SQL("benchmarks/shuffled", "FROM {{ table }} ORDER BY {{ stratum | ids }}, random()")


def measure() -> list[harness.Result]:
    """Seconds and peak memory of the stage: the run with the median ratio of three runs alternating with the peer's."""
    runs = []
    with harness.temporary_home() as home:
        harness.run_step(generate, home, HOUSEHOLDS)
        for _ in range(RUNS):
            name, swapping = _swap_new_release(home)
            decoding = harness.run_step(write_values, home, name)
            runs.append((swapping.seconds, harness.run_step(shuffle, home).seconds, decoding.seconds, swapping.peak))
    seconds, other, decoding_seconds, peak = harness.find_median_run(runs)
    size = f"{HOUSEHOLDS:,} households"
    return [
        harness.Result(f"swap stage, {size} (s)", seconds, other),
        harness.Result(
            f"swap stage, with its codes written out as values, {size} (s)", seconds + decoding_seconds, other, 2.0
        ),
        harness.Result(f"swap stage, {size}: peak memory (GiB)", peak, 4.0),
    ]


def measure_extensions() -> list[harness.Result]:
    """Seconds of the stage with each extension: the run with the median ratio of three."""
    with harness.temporary_home() as home:
        harness.run_step(generate, home, FEWER_HOUSEHOLDS)

        def compare_with_plain(words: str, ours: Callable[[], float], plain: Callable[[], float]) -> harness.Result:
            name = f"{words}, {FEWER_HOUSEHOLDS:,} households, against the plain swap (s)"
            return harness.compare(name, ours, plain, EXTENSION_LIMIT, RUNS)

        def swap_extended(changes: dict[str, Any] | None = None) -> float:
            return _swap_new_release(home, changes)[1].seconds

        return [
            *(
                compare_with_plain(f"swap stage with {words}", partial(swap_extended, changes), swap_extended)
                for words, changes in EXTENSIONS.items()
            ),
            compare_with_plain(
                "withheld swap, from invariants to records",
                lambda: harness.run_step(withhold, home, harness.name_release()).seconds,
                lambda: harness.run_step(run_stages, home, harness.name_release()).seconds,
            ),
        ]


def measure_pairs() -> list[harness.Result]:
    """Seconds of both procedures, and the peak memory: the run with the median ratio of three that alternate."""
    runs = []
    with harness.temporary_home() as home:
        harness.run_step(generate, home, HOUSEHOLDS)
        harness.run_step(prepare_pairs, home)
        for number in range(RUNS):
            (_, plain), targeted = _swap_new_release(home), harness.run_step(swap_in_pairs, home, number)
            runs.append((targeted.seconds, plain.seconds, targeted.peak))
    seconds, other, peak = harness.find_median_run(runs)
    name = f"targeted pair swap, {HOUSEHOLDS:,} households"
    return [
        harness.Result(f"{name}, against the plain swap (s)", seconds, other, 3.0),
        harness.Result(f"{name}: peak memory (GiB)", peak, 4.0),
    ]


def _swap_new_release(home: str, changes: dict[str, Any] | None = None) -> tuple[str, harness.Run]:
    """Charge a new release, so that it draws, and run its stage."""
    name = harness.name_release()
    harness.run_step(charge, home, name, changes)
    return name, harness.run_step(swap, home, name, changes)


def generate(home: str, households: int) -> None:
    dataset = declare_release(home, "swapped").dataset
    harness.generate_cef(home, dataset, "benchmarks/households", {"households": households})


def charge(home: str, name: str, changes: dict[str, Any] | None = None) -> None:
    """Write a release's invariants, and charge its draw."""
    method = Swapping(declare_release(home, name, **(changes or {})))
    harness.make_stages(home, method, "invariants")
    harness.charge(home, method)


def swap(home: str, name: str, changes: dict[str, Any] | None = None) -> None:
    harness.make(home, Swapping(declare_release(home, name, **(changes or {}))))


def write_values(home: str, name: str) -> None:
    """Write the swapped data as a table of values, for comparison: the stage itself stores codes."""
    warehouse, _, _ = harness.open_deployment(home)
    release = declare_release(home, name)
    with warehouse.session(writes=Zone.PUBLIC) as session, session.transaction():
        session.create(release.public("values"), "warehouse/all", source=release.public(SWAPPED))


def run_stages(home: str, name: str) -> None:
    """Go from the invariants of the plain swap to the swapped values."""
    charge(home, name)
    swap(home, name)
    write_values(home, name)


def withhold(home: str, name: str) -> None:
    """Write the sizes of strata and the withheld records."""
    method = Swapping(declare_release(home, name, withheld=True, products=[]))
    harness.make_stages(home, method, "invariants", "swapped")


def shuffle(home: str) -> None:
    """Run the peer: write the same table in random order within strata."""
    release = declare_release(home, "swapped")
    table = Table(Zone.CONFIDENTIAL, release.dataset.name, "shuffled")
    with harness.open_warehouse(home).session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        source, stratum = release.dataset.cef_tables()[0], list(release.design.match)
        session.create(table, _SHUFFLED, table=source, stratum=stratum)


def prepare_pairs(home: str) -> None:
    """Generate households in about 5 million blocks of 51 states, with 40,000 combinations of key values in use."""
    with harness.open_warehouse(home).session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        session.create(_CODED, "benchmarks/coded_households", {"households": HOUSEHOLDS})


def swap_in_pairs(home: str, run: int) -> None:
    """Read, swap by the 2010 procedure and store."""
    warehouse, _, _ = harness.open_deployment(home)
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        stored = session.arrow(IN_ORDER, households=_CODED)
        households = as_households(stored)
        swapped = swap_pairs(households, PAIR_SWAP_RATE, RandomStream(run.to_bytes(32, "big"), "benchmark"))
        if not (swapped.partner != NOBODY).any():
            raise ValueError("nobody was swapped")
        result = pa.table({"unit_key": stored["unit_key"], "block": pa.array(swapped.of(households.block))})
        with session.transaction():
            table = Table(Zone.PUBLIC, "bench", f"pairs{run}")
            session.create(table, "warehouse/all", source=session.register("result", result))


def declare_release(home: str, name: str, **changes: Any) -> SwappingRelease:
    """A release on the generated households. `changes` replace fields of its declaration."""

    def code(lowest: int, highest: int) -> dict[str, Any]:
        return {"type": "integer", "minimum": lowest, "maximum": highest}

    place = {"type": "string", "role": "geography", "pattern": "S?[0-9]+"}
    columns = {
        **dict.fromkeys(("state", "county", "block_group"), place),
        "size": code(1, 7),
        "tenure": code(1, 4),
        "race": code(1, 7),
        "age": code(15, 99),
    }
    dataset = harness.declare_dataset(columns, record_name="household")
    declaration = SwappingDeclaration.model_validate(
        {
            "name": name,
            "dataset": "bench",
            "title": "Generated households",
            "match": ["state", "size"],
            "swap": ["county", "block_group"],
            "swap_rate": "1/2",
            "publishes_unique_records": "accepted",
        }
        | changes
    )
    return PermutationSwapping(declaration).release(dataset, Path(home) / "published")
