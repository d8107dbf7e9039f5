"""Regeneration, under the custody, of answers of a settled draw that its estimation did not read. The charge covers the
complete measurement, so any part of it can be made."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.charge.drawing import ReplayError, make_output, require_charge
from assets.topdown.dhc.levels import plan_histograms, read_exact
from assets.topdown.dhc.measurements import Stored
from assets.topdown.dhc.method import DHCMethod
from assets.topdown.dhc.release import DHCRelease
from assets.topdown.release import SPINE
from assets.topdown.spine import read_tree
from mechanisms.refusal import RefusedError
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.levels import Level, Measuring
from resources.chain import find_last_withdrawal
from resources.ledger import Ledger
from resources.statements import SQL, Zone
from resources.warehouse import Session

MOST_ANSWERS = 10_000_000
"""The maximum number of answers made at a time: 1.1 GB of memory, 0.6 GB as CSV."""

_NUMBERS = SQL(
    "dhc/numbers",
    "SELECT geoid, number FROM {{ spine }} WHERE level = $level AND list_contains($geoids, geoid) ORDER BY number",
)


class UnansweredError(RefusedError):
    """The requested answers were not drawn."""


def regenerate(
    method: DHCMethod, ledger: Ledger, histogram: str, level: str, query: str, geoids: Sequence[str]
) -> pa.Table:
    """All answers to a query in some places: their exact counts plus the noise of the draw. They cost no further
    budget, because the charge covers the answers to all queries in all measured places.

    Noise other than the draw's would reveal more than was charged, so the answers must equal the stored answers of the
    release where these exist.

    Returns:
        A row for each place and marginal cell, in their order: `histogram`, `level`, `query`, `geoid`, `cell`,
        `answer`.

    Raises:
        UnansweredError: for a histogram, level, query or place that the draw does not measure, for more than
            `MOST_ANSWERS`, for a draw that is not settled or was withdrawn, and for a draw with an ephemeral key.
        UnchargedDrawError, CustodyError, StaleInputError: as `assets.charge.drawing.make_output`.
        LedgerError: if the ledger is not intact.
        ReplayError: if a stored answer differs.
    """
    release, custody = method.release, ledger.custody
    if not release.can_replay:
        raise UnansweredError(f"{release.schema}: the key of its draw was ephemeral, so no answer is made again")
    reading = ledger.read()
    if withdrawn := find_last_withdrawal(reading.require_intact(), release.dataset.name, release.name):
        # Its tables are gone, so its draw cannot be described.
        raise UnansweredError(
            f"{release.schema}: the release was withdrawn in ledger entry {withdrawn.sequence}; its draw is never "
            "made again"
        )
    with ledger.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        method.hold_charged(session)
        draw = method.describe(session, custody)
        require_charge(method, draw, reading)
        if reading.find_settlement(draw.draw_id) is None:
            raise UnansweredError(f"{release.schema}: draw {draw.draw_id} is not settled; launch the release first")
        _require_one_of(f"{release.schema}: histogram", histogram, list(SCHEMAS))
        _require_one_of(f"{release.schema}: level", level, release.levels)
        tree = read_tree(session, release)
        whole = plan_histograms(release, tree)[histogram][release.levels.index(level)]
        _require_one_of(f"{release.schema}: {histogram} {level}: query", query, list(whole.variances))
        asked = {"level": level, "geoids": list(geoids)}
        numbers = dict(session.rows(_NUMBERS, asked, spine=release.public(SPINE)))
        if unknown := sorted(set(geoids) - numbers.keys()):
            raise UnansweredError(f"{release.schema}: {level}: {len(unknown)} unknown places, such as {unknown[0]!r}")
        if only := [geoid for geoid, number in numbers.items() if whole.runs[number] < 0]:
            raise UnansweredError(
                f"{release.schema}: {level}: {len(only)} of the places are the only ones in the next larger place and "
                f"are measured there alone, such as {only[0]}"
            )
        cells = np.arange(SCHEMAS[histogram].marginal(query).size)
        size = len(numbers) * len(cells)
        if size > MOST_ANSWERS:
            raise UnansweredError(
                f"{release.schema}: {len(numbers)} places have {size:,} answers to {query}; ask for at most "
                f"{MOST_ANSWERS:,} at a time"
            )
        drawing, answers = make_output(method, session, draw, custody, ledger), []
        places = np.array(list(numbers.values()))
        for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            own = whole.take(int(run[0]), int(run[-1]) + 1)
            exact = read_exact(session, release, tree, histogram, own)
            made = Measuring(SCHEMAS[histogram], own, exact, drawing.key).read(query, 0, len(run), cells)
            _require_as_stored(session, release, histogram, own, query, made)
            answers.append(made.ravel())
    return pa.table(
        {
            "histogram": _repeat([histogram], size),
            "level": _repeat([level], size),
            "query": _repeat([query], size),
            "geoid": _repeat(list(numbers), len(cells)),
            "cell": np.tile(cells, len(numbers)),
            "answer": np.concatenate(answers),
        }
    )


def _require_as_stored(
    session: Session, release: DHCRelease, histogram: str, level: Level, query: str, made: NDArray[np.int64]
) -> None:
    for asked, stored in Stored(session, release, SCHEMAS[histogram], level, [query]).list_kept(query):
        places, cells = np.repeat(asked.places, np.diff(asked.ends)), asked.repeat_cells()
        if np.any(made[places, cells.clip(0, made.shape[1] - 1)] != stored):
            raise ReplayError(
                f"{release.schema}: {histogram} {level.name} {query}: answers that are stored are made otherwise now; "
                "nothing is given. If this software was changed since, the version before makes them again"
            )


def _repeat(texts: Sequence[str], times: int) -> pa.DictionaryArray:
    """Texts, each repeated `times` times, as a dictionary: ten million rows of strings would take gigabytes."""
    return pa.DictionaryArray.from_arrays(np.repeat(np.arange(len(texts), dtype=np.int32), times), texts)


def _require_one_of(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise UnansweredError(f"{what}: {given!r} is none of {', '.join(known)}")
