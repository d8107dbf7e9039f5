"""A recode gives every record the same value as plain Python; values that it cannot place are counted and never
shown."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.cef import validation
from assets.cef.asset import code_version
from assets.cef.ingestion import describe_conversion
from assets.release.columns import Column
from resources.statements import Fragment, Zone
from resources.warehouse import Session, Warehouse
from tests.assets.cef.test_ingestion import UNITS, VERSION_KEY, Town

Values = Sequence[Any]
Reference = Callable[[Any], Any]

FIRST_DAY = date(1900, 1, 1)


@pytest.fixture
def town(tmp_path: Path) -> Town:
    """A town whose files are written and not read yet."""
    return Town(tmp_path).write()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Warehouse(folder=str(tmp_path_factory.mktemp("warehouse"))).session(writes=Zone.CONFIDENTIAL) as session:
        yield session


def converted(session: Session, column: Column, texts: Sequence[str | None]) -> tuple[list[Any], int]:
    """The CEF's values for a source column's values, and the number of values that have no place there."""
    places = pa.array(map(str, range(len(texts))), pa.string())
    relation = session.register("source", pa.table({"place": places, "it": pa.array(texts, pa.string())}))
    columns, bound = describe_conversion({"place": Column(type="string", pattern=".*"), "it": column})
    relation = Fragment(f"FROM {relation}")
    rows = session.rows("cef/converted", bound, relation=relation, columns=columns)
    *_, ill_typed, too_fine, unplaced = session.row("cef/count_ill_typed", bound, relation=relation, columns=columns)
    assert (ill_typed, too_fine) == (0, 0)
    return [value for _, value in sorted(rows, key=lambda row: int(row[0]))], unplaced


KINDS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "integer": (st.integers(-40, 40) | st.sampled_from([10**18 - 1, 1 - 10**18]), lambda value: value),
    "decimal": (st.integers(-90, 90).map(lambda number: Decimal(number) / Decimal(10**4) * 375), str),
    "date": (st.integers(0, 40).map(lambda day: FIRST_DAY + timedelta(day)), str),
}
"""By type, its values, and how YAML writes one."""


@st.composite
def banded(draw: st.DrawFn) -> tuple[Column, Reference, Values]:
    """Contiguous bands in any order, and a search for the band of a value that is independent of their order."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    of, written = KINDS[kind]
    ends = sorted(draw(st.lists(of, min_size=1, max_size=6, unique=True)))
    pairs: list[tuple[Any, Any]] = list(pairwise(ends))
    if not pairs or draw(st.booleans()):
        pairs.insert(0, (None, ends[0]))
    if draw(st.booleans()):
        pairs.append((ends[-1], None))
    names = draw(
        st.lists(st.text("ab '\"$,", min_size=1, max_size=3), min_size=len(pairs), max_size=len(pairs), unique=True)
    )
    given_bands = draw(st.permutations(list(zip(names, pairs, strict=True))))
    declared = {
        name: {field: written(end) for field, end in zip(("at_least", "below"), pair, strict=True) if end is not None}
        for name, pair in given_bands
    }

    def reference(value: Any) -> Any:
        found = [
            name
            for name, (start, end) in given_bands
            if (start is None or start <= value) and (end is None or value < end)
        ]
        return found[0] if found else None

    column = Column.model_validate({"type": kind, "bands": declared, "nullable": True})
    values = draw(st.lists(of | st.sampled_from(ends) | st.none(), max_size=12))
    return column, reference, values


@st.composite
def merged(draw: st.DrawFn) -> tuple[Column, Reference, Values]:
    kind = draw(st.sampled_from(["integer", "string"]))
    of: st.SearchStrategy[Any] = st.integers(-3, 9) if kind == "integer" else st.text("01 '%", min_size=1, max_size=2)
    codes = draw(st.lists(of, min_size=1, max_size=8, unique=True))
    names = draw(st.lists(st.text("AB '$", min_size=1, max_size=2), min_size=len(codes), max_size=len(codes)))
    declared: dict[str, list[Any]] = {}
    for code, name in zip(codes, names, strict=True):
        declared.setdefault(name, []).append(code)
    everything_else = draw(st.none() | st.sampled_from(["Others", *names]))
    of_code = dict(zip(codes, names, strict=True))
    others = {} if everything_else is None else {"everything_else": everything_else}
    column = Column.model_validate({"type": kind, "merge": declared, "nullable": True, **others})
    values = draw(st.lists(of | st.sampled_from(codes) | st.none(), max_size=12))
    return column, lambda value: of_code.get(value, everything_else), values


@st.composite
def coded(draw: st.DrawFn) -> tuple[Column, Reference, Values]:
    kind = draw(st.sampled_from(sorted(KINDS)))
    of, written = KINDS[kind]
    bottom, top = sorted([draw(of), draw(of)])
    bottom_coded, top_coded = draw(st.booleans()), draw(st.booleans())
    bounds = {"minimum": written(bottom), "maximum": written(top)}
    column = Column.model_validate(
        {"type": kind, **bounds, "bottom_coded": bottom_coded, "top_coded": top_coded, "nullable": True}
    )

    def reference(value: Any) -> Any:
        return bottom if bottom_coded and value < bottom else top if top_coded and value > top else value

    return column, reference, draw(st.lists(of | st.sampled_from([bottom, top]) | st.none(), max_size=12))


@given(banded() | merged() | coded())
def test_a_recode_is_what_plain_python_makes_of_each_value(
    session: Session, recode: tuple[Column, Reference, Values]
) -> None:
    column, reference, values = recode
    expected = [None if value is None else reference(value) for value in values]
    found, unplaced = converted(session, column, [None if value is None else str(value) for value in values])
    assert found == expected
    assert unplaced == expected.count(None) - list(values).count(None)
    if column.bands is not None or column.merge is not None:
        # Only values of the declared domain can occur.
        assert {made for made in found if made is not None} <= set(column.in_cef("it").codes)


def test_codes_stand_for_no_value_or_0_only_as_they_are_written_and_before_any_recode(session: Session) -> None:
    """Wrong programs: one that compares numbers, trims texts, or tops the code 99 before it is found."""
    codes: dict[str, Any] = {"null": [99, "NA", "", "."], "zero": [98]}
    amount = Column.model_validate({"type": "integer", "minimum": 0, "maximum": 200} | codes)
    assert amount.nullable
    written = ["99", "099", "98", "7", "NA", "", ".", None, "-99"]
    assert converted(session, amount, written) == ([None, 99, 0, 7, None, None, None, None, -99], 0)
    topped = Column.model_validate({"type": "decimal", "minimum": 0, "maximum": 50, "top_coded": True} | codes)
    assert converted(session, topped, ["99", "99.0", "98", "97"])[0] == [None, 50, 0, 50]
    banded = Column.model_validate(
        {"type": "integer", "bands": {"few": {"below": 98}, "many": {"at_least": 98}}} | codes
    )
    assert converted(session, banded, ["99", "98", "100"]) == ([None, "few", "many"], 0)
    merged = Column.model_validate({"type": "string", "merge": {"a": ["1"]}, "null": ["9"], "everything_else": "b"})
    assert converted(session, merged, ["9", "1", "9 "]) == ([None, "a", "b"], 0)
    assert converted(session, Column(type="boolean", null=("N",)), ["N", "true"])[0] == [None, True]
    published = topped.in_cef("income")
    assert published.nullable
    assert published.description == (
        "Recoded from income: 50 stands for 50 or more. In the source, no value is also written as '99', 'NA', '', "
        "'.', and 0 is also written as '98'."
    )


DIGITS = st.text("0459", min_size=1, max_size=20)
ROUNDED = Column(type="decimal", rounded=True, minimum=0, nullable=True)


@given(
    st.lists(
        st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), st.integers(0, 10**9), DIGITS)
        | st.builds("{}.{}e{:+03d}".format, st.integers(1, 9), DIGITS, st.integers(-120, 9)),
        min_size=1,
    )
)
@example([".5", "-.00005"])
def test_decimals_are_rounded_half_away_from_0(session: Session, texts: list[str]) -> None:
    """Wrong programs: one that rounds floating-point numbers, and DuckDB's cast, which takes 8e-07 for 0.0001."""
    found, _ = converted(session, ROUNDED, texts)
    assert found == [Decimal(text).quantize(Decimal("0.0001"), ROUND_HALF_UP) for text in texts]


def test_what_no_decimal_is_is_not_rounded(session: Session) -> None:
    written = ["1e+05", "1E5", "0e+00", "1,5", "1e+13", "nan", "1e400", "99999999999999.99995", "5.", "0.5e-01"]
    relation = Fragment(f"FROM {session.register('source', pa.table({'it': written}))}")
    columns, bound = describe_conversion({"it": ROUNDED})
    rows = session.rows("cef/converted", bound, relation=relation, columns=columns)
    assert [value for (value,) in rows] == [100000, 100000, 0, *[None] * 7]
    assert ROUNDED.in_cef("it").description == "Rounded to 4 digits after the point."


def recoded_units(**columns: Any) -> dict[str, Any]:
    return {"path": "households.csv", "columns": {"serial": UNITS["serial"], **columns}}


SIZE = {"source": "rooms", "type": "integer", "bands": {"few": {"below": 4}, "many": {"at_least": 4}}}
AREA = {"source": "county", "type": "string", "role": "geography", "merge": {"City": ["001"], "Land": ["010", "100"]}}


def test_one_column_of_the_source_becomes_several_and_need_not_become_itself(town: Town) -> None:
    declared = town.declare(
        units=recoded_units(
            size=SIZE,
            rooms={"type": "integer", "minimum": 1, "maximum": 4, "top_coded": True},
            area=AREA,
            moved={
                "type": "date",
                "nullable": True,
                "bands": {"long ago": {"below": "1935-01-01"}, "lately": {"at_least": "1935-01-01"}},
            },
        )
    )
    town.ingest(declared)
    (columns, rows), _ = town.content()
    assert columns == {
        "serial": "BIGINT",
        "size": "VARCHAR",
        "rooms": "BIGINT",
        "area": "VARCHAR",
        "moved": "VARCHAR",
    }
    assert rows == [
        (1, "many", 4, "City", "long ago"),
        (2, "few", 3, "City", None),
        (3, "many", 4, "Land", "lately"),
        (4, "few", 1, "Land", None),
    ]


def test_the_columns_of_the_cef_are_ordinary_ones_whose_domain_follows(town: Town) -> None:
    columns = town.declare(
        units=recoded_units(
            size=SIZE | {"description": "Size of the dwelling."},
            area=AREA,
            rooms={"type": "integer", "minimum": 1, "maximum": 4, "top_coded": True},
        )
    ).units.variables
    assert columns["size"] == Column(
        type="string",
        values={"few": "below 4", "many": "4 or more"},
        description="Size of the dwelling (recoded from rooms: few is below 4; many is 4 or more).",
    )
    assert columns["area"] == Column(
        type="string",
        role="geography",
        values={"City": "001", "Land": "010, 100"},
        description="Recoded from county: City is 001; Land is 010, 100.",
    )
    assert columns["rooms"] == Column(
        type="integer", minimum=1, maximum=4, description="Recoded from rooms: 4 stands for 4 or more."
    )
    with_others = Column.model_validate(AREA | {"everything_else": "Land"}).in_cef("area")
    assert with_others.labels["Land"] == "010, 100, and any other value"


def test_bands_are_named_in_the_order_of_their_values_whatever_the_order_of_their_names() -> None:
    bands = {"9 to 17": {"at_least": 9, "below": 18}, "18": {"at_least": 18, "below": 19}, "0 to 8": {"below": 9}}
    column = Column.model_validate({"type": "integer", "bands": bands}).in_cef("age")
    assert column.codes == ("0 to 8", "9 to 17", "18")
    assert list(column.labels.values()) == ["below 9", "9 to 17", "18"]


def test_what_has_no_place_is_counted_by_file_field_and_rule(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "BATCH_ROWS", 2)
    units = recoded_units(
        rooms=UNITS["rooms"] | {"maximum": 3},
        size={"source": "rooms", "type": "integer", "bands": {"few": {"at_least": 2, "below": 4}}},
        kind={"source": "rooms", "type": "integer", "merge": {"one": [1], "dozen": [12]}},
        area=AREA | {"merge": {"City": ["001"]}},
        moved={"type": "date", "bands": {"once": {"below": "2000-01-01"}}},
        since={"source": "moved", "type": "date", "bands": {"once": {"below": "2000-01-01"}}},
        farm={"type": "integer", "bands": {"any": {"below": 0}}},
    )
    assert town.refusal(town.declare(units=units)) == [
        "households.csv: column rooms: value in none of the bands of size: 3 rows",
        "households.csv: column rooms: value in none of the categories of kind: 2 rows",
        "households.csv: column county: value in none of the categories of area: 2 rows",
        "households.csv: column farm: not of type integer: 4 rows",
        # Both columns that come from `moved` find the same there, which is said once.
        "households.csv: column moved: null where none is allowed: 2 rows",
        "households.csv: column rooms: value outside its domain 1 to 3: 2 rows",
    ]


def test_a_coded_bound_excuses_no_value_beyond_the_other_one(town: Town) -> None:
    rooms = {"type": "integer", "minimum": 2, "maximum": 4, "top_coded": True}
    assert town.refusal(town.declare(units=recoded_units(rooms=rooms))) == [
        "households.csv: column rooms: value outside its domain 2 to 4: 1 row"
    ]


def test_geography_from_its_own_file_is_recoded_too(town: Town) -> None:
    header, *rows = town.units
    (town.folder / "geo.csv").write_text("serial,county\n" + "".join(f"{row[0]},{row[1]}\n" for row in rows))
    town.units = [[row[0], *row[2:]] for row in [header, *rows]]
    town.write()
    units = recoded_units(rooms=UNITS["rooms"], area=AREA) | {"geography_path": "geo.csv"}
    town.ingest(town.declare(units=units))
    (_, found), _ = town.content()
    assert [row[-1] for row in found] == ["City", "City", "Land", "Land"]
    units["columns"]["area"] = AREA | {"merge": {"City": ["001"]}}
    assert town.refusal(town.declare(units=units)) == [
        "geo.csv: column county: value in none of the categories of area: 2 rows"
    ]


def moved_end(below: int) -> dict[str, Any]:
    return SIZE | {"bands": {"few": {"below": below}, "many": {"at_least": below}}}


def test_another_recode_is_another_version_even_if_no_record_changes(town: Town) -> None:
    def version(**columns: Any) -> str:
        return town.ingest(town.declare(units=recoded_units(**columns)))

    before = version(size=moved_end(4), area=AREA)
    rows = town.content()
    assert version(size=moved_end(5), area=AREA) != before
    assert town.content() == rows, "no dwelling has four rooms, so that only the declaration differs"
    again = SIZE | {"bands": dict(reversed(SIZE["bands"].items()))}
    merge = {"Land": ["100", "010"], "City": ["001"]}
    assert version(size=again, area=AREA | {"merge": merge}) == before, "the order of a declaration means nothing"
    assert version(size=SIZE, area=AREA | {"everything_else": "Land"}) != before
    with_code = AREA | {"null": ["999"]}
    assert version(size=again, area=with_code) not in (before, version(size=again, area=AREA | {"null": ["99"]}))


def test_a_dataset_without_recodes_keeps_its_version_and_code_version(town: Town) -> None:
    declared = town.declare()
    version = town.ingest(declared)
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert version == session.content_version(declared.cef_tables(), VERSION_KEY)
    assert declared.recodes() == {}
    assert code_version(declared) == "3"
    recoded = town.declare(units=recoded_units(size=SIZE))
    assert code_version(recoded) not in (
        code_version(declared),
        code_version(town.declare(units=recoded_units(size=moved_end(5)))),
    )
