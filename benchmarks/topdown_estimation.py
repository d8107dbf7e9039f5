"""TopDown from the draw to the estimates of the finest level, at three sizes of a synthetic census of two states.

The stages are those that the assets run, with the production spine, allocations and invariants. The charge is made but
not measured.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from assets.cef.synthetic import SyntheticCensusDeclaration, SyntheticPopulation, synthetic_census
from assets.cef.synthetic import write as write_census
from assets.charge.asset import reserve
from assets.charge.drawing import make_draw
from assets.release.contents import counted_from, publish_contents, versions_of_cef
from assets.release.draw import publish_version
from assets.release.seal import seal_stage
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.estimation import estimate_level
from assets.topdown.histograms import write_invariants
from assets.topdown.method import TopDownMethod
from assets.topdown.release import INVARIANTS, SPINE, TopDownRelease
from assets.topdown.spine import places_of, write_spine
from benchmarks.processes import measured, sampled
from benchmarks.resources import opened
from benchmarks.result import Result
from orchestration.components.topdown import TopDown
from resources.statements import Zone

SIZES = (198_500, 397_000, 794_000)
"""Households. The largest size has 2 million persons in 44,000 blocks."""

STATES = ["08", "09"]
PROCESSES = 2
_SAMPLED = 0.2


def measure() -> list[Result]:
    """Seconds of draw and estimation, peak memory of all processes together, and the growth of the time per block.

    The growth is the ratio of the estimation time per block at the largest size to that at the smallest: 1 if time is
    linear in the number of blocks.
    """
    home = Path(tempfile.mkdtemp(prefix="stirred-bench-"))
    try:
        results, for_each = [], {}
        for households in SIZES:
            place = str(home / str(households))
            _, _, (blocks, persons, answers) = measured(prepare, place, households)
            drawing, _, _ = measured(draw, place, households)
            _, _, (seconds, peak) = measured(estimate, place, households)
            size = f"{blocks:,} blocks"
            for_each[households] = seconds / blocks
            if households == SIZES[-1]:
                name = f"TopDown, noisy measurements: {answers:,} answers (s)"
                results.append(Result(name, drawing, 30.0, 1.0))
                name = f"TopDown, estimation: {size}, {persons:,} persons: peak memory (GiB)"
                results.append(Result(name, peak, 8.0, 1.0))
            results.append(Result(f"TopDown, estimation: {size}, {persons:,} persons (s)", seconds, 600.0, 1.0))
            shutil.rmtree(place)
        name = "TopDown, estimation: ms for each block, largest against smallest size"
        results.append(Result(name, for_each[SIZES[-1]] * 1e3, for_each[SIZES[0]] * 1e3, 1.5))
        return results
    finally:
        shutil.rmtree(home)


def prepare(home: str, households: int) -> tuple[int, int, int]:
    """Run all stages up to the charge; return the numbers of blocks, persons and answers."""
    release = bench_release(home, households)
    persons, places = charge(home, release)
    answers = sum(places[each.level] * each.marginal.size for each in release.design.measured)
    return places[release.finest], persons, answers


def charge(home: str, release: TopDownRelease) -> tuple[int, dict[str, int]]:
    """Run all stages up to the charge, on a synthetic census; return the number of persons, and of places by level."""
    warehouse, custody, ledger = opened(home)
    method = TopDownMethod(release)
    assert isinstance(release.dataset, SyntheticCensusDeclaration)
    key = custody.version_key()
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        with session.transaction():
            write_census(session, release.dataset)
        persons, versions = (
            session.count(release.dataset.cef_tables()[1]),
            versions_of_cef(session, release.dataset, key),
        )
    publish_contents(warehouse, custody, release.dataset, versions, {})
    with warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        write_spine(session, release)
        write_invariants(session, release)
        sealed = [release.public(SPINE), release.public(INVARIANTS)]
        counted = counted_from(session, custody, release.dataset, {})
        seal_stage(session, custody, release.schema, INVARIANTS, sealed, counted)
    with warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
        name, values, names = method.counts_recipe(session)
        session.create(method.counts_table, name, values, **names)
        version = method.counts_version(session, custody)
    publish_version(warehouse, custody, release, method.counts_stage, method.version_table, version, counted)
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        method.require_chargeable(session)
        charged = method.describe(session, custody)
        places = places_of(session, release)
    reserve(release, charged, custody, ledger)
    return persons, places


def draw(home: str, households: int) -> None:
    """Make the draw: write it, and settle it in the ledger."""
    warehouse, custody, ledger = opened(home)
    make_draw(TopDownMethod(bench_release(home, households)), warehouse, custody, ledger)


def estimate(home: str, households: int) -> tuple[float, float]:
    """Estimate all levels; return the seconds, and the peak memory of all processes together in GiB."""
    warehouse, custody, _ = opened(home)
    release = bench_release(home, households)
    with memory() as peak:
        started = perf_counter()
        for level in release.levels:
            estimate_level(warehouse, custody, release, level, lambda done, parents: None)
        seconds = perf_counter() - started
    return seconds, max(peak)


def bench_release(home: str, households: int) -> TopDownRelease:
    """The release of a synthetic census with so many households."""
    dataset = _dataset(households)
    declaration = TopDownDeclaration(
        name="redistricting", dataset=dataset.name, title="Redistricting data", processes=PROCESSES
    )
    return TopDown(declaration).release(dataset, Path(home) / "published")


def _dataset(households: int) -> SyntheticCensusDeclaration:
    return synthetic_census(SyntheticPopulation(households=households, states=STATES), name="bench", cap={"rho": 100})


@contextmanager
def memory() -> Iterator[list[float]]:
    """The memory of this process and all its descendants together, in GiB, sampled until the block ends."""
    with sampled(lambda: sum(map(_resident, _with_descendants(os.getpid()))) / 2**30, _SAMPLED) as samples:
        yield samples


def _with_descendants(process: int) -> Iterator[int]:
    yield process
    try:
        children = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return
    for child in (child for of_thread in children for child in of_thread):
        yield from _with_descendants(int(child))


def _resident(process: int) -> int:
    """The process's memory in bytes, with shared pages divided among processes; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
