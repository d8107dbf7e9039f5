"""A whole release by suppression: published cells are exact, and every gate finds the fault it names."""

import csv
import json
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from assets.release.release import DeclarationError
from resources.statements import Zone
from resources.warehouse import Session
from tests.contract.kinds import to_publication
from tests.deployments import UNITS, Deployment, households
from tests.depth import deep_cases, quick_cases
from tests.gates import executes, failing
from tests.unperturbed_deployments import SPARSE_PRODUCTS, suppression_deployment


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:  # type: ignore[type-arg]
    made = suppression_deployment(tmp_path / "release")
    made.reach(*to_publication(made.context.method))
    return made


def test_published_counts_are_exact_and_small_ones_are_not_there(deployment: Deployment) -> None:  # type: ignore[type-arg]
    """Also fails for a certificate that names a random generator, although nothing is random."""
    published = deployment.published()
    assert json.loads(published["certificate.json"])["randomness"]["generator"] == "none"
    page = published["certificate.html"].decode()
    assert "Nothing is random" in page
    assert "Generator" not in page
    rows = list(csv.DictReader(published["size_by_county.csv"].decode().splitlines()))
    units = households()
    hidden = 0
    for row in rows:
        true = sum((unit["county"], str(unit["size"])) == (row["county"], row["size"]) for unit in units)
        hidden += row["suppressed"] == "true"
        assert row["count"] == ("" if row["suppressed"] == "true" else str(true))
        assert row["suppressed"] == "true" or true == 0 or true >= 8
    assert hidden > sum(0 < int(row["count"] or 0) < 8 for row in rows)


def test_a_further_value_makes_another_draw(tmp_path: Path) -> None:
    """Wrong program: the same draw gives the tables further cells, so that its repetition fails for good."""
    tenures = [["own", "rent"], ["rent", "own"], ["free", "own", "rent"]]
    draws = []
    for at, values in enumerate(tenures):
        root = tmp_path / str(at)
        columns = UNITS | {"tenure": {"type": "string", "values": values}}
        made = suppression_deployment(root, dataset={"units": {"path": str(root / "units.csv"), "columns": columns}})
        draws.append(made.context.method.describe_declared())
    assert draws[0] == draws[1] != draws[2]


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("alteration", "gates"),
    [
        ("UPDATE suppressed_cells SET count = 7 WHERE count IS NULL", {"small_suppressed"}),
        ("UPDATE suppressed_cells SET count = count + 1 WHERE cell = 0", {"small_suppressed"}),
        ("UPDATE product_county SET count = count + 1", {"tables_as_made", "intervals_wide"}),
        (
            "UPDATE product_size_by_county SET count = (SELECT 44 - sum(count) FROM product_size_by_county "
            "WHERE county = 'Brent') // 2 WHERE county = 'Brent' AND count IS NULL AND size = 1",
            {"tables_as_made", "intervals_wide"},
        ),
    ],
)
def test_every_gate_finds_what_it_names(deployment: Deployment, alteration: str, gates: set[str]) -> None:  # type: ignore[type-arg]
    """The last alteration publishes a cell of a pattern whose cells protect each other, as if secondary suppression
    were missing."""
    executes(alteration)(deployment)
    assert gates <= set(failing(deployment))


INCOME = {"income": {"type": "integer", "minimum": 0, "maximum": 100_000}}


def deploy_with_income(root: Path, **changes: object) -> Deployment:  # type: ignore[type-arg]
    """A release with totals of an income that one household in each of two cells dominates."""
    units = [unit | {"income": 20 + unit["serial"] % 5} for unit in households()]
    for unit in units[10], units[29]:
        unit["income"] = 9000
    columns = {"units": {"path": str(root / "units.csv"), "columns": UNITS | INCOME}}
    declared = {"threshold": 5, "width": 2, "dominance": {"magnitude": "income", "p": 20}} | changes
    return suppression_deployment(root, units=units, dataset=columns, **declared)


def test_a_total_that_one_holding_dominates_is_not_there(tmp_path: Path) -> None:
    """Fails for a rule that takes the records of a holding for separate contributors: their incomes are equal; and for
    a total that is no figure with a unit, so that SDMX, PX and JSON-stat leave it out."""
    units = [unit | {"income": 1000, "owner": ""} for unit in households()]
    own = [unit for unit in units if (unit["county"], unit["tenure"]) == ("Avon", "own")]
    for unit in own[1:]:
        unit["owner"] = "H1"
    income = {"income": INCOME["income"] | {"description": "In euros"}}
    columns = UNITS | income | {"owner": {"type": "string", "pattern": "H[0-9]", "nullable": True}}
    shown = {}
    for holding in (None, "owner"):
        root = tmp_path / str(holding)
        made = suppression_deployment(
            root,
            units=units,
            dataset={"units": {"path": str(root / "units.csv"), "columns": columns}},
            **{"threshold": 5, "width": 2, "dominance": {"magnitude": "income", "p": 20, "holding": holding}},
        )
        made.reach(*to_publication(made.context.method))
        published = made.published()
        rows = csv.DictReader(published["tenure_by_county.csv"].decode().splitlines())
        shown[holding] = [row["total"] for row in rows if (row["county"], row["tenure"]) == ("Avon", "own")]
    assert shown == {None: [str(1000 * len(own))], "owner": [""]}
    (total,) = [column for column in made.context.method.tables()[0].columns if column.name == "total"]
    assert (total.unit, total.description) == ("income", "Sum of income (In euros); empty if it is suppressed")
    assert "the same owner make one contribution" in " ".join(published["certificate.html"].decode().split())


@pytest.mark.deep
def test_totals_that_one_household_dominates_are_not_there(tmp_path: Path) -> None:
    deployment = deploy_with_income(tmp_path / "release")
    deployment.reach(*to_publication(deployment.context.method))
    published = deployment.published()
    rows = list(csv.DictReader(published["tenure_by_county.csv"].decode().splitlines()))
    units = list(csv.DictReader((tmp_path / "release" / "units.csv").read_text().splitlines()))
    for row in rows:
        incomes = sorted(
            int(unit["income"]) for unit in units if (unit["county"], unit["tenure"]) == (row["county"], row["tenure"])
        )
        assert (row["count"], row["total"]) in (("", ""), (str(len(incomes)), str(sum(incomes))))
        if incomes[-1] == 9000:
            assert row["suppressed"] == "true"
    assert any(row["total"] for row in rows)
    certificate = " ".join(published["certificate.html"].decode().split())
    assert "few records make up most of its total" in certificate
    assert "Counts and totals are looked at apart" in certificate
    assert "What is exact</h2> <p>Every published count and total is exact." in certificate
    for alteration, gates in (
        ("UPDATE suppressed_cells SET total = total + 1 WHERE cell = 1", {"small_suppressed"}),
        (
            "UPDATE product_tenure_by_county SET total = 10000 WHERE count IS NULL",
            {"tables_as_made", "dominated_hidden"},
        ),
    ):
        executes(alteration)(deployment)
        assert gates <= set(failing(deployment))


def test_a_magnitude_is_a_bounded_integer_that_no_table_has(tmp_path: Path) -> None:
    for number, (changes, says) in enumerate((
        ({"magnitude": "tenure", "p": 5}, "an integer"),
        ({"magnitude": "size", "p": 5}, "same column of the source"),
        ({"magnitude": "wealth", "p": 5}, "no column wealth"),
        ({"magnitude": "income", "n": 2}, "either p, or n and k"),
        ({"magnitude": "income", "p": 5, "holding": "owner"}, "no column owner"),
        ({"magnitude": "income", "p": 5, "holding": "tenure"}, "or a column of one of the tables"),
    )):  # fmt: skip
        with pytest.raises((DeclarationError, ValueError), match=says):
            deploy_with_income(tmp_path / str(number), dominance=changes)


def test_no_column_has_the_name_of_the_totals_in_capital_letters(tmp_path: Path) -> None:
    """DuckDB ignores case, and would give the totals another name."""
    columns = UNITS | INCOME | {"Total": UNITS["tenure"]}
    dataset = {"units": {"path": str(tmp_path / "units.csv"), "columns": columns}}
    products = [{"name": "one", "dimensions": ["Total"]}]
    with pytest.raises(DeclarationError, match="total belongs to the totals"):
        suppression_deployment(tmp_path, dataset=dataset, products=products, dominance={"magnitude": "income", "p": 20})


def test_a_column_of_units_may_be_named_like_the_column_that_links_persons_to_them() -> None:
    """Wrong program: one for which `household` is ambiguous, the kind of a unit and the unit of a person."""
    with duckdb.connect() as connection:
        session = Session(connection, [Zone.PUBLIC])
        units = session.register("units", pa.table({"serial": [1, 2], "household": ["couple", "single"]}))
        persons = session.register("persons", pa.table({"household": [1, 1, 2], "sex": ["f", "m", "f"]}))
        counts = session.arrow(
            "unperturbed/counts",
            units=units,
            persons=persons,
            columns=["household", "sex"],
            key="serial",
            unit="household",
            of_units=["household"],
            of_persons=["sex"],
        )
    assert counts.to_pylist() == [
        {"household": kind, "sex": sex, "count": 1} for kind, sex in (("couple", "f"), ("couple", "m"), ("single", "f"))
    ]


def test_readers_know_which_places_lie_in_which_and_the_threshold(tmp_path: Path) -> None:
    """A program over all combinations takes 5 in one county of a region for unknown beside 5 in another region, and
    4 for possible where the threshold is 3."""
    apart = [{"name": name, "geography": [name]} for name in ("county", "region")]
    with pytest.raises(DeclarationError, match="one table with all of county, region"):
        suppression_deployment(tmp_path / "apart", products=apart)
    both = {"name": "both", "geography": ["region", "county"]}
    suppression_deployment(tmp_path / "both", products=[*apart, both])
    with pytest.raises(ValueError, match="width: at most 6"):
        suppression_deployment(tmp_path / "wide", width=7)


def test_its_tables_count_one_kind_of_records_and_are_not_too_large(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="counts persons"):
        suppression_deployment(tmp_path / "of", products=[{"name": "one", "of": "persons", "dimensions": ["size"]}])
    with pytest.raises(DeclarationError, match="at least one table"):
        suppression_deployment(tmp_path / "none", products=[])


def test_the_number_of_all_records_is_a_table_of_one_category(tmp_path: Path) -> None:
    """Beside tables of the column from which it is recoded. A rule that looks at columns alone asks for one table with
    both, as for two columns that determine each other."""
    units = {"path": str(tmp_path / "units.csv")}
    for categories, is_refused in (({"all": ["own", "rent"]}, False), ({"one": ["own"], "other": ["rent"]}, True)):
        columns = UNITS | {"kind": {"source": "tenure", "type": "string", "merge": categories}}
        dataset = {"units": units | {"columns": columns}}
        products = [*SPARSE_PRODUCTS, {"name": "everything", "dimensions": ["kind"]}]
        with (
            pytest.raises(DeclarationError, match="one table with all of kind, tenure") if is_refused else nullcontext()
        ):
            suppression_deployment(tmp_path, dataset=dataset, products=products)
