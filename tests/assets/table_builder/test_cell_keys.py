"""Claims about counts and cell keys as DuckDB adds them up."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.table_builder.cell_keys import cell_keys, register_record_keys
from mechanisms.table_builder.keys import record_keys
from resources.statements import Fragment, Table, Zone
from resources.warehouse import Session, Warehouse

KEY = bytes(range(32))
RECORDS = Table(Zone.CONFIDENTIAL, "village", "persons")
SEXES, AGES = ["f", "m"], [0, 1, None]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    made = Warehouse(folder=str(tmp_path_factory.mktemp("home") / "warehouse"), threads=1)
    with made.session(writes=Zone.CONFIDENTIAL):
        pass
    return made


@pytest.fixture(scope="module")
def session(warehouse: Warehouse) -> Iterator[Session]:
    with warehouse.session(writes=Zone.CONFIDENTIAL) as opened:
        yield opened


def store(session: Session, columns: dict[str, object]) -> None:
    source = session.register("given", pa.table(columns))
    session.create(RECORDS, "warehouse/all", source=source)


def counted(session: Session, keys: Fragment) -> tuple[list[int], list[int]]:
    """The counts and the keys of all cells, as the statement of the hypercubes gives them."""
    sexes = session.register("sexes", pa.table({"category": SEXES, "step": [0, 3]}))
    ages = session.register("ages", pa.table({"category": pa.array(AGES, pa.int64()), "step": [0, 1, 2]}))
    found = session.arrow(
        "table_builder/inner",
        columns=["sex", "age"],
        domains=[{"column": "sex", "table": sexes}, {"column": "age", "table": ages}],
        records=RECORDS,
        unit=None,
        number=None,
        keys=keys,
        record="serial",
    )
    counts = dict(zip(found["cell"].to_pylist(), found["count"].to_pylist(), strict=True))
    return [counts.get(cell, 0) for cell in range(6)], whole(cell_keys(found, 6))


def whole(keys: np.ndarray) -> list[int]:
    return [(upper << 64) + lower for upper, lower in keys.tolist()]


PLACES = [(sex, age) for sex in SEXES for age in AGES]
EXTREME = st.sampled_from([0, 1, 2**63, 2**64 - 1, 2**64, 2**127, 2**128 - 1])


@given(st.lists(st.tuples(st.sampled_from(PLACES[:5]), EXTREME | st.integers(0, 2**128 - 1)), max_size=40))
def test_cell_keys_are_sums_modulo_2_to_the_128(session: Session, people: list[tuple[tuple, int]]) -> None:
    """Keys near 2^128 make every half carry. DuckDB's sum of UHUGEINT would be a DOUBLE, and that of HUGEINT fail."""
    serial = np.arange(len(people), dtype=np.int64)
    ages = pa.array([place[1] for place, _ in people], pa.int64())
    store(session, {"serial": serial, "sex": pa.array([place[0] for place, _ in people], pa.string()), "age": ages})
    halves = np.array([[key >> 64, key % 2**64] for _, key in people], dtype=np.uint64).reshape(-1, 2)
    table = pa.table({"serial": serial, "key_upper": halves[:, 0].copy(), "key_lower": halves[:, 1].copy()})
    counts, keys = counted(session, session.register("keys_given", table))
    assert counts == [sum(place == cell for place, _ in people) for cell in PLACES]
    assert keys == [sum(key for place, key in people if place == cell) % 2**128 for cell in PLACES]
    assert (counts[5], keys[5]) == (0, 0)


def test_very_many_of_the_greatest_keys_do_not_overflow(session: Session) -> None:
    many = 100_000
    serial = np.arange(many)
    store(session, {"serial": serial, "sex": pa.array(["f"] * many), "age": pa.array([1] * many)})
    greatest = np.full(many, 2**64 - 1, dtype=np.uint64)
    table = pa.table({"serial": serial, "key_upper": greatest, "key_lower": greatest})
    _, keys = counted(session, session.register("keys_given", table))
    assert keys[1] == many * (2**128 - 1) % 2**128


def test_record_keys_of_whole_numbers_are_those_of_their_distance_from_the_least(session: Session) -> None:
    numbers = [0, 7, -1, 2**63 - 1, -(2**63)]
    store(session, {"serial": numbers, "sex": ["f", "f", "m", "m", "m"], "age": [0, 1, 0, 1, None]})
    expected = whole(record_keys(KEY, np.array([[0, number + 2**63] for number in numbers], dtype=np.uint64)))
    _, keys = counted(session, register_record_keys(session, RECORDS, ["serial"], KEY))
    assert keys == [*expected[:2], 0, *expected[2:]]


def test_record_keys_of_texts_and_of_several_columns_are_all_different(session: Session) -> None:
    """Not even where the texts of the columns, written one after the other, are equal."""
    pairs = [("1", "12"), ("11", "2"), ("112", ""), ("", "112"), ("1:1", "2")]
    store(session, {"unit": [unit for unit, _ in pairs], "person": [person for _, person in pairs]})
    keys = session.arrow("warehouse/all", source=register_record_keys(session, RECORDS, ["unit", "person"], KEY))
    assert list(zip(keys["unit"].to_pylist(), keys["person"].to_pylist(), strict=True)) == pairs
    halves = list(zip(keys["key_upper"].to_pylist(), keys["key_lower"].to_pylist(), strict=True))
    assert len(set(halves)) == 5
    again = session.arrow("warehouse/all", source=register_record_keys(session, RECORDS, ["unit", "person"], KEY))
    assert again == keys


def test_the_order_of_records_does_not_matter(session: Session) -> None:
    columns = {"serial": [1, 2, 3, 4], "sex": ["f", "f", "m", "m"], "age": [0, 0, 1, 1]}
    store(session, columns)
    once = counted(session, register_record_keys(session, RECORDS, ["serial"], KEY))
    store(session, {name: values[::-1] for name, values in columns.items()})
    assert counted(session, register_record_keys(session, RECORDS, ["serial"], KEY)) == once
