"""Products with estimates: beside each swapped count, an unbiased estimate with its standard error and 90% interval.

They follow from public tables alone: the invariants, the swapped data and the declared swap rates.
`mechanisms.swapping.uncertainty` has the mathematics.
"""

from itertools import chain, combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.swapping.cells import CELLS
from assets.swapping.product import ESTIMATED, SwappedProduct
from assets.swapping.records import COMPOSITIONS, HOLDING, SWAPPING, swap_variables
from assets.swapping.release import SwappingRelease
from assets.swapping.stirs import first_stir
from mechanisms.swapping.uncertainty import (
    Contributions,
    Estimates,
    MomentsOfStrata,
    estimates,
    intervals,
    moments_of_strata,
)
from resources.statements import Fragment
from resources.warehouse import Recipe, Session

ROWS = 1 << 20
"""How many contributions are in memory at a time."""

_HUNDREDTHS = 100


def stored_moments(session: Session, release: SwappingRelease) -> MomentsOfStrata:
    """The moments of all strata, from the stored invariants and the declared rates.

    Args:
        session: a session that reads the public zone.
        release: a release whose rates are constant within strata.
    """
    stir, records = first_stir(session, release, release.public(HOLDING), "holding_code")
    firsts = np.flatnonzero(np.diff(stir.stratum, prepend=-1))
    sizes = np.add.reduceat(records, firsts) if len(firsts) else records
    return moments_of_strata(sizes, [stir.rates[place] for place in stir.rate_class[firsts]])


def with_estimates(
    session: Session, release: SwappingRelease, product: SwappedProduct, counts: Recipe, moments: MomentsOfStrata
) -> Recipe:
    """The recipe of a product with estimates.

    Args:
        session: a session that reads the public zone.
        release: a release whose rates are constant within strata.
    """
    name, values, names = counts
    counted = session.stage(f"counts_of_{product.name}", name, values, **names)
    key = [*product.columns, *product.flags.values()]
    cells = session.stage(f"cells_of_{product.name}", "swapping/numbered", product=counted, key=key)
    (number,) = session.row("warehouse/count", table=cells)
    figures = _hundredths(_found(session, release, product, cells, int(number), moments))
    found = pa.table({"cell_number": pa.array(np.arange(number)), **figures})
    return (
        "swapping/estimated",
        {},
        {"product": cells, "found": session.register(f"estimates_of_{product.name}", found), "figures": list(figures)},
    )


def _found(
    session: Session,
    release: SwappingRelease,
    product: SwappedProduct,
    cells: Fragment,
    number: int,
    moments: MomentsOfStrata,
) -> Estimates:
    """The estimates of all cells: the sums of those of the strata's contributions."""
    design, of_persons = release.design, product.of == "persons"
    amounts = session.stage(
        "amounts",
        "swapping/held",
        holding=release.public(HOLDING),
        held=[column for column in product.columns if column in design.holding],
        persons=release.public(COMPOSITIONS) if of_persons else None,
        of_persons=[column for column in product.columns if column in release.person_variables],
    )
    sums = Estimates(*(np.zeros(number) for _ in range(5)))
    for summed in chain.from_iterable(combinations(product.totals, size) for size in range(len(product.totals) + 1)):
        columns = [column for column in product.columns if column not in summed]
        names: dict[str, Any] = {
            "amounts": amounts,
            "swapping": release.public(SWAPPING),
            "cells": release.public(CELLS),
            "product": cells,
            "held": [column for column in columns if column not in design.swap],
            # The strata of a cell follow from match variables on either side.
            "swapped": [column for column in columns if column in swap_variables(release)],
            "summed": [product.flags[column] for column in summed],
            "single": [flag for column, flag in product.flags.items() if column not in summed],
        }
        for batch in session.batches("swapping/contributions", ROWS, **names):
            _add(sums, batch, moments)
    return sums


def _add(sums: Estimates, batch: pa.RecordBatch, moments: MomentsOfStrata) -> None:
    """Add the estimates of contributions to those of their cells, in the order of the rows."""
    column = {name: batch.column(name).to_numpy() for name in batch.schema.names}
    cell, stratum = column.pop("cell_number"), column.pop("stratum")
    each = estimates(Contributions(**column), moments.of(stratum))
    for name, values in vars(each).items():
        np.add.at(getattr(sums, name), cell, values)


def _hundredths(found: Estimates) -> dict[str, NDArray[np.int64]]:
    """The figures that are published, rounded to hundredths."""
    around = intervals(found)
    figures = (found.estimate, around.standard_error, around.lower, around.upper, found.greatest_bias)
    return {
        name: np.rint(figure * _HUNDREDTHS).astype(np.int64) for name, figure in zip(ESTIMATED, figures, strict=True)
    }
