"""The contents of the explorer's pages: published tables in words, uncertain numbers, overlaps, and imagined
charges."""

import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from assets.charge.assessment import predict_budget
from assets.ledger.population import Population
from assets.ledger.view import UNDECLARED, list_budgets
from assets.release.signature import PUBLIC_KEY, fingerprint, pem, public_key, sign
from mechanisms.accounting.losses import ConcentratedLoss, InfiniteLoss, Loss, PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from orchestration.explorer import tables
from orchestration.explorer.display import OWN
from orchestration.explorer.laboratory import leave_out_overlaps
from orchestration.explorer.products import NO_VALUE, OF_LINEAR, TOTAL, list_publications
from orchestration.explorer.reading import UnavailableError, read_entries
from orchestration.explorer.settings import VARIABLE, Settings, read_settings
from orchestration.explorer.tables import find_ranks, is_uncertain, overlap, wind
from orchestration.explorer.words import escape, format_figure, join_levels
from resources import chain
from resources.chain import NOT_CHARGED
from resources.custody import Custody, CustodyMode
from resources.ledger import Ledger, Reading
from resources.ledger_storage import open_file
from resources.warehouse import Warehouse
from tests.deployments import small_dataset
from tests.depth import deep_cases, quick_cases

FIELDS = [
    {"name": "county", "type": "string", "constraints": {"enum": ["01", "02"]}},
    {
        "name": "tenure",
        "type": "string",
        "title": "tenure",
        "categories": [{"value": "o", "label": "Owned *home*"}, {"value": "r", "label": "Rented home"}],
    },
    {"name": "tenure_total", "type": "boolean"},
    *({"name": name, "type": "number"} for name in ("estimate", "standard_error", "lower", "upper")),
]
ROWS = [
    ("01", "o", False, 100.0, 10.0, 84.0, 116.0),
    ("01", "r", False, 20.0, 10.0, 4.0, 36.0),
    ("01", None, True, 120.0, 5.0, 112.0, 128.0),
    ("02", "o", False, 300.0, 10.0, 284.0, 316.0),
    ("02", "r", False, 30.0, 10.0, 14.0, 46.0),
    ("02", None, True, 330.0, 5.0, 322.0, 338.0),
]


COUNTS = Specification(Flavor("homes", ("the number of homes",), "home", None), PureLoss(Fraction(5, 2)))


@pytest.fixture(autouse=True)
def _same_main() -> Iterator[None]:
    """Streamlit makes a page the main module, from which processes that other tests spawn could not begin."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A publication of one table with errors, and the settings of an explorer on it."""
    folder, temporary = tmp_path / "published" / "village" / "counties", tmp_path / "temporary"
    folder.mkdir(parents=True)
    temporary.mkdir()
    columns = zip(*ROWS, strict=True)
    table = pa.table(dict(zip([str(field["name"]) for field in FIELDS], map(list, columns), strict=True)))
    pq.write_table(table, folder / "homes.parquet")
    (folder / "homes.csv").write_text("")
    schema = {"fields": FIELDS, "primaryKey": ["county", "tenure", "tenure_total"]}
    interval = {"confidence": 0.9, "method": "Made by hand."}
    package = {
        "title": "Homes in a village",
        "resources": [
            {"path": "homes.csv", "title": "Homes", "description": "As seen.", "schema": schema, "interval": interval},
            {"path": "homes.parquet", "title": "Homes", "description": "As seen."},
        ],
    }
    (folder / "datapackage.json").write_text(json.dumps(package))
    known = Settings(str(tmp_path / "var"), str(tmp_path / "published"), str(temporary), "", (), 1)
    monkeypatch.setenv(VARIABLE, known.as_text())
    return folder


def make_ledger() -> Ledger:
    """The ledger of the explorer's deployment."""
    home = Path(read_settings().home)
    warehouse = Warehouse(folder=str(home / "warehouse"), threads=1)
    return Ledger(warehouse=warehouse, custody=Custody(folder=str(home / "custody"), databases=warehouse.folder))


def test_a_ledger_that_is_elsewhere_is_not_shown_as_empty(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither with the setting, nor without it where the file was left behind by a move."""
    database = Path(read_settings().home) / "warehouse"
    custody = Custody(folder=str(Path(read_settings().home) / "custody"), databases=str(database))
    custody.establish()
    with open_file(Warehouse(folder=str(database), threads=1), to_append=True) as opened:
        opened.mark_moved()
    with pytest.raises(UnavailableError, match="moved to a server"):
        read_entries()
    monkeypatch.setenv("STIRRED_LEDGER", "postgres")
    with pytest.raises(UnavailableError, match="on a server, which this process cannot reach"):
        read_entries()


def test_a_table_is_understood_from_its_dictionary(published: Path) -> None:
    ((product,),) = [each.products for each in list_publications()]
    assert (product.place, product.groups, product.has_errors) == (("county",), ("tenure",), True)
    assert product.interval == "Made by hand."
    assert product.list_options("tenure") == {"o": "Owned *home*", "r": "Rented home"}
    assert product.list_places({}) == {"01": "01", "02": "02"}
    ranked = product.read_rows("estimate", product.match({"tenure": "o"}), 10)
    assert [(row["county"], row["estimate"]) for row in ranked] == [("02", 300.0), ("01", 100.0)]
    totals = product.read_rows("estimate", product.match({"tenure": TOTAL}), 1)
    assert [row["estimate"] for row in totals] == [330.0], "a total is not mixed with its parts, and rows are limited"


def test_a_table_of_errors_has_the_names_of_places_that_another_table_has(published: Path) -> None:
    """Wrong program: one that shows codes, or repeats the numbers of a place whose code another level has too."""
    places: dict[str, list[object]] = {"level": ["State", "Tract"], "geoid": ["10", "10"]}
    numbers = {str(field["name"]): [1.0, 2.0] for field in FIELDS[-4:]}
    pq.write_table(pa.table(places | {"name": ["Delaware", "Tract ten"], "p1": [5, 6]}), published / "p1.parquet")
    pq.write_table(pa.table(places | {"cell": ["p1", "p1"]} | numbers), published / "errors.parquet")
    resources = []
    for table, columns in {"p1": ["name"], "errors": ["cell"]}.items():
        fields: list[dict[str, object]] = [{"name": name, "type": "string"} for name in ("level", "geoid", *columns)]
        fields += [{"name": "p1", "type": "integer"}] if table == "p1" else FIELDS[-4:]
        key = ["level", "geoid"] if table == "p1" else ["level", "geoid", "cell"]
        resources.append({"path": f"{table}.parquet", "schema": {"fields": fields, "primaryKey": key}})
    (published / "datapackage.json").write_text(json.dumps({"title": "Village", "resources": resources}))
    (errors, _) = list_publications()[0].products
    state = errors.match({"level": "State"})
    assert errors.list_places(state) == {"10": "Delaware"}
    (row,) = errors.read_rows("estimate", state, 9)
    assert (row["name"], row["estimate"]) == ("Delaware", 1.0)


def test_places_and_what_an_empty_one_stands_for_are_those_of_the_dictionary(published: Path) -> None:
    """Wrong programs: a guess, by which codes of sectors are places too, and rows of the rest of a place left out."""
    rows = {"state": ["1", "1"], "town": ["A", None], "sector": ["x", "x"], "count": [5, 7], "total": [50, None]}
    pq.write_table(pa.table(rows), published / "firms.parquet")
    fields: list[dict[str, object]] = [{"name": name, "type": "string"} for name in ("state", "town", "sector")]
    fields[1]["missingValues"] = [{"value": "", "label": "the rest"}]
    fields += [{"name": name, "type": "integer"} for name in ("count", "total")]
    schema = {"fields": fields, "primaryKey": []}
    firms = {"path": "firms.parquet", "title": "Firms", "schema": schema, "geography": ["state", "town"]}
    (published / "datapackage.json").write_text(json.dumps({"title": "Village", "resources": [firms]}))
    ((product,),) = [each.products for each in list_publications()]
    assert (product.place, product.groups, product.choices) == (("state", "town"), ("sector",), ("count", "total"))
    places = product.list_places({})
    assert list(places.values()) == ["State 1, Town A", "State 1, the rest"]
    (rest,) = [code for code, name in places.items() if "rest" in name]
    found = product.read_rows("count", product.match(dict(zip(product.place, rest.split("/"), strict=True))), 9)
    assert [row["count"] for row in found] == [7]
    assert product.read_first(2)[1]["town"] == "the rest"


def test_records_without_a_value_and_all_together_are_no_categories_called_none_null_or_total(published: Path) -> None:
    """Wrong programs: one that shows both as None, leaves out the records without a value, or shows the number of all
    groups together under the label of the category `total`."""
    tenures, estimates = [None, "None", "null", "total"], [1.0, 2.0, 3.0, 4.0]
    rows = {"county": ["01"] * 4, "tenure": tenures, "tenure_total": [False] * 4, "estimate": estimates}
    pq.write_table(
        pa.table(rows | dict.fromkeys(("standard_error", "lower", "upper"), estimates)), published / "homes.parquet"
    )
    ((product,),) = [each.products for each in list_publications()]
    options = product.list_options("tenure")
    assert options == {"None": "None", "null": "null", "total": "total", NO_VALUE: "no value"}
    found = [product.read_rows("estimate", product.match({"tenure": option}), 9) for option in options]
    assert [[(row["tenure"], row["estimate"]) for row in rows] for rows in found] == [
        [("None", 2.0)], [("null", 3.0)], [("total", 4.0)], [(None, 1.0)],
    ]  # fmt: skip


def page() -> None:
    """The page alone, as Streamlit's test runs it."""
    from orchestration.explorer.tables import show

    show()


@pytest.mark.prove
def test_the_page_of_tables_warns_of_overlaps_and_marks_what_is_too_uncertain(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params["view"] = "Two places"
    test.run()
    assert not test.exception
    assert next(warning.value for warning in test.warning).startswith(
        "The intervals of the two places overlap for 1 of 2 rows"
    )
    shown = test.table[0].value
    assert list(shown["Intervals overlap"]) == ["no", "no", "yes", "yes"]
    assert list(shown["Remark"]) == ["", "", "too uncertain", "too uncertain"]
    assert shown["Tenure"].iloc[0] == r"Owned \*home\*", "a label is shown as it is, and never as Markdown"
    test.number_input(key="cv").set_value(60).run()
    assert "Remark" not in test.table[0].value
    assert test.query_params["cv"] == "60"
    # The intervals of rented homes overlap, and those of owned homes do not.
    test.radio[0].set_value("Places ranked").run()
    assert list(test.table[0].value["Rank"]) == ["1", "2"]
    test.selectbox(key="village/counties:homes:tenure").set_value("r").run()
    assert list(test.table[0].value["Rank"]) == ["1 to 2", "1 to 2"]
    assert any("The intervals of 2 of these 2 numbers overlap" in caption.value for caption in test.caption)
    test.number_input(key="village/counties:homes:most").set_value(1).run()
    assert list(test.table[0].value["Rank"]) == ["1 to 2"], "a place that is not shown may have more"
    test.radio[0].set_value("One place").run()
    assert list(test.table[0].value["Rank"]) == ["1", "2"], "owned and rented homes of one place"
    monkeypatch.setattr(tables, "MOST_DRAWN", 1)
    test.run()
    assert list(test.table[0].value["Rank"]) == ["1"], "a picture of all groups would be too high for a browser"
    assert "The first 1 of 2 rows are shown" in test.info[0].value


@pytest.mark.prove
def test_a_count_is_shown_beside_its_linear_estimate_and_interval(published: Path) -> None:
    """Wrong programs: the table of intervals as a table of its own, the numbers of another cell or of another place of
    the same code, a count taken for the middle of the interval, and one that expects an interval of every cell."""
    place = {"level": ["State", "County"], "geoid": ["01", "01"]}
    files = {
        "p1": place | {"P1": [7, 5], "P2": [3, 2], "P3": [1, 4]},
        "p1_intervals": place
        | {
            f"{cell}_{end}": [f + n, f + n + 1]
            for f, cell in ((20, "P1"), (40, "P2"))
            for n, end in enumerate(OF_LINEAR)
        },
    }
    resources = []
    for name, columns in files.items():
        pq.write_table(pa.table(columns), published / f"{name}.parquet")
        fields = [{"name": column, "type": "string" if column in place else "integer"} for column in columns]
        schema = {"fields": fields, "primaryKey": list(place)}
        resources.append({"path": f"{name}.parquet", "title": name, "description": "As seen.", "schema": schema})
    (published / "datapackage.json").write_text(json.dumps({"title": "Village", "resources": resources}))
    ((product,),) = [each.products for each in list_publications()]
    assert (product.name, product.wide, product.has_errors) == ("p1", ("P1", "P2", "P3"), False)
    assert [path.stem for path in product.files] == ["p1", "p1_intervals"]
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params.update({"level": "County", "number": "P2"})
    test.run()
    assert not test.exception
    ((_, row),) = test.table[0].value.iterrows()
    assert (row["Count"], row["Linear estimate"], row["90% interval"]) == ("2", "41", "42 to 43")
    assert any("linear estimate from all noisy measurements" in caption.value for caption in test.caption)
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params.update({"level": "County", "number": "P3"})
    test.run()
    assert not test.exception
    ((_, row),) = test.table[0].value.iterrows()
    assert row["Count"] == "4"
    assert "Linear estimate" not in row
    assert any("No error is published" in caption.value for caption in test.caption)


@pytest.mark.prove
def test_an_average_is_judged_by_its_interval_as_it_has_no_standard_error(published: Path) -> None:
    """It fails if the control is that of standard errors, which marks none of such numbers."""
    file = published / "homes.parquet"
    table = pq.read_table(file).to_pydict() | {"standard_error": pa.nulls(len(ROWS), pa.float64())}
    pq.write_table(pa.table(table), file)
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params["tenure"] = "r"
    test.run()
    assert list(test.table[0].value["Remark"]) == ["too uncertain", "too uncertain"], "16 of 30 and of 20 are over half"
    assert "Standard error" not in test.table[0].value
    test.number_input(key="half").set_value(60).run()
    assert list(test.table[0].value["Remark"]) == ["", "too uncertain"]


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("name", ["view", "release", "View", "embed"])
def test_a_variable_has_the_name_of_a_choice_of_the_page(published: Path, name: str) -> None:
    """Wrong programs: one that shows an error instead of the table, or an address that names another release."""
    table, dictionary = published / "homes.parquet", published / "datapackage.json"
    read = pq.read_table(table)
    pq.write_table(read.rename_columns([each.replace("tenure", name) for each in read.column_names]), table)
    dictionary.write_text(dictionary.read_text().replace("tenure", name))
    test = AppTest.from_function(page, default_timeout=600).run()
    assert not test.exception
    assert (test.query_params["release"], test.query_params[f"{name}:"]) == ("village/counties", TOTAL)
    assert set(test.query_params) - {f"{name}:"} <= OWN
    again = AppTest.from_function(page, default_timeout=600)
    again.query_params[f"{name}:"] = "r"
    again.run()
    assert again.selectbox(key=f"village/counties:homes:{name}:").value == "r"


def page_of_laboratories() -> None:
    """The page alone, as Streamlit's test runs it."""
    from orchestration.explorer.laboratory import show

    show()


@pytest.mark.prove
def test_the_page_of_laboratories_shows_the_more_successful_attack_on_each_method(published: Path) -> None:
    """It fails if an attack is shown that another one beats, which makes a method look safer than it is."""
    folder = read_settings().laboratory / "town" / "risk"
    folder.mkdir(parents=True)
    rest = {"standard_error": 0.01, "difference": -0.1, "difference_error": 0.004, "persons": 1230}
    persons, cells = ("nonmodal", "all", "accuracy"), ("cells of a block, not 0", "all", "mean absolute error")
    guesser = ("nonmodal", "all", "share of others")
    columns = ("method", "parameters", "attack", "subset", "block_size", "measure", "value")
    rows = [
        dict(zip(columns, row, strict=True)) | rest
        for row in (
            ("no protection", "", "link", *persons, 0.8), ("no protection", "", "tables", *cells, 0.0),
            ("hypercube", "ε = 1", "link", *persons, 0.2), ("hypercube", "ε = 1", "likeliest", *persons, 0.3),
            ("hypercube", "ε = 1", "tables", *cells, 2.5), ("", "", "none", *guesser, 0.1),
            ("no protection", "", "mine", *persons, 0.7), ("no protection", "", "poor_link", *persons, 0.9),
            ("hypercube", "ε = 1", "likeliest", "nonmodal", "all", "gain", 0.15),
            ("hypercube", "ε = 1", "likeliest", "nonmodal", "all", "over the guesser", 0.2),
        )
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"title": "*Race*", "tier": "T1"})
    pq.write_table(table, folder / "results.parquet")
    for name in ("results.csv", "dictionary.csv"):
        (folder / name).write_text("x")
    test = AppTest.from_function(page_of_laboratories, default_timeout=600).run()
    assert not test.exception
    assert [heading.value for heading in test.header] == [r"\*Race\*, tier T1"]
    shown = test.table[0].value
    assert list(shown["Risk"]) == [r"0\.800 ± 0\.010", r"0\.300 ± 0\.010"]
    assert list(shown["Less no protection"]) == [r"\-0\.100 ± 0\.004"] * 2
    assert list(shown["Persons"]) == ["1,230"] * 2
    assert list(shown["Attack"]) == ["link", "likeliest"]
    assert any("±: one standard error" in caption.value for caption in test.caption)
    learned = test.table[1].value
    assert list(learned["Accuracy"]) == list(shown["Risk"])
    assert list(learned["Over the guesser"]) == ["–", r"0\.200 ± 0\.010"]
    assert list(learned["Over the world without the person"]) == ["–", r"0\.150 ± 0\.010"]
    assert test.query_params["subset"] == "nonmodal"
    next(box for box in test.selectbox if box.label == "Attack").select("mine").run()
    assert not test.exception
    assert list(test.table[0].value["Risk"]) == [r"0\.700 ± 0\.010"]
    pq.write_table(pa.Table.from_pylist([row for row in rows if row["attack"] == "tables"]), folder / "results.parquet")
    test = AppTest.from_function(page_of_laboratories, default_timeout=600).run()
    assert not test.exception, "of a laboratory that measures errors alone"
    assert "the files have what was measured" in test.info[0].value
    apart = {"error": 0.1, "risk": 0.8, "low": 0.7, "right": 1.0, "high": 0.9}
    points = [
        apart | {"label": "0.5 by persons"}, apart | {"label": "0.9", "risk": 0.79},
        apart | {"label": "5", "risk": 0.1}, apart | {"label": "ε = 4", "error": 1.0},
        apart | {"label": "ε = 8", "error": 0.95}, apart | {"label": "0.2", "risk": 0.5},
        apart | {"label": "0.1", "error": 0.15, "risk": 0.52},
    ]  # fmt: skip
    leave_out_overlaps(points)
    assert [point["label"] for point in points] == ["0.5 by persons", "", "5", "ε = 4", "", "", "0.1"]


def page_of_plans() -> None:
    """The page alone, as Streamlit's test runs it."""
    from orchestration.explorer.plan import show

    show()


@pytest.mark.prove
def test_the_page_of_plans_states_what_a_launch_takes(published: Path) -> None:
    test = AppTest.from_function(page_of_plans, default_timeout=600)
    test.query_params["release"] = "two_states/redistricting"
    test.run()
    assert not test.exception
    found = next(table.value for table in test.table if "expected size" in list(table.value.iloc[:, 0]))
    said = dict(zip(found.iloc[:, 0], found.iloc[:, 1], strict=True))
    assert said["expected size"].startswith("147,721 records, ")
    assert set(said) == {"expected size", "expected time", "expected memory", "expected disk"}


@given(
    st.fractions(min_value=-5, max_value=5),
    st.fractions(min_value=0, max_value=3),
    st.fractions(min_value=-5, max_value=5),
    st.fractions(min_value=0, max_value=3),
)
def test_intervals_overlap_if_and_only_if_they_share_a_number(
    first: Fraction, wide: Fraction, second: Fraction, wider: Fraction
) -> None:
    left, right = {"lower": first, "upper": first + wide}, {"lower": second, "upper": second + wider}
    shared = max(first, second) <= min(first + wide, second + wider)
    assert overlap(left, right) == overlap(right, left) == shared


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=4))
def test_ranks_are_those_that_numbers_within_their_intervals_can_have(ends: list[tuple[int, int]]) -> None:
    lines = [{"lower": low, "upper": low + wide} for low, wide in ends]
    ranks: list[set[int]] = [set() for _ in lines]
    for numbers in itertools.product(*(range(low, low + wide + 1) for low, wide in ends)):
        for number, possible in zip(numbers, ranks, strict=True):
            first = 1 + sum(other > number for other in numbers)
            possible.update(range(first, first + numbers.count(number)))
    expected = [f"{min(each)} to {max(each)}" if len(each) > 1 else str(min(each)) for each in ranks]
    assert find_ranks(lines) == expected


def test_unknown_ends_may_overlap_and_unknown_errors_are_not_judged() -> None:
    assert overlap({"lower": 1, "upper": None}, {"lower": 5, "upper": 6})
    assert find_ranks([{"lower": 1, "upper": None}, {"lower": 5, "upper": 6}]) == ["1 to 2", "1 to 2"]
    assert is_uncertain(10, 3.1, 30)
    assert not is_uncertain(10, 3.0, 30)
    assert is_uncertain(0, 1, 30), "an error is infinitely many times as large as nothing"
    assert is_uncertain(-4, 1, 30)
    assert not is_uncertain(None, 1, 30)
    assert not is_uncertain(0, 0, 30), "an exact zero is certain"


def test_numbers_and_texts_are_shown_as_they_are() -> None:
    assert [format_figure(each) for each in (None, 1234, 3327.005, 2.0, "x")] == ["–", "1,234", "3,327.01", "2", "x"]
    assert [join_levels(each) for each in ("!!Total:", "!!Total:!!One race", "Owned: all")] == [
        "Total",
        "Total: One race",
        "Owned: all",
    ]
    assert [format_figure(each) for each in (float("nan"), float("inf"), -float("inf"))] == ["–"] * 3
    assert escape("![p](a.png) <b> &lt;") == r"\!\[p\]\(a\.png\) \<b\> \&lt;"


@pytest.mark.parametrize(
    "text",
    ["http://a.b", "HTTPS://a.b", "www.a.b", "me@a.b", ":material/home:", ":streamlit:", "a -> b", "a -- b", "<="],
)
def test_what_streamlit_replaces_in_text_without_marks_is_taken_apart(text: str) -> None:
    """Its replacements come after the escapes are gone. A word joiner, which is not seen, keeps them from matching."""
    assert escape(text).replace("\\", "").count("\N{WORD JOINER}") == 1
    assert escape(text).replace("\\", "").replace("\N{WORD JOINER}", "") == text


@pytest.mark.deep
def test_no_title_or_label_of_a_publication_becomes_a_picture_or_a_link(published: Path) -> None:
    dictionary = published / "datapackage.json"
    package = json.loads(dictionary.read_text())
    picture = "![x](http://elsewhere.example/a.png)"
    package["title"] = picture
    for resource in package["resources"]:
        resource["title"] = resource["description"] = f"{picture} www.elsewhere.example " * 3
    package["resources"][0]["interval"]["method"] = picture
    package["sources"] = [{"title": f"{picture} www.elsewhere.example", "description": NOT_CHARGED}]
    for described in package["resources"][0]["schema"]["fields"][:2]:
        described["title"] = picture
    dictionary.write_text(json.dumps(package))
    for view in ("Places ranked", "One place", "Two places"):
        test = AppTest.from_function(page, default_timeout=600)
        test.query_params["view"] = view
        test.run()
        assert not test.exception
        parts = [*test.markdown, *test.caption, *test.info, *test.warning, *test.success]
        texts = [*(part.value for part in parts), *(box.label for box in test.selectbox)]
        assert any("elsewhere" in text for text in texts), "the texts are shown"
        assert any(info.value.startswith("Public data, no budget charged") for info in test.info)
        assert not [text for text in texts if re.search(r"(?<!\\)\[x|://e|www\\?\.", text)]


@pytest.mark.deep
def test_rows_with_equal_labels_are_told_apart_and_compared_by_their_codes(published: Path) -> None:
    dictionary = published / "datapackage.json"
    package = json.loads(dictionary.read_text())
    for value in package["resources"][0]["schema"]["fields"][1]["categories"]:
        value["label"] = "Other"
    dictionary.write_text(json.dumps(package))
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params["view"] = "Two places"
    test.run()
    assert not test.exception
    shown = test.table[0].value
    assert list(shown["Tenure"]) == [r"Other \(o\)"] * 2 + [r"Other \(r\)"] * 2
    assert list(shown["Estimate"]) == ["100", "300", "20", "30"]
    assert list(shown["Intervals overlap"]) == ["no", "no", "yes", "yes"]


@pytest.mark.prove
def test_a_row_that_only_one_place_has_is_left_out_with_a_word(published: Path) -> None:
    file = published / "homes.parquet"
    table = pq.read_table(file)
    pq.write_table(table.take([0, 1, 2, 3, 5]), file)
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params["view"] = "Two places"
    test.run()
    assert not test.exception
    assert list(test.table[0].value["Estimate"]) == ["100", "300"]
    assert any(each.value.startswith("1 row is left out") for each in test.info)


def test_a_link_to_what_is_not_there_says_what_is_shown_instead(published: Path) -> None:
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params["release"] = "village/gone"
    test.run()
    assert not test.exception
    assert any("names village/gone" in each.value.replace("\\", "") for each in test.warning)


@pytest.mark.parametrize("others", [True, False])
def test_a_link_to_a_withdrawn_release_names_the_time_and_the_entry(published: Path, others: bool) -> None:
    """Fails for: a page without any publication, which shows no choice and so no warning about the link."""
    if not others:
        shutil.rmtree(published)
    ledger = make_ledger()
    ledger.reserve("village", "gone", "d" * 64, COUNTS, CustodyMode.ESCROWED, None)
    (entry,) = ledger.withdraw("village", "gone", "Ann Lee")
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params["release"] = "village/gone"
    test.run()
    assert not test.exception
    time = entry.recorded_at.replace("T", " ")[:16]
    told = f"names village/gone, which was withdrawn on {time} UTC, in ledger entry {entry.sequence}"
    assert any(told in each.value.replace("\\", "") for each in test.warning)


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("{", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"resources": [{"path": "../../secret.parquet"}]}', "names a file outside its folder"),
        ('{"resources": [{"path": "homes.csv"}]}', "cannot be read"),
        ('{"resources": [7]}', "cannot be read"),
    ],
)
def test_a_damaged_dictionary_hides_its_own_tables_only(published: Path, damage: str, said: str) -> None:
    other = published.with_name("other")
    shutil.copytree(published, other)
    (other / "datapackage.json").write_text(damage)
    assert [(each.release, bool(each.products)) for each in list_publications()] == [
        ("village/counties", True),
        ("village/other", False),
    ]
    test = AppTest.from_function(page, default_timeout=600).run()
    assert not test.exception
    assert any(said in each.value and "village" in each.value for each in test.error)
    assert test.table, "the table of the other release is shown"


@pytest.mark.deep
def test_files_that_are_not_as_they_were_signed_are_not_shown_without_a_word(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warned() -> list[str]:
        test = AppTest.from_function(page, default_timeout=600).run()
        assert not test.exception
        return [each.value for each in test.error if "Do not rely" in each.value]

    assert "no signature can be verified" in warned()[0]
    specification = Specification(Flavor("all", ("number",), "household", 1), PureLoss(Fraction(1)))
    entries = [chain.make_reservation((), "village", "counties", "d" * 64, specification, "c" * 64)]
    entries.append(chain.make_settlement(entries, entries[0], "v1"))
    identity = {
        "dataset": {"name": "village"},
        "release": {"name": "counties"},
        "edition": {"number": 1},
        "randomness": {"draw_id": "d" * 64},
        "ledger": {"sequence": 1, "entry_hash": entries[0].hash},
    }
    (published / "certificate.json").write_text(json.dumps(identity))
    custody = Custody(folder=str(published.parents[2] / "custody"), variable="STIRRED_TEST_MASTER_KEY")
    (file := published / "homes.csv").write_text("signed")
    sign(published, custody)
    (published.parents[1] / PUBLIC_KEY).write_bytes(pem(public_key(custody)))
    assert warned() == []
    with monkeypatch.context() as patch:
        patch.setattr("orchestration.explorer.reading.read_entries", lambda: tuple(entries))
        assert warned() == []
        entries.append(chain.make_withdrawal(entries, entries[0], "release village/counties", "Ann Lee"))
        assert "was withdrawn in entry 3" in warned()[0]
    # As large as before, and with its time set back.
    times = file.stat()
    file.write_text("forged")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "homes" in warned()[0]
    file.write_text("signed")
    # Signed with another key, which is put beside the publications.
    known = replace(read_settings(), public_key=fingerprint(public_key(custody)))
    monkeypatch.setenv(VARIABLE, known.as_text())
    assert warned() == []
    other = Custody(folder=str(published.parents[2] / "other"), variable="STIRRED_TEST_MASTER_KEY")
    sign(published, other)
    (published.parents[1] / PUBLIC_KEY).write_bytes(pem(public_key(other)))
    assert "is not this deployment's key" in warned()[0]


def test_numbers_that_are_not_finite_are_shown_as_none(published: Path) -> None:
    file = published / "homes.parquet"
    found = pq.read_table(file).to_pydict()
    found["estimate"][2], found["upper"][5] = float("nan"), float("inf")
    pq.write_table(pa.table(found), file)
    test = AppTest.from_function(page, default_timeout=600).run()
    assert not test.exception
    assert set(test.table[0].value["Estimate"]) == {"–", "330"}


def test_an_imagined_charge_is_refused_as_the_ledger_would(tmp_path: Path) -> None:
    population = Population("village", (small_dataset(tmp_path),))
    (budget,) = list_budgets((), [population]).values()
    assert budget.left == "ε = 40.0000"

    def imagine(loss: Loss) -> tuple[str, str]:
        flavor = Flavor("", (), "unit", None, loss.output_premetric)
        return predict_budget(population.datasets[0], "next", Specification(flavor, loss), Reading((), ()))

    words, refusal = imagine(PureLoss(Fraction(40)))
    assert not refusal
    assert "ε = 40.0000 remains before this charge and 0.0000 after it" in words
    _, refusal = imagine(PureLoss(Fraction(40) + Fraction(1, 10**30)))
    assert "does not fit under the cap" in refusal, "compared exactly, not as rounded"
    assert imagine(ConcentratedLoss(Fraction(1)))[1], "ρ does not count under a cap on ε"
    assert imagine(InfiniteLoss())[1]


def page_of_budgets() -> None:
    """The page alone, as Streamlit's test runs it."""
    from orchestration.explorer.budgets import show

    show()


def test_the_page_of_budgets_shows_what_is_spent_and_left_and_whether_a_charge_would_fit(published: Path) -> None:
    make_ledger().reserve("ma1940", "counts", "d" * 64, COUNTS, CustodyMode.ESCROWED, None)
    test = AppTest.from_function(page_of_budgets, default_timeout=60)
    test.query_params["population"] = "ma1940"
    test.run()
    assert not test.exception
    assert [metric.value.replace("\u00a0", " ") for metric in test.metric] == [
        "ε = 2.5000",
        "ε = 37.5000",
        "ε = 40.0000",
    ]
    (charge,) = next(table.value for table in test.table if "Total with it" in table.value).to_dict("records")
    assert charge["Charged"] == charge["Total with it"] == escape("ε = 2.5000")
    assert charge["Authorized by"] == "not recorded"
    assert "36.5000 after it" in test.success[0].value.replace("\\", "")
    test.text_input[1].set_value("38").run()
    assert "does not fit under the cap" in test.error[0].value
    assert any(table.value.iloc[0, 0] == "the number of homes" for table in test.table)
    make_ledger().reserve("renamed", "counts", "e" * 64, COUNTS, CustodyMode.ESCROWED, None)
    test = AppTest.from_function(page_of_budgets, default_timeout=60)
    test.query_params["population"] = "renamed"
    test.run()
    assert not test.exception
    assert [metric.value.replace("\u00a0", " ") for metric in test.metric] == ["ε = 2.5000", "unknown", UNDECLARED]
    assert not test.text_input, "nothing more can be charged to it"


def lines_without_errors() -> None:
    from fractions import Fraction

    from assets.release.plan import Line
    from orchestration.explorer.plan import _show_lines

    _show_lines([Line("counts", "persons", Fraction(100), 0.0, lambda budget: 0)])


def test_lines_without_errors_have_a_sentence_and_a_table_instead_of_an_empty_chart() -> None:
    test = AppTest.from_function(lines_without_errors, default_timeout=60).run()
    assert not test.exception
    assert not test.get("arrow_vega_lite_chart")
    assert test.markdown[-1].value.startswith("Every 90% margin of error is 0")
    assert len(test.table) == 1


def test_boundaries_are_drawn_whichever_way_their_rings_run() -> None:
    """Wrong program: keeps the rings as RFC 7946 demands, so that everything except the places is colored."""
    outer, hole = [[0, 0], [0, 3], [3, 3], [3, 0], [0, 0]], [[1, 1], [2, 1], [2, 2], [1, 2], [1, 1]]
    for rings in itertools.product((outer, outer[::-1]), (hole, hole[::-1])):
        polygon = {"type": "Polygon", "coordinates": [*rings]}
        several = {"type": "MultiPolygon", "coordinates": [[*rings]]}
        wound = wind({"type": "GeometryCollection", "geometries": [polygon, several]})["geometries"]
        assert [each["coordinates"] for each in wound] == [[outer, hole], [[outer, hole]]]
