"""Cells that are perturbed by a p-table, and the test of whether they look as if they were.

Under query consistency every table is drawn from its own stream. Under cell consistency the result follows from the
keys of the cell's records: from those that the draw's key gives them, or from those that the data bring along.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from assets.measurement.batches import Batch
from assets.table_builder.cell_keys import cell_keys, keys_of_records, margins_of_keys
from assets.table_builder.counting import added_up, records_read
from assets.table_builder.declaration import Amount
from assets.table_builder.release import HypercubeRelease
from mechanisms.sampling.goodness import BinCounts, find_misfits
from mechanisms.sampling.noise import Distribution, Perturbation
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.grid_values import LARGEST_STEPS, Grid
from mechanisms.table_builder.hypercube import MECHANISM, Consistency, Hypercube, Table
from mechanisms.table_builder.keys import KeyedWords
from mechanisms.table_builder.p_table import bin_results, count_impossible
from resources.warehouse import Session

P_TABLE = "p-table"
"""The name of the noise in stored and published measurements."""


def noise_of(design: Hypercube, table: Table) -> Distribution | Perturbation:
    return Perturbation(P_TABLE, design.variance(table)) if design.p_table else design.distribution(table)


def perturbed_cells(session: Session, release: HypercubeRelease, exact: Iterator[Batch], key: bytes) -> Iterator[Batch]:
    """The results of all measured tables, in the order of the draw."""
    design = release.design
    p_table = design.p_table
    assert p_table is not None
    if design.consistency is Consistency.QUERY:
        for batch in exact:
            yield replace(batch, values=p_table.draw(batch.values, RandomStream(key, f"{MECHANISM} {batch.query}")))
    elif release.cube.record_keys is not None:
        sums = given_key_sums(session, release, release.cube.record_keys)
        for table, batch in zip(design.tables, exact, strict=True):
            of_cells = design.margin(sums, table).ravel()[release.possible_in(table)]
            yield replace(batch, values=p_table.look_up(batch.values, of_cells))
    else:
        assert release.counted.key is not None
        keys = keys_of_records(session, [release.counted.key], key, records_read(session, release, None))
        by_table = margins_of_keys(design, cell_keys(session, keys, design.cells(design.inner)))
        for table, batch in zip(design.tables, exact, strict=True):
            words = KeyedWords(key, by_table[table][release.possible_in(table)])
            yield replace(batch, values=p_table.draw_by_cell(batch.values, words))


def given_key_sums(session: Session, release: HypercubeRelease, column: str) -> np.ndarray:
    """The sums of the keys that the data bring along, in the inner table's shape."""
    return added_up(session, release, Amount(column, Grid(Fraction(1), Fraction(0), Fraction(LARGEST_STEPS))))


def unlikely_results(design: Hypercube, pairs: Iterable[tuple[Batch, Batch]]) -> list[str]:
    """What about the results does not fit the p-table: impossible ones, and rows that fail a chi-square test.

    Under cell consistency, cells with the same records have the same result. Only the inner cells with records are
    independent of each other, so only they are in the test.

    Args:
        pairs: exact cells with their results, the inner table first.
    """
    p_table = design.p_table
    assert p_table is not None
    found: list[str] = []
    counted: dict[str, BinCounts] = {}
    for place, (exact, noisy) in enumerate(pairs):
        counts, results = exact.values.ravel(), noisy.values.ravel()
        if wrong := count_impossible(counts, results, p_table):
            found.append(f"{exact.query}: {wrong:,} results that the p-table does not allow")
        if design.consistency is Consistency.CELL:
            tested = counts > 0 if place == 0 else np.zeros(len(counts), dtype=np.bool_)
            counts, results = counts[tested], results[tested]
        for row, part in bin_results(counts, results, p_table).items():
            counted[row] = counted[row] + part if row in counted else part
    return found + find_misfits(counted)
