"""The stages of PHSafe from the CEF to settled noisy measurements, at four sizes of a synthetic census.

The stages are those of the assets, with the production parameters: the truncated join with its report, the exact
counts, the charge and the draw, including the ledger.
"""

import statistics
from pathlib import Path

from assets.cef.synthetic import SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.cef.synthetic import write as write_census
from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.join import JOINED, join_recipe, write_report
from assets.phsafe.method import PHSafeMethod
from assets.release.stage import create_tables
from benchmarks.harness import Result, charge_counts, make, open_deployment, run_step, temporary_home, write_cef
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
    results, seconds, persons = [], {}, {}
    for households in SIZES:
        with temporary_home() as home:
            persons[households] = run_step(prepare, home, households).returned
            runs = [run_step(run_stages, home, households, number) for number in range(RUNS)]
        seconds[households] = statistics.median(run.seconds for run in runs)
        name = f"PHSafe, CEF to measurements, {persons[households]:,} persons"
        results.append(Result(f"{name} (s)", seconds[households], 2.0 if households == SMALL else 60.0))
        results.append(Result(f"{name}: peak memory (GiB)", max(run.peak for run in runs), 6.0))
    # Below the second size, the fixed cost of a release outweighs the cost of each person.
    first, last = SIZES[1], SIZES[-1]
    growth, expected = seconds[last] / seconds[first], persons[last] / persons[first]
    return [*results, Result("PHSafe, CEF to measurements: growth of time, against persons", growth, expected, 1.25)]


def prepare(home: str, households: int) -> int:
    """Generate the CEF; return the number of persons."""
    dataset = _declare_dataset(households)
    return write_cef(home, dataset, lambda session: write_census(session, dataset))


def run_stages(home: str, households: int, run: int) -> None:
    """Run the stages. Each run has a release of its own, so that every run charges and draws."""
    dataset = _declare_dataset(households)
    declaration = PHSafeDeclaration(
        name=f"run{run}", dataset=dataset.name, title="S-DHC", states=sorted(dataset.generated.states)
    )
    release = PHSafe(declaration).release(dataset, Path(home) / "published")
    warehouse, _, _ = open_deployment(home)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        recipes = {release.confidential(JOINED): join_recipe(session, release)}
        with session.transaction():
            create_tables(session, recipes)
            write_report(session, release)
    method = PHSafeMethod(release)
    charge_counts(home, method)
    make(home, method)


def _declare_dataset(households: int) -> SyntheticCensusDeclaration:
    everywhere = [state for state in STATES if state != PUERTO_RICO]
    states = everywhere[:4] if households == SMALL else everywhere
    return synthetic_census(SyntheticPopulation(households=households, states=states), name="bench", cap={"rho": 100})
