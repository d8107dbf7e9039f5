"""The mechanisms of `stirred` on arrays and data frames: each uses the mathematics of the layers, exactly as stated."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from importlib import import_module
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray

import stirred
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, PureLoss
from mechanisms.design import DesignError
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.loss import theorem_1
from mechanisms.table_builder.asking import QuestionError
from stirred import accounting, noise, phsafe, safetab, swapping, table_builder, topdown
from stirred.random import Randomness
from stirred.results import Draw

KEY = bytes(range(32))
HUGE = 400
"""A budget at which Laplace noise of sensitivity 1 differs from 0 with a probability below 10^-170."""


@pytest.fixture
def randomness() -> Randomness:
    return stirred.random.from_key(KEY)


@pytest.fixture
def households() -> pd.DataFrame:
    """300 households of two counties and three sizes; tenure is missing for a few."""
    number = np.arange(300)
    tenure = np.where(number * 5 % 7 % 2, "own", "rent").astype(object)
    tenure[::50] = None
    return pd.DataFrame({"tenure": tenure, "size": 1 + number % 3, "county": np.where(number * 7 % 11 % 2, "A", "B")})


def tally(frame: pd.DataFrame, *columns: str) -> dict[Any, int]:
    """The number of records by columns; swapped data have it in `count`."""
    counts = frame["count"] if "count" in frame else pd.Series(1, frame.index)
    found = counts.groupby([frame[column].astype(str) for column in columns]).sum()
    return {key: int(count) for key, count in found.items()}


def swap(data: Any, randomness: Randomness, rate: str = "1/4") -> swapping.Swapped:
    return swapping.swap(
        data, match=["size"], swap=["county"], rate=rate, unit="household", name="town", randomness=randomness
    )


def test_a_swap_keeps_its_invariants_and_has_the_epsilon_of_theorem_1(
    households: pd.DataFrame, randomness: Randomness
) -> None:
    swapped = swap(households, randomness)
    table = swapped.table
    for kept in (("size", "tenure"), ("size", "county")):
        assert tally(table, *kept) == tally(households, *kept)
    assert tally(table, "tenure", "county") != tally(households, "tenure", "county")
    assert (swapped.strata, swapped.largest_stratum) == (3, 100)
    assert swapped.specification.loss == theorem_1(100, Fraction(1, 4)) == swapping.loss(100, "1/4")
    assert "household" in repr(swapped)
    records = swapped.records
    assert list(records) == list(households)
    assert tally(records, *households) == tally(table, *households)


def test_a_swap_depends_on_the_records_and_not_on_their_order_or_kind(households: pd.DataFrame) -> None:
    """A program that numbers values in order of occurrence draws differently for the other order."""
    tables = {}
    for name, data in {
        "pandas": households,
        "shuffled": households.sample(frac=1, random_state=1),
        "arrow": pa.Table.from_pandas(households, preserve_index=False),
        "duckdb": duckdb.from_df(households),
    }.items():
        tables[name] = swap(data, stirred.random.from_key(KEY.hex()))
    first = tables["pandas"].arrow.to_pylist()
    assert all(drawn.arrow.to_pylist() == first for drawn in tables.values())
    assert isinstance(tables["pandas"].table, pd.DataFrame)
    assert isinstance(tables["arrow"].table, pa.Table)
    relation = tables["duckdb"].table
    assert isinstance(relation, duckdb.DuckDBPyRelation)
    assert relation.aggregate("sum(count)").fetchone() == (300,)


def test_no_stratum_with_distinct_records_costs_nothing_and_bad_designs_are_refused(randomness: Randomness) -> None:
    data = {"size": [1, 1, 2], "county": ["A", "A", "B"], "tenure": ["own", "own", "rent"]}
    assert swap(data, randomness).specification.loss == PureLoss()
    with pytest.raises(DesignError, match="at once"):
        swapping.swap(data, match=["size"], swap=["size"], rate="1/2", randomness=randomness)
    for rate in ("0", "1", 1.5):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            swapping.swap(data, match=["size"], swap=["county"], rate=rate, randomness=randomness)
    with pytest.raises(TypeError, match="int is neither a table"):
        swap(3, randomness)
    assert swapping.loss(100, swapping.rate_for(100, 4)) <= PureLoss(Fraction(4))


def test_every_draw_has_noise_of_its_own_and_a_key_repeats_all_of_them() -> None:
    """With one stream for all draws, two noises of the same counts would be equal."""
    first, second = stirred.random.from_key(KEY), stirred.random.from_key(KEY)
    zeros = np.zeros(50, dtype=int)
    drawn = [noise.add_gaussian(zeros, "1/100", randomness=source).values for source in (first, first, second, second)]
    assert np.array_equal(drawn[0], drawn[2])
    assert np.array_equal(drawn[1], drawn[3])
    assert not np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(
        noise.draw(noise.DiscreteLaplace(Fraction(99)), 50, randomness=stirred.random.system()), drawn[0]
    )
    assert first.next_key() != RandomStream(KEY, "").words(4).tobytes()
    assert KEY.hex() not in repr(first)
    with pytest.raises(ValueError, match="32 bytes"):
        stirred.random.from_key(b"short")


def test_randomness_is_not_copied_so_that_no_copy_draws_the_same_noise(
    randomness: Randomness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pickle has the key, and a copy or a fork draws the noise of the original again."""
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            duplicate(randomness)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="another process"):
        randomness.next_key()


def test_messy_tables_are_read_as_they_are_meant_or_refused(randomness: Randomness) -> None:
    """An index is not a column, and a categorical column is a column of its categories."""

    class Extended(pd.DataFrame):
        pass

    data = {"size": [1, 1, 1], "county": ["A", "B", "A"], "tenure": [None] * 3}
    plain = swap(data, stirred.random.from_key(KEY)).arrow.to_pylist()
    frame = Extended(data, index=list("xyz"))
    for messy in (frame, frame.astype({"county": "category"}), duckdb.from_arrow(pa.table(data))):
        drawn = swap(messy, stirred.random.from_key(KEY))
        assert drawn.kind != "arrow"
        assert drawn.arrow.to_pylist() == plain
    for wrong, said in (
        (frame["size"], "Series is neither a table"),
        ({**data, "tenure": [[1]] * 3}, "tenure: values of the type list"),
        ({**data, "tenure": ["a", 1, "c"]}, "one type"),
    ):
        with pytest.raises(TypeError, match=said):
            swap(wrong, randomness)
    with pytest.raises(ValueError, match="count: the result"):
        swap({**data, "count": [1, 2, 3]}, randomness)
    cube = table_builder.measure(frame.astype("category"), {"county": ["B", "A"]}, epsilon=HUGE, randomness=randomness)
    assert cube.ask(["county"]).estimate.tolist() == [1, 2]


def test_names_and_values_of_pandas_stay_what_they_are(randomness: Randomness) -> None:
    """Wrong programs: a name that is a number is taken for a position; a missing value turns integers into floats, so
    that 2^60 + 1 becomes 2^60; NaN is a category that no caller can ask for."""
    odd = 2**60 + 1
    frame = pd.DataFrame({"place": ["A", "B", "A"], "code": pd.array([odd, None, odd], dtype="Int64")})
    drawn = swapping.swap(frame, match=[], swap=["place"], rate="1/2", randomness=randomness)
    assert sorted(drawn.records["code"].dropna().tolist()) == [odd, odd]
    cube = table_builder.measure(frame, {"code": [np.nan, odd]}, epsilon=np.int16(60), randomness=randomness)
    assert cube.ask([], {"code": [pd.NA]}).estimate.tolist() == [1]
    numbered = pd.DataFrame({1: [1, 2, 3], 0: [0, 0, 1], "group": ["a", "a", "a"]})
    with pytest.raises(TypeError, match="named by texts, not by 0"):
        table_builder.measure(
            numbered, {"group": ["a"]}, epsilon=1, amount=0, grid=table_builder.Grid(1, 0, 9), randomness=randomness
        )
    with pytest.raises(TypeError, match="age: values of the type"):
        swap({"county": ["A", "B"], "age": pd.cut(pd.Series([1, 30]), [0, 18, 99])}, randomness)


def test_every_arrow_type_is_read_or_refused_with_its_column(randomness: Randomness) -> None:
    """Polars writes text as views, which Arrow does not compare."""
    half = pa.array([1.5, 2.5], pa.float16())
    data = pa.table({"county": pa.array(["A", "B"], pa.string_view()), "size": half})
    drawn = swapping.swap(data, match=[], swap=["county"], rate="1/2", randomness=randomness)
    assert sorted(drawn.arrow["county"].to_pylist()) == ["A", "B"]
    categories = {"county": ["B", "A"], "size": [2.5, 1.5]}
    cube = table_builder.measure(data, categories, epsilon=HUGE, randomness=randomness)
    assert cube.ask(["county"], {"size": [1.5]})["estimate"].to_pylist() == [0, 1]
    ended = pa.table({"county": ["A", "B"], "size": pc.run_end_encode(pa.array([1, 1]))})
    with pytest.raises(TypeError, match="size: values of the type run_end_encoded"):
        swapping.swap(ended, match=["size"], swap=["county"], rate="1/2", randomness=randomness)
    with pytest.raises(TypeError, match="size: values of the type run_end_encoded"):
        table_builder.measure(ended, {"size": [1]}, epsilon=1, randomness=randomness)


def test_a_grid_is_exactly_the_numbers_that_were_written() -> None:
    assert table_builder.Grid(0.1, 0, "3/2") == table_builder.Grid(Fraction(1, 10), Fraction(0), Fraction(3, 2))


@pytest.mark.parametrize("counts", [[2**63], [2**63 - 1], np.array([2**64 - 1], dtype=np.uint64)])
def test_counts_that_do_not_fit_are_refused(counts: Any, randomness: Randomness) -> None:
    """A program that converts them to int64 takes 2^64 − 1 as −1."""
    with pytest.raises(ValueError, match="beyond 2"):
        noise.add_laplace(counts, 1, randomness=randomness)
    with pytest.raises(TypeError, match="without missing"):
        noise.add_laplace(np.ma.masked_array([1, 2], [0, 1]), 1, randomness=randomness)


def test_noise_has_the_distribution_of_its_loss_and_sensitivity(randomness: Randomness) -> None:
    counts = [[1, 2], [3, 4]]
    laplace = noise.add_laplace(counts, "1/3", l1=2, neighbors="bounded", randomness=randomness)
    assert laplace.noise == noise.DiscreteLaplace(Fraction(6))
    assert laplace.specification.loss == PureLoss(Fraction(1, 3))
    gaussian = noise.add_gaussian(counts, 0.1, squared_l2=4, unit="person", randomness=randomness)
    assert gaussian.noise == noise.DiscreteGaussian(Fraction(20))
    assert gaussian.specification.loss == ConcentratedLoss(Fraction(1, 10))
    assert gaussian.values.shape == (2, 2)
    exact = noise.add_laplace(counts, HUGE, randomness=randomness)
    assert exact.values.tolist() == counts
    assert exact.margin == 0
    assert "one record changed" in repr(laplace)
    assert "one person added or removed" in repr(gaussian)
    with pytest.raises(TypeError, match="integers"):
        noise.add_laplace([1.5], 1, randomness=randomness)
    for l1 in (0, 1.1):
        with pytest.raises(ValueError, match="l1 is a whole number"):
            noise.add_laplace([1], 1, l1=l1, randomness=randomness)  # type: ignore[arg-type]
    assert noise.add_laplace([1], 1, l1=np.int64(2), randomness=randomness).noise == noise.DiscreteLaplace(Fraction(2))


def test_noise_that_is_too_narrow_or_too_wide_is_refused(randomness: Randomness) -> None:
    """Wrong programs: the standard error of almost no noise takes hours; a sum with wide noise wraps around at 2^63,
    or some draws raise OverflowError."""
    with pytest.raises(ValueError, match=r"ρ = 1001\.0000 leaves hardly any noise"):
        noise.add_gaussian([1], 1001, randomness=randomness)
    for wide in (noise.DiscreteGaussian(Fraction(2**110 + 1)), noise.DiscreteLaplace(Fraction(2**55 + 1))):
        with pytest.raises(ValueError, match="too wide for 64-bit"):
            noise.draw(wide, 1, randomness=randomness)
    widest = noise.DiscreteLaplace(Fraction(2**55))
    assert (np.abs(noise.draw(widest, 9, randomness=randomness)) < 2**62).all()


CATEGORIES = {"size": [3, 2, 1, 4], "county": ["A", "B"]}


def test_a_hypercube_answers_sub_tables_of_all_declared_categories(
    households: pd.DataFrame, randomness: Randomness
) -> None:
    """Even at a huge budget, where the numbers are exact, a category without records has a cell."""
    for margins in ("summed", "independent", "fitted"):
        cube = table_builder.measure(
            households, CATEGORIES, epsilon=3 * HUGE // 4, margins=margins, unit="household", randomness=randomness
        )
        assert cube.specification.loss == cube.design.bounded == PureLoss(Fraction(3 * HUGE // 2))
        by_size = cube.ask(["size"], {"county": ["B"]})
        found = households[households.county == "B"].groupby("size").size()
        assert by_size["size"].tolist() == [3, 2, 1, 4]
        assert by_size.estimate.round(6).tolist() == [found[3], found[2], found[1], 0]
        assert cube.ask().estimate.round(6).tolist() == [300]
    with pytest.raises(QuestionError, match="no category 'C'"):
        cube.ask(["size"], {"county": ["C"]})
    for by, where in (("size", {}), (["size"], {"county": "AB"}), (["size"], {"county": 1})):
        with pytest.raises(QuestionError, match="given as lists"):  # not the counties A and B
            cube.ask(by, where)
    with pytest.raises(ValueError, match=r"^size: 100 of 300 records have no declared category$"):
        table_builder.measure(households, {"size": [1, 2]}, rho=1, randomness=randomness)
    with pytest.raises(ValueError, match="epsilon or rho"):
        table_builder.measure(households, CATEGORIES, epsilon=1, rho=1, randomness=randomness)


def test_an_interval_covers_the_true_number_in_nine_draws_of_ten(randomness: Randomness) -> None:
    """The false-alarm rate is below 10^-6 at a coverage of 0.9. An interval of one standard error covers 0.7."""
    sizes = np.repeat(np.arange(200), 5)
    cube = table_builder.measure({"place": sizes}, {"place": list(range(200))}, rho="1/8", randomness=randomness)
    cells = cube.ask(["place"])
    covered = sum(
        low <= 5 <= high for low, high in zip(cells["lower"].to_pylist(), cells["upper"].to_pylist(), strict=True)
    )
    assert covered >= 158


@pytest.mark.deep
def test_amounts_are_rounded_and_cut_to_the_declared_grid_and_have_means(
    households: pd.DataFrame, randomness: Randomness
) -> None:
    households["income"] = [1234.56, 99_999.0, -5.0] * 100
    grid = table_builder.Grid(Fraction(100), Fraction(0), Fraction(50_000))
    assert grid.round(np.array([12_345_600, 999_990_000, -50_000])).tolist() == [12, 500, 0]
    sums = table_builder.measure(
        households, CATEGORIES, epsilon=HUGE * 200, amount="income", grid=grid, randomness=randomness
    )
    assert sums.design.sensitivity == 500
    assert sums.ask().estimate.tolist() == [100 * (1200 + 50_000)]
    counts = table_builder.measure(households, CATEGORIES, epsilon=HUGE, cap=9, randomness=randomness)
    assert isinstance(counts.specification.loss, ApproximateLoss)
    assert sums.means(counts).estimate.tolist() == pytest.approx([100 * (1200 + 50_000) / 300])
    with pytest.raises(QuestionError, match="no bounds"):
        counts.means(sums)
    reordered = {**CATEGORIES, "size": [1, 2, 3, 4]}
    other = table_builder.measure(households, reordered, epsilon=HUGE, randomness=randomness)
    with pytest.raises(QuestionError, match="in another order"):
        sums.means(other, ["size"])

    def add_up(amounts: list[Any], **given: Any) -> Any:
        given = {"amount": "income", "grid": grid, "epsilon": HUGE * 200} | given
        data = {"a": [1] * len(amounts), "income": amounts}
        return table_builder.measure(data, {"a": [1]}, randomness=randomness, **given).ask()["estimate"].to_pylist()

    assert add_up([2**62, -(2**62)]) == add_up([1e300, -1e300]) == [50_000]
    for amounts, error, said in (
        ([np.inf], ValueError, "1 of 1 records"),
        ([np.nan, None, 1.0], ValueError, "2 of 3 records"),
        (["secret"], TypeError, "^income: amounts are numbers, not of the type string$"),
    ):
        with pytest.raises(error, match=said):
            add_up(amounts)
    for one in ({"amount": None}, {"grid": None}):
        with pytest.raises(ValueError, match="or neither"):
            add_up([1], **one)
    with pytest.raises(ValueError, match="declared twice"):
        table_builder.measure(households, {"size": [1, 2, 3, 3]}, rho=1, randomness=randomness)


def test_p_tables_are_made_judged_and_drawn_from(randomness: Randomness) -> None:
    made = table_builder.make_p_table(5, 2, threshold=1).table
    drawn = table_builder.perturb(np.tile([0, 1, 40], (100, 1)), made, randomness=randomness)
    assert drawn.shape == (100, 3)
    assert set(drawn[:, 0]) == {0}
    assert 1 not in drawn
    assert np.abs(drawn[:, 2] - 40).max() <= 5
    judged = table_builder.judge_p_table(made, 1)
    assert 0 < judged.delta < 1


def test_phsafe_measures_a_whole_design_and_estimates_counts(randomness: Randomness) -> None:
    run = phsafe.design_run("PH4", phsafe.Noise.GAUSSIAN, 10, {"state_*": Fraction(1)}, {})
    design = phsafe.PHSafeDesign(("01", "02"), phsafe.Noise.GAUSSIAN, {"PH4": run})
    measured = phsafe.measure(design, {("PH4", "state_*"): [[500, 900], [0, 40]]}, randomness=randomness)
    assert measured.specification.loss == ConcentratedLoss(Fraction(2))
    found = measured.estimate("PH4", "state_*")
    assert (np.abs(found.estimate - [[500, 900], [0, 40]]) < 7 * 22 / 2**0.5).all()
    assert ((found.lower >= 0) & (found.lower <= found.estimate) & (found.estimate <= found.upper)).all()
    with pytest.raises(ValueError, match="1 runs and levels are not both given and released"):
        phsafe.measure(design, {}, randomness=randomness)
    with pytest.raises(ValueError, match="2 basis cells"):
        phsafe.measure(design, {("PH4", "state_*"): [[500], [0]]}, randomness=randomness)


def test_safetab_measures_each_group_in_the_detail_of_its_noisy_total(randomness: Randomness) -> None:
    counts = np.zeros((3, 2, safetab.FINEST), dtype=int)
    counts[1, 0], counts[2, 1] = 10, 1
    groups = safetab.measure_groups(
        counts, thresholds=(40, 100, 400), stability=1, epsilon=HUGE, stage_1_share="1/2", randomness=randomness
    )
    rows = groups.arrow.to_pandas()
    details = rows.groupby(["region", "iteration"]).detail.agg(["first", "size"])
    assert details.to_dict("index")[1, 0] == {"first": 3, "size": 46}
    assert details.to_dict("index")[2, 1] == {"first": 1, "size": 8}
    assert rows["count"].sum() == 460 + 46
    assert rows[(rows.region == 2) & (rows.oldest == 17)]["count"].tolist() == [4, 4]
    assert groups.specification.loss == PureLoss(Fraction(2 * HUGE))
    with pytest.raises(ValueError, match=r"\(regions, iterations, 46\)"):
        safetab.measure_groups(counts[0], thresholds=(1, 2, 3), stability=1, rho=1, randomness=randomness)


def test_safetab_measures_households_in_the_tables_that_published_totals_determine(randomness: Randomness) -> None:
    """By type, then tenure: the first group is below all thresholds, the second above all."""
    counts = np.tile(np.arange(safetab.HOUSEHOLD_CELLS), (2, 1))
    households = safetab.measure_households(
        counts,
        [5, 900],
        {"T3": HUGE, "T4": HUGE},
        thresholds={"T3": (10, 20, 30), "T4": (10,)},
        stability=1,
        noise="laplace",
        kind="pandas",
        randomness=randomness,
    )
    rows = households.table
    assert set(rows[rows.group == 0].table) == {"T03001", "T04001"}
    assert set(rows[rows.group == 1].table) == {"T03004", "T04002"}
    found = rows[rows.group == 1].set_index(["table", "label"])["count"]
    assert found["T03004", "Total"] == found["T04002", "Total"] == counts[0].sum()
    assert found["T03004", "Married couple family"] == counts[0, :4].sum()
    assert found["T04002", "Renter occupied"] == counts[0].reshape(5, 4)[:, 2:].sum()
    assert households.specification.loss == PureLoss(Fraction(4 * HUGE))
    assert "one household changed" in repr(households)
    with pytest.raises(ValueError, match=r"\(groups, 20\)"):
        safetab.measure_households(counts, [1], {"T3": 1}, thresholds={}, stability=1, randomness=randomness)


SCHEMA = topdown.Schema("people", (topdown.Attribute("sex", 2), topdown.Attribute("age", 3)))
TREE = {"state": [0], "county": [0, 0], "tract": [0, 1, 1]}


def estimate(counts: NDArray[np.int64], rho: int, randomness: Randomness, **options: Any) -> topdown.Estimated:
    shares = {"total": "1/4", "sex": "1/4", "detailed": "1/2"}
    return topdown.measure_and_estimate(
        SCHEMA,
        TREE,
        counts,
        rho=rho,
        levels=dict.fromkeys(TREE, "1/3"),
        queries=dict.fromkeys(TREE, shares),
        randomness=randomness,
        **options,
    )


@pytest.mark.parametrize("held", [None, "county"])
def test_topdown_estimates_agree_across_levels_and_hold_what_is_held(held: str | None, randomness: Randomness) -> None:
    counts = np.arange(18).reshape(3, 6) ** 2 % 23
    found = estimate(counts, 1, randomness, held=held, total_first=["state"])
    state, county, tract = found.histograms.values()
    assert (np.concatenate([tract[:1], tract[1:].sum(axis=0, keepdims=True)]) == county).all()
    assert (county.sum(axis=0, keepdims=True) == state).all()
    assert min(table.min() for table in found.histograms.values()) >= 0
    if held:
        assert county.sum(axis=1).tolist() == [counts[0].sum(), counts[1:].sum()]
    assert found.specification.loss == ConcentratedLoss(Fraction(1))
    assert ("the number of records in each county" in repr(found)) == bool(held)
    precise = estimate(counts, 900, randomness, held=held)
    assert np.array_equal(precise.histograms["tract"], counts)


def test_topdown_refuses_trees_and_shares_that_do_not_fit(
    randomness: Randomness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"\(3, 6\)"):
        estimate(np.zeros((2, 6), dtype=int), 1, randomness)
    with pytest.raises(topdown.AllocationError, match="no level block"):
        estimate(np.zeros((3, 6), dtype=int), 1, randomness, held="block")
    with pytest.raises(ValueError, match="negative"):
        estimate(np.full((3, 6), -1), 1, randomness)
    # The places below name one of two roots, and the measurements would be those of a single one.
    monkeypatch.setitem(TREE, "state", [0, 0])
    with pytest.raises(ValueError, match="the root is a single place"):
        estimate(np.zeros((3, 6), dtype=int), 1, randomness)


def test_losses_add_up_exactly_and_convert() -> None:
    parts = [accounting.pure("1/3"), accounting.pure(0.1)]
    assert accounting.compose_pure(parts) == PureLoss(Fraction(13, 30))
    assert accounting.compose_concentrated([accounting.concentrated(0.5), *parts]).rho == Fraction(1, 2) + Fraction(
        109, 1800
    )
    delta = Fraction(1, 10**10)
    assert str(accounting.bun_steinke(accounting.concentrated("2.56"), delta)) == "17.915283"
    assert accounting.approximate(1, "1e-10").delta == delta


RESULTS: list[Callable[[Randomness], Draw]] = [
    lambda source: swap({"size": [1, 1], "county": ["A", "B"], "tenure": ["own", "rent"]}, source),
    lambda source: noise.add_laplace([1], 1, randomness=source),
    lambda source: table_builder.measure({"a": [1]}, {"a": [1]}, rho=1, randomness=source),
    lambda source: estimate(np.zeros((3, 6), dtype=int), 1, source),
]


@pytest.mark.parametrize("make", RESULTS)
def test_every_result_is_frozen_and_prints_its_specification_and_that_it_is_not_charged(
    make: Callable[[Randomness], Draw], randomness: Randomness
) -> None:
    drawn = make(randomness)
    shown = repr(drawn)
    assert f"loss: {accounting.format_loss(drawn.specification.loss)} for one" in shown
    assert "not charged: no ledger counts this loss" in shown
    with pytest.raises(FrozenInstanceError):
        drawn.specification = None  # type: ignore[misc, assignment]
    for value in vars(drawn).values():
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[0] = 1


@pytest.mark.parametrize("name", [name for name in stirred.__all__ if name != "open"])
def test_what_is_public_is_there_and_described(name: str) -> None:
    module = import_module(f"stirred.{name}")
    assert getattr(stirred, name) is module
    for public in module.__all__:
        value = getattr(module, public)
        assert not callable(value) or value.__doc__, public
