"""Claims about releases of hypercubes: their counts, publications, charges and answers."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click import UsageError
from click.testing import CliRunner

from assets.publication.tables import PublishedTables
from assets.release import signature
from assets.release.contents import read_cef_version
from assets.release.draw import Inputs
from assets.release.release import DeclarationError
from assets.release.signature import SignedFolder, altered_files, public_key
from assets.release.statement import Statement
from assets.table_builder.asking import (
    PLACES,
    least_variance,
    read_labels,
    read_publication,
    write_category,
)
from assets.table_builder.cells import CountsError, add_up_cells, counts_recipe
from assets.table_builder.method import TableBuilderMethod
from assets.table_builder.release import HypercubeRelease
from assets.table_builder.statement import accuracy, hypercube_statement
from assets.table_builder.statistics_cells import numbers_recipe
from assets.table_builder.statistics_tables import published_statistic
from assets.table_builder.tables import AFTER_A_SWAP, planned_tables, published_tables
from mechanisms.accounting.losses import ApproximateLoss, InfiniteLoss, PureLoss
from mechanisms.swapping.loss import theorem_1
from mechanisms.table_builder.asking import QuestionError
from mechanisms.table_builder.judging import judge
from orchestration import cli
from orchestration.cli.publications import _parse_categories, _parse_names
from resources.chain import make_withdrawal
from resources.ledger import Ledger, Reading
from resources.statements import Zone
from stirred.deployment import _write_names
from stirred.table_builder import sub_table
from tests.contract.kinds import to_publication
from tests.deployments import (
    COUNTIES,
    PRODUCTS,
    SHOWN,
    UNITS,
    Deployment,
    households,
    members,
    small_dataset,
)
from tests.depth import deep_cases, quick_cases
from tests.docs.warehouse import tables_of, undescribed
from tests.table_builder_deployments import (
    AFTER,
    STATISTICS,
    TENURE,
    after_swap_deployment,
    hypercube_deployment,
    hypercubes,
)

EXPORT = """\
i;j;p;v;p_int_ub
0;0;1;0;1
1;0;0.25;-1;0.25
1;1;0.5;0;0.75
1;2;0.25;1;1
"""
"""A p-table of four keys."""

Deployed = Deployment[HypercubeRelease]
PEOPLE = {"name": "people", "of": "persons", "variables": ["sex", "county", "age"], "epsilon": 1}
AGES = {
    "name": "ages",
    "of": "persons",
    "variables": ["county", "sex"],
    "value": {"column": "age", "grid": 10, "least": -20, "most": 50},
    "epsilon": 1,
}
ROOMS = {"name": "rooms", "variables": ["county"], "weight": {"column": "size", "grid": "0.5", "most": 3}, "epsilon": 4}
MADE = {"largest_change": 3, "variance": 2, "threshold": 1}
KEYED = {"name": "keyed", "of": "units", "variables": ["county", "tenure"], "p_table": MADE, "consistency": "cell"}
JUDGED = {"name": "judged", "variables": ["county", "tenure"], "p_table": MADE, "margins": "independent"}
ZEROS = {
    "name": "zeros",
    "variables": ["county", "tenure", "size"],
    "epsilon": 1,
    "margins": "independent",
    "structural_zeros": [{"size": [5, 6, 7, 8, 9]}, {"county": ["Avon"], "size": [1, 2, 3, 4, 5, 6, 7, 8, 9]}],
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    """A CEF, from which hypercubes are counted without a run."""
    made = hypercube_deployment(tmp_path_factory.mktemp("counted") / "release")
    made.reach("cef")
    return made


def release_of(deployment: Deployed, cube: Mapping[str, Any], **changes: Any) -> HypercubeRelease:
    (component,) = hypercubes("village", cube, **changes)
    release = component.release(deployment.release.dataset, deployment.root / "published")
    assert isinstance(release, HypercubeRelease)
    return release


def of(rows: Iterable[Mapping[str, Any]], *names: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in names) for row in rows)


def as_dict(release: HypercubeRelease, cells: np.ndarray) -> dict[tuple[Any, ...], int]:
    """Cells by their categories, those of variables in alphabetical order; without zeros."""
    places = product(*release.domains.values())
    return {place: int(value) for place, value in zip(places, cells.ravel(), strict=True) if value}


def test_cells_are_those_of_plain_counting(counted: Deployed) -> None:
    units = {row["serial"]: row for row in households()}
    persons = [{**units[row["household"]], **row} for row in members(households())]
    expected = {
        "tenure": (TENURE, of(units.values(), "county", "size", "tenure")),
        "people": (PEOPLE, of(persons, "age", "county", "sex")),
    }
    with counted.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        for cube, cells in expected.values():
            release = release_of(counted, cube)
            assert as_dict(release, add_up_cells(session, release, release.amount)) == cells


def test_amounts_are_rounded_to_the_grid_within_their_bounds(counted: Deployed) -> None:
    units = {row["serial"]: row for row in households()}
    ages: Counter[tuple[str, str]] = Counter()
    for row in members(households()):
        ages[units[row["household"]]["county"], row["sex"]] += min(5, (row["age"] + 5) // 10)
    rooms: Counter[tuple[str]] = Counter()
    for row in units.values():
        rooms[(row["county"],)] += 2 * min(3, row["size"])
    with counted.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        for cube, expected in ((AGES, ages), (ROOMS, rooms)):
            release = release_of(counted, cube)
            assert as_dict(release, add_up_cells(session, release, release.amount)) == expected
    assert (release_of(counted, AGES).design.least, release_of(counted, AGES).design.most) == (-2, 5)


def test_records_in_structural_zeros_are_refused_with_their_number_alone(counted: Deployed) -> None:
    release = release_of(counted, ZEROS)
    avon = {(row["tenure"], row["size"]) for row in households() if row["county"] == "Avon"}
    with (
        counted.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session,
        pytest.raises(CountsError) as refused,
    ):
        counts_recipe(session, release)
    said = f"village__tables_zeros: structural_zeros: {len(avon)} cells that are declared impossible have records"
    assert str(refused.value) == f"{said}; nothing was charged"


@pytest.mark.parametrize("statistic", [{"moments": ["size"]}, {"quantiles": {"size": {"bounds": [1, 9], "grid": 1}}}])
def test_cells_of_statistics_in_structural_zeros_are_counted(counted: Deployed, statistic: Mapping[str, Any]) -> None:
    """Wrong program: counts the numbers of these cells."""
    zeros = [{"county": ["Avon"], "tenure": ["own", "rent"]}]
    cube = {name: STATISTICS[name] for name in ("name", "variables", "epsilon")} | {
        "structural_zeros": zeros,
        **statistic,
    }
    (_, component) = hypercubes("village", cube)
    release: Any = component.release(counted.release.dataset, counted.root / "published")
    with (
        counted.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session,
        pytest.raises(CountsError, match="structural_zeros: 2 cells that are declared impossible"),
    ):
        numbers_recipe(session, release)


def test_sums_that_published_tables_cannot_hold_are_refused_before_the_charge(counted: Deployed) -> None:
    """64-bit integers hold 922 trillion in ten-thousandths; greater numbers would be published wrongly, unnoticed."""
    far = {"weight": {"column": "size", "grid": 1, "most": 10**9}, "epsilon": "1/100000"}
    with counted.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        with pytest.raises(CountsError, match="village__tables_rooms: the sums are too large"):
            counts_recipe(session, release_of(counted, ROOMS | far))
        counts_recipe(session, release_of(counted, ROOMS | far | {"epsilon": 1}))


def test_structural_zeros_are_not_measured(counted: Deployed) -> None:
    release = release_of(counted, ZEROS)
    cells = {table: len(release.possible_in(table)) for table in release.design.tables}
    assert cells[("county", "size", "tenure")] == 2 * 4 * 2
    assert cells[("county",)] == 2
    assert cells[("size",)] == 4
    assert cells[("tenure",)] == 2


@pytest.mark.parametrize(("cube", "unit"), [(TENURE, "household"), (PEOPLE, "person"), (AGES, "person")])
def test_the_loss_is_stated_for_the_unit_that_it_protects(counted: Deployed, cube: Any, unit: str) -> None:
    """A county is geography, which no person's change alters; a household's tenure may follow from its persons."""
    release = release_of(counted, cube)
    assert release.specification.flavor.unit == unit
    assert release.specification.flavor.changes_per_person == (1 if unit == "household" else None)
    with_tenure = release_of(counted, PEOPLE | {"variables": ["sex", "tenure"]})
    assert with_tenure.specification.flavor.unit == "person record"
    assert release.specification.loss == release.design.bounded


def test_records_that_follow_from_others_protect_no_person(counted: Deployed) -> None:
    """One person changes several of them, whether they are persons beside units or the only records of a dataset."""
    people, households = release_of(counted, PEOPLE), release_of(counted, TENURE)
    assert people.dataset.persons is not None
    columns = people.dataset.persons.columns
    sex = columns["sex"].model_copy(update={"depends_on_persons": True})
    persons = people.dataset.persons.model_copy(update={"columns": {**columns, "sex": sex}})
    beside = replace(people, dataset=people.dataset.model_copy(update={"persons": persons}))
    alone = households.dataset.model_copy(update={"persons": None, "record_name": "person record"})
    for release in (beside, replace(households, dataset=alone)):
        assert release.specification.flavor.unit == "person record"
        assert release.specification.loss_for("person") is None


REFUSED = {
    "an unknown variable": ({"variables": ["district"]}, "variables: there is no column district of units"),
    "a variable without a list of values": ({"of": "persons", "variables": ["household"]}, "no column household"),
    "a variable twice": ({"variables": ["size", "size"]}, "size is named twice"),
    "two budgets": ({"rho": 1}, "declare either epsilon or rho"),
    "no budget": ({"epsilon": None}, "declare either epsilon or rho"),
    "a delta without a rho": ({"delta": "1e-9"}, "delta: a loss in ε is not stated at another δ"),
    "a negative threshold": ({"suppress_below": -3}, "suppress_below: -3 is not 0 or more"),
    "shares without margins": ({"margins": "summed", "shares": [{"by": ["county"], "share": 1}]}, "shares: summed"),
    "shares below 1": ({"shares": [{"by": ["county", "tenure", "size"], "share": "1/2"}]}, "they add up to 1/2"),
    "a grid too fine": (ROOMS | {"weight": ROOMS["weight"] | {"grid": "1/3"}}, "weight: "),
    "a bound off the grid": (ROOMS | {"weight": ROOMS["weight"] | {"most": "0.7"}}, "not a multiple of the grid"),
    "a text as weight": (ROOMS | {"weight": ROOMS["weight"] | {"column": "tenure"}}, "tenure is no number"),
    "weight and value": (ROOMS | {"value": ROOMS["weight"]}, "not both"),
    "an unknown category": (
        {"structural_zeros": [{"tenure": ["lent"]}]},
        "tenure has no category 'lent'; there are 'own', 'rent'",
    ),
    "no cell left": ({"structural_zeros": [{"tenure": ["own", "rent"]}]}, "no cell is left"),
    "a product of others": ({"products": [{"name": "p", "by": ["region"]}]}, "region is not among the variables"),
    "a product by a variable twice": (
        {"products": [{"name": "p", "by": ["size", "size"]}]},
        "products: p: by: size is named twice",
    ),
    "a product of a category twice": (
        {"products": [{"name": "p", "by": ["size"], "where": {"tenure": ["own", "own"]}}]},
        "products: p: where: tenure: 'own' is named twice",
    ),
    "a product of true for 1": (
        {"products": [{"name": "p", "by": ["size"], "where": {"size": [True]}}]},
        "products: p: where: size has no category True",
    ),
    "a product named like ours": ({"products": [{"name": "categories", "by": ["size"]}]}, "name of another table"),
    "cell consistency without a p-table": ({"epsilon": None, "consistency": "cell"}, "is for p-tables"),
    "cell consistency with a budget": (KEYED | {"epsilon": 1}, "no finite loss holds"),
    "a fitted p-table": (JUDGED | {"margins": "fitted"}, "not fitted"),
    "a p-table of weights": (ROOMS | {"p_table": MADE}, "p-tables are for counts"),
    "an impossible p-table": (JUDGED | {"p_table": MADE | {"threshold": 3}}, "p_table: variance"),
    "a p-table that guarantees nothing": (JUDGED | {"epsilon": "1/100"}, "guarantees nothing"),
    "a p-table at an ε beyond any chart": (
        JUDGED | {"epsilon": 1201},
        "protects nobody; a table has at most 400",
    ),
    "the file of no p-table": (JUDGED | {"p_table": {"path": "none.csv", "form": "ons"}}, "cannot be read"),
    "keys that are no whole numbers": (KEYED | {"record_keys": "tenure"}, "no column of whole numbers from 0"),
    "keys that the p-table does not have": (KEYED | {"record_keys": "size"}, "record_keys: only a p-table with"),
    "keys for query consistency": (JUDGED | {"record_keys": "size"}, "record_keys: keys of records"),
}


@pytest.mark.parametrize(("changes", "says"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_released_is_refused_when_it_is_loaded(
    counted: Deployed, changes: Mapping[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match="release village/tables") as refused:
        release_of(counted, TENURE | changes if "name" not in changes else changes)
    assert says in str(refused.value)


NAMED: dict[str, dict[str, Any]] = {
    "a column of ours": {"Estimate": {"type": "boolean"}},
    "a mark of totals": {"County_Total": {"type": "boolean"}},
    "a sign of ours": {"county × size": {"type": "boolean"}},
}


def test_empty_amounts_lie_within_the_bounds(counted: Deployed) -> None:
    """Empty amounts count as 0, as the published tables state. Otherwise a record could add less than the declared
    least. Wrong program: a product that does not tell what it adds up, or in which unit."""
    empty = {"rent": {"type": "integer", "minimum": 0, "maximum": 9000, "nullable": True, "title": "Rent in euros"}}
    dataset = small_dataset(
        counted.root, with_persons=True, units={"path": "units.csv", "columns": dict(UNITS) | empty}
    )
    for bounds, allowed in (({"least": 10, "most": 90}, False), ({"least": -90, "most": 0}, True), ({"most": 9}, True)):
        summed = {"weight": {"column": "rent", "grid": 1, **bounds}, "products": [{"name": "one", "by": ["county"]}]}
        (component,) = hypercubes("village", ROOMS | summed)
        if allowed:
            table, product, *_ = published_tables(component.release(dataset, counted.root))
            described = {column.name: column.description for column in table.columns}
            words = "sum of rent (Rent in euros; an empty value counts as 0)"
            assert described["measured"].startswith(f"Noisy {words}")
            assert product.description.startswith(f"Each estimate is a {words}.")
        else:
            with pytest.raises(DeclarationError, match="weight: least: rent may be empty, which counts as 0"):
                component.release(dataset, counted.root)


@pytest.mark.parametrize("columns", NAMED.values(), ids=NAMED)
def test_a_variable_with_a_name_of_ours_is_refused(counted: Deployed, columns: Mapping[str, Any]) -> None:
    """DuckDB ignores case, so that two columns of a published table would have one name."""
    dataset = small_dataset(
        counted.root, with_persons=True, units={"path": "units.csv", "columns": dict(UNITS) | dict(columns)}
    )
    (component,) = hypercubes("village", ROOMS | {"variables": ["county", *columns]})
    with pytest.raises(DeclarationError, match=f"variables: {next(iter(columns))} "):
        component.release(dataset, counted.root)


REGIONS = {"region": {"type": "string", "role": "geography", "values": {"N": "North", "S": "South", "W": "West"}}}
NESTED = {"county": UNITS["county"] | {"within": "region", "nesting": {"S": ["Cairn", "Avon"], "N": ["Brent"]}}}
WITHIN = {"units": {"path": "units.csv", "columns": UNITS | REGIONS | NESTED}}
IN_REGIONS = TENURE | {
    "products": [
        {"name": "regions", "by": ["region", "tenure"]},
        {"name": "nested", "by": ["county", "region"], "where": {"region": ["S"]}},
    ]
}


@pytest.mark.prove
def test_a_hypercube_by_a_place_is_published_and_answers_by_the_larger_one(tmp_path: Path) -> None:
    """Wrong programs: one that publishes a region of which it has no county, one that loses the regions' labels, and
    one that lists places of two levels side by side in the formats that nest them."""
    rows = [row | {"region": "N" if row["county"] == "Brent" else "S"} for row in households()]
    columns = WITHIN["units"] | {"path": str(tmp_path / "release" / "units.csv")}
    made = hypercube_deployment(
        tmp_path / "release", IN_REGIONS, units=rows, dataset={"units": columns}, formats=["px"]
    )
    made.reach(*to_publication(made.context.method))
    folder = made.release.folder
    for name, by, where in (("regions", ["region", "tenure"], {}), ("nested", ["county", "region"], {"region": ["S"]})):
        published = pq.read_table(folder / f"{name}.parquet").to_pylist()
        assert sub_table(folder, by, where).to_dict("records") == published
    by_region = {row["region"]: row["estimate"] for row in sub_table(folder, ["region"]).to_dict("records")}
    by_county = {row["county"]: row["estimate"] for row in sub_table(folder, ["county"]).to_dict("records")}
    assert by_region == {"N": by_county["Brent"], "S": round(by_county["Avon"] + by_county["Cairn"], PLACES)}
    assert read_labels(PublishedTables(folder))["region"] == {"N": "North", "S": "South"}
    assert 'CODES("Geography")="S@Avon","S@Cairn";' in (folder / "nested.px").read_text()


def test_variables_that_are_nested_places_have_no_impossible_cells(counted: Deployed) -> None:
    dataset = small_dataset(counted.root, with_persons=True, **WITHIN)
    cube = {"name": "both", "variables": ["county", "region", "tenure"], "epsilon": 1, "margins": "independent"}
    (component,) = hypercubes("village", cube)
    release = component.release(dataset, counted.root)
    assert isinstance(release, HypercubeRelease)
    possible = {(county, region) for county, region, _ in as_dict(release, release.possible)}
    assert possible == {("Avon", "S"), ("Brent", "N"), ("Cairn", "S")}
    assert not release.larger_places


@pytest.mark.parametrize(
    ("product_", "says"),
    [
        ({"by": ["county"], "where": {"region": ["N"], "county": ["Avon"]}}, "no category that counts lies in these"),
        ({"by": ["region"], "where": {"region": ["W"]}}, "region has no category 'W'"),
        ({"by": ["size", "nation"]}, "nation is not among the variables"),
    ],
)
def test_a_product_without_places_is_refused_when_it_is_loaded(
    counted: Deployed, product_: Mapping[str, Any], says: str
) -> None:
    dataset = small_dataset(counted.root, with_persons=True, **WITHIN)
    (component,) = hypercubes("village", TENURE | {"products": [{"name": "some", **product_}]})
    with pytest.raises(DeclarationError, match=says):
        component.release(dataset, counted.root)


def test_too_many_cells_are_refused_before_they_are_listed(counted: Deployed) -> None:
    """A variable with 10^12 categories would not fit into memory, nor would the map of structural zeros."""
    far = {"far": {"type": "integer", "minimum": 1, "maximum": 10**12}}
    dataset = small_dataset(counted.root, with_persons=True, units={"path": "units.csv", "columns": dict(UNITS) | far})
    cube = ROOMS | {"variables": ["county", "far"], "structural_zeros": [{"county": ["Avon"]}]}
    (component,) = hypercubes("village", cube)
    with pytest.raises(DeclarationError, match="3,000,000,000,000 cells in all tables; at most 20,000,000"):
        component.release(dataset, counted.root)


def test_a_draw_by_keys_follows_from_the_records_and_every_other_one_from_the_counts(counted: Deployed) -> None:
    """Two editions with the same counts of other records have other noise under cell consistency: two draws."""
    with counted.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        records = read_cef_version(session, counted.context.custody, counted.release.dataset)
    for cube, versions in ((KEYED, {"records": records}), (JUDGED, {}), (TENURE, {})):
        method = TableBuilderMethod(release_of(counted, cube))
        table = method.version_table
        with counted.context.warehouse.session(writes=Zone.PUBLIC) as session:
            session.create(table, "warehouse/label", {"text": "of the counts"}, column="version")
            found = method.inputs(session, counted.context.custody)
        assert dict(found.versions) == {"counts": "of the counts"} | versions


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    made = hypercube_deployment(tmp_path_factory.mktemp("published") / "release")
    made.reach(*to_publication(made.context.method), *SHOWN)
    return made


@pytest.mark.deep
def test_the_page_of_the_warehouse_describes_every_table(published: Deployed) -> None:
    assert undescribed(tables_of(published), "table_builder") == []


@pytest.mark.prove
def test_the_publication_answers_what_its_own_products_say(published: Deployed) -> None:
    folder = published.release.folder
    product_rows = pq.read_table(folder / "owners.parquet").to_pylist()
    answer = sub_table(folder, ["county"], {"tenure": ["own"]}).to_dict("records")
    assert answer == product_rows
    assert [row["county"] for row in product_rows] == list(COUNTIES)


@pytest.mark.deep
def test_fitted_margins_are_the_sums_of_their_cells_whatever_is_asked(published: Deployed) -> None:
    folder = published.release.folder
    (whole,) = sub_table(folder)["estimate"]
    for by in (["county"], ["size", "tenure"], ["tenure", "county", "size"]):
        assert round(sub_table(folder, by)["estimate"].sum(), PLACES) == whole
    rows = pq.read_table(folder / "hypercube.parquet").to_pylist()
    margin = [row for row in rows if row["table_name"] == "county × size"]
    asked = sub_table(folder, ["county", "size"])
    assert asked["estimate"].tolist() == [row["estimate"] for row in margin]
    assert asked["standard_error"].tolist() == [row["standard_error"] for row in margin]


@pytest.mark.parametrize(
    ("by", "where", "says"),
    [
        (["age"], {}, "age: the hypercube is by county, size, tenure"),
        (["county"], {"tenure": ["lent"]}, "tenure: there is no category lent; there are own, rent"),
        (["county", "county"], {}, "names each variable once"),
        ([], {"tenure": []}, "at least one category counts"),
    ],
)
def test_what_the_hypercube_cannot_answer_is_refused(
    published: Deployed, by: Sequence[str], where: Mapping[str, Sequence[str]], says: str
) -> None:
    with pytest.raises(QuestionError, match=says):
        sub_table(published.release.folder, by, where)


@pytest.fixture
def stirred_table(
    published: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, Any, str]]:
    """The command on a copy of the publication; `tables_later` is declared too, but not published.

    Returns the exit code, the answer if there is one, and the error message.
    """
    shutil.copytree(published.release.published, tmp_path / "published")
    both = [SimpleNamespace(named=f"village/tables_{name}") for name in ("later", "tenure")]
    known = {"village/tables": both} | {each.named: [each] for each in both}
    deployed = SimpleNamespace(
        releases=known.__getitem__,
        published=tmp_path / "published",
        public_key=public_key(published.context.custody),
        ledger=published.context.ledger,
    )
    monkeypatch.setattr("orchestration.deployment.Deployment", lambda: deployed)

    def ask(release: str, *arguments: str) -> tuple[int, Any, str]:
        found = CliRunner().invoke(cli.main, ["table", release, *arguments, "--json"])
        return found.exit_code, json.loads(found.stdout) if found.exit_code == 0 else None, found.stderr

    return ask


def test_what_is_exchanged_after_a_publication_was_verified_is_not_read(
    stirred_table: Callable[..., tuple[int, Any, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: it reads files from the verified folder, whose contents may have changed."""
    question = ("village/tables_tenure", "--by", "tenure")
    expected = stirred_table(*question)
    for name in ("hypercube", "categories"):
        file = tmp_path / "published" / "village" / "tables_tenure" / f"{name}.parquet"
        content = file.read_bytes()

        def exchange(folder: Path, key: Any, file: Path = file) -> list[str]:
            problems = altered_files(folder, key)
            pq.write_table(pq.read_table(file).slice(1), file)
            return problems

        with monkeypatch.context() as patched:
            patched.setattr(signature, "altered_files", exchange)
            code, _, said = stirred_table(*question)
            assert (code, said) == (1, f"Error: {name}.parquet is missing or was altered\n")
        file.write_bytes(content)
    assert stirred_table(*question) == expected


def test_the_command_shows_labels_beside_codes(
    stirred_table: Callable[..., tuple[int, Any, str]], published: Deployed
) -> None:
    """A table of codes alone needs the dictionary beside it; a label that is its code in capitals adds nothing."""
    folder = published.release.published / "village" / "tables_tenure"
    rows = pq.read_table(folder / "categories.parquet").to_pylist()
    labels = {row["category"]: row["label"] for row in rows if row["variable"] == "tenure" and row["label"]}
    assert labels
    assert read_labels(PublishedTables(folder))["tenure"] == labels
    assert "labels" not in stirred_table("village/tables", "--by", "tenure")[1], "data have codes"
    shown = CliRunner().invoke(cli.main, ["table", "village/tables", "--by", "tenure"]).stdout
    plain = CliRunner().invoke(cli.main, ["table", "village/tables", "--by", "tenure", "--codes"]).stdout
    for code, label in labels.items():
        assert f"{code}: {label} " in shown
        assert label not in plain
        assert code in plain


def test_the_command_remarks_that_intervals_after_a_swap_do_not_cover_it(
    stirred_table: Callable[..., tuple[int, Any, str]], published: Deployed, tmp_path: Path
) -> None:
    """As the dictionary of the publication states it. Wrong program: it prints intervals as if they were of the counts
    before the swap."""
    arguments = ["table", "village/tables_tenure", "--by", "tenure"]
    folder, swap = tmp_path / "published" / "village" / "tables_tenure", "It does not cover the swap."
    assert swap not in CliRunner().invoke(cli.main, arguments).stderr
    dictionary = json.loads((folder / signature.PACKAGE).read_bytes())
    for resource in dictionary["resources"]:
        if "interval" in resource:
            resource["interval"]["method"] += f" {AFTER_A_SWAP}"
    (folder / signature.PACKAGE).write_text(json.dumps(dictionary))
    signature.sign(folder, published.context.custody)
    assert CliRunner().invoke(cli.main, arguments).stderr.endswith(f"{swap}\n")


@pytest.mark.parametrize("where", ["tenure in (own)", "tenure IN own", "tenure=own", "tenure in ('own')"])
def test_the_command_answers_from_what_is_published(
    stirred_table: Callable[..., tuple[int, Any, str]], published: Deployed, where: str
) -> None:
    """Another hypercube of the release that was declared later, and is not published, does not prevent the answer."""
    owners = pq.read_table(published.release.folder / "owners.parquet").to_pylist()
    for release in ("village/tables", "village/tables_tenure"):
        code, answer, said = stirred_table(release, "--by", "county", "--where", where)
        assert code == 0, said
        assert answer["from"] == ["village/tables_tenure"]
        assert [{name: str(cell) for name, cell in row.items()} for row in answer["rows"]] == [
            {name: f"{cell:.{PLACES}f}" if isinstance(cell, float) else cell for name, cell in row.items()}
            for row in owners
        ]


WRITTEN = (None, "null", "01", "01 ", "", "(a)", "a, b", "it's", 'say "a"', "a")


def test_categories_are_asked_and_shown_as_they_are_written() -> None:
    """Wrong programs: one that trims quoted texts, and one that takes `null` for a category of that name."""
    for category in WRITTEN:
        for given in (write_category(category), f'"{str(category).replace(chr(34), 2 * chr(34))}"'):
            for text in (f"g={given}", f"g in ({given} )", f"g IN {given}", f"g in ({given}, a)"):
                expected = [str(category) if category is None and given != "null" else category]
                assert _parse_categories(text) == ("g", expected + ["a"] * text.endswith(", a)"))
    assert _parse_categories("g in ('it''s' , St John's,01 )") == ("g", ["it's", "St John's", "01"])
    assert [_parse_categories(text)[1] for text in ("g=(a)", "g in (a)", "g=")] == [["(a)"], ["a"], []]
    for text in ('g="a" b', "g='a", "g in ('a'b')", "g"):
        with pytest.raises(UsageError, match="--where: g"):
            _parse_categories(text)
    names = ["income, gross", " age", "null", 'a"b', "'tis", "x;y"]
    assert _parse_names("--by", _write_names(names)) == names
    assert len({write_category(category) for category in WRITTEN}) == len(WRITTEN)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["village/tables", "--where", "tenure=null"], "tenure: there is no category null; there are own, rent"),
        (["village/tables", "--where", "tenure='own '"], 'tenure: there is no category "own "; there are own, rent'),
        (["village/tables_later"], "village/tables_later is not published; launch it first"),
        (["village/tables", "--where", "tenure=own", "--where", "tenure=rent"], "--where: tenure is named twice"),
        (["village/tables", "--where", "tenure"], "--where: tenure is not of the form"),
        (["village/tables", "--where", "tenure in ()"], "tenure: at least one category counts"),
        (["village/tables", "--where", "tenure=own,own"], "tenure: a category is named twice"),
        (["village/tables", "--by", "age"], "age: the hypercube is by county, size, tenure"),
        (["village/tables", "--per", "village/tables"], "means need two hypercubes with noise of their own"),
    ],
)
def test_the_command_refuses_with_one_sentence(
    stirred_table: Callable[..., tuple[int, Any, str]], arguments: list[str], says: str
) -> None:
    code, _, said = stirred_table(*arguments)
    assert code != 0
    assert f"Error: {says}" in said


def test_the_command_answers_from_no_altered_or_withdrawn_publication_and_from_none_of_another_release(
    stirred_table: Callable[..., tuple[int, Any, str]],
    published: Deployed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The signature of a publication that was copied to the place of another one, or put back, is still right."""
    folder = tmp_path / "published" / "village"
    charge, *entries = published.ledger
    withdrawal = make_withdrawal([charge, *entries], charge, "release village/tables_tenure", "Ada")
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "read", lambda _: Reading((charge, *entries, withdrawal), ()))
        code, _, said = stirred_table("village/tables_tenure")
    assert code != 0
    assert "village/tables_tenure: edition 1 is signed, but was withdrawn in entry" in said
    shutil.copytree(folder / "tables_tenure", folder / "tables_later")
    code, _, said = stirred_table("village/tables_later")
    assert code != 0
    assert "village/tables_later: the publication in its folder is that of village/tables_tenure" in said
    (folder / "tables_tenure" / "hypercube.parquet").write_bytes(b"")
    code, _, said = stirred_table("village/tables_tenure")
    assert code != 0
    assert "village/tables_tenure: the publication is not intact: hypercube.parquet was altered" in said


@pytest.mark.parametrize(
    ("column", "value"),
    [("margins", "doubled"), ("budget", "much"), ("grid", None), ("least", 9), ("table_name", "size")],
)
def test_a_publication_that_was_altered_is_refused_in_a_sentence(
    published: Deployed, tmp_path: Path, column: str, value: Any
) -> None:
    """The function checks no signature, but shows no stack trace either."""
    shutil.copytree(published.release.folder, folder := tmp_path / "copy")
    tables = pq.read_table(folder / "measured_tables.parquet")
    altered = pa.array([value] * len(tables), tables.schema.field(column).type)
    pq.write_table(
        tables.set_column(tables.column_names.index(column), column, altered), folder / "measured_tables.parquet"
    )
    with pytest.raises(QuestionError, match="not a publication of a hypercube"):
        sub_table(folder)


def test_a_folder_without_a_hypercube_is_refused(tmp_path: Path) -> None:
    """Wrong program: a folder that was signed without a hypercube is called altered."""
    for files in (PublishedTables(tmp_path), PublishedTables.of(SignedFolder(tmp_path, {}, ""))):
        with pytest.raises(QuestionError, match="not a publication of a hypercube"):
            read_publication(files)


def another(root: Path, *cubes: Mapping[str, Any], **changes: Any) -> Deployed:
    return hypercube_deployment(root, *cubes, **changes)


def made(deployment: Deployed) -> Deployed:
    deployment.reach(*to_publication(deployment.context.method), *SHOWN)
    return deployment


@pytest.mark.prove
def test_another_hypercube_is_charged_alone_and_one_that_is_removed_costs_nothing(
    published: Deployed, tmp_path: Path
) -> None:
    root = tmp_path / "release"
    shutil.copytree(published.root, root)
    before, files = published.ledger, published.published()
    both = made(another(root, ROOMS, TENURE))
    assert [(entry.kind, entry.release) for entry in both.ledger[len(before) :]] == [
        ("reserve", "tables_rooms"),
        ("settle", "tables_rooms"),
    ]
    first = made(another(root, TENURE, ROOMS))
    assert first.published()["hypercube.csv"] == files["hypercube.csv"]
    alone = made(another(root, TENURE))
    assert alone.ledger == both.ledger


def alters(statement: str) -> Callable[[Deployed], None]:
    def alter(deployment: Deployed) -> None:
        with deployment.opened() as connection:
            connection.execute(statement)

    return alter


@deep_cases(1)
@quick_cases(3)
@deep_cases(3)
@pytest.mark.parametrize(
    ("cube", "statement", "failing"),
    [
        (TENURE, "UPDATE hypercube SET estimate = 9 WHERE cell = 0 AND table_name = 'county'",
         {"tables_as_made", "margins_agree"}),
        (TENURE, "DELETE FROM hypercube WHERE cell = 3", {"tables_as_made", "cells_complete"}),
        (TENURE, "UPDATE product_owners SET lower = lower - 1", {"tables_as_made"}),
        (TENURE, "UPDATE measured_tables SET budget = '9'", {"plan_as_declared"}),
        (TENURE, "ALTER TABLE noisy_measurements ALTER cell TYPE VARCHAR", {"measured_once"}),
        (TENURE | {"suppress_below": 3}, "UPDATE hypercube SET measured = 1 WHERE suppressed",
         {"tables_as_made", "small_estimates_absent"}),
        (KEYED, "UPDATE p_table SET change = change + 1 WHERE count > 3", {"plan_as_declared"}),
        (JUDGED, "UPDATE noisy_measurements SET count = count + 1",
         {"settled", "replay", "tables_as_made"}),
        (TENURE, "UPDATE categories SET label = 'x'", {"plan_as_declared"}),
    ],
)  # fmt: skip
def test_altered_tables_fail_their_gates(tmp_path: Path, cube: Any, statement: str, failing: set[str]) -> None:
    """Fails for, among others: measurements that are read as numbers regardless of their type."""
    deployment = made(another(tmp_path / "release", cube, dataset={"unbounded_releases": "allowed"}))
    alters(statement)(deployment)
    assert deployment.failed_checks() - {"files_intact"} >= failing


@pytest.mark.deep
def test_small_estimates_are_neither_published_nor_added_up(tmp_path: Path) -> None:
    deployment = made(another(tmp_path / "release", TENURE | {"suppress_below": 5, "margins": "independent"}))
    rows = pq.read_table(deployment.release.folder / "hypercube.parquet").to_pylist()
    small = [row for row in rows if row["suppressed"]]
    assert small
    assert all(row[name] is None for row in small for name in ("measured", "estimate", "lower", "upper"))
    assert all(row["estimate"] >= 5 for row in rows if not row["suppressed"])
    with pytest.raises(QuestionError, match="not published"):
        sub_table(deployment.release.folder, ["county", "size", "tenure"])
    assert len(sub_table(deployment.release.folder, ["county"])) == len(COUNTIES)


INCOMES = ("9999999", "9999998", "NA", "1200", "100", "15000")
"""Not in universe, no income, missing, and incomes, of which the greatest is above the declared bound."""


def test_codes_for_no_income_are_not_added_up(tmp_path: Path) -> None:
    """The noise has the scale 1/100 steps, and is 0 but for a probability below 1e-40: the sums are the true ones.

    Wrong programs: one that adds 9,999,999, or takes it as the bound, and one that refuses it for the domain."""
    rows = [
        {"serial": number, "county": COUNTIES[number % 2], "income": INCOMES[number // 2 % 6]} for number in range(72)
    ]
    columns = {
        "serial": {"type": "integer", "role": "key"},
        "county": UNITS["county"],
        "income": {"type": "integer", "minimum": 0, "maximum": 20000, None: [9999999, "NA"], "zero": [9999998]},
    }
    income = {
        "name": "income",
        "variables": ["county"],
        "epsilon": 10000,
        "value": {"column": "income", "grid": 100, "most": 10000},
    }
    deployment = made(
        hypercube_deployment(
            tmp_path / "release",
            income,
            units=rows,
            persons=[{"serial": 1}],
            dataset={
                "cap": 100000,
                "persons": None,
                "units": {"path": str(tmp_path / "release/units.csv"), "columns": columns},
            },
        )
    )
    answer = sub_table(deployment.release.folder, ["county"]).to_dict("records")
    assert [row["estimate"] for row in answer if row["estimate"]] == [6 * (1200 + 100 + 10000)] * 2
    certificate = json.loads((deployment.release.folder / "certificate.json").read_text())
    assert {
        "label": "Read from the source",
        "value": [
            "income: In the source, no value is also written as '9999999', 'NA', and 0 is also written as '9999998'."
        ],
    }.items() <= certificate["mechanism"]["parameters"][-1].items()


@pytest.mark.prove
def test_a_release_with_cell_keys_has_no_finite_loss_and_gives_equal_sets_of_records_equal_noise(
    tmp_path: Path,
) -> None:
    """Where all households of a county own their homes, the county and its owners have the same records."""
    units = [row | {"tenure": "own"} if row["county"] == "Avon" else row for row in households()]
    measured = [{"by": by, "share": "1/2"} for by in (["county", "tenure"], ["county"])]
    keyed = KEYED | {"margins": "independent", "shares": measured}
    deployment = made(another(tmp_path / "release", keyed, units=units, dataset={"unbounded_releases": "allowed"}))
    assert deployment.ledger[0].parse_specification().charge == InfiniteLoss()
    rows = pq.read_table(deployment.release.folder / "hypercube.parquet").to_pylist()
    county = {row["county"]: row["measured"] for row in rows if row["table_name"] == "county"}
    owners = {row["county"]: row["measured"] for row in rows if row["tenure"] == "own" and row["county"]}
    assert county["Avon"] == owners["Avon"]
    rented = [row["measured"] for row in rows if (row["county"], row["tenure"]) == ("Avon", "rent")]
    assert rented == [0], "an empty cell stays empty"
    renting = sum(row["measured"] for row in rows if row["tenure"] == "rent")
    answer = sub_table(deployment.release.folder, ["tenure"]).set_index("tenure")["estimate"]
    assert answer["rent"] == renting, "a margin that is not measured is a sum of cells"
    assert deployment.failed_checks() == set()


@pytest.mark.prove
def test_records_bring_their_keys_along(tmp_path: Path) -> None:
    """The published result of a cell is that of its p-table's row at the sum of its records' keys."""
    path = tmp_path / "p_table.csv"
    path.write_text(EXPORT)
    keyed = KEYED | {"record_keys": "size", "p_table": {"path": str(path), "form": "sdctools"}}
    deployment = made(another(tmp_path / "release", keyed, dataset={"unbounded_releases": "allowed"}))
    table = deployment.release.design.p_table
    assert table is not None
    rows = pq.read_table(deployment.release.folder / "hypercube.parquet").to_pylist()
    found = {(row["county"], row["tenure"]): row["measured"] for row in rows}
    counts, keys = of(households(), "county", "tenure"), Counter[tuple[str, str]]()
    for row in households():
        keys[row["county"], row["tenure"]] += row["size"]
    expected = table.look_up(np.array([counts[cell] for cell in found]), np.array([keys[cell] for cell in found]))
    assert list(found.values()) == expected.tolist()


@pytest.mark.deep
def test_cell_keys_are_refused_where_no_release_without_a_finite_loss_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no finite loss bounds it"):
        another(tmp_path / "release", KEYED)


@pytest.mark.prove
def test_of_several_hypercubes_the_one_with_the_least_variance_answers(tmp_path: Path) -> None:
    precise = TENURE | {"name": "precise", "epsilon": 8, "products": [], "variables": ["county", "tenure"]}
    deployment = another(tmp_path / "release", TENURE, precise, ROOMS)
    deployment.run_assets(*_everything(deployment), checks=False)
    folders = {
        name: deployment.root / "published/village" / f"tables_{name}" for name in ("tenure", "precise", "rooms")
    }
    published = {name: read_publication(PublishedTables(folder)) for name, folder in folders.items()}
    counts = {name: each for name, each in published.items() if name != "rooms"}
    assert least_variance(counts, ["county"], {}) == "precise"
    assert least_variance(counts, ["county", "size"], {}) == "tenure"
    with pytest.raises(QuestionError, match="2 different quantities are published"):
        least_variance(published, ["county"], {})
    means = published["rooms"].means(published["precise"], ["county"], {}).to_pylist()
    exact = Counter[str]()
    for row in households():
        exact[row["county"]] += min(3, row["size"])
    number = of(households(), "county")
    assert all(
        row["lower"] <= row["estimate"] <= row["upper"]
        and abs(row["estimate"] - Decimal(exact[row["county"]]) / number[(row["county"],)]) < Decimal("0.5")
        for row in means
    )


def _everything(deployment: Deployed) -> list[Any]:
    return [
        key
        for key in deployment.definitions.resolve_asset_graph().get_all_asset_keys()
        if key.path[-1] not in ("preflight",)
    ]


def test_a_charge_is_twice_the_declared_budget(counted: Deployed) -> None:
    release = release_of(counted, TENURE)
    assert str(release.specification.charge) == "4"
    assert release.specification.lines[0].label == "county × size × tenure"
    assert len(release.specification.lines) == 2**3 - 1
    assert Fraction(str(release.specification.lines[0].loss)) == Fraction(4, 7)


def after_a_swap(root: Path, cube: Mapping[str, Any] = AFTER, count: int = 120, **swap: Any) -> Deployed:
    """A hypercube that is counted from the withheld records of a swap of the same dataset, with `count` households."""
    return after_swap_deployment(root, cube, units=households(count), swap=swap)


@pytest.mark.prove
def test_noise_after_a_withheld_swap_is_counted_from_its_records_and_charged_for_two(tmp_path: Path) -> None:
    # A swap of half of 1,200 households leaves every cell as it was in 1 of 16 million draws.
    records = households(1200)
    deployment = after_a_swap(tmp_path / "release", count=len(records))
    deployment.run_assets(*_everything(deployment), checks=False)
    release = deployment.release
    (reserved,) = [entry for entry in deployment.ledger if entry.kind == "reserve"]
    assert str(reserved.parse_specification().charge) == "4", "twice 2ε: two swapped records may change"
    assert reserved.parse_specification().flavor.multiverse == ("the number of households by region × size",)
    with deployment.opened("confidential") as connection:
        rows = connection.execute(
            "SELECT region, size, county, tenure FROM confidential.village__stirred.withheld_records"
        ).fetchall()
    assert Counter(rows) != of(records, "region", "size", "county", "tenure"), "some were swapped"
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert as_dict(release, add_up_cells(session, release, release.amount)) == Counter(row[2:] for row in rows)
    strata = of(records, "region", "size")
    assert release.withheld is not None
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        besides = release.withheld.own_loss(session, deployment.context.custody)
    assert besides.loss == theorem_1(max(strata.values()), Fraction(1, 2))
    assert len(besides.flavor.multiverse) == 2
    certificate = (release.folder / "certificate.html").read_text()
    assert "Noise after swapping" in certificate
    assert "Both specifications hold at once" in certificate
    assert deployment.failed_checks() == set()
    with deployment.opened("confidential") as connection:
        connection.execute(
            "UPDATE confidential.village__stirred.withheld_records SET county = 'Avon' WHERE county = 'Brent'"
        )
    assert deployment.failed_checks() >= {"withheld_as_made", "counts_exact"}
    assert "materialize swapped again" in deployment.refusal("counts"), "nothing can be charged for them"


@pytest.mark.parametrize(
    ("cube", "swap", "says"),
    [
        (AFTER | {"swapped": "another"}, {}, "swapped: village has no release another that is withheld"),
        (AFTER, {"withheld": False, "products": PRODUCTS}, "swapped: village has no release stirred that is withheld"),
        (AFTER | {"variables": ["serial"]}, {}, "there is no column serial"),
        (AFTER | {"epsilon": None, "p_table": MADE, "consistency": "cell"}, {}, "have no keys"),
        (AFTER | {"cap": 1}, {}, "swapped: for the two counted records that may change, δ would be 1 or more"),
        (
            AFTER | {"structural_zeros": [{"county": ["Avon"], "tenure": ["own"]}]},
            {},
            "structural_zeros.0: village/stirred may put records into these cells, because it changes the counts by "
            "county, tenure; declare zeros among columns that it keeps together: region × size × tenure, or region × "
            "size × county",
        ),
        (AFTER | {"p_table": MADE}, {}, "swapped: for the two counted records that may change, δ would be 1 or more"),
    ],
)
def test_a_hypercube_names_a_withheld_swap_of_its_dataset(
    tmp_path: Path, cube: Mapping[str, Any], swap: Mapping[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match="release village/tables_after") as refused:
        after_a_swap(tmp_path / "release", cube, **swap)
    assert says in str(refused.value)


def test_counts_of_a_withheld_swap_follow_from_it_and_are_refused_if_it_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, other = (after_a_swap(tmp_path / rate[-1], swap_rate=rate).release for rate in ("1/2", "1/3"))
    assert release.counted_with != other.counted_with, "another swap needs other counts before the charge"
    asked = []
    monkeypatch.setattr(type(release.withheld), "require_current", lambda *given: asked.append(given))
    TableBuilderMethod(release).require_countable(cast(Any, "session"), cast(Any, "custody"))
    assert asked == [(release.withheld, "session", "custody")]


@pytest.mark.parametrize("zeros", [{"size": [1], "tenure": ["own"]}, {"size": [1], "county": ["Avon"]}])
def test_structural_zeros_that_a_withheld_swap_keeps_are_named_in_the_domain(
    tmp_path: Path, zeros: Mapping[str, Any]
) -> None:
    cube = AFTER | {"variables": ["county", "size", "tenure"], "structural_zeros": [zeros]}
    specification = after_a_swap(tmp_path / "release", cube).release.specification
    assert specification.flavor.domain.endswith("without those that the declared structural zeros exclude")


def test_every_loss_that_is_stated_after_a_swap_is_that_of_two_swapped_records(tmp_path: Path) -> None:
    """In the plan, in its published table, and beside the charge; not the loss for one swapped record."""
    rho = {"epsilon": None, "rho": "1/8"}
    for name, cube, one, two in (("laplace", AFTER, "2", "4"), ("gaussian", AFTER | rho, "1/4", "1")):
        release = after_a_swap(tmp_path / name, cube).release
        assert str(release.design.bounded) == one
        assert str(release.specification.charge) == two
        planned = planned_tables(release)[release.public("measured_tables")].to_pylist()
        assert [row["charged"] for row in planned] == [two]
        assert TableBuilderMethod(release).charge_facts(Inputs({}))["bounded"][0] == two


@pytest.mark.parametrize("margins", ["summed", "fitted"])
def test_errors_after_a_swap_are_stated_without_the_swap(counted: Deployed, tmp_path: Path, margins: str) -> None:
    """Fails for: intervals that readers take for intervals of the counts before the swap."""
    released = after_a_swap(tmp_path, AFTER | {"margins": margins}).release
    sentence = "The interval is for the swapped records. It does not cover the swap."
    for release, expected in ((released, True), (release_of(counted, TENURE), False)):
        assert (sentence in published_tables(release)[0].interval) == expected
        assert ("the swap before the noise" in accuracy(release).note) == expected


def test_errors_of_quantiles_and_moments_after_a_swap_are_stated_without_the_swap(tmp_path: Path) -> None:
    cube = AFTER | {name: STATISTICS[name] for name in ("quantiles", "moments")}
    for tested in (1, 2):
        release = after_swap_deployment(tmp_path / f"{tested}", cube, tested=tested).release
        assert published_statistic(release)[0].interval.endswith("It does not cover the swap."), release.name


def test_the_certificate_states_a_lower_delta_beside_the_one_that_is_charged(counted: Deployed) -> None:
    """For one table it is exact, here 2δ − δ² of a cap; without a δ there is none."""
    capped = release_of(counted, ROOMS | {"epsilon": "1/2", "cap": 7, "weight": None})
    bounded = capped.design.bounded
    assert isinstance(bounded, ApproximateLoss)
    delta = bounded.delta / 2
    losses = [each.loss for each in _statement(capped).equivalents]
    assert losses[0] == bounded
    assert isinstance(losses[1], ApproximateLoss)
    assert losses[1].epsilon == bounded.epsilon
    assert 2 * delta - delta**2 <= losses[1].delta < (2 * delta - delta**2) * Fraction(100_001, 100_000)
    judged = release_of(counted, JUDGED | {"epsilon": 2, "margins": "summed"})
    charged, lower, _ = (each.loss for each in _statement(judged).equivalents)
    assert judged.design.p_table is not None
    exact = judge(judged.design.p_table, PureLoss(Fraction(2))).changed_exactly
    assert isinstance(charged, ApproximateLoss)
    assert isinstance(lower, ApproximateLoss)
    assert exact <= lower.delta < min(exact * Fraction(100_001, 100_000), charged.delta)
    assert len(_statement(release_of(counted, TENURE)).equivalents) == 2


def _statement(release: HypercubeRelease) -> Statement:
    return hypercube_statement(release, Inputs({"counts": "a version"}), "another version")
