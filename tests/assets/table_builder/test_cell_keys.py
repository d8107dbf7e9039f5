"""Claims about the keys of records and cells as DuckDB makes and adds them up."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.table_builder.cells import add_up_keys, derive_keys
from mechanisms.table_builder.keys import record_keys
from resources.statements import Table, Zone
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


def store(session: Session, columns: dict[str, Any]) -> None:
    source = session.register("given", pa.table(columns))
    session.create(RECORDS, "warehouse/all", source=source)


def named(session: Session) -> dict[str, Any]:
    """The parameters of the statements of hypercubes."""
    sexes = session.register("sexes", pa.table({"category": SEXES, "step": [0, 3]}))
    ages = session.register("ages", pa.table({"category": pa.array(AGES, pa.int64()), "step": [0, 1, 2]}))
    domains = [{"column": "sex", "table": sexes}, {"column": "age", "table": ages}]
    return {"columns": ["sex", "age"], "domains": domains, "records": RECORDS, "unit": None}


def keyed(session: Session, record: str) -> list[int]:
    """The keys of all cells, as the draw has them."""
    return whole(add_up_keys(session, derive_keys(session, record, KEY, named(session)), 6))


def whole(keys: np.ndarray) -> list[int]:
    return [(upper << 64) + lower for upper, lower in keys.tolist()]


PLACES = [(sex, age) for sex in SEXES for age in AGES]
EXTREME = st.sampled_from([0, 1, 2**63, 2**64 - 1, 2**64, 2**127, 2**128 - 1])


@given(st.lists(st.tuples(st.integers(0, 4), EXTREME | st.integers(0, 2**128 - 1)), max_size=40))
def test_cell_keys_are_sums_modulo_2_to_the_128(session: Session, people: list[tuple[int, int]]) -> None:
    """Keys near 2^128 make every half carry. DuckDB's sum of UHUGEINT would be a DOUBLE, and that of HUGEINT fail."""
    cells = np.array([cell for cell, _ in people], dtype=np.int64)
    halves = np.array([[key >> 64, key % 2**64] for _, key in people], dtype=np.uint64).reshape(-1, 2)
    table = pa.table({"cell": cells, "key_upper": halves[:, 0].copy(), "key_lower": halves[:, 1].copy()})
    expected = [sum(key for place, key in people if place == cell) % 2**128 for cell in range(6)]
    assert whole(add_up_keys(session, table, 6)) == expected
    assert expected[5] == 0


def test_very_many_of_the_greatest_keys_do_not_overflow(session: Session) -> None:
    many = 100_000
    greatest = np.full(many, 2**64 - 1, dtype=np.uint64)
    table = pa.table({"cell": np.ones(many, dtype=np.int64), "key_upper": greatest, "key_lower": greatest})
    assert whole(add_up_keys(session, table, 2)) == [0, many * (2**128 - 1) % 2**128]


def test_record_keys_of_whole_numbers_are_those_of_their_distance_from_the_least(session: Session) -> None:
    numbers = [0, 7, -1, 2**63 - 1, -(2**63)]
    store(session, {"serial": numbers, "sex": ["f", "f", "m", "m", "m"], "age": [0, 1, 0, 1, None]})
    expected = whole(record_keys(KEY, np.array([[0, number + 2**63] for number in numbers], dtype=np.uint64)))
    assert keyed(session, "serial") == [*expected[:2], 0, *expected[2:]]


def test_record_keys_of_texts_are_all_different(session: Session) -> None:
    places = {"sex": [sex for sex, _ in PLACES[:5]], "age": pa.array([age for _, age in PLACES[:5]], pa.int64())}
    store(session, {"unit": ["1", "11", "", "1:1", "1:11"], **places})
    once = keyed(session, "unit")
    assert len(set(once)) == 6
    assert once[5] == 0
    assert keyed(session, "unit") == once


def test_record_keys_of_texts_follow_from_them_alone_whatever_a_variable_is_called(session: Session) -> None:
    """Wrong program: a statement that names the digest of a key like this variable, so that its categories are keys."""
    sexes, codes = ["f", "f"], ["0123456789abcdef01"] * 2
    store(session, {"unit": ["a", "b"], "sex": sexes, "digest": codes})
    known = session.register("codes", pa.table({"category": codes[:1], "step": [0]}))
    (by_sex, _), names = named(session)["domains"], named(session)
    names |= {"columns": ["sex", "digest"], "domains": [by_sex, {"column": "digest", "table": known}]}
    keys = derive_keys(session, "unit", KEY, names)
    assert len(set(keys["key_lower"].to_pylist())) == 2


def test_a_cell_has_the_sum_of_its_records_keys_in_any_order(session: Session) -> None:
    columns = {"serial": [1, 2, 3, 4], "sex": ["f", "f", "m", "m"], "age": [0, 0, 1, 1]}
    own = whole(record_keys(KEY, np.array([[0, number + 2**63] for number in columns["serial"]], dtype=np.uint64)))
    store(session, columns)
    expected = [(own[0] + own[1]) % 2**128, 0, 0, 0, (own[2] + own[3]) % 2**128, 0]
    assert keyed(session, "serial") == expected
    store(session, {name: values[::-1] for name, values in columns.items()})
    assert keyed(session, "serial") == expected
