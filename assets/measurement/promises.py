"""What a release by PHSafe promises beyond what every release does.

Here belongs the evaluation of a promise, on the tables as they are at that moment.
"""

import pyarrow as pa
import pyarrow.compute as pc

from assets.gates.promises import (
    cef_promises,
    charge_promises,
    closing_promises,
    differing_table,
    draw_promises,
    said,
)
from assets.measurement.draw import PHSafeDraw, describe_draw
from assets.measurement.measurements import (
    COUNTS,
    JOINED,
    MEASUREMENTS,
    counts_made,
    counts_version,
    in_order,
    join_made,
)
from assets.measurement.noise import DISTRIBUTIONS, GridError, require_grid, slices, variance_of
from assets.measurement.release import PHSafeRelease
from assets.method import House, Promise
from assets.postprocessing.promises import finished_promises
from mechanisms.phsafe.noise import draw_noise
from mechanisms.sampling.goodness import binned, misfits
from resources.statements import Zone

Here = House[PHSafeRelease]


def phsafe_promises(release: PHSafeRelease) -> tuple[Promise[PHSafeRelease], ...]:
    """All promises of a release, in the order of its stages; one that draws nothing has those up to its counts."""
    if not release.private:
        return (*cef_promises(release.dataset), *_counting_promises())
    return (
        *cef_promises(release.dataset),
        *_counting_promises(),
        *charge_promises(),
        Promise(
            "counts_as_charged",
            "charge",
            "The exact counts are those that the charge was made for.",
            _counts_as_charged,
        ),
        Promise(
            "measured_grid",
            "noisy_measurements",
            "Every run, region, iteration and cell that is released is measured exactly once, as an integer.",
            _measured_grid,
        ),
        Promise(
            "variance_as_declared",
            "noisy_measurements",
            "Every measurement states the distribution and exact variance that its budget calls for.",
            _variance,
        ),
        Promise(
            "noise_as_declared",
            "noisy_measurements",
            "Measurement less count is the draw's noise, and has the declared distribution (chi-square).",
            _noise,
        ),
        *draw_promises("noisy_measurements", "measurements", replay=release.can_replay),
        *finished_promises(),
        *closing_promises(),
    )


def _counting_promises() -> list[Promise[PHSafeRelease]]:
    return [
        Promise("join_of_the_cef", "truncated_join", "The truncated join is that of the CEF as it is.", _join),
        Promise("counts_of_the_join", "counts", "The exact counts are those of the truncated join.", _counts),
        Promise(
            "grid_complete",
            "counts",
            "Every run, region, iteration and cell that is released is counted exactly once.",
            _grid,
        ),
    ]


def _join(house: Here) -> list[str]:
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return differing_table(session, house.release.confidential(JOINED), join_made(session, house.release))


def _counts(house: Here) -> list[str]:
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return differing_table(session, house.release.confidential(COUNTS), counts_made(session, house.release))


def _grid(house: Here) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return _grid_problems(release, in_order(session, release.confidential(COUNTS)))


def _measured_grid(house: Here) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        return _grid_problems(release, in_order(session, release.public(MEASUREMENTS)))


def _grid_problems(release: PHSafeRelease, cells: pa.Table) -> list[str]:
    try:
        require_grid(cells, release.design)
    except GridError as error:
        return [str(error)]
    return []


def _counts_as_charged(house: Here) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        charged = describe_draw(session, release, house.custody).counts_version
        if counts_version(session, release, house.custody) != charged:
            return ["the counts have changed since the charge; materialize counts and charge again"]
        return []


def _variance(house: Here) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.PUBLIC]) as session:
        measurements = in_order(session, release.public(MEASUREMENTS))
    problems: list[str] = []
    for run, level, part in slices(measurements, release.design):
        stated = DISTRIBUTIONS[release.design.noise], variance_of(release.design, run, level)
        for name, expected in zip(("noise_distribution", "variance"), stated, strict=True):
            wrong = len(part) - (pc.sum(pc.equal(part[name], expected)).as_py() or 0)
            problems += said(wrong, f"{run.name} {level.name}: measurements with another {name.replace('_', ' ')}")
    return problems


def _noise(house: Here) -> list[str]:
    release = house.release
    with house.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw: PHSafeDraw = describe_draw(session, release, house.custody)
        counts = in_order(session, release.confidential(COUNTS))
        measurements = in_order(session, release.public(MEASUREMENTS))
    if len(counts) != len(measurements):
        return [f"{len(measurements):,} measurements, but {len(counts):,} counts"]
    noise = measurements["count"].to_numpy() - counts["count"].to_numpy()
    problems = []
    if release.can_replay and house.ledger.reservation(draw.draw_id) is not None:
        again = draw_noise(release.design, house.custody.open_key(draw.draw_id, release.custody))
        problems += said(int((noise != again).sum()), "measurements that are not count and noise")
    start, drawn = 0, {}
    for run, level, part in slices(measurements, release.design):
        drawn[f"{run.name} {level.name}"] = binned(
            noise[start : start + len(part)], release.design.noise_of(run, level)
        )
        start += len(part)
    return problems + [f"the noise does not have the declared distribution: {name}" for name in misfits(drawn)]
