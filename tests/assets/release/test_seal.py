"""Seals of large tables, whose content version is noted: the version is computed again unless the stored rows are the
seal's own, in their order."""

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from assets.release.seal import compute_content, is_sealed, seal_stage
from resources.custody import Custody
from resources.statements import SQL, Table, Zone
from resources.warehouse import Session, Warehouse
from tests.depth import deep_cases, quick_cases

COUNTS, OTHERS = (Table(Zone.PUBLIC, "town", name) for name in ("counts", "others"))
LABEL, OTHER_LABEL = (Table(Zone.PUBLIC, "town", f"{name}_seal") for name in ("counts", "others"))
MADE_OF = {"cef": "a"}


@pytest.fixture
def sealed(tmp_path: Path) -> tuple[Warehouse, Custody]:
    """Two tables, sealed as large ones: `others` has rows that an attacker would like to pass for `counts`."""
    warehouse, custody = Warehouse(folder=str(tmp_path / "warehouse")), Custody(folder=str(tmp_path / "custody"))
    with (
        patch("assets.release.seal.LARGE", 3),
        warehouse.session(writes=Zone.PUBLIC) as session,
        session.transaction(),
    ):
        for table, counts in ((COUNTS, [5, 7, 9]), (OTHERS, [5, 7, 8])):
            rows = session.register("rows", pa.table({"place": ["a", "b", "c"], "count": counts}))
            session.create(table, "warehouse/all", source=rows)
            seal_stage(session, custody, "town", table.name, [table], MADE_OF)
    return warehouse, custody


def is_current(session: Session, custody: Custody) -> bool:
    return is_sealed(session, custody, "town", "counts", [COUNTS], MADE_OF)


def test_the_noted_content_version_is_that_of_the_rows_and_is_not_computed_again(
    sealed: tuple[Warehouse, Custody],
) -> None:
    warehouse, custody = sealed
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        due = session.content_version([COUNTS], custody.seal_key())
        with patch.object(Session, "content_version", side_effect=AssertionError):
            assert compute_content(session, custody, "town", "counts", [COUNTS]) == due
            assert is_current(session, custody)
            assert not is_sealed(session, custody, "town", "counts", [COUNTS], {"cef": "b"})


def test_a_seal_of_an_earlier_version_holds_for_its_rows_alone(sealed: tuple[Warehouse, Custody]) -> None:
    """Such a seal covers the table and the content version, but not the note of their order. Refusing it would end a
    draw whose key is gone."""
    warehouse, custody = sealed
    with warehouse.session(writes=Zone.PUBLIC) as session:
        content = session.content_version([COUNTS], custody.seal_key())
        seal = custody.seal({"tables": [str(COUNTS)], "content": content, "made_of": MADE_OF})
        session.run(SQL("test/earlier", f"UPDATE {LABEL.text} SET seal = '{seal}'"))
        assert is_current(session, custody)
        session.run(SQL("test/altered", f"UPDATE {COUNTS.text} SET count = 8 WHERE place = 'c'"))
        assert not is_current(session, custody)


@deep_cases(4)
@quick_cases(3)
@pytest.mark.parametrize(
    ("change", "remains"),
    [
        ("CREATE OR REPLACE TABLE {counts} AS FROM {counts} ORDER BY place DESC", True),
        ("CREATE OR REPLACE TABLE {label} AS SELECT seal FROM {label}", False),
        ("CREATE OR REPLACE TABLE {label} AS SELECT *, seal AS more FROM {label}", False),
        ("CREATE OR REPLACE TABLE {label} AS SELECT in_order, content, seal FROM {label}", True),
        *(
            (f"UPDATE {{label}} SET {column} = {value}", False)
            for column in ("seal", "content", "in_order")
            for value in (f"{column} || ' '", f"upper({column})", "NULL", "''")
        ),
        ("CREATE OR REPLACE TABLE {label} AS SELECT seal, 0.5::DOUBLE AS content, in_order FROM {label}", False),
        ("UPDATE {counts} SET count = 8 WHERE place = 'c'", False),
        ("CREATE OR REPLACE TABLE {counts} AS FROM {others}", False),
        ("INSERT INTO {label} FROM {label}", False),
        ("UPDATE {label} SET seal = reverse(seal)", False),
        (
            "UPDATE {counts} SET count = 8 WHERE place = 'c';"
            "UPDATE {label} SET in_order = (SELECT in_order FROM {other_label})",
            False,
        ),
        (
            "CREATE OR REPLACE TABLE {counts} AS FROM {others}; CREATE OR REPLACE TABLE {label} AS FROM {other_label}",
            False,
        ),
    ],
)
def test_a_noted_content_version_stands_for_no_other_rows(
    sealed: tuple[Warehouse, Custody], change: str, remains: bool
) -> None:
    """A wrong program believes the noted version, or a second seal that belongs to other tables, computes the content
    in full where a note was altered, or overlooks a missing note."""
    warehouse, custody = sealed
    names = {"counts": COUNTS, "others": OTHERS, "label": LABEL, "other_label": OTHER_LABEL}
    texts = {name: table.text for name, table in names.items()}
    with warehouse.session(writes=Zone.PUBLIC) as session:
        for number, statement in enumerate(change.format(**texts).split(";")):
            session.run(SQL(f"test/{number}", statement))
    with warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert is_current(session, custody) == remains
        due = session.content_version([COUNTS], custody.seal_key())
        assert compute_content(session, custody, "town", "counts", [COUNTS]) == due
