"""The errors of products of swapped data, compared with the confidential records.

The errors depend on the true counts, so they are confidential and stay in the confidential zone. They may be shown only
for a synthetic dataset.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from assets.swapping.cells import DRAW_NUMBER, stage_decoded, stage_drawn
from assets.swapping.declaration import ExperimentDeclaration
from assets.swapping.product import SwappedProduct
from assets.swapping.records import read_contingency, stage_records
from assets.swapping.release import SwappingRelease
from assets.swapping.tables import counted, product_names
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, permute
from resources.statements import Fragment, Table
from resources.warehouse import Session

_CELLS_AT_A_TIME = 2_000_000
"""About how many cells of the experiment's draws are compared by one statement."""

_WITHOUT_CELLS = (None, None, 0, 0)
"""The error of a product without cells, such as of persons in vacant units, as `swapping/mape` states it too."""


@dataclass(frozen=True)
class ProductError:
    """The error of one product.

    Attributes:
        product: the name of the product.
        mape: the mean of |true - swapped| / true over the cells whose true count is positive; None if there are none.
        largest_difference: the greatest |true - swapped| over all cells.
        cells: the number of cells whose true count is positive.
        empty_cells: the number of cells whose true count is 0, which are left out of the mean.
    """

    product: str
    mape: float | None
    largest_difference: int
    cells: int
    empty_cells: int


def product_errors(session: Session, release: SwappingRelease, swapped: Table) -> list[ProductError]:
    """The error of every product of a release, without totals."""
    table = read_contingency(session, release, stage_records(session, release))
    original = stage_decoded(session, release, table, "original_records")
    errors = []
    for product in release.declaration.products:
        truth = _tabulate(session, release, product, original, "truth")
        published = _tabulate(session, release, product, swapped, "published")
        (error,) = _errors(session, product, truth, published)
        errors.append(ProductError(product.name, *error))
    return errors


def experiment_errors(
    session: Session, release: SwappingRelease, experiment: ExperimentDeclaration, key: bytes
) -> Iterable[tuple[Fraction, int, ProductError]]:
    """The errors of the experiment's product in repeated draws at each swap rate.

    Args:
        session: a session that reads both zones.
        experiment: the swap rates and the number of draws at each.
        key: the key of the experiment's own random streams, 32 bytes.

    Yields:
        The swap rate, the number of the draw from 1, and the error.
    """
    (product,) = (product for product in release.declaration.products if product.name == experiment.product)
    table = read_contingency(session, release, stage_records(session, release))
    original = stage_decoded(session, release, table, "original_records")
    truth = _tabulate(session, release, product, original, "truth")
    plan = [(rate, number) for rate in sorted(experiment.swap_rates) for number in range(1, experiment.draws + 1)]

    def draw(planned: tuple[Fraction, int]) -> Contingency:
        rate, number = planned
        return permute(table, rate, RandomStream(key, f"experiment {rate} {number}"))

    with ThreadPoolExecutor() as threads:
        size = max(1, _CELLS_AT_A_TIME // max(1, len(table.count)))
        for together in (plan[first : first + size] for first in range(0, len(plan), size)):
            drawn = stage_drawn(session, release, list(threads.map(draw, together)), "drawn_records")
            published = _tabulate(session, release, product, drawn, "published", [DRAW_NUMBER])
            found = {number: error for number, *error in _errors(session, product, truth, published, [DRAW_NUMBER])}
            for position, (rate, number) in enumerate(together):
                yield rate, number, ProductError(product.name, *found.get(position, _WITHOUT_CELLS))


def _tabulate(
    session: Session,
    release: SwappingRelease,
    product: SwappedProduct,
    units: Fragment | Table,
    name: str,
    draws: Sequence[str] = (),
) -> Fragment:
    names = product_names(product, counted(session, release, product, units))
    names |= {"columns": [*draws, *product.columns], "totals": {}}
    return session.stage(name, "swapping/product", **names)


def _errors(
    session: Session, product: SwappedProduct, truth: Fragment, published: Fragment, draws: Sequence[str] = ()
) -> list[tuple[Any, ...]]:
    names = {"columns": list(product.columns), "draws": list(draws)}
    return session.rows("swapping/mape", original=truth, swapped=published, **names)
