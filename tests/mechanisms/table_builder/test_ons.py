"""Equality with the Office for National Statistics' package `cell-key-perturbation` 3.1.0, cell by cell.

The p-tables are the package's own, which rounds every count and needs no key, and a random one of the same shape.
"""

import io
from contextlib import redirect_stdout

import numpy as np
import pandas as pd
import pytest
from cell_key_perturbation.create_perturbed_table import create_perturbed_table
from cell_key_perturbation.utils.generate_test_ptable import generate_ptable_10_5_rule

from mechanisms.table_builder.p_table import PTable
from mechanisms.table_builder.reading import read_ons
from tests.depth import deep_cases

RECORDS, KEYS, THRESHOLD = 100_000, 256, 10
VARIABLES = ["region", "age", "sex"]


def random_table() -> pd.DataFrame:
    """750 counts × 256 keys, with changes from −5 to 5 that leave no result negative."""
    table = generate_ptable_10_5_rule()
    changes = np.random.default_rng(3).integers(-5, 6, len(table))
    return table.assign(pvalue=np.maximum(changes, -table["pcv"]))


def records() -> pd.DataFrame:
    """Counts of 0, of a few, around the threshold, between 501 and 750, and beyond 750, up to several thousands."""
    generator = np.random.default_rng(4)
    shares = np.array([2.0 ** -(place / 2) for place in range(24)])
    return pd.DataFrame(
        {
            "region": generator.choice(24, RECORDS, p=shares / shares.sum()),
            "age": generator.integers(0, 9, RECORDS),
            "sex": generator.choice(["f", "m"], RECORDS, p=[0.7, 0.3]),
            "record_key": generator.integers(0, KEYS, RECORDS),
        }
    )


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return records()


def theirs(data: pd.DataFrame, table: pd.DataFrame, threshold: int = THRESHOLD) -> pd.DataFrame:
    with redirect_stdout(io.StringIO()):
        return create_perturbed_table(data, table, ["region"], ["age", "sex"], "record_key", threshold=threshold)


def ours(data: pd.DataFrame, cells: pd.DataFrame, table: PTable) -> pd.DataFrame:
    """The same cells, counted and perturbed without the package."""
    grouped = data.groupby(VARIABLES)["record_key"].agg(["size", "sum"]).reindex(cells[VARIABLES], fill_value=0)
    results = table.look_up(grouped["size"].to_numpy(), grouped["sum"].to_numpy())
    return pd.DataFrame({"exact": grouped["size"].to_numpy(), "result": results, "suppressed": results < THRESHOLD})


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize("make", [random_table, generate_ptable_10_5_rule])
def test_every_cell_of_100_000_records_equals_the_package(data: pd.DataFrame, make) -> None:  # type: ignore[no-untyped-def]
    given = make()
    expected = theirs(data, given)
    table = read_ons(given.to_csv(index=False))
    found = ours(data, expected, table)
    exact = found["exact"].to_numpy()
    assert (exact == 0).any()
    assert ((exact > 0) & (exact < THRESHOLD)).any()
    assert ((exact > 500) & (exact <= 750)).any()
    assert len(np.unique(table.row_numbers(exact[exact > 750]))) > 5
    assert np.array_equal(exact, expected["pre_sdc_count"])
    assert np.array_equal(found["suppressed"], expected["count"].isna())
    published = ~found["suppressed"].to_numpy()
    assert published.any()
    assert found["suppressed"].any()
    assert np.array_equal(found["result"][published], expected["count"][published].to_numpy(dtype=np.int64))


@pytest.mark.prove
def test_a_row_rule_that_is_off_by_one_and_keys_of_another_modulus_differ(data: pd.DataFrame) -> None:
    given = random_table()
    expected = theirs(data, given, threshold=-100)["count"].to_numpy(dtype=np.int64)
    table = read_ons(given.to_csv(index=False))
    cells = theirs(data, given)
    assert np.array_equal(ours(data, cells, table)["result"], expected)
    for wrong in (PTable(table.rows, cycle=249), PTable(table.rows, cycle=251), PTable(table.rows)):
        assert not np.array_equal(ours(data, cells, wrong)["result"], expected)
    shifted = data.assign(record_key=data["record_key"] % 255)
    assert not np.array_equal(ours(shifted, cells, table)["result"], expected)
