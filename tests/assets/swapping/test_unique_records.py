"""Records that the invariants publish exactly: their number, the refusal before anything is public, and the words.

Swapping leaves counts by the holding variables exact, and counts by match and swap variables. A user who declares all
columns of a survey therefore publishes everyone's income, at any ε. Wrong programs that these tests tell apart: one
that counts only one of the two tables, one that forgets the persons of a unit, one that refuses after the invariants
are public or after the charge, and one that leaves a variable out of some tables only.
"""

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.release.draw import Draw
from assets.release.names import COLUMNS_OF_SWAPPED
from assets.release.stage import create_tables
from assets.release.statement import Parameter
from assets.swapping import withheld
from assets.swapping.draw import read_inputs
from assets.swapping.gates import swapping_gates
from assets.swapping.invariants import UniqueRecords, UniqueRecordsError, count_strata, count_unique, percent
from assets.swapping.records import HOLDING, SINGLE, SWAPPING
from assets.swapping.release import SwappingRelease
from resources.custody import Custody
from resources.statements import SQL_FOLDER, Zone
from resources.warehouse import Session
from tests.assets.swapping.villages import VERSION_KEY, Village, village
from tests.deployments import PERSONS, SHOWN, TO_PUBLICATION, UNITS, households, members, small_deployment, write_csv
from tests.depth import deep_cases, quick_cases

Record = tuple[int, int | None, int | None]
"""A match value, a holding value and a swap value."""


def unique_by_oracle(records: Sequence[Record]) -> UniqueRecords:
    """The numbers by counting, and by trying all arrangements of the swap values within strata."""
    held, swapped = (Counter((record[0], record[place]) for record in records) for place in (1, 2))
    tables = []
    for order in permutations(range(len(records))):
        if all(records[place][0] == records[number][0] for number, place in enumerate(order)):
            tables.append(Counter((*records[number][:2], records[place][2]) for number, place in enumerate(order)))
    known = [cell for cell in set(records) if all(table[cell] == 1 for table in tables)]
    return UniqueRecords(
        len(records),
        sum(count == 1 for count in held.values()),
        sum(count == 1 for count in swapped.values()),
        len(known),
    )


def unique_by_statements(records: Sequence[Record], match: str = "m") -> tuple[UniqueRecords, int]:
    """The numbers, and b."""
    with duckdb.connect() as connection:
        session, names = Session(connection, [Zone.PUBLIC]), (match, "h", "s")
        columns = {name: pa.array([row[place] for row in records], pa.int64()) for place, name in enumerate(names)}
        source = session.register("source", pa.table(columns))
        margins = [
            session.stage(
                code,
                "swapping/margin",
                records=source,
                number=SINGLE,
                code=code,
                match=[match],
                variables=[match, variable],
            )
            for code, variable in (("holding_code", "h"), ("swap_code", "s"))
        ]
        release: Any = SimpleNamespace(
            design=SimpleNamespace(fixed=(match,)), public=dict(zip((HOLDING, SWAPPING), margins, strict=True)).get
        )
        return count_unique(session, release, *margins), count_strata(session, release)[1]


VALUES = st.one_of(st.none(), st.integers(0, 2))


@given(st.lists(st.tuples(st.integers(0, 1), VALUES, VALUES), max_size=6))
def test_unique_records_are_counted_as_by_trying_everything(records: list[Record]) -> None:
    assert unique_by_statements(records)[0] == unique_by_oracle(records)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([], UniqueRecords(0, 0, 0, 0)),
        ([(0, 0, 0)], UniqueRecords(1, 1, 1, 1)),
        ([(0, 0, 0), (0, 1, 1)], UniqueRecords(2, 2, 2, 0)),
        ([(0, 0, 0), (0, 1, 0)], UniqueRecords(2, 2, 0, 2)),
        ([(0, 0, 0), (0, 0, 1)], UniqueRecords(2, 0, 2, 2)),
        ([(0, 0, 0), (1, 0, 0)], UniqueRecords(2, 2, 2, 2)),
        ([(0, None, 0), (0, None, 0), (0, 0, None)], UniqueRecords(3, 1, 1, 0)),
    ],
)
def test_unique_records_of_small_files(records: list[Record], found: UniqueRecords) -> None:
    assert unique_by_statements(records)[0] == unique_by_oracle(records) == found


def test_no_name_of_a_match_variable_changes_what_is_counted() -> None:
    """Wrong program: counts under a name that a match variable may have, and reads the values of that variable instead.
    With `combinations`, b was 0; with `alone`, no record was unique."""
    records = [(0, 0, 0), (0, 1, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0)]
    words = set(re.findall("[a-z_]+", (SQL_FOLDER / "swapping" / "margins.sql").read_text())) - COLUMNS_OF_SWAPPED
    assert {"records", "combinations", "alone"} <= words
    assert {match: unique_by_statements(records, match) for match in words} == dict.fromkeys(
        words, (unique_by_oracle(records), 3)
    )


@pytest.mark.parametrize(
    ("share", "text"),
    [("0", "0%"), ("1/3", "33.33%"), ("1/100", "1%"), ("99999/100000", "more than 99.99%"), ("1", "100%")],
)
def test_a_share_is_not_rounded_to_all(share: str, text: str) -> None:
    assert percent(Fraction(share)) == text


CUSTODY = cast(Custody, SimpleNamespace(version_key=lambda: VERSION_KEY))
"""The part of the custody that the inputs of a draw need."""

# A survey of persons, declared with all its columns by someone who has not read about holding variables.

SURVEY = {
    "number": {"type": "integer", "role": "key"},
    "region": {"type": "string", "role": "geography", "values": ["N", "S", "W"]},
    "sex": {"type": "string", "values": ["f", "m"]},
    "age_group": {"type": "string", "values": ["young", "middle", "old"]},
    "income": {"type": "integer", "minimum": 0, "maximum": 10_000_000},
    "wealth": {"type": "decimal"},
}
ASKED = 600
SWAP: dict[str, Any] = {"match": ["sex"], "swap": ["region"]}


def answers() -> list[dict[str, Any]]:
    return [
        {
            "number": number,
            "region": "NSW"[number * 7 % 3],
            "sex": "fm"[number // 3 % 2],
            "age_group": ("young", "middle", "old")[number // 6 % 3],
            "income": 711_000 + number * 97,
            "wealth": f"{number % 9}.5",
        }
        for number in range(ASKED)
    ]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Village:
    return village(tmp_path_factory.mktemp("survey"), SURVEY, answers(), record_name="person")


def public_tables(at: Village) -> list[tuple[Any, ...]]:
    path = at.warehouse.path(Zone.PUBLIC)
    if not path.exists():
        return []
    with duckdb.connect(str(path)) as connection:
        return connection.execute("SELECT table_schema, table_name FROM information_schema.tables").fetchall()


def refusal(at: Village, **declared: Any) -> str:
    """The message of the stage `invariants`, which must fail and leave no public table."""
    before = public_tables(at)
    with pytest.raises(UniqueRecordsError) as refused:
        at.write_invariants(at.release(**declared))
    assert public_tables(at) == before
    said = str(refused.value)
    assert "\n" not in said
    return said


def test_a_survey_with_income_is_refused_before_anything_is_public(survey: Village) -> None:
    said = refusal(survey, name="refused", **SWAP)
    assert said == (
        "village__refused: More than 99% of the persons are the only person with their values of sex, age_group, "
        "income, wealth. Swapping leaves the counts by these variables exact, so all these values of each such person "
        "would be published together, unchanged, whatever ε is. With so many values, income looks continuous. The "
        "release allows 1% of such persons (publishes_unique_records). Leave variables out (variables), recode single "
        "values into classes (bands, merge, top_coded), or accept it (publishes_unique_records: accepted). This run "
        "charged and published nothing."
    )
    assert ("village__refused", "invariant_holding") not in public_tables(survey)


def test_the_refusal_states_shares_in_whole_percent_only(survey: Village) -> None:
    """The exact counts are confidential as long as the tables are not published."""
    said = refusal(survey, name="refused", **SWAP)
    assert set(re.findall(r"\d+(?:\.\d+)?%", said)) == {"99%", "1%"}
    assert str(ASKED) not in said


def test_moving_the_income_instead_of_holding_it_is_refused_too(survey: Village) -> None:
    """The other exact table would include it: counts by match and swap variables."""
    said = refusal(survey, name="refused", match=["region"], swap=["sex", "age_group", "income"])
    assert "only person with their values of region, age_group, income, sex. Swapping leaves" in said
    assert "With so many values, income looks continuous" in said
    both = refusal(survey, name="refused", match=["income"], swap=["region"])
    assert both.count("More than 99% of the persons") == 2


def test_without_the_income_the_survey_can_be_swapped(survey: Village) -> None:
    release = survey.release(name="narrow", variables=["age_group"], **SWAP)
    survey.write_invariants(release)
    with survey.public(release) as (session, method):
        method.require_chargeable(session)
        assert read_inputs(session, release, VERSION_KEY).unique == UniqueRecords(ASKED, 0, 0, 0)
        assert method.specification(method.inputs(session, CUSTODY)).flavor.unit == "person"


@deep_cases(2)
@quick_cases(2)
@pytest.mark.parametrize(
    ("allowed", "passes"),
    [("3/10", True), ("0.3", True), ("299/1000", False), ("accepted", True), (1, True), (0, False)],
)
def test_the_declared_share_is_compared_exactly(tmp_path: Path, allowed: object, passes: bool) -> None:
    """Three of ten records are unique on the holding variables."""
    columns = {name: SURVEY[name] for name in ("number", "region", "sex", "income")}
    rows = [
        {"number": number, "region": "NS"[number % 2], "sex": "f", "income": number if number < 3 else 7 + number % 2}
        for number in range(10)
    ]
    at = village(tmp_path, columns, rows, record_name="person")
    release = at.release(match=["sex"], swap=["region"], publishes_unique_records=allowed)
    if passes:
        at.write_invariants(release)
    else:
        below = {0: "29%", "299/1000": "29.9%"}[allowed]  # type: ignore[index]
        with pytest.raises(UniqueRecordsError, match=f"More than {below} of the persons"):
            at.write_invariants(release)


def test_a_declaration_that_no_longer_accepts_is_refused_before_the_charge_and_by_a_gate(survey: Village) -> None:
    """The invariants are public already; the charge and the publication read only them."""
    accepting, strict = (
        survey.release(name="accepted", **SWAP, **more) for more in ({"publishes_unique_records": "accepted"}, {})
    )
    survey.write_invariants(accepting)
    (gate, other) = (
        next(gate for gate in swapping_gates(release) if gate.name == "unique_records")
        for release in (accepting, strict)
    )
    for release, named in ((accepting, gate), (strict, other)):
        context = cast(Any, SimpleNamespace(release=release, warehouse=survey.warehouse))
        with survey.public(release) as (session, method):
            if release is accepting:
                method.require_chargeable(session)
            else:
                with pytest.raises(UniqueRecordsError, match="More than 99% of the persons"):
                    method.require_chargeable(session)
        assert bool(named.problems(context)) == (release is strict)


# Persons who follow their household are part of its record.


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Village:
    rows = households(240)
    return village(tmp_path_factory.mktemp("homes"), UNITS, rows, PERSONS, members(rows))


HOMES: dict[str, Any] = {"match": ["region", "size"], "swap": ["county"]}


def test_the_persons_of_a_household_make_it_unique(homes: Village) -> None:
    said = refusal(homes, name="refused", **HOMES)
    assert "their values of region, size, tenure, its persons (age, sex). Swapping" in said
    assert "With so many values, age looks continuous" in said
    alone = homes.release(name="alone", variables=["tenure"], **HOMES)
    homes.write_invariants(alone)
    with homes.public(alone) as (session, _):
        assert read_inputs(session, alone, VERSION_KEY).unique.holding == 0


def test_the_figures_of_charge_and_certificate_are_those_of_the_records(homes: Village) -> None:
    release = homes.release(name="accepted", publishes_unique_records="accepted", **HOMES)
    homes.write_invariants(release)
    with homes.public(release) as (session, method):
        inputs = method.inputs(session, CUSTODY)
        statement = method.statement(Draw("", method.specification(inputs), inputs), "")
        facts = {name: value for name, (value, _) in method.charge_facts(inputs).items()}
    rows = households(240)
    kinds: dict[Any, list[Any]] = {}
    for row in rows:
        persons = sorted((each["age"], each["sex"]) for each in members([row]))
        kinds.setdefault((row["region"], row["size"], row["tenure"], *persons), []).append(persons)
    unique = [found[0] for found in kinds.values() if len(found) == 1]
    moved = Counter((row["region"], row["size"], row["county"]) for row in rows)
    assert inputs.unique.holding == len(unique) > 0
    assert inputs.unique.persons == sum(map(len, unique))
    assert inputs.unique.swap == sum(count == 1 for count in moved.values())
    assert (facts["unique_on_holding"], facts["unique_on_swap"]) == (inputs.unique.holding, inputs.unique.swap)
    said = {parameter.label: parameter for parameter in statement.parameters}
    assert said["Unique on the holding variables"] == Parameter(
        "Unique on the holding variables",
        f"{len(unique)} of 240 households ({percent(Fraction(len(unique), 240))}), "
        f"with {inputs.unique.persons} persons",
        "No other household has the same values of the holding variables, and of its persons, as each of these. These "
        "counts are held fixed and treated as known, so these values of such a household are known together, "
        "unchanged, at any ε. The "
        "release allows any number of them.",
    )
    assert said["Unique on match and swap variables"].value == "0 of 240 households (0%)"
    assert said["Unique and never changed"].value == f"{inputs.unique.whole} of 240 households (0%)"


def test_persons_no_longer_named_leave_no_table_behind(homes: Village) -> None:
    named, unnamed = (
        homes.release(name="shrinking", publishes_unique_records="accepted", variables=variables, **HOMES)
        for variables in (["age"], ["tenure"])
    )
    homes.write_invariants(named)
    assert ("village__shrinking", "invariant_persons") in public_tables(homes)
    homes.write_invariants(unnamed)
    assert ("village__shrinking", "invariant_persons") not in public_tables(homes)


@pytest.mark.deep
def test_a_variable_that_takes_no_part_changes_no_draw(tmp_path: Path) -> None:
    """The draw does not depend on it, so other values of it are no new draw."""
    drawn_from = []
    for shift in (0, 1):
        rows = [row | {"income": row["income"] + shift} for row in answers()]
        root = tmp_path / str(shift)
        root.mkdir()
        at = village(root, SURVEY, rows, record_name="person")
        release = at.release(variables=["age_group"], **SWAP)
        at.write_invariants(release)
        with at.public(release) as (session, method):
            drawn_from.append((method.inputs(session, CUSTODY).versions, method.parameters()))
    assert drawn_from[0] == drawn_from[1]


# The whole way through Dagster.


def everything_public(root: Path) -> dict[str, bytes]:
    """Everything open to anyone: rows and columns of public tables, published files, and the ledger's entries."""
    found = {}
    for zone in ("public", "ledger"):
        path = root / "warehouse" / f"{zone}.duckdb"
        if path.exists():
            with duckdb.connect(str(path)) as connection:
                listed = "SELECT table_schema, table_name FROM information_schema.tables"
                for schema, table in connection.execute(listed).fetchall():
                    rows = connection.execute(f'FROM "{schema}"."{table}"')
                    columns = [column[0] for column in rows.description or []]
                    found[f"{zone}.{schema}.{table}"] = repr((columns, rows.fetchall())).encode()
    found |= {
        str(path.relative_to(root)): path.read_bytes() for path in (root / "published").rglob("*") if path.is_file()
    }
    return found


def survey_deployment(root: Path, **declared: Any) -> Any:
    dataset = {"units": {"path": str(root / "units.csv"), "columns": SURVEY}, "record_name": "person"}
    products = [{"name": "ages", "geography": ["region"], "dimensions": ["age_group"]}]
    changes = {"publishes_unique_records": "1/100", "products": products} | SWAP | declared
    return small_deployment(root, dataset=dataset, units=answers(), **changes)


@pytest.mark.prove
def test_a_run_of_a_survey_with_income_publishes_and_charges_nothing(tmp_path: Path) -> None:
    deployment = survey_deployment(tmp_path)
    said = deployment.refusal()
    assert said.startswith("village__counties__invariants:")
    assert "income looks continuous" in said
    assert deployment.ledger == ()
    assert deployment.published() == {}
    public = everything_public(tmp_path)
    assert not any("counties" in name for name in public)
    assert not any(b"income" in content or b"711097" in content for content in public.values())
    assert deployment.refusal("charge")
    assert deployment.ledger == ()


@pytest.mark.prove
def test_a_survey_whose_unique_records_are_accepted_is_published_and_says_so(tmp_path: Path) -> None:
    deployment = survey_deployment(tmp_path, publishes_unique_records="accepted")
    deployment.reach(*TO_PUBLICATION)
    page = deployment.published()["certificate.html"].decode()
    assert "600 of 600 persons (100%)" in page
    assert (
        "No other person has the same values of the holding variables as each of these. These counts are held "
        "fixed and treated as known, so these values of such a person are known together, unchanged, at any ε." in page
    )
    assert len(deployment.ledger) == 2


def test_a_withheld_swap_whose_strata_are_single_records_is_refused_before_they_are_public(
    survey: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap is refused again when its loss is computed, before a table counted from it is charged."""
    declared = {"match": ["income"], "swap": ["region"], "variables": ["sex"], "withheld": True}
    release, accepted = (survey.release(**declared, publishes_unique_records=share) for share in ("1/2", "accepted"))
    says = r"More than 99% of the persons are the only person with their values of income\. The sizes of strata"
    with pytest.raises(UniqueRecordsError, match=says):
        strata_written(survey, release)
    assert "invariant_strata" not in {name for _, name in public_tables(survey)}
    strata_written(survey, accepted)
    monkeypatch.setattr(SwappingRelease, "require_sealed", lambda *given: None)
    with survey.warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert withheld.swap_loss(session, accepted, CUSTODY).strata == ASKED
        with pytest.raises(UniqueRecordsError, match=says):
            withheld.swap_loss(session, release, CUSTODY)


def strata_written(at: Village, release: SwappingRelease) -> None:
    with at.warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session, session.transaction():
        table = release.public(withheld.STRATA)
        create_tables(session, withheld.strata_recipes(session, release))
        withheld.require_few_alone(session, release, table)


@pytest.mark.prove
def test_variables_that_take_no_part_appear_nowhere(tmp_path: Path) -> None:
    """Neither their names nor their values do: income and sex are searched in everything open to anyone."""
    rows = [row | {"income": 711_000 + 97 * row["serial"]} for row in households()]
    persons = [person | {"sex": "canary_" + person["sex"]} for person in members(rows)]
    root = tmp_path
    columns = UNITS | {"income": SURVEY["income"]}
    person_columns = PERSONS | {"sex": {"type": "string", "values": ["canary_f", "canary_m"]}}
    dataset = {
        "units": {"path": str(root / "units.csv"), "columns": columns},
        "persons": {"path": str(root / "persons.csv"), "columns": person_columns},
    }
    products = [
        {"name": "ages", "of": "persons", "dimensions": ["age", "tenure"], "zeros": False},
        {"name": "tenures", "geography": ["county"], "dimensions": ["tenure"]},
    ]

    def shown(folder: Path, variables: list[str] | None) -> list[str]:
        """The places where the names or the values occur."""
        folder.mkdir()
        write_csv(folder / "units.csv", rows)
        sources = {name: table | {"path": str(folder / f"{name}.csv")} for name, table in dataset.items()}
        deployment = small_deployment(
            folder, units=rows, persons=persons, dataset=sources, products=products, variables=variables
        )
        deployment.reach(*TO_PUBLICATION)
        assert deployment.published()
        searched = re.compile(rb"income|sex|canary|" + b"|".join(str(row["income"]).encode() for row in rows))
        public = everything_public(folder)
        assert any(name.endswith("saturated.csv") for name in public)
        return [name for name, content in public.items() if searched.search(content)]

    assert shown(root / "named", ["tenure", "age"]) == []
    assert shown(root / "all", None), "the search finds them where they take part"


@pytest.mark.prove
def test_a_saturated_table_that_is_left_out_is_neither_made_nor_published(tmp_path: Path) -> None:
    deployment = small_deployment(tmp_path, persons=True, saturated=False)
    deployment.reach(*TO_PUBLICATION, *SHOWN)
    assert deployment.failed_checks() == set()
    found = [name for name in everything_public(tmp_path) if "saturated" in name]
    assert found == []
    assert b"saturated" not in deployment.published()["datapackage.json"]
    assert "tenure_by_county.csv" in deployment.published()
