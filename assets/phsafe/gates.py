"""What a release by PHSafe promises beyond what every release does.

Here belongs the evaluation of a promise, on the tables as they are at that moment.
"""

import pyarrow as pa
import pyarrow.compute as pc

from assets.gates.shared import (
    cef_gates,
    charge_gates,
    closing_gates,
    differing_table,
    draw_gates,
    said,
)
from assets.phsafe.draw import PHSafeDraw, describe_draw
from assets.phsafe.measurements import (
    COUNTS,
    JOINED,
    MEASUREMENTS,
    counts_recipe,
    counts_version,
    in_order,
    join_recipe,
)
from assets.phsafe.noise import DISTRIBUTIONS, GridError, require_grid, slices, variance_of
from assets.phsafe.release import PHSafeRelease
from assets.phsafe.table_gates import finished_gates
from assets.release.method import Gate, ReleaseContext
from mechanisms.phsafe.noise import draw_noise
from mechanisms.sampling.goodness import binned, misfits
from resources.statements import Zone

Context = ReleaseContext[PHSafeRelease]


def phsafe_gates(release: PHSafeRelease) -> tuple[Gate[PHSafeRelease], ...]:
    """All promises of a release, in the order of its stages; one that draws nothing has those up to its counts."""
    if not release.private:
        return (*cef_gates(release.dataset), *_counting_gates())
    return (
        *cef_gates(release.dataset),
        *_counting_gates(),
        *charge_gates(),
        Gate(
            "counts_as_charged",
            "charge",
            "The exact counts are those that the charge was made for.",
            _counts_as_charged,
        ),
        Gate(
            "measured_grid",
            "noisy_measurements",
            "Every run, region, iteration and cell that is released is measured exactly once, as an integer.",
            _measured_grid,
        ),
        Gate(
            "variance_as_declared",
            "noisy_measurements",
            "Every measurement states the distribution and exact variance that its budget calls for.",
            _variance,
        ),
        Gate(
            "noise_as_declared",
            "noisy_measurements",
            "Measurement less count is the draw's noise, and has the declared distribution (chi-square).",
            _noise,
        ),
        *draw_gates("noisy_measurements", "measurements", replay=release.can_replay),
        *finished_gates(),
        *closing_gates(),
    )


def _counting_gates() -> list[Gate[PHSafeRelease]]:
    return [
        Gate("join_of_the_cef", "truncated_join", "The truncated join is that of the CEF as it is.", _join),
        Gate("counts_of_the_join", "counts", "The exact counts are those of the truncated join.", _counts),
        Gate(
            "grid_complete",
            "counts",
            "Every run, region, iteration and cell that is released is counted exactly once.",
            _grid,
        ),
    ]


def _join(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return differing_table(session, context.release.confidential(JOINED), join_recipe(session, context.release))


def _counts(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return differing_table(session, context.release.confidential(COUNTS), counts_recipe(session, context.release))


def _grid(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return _grid_problems(release, in_order(session, release.confidential(COUNTS)))


def _measured_grid(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        return _grid_problems(release, in_order(session, release.public(MEASUREMENTS)))


def _grid_problems(release: PHSafeRelease, cells: pa.Table) -> list[str]:
    try:
        require_grid(cells, release.design)
    except GridError as error:
        return [str(error)]
    return []


def _counts_as_charged(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        charged = describe_draw(session, release, context.custody).counts_version
        if counts_version(session, release, context.custody) != charged:
            return ["the counts have changed since the charge; materialize counts and charge again"]
        return []


def _variance(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        measurements = in_order(session, release.public(MEASUREMENTS))
    problems: list[str] = []
    for run, level, part in slices(measurements, release.design):
        stated = DISTRIBUTIONS[release.design.noise], variance_of(release.design, run, level)
        for name, expected in zip(("noise_distribution", "variance"), stated, strict=True):
            wrong = len(part) - (pc.sum(pc.equal(part[name], expected)).as_py() or 0)
            problems += said(wrong, f"{run.name} {level.name}: measurements with another {name.replace('_', ' ')}")
    return problems


def _noise(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw: PHSafeDraw = describe_draw(session, release, context.custody)
        counts = in_order(session, release.confidential(COUNTS))
        measurements = in_order(session, release.public(MEASUREMENTS))
    if len(counts) != len(measurements):
        return [f"{len(measurements):,} measurements, but {len(counts):,} counts"]
    noise = measurements["count"].to_numpy() - counts["count"].to_numpy()
    problems = []
    if release.can_replay and context.ledger.reservation(draw.draw_id) is not None:
        again = draw_noise(release.design, context.custody.open_key(draw.draw_id, release.custody))
        problems += said(int((noise != again).sum()), "measurements that are not count and noise")
    start, drawn = 0, {}
    for run, level, part in slices(measurements, release.design):
        drawn[f"{run.name} {level.name}"] = binned(
            noise[start : start + len(part)], release.design.noise_of(run, level)
        )
        start += len(part)
    return problems + [f"the noise does not have the declared distribution: {name}" for name in misfits(drawn)]
