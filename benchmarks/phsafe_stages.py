"""The stages of PHSafe from the CEF to exact counts, at four sizes of a synthetic census, under production thresholds.

Here belongs the measurement. The stages are the ones the assets `truncated_join` and `counts` run, from the CEF's
tables to the stored counts, the truncation report included.
"""

import shutil
import tempfile
from pathlib import Path

from assets.cef.synthetic import SEED, SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.cef.synthetic import write as write_census
from assets.measurement.counts import write_counts
from assets.measurement.join import write_truncated_join, write_truncation_report
from benchmarks.processes import measured
from benchmarks.result import Result
from mechanisms.phsafe.design import production
from mechanisms.phsafe.runs import PUERTO_RICO, STATES
from resources.statements import Table, Zone
from resources.warehouse import Warehouse

SMALL, LARGE = 64_000, 3_900_000
SIZES = (SMALL, 400_000, 1_200_000, LARGE)
"""Households: the smallest size has 165,119 persons in 71,234 units of four states, the largest 10,083,251 in all."""


def measure() -> list[Result]:
    """Seconds and peak memory, and how time grows with the number of persons."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        results, seconds, persons = [], {}, {}
        for households in SIZES:
            _, _, persons[households] = measured(prepare, str(home / str(households)), households)
            seconds[households], peak, _ = measured(count, str(home / str(households)), households)
            limit = 2.0 if households == SMALL else 60.0
            size = f"{persons[households]:,} persons"
            results.append(Result(f"PHSafe, CEF to exact counts, {size} (s)", seconds[households], limit, 1.0))
            results.append(Result(f"PHSafe, CEF to exact counts, {size}: peak memory (GiB)", peak, 6.0, 1.0))
        # Below the second size, what a process does once outweighs what it does for every person.
        first, last = SIZES[1], SIZES[-1]
        growth, expected = seconds[last] / seconds[first], persons[last] / persons[first]
        results.append(Result("PHSafe, CEF to exact counts: growth of time, against persons", growth, expected, 1.25))
        return results
    finally:
        shutil.rmtree(home)


def prepare(home: str, households: int) -> int:
    """Generate the CEF; returns how many persons there are."""
    Path(home).mkdir()
    dataset = _dataset(households)
    with Warehouse(folder=home).session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        write_census(session, dataset)
        return session.count(dataset.cef_tables()[1])


def count(home: str, households: int) -> None:
    """The stages."""
    dataset = _dataset(households)
    design = production(dataset.population.states)
    truncation = {run.name: design.truncation(run) for run, _, _ in design.released}
    released = {(run.name, level) for run, level, _ in design.released}
    with Warehouse(folder=home).session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        write_truncated_join(session, dataset, _table("truncated_join"), design.states, truncation)
        write_truncation_report(session, dataset, _table("truncation_report"), design.states, truncation)
        write_counts(session, _table("truncated_join"), _table("counts"), design.states, released)


def _table(name: str) -> Table:
    return Table(Zone.CONFIDENTIAL, "bench__counts", name)


def _dataset(households: int) -> SyntheticCensusDeclaration:
    everywhere = [state for state in STATES if state != PUERTO_RICO]
    states = everywhere[:4] if households == SMALL else everywhere
    return synthetic_census(
        SyntheticPopulation(seed=SEED, households=households, states=states), name="bench", cap=1000
    )
