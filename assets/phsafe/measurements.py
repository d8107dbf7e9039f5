"""Exact counts and noisy measurements in the warehouse: written, read back, and drawn again.

Here belongs the way between the tables and `noise`. When a draw is made belongs in `assets.charge.drawing`.
"""

import pyarrow as pa

from assets.phsafe.counts import grid_counts, write_counts
from assets.phsafe.draw import PHSafeDraw
from assets.phsafe.join import joined_counts, write_truncated_join, write_truncation_report
from assets.phsafe.noise import measured, measurements_version, require_grid
from assets.phsafe.release import PHSafeRelease
from assets.release.draw import StaleInputError, is_drawn, label_drawn
from mechanisms.phsafe.noise import draw_noise
from mechanisms.phsafe.runs import Level
from resources.custody import Custody
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

JOINED, REPORT, COUNTS = "truncated_join", "truncation_report", "counts"
MEASUREMENTS = "noisy_measurements"


def truncation(release: PHSafeRelease) -> dict[str, int | None]:
    """τ of each run that is released; None for runs of units."""
    return {run.name: release.design.truncation(run) for run, _, _ in release.design.released}


def join_recipe(session: Session, release: PHSafeRelease) -> Recipe:
    """How the truncated join is made from the CEF."""
    return joined_counts(session, release.dataset, release.design.states, truncation(release))


def counts_recipe(session: Session, release: PHSafeRelease) -> Recipe:
    """How the exact counts are made from the truncated join."""
    return grid_counts(session, release.confidential(JOINED), release.design.states, _released(release))


def _released(release: PHSafeRelease) -> set[tuple[str, Level]]:
    return {(run.name, level) for run, level, _ in release.design.released}


def write_join(session: Session, release: PHSafeRelease) -> None:
    """Write the truncated join, counted, and what truncation leaves out."""
    states, thresholds = release.design.states, truncation(release)
    write_truncated_join(session, release.dataset, release.confidential(JOINED), states, thresholds)
    report = release.confidential(REPORT)
    if any(threshold is not None for threshold in thresholds.values()):
        write_truncation_report(session, release.dataset, report, states, thresholds)
    else:
        session.run("warehouse/drop_table", table=report)


def write_exact_counts(session: Session, release: PHSafeRelease) -> None:
    """Write the exact counts of all that is released."""
    joined, target = release.confidential(JOINED), release.confidential(COUNTS)
    write_counts(session, joined, target, release.design.states, _released(release))


def counts_version(session: Session, release: PHSafeRelease, custody: Custody) -> str:
    """The keyed version of the stored exact counts."""
    return session.content_version([release.confidential(COUNTS)], custody.version_key())


def drawn_measurements(session: Session, release: PHSafeRelease, draw: PHSafeDraw, custody: Custody) -> pa.Table:
    """The draw's output, from the exact counts and the draw's key: the same whenever it is made.

    Raises:
        StaleInputError: if the exact counts are not the ones that were charged.
        CustodyError: if the draw's key is gone.
    """
    if counts_version(session, release, custody) != draw.counts_version:
        raise StaleInputError(
            f"{release.schema}: the exact counts have changed since they were charged; materialize charge again"
        )
    counts = in_order(session, release.confidential(COUNTS))
    require_grid(counts, release.design)
    key = custody.open_key(draw.draw_id, release.custody)
    return measured(counts, release.design, draw_noise(release.design, key))


def write_measurements(session: Session, release: PHSafeRelease, draw: PHSafeDraw, measurements: pa.Table) -> None:
    """Store measurements, and the draw they are of."""
    lent = session.register("drawn", measurements)
    session.create(release.public(MEASUREMENTS), "phsafe/in_order", table=lent)
    label_drawn(session, release, draw)


def stored_version(session: Session, release: PHSafeRelease, draw: PHSafeDraw) -> str | None:
    """The content hash of the stored measurements; None unless their label says that they are this draw's."""
    if not is_drawn(session, release, draw):
        return None
    return measurements_version(in_order(session, release.public(MEASUREMENTS)))


def in_order(session: Session, table: Table | Fragment) -> pa.Table:
    """Counts or measurements as an Arrow table, in the order in which noise is drawn."""
    return session.arrow("phsafe/in_order", table=table)
