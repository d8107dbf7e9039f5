"""Claims about quantiles and moments of hypercubes: their measurements, charges, publications and refusals."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from assets.publication.tables import PublishedTables
from assets.release.plan import PlanRequest
from assets.release.release import DeclarationError
from assets.release.signature import public_key
from assets.table_builder import statistics_asking
from assets.table_builder.declaration import TableBuilderDeclaration
from assets.table_builder.statistics import StatisticRelease
from assets.table_builder.statistics_asking import PublishedStatistic, read_statistic
from assets.table_builder.statistics_cells import add_up_numbers
from assets.table_builder.statistics_tables import published_statistic, shown_first_statistic
from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.table_builder.asking import QuestionError
from mechanisms.table_builder.choosing import Chosen
from mechanisms.table_builder.moments import Moments
from orchestration import cli
from orchestration.components.table_builder import SingleHypercube
from orchestration.explorer.settings import VARIABLE, Settings
from orchestration.explorer.words import escape
from orchestration.planning import plan_declaration
from resources.chain import RESERVE
from resources.statements import Zone
from stirred import deployment as stirred
from tests.contract.kinds import to_publication
from tests.deployments import COUNTIES, UNITS, Deployment, deploy, small_dataset, write_csv
from tests.depth import deep_cases, quick_cases
from tests.docs.warehouse import tables_of, undescribed
from tests.gates import executes, failing, keep, put_back
from tests.table_builder_deployments import hypercubes

Deployed = Deployment[StatisticRelease]
NOT_IN_UNIVERSE = 9_999_999
ROWS = [
    {
        "serial": number,
        "region": "NS"[number % 3 == 0],
        "county": COUNTIES[number % 3],
        "income": NOT_IN_UNIVERSE if number % 5 == 0 else 150 * (number * 7 % 101),
        "hours": 10 + number * 11 % 61,
        "weight": "0.5" if number % 4 == 0 else 1 + number % 3,
    }
    for number in range(1, 241)
]
COLUMNS: dict[str, Any] = {
    "serial": UNITS["serial"],
    "region": UNITS["region"],
    "county": UNITS["county"] | {"within": "region", "nesting": {"S": ["Avon"], "N": ["Brent", "Cairn"]}},
    "income": {"type": "integer", "minimum": 0, "maximum": 20_000, None: [NOT_IN_UNIVERSE]},
    "hours": {"type": "integer", "minimum": 0, "maximum": 80},
    "weight": {"type": "decimal", "minimum": 0, "maximum": 4},
    "coded": {
        "type": "integer",
        "source": "hours",
        "values": {hours: f"{hours} hours" for hours in range(10, 70)} | {70: "Unknown"},
    },
    "text": {"type": "string", "source": "county", "values": list(COUNTIES)},
    "free": {"type": "decimal", "source": "hours"},
    "place": {"type": "string", "source": "county", "values": list(COUNTIES)},
    **{name: {"type": "integer", "source": "hours", "values": list(range(10, 71))} for name in ("number", "scaled_1")},
}
PRODUCT = {"name": "of_the_north", "by": ["region"], "where": {"county": ["Brent", "Cairn"]}}
INCOME = {"bounds": [0, 12_000], "grid": 100, "branching": 5}
CUBE: dict[str, Any] = {
    "name": "work",
    "variables": ["county"],
    "epsilon": 400,
    "quantiles": {"income": INCOME},
    "moments": ["income", "hours"],
}
"""The noise at ε = 400 is so small that the published numbers are nearly exact."""
WITH_PRODUCTS = CUBE | {
    "quantiles": {"income": INCOME | {"products": [PRODUCT]}},
    "moments": {"variables": CUBE["moments"], "products": [PRODUCT]},
}
FURTHER: dict[str, Any] = {
    "name": "further",
    "variables": ["county", "text"],
    "epsilon": 400,
    "quantiles": {
        "income": {"bounds": [0, 12_000], "grid": 100, "at": ["1/2", "1/10"], "shares": ["1/3", "2/3"]},
        "hours": {"bounds": [0, 80], "grid": 1, "branching": 9, "margins": "fitted"},
    },
}
"""Quantiles that are drawn by themselves, and quantiles from trees of all margins. Text and county are equal, so that
the other six of nine cells are empty."""
DRAWN = "village/tables_further_income_quantiles"
WEIGHT = {"weight": {"column": "weight", "grid": "0.5", "most": 2}}


def components_of(root: Path, *cubes: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """The dataset, and the components of hypercubes and their statistics; of `CUBE` by default."""
    units = {"path": str(root / "units.csv"), "columns": COLUMNS}
    declared = small_dataset(root, units=units, persons=None, cap=100_000)
    return declared, list(hypercubes(declared.name, *(cubes or (CUBE,))))


def release_of(root: Path, name: str, cube: Mapping[str, Any] = CUBE) -> Any:
    declared, components = components_of(root, cube)
    (component,) = (each for each in components if each.declaration.name == f"tables_{cube['name']}{name}")
    return component.release(declared, root / "published")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    """Quantiles and moments of one hypercube, made in one run; the quantiles are the release under test."""
    root = tmp_path_factory.mktemp("statistics") / "release"
    root.mkdir()
    write_csv(root / "units.csv", ROWS)
    declared, (cube, *components) = components_of(root, WITH_PRODUCTS, FURTHER)
    statistics = [component for component in components if component.declaration.name != "tables_further"]
    made: Deployed = deploy(root, declared, *statistics, cube)
    stages = [stage for stage in to_publication(made.context.method) if stage != "cef"]
    made.run_assets(made.key("cef"), *(component.key(stage) for component in statistics for stage in stages))
    keep(made)
    return made


def read(published: Deployed, name: str, cube: str = "work") -> PublishedStatistic:
    return read_statistic(PublishedTables(published.release.folder.with_name(f"tables_{cube}_{name}")))


def true_values(county: str, names: Sequence[str], cube: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """By record of a county in which no variable is empty, the variables and the weight in steps."""
    rows = [row for row in ROWS if row["county"] == county]
    if "income" in names:
        rows = [row for row in rows if row["income"] != NOT_IN_UNIVERSE]
    weights = [min(4, int(Fraction(str(row["weight"])) * 2)) if "weight" in cube else 1 for row in rows]
    return np.array([[row[name] for name in names] for row in rows], dtype=float), np.array(weights)


@quick_cases(1)
@pytest.mark.parametrize("cube", [CUBE, CUBE | WEIGHT], ids=["counts", "weights"])
def test_exact_numbers_are_those_of_plain_counting_without_codes_for_no_income(
    published: Deployed, cube: Mapping[str, Any]
) -> None:
    """Wrong programs: one that counts 9,999,999 as the bound, one that drops values above the bound, and one that takes
    bounds from the data."""
    tree_release = release_of(published.root, "_income_quantiles", cube)
    moments_release = release_of(published.root, "_moments", cube)
    with published.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        levels, (sums,) = add_up_numbers(session, tree_release), add_up_numbers(session, moments_release)
    for place, county in enumerate(COUNTIES):
        values, weights = true_values(county, ["income"], cube)
        numbers = np.minimum((values[:, 0] + 50) // 100, 120).astype(int)
        leaves = np.bincount(numbers, weights, 121)
        assert levels[-1][place].tolist() == leaves.tolist()
        assert levels[-2][place].tolist() == [leaves[first : first + 5].sum() for first in range(0, 121, 5)]
        assert levels[0][place].tolist() == [weights.sum()]
        values, weights = true_values(county, ["hours", "income"], cube)
        halves = np.array([[40.0, 6000.0]])
        scaled = np.clip(
            np.sign(values - halves) * np.floor(np.abs(values - halves) / halves * 1000 + 0.5), -1000, 1000
        )
        extended = np.column_stack([np.full(len(scaled), 1000.0), scaled])
        matrix = (extended * weights[:, None]).T @ extended
        assert sums[place].tolist() == matrix[np.triu_indices(3)].tolist()


def test_a_variable_has_any_name_without_a_change_of_what_a_record_adds(published: Deployed) -> None:
    """Wrong program: a statement with columns of the same name, which takes a category for a number or a weight."""
    with published.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:

        def add_up(name: str, statistic: str) -> list[list[int]]:
            release = release_of(published.root, statistic, CUBE | {"variables": [name]})
            return [part.sum(axis=0).tolist() for part in add_up_numbers(session, release)]

        assert add_up("number", "_income_quantiles") == add_up("county", "_income_quantiles")
        assert add_up("scaled_1", "_moments") == add_up("county", "_moments")


def test_each_statistic_is_a_draw_and_a_charge_of_its_own(published: Deployed) -> None:
    """Also: declaring statistics does not change the hypercube's own draw, so that it is not drawn again."""
    charged = {
        entry.release: json.loads(entry.specification or "")["loss"]
        for entry in published.ledger
        if entry.kind == RESERVE
    }
    statistics = ("work_income_quantiles", "work_moments", "further_income_quantiles", "further_hours_quantiles")
    assert charged == {f"tables_{name}": PureLoss(Fraction(800)).as_record() for name in statistics}
    alone, both = (
        release_of(published.root, "", cube)
        for cube in (CUBE, {name: CUBE[name] for name in ("name", "variables", "epsilon")})
    )
    assert (alone.counted_with, alone.design.as_record()) == (both.counted_with, both.design.as_record())
    release = published.release
    assert [line.loss for line in release.specification.lines] == [PureLoss(Fraction(200))] * 4
    own = CUBE | {"quantiles": {"income": INCOME | {"rho": "1/2", "shares": ["1/8", "1/8", "1/4", "1/2"]}}}
    tree = release_of(published.root, "_income_quantiles", own)
    assert [line.loss.rho for line in tree.specification.lines] == [Fraction(share, 8) for share in (1, 1, 2, 4)]
    assert tree.specification.charge == ConcentratedLoss(Fraction(1))
    assert isinstance(release_of(published.root, "_moments", own).measured, Moments)


def test_the_tables_are_described(published: Deployed) -> None:
    assert undescribed(tables_of(published), "table_builder") == []


def test_the_first_estimates_are_shown_in_words(published: Deployed) -> None:
    """Wrong program: shows the table as it is stored, with raw names, four decimals and a last column without a
    value."""
    with published.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        shown = str(shown_first_statistic(session, published.release)["first cells"])
    assert "county Avon: quantile 0.25" in shown
    assert "standard_error" not in shown
    assert not re.search(r"\d\.\d{4}", shown)


def test_readers_learn_which_records_the_figures_are_of(published: Deployed) -> None:
    """Wrong program: a certificate that lets readers take the mean hours of records with an income for the mean of
    all."""
    names = ("work_moments", "work_income_quantiles", "further_hours_quantiles")
    folders = {name: published.release.folder.with_name(f"tables_{name}") for name in names}
    methods = {name: (folder / "certificate.json").read_text() for name, folder in folders.items()}
    sentences = ("of households with a value of every variable.", "Households without a value are left out.")
    assert {name: [sentence in text for sentence in sentences] for name, text in methods.items()} == {
        "work_moments": [True, False],
        "work_income_quantiles": [False, True],
        "further_hours_quantiles": [False, True],
    }
    words = (folders["work_moments"] / "README.txt").read_text().split()
    assert "records that have a value of every variable" in " ".join(words)


def test_readers_learn_of_weights_and_see_titles_as_declared(
    published: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: one that writes a quantile of weighted records as a share of the records, and one that writes a
    title's nouns in small letters."""
    monkeypatch.setitem(COLUMNS, "hours", COLUMNS["hours"] | {"title": "Stunden in Euro"})
    releases = [release_of(published.root, name, CUBE | WEIGHT) for name in ("_income_quantiles", "_moments")]
    (quantiles, *_), (statistics, *_) = map(published_statistic, releases)
    labels = {column.name: column.values for table in (quantiles, statistics) for column in table.columns}
    assert labels["quantile"]["0.5"] == "50% of the sum of weight"
    assert labels["of"]["hours"] == "Stunden in Euro"
    assert all("of every cell, weighted by weight" in table.description for table in (quantiles, statistics))


def test_moments_whose_noise_cannot_be_stored_are_refused_before_a_launch(published: Deployed) -> None:
    """Wrong program: one that finds it in the run, after the charges of the declaration's other hypercubes."""
    weights = {"weight": {"column": "weight", "grid": "0.0001", "most": 4}, "epsilon": 1}
    with pytest.raises(DeclarationError, match="too large; declare fewer steps, a larger budget, or a coarser grid"):
        release_of(published.root, "_moments", CUBE | weights)


def test_what_is_published_is_near_the_records_and_what_is_asked(published: Deployed) -> None:
    tree, moments = read(published, "income_quantiles"), read(published, "moments")
    quantiles, statistics = (
        pq.read_table(published.release.folder.with_name(f"tables_work_{name}") / f"{table}.parquet").to_pylist()
        for name, table in (("income_quantiles", "quantiles"), ("moments", "statistics"))
    )
    asked = tree.quantiles("income", [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)], ["county"], {}).to_pylist()
    assert [
        {name: cell if isinstance(cell, str) else float(cell) for name, cell in row.items()} for row in quantiles
    ] == asked
    summary = moments.summary(["county"], {}).to_pylist()
    assert {
        (row["county"], row["statistic"], row["of"]): float(row["estimate"]) for row in statistics
    } == pytest.approx({(row["county"], row["statistic"], row["of"]): row["estimate"] for row in summary}, abs=1e-8)
    north: dict[str, Any] = {"county": ["Brent", "Cairn"]}
    shares = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
    answers = tree.quantiles("income", shares, ["region"], north), moments.summary(["region"], north)
    for name, answer in zip(("income_quantiles", "moments"), answers, strict=True):
        folder = published.release.folder.with_name(f"tables_work_{name}")
        product = pq.read_table(folder / "of_the_north.parquet")
        published_ones = sorted(map(float, product["estimate"].to_pylist()))
        assert published_ones == pytest.approx(sorted(answer["estimate"].to_pylist()))
        assert set(product["region"].to_pylist()) == {"N"}
    for county in COUNTIES:
        values, _ = true_values(county, ["income"], CUBE)
        rounded = np.minimum((values[:, 0] + 50) // 100 * 100, 12_000)
        (median,) = tree.quantiles("income", [Fraction(1, 2)], [], {"county": [county]}).to_pylist()
        assert median["lower"] <= np.quantile(rounded, 0.5, method="inverted_cdf") <= median["upper"]
        assert median["upper"] - median["lower"] <= 500 < median["sample_upper"] - median["sample_lower"]
        values, _ = true_values(county, ["hours", "income"], CUBE)
        hours, income = values[:, 0], np.minimum(values[:, 1], 12_000)
        (correlation,) = moments.correlation("income", "hours", [], {"county": [county]}).to_pylist()
        # Even a single discrete Laplace draw is beyond ten standard errors with a probability below 10^-6 only.
        within = 10 * correlation["standard_error"]
        assert within < 0.02
        assert correlation["estimate"] == pytest.approx(np.corrcoef(hours, income)[0, 1], abs=within)
        slope = moments.regression("income", ["hours"], [], {"county": [county]}).to_pylist()[1]
        assert slope["coefficient"] == "hours"
        within = 10 * slope["standard_error"]
        assert within < 4
        assert slope["estimate"] == pytest.approx(np.polyfit(hours, income, 1)[0], abs=within)
        assert slope["lower"] < slope["estimate"] < slope["upper"]
        assert slope["sample_standard_error"] > 10 * slope["standard_error"]


def test_cells_add_up_before_their_statistics_are_made(published: Deployed) -> None:
    """By region, a larger place, and for all. Fails for: means of the counties' own statistics."""
    tree, moments = read(published, "income_quantiles"), read(published, "moments")
    rows = tree.quantiles("income", [Fraction(1, 2)], ["region"], {}).to_pylist()
    values = {county: true_values(county, ["income"], CUBE)[0][:, 0] for county in COUNTIES}
    north = np.concatenate([values["Brent"], values["Cairn"]])
    wanted = [np.quantile((part + 50) // 100 * 100, 0.5, method="inverted_cdf") for part in (north, values["Avon"])]
    assert [row["region"] for row in rows] == ["N", "S"]
    for row, median in zip(rows, wanted, strict=True):
        assert row["lower"] <= median <= row["upper"] <= row["lower"] + 500
    # A place without a possible cell has no row. A program that asks for rows of every place refuses all.
    somewhere = replace(tree, cells=replace(tree.cells, possible=np.array([False, True, True])))
    assert somewhere.quantiles("income", [Fraction(1, 2)], ["region"], {}).to_pylist() == rows[:1]
    every = np.concatenate(list(values.values()))
    (mean,) = (
        row for row in moments.summary([], {}).to_pylist() if (row["statistic"], row["of"]) == ("mean", "income")
    )
    assert mean["estimate"] == pytest.approx(np.minimum(every, 12_000).mean(), abs=5)


def test_a_quantile_that_is_drawn_by_itself_is_that_of_each_cell_and_of_no_sum(published: Deployed) -> None:
    """Also: its two quantiles share the budget as declared, and the loss, the number of a draw and the bound of its
    error reach the reader. Wrong programs: one that adds up draws, and one that answers another quantile."""
    drawn, ends = read(published, "income_quantiles", "further"), {"text": ["Avon"]}
    assert drawn.drawn == (Fraction(1, 2), Fraction(1, 10))
    release: StatisticRelease = release_of(published.root, "_income_quantiles", FURTHER)
    assert [line.loss for line in release.specification.lines] == [PureLoss(Fraction(800 * part, 3)) for part in (2, 1)]
    # A weight of up to 4 steps of 1/2: a quarter of λ, for scores of half a unit.
    weighted: StatisticRelease = release_of(published.root, "_income_quantiles", FURTHER | WEIGHT)
    assert weighted.parts[0].margin == pytest.approx(2 * release.parts[0].margin)
    # In another order they are the same draw: a program that takes the order as given would charge once more.
    drawn_of = FURTHER["quantiles"]["income"] | {"at": ["1/10", "1/2"], "shares": ["2/3", "1/3"]}
    same = release_of(published.root, "_income_quantiles", FURTHER | {"quantiles": {"income": drawn_of}})
    assert (same.counted_with, same.parts[0].name) == (release.counted_with, release.parts[0].name)
    for county in COUNTIES:
        values = np.minimum((true_values(county, ["income"], CUBE)[0][:, 0] + 50) // 100 * 100, 12_000)
        rows = drawn.quantiles("income", drawn.drawn, [], {"county": [county], "text": [county]}).to_pylist()
        wanted = [np.quantile(values, share, method="inverted_cdf") for share in (0.5, 0.1)]
        assert [(row["quantile"], row["estimate"]) for row in rows] == list(zip(["0.5", "0.1"], wanted, strict=True))
        # λ = 400/3 and 2 · 400/3 · 5/9 for the budgets 400/3 and 800/3.
        margins = [np.log(5 * 120) / rate for rate in (400 / 3, 800 / 3 / 1.8)]
        assert [row["records_off"] for row in rows] == pytest.approx(margins, abs=1e-4)
    table = pq.read_table(published.release.folder.with_name("tables_further_income_quantiles") / "quantiles.parquet")
    asked = drawn.quantiles("income", drawn.drawn, ["county", "text"], {}).to_pylist()
    assert len(table) == len(asked) == 18
    assert {(row["county"], row["text"], row["quantile"], float(row["estimate"])) for row in table.to_pylist()} == {
        (row["county"], row["text"], row["quantile"], row["estimate"]) for row in asked
    }
    with pytest.raises(QuestionError, match=r"a quantile of several cells together does not follow .* county, text"):
        drawn.quantiles("income", [Fraction(1, 2)], ["county"], {})
    with pytest.raises(QuestionError, match=r"the quantile 0\.25 is not published; only 0\.5, 0\.1 of each cell"):
        drawn.quantiles("income", [Fraction(1, 4)], ["county"], ends)
    third = replace(drawn, measured=replace(drawn.measured, quantiles=(Fraction(1, 3), Fraction(1, 10))))
    for written in ("0.333333", str(1 / 3)):
        asked = third.quantiles("income", [Fraction(written)], ["county"], ends).to_pylist()
        assert [row["quantile"] for row in asked] == ["0.333333"] * 3


def test_trees_of_margins_are_measured_apart_and_fitted_together(published: Deployed) -> None:
    """Their counts agree with plain counting, every answer is near the records, and sums of cells have less noise than
    the sum of as many cells' noise."""
    fitted = read(published, "hours_quantiles", "further")
    release = release_of(published.root, "_hours_quantiles", FURTHER)
    assert len(release.parts) == 9
    assert {line.loss for line in release.specification.lines} == {PureLoss(Fraction(800, 9))}
    assert [line.label for line in release.specification.lines][3:5] == ["county, level 0", "county, level 1"]
    with published.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        numbers = add_up_numbers(session, release)
    assert [part.shape for part in numbers[::3]] == [(9, 1), (3, 1), (3, 1)]
    hours = {county: true_values(county, ["hours"], CUBE)[0][:, 0].astype(int) for county in COUNTIES}
    for place, county in enumerate(COUNTIES):
        assert numbers[5][place].tolist() == np.bincount(hours[county], minlength=81).tolist()
        for by, where in (([], {"county": [county]}), (["text"], {"text": [county]})):
            (row,) = fitted.quantiles("hours", [Fraction(1, 2)], by, where).to_pylist()
            assert row["lower"] <= np.quantile(hours[county], 0.5, method="inverted_cdf") <= row["upper"]
            assert row["upper"] - row["lower"] <= 3
    one = fitted.variance([], {"county": ["Avon"], "text": ["Avon"]})
    assert fitted.variance(["county"], {}) < 3 * 3 * one
    (every,) = fitted.quantiles("hours", [Fraction(9, 10)], [], {}).to_pylist()
    assert every["estimate"] == np.quantile(np.concatenate(list(hours.values())), 0.9, method="inverted_cdf")


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (
            lambda tree, moments: tree.quantiles("hours", [Fraction(1, 2)], [], {}),
            "hours: the publication is of income",
        ),
        (lambda tree, moments: tree.quantiles("income", [Fraction(1)], [], {}), "above 0 and below 1"),
        (
            lambda tree, moments: tree.quantiles("income", [Fraction(1, 2)], ["tenure"], {}),
            "the hypercube is by county",
        ),
        (lambda tree, moments: tree.correlation("income", "income", [], {}), "no questions for correlations"),
        (lambda tree, moments: moments.correlation("income", "income", [], {}), "is of two variables"),
        (
            lambda tree, moments: moments.correlation("income", "age", [], {}),
            "age: the publication is of hours, income",
        ),
        (lambda tree, moments: moments.regression("income", ["income"], [], {}), "each named once"),
        (lambda tree, moments: moments.regression("income", [], [], {}), "on others"),
        (lambda tree, moments: moments.quantiles("income", [Fraction(1, 2)], [], {}), "no questions for quantiles"),
    ],
)
def test_what_the_publication_cannot_answer_is_refused(published: Deployed, ask: Any, says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        ask(read(published, "income_quantiles"), read(published, "moments"))


@pytest.fixture
def ask(published: Deployed, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command on the publication; return its exit code and its output."""
    hypercube = "village/tables_work"
    names = [hypercube, f"{hypercube}_income_quantiles", f"{hypercube}_moments"]
    components = {name: SimpleNamespace(named=name, of=hypercube) for name in [*names, DRAWN]}
    deployed = SimpleNamespace(
        releases=lambda name: [components[each] for each in (names if name == "village/tables" else [name])],
        declared=([], components),
        published=published.release.published,
        public_key=public_key(published.context.custody),
        ledger=published.context.ledger,
    )
    monkeypatch.setattr("orchestration.deployment.Deployment", lambda: deployed)

    def ask(release: str, *options: str) -> Any:
        found = CliRunner().invoke(cli.main, ["table", release, *options])
        return found.exit_code, found.output

    return ask


def test_python_asks_what_the_command_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, ...]] = []
    rows = {"rows": [{"county": "Avon", "estimate": None, "lower": "1.5"}]}
    monkeypatch.setattr(stirred.Deployment, "_ask", lambda self, *options: given.append(options) or rows)
    deployment = stirred.Deployment(Path("nowhere"))
    found = deployment.ask("r", ["county"], median="income", kind="arrow")
    assert found.to_pylist() == [{"county": "Avon", "estimate": None, "lower": 1.5}]
    deployment.ask("r", quantile=("income", "0.9"))
    deployment.ask("r", correlate=("income", "hours"))
    deployment.ask("r", regress="income", on=["hours", "age"])
    deployment.ask("r", summary=True)
    assert [options[4 - (options[2] != "--by") :] for options in given] == [
        ("--median=income",),
        ("--quantile=income=0.9",),
        ("--correlate=income,hours",),
        ("--regress=income", "--on=hours,age"),
        ("--summary",),
    ]


def test_the_command_answers_the_same_for_everyone(ask: Callable[..., Any], published: Deployed) -> None:
    """Asked of the release, the hypercube, or the quantiles or moments themselves, the same publication answers."""
    tree, moments = read(published, "income_quantiles"), read(published, "moments")
    half, tenth = [Fraction(1, 2)], [Fraction(1, 10)]
    for release in ("village/tables", "village/tables_work"):
        for options, name, answer in (
            (["--median", "income"], "income_quantiles", tree.quantiles("income", half, ["region"], {})),
            (["--quantile", "income=0.1"], "income_quantiles", tree.quantiles("income", tenth, ["region"], {})),
            (["--summary"], "moments", moments.summary(["region"], {})),
            (["--correlate", "income, hours"], "moments", moments.correlation("income", "hours", ["region"], {})),
            (
                ["--regress", "income", "--on", "hours"],
                "moments",
                moments.regression("income", ["hours"], ["region"], {}),
            ),
        ):
            code, printed = ask(release, *options, "--by", "region", "--json")
            assert code == 0, printed
            assert json.loads(printed) == {"from": [f"village/tables_work_{name}"], "rows": answer.to_pylist()}
    code, printed = ask("village/tables_work_moments", "--correlate", "income,hours", "--where", "county=Avon")
    assert code == 0
    assert "sample standard error" in printed
    assert moments.bounds in printed
    code, printed = ask(DRAWN, "--median", "income", "--by", "county,text", "--json")
    drawn = read(published, "income_quantiles", "further").quantiles("income", half, ["county", "text"], {})
    assert json.loads(printed) == {"from": [DRAWN], "rows": drawn.to_pylist()}
    code, printed = ask(DRAWN, "--median", "income", "--by", "county")
    assert code != 0
    assert "Error: a quantile of several cells together does not follow from those of each" in printed


def page() -> None:
    """The page alone, as Streamlit's test runs it."""
    from orchestration.explorer.tables import show

    show()


@pytest.mark.prove
def test_the_page_answers_as_the_command(published: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Settings(str(tmp_path), str(published.release.published), str(tmp_path), "", (), 1)
    monkeypatch.setenv(VARIABLE, known.as_text())
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    tree, moments = read(published, "income_quantiles"), read(published, "moments")
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params |= {
        "release": "village/tables_work_income_quantiles",
        "table": "?",
        "by": "county",
        "share": "90",
    }
    test.run()
    assert not test.exception
    wanted = tree.quantiles("income", [Fraction(9, 10)], ["county"], {})
    assert "County" in test.table[0].value, "named as in the other tables"
    assert list(test.table[0].value["estimate"]) == [f"{row:,.0f}" for row in wanted["estimate"].to_pylist()]
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params |= {"release": DRAWN, "table": "?", "by": "county", "text": "Avon", "share": "1/10"}
    test.run()
    drawn = read(published, "income_quantiles", "further")
    wanted = drawn.quantiles("income", [Fraction(1, 10)], ["county"], {"text": ["Avon"]})
    assert not test.exception
    assert list(test.table[0].value["estimate"]) == [f"{row:,.0f}" for row in wanted["estimate"].to_pylist()]
    test = AppTest.from_function(page, default_timeout=600)
    test.query_params |= {"release": "village/tables_work_moments", "table": "?", "question": "regression"}
    test.query_params |= {"variable": "income", "other": "hours", "by": "total", "county": "Avon"}
    test.run()
    slope = moments.regression("income", ["hours"], [], {"county": ["Avon"]}).to_pylist()[1]
    assert not test.exception
    shown = test.table[0].value
    assert list(shown["coefficient"]) == ["intercept", "hours"]
    assert "hours 0 to " in moments.bounds
    assert escape(moments.bounds) in [caption.value for caption in test.caption]
    assert shown["estimate"][1].replace("\\", "") == f"{slope['estimate']:.4g}"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--median", "income", "--summary"], "give one of --median"),
        (["--regress", "income"], "--regress and --on are given together"),
        (["--quantile", "income"], "--quantile: income is not of the form income=0.9"),
        (["--correlate", "income"], "--correlate: income is not of the form income,hours"),
        (["--median", "income", "--per", "village/tables_work"], "--per: means of sums are not asked together"),
        (["--median", "hours"], "hours: the publication is of income"),
        (["--summary", "--by", "text"], "text: the hypercube is by county"),
        (["--correlate", "income,rent"], "rent: the publication is of hours, income"),
        (["--median", "income", "--by", "tenure"], "tenure: the hypercube is by county"),
        (["--median", "income", "--where", "county=Dale"], "county: there is no category Dale"),
    ],
)
def test_the_command_refuses_in_a_sentence(ask: Callable[..., Any], options: Sequence[str], says: str) -> None:
    code, printed = ask("village/tables", *options)
    assert code != 0
    assert f"Error: {says}" in printed


def test_where_the_noise_leaves_nothing_to_say_no_figures_are_shown(published: Deployed) -> None:
    """An interval wider than the declared multiple of its estimate, and no records as far as the noise tells."""
    moments, tree = read(published, "moments"), read(published, "income_quantiles")
    strict = replace(moments, widest=Fraction(1, 10**6))
    assert {row["estimate"] for row in strict.summary([], {}).to_pylist()} == {None}
    empty = replace(tree, numbers=[-abs(part) for part in tree.numbers])
    (row,) = empty.quantiles("income", [Fraction(1, 2)], [], {}).to_pylist()
    assert (row["estimate"], row["lower"], row["upper"], row["at_bound"]) == (None, 0, 12_000, "lower and upper")
    assert (row["sample_lower"], row["sample_upper"], row["sample_standard_error"]) == (0, 12_000, None)


def test_levels_are_read_in_their_order_and_forged_bounds_are_refused(published: Deployed, tmp_path: Path) -> None:
    """A published file is in the order of names: level 10 of a tree with two branches comes before its level 2."""
    folder = published.release.folder
    for file in folder.glob("*.parquet"):
        shutil.copy(file, tmp_path)
    levels = pq.read_table(folder / "measured_tables.parquet")
    pq.write_table(levels.take([0, 3, 2, 1]), tmp_path / "measured_tables.parquet")
    asked = ("income", [Fraction(1, 2)], ["county"], {})
    copied = PublishedTables(tmp_path)
    assert read_statistic(copied).quantiles(*asked) == read(published, "income_quantiles").quantiles(*asked)
    scales = pq.read_table(folder / "scales.parquet")
    for column, forged in (("effect", "1/0"), ("most", None), ("numbers", 1)):
        made = scales.drop([column]).append_column(column, pa.array([forged], scales.schema.field(column).type))
        pq.write_table(made, tmp_path / "scales.parquet")
        with pytest.raises(QuestionError, match="no publication of quantiles or moments"):
            read_statistic(copied)


def test_of_several_publications_the_one_with_the_least_noise_in_the_answer_is_asked(
    published: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publication with less noise in each cell has more noise in the answer if many more cells are added up."""
    tree = read(published, "income_quantiles")
    assert tree.variance([], {}) == pytest.approx(3 * tree.variance([], {"county": ["Avon"]}))
    assert tree.variance(["region"], {}) == tree.variance([], {})
    drawn = read(published, "income_quantiles", "further")
    assert isinstance(drawn.measured, Chosen)
    less = replace(drawn, measured=replace(drawn.measured, budgets=(Fraction(500), Fraction(500))))
    files = PublishedTables(published.release.folder.with_name(DRAWN.rpartition("/")[2]))
    found = iter([drawn, less])
    monkeypatch.setattr(statistics_asking, "read_statistic", lambda _: next(found))
    asked = ("income", [Fraction(1, 2)]), ["county"], {"text": ["Avon"]}
    assert statistics_asking.answer({"a": files, "b": files}, "quantiles", *asked)[0] == ["b"]


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    ("statement", "gates"),
    [
        ("UPDATE nodes SET measured = measured + 1 WHERE cell = 0 AND place = 0", {"tables_as_made"}),
        ("UPDATE quantiles SET estimate = estimate + 100 WHERE county = 'Avon'", {"tables_as_made"}),
        ("UPDATE scales SET most = '13000'", {"plan_as_declared"}),
        (
            "UPDATE noisy_measurements SET count = count + 1 WHERE draw_order = 5",
            {"settled", "replay", "tables_as_made"},
        ),
        ("DELETE FROM noisy_measurements WHERE draw_order = 5", {"measured_once"}),
    ],
)
def test_altered_tables_fail_their_gates(published: Deployed, statement: str, gates: set[str]) -> None:
    table = statement.split()[2 if statement.startswith("DELETE") else 1]
    executes(statement.replace(table, f'public."village__tables_work_income_quantiles".{table}', 1))(published)
    try:
        assert failing(published) >= gates
    finally:
        put_back(published)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "statement", "gates"),
    [
        (
            "income",
            "UPDATE noisy_measurements SET count = 1 WHERE draw_order < 9",
            {"settled", "replay", "tables_as_made", "noise_as_declared"},
        ),
        ("income", "UPDATE nodes SET place = place + 1 WHERE cell = 0", {"tables_as_made"}),
        ("hours", "UPDATE nodes SET measured = measured + 1 WHERE county_total AND place = 3", {"tables_as_made"}),
    ],
)
def test_altered_draws_and_trees_of_margins_fail_their_gates(
    published: Deployed, name: str, statement: str, gates: set[str]
) -> None:
    """Also: unaltered tables fail no gate, and are described."""
    declared, components = components_of(published.root, FURTHER)
    component = components[1 if name == "income" else 2]
    method = component.method(component.release(declared, published.root / "published"))
    further = replace(published, context=replace(published.context, method=method))
    if name == "hours" or "noisy" in statement:
        assert failing(further) == set()
        assert undescribed(tables_of(further), "table_builder") == []
    table = statement.split()[1]
    executes(statement.replace(table, f'public."{method.release.schema}".{table}', 1))(further)
    try:
        assert failing(further) >= gates
    finally:
        put_back(published)


def quantiles(**changes: Any) -> dict[str, Any]:
    return {"quantiles": {"income": INCOME | changes}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a column that is none": ({"moments": ["incomes"]}, "moments: there is no column incomes"),
    "a text": ({"quantiles": {"text": INCOME}}, "quantiles: text: text is no number"),
    "a code for no value": ({"moments": ["coded"]}, "coded has the code 70, 'Unknown', which is no amount"),
    "an amount with such a code": (
        {"value": {"column": "coded", "grid": 1, "most": 80}},
        "value: column: coded has the code 70",
    ),
    "bounds off the grid": (quantiles(bounds=[0, 12_050]), "most: 12050 is not a multiple"),
    "bounds turned round": (quantiles(bounds=[200, 100]), "most: 100 is below the least"),
    "one number": (quantiles(bounds=[100, 100]), "has from 2 to 1,048,576 numbers"),
    "shares of other levels": (quantiles(shares=[1]), "for each of 4 levels"),
    "shares below 1": (quantiles(shares=["1/2"]), "they add up to 1/2"),
    "a quantile of all": (quantiles(published=[1]), "above 0 and below 1"),
    "a quantile twice": (quantiles(published=["1/2", "0.5000001"]), "published: 0.5 is named twice"),
    "bounds of another": (
        {"moments": {"variables": ["hours"], "bounds": {"hour": [0, 9]}}},
        "bounds: hour is not among the variables",
    ),
    "an interval of no width": ({"moments": {"variables": ["hours"], "widest": 0}}, "widest: 0 is not greater than 0"),
    "two budgets": ({"moments": {"variables": ["hours"], "epsilon": 1, "rho": 1}}, "either epsilon or rho"),
    "no noise to share": (
        {"epsilon": None, "p_table": {"largest_change": 3, "variance": 2}},
        "an epsilon or a rho of its own",
    ),
    "a variable twice": ({"moments": ["hours", "hours"]}, "hours is named twice"),
    "a variable without bounds": ({"moments": ["free"]}, "moments: bounds: free has none"),
    "bounds that are none": (
        {"moments": {"variables": ["hours"], "bounds": {"hours": [1, 1]}}},
        "the lower one is below",
    ),
    "a drawn quantile with a tree": (quantiles(at=["1/2"]), "at: the quantiles that are drawn are published, without"),
    "a drawn quantile of all": (
        {"quantiles": {"income": {"bounds": [0, 12_000], "grid": 100, "at": [1]}}},
        "1 is not above 0 and below 1",
    ),
    "a product with a name of ours": (
        {"moments": {"variables": ["hours"], "products": [PRODUCT | {"name": "statistics"}]}},
        "products: statistics is the name of another table",
    ),
    "a product of impossible cells": (
        {"variables": ["county", "region"]}
        | quantiles(products=[{"name": "none", "by": ["region"], "where": {"county": ["Brent"], "region": ["S"]}}]),
        "products: none: where: all of these cells are declared impossible",
    ),
    "shares of other quantiles": (
        {"quantiles": {"income": {"bounds": [0, 12_000], "grid": 100, "at": ["1/2"], "shares": ["1/2", "1/2"]}}},
        "shares: there is one for each of 1 quantiles, not 2",
    ),
    "a product of another variable": (
        {"moments": {"variables": ["hours"], "products": [PRODUCT | {"by": ["tenure"]}]}},
        "of_the_north: by: tenure is not among the variables",
    ),
    "a drawn quantile with a rho": (
        {"epsilon": None, "rho": 1, "quantiles": {"income": {"bounds": [0, 12_000], "grid": 100, "at": ["1/2"]}}},
        "at: quantiles that are drawn by themselves have an epsilon",
    ),
    "trees that do not agree": (quantiles(margins="independent"), "margins: trees are summed or fitted"),
    "fitted trees with impossible cells": (
        {"variables": ["county", "region"]} | quantiles(margins="fitted"),
        "trees are not fitted with cells that are declared impossible",
    ),
    "a variable with a name of ours": ({"variables": ["place"]}, "variables: place is the name of a column"),
    "hidden counts": ({"suppress_below": 5}, "suppress_below hides"),
    "negative weights": (
        {"weight": {"column": "hours", "grid": 1, "least": -1, "most": 2}},
        "weights are not negative",
    ),
    "too many numbers": (quantiles(bounds=[0, 10**7], grid=1), "from 2 to 1,048,576 numbers, not 10,000,001"),
}


@pytest.mark.parametrize(("changes", "says"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_measured_is_refused_when_it_is_loaded(
    published: Deployed, changes: Mapping[str, Any], says: str
) -> None:
    def load() -> None:
        declared, components = components_of(published.root, CUBE | changes)
        for component in components:
            component.release(declared, published.root)

    with pytest.raises(ValueError, match="release village/tables") as refused:
        load()
    assert says in str(refused.value)


def test_two_statistics_of_one_name_are_refused() -> None:
    cubes = [CUBE, {"name": "work_moments", "variables": ["county"], "epsilon": 1}]
    with pytest.raises(ValueError, match="work_moments is declared 2 times"):
        TableBuilderDeclaration.model_validate(
            {"name": "tables", "dataset": "village", "title": "Tables", "hypercubes": cubes}
        )


@pytest.mark.deep
def test_a_plan_finds_the_budget_of_a_statistic(published: Deployed) -> None:
    """A wanted total and a wanted margin end in fields of the statistic, and leave the hypercube as it is."""
    declared, (_, tree, moments) = components_of(published.root)
    for component in (tree, moments):
        planned = plan_declaration(component, declared, published.root, PlanRequest(total=10))
        assert planned.plan.loss == PureLoss(Fraction(10))
        assert planned.method.release.design.budget == 5
        assert isinstance(component, SingleHypercube)
        assert component.draft.epsilon == 400
    (line, *_) = planned.plan.lines
    margins = PlanRequest(margins={line.name: Decimal("2.5")})
    assert plan_declaration(moments, declared, published.root, margins).plan.lines[0].margin <= 2.5
    levels = plan_declaration(tree, declared, published.root, PlanRequest()).plan.lines
    wanted = PlanRequest(margins={levels[0].name: 3})
    planned = plan_declaration(tree, declared, published.root, wanted)
    assert planned.plan.lines[0].margin <= 3
    assert sum(planned.method.release.declaration.attributes.shares) == 1
    # Quantiles are declared in another order than they are drawn in; a program that mixes them up widens the other.
    (_, drawn, _) = components_of(published.root, FURTHER)[1]
    tenth, half = plan_declaration(drawn, declared, published.root, PlanRequest()).plan.lines
    wanted = PlanRequest(margins={tenth.name: Decimal("4.5")})
    planned = plan_declaration(drawn, declared, published.root, wanted)
    assert 4 < planned.plan.lines[0].margin <= 4.5
    assert planned.plan.lines[1].budget == half.budget
