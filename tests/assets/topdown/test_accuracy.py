"""Accuracy has its documented meaning, compared with the truth place by place, and is shown for synthetic data only."""

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pytest

from assets.measurement.method import GridError
from assets.release.contents import CefVersions, publish_contents
from assets.topdown import accuracy
from assets.topdown.accuracy import POST_PROCESSED, RAW, Figure, build_accuracy, measure_accuracy
from assets.topdown.charts import accuracy_by_level
from assets.topdown.histograms import read_counts
from assets.topdown.measurements import COLUMNS, read_answers
from assets.topdown.release import SPINE
from mechanisms.topdown.schema import PERSONS
from resources.custody import Custody
from resources.packed import pack
from resources.statements import SQL, Zone
from tests.assets.topdown.products import LISTS, Histogram, Products, products, random_histograms
from tests.deployments import resources_of
from tests.depth import deep_cases

pytestmark = pytest.mark.deep


Levels = Mapping[str, Mapping[str, Histogram]]


def filled(root: Path, seed: int = 1, **changes: Any) -> tuple[Products, Levels, Levels]:
    """A deployment, its exact histograms by level and name, and its estimates, which no truth would give."""
    generator = np.random.default_rng(seed)
    made = products(root, generator, **changes)
    blocks = len(made.geoids["Block"])
    exact = random_histograms(generator, blocks)
    by_name = {name: made.roll_up(finest) for name, finest in exact.items()}
    truth = {level: {name: found[level] for name, found in by_name.items()} for level in made.levels}
    made.write_truth(exact)
    made.write_measurements(exact, generator, noise=6)
    estimates = {level: random_histograms(generator, len(made.geoids[level])) for level in made.levels}
    for level, histograms in estimates.items():
        made.write_estimates(level, histograms)
    return made, truth, estimates


def measured(made: Products) -> dict[tuple[str, str, str], Figure]:
    with made.warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
        figures = list(measure_accuracy(session, made.release))
    found = {(figure.level, figure.metric, figure.source): figure for figure in figures}
    assert len(found) == len(figures)
    return found


def cube(histograms: Histogram) -> Histogram:
    return histograms.reshape(-1, 8, 2, 2, 63)


def by_hand(truth: Mapping[str, Histogram], other: Mapping[str, Histogram]) -> dict[str, float]:
    """The metrics, from their definitions."""
    exact, found = cube(truth["persons"]), cube(other["persons"])
    return {
        "population": float(np.abs(found.sum(axis=(1, 2, 3, 4)) - exact.sum(axis=(1, 2, 3, 4))).mean()),
        "race_by_hispanic": float(np.abs(found.sum(axis=(1, 2)) - exact.sum(axis=(1, 2))).mean()),
        "histogram": float(np.abs(found - exact).sum() / 2 / exact.sum()),
        "occupied": float(np.abs(other["units"][:, 0] - truth["units"][:, 0]).mean()),
    }


@pytest.mark.parametrize("metric", accuracy.METRICS, ids=lambda metric: metric.name)
def test_differences_are_added_up_as_of_whole_tables(metric: accuracy.Metric) -> None:
    """A count that is added where there was another, and answers at the ends of the stored type."""
    places, size, generator = 3, metric.marginal.size, np.random.default_rng(2)
    ends = np.iinfo(np.int32)
    noisy = generator.choice(np.array([ends.min, ends.max, -1, 0, 1], dtype=np.int32), (places, size))
    positions = generator.integers(places * size, size=2 * places * size)
    positions = positions[positions % size < metric.answers]
    counts = generator.integers(1, 2**33, size=len(positions))
    exact = np.zeros(places * size, dtype=np.int64)
    np.add.at(exact, positions, counts)
    whole = np.abs(noisy.astype(np.int64) - exact.reshape(places, size))[:, : metric.answers]
    assert metric.sum_differences(noisy, positions, counts) == whole.sum()
    of_none = np.zeros(0, dtype=np.int64)
    assert metric.sum_differences(noisy, of_none, of_none) == np.abs(noisy[:, : metric.answers].astype(np.int64)).sum()


@pytest.mark.parametrize("batch", [1024, 3])
def test_post_processed_figures_are_their_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(accuracy, "PLACES_AT_A_TIME", batch)
    made, truth, estimates = filled(tmp_path)
    found = measured(made)
    for level in made.levels:
        for metric, value in by_hand(truth[level], estimates[level]).items():
            figure = found[level, metric, POST_PROCESSED]
            assert figure.value == pytest.approx(value, rel=1e-12)
            assert figure.units == len(made.geoids[level])


@deep_cases(1)
@pytest.mark.parametrize("batch", [1024, 3])
def test_raw_figures_are_those_of_the_querys_own_answers_or_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(accuracy, "PLACES_AT_A_TIME", batch)
    made, truth, _ = filled(tmp_path)
    found = measured(made)
    answers: dict[tuple[str, str, str], list[tuple[int, list[int]]]] = {}
    for row in made.read_measurements():
        answers.setdefault((row["histogram"], row["level"], row["query"]), []).append((row["number"], row["answers"]))
    asked = {
        "population": ("persons", "total"),
        "race_by_hispanic": ("persons", "hispanic * cenrace"),
        "histogram": ("persons", "detailed"),
        "occupied": ("units", "detailed"),
    }
    missing = set()
    for level in made.levels:
        persons = cube(truth[level]["persons"])
        exact = {
            "population": persons.sum(axis=(1, 2, 3, 4))[:, None],
            "race_by_hispanic": persons.sum(axis=(1, 2)).reshape(-1, 126),
            "histogram": truth[level]["persons"],
            "occupied": truth[level]["units"][:, :1],
        }
        for metric, (histogram, query) in asked.items():
            figure = found[level, metric, RAW]
            if (histogram, level, query) not in answers:
                missing.add((level, metric))
                assert figure.value is None
                continue
            noisy = np.array([values for _, values in sorted(answers[histogram, level, query])])
            differences = np.abs(noisy[:, : exact[metric].shape[1]] - exact[metric])
            expected = differences.sum() / 2 / persons.sum() if metric == "histogram" else differences.mean()
            assert figure.value == pytest.approx(expected, rel=1e-12), (level, metric)
    assert missing == {("US", "population"), ("County", "race_by_hispanic")}


def test_estimates_that_are_the_truth_have_no_error(tmp_path: Path) -> None:
    made, truth, _ = filled(tmp_path)
    for level, histograms in truth.items():
        made.write_estimates(level, histograms)
    assert {figure.value for figure in measured(made).values() if figure.source == POST_PROCESSED} == {0.0}


def test_a_person_moved_within_a_county_shows_at_the_block_only(tmp_path: Path) -> None:
    made, truth, _ = filled(tmp_path, counties=1)
    for level, histograms in truth.items():
        made.write_estimates(level, histograms)
    moved = {name: histogram.copy() for name, histogram in truth["Block"].items()}
    (number, cell), *_ = np.argwhere(moved["persons"])
    moved["persons"][[number, (number + 1) % 8], cell] += [-1, 1]
    made.write_estimates("Block", moved)
    found = {key: figure.value for key, figure in measured(made).items() if key[2] == POST_PROCESSED}
    persons = truth["US"]["persons"].sum()
    assert {key[:2]: value for key, value in found.items() if value} == {
        ("Block", "population"): pytest.approx(2 / 8),
        ("Block", "race_by_hispanic"): pytest.approx(2 / (8 * 126)),
        ("Block", "histogram"): pytest.approx(1 / persons),
    }


def test_nobody_at_all_has_no_distance_but_errors(tmp_path: Path) -> None:
    made, truth, _ = filled(tmp_path)
    made.write_truth({"units": truth["Block"]["units"]})
    found = measured(made)
    for level in made.levels:
        assert found[level, "histogram", POST_PROCESSED].value is None
        assert found[level, "population", POST_PROCESSED].value is not None


@pytest.mark.prove
def test_counts_are_sorted_in_whatever_order_they_are_stored(tmp_path: Path) -> None:
    """Wrong programs: keep the order of storage; or miss a place and cell that is stored twice, but not in adjacent
    rows."""
    made, truth, _ = filled(tmp_path)
    for level, histograms in truth.items():
        made.write_estimates(level, histograms)
    table = made.release.public(made.release.estimates("Block"))
    with made.warehouse.session(reads=[Zone.PUBLIC]) as session:
        expected = read_counts(session, table, PERSONS.size, histogram="persons")
    made.change(table, "CREATE TABLE shuffled AS SELECT * FROM {0} ORDER BY hash(number, cell)")
    made.change(table, "DELETE FROM {0}; INSERT INTO {0} SELECT * FROM shuffled; DROP TABLE shuffled")
    with made.warehouse.session(reads=[Zone.PUBLIC]) as session:
        found = read_counts(session, table, PERSONS.size, histogram="persons")
    for one, other in zip(vars(found).values(), vars(expected).values(), strict=True):
        assert np.array_equal(one, other)
    made.change(table, "INSERT INTO {0} SELECT * FROM {0} WHERE histogram = 'persons' LIMIT 1")
    with made.warehouse.session(reads=[Zone.PUBLIC]) as session, pytest.raises(GridError, match="1 counts repeated"):
        read_counts(session, table, PERSONS.size, histogram="persons")


@pytest.mark.prove
@pytest.mark.parametrize("lacking", ["number = 2", "true"])
def test_a_missing_measurement_is_said(tmp_path: Path, lacking: str) -> None:
    """Of one place, or of a level: no answers are not answers of another level."""
    made, _, _ = filled(tmp_path)
    made.change(made.release.public("noisy_measurements"), f"DELETE FROM {{}} WHERE level = 'Block' AND {lacking}")
    with pytest.raises(GridError, match="not every place is measured exactly once"):
        measured(made)


@pytest.mark.prove
def test_answers_of_another_number_or_type_are_refused(tmp_path: Path) -> None:
    """Wrong programs: cut the stored answers by the queries' sizes, which the right total passes; or check the type of
    a statement's result instead of the stored column."""
    made, _, _ = filled(tmp_path)
    table, wrong = made.release.public("noisy_measurements"), "an answer for every cell"
    longer = "CASE number WHEN 2 THEN unpacked(answers) || [0] WHEN 3 THEN unpacked(answers)[2:] END"
    for change, message in (
        (f"UPDATE {{}} SET answers = packed({longer}) WHERE level = 'Block' AND number IN (2, 3)", wrong),
        ("UPDATE {} SET answers = '\\x00' || answers[2:]", wrong),
        ("UPDATE {} SET answers = ''", wrong),
        ("UPDATE {} SET answers = NULL", wrong),
        ("ALTER TABLE {} ALTER answers TYPE VARCHAR", "neither packed nor lists of 32-bit integers"),
    ):
        made.change(table, change)
        with pytest.raises(GridError, match=message):
            measured(made)


def test_lists_that_an_earlier_version_stored_are_read(tmp_path: Path) -> None:
    """And refused if they are not as that version stored them."""
    made, _, _ = filled(tmp_path)
    table, now = made.release.public("noisy_measurements"), measured(made)
    made.change(table, f"CREATE OR REPLACE TABLE {{0}} AS {LISTS}")
    assert measured(made) == now
    for change, message in (
        ("UPDATE {} SET answers = answers[2:] || [NULL] WHERE number = 0", "an answer for every cell"),
        ("UPDATE {} SET answers = NULL WHERE number = 0", "an answer for every cell"),
        ("ALTER TABLE {} ALTER answers TYPE SMALLINT[] USING [0]", "neither packed nor lists of 32-bit integers"),
    ):
        made.change(table, change)
        with pytest.raises(GridError, match=message):
            measured(made)


@pytest.mark.parametrize(
    ("change", "message"), [({"level": "US"}, "of another level"), ({"first": -8}, "other places")]
)
def test_answers_that_forged_statistics_let_through_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """Wrong program: goes by position alone, in which -8 is the first of eight places as 0 is."""
    made, _, _ = filled(tmp_path)
    query = made.release.design.measured_at("persons", "Block")[0]
    given = {"histogram": "persons", "level": "Block", "first": 0} | change
    columns = {"histogram": [given["histogram"]] * 8, "level": [given["level"]] * 8, "query": [query.query] * 8}
    answers = pack(np.ones((8, query.marginal.size), dtype=np.int32))
    rows = pa.table(columns | {"number": list(range(given["first"], given["first"] + 8)), "answers": answers})
    session: Any = SimpleNamespace(columns=lambda table: {"answers": "BLOB"}, arrow=lambda *_, **__: rows)
    with pytest.raises(GridError, match=message):
        read_answers(session, made.release, [query], 0, 8, strict=True)


def test_answers_that_a_view_joins_are_those_of_their_rows(tmp_path: Path) -> None:
    """The threads return a join's rows in any order. Wrong program: gives a row the answers of the rows read before
    it."""
    made, _, _ = filled(tmp_path)
    before = measured(made)
    table, kept = made.release.public("noisy_measurements"), made.release.public("kept")
    made.change(table, "ALTER TABLE {} RENAME TO kept")
    names = ", ".join(f"one.{name}" for name in COLUMNS)
    joined = f"SELECT {names} FROM {kept.text} AS one JOIN {made.release.public(SPINE).text} AS two USING (geoid)"
    with made.warehouse.session(writes=Zone.PUBLIC) as session:
        session.create_view(table, SQL("tests/joined", joined))
    assert measured(made) == before


@deep_cases(1)
@pytest.mark.parametrize("synthetic", [True, False])
def test_figures_are_stored_and_shown_for_synthetic_data_only(tmp_path: Path, synthetic: bool) -> None:
    made, _, _ = filled(tmp_path, synthetic=synthetic)
    custody = Custody(folder=str(tmp_path / "custody"))
    publish_contents(made.warehouse, custody, made.release.dataset, CefVersions("as read"), {}, "read from")
    definition = build_accuracy(made.release)
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([definition], resources=resources_of(made.warehouse, custody), instance=instance)
        logged = " ".join(str(record) for record in instance.all_logs(result.run_id))
    rows = made.read(made.release.confidential("accuracy"))
    assert list(rows[0]) == ["level", "metric", "source", "value", "units"]
    assert len(rows) == 3 * 4 * 2
    (event,) = result.get_asset_materialization_events()
    shown = event.materialization.metadata
    (spec,) = definition.specs
    assert spec.tags["zone"] == "confidential"
    assert sum(name.endswith("(synthetic data)") for name in shown) == (5 if synthetic else 0)
    assert ("accuracy by level (synthetic data)" in shown) == synthetic
    if not synthetic:
        values = {f"{row['value']:.4g}" for row in rows if row["value"] is not None and row["value"] % 1}
        assert values
        # Digits within the time of a record are no value.
        assert not any(re.search(rf"(?<![\d.]){re.escape(value)}(?!\d)", logged) for value in values)
    else:
        tables = [value for value in shown.values() if isinstance(value, dg.TableMetadataValue)]
        assert any("not measured" in record.data.values() for table in tables for record in table.records)


# The picture -----------------------------------------------------------------------------------------------

LEVELS = ("US", "state", "block group")
PANELS: dict[str, dict[str, Sequence[float | None]]] = {
    "Total population: mean absolute error": {"raw": [None, 3.5, 90.0], "post-processed": [0.0, 0.0, 7.25]},
    "Histogram: absolute error per person, halved": {"raw": [0.01, 0.2, 140.0], "post-processed": [0.01, 0.1, 0.6]},
    "Occupied: mean absolute error": {"raw": [2.0, 2.0, 21.0], "post-processed": [2.0, 1.0, 3.0]},
}


def changed(value: float | None) -> dict[str, dict[str, Sequence[float | None]]]:
    title = "Histogram: absolute error per person, halved"
    return PANELS | {title: PANELS[title] | {"raw": [0.01, value, 140.0]}}


@pytest.mark.prove
def test_the_picture_is_a_png_of_the_deployments_width_and_the_same_for_the_same_figures() -> None:
    picture = accuracy_by_level(LEVELS, PANELS)
    assert struct.unpack(">II", picture[16:24])[0] == 1080
    assert accuracy_by_level(LEVELS, PANELS) == picture
    others = [changed(0.3), changed(0.0), changed(None), dict(reversed(PANELS.items()))]
    assert len({picture, *(accuracy_by_level(LEVELS, other) for other in others)}) == 1 + len(others)


# Other tests' temporary folders may be collected meanwhile; their warnings are unrelated to the drawing.
@pytest.mark.filterwarnings("error", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [None, None, None], [1e-9, 1.0, 1e12]])
def test_figures_of_any_size_can_be_drawn(values: list[float | None]) -> None:
    assert accuracy_by_level(LEVELS, {"Histogram": {"raw": values, "post-processed": values}})


@pytest.mark.parametrize("panels", [{}, {"a": {"raw": [1.0]}}, {"a": {"raw": [1.0, 1.0, 1.0]}}])
def test_panels_without_a_value_for_each_level_are_refused(panels: dict[str, dict[str, list[float | None]]]) -> None:
    with pytest.raises(ValueError, match="two sources and all levels"):
        accuracy_by_level(LEVELS, panels)


def test_every_metric_is_of_a_query_that_the_histogram_has() -> None:
    assert [metric.marginal.size for metric in accuracy.METRICS] == [1, 126, PERSONS.size, 2]
