"""Answers of a settled draw that its estimation did not read, made under the custody: any part of the complete
measurement, which the charge covers as a whole."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from assets.charge.drawing import make_output
from assets.topdown.dhc.levels import plan_histograms, read_exact
from assets.topdown.dhc.method import DHCMethod
from assets.topdown.release import SPINE
from assets.topdown.spine import read_tree
from mechanisms.refusal import RefusedError
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.levels import Measuring
from resources.ledger import Ledger
from resources.statements import SQL, Zone

MOST_ANSWERS = 10_000_000
"""The most answers that are made at a time: 0.5 GB of rows."""

_NUMBERS = SQL(
    "dhc/numbers",
    "SELECT geoid, number FROM {{ spine }} WHERE level = $level AND list_contains($geoids, geoid) ORDER BY number",
)


class UnansweredError(RefusedError):
    """No answer was drawn for what is asked."""


def regenerate(
    method: DHCMethod, ledger: Ledger, histogram: str, level: str, query: str, geoids: Sequence[str]
) -> pa.Table:
    """All answers to a query in some places: their exact counts plus the noise of the draw. Where the release stores an
    answer, it is the same. Nothing is charged, because the charge is for the answers to all queries in all measured
    places.

    Returns:
        A row for each place and marginal cell, in their order: `histogram`, `level`, `query`, `geoid`, `cell`,
        `answer`.

    Raises:
        UnansweredError: for a histogram, level, query or place that the draw does not measure, for more than
            `MOST_ANSWERS`, and for a draw that is not settled.
        UnchargedDrawError, CustodyError, StaleInputError: as `assets.charge.drawing.make_output`.
    """
    release, custody = method.release, ledger.custody
    with ledger.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = method.describe(session, custody)
        if ledger.read().find_settlement(draw.draw_id) is None:
            raise UnansweredError(f"{release.schema}: the draw is not settled; launch the release first")
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
        schema = SCHEMAS[histogram]
        cells = np.arange(schema.marginal(query).size)
        size = len(numbers) * len(cells)
        if size > MOST_ANSWERS:
            raise UnansweredError(
                f"{release.schema}: {len(numbers)} places have {size:,} answers to {query}; ask for at most "
                f"{MOST_ANSWERS:,} at a time"
            )
        drawing, answers = make_output(method, session, draw, custody, ledger), []
        for number in numbers.values():
            place = whole.take(number, number + 1)
            exact = read_exact(session, release, tree, histogram, place)
            answers.append(Measuring(schema, place, exact, drawing.key).read(query, 0, 1, cells)[0])
    return pa.table(
        {
            "histogram": pa.repeat(histogram, size),
            "level": pa.repeat(level, size),
            "query": pa.repeat(query, size),
            "geoid": np.repeat(list(numbers), len(cells)),
            "cell": np.tile(cells, len(numbers)),
            "answer": np.concatenate(answers),
        }
    )


def _require_one_of(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise UnansweredError(f"{what}: {given!r} is none of {', '.join(known)}")
