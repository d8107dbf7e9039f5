"""The stages of PHSafe from the CEF to settled noisy measurements, at four sizes of a synthetic census.

The stages are those that the assets run, with the production parameters: the truncated join with its report, the exact
counts, the charge and the draw, including the ledger.
"""

import shutil
import statistics
import tempfile
from pathlib import Path

from assets.cef.synthetic import SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.cef.synthetic import write as write_census
from assets.charge.asset import reserve
from assets.charge.drawing import make_draw
from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.joined import write_join
from assets.phsafe.method import PHSafeMethod
from assets.release.contents import counted_from, publish_contents, versions_of_cef
from assets.release.draw import publish_version
from benchmarks.processes import measured
from benchmarks.resources import opened
from benchmarks.result import Result
from mechanisms.states import PUERTO_RICO, STATES
from orchestration.components.phsafe import PHSafe
from resources.statements import Zone

SMALL, LARGE = 64_000, 3_900_000
SIZES = (SMALL, 400_000, 1_200_000, LARGE)
"""Households. The smallest size has 165,180 persons in 71,234 units of four states; the largest has 10,086,930 persons
in all states."""

RUNS = 3


def measure() -> list[Result]:
    """The median time of three runs in seconds, the peak memory, and the growth of time with the number of persons."""
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        results, seconds, persons = [], {}, {}
        for households in SIZES:
            place = str(home / str(households))
            _, _, persons[households] = measured(prepare, place, households)
            runs = [measured(stages, place, households, run) for run in range(RUNS)]
            seconds[households] = statistics.median(run[0] for run in runs)
            limit = 2.0 if households == SMALL else 60.0
            size = f"{persons[households]:,} persons"
            results.append(Result(f"PHSafe, CEF to measurements, {size} (s)", seconds[households], limit, 1.0))
            peak = max(run[1] for run in runs)
            results.append(Result(f"PHSafe, CEF to measurements, {size}: peak memory (GiB)", peak, 6.0, 1.0))
            shutil.rmtree(place)
        # Below the second size, the fixed cost of a release outweighs the cost of each person.
        first, last = SIZES[1], SIZES[-1]
        growth, expected = seconds[last] / seconds[first], persons[last] / persons[first]
        results.append(Result("PHSafe, CEF to measurements: growth of time, against persons", growth, expected, 1.25))
        return results
    finally:
        shutil.rmtree(home)


def prepare(home: str, households: int) -> int:
    """Generate the CEF; return the number of persons."""
    dataset = _dataset(households)
    warehouse, custody, _ = opened(home)
    key = custody.version_key()
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        with session.transaction():
            write_census(session, dataset)
        versions, persons = versions_of_cef(session, dataset, key), session.count(dataset.cef_tables()[1])
    publish_contents(warehouse, custody, dataset, versions, {})
    return persons


def stages(home: str, households: int, run: int) -> None:
    """Run the stages. Each run has a release of its own, so that every run charges and draws."""
    warehouse, custody, ledger = opened(home)
    dataset = _dataset(households)
    declaration = PHSafeDeclaration(
        name=f"run{run}", dataset=dataset.name, title="S-DHC", states=sorted(dataset.generated.states)
    )
    release = PHSafe(declaration).release(dataset, Path(home) / "published")
    method = PHSafeMethod(release)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        with session.transaction():
            write_join(session, release)
        with session.transaction():
            name, values, names = method.counts_recipe(session)
            session.create(method.counts_table, name, values, **names)
        version = method.counts_version(session, custody)
        counted = counted_from(session, custody, dataset, method.counted_with())
    publish_version(warehouse, custody, release, method.counts_stage, method.version_table, version, counted)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = method.describe(session, custody)
    reserve(release, draw, custody, ledger)
    make_draw(method, warehouse, custody, ledger)


def _dataset(households: int) -> SyntheticCensusDeclaration:
    everywhere = [state for state in STATES if state != PUERTO_RICO]
    states = everywhere[:4] if households == SMALL else everywhere
    return synthetic_census(SyntheticPopulation(households=households, states=states), name="bench", cap={"rho": 100})
