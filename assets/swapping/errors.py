"""The errors of products of swapped data, compared with the confidential records.

The errors depend on the true counts, so they are confidential and stay in the confidential zone. They may be shown only
for a synthetic dataset.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from assets.swapping.cells import decoded, stage_decoded
from assets.swapping.product import SwappedProduct
from assets.swapping.records import read_contingency, stage_records
from assets.swapping.release import Experiment, SwappingRelease
from assets.swapping.tables import counted, product_names
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, permute
from resources.statements import Fragment, Table, statement
from resources.warehouse import Session


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
    for product in release.products:
        truth = _tabulate(session, release, product, original, "truth")
        published = _tabulate(session, release, product, swapped, "published")
        errors.append(_error(session, product, truth, published))
    return errors


def experiment_errors(
    session: Session, release: SwappingRelease, experiment: Experiment, key: bytes
) -> Iterable[tuple[Fraction, int, ProductError]]:
    """The errors of the experiment's product in repeated draws at each swap rate.

    Args:
        session: a session that reads both zones.
        release: the release.
        experiment: the swap rates and the number of draws at each.
        key: the key of the experiment's own random streams, 32 bytes.

    Yields:
        The swap rate, the number of the draw from 1, and the error.
    """
    (product,) = (product for product in release.products if product.name == experiment.product)
    table = read_contingency(session, release, stage_records(session, release))
    original = stage_decoded(session, release, table, "original_records")
    truth = _tabulate(session, release, product, original, "truth")
    plan = [(rate, number) for rate in experiment.swap_rates for number in range(1, experiment.draws + 1)]

    def draw(planned: tuple[Fraction, int]) -> Contingency:
        rate, number = planned
        return permute(table, rate, RandomStream(key, f"experiment {rate} {number}"))

    with ThreadPoolExecutor() as threads:
        for (rate, number), swapped in zip(plan, threads.map(draw, plan), strict=True):
            records = counted(session, release, product, decoded(session, release, swapped))
            # A draw has few cells: one statement takes half the time of three temporary tables.
            published = Fragment(f"({statement('swapping/product', _names(product, records))})")
            yield rate, number, _error(session, product, truth, published)


def _tabulate(
    session: Session, release: SwappingRelease, product: SwappedProduct, units: Fragment | Table, name: str
) -> Fragment:
    return session.stage(name, "swapping/product", **_names(product, counted(session, release, product, units)))


def _names(product: SwappedProduct, records: Fragment | Table) -> dict[str, Any]:
    return product_names(product, records) | {"totals": {}}


def _error(session: Session, product: SwappedProduct, truth: Fragment, published: Fragment) -> ProductError:
    row = session.row("swapping/mape", original=truth, swapped=published, columns=list(product.columns))
    return ProductError(product.name, *row)
