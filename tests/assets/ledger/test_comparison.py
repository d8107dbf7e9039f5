"""A dataset's releases side by side: every charge appears, only losses that compose are added, and the picture is
readable.
"""

import struct
from fractions import Fraction
from functools import cache, reduce
from itertools import combinations
from operator import add

import dagster as dg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from assets.conventions import join_names
from assets.ledger import charts
from assets.ledger.asset import make_releases_table, make_totals_table
from assets.ledger.charts import draw_comparison
from assets.ledger.comparison import Comparison, Share, compare, find_conversion, list_charges, takes_part
from assets.ledger.page import describe_invariants, describe_releases, describe_totals
from assets.ledger.remarks import write_remarks
from assets.ledger.view import Budget
from mechanisms.accounting.composition import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, CurveLoss, InfiniteLoss, Loss, PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.swapping.design import Rates, SwappingDesign
from mechanisms.topdown.design import HOUSING_UNITS, STATISTICS
from resources.chain import Entry, make_reservation, make_settlement
from tests.depth import deep_cases, examples, quick_cases

DELTA = Fraction(1, 10**10)
PURE, CONCENTRATED, APPROXIMATE = (kind.output_premetric for kind in (PureLoss, ConcentratedLoss, ApproximateLoss))

SWAPPED = SwappingDesign(
    unit="unit",
    match=("TABBLKST", "RTYPE", "FINAL_POP"),
    swap=("TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK", "PLACEFP", "AIANNHCE"),
    held=("NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT", "GQTYPE", "REGIONCE", "DIVISIONCE"),
    swap_rate=Rates.single(Fraction(1, 10)),
    persons=("PERSON_RTYPE", "QAGE", "CENHISP", "CENRACE", "RELSHIP"),
).specification("two_states", 7118)
HOUSED, STATE, UNITS, QUARTERS = (
    "whether a block has a housing unit or not",
    "the number of persons in each state",
    "the number of housing units in each block",
    "the number of occupied group quarters of each type in each block",
)


def for_persons(loss: Loss, *invariants: str) -> Specification:
    return Specification(Flavor("all files of persons", invariants, "person", None, loss.output_premetric), loss)


def rho(value: str) -> ConcentratedLoss:
    return ConcentratedLoss(Fraction(value))


S_DHC = for_persons(rho("2.514562"), HOUSED)
TOPDOWN = for_persons(rho("2.70"), STATE, UNITS, QUARTERS)
PAIR = for_persons(ApproximateLoss(PureLoss(Fraction(2)), Fraction(1, 10**12)), STATE)
PAIRS = for_persons(InfiniteLoss(), HOUSED)
EPSILON = PureLoss(Fraction(0), Fraction(64_071))
CAP = ApproximateLoss(PureLoss(Fraction(50)), DELTA)

LONG = "tenure_and_persons_per_household_by_county_and_tract_2020"
"""A release's name that never fits in one line."""


def charged(*charges: tuple[str, Specification], settled: bool = True) -> tuple[Entry, ...]:
    """The entries of a ledger in which releases were charged in sequence."""
    chain: list[Entry] = []
    for number, (release, specification) in enumerate(charges):
        chain.append(make_reservation(chain, "two_states", release, f"draw {number}", specification, "0" * 64))
        if settled:
            chain.append(make_settlement(chain, chain[-1], "version"))
    return tuple(chain)


def compared(*charges: tuple[str, Specification]) -> Comparison:
    return compare(charged(*charges))


THREE = compared(("s_dhc", S_DHC), ("swapped", SWAPPED), ("redistricting", TOPDOWN))
AGAIN = compared(("s_dhc", S_DHC), ("swapped", SWAPPED), ("redistricting", TOPDOWN), ("s_dhc", for_persons(rho("3"))))


# The comparison


def test_only_the_last_charge_of_each_release_is_the_latest() -> None:
    assert [(charge.release, charge.entry.sequence, charge.latest) for charge in AGAIN.charges] == [
        ("s_dhc", 1, False),
        ("swapped", 3, True),
        ("redistricting", 5, True),
        ("s_dhc", 7, True),
    ]
    assert [charge.specification.loss for charge in AGAIN.latest] == [EPSILON, rho("2.70"), rho("3")]


def test_a_charge_without_a_draw_is_marked() -> None:
    open_charge = compare(charged(("s_dhc", S_DHC), settled=False))
    assert [charge.settled is not None for charge in (*open_charge.charges, *THREE.charges)] == [
        False,
        True,
        True,
        True,
    ]
    assert "s_dhc (charged, not drawn yet)" in str(rows_of(describe_releases(open_charge)["releases"]))
    assert "not drawn" not in str(rows_of(describe_releases(THREE)["releases"]))


def test_without_charges_there_is_nothing_to_compare() -> None:
    nothing = compare([])
    assert (nothing.charges, nothing.totals, nothing.invariants, write_remarks(nothing)) == ((), (), {}, ())
    with pytest.raises(ValueError, match="no charge to draw"):
        draw_comparison(Budget("town", (), CAP), "A town")


def by_kind(comparison: Comparison) -> dict[tuple[str, str], tuple[Share, ...]]:
    return {(total.unit, total.output_premetric): comparison.list_shares(total) for total in comparison.totals}


def test_each_total_counts_every_release_or_says_why_not() -> None:
    """Swapping at ε = 11.07 next to two ρ. Wrong program: adds ε to ρ, such as 11.07 to 2.51."""
    found = {
        kind: [(share.charge.release, share.loss, share.reason) for share in shares]
        for kind, shares in by_kind(THREE).items()
    }
    no_epsilon = "ρ-zCDP lets probabilities differ by any factor, if rarely: no ε holds without a δ"
    no_unit = "a guarantee for one person bounds no change of a unit"
    assert found == {
        ("person", PURE): [
            ("s_dhc", None, no_epsilon),
            ("swapped", EPSILON, None),
            ("redistricting", None, no_epsilon),
        ],
        ("person", CONCENTRATED): [
            ("s_dhc", rho("2.514562"), None),
            ("swapped", ConcentratedLoss.of_pure(EPSILON), None),
            ("redistricting", rho("2.70"), None),
        ],
        ("person", APPROXIMATE): [
            ("s_dhc", rho("2.514562"), None),
            ("swapped", EPSILON, None),
            ("redistricting", rho("2.70"), None),
        ],
        ("unit", PURE): [("s_dhc", None, no_unit), ("swapped", EPSILON, None), ("redistricting", None, no_unit)],
    }


def test_a_total_holds_within_exactly_the_invariants_of_the_releases_it_counts() -> None:
    swapping = set(SWAPPED.flavor.multiverse)
    every = swapping | {HOUSED, STATE, UNITS, QUARTERS}
    held = {(total.unit, total.output_premetric): set(total.multiverse) for total in THREE.totals}
    assert held == {
        ("person", PURE): swapping,
        ("person", CONCENTRATED): every,
        ("person", APPROXIMATE): every,
        ("unit", PURE): swapping,
    }
    assert set(THREE.invariants) == every
    together = compared(("s_dhc", S_DHC), ("redistricting", TOPDOWN), ("mean", PAIR))
    assert together.invariants[STATE] == ("redistricting", "mean")


pure = st.builds(PureLoss.logarithm, st.fractions(1, 10**5, max_denominator=20))
concentrated = st.builds(ConcentratedLoss, st.fractions("1/50", 20, max_denominator=50))
approximate = st.builds(
    ApproximateLoss, st.builds(PureLoss, st.fractions(0, 5, max_denominator=10)), st.just(Fraction(1, 10**15))
)
invariants = st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True, max_size=3).map(tuple)


@st.composite
def specifications(draw: st.DrawFn) -> Specification:
    unit, per_person = draw(st.sampled_from([("household", 1), ("record", None), ("person", None)]))
    loss: Loss = draw(st.one_of(pure, concentrated, approximate))
    return Specification(Flavor("all files", draw(invariants), unit, per_person, loss.output_premetric), loss)


charges = st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), specifications()), min_size=1, max_size=6)


@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None)
@given(charges)
def test_for_any_charges_the_shares_add_up_to_the_totals(made: list[tuple[str, Specification]]) -> None:
    comparison = compared(*made)
    for total in comparison.totals:
        shares = comparison.list_shares(total)
        counted = [share for share in shares if share.loss is not None]
        assert len(shares) == len(made)
        assert len(counted) == total.releases
        assert all((share.loss is None) == (share.reason is not None) for share in shares)
        assert set(total.multiverse) == {
            words for share in counted for words in share.charge.specification.flavor.multiverse
        }
        losses = [share.loss for share in counted if share.loss is not None]
        if isinstance(total.loss, ApproximateLoss):
            together = find_conversion(shares, total.loss)
            assert together
            apart = [loss for loss in losses if not takes_part(loss, together)]
            epsilons = [loss.epsilon if isinstance(loss, ApproximateLoss) else loss for loss in apart]
            assert reduce(add, epsilons, together.epsilon) == total.loss.epsilon
        else:
            assert {type(loss) for loss in losses} == {type(total.loss)}
            assert reduce(add, losses) == total.loss


@settings(max_examples=examples(100), deadline=None)
@given(charges)
def test_for_any_charges_each_release_has_one_latest_charge_and_each_invariant_its_holders(
    made: list[tuple[str, Specification]],
) -> None:
    comparison = compared(*made)
    assert {charge.release: charge.entry.sequence for charge in comparison.latest} == {
        release: 2 * number + 1 for number, (release, _) in enumerate(made)
    }
    assert len(comparison.latest) == len({release for release, _ in made})
    assert {words: set(releases) for words, releases in comparison.invariants.items()} == {
        words: {release for release, each in made if words in each.flavor.multiverse}
        for _, specification in made
        for words in specification.flavor.multiverse
    }


# As tables and in words


def test_the_stored_table_has_a_row_for_each_charge_that_reproduces_the_totals() -> None:
    rows = make_releases_table(AGAIN.charges).to_pylist()
    assert [(row["release"], row["entry"], row["latest"], row["unit"]) for row in rows] == [
        ("s_dhc", 1, False, "person"),
        ("swapped", 3, True, "unit"),
        ("redistricting", 5, True, "person"),
        ("s_dhc", 7, True, "person"),
    ]
    assert [row["invariants"] for row in rows] == [
        list(charge.specification.flavor.multiverse) for charge in AGAIN.charges
    ]
    assert [(row["loss"], row["ln"], row["rho"]) for row in rows] == [
        (2.5146, None, "1257281/500000"),
        (11.0678, "64071", None),
        (2.7, None, "27/10"),
        (3.0, None, "3"),
    ]
    epsilons = Fraction(rows[1]["rational"]) + Fraction(EPSILON.round_up(20))
    again = sum((Fraction(row["rho"]) for row in rows if row["rho"]), epsilons**2 / 2)
    (stored,) = [row for row in make_totals_table(AGAIN.totals).to_pylist() if row["output_premetric"] == CONCENTRATED]
    assert again == Fraction(stored["rho"])
    assert stored["charges"] == 4


def test_the_table_converts_only_zcdp_by_both_bounds() -> None:
    rows = {row["release"]: row for row in make_releases_table(THREE.charges).to_pylist()}
    assert rows["swapped"]["epsilon"] is rows["swapped"]["conversion_delta"] is None
    assert rows["s_dhc"]["epsilon"] == float(canonne_kamath_steinke(rho("2.514562"), DELTA, 4)) == 16.9802
    assert rows["s_dhc"]["epsilon_bun_steinke"] == float(bun_steinke(rho("2.514562"), DELTA, 4)) == 17.7330
    assert rows["s_dhc"]["conversion_delta"] == "1/10000000000"


def text_of(markdown: dg.MetadataValue) -> str:
    """A Markdown text without the marks that keep Markdown from changing its words."""
    assert isinstance(markdown, dg.MarkdownMetadataValue)
    assert markdown.md_str
    return markdown.md_str.replace("\\", "")


def rows_of(table: dg.MetadataValue) -> list[dict[str, str]]:
    """The rows of a table that fits on the page; one that does not is a list in Markdown."""
    assert isinstance(table, dg.TableMetadataValue)
    assert len(table.schema.columns) <= 4
    return [{name: str(cell) for name, cell in record.data.items()} for record in table.records]


def test_the_shown_table_has_one_row_per_release_for_its_latest_charge() -> None:
    shown = describe_releases(AGAIN)
    releases, guarantees = rows_of(shown["releases"]), rows_of(shown["guarantees"])
    assert [(row["release"], row["loss"], row["charges"]) for row in releases] == [
        ("swapped", "ε = 11.0678", "1"),
        ("redistricting", "ρ = 2.7000", "1"),
        ("s_dhc", "ρ = 3.0000", "2"),
    ]
    assert [(row["release"], row["exactly"]) for row in guarantees] == [
        ("swapped", "ln(64071)"),
        ("redistricting", "27/10"),
        ("s_dhc", "3"),
    ]
    assert [row["release"] for row in rows_of(shown["ε at δ = 1e-10"])] == ["redistricting", "s_dhc"]
    assert "- Domain of redistricting and s_dhc: all files of persons." in text_of(shown["domains"])


def test_the_shown_totals_name_what_they_count_and_what_they_leave_out() -> None:
    shown = describe_totals(THREE)
    totals = {(row["unit"], row["output premetric"]): row["loss"] for row in rows_of(shown["totals"])}
    counts = text_of(shown["what they count"]).splitlines()
    together, alone = totals["person (no moves)", CONCENTRATED], totals["unit", PURE]
    every = f"- **{together} for one person (no moves)** counts s_dhc, swapped and redistricting, with 6 invariants"
    assert f"{every}; leaves out nothing" in counts
    (of_units,) = [line for line in counts if line.startswith(f"- **{alone} for one unit**")]
    assert " counts swapped, with 2 invariants; " in of_units
    assert "leaves out s_dhc and redistricting: a guarantee for one person" in of_units
    assert f"- {UNITS} (redistricting)" in text_of(describe_invariants(THREE)).splitlines()


def test_the_text_says_what_adds_up_and_what_does_not() -> None:
    alone, together = (canonne_kamath_steinke(rho(value), DELTA, 4) for value in ("2.70", "5.214562"))
    said = "\n".join(write_remarks(THREE))
    for words in (
        "ε = 11.0678 of swapped cannot be added to ρ directly: in zCDP, a pure ε counts as ε²/2, here ρ = 61.2476.",
        f"ε = 16.9802 of s_dhc and ε = {alone} of redistricting at δ = 1e-10 cannot be added directly",
        f"at δ = 1e-10, ρ = 5.2146 is converted to ε = {together}; the pure ε of swapped is added to that.",
        "swapped: a guarantee for one unit counts once for a change of one person's characteristics. Neither it nor "
        "any total that counts it bounds a person's move from one unit to another.",
        "s_dhc and redistricting: a guarantee for one person does not bound a change of a unit",
        "A total compares only data sets that agree on every invariant of all the releases it counts: on 6,",
        "(s_dhc alone has 1, swapped alone has 2 and redistricting alone has 3)",
    ):
        assert words in said
    assert "was charged" not in said
    assert "s_dhc was charged 2 times (ledger entries 1 and 7)" in "\n".join(write_remarks(AGAIN))


def test_the_text_says_only_what_is_true() -> None:
    alone = "\n".join(write_remarks(compared(("s_dhc", S_DHC))))
    assert alone.startswith("A total compares only data sets that agree")
    assert len(alone.splitlines()) == 1
    same = "\n".join(write_remarks(compared(("one", TOPDOWN), ("other", TOPDOWN))))
    assert "cannot be added directly" in same
    assert "finer" not in same
    assert "ε²/2" not in same
    nested = "\n".join(write_remarks(compared(("one", TOPDOWN), ("other", PAIR))))
    assert "one holds every invariant of other, and more." in nested
    assert "other holds every" not in nested


# As a picture

FOUR = compared(("s_dhc", S_DHC), (LONG, SWAPPED), ("redistricting", TOPDOWN), ("mean", PAIR), ("s_dhc", S_DHC))
SMALL = compared(*[("small", for_persons(PureLoss(Fraction(1, 100)), STATE))] * 3, ("s_dhc", S_DHC))
CASES: dict[str, tuple[Comparison, Loss]] = {
    "one": (compared(("swapped", SWAPPED)), CAP),
    "two": (compared(("s_dhc", S_DHC), ("swapped", SWAPPED)), rho("80")),
    "three": (THREE, CAP),
    "four": (FOUR, CAP),
    "small": (SMALL, CAP),
    "beside an infinite one": (compared(("swapped", SWAPPED), ("pairs", PAIRS), ("s_dhc", S_DHC)), CAP),
    "under a cap in pure DP": (compared(("swapped", SWAPPED)), PureLoss(Fraction(12))),
    "under a cap that cannot count it": (THREE, PureLoss(Fraction(12))),
    "under a cap on the curve": (compared(("s_dhc", S_DHC), ("swapped", SWAPPED)), CurveLoss(CAP.epsilon, CAP.delta)),
}


@cache
def figure_of(comparison: Comparison, cap: Loss) -> Figure:
    """The figure of a comparison, before it is rendered."""
    figures: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "png", figures.append)
        draw_comparison(
            Budget("two_states", comparison.charges, cap), "A synthetic census of Delaware and Rhode Island"
        )
    figures[0].draw_without_rendering()
    return figures[0]


@pytest.fixture(params=CASES)
def drawn(request: pytest.FixtureRequest) -> tuple[str, Figure]:
    """The name of a comparison, and its picture."""
    return request.param, figure_of(*CASES[request.param])


def texts_of(figure: Figure) -> list[Text]:
    """All labels of a picture that are not empty."""
    labels = [*figure.texts]
    for axes in figure.axes:
        labels += [child for child in axes.get_children() if isinstance(child, Text)]
        labels += [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label]
    return [label for label in labels if label.get_text().strip()]


def words_of(figure: Figure) -> str:
    return " ".join(" ".join(label.get_text() for label in texts_of(figure)).split())


@deep_cases(1)
@quick_cases(2)
def test_every_label_of_the_picture_is_complete_and_none_overlap(drawn: tuple[str, Figure]) -> None:
    _, figure = drawn
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    for words, box in boxes:
        assert box.x0 >= 0, words
        assert box.y0 >= 0, words
        assert box.x1 <= figure.bbox.x1, words
        assert box.y1 <= figure.bbox.y1, words
    for (words, box), (others, other) in combinations(boxes, 2):
        assert not overlap(box, other), f"{words!r} and {others!r}"


def overlap(one: Bbox, other: Bbox) -> bool:
    """Whether two labels overlap by more than the space between lines of text."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return width > 2 and height > 4


@deep_cases(0)
@quick_cases(3)
def test_no_label_overlaps_a_bar(drawn: tuple[str, Figure]) -> None:
    _, figure = drawn
    bars = [bar.get_window_extent() for axes in figure.axes for bar in axes.patches]
    for text in texts_of(figure):
        assert not any(overlap(text.get_window_extent(), bar) for bar in bars), text.get_text()


def total_under(comparison: Comparison, cap: Loss) -> Loss:
    total = Budget("", comparison.charges, cap).total
    assert total is not None
    return total


def test_the_bars_of_a_panel_add_up_to_its_total(drawn: tuple[str, Figure]) -> None:
    name, figure = drawn
    comparison, cap = CASES[name]
    lengths = []
    for axes in figure.axes:
        bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
        whole = [bar for bar in bars if bar.get_facecolor() == to_rgba(charts.INK)]
        others = [bar for bar in bars if bar not in whole]
        if not others:
            assert isinstance(cap, CurveLoss), "only a bound of a curve is no sum"
            lengths.append(whole[0].get_width())
            continue
        end = max(bar.get_x() + bar.get_width() for bar in others)
        rows = {bar.get_y() for bar in others}
        assert len(whole) == (len(rows) > 1), "a panel with one release shows its loss once"
        assert [(bar.get_x(), bar.get_width()) for bar in whole] == [(0, pytest.approx(end))] * len(whole)
        assert sum(bar.get_width() for bar in others) == pytest.approx(end), "no bar shows a sum"
        lengths.append(end)
    expected = [float(total.loss) for total in comparison.totals if total.loss != InfiniteLoss()]
    if len(figure.axes) > len(expected):
        expected.append(float(total_under(comparison, cap)))
    assert sorted(lengths) == pytest.approx(sorted(expected))


def test_an_infinite_loss_is_said_beside_every_finite_total() -> None:
    comparison, cap = CASES["beside an infinite one"]
    finite = compared(("swapped", SWAPPED), ("s_dhc", S_DHC))
    assert total_under(comparison, cap) == total_under(finite, cap)
    assert [charge.release for charge in comparison.infinite] == ["pairs"]
    said = write_remarks(comparison)[0]
    assert "No finite loss holds for pairs (ε = ∞)" in said
    assert "nothing bounds what all releases disclose together" in said
    assert not any("∞" in remark for remark in write_remarks(finite))
    shown = describe_releases(comparison)
    (row,) = [row for row in rows_of(shown["releases"]) if row["release"] == "pairs"]
    assert (row["unit"], row["loss"]) == ("person (bounded)", "ε = ∞")
    (row,) = [row for row in rows_of(shown["guarantees"]) if row["release"] == "pairs"]
    assert (row["output premetric"], row["exactly"]) == ("multiplicative distance, with no finite bound", "∞")
    assert "ε = ∞: without a finite loss, and without a bar: pairs." in words_of(figure_of(comparison, cap))
    assert "∞" not in words_of(figure_of(finite, cap))
    (row,) = [row for row in make_totals_table(comparison.totals).to_pylist() if row["loss"] == float("inf")]
    assert (row["unit"], row["charges"], row["rational"], row["rho"]) == ("person", 3, None, None)


def test_a_population_with_nothing_but_infinite_losses_has_a_picture() -> None:
    only = compared(("pairs", PAIRS), ("pairs", PAIRS))
    drawn = words_of(figure_of(only, PureLoss(Fraction(12))))
    assert "12.0000 is left" in drawn
    assert "ε = ∞: without a finite loss" in drawn


def dashed(figure: Figure) -> list[float]:
    return [
        float(line.get_xdata()[0])  # type: ignore[index, arg-type]
        for axes in figure.axes
        for line in axes.lines
        if line.get_color() == charts.VERMILION
    ]


def test_the_cap_is_drawn_once_in_the_panel_whose_sum_it_limits(drawn: tuple[str, Figure]) -> None:
    name, figure = drawn
    if name == "under a cap that cannot count it":
        assert dashed(figure) == [], "a sum of ρ and ε under a cap in pure DP is none"
    else:
        assert dashed(figure) == [float(CASES[name][1])]
        assert figure.axes[0].lines, "and that panel is the first"


def test_the_figures_of_all_contributions_and_totals_are_beside_the_bars(drawn: tuple[str, Figure]) -> None:
    name, figure = drawn
    comparison, _ = CASES[name]
    written = words_of(figure)
    for total in comparison.totals:
        if total.loss != InfiniteLoss():
            assert f"{total.loss.symbol} = {total.loss.round_up()}" in written
    for charge in comparison.latest:
        if charge.specification.loss != InfiniteLoss():
            assert f"{charge.specification.loss.symbol} = {charge.specification.loss.round_up()}" in written


@pytest.mark.parametrize("name", CASES)
def test_every_invariant_is_named_with_each_release_that_holds_it(name: str) -> None:
    comparison, _ = CASES[name]
    assert text_of(describe_invariants(comparison)).splitlines() == [
        f"- {words} ({join_names(releases)})" for words, releases in comparison.invariants.items()
    ]


@pytest.mark.parametrize("name", CASES)
def test_with_a_total_stands_what_it_does_not_count_and_why(name: str) -> None:
    comparison, _ = CASES[name]
    lines = text_of(describe_totals(comparison)["what they count"]).splitlines()
    for total, line in zip(comparison.totals, lines, strict=True):
        counted, _, left_out = line.partition("; leaves out ")
        for share in comparison.list_shares(total):
            assert share.charge.release in (left_out if share.reason else counted)
            assert share.reason is None or share.reason in left_out


def test_an_invariant_held_only_by_an_earlier_charge_is_marked() -> None:
    lines = text_of(describe_invariants(AGAIN)).splitlines()
    assert [line for line in lines if "earlier" in line] == [f"- {HOUSED} (s_dhc in an earlier charge)"]


def test_an_invariant_is_implied_by_another_one_of_a_release_in_the_words_of_the_mechanisms() -> None:
    """It fails if a mechanism changes its words, because the new ones imply no invariant."""
    assert HOUSED in PHSafeDesign.multiverse
    assert STATISTICS[HOUSING_UNITS].format(level="block") == UNITS
    assert THREE.find_implied(HOUSED) == {"redistricting"}
    assert THREE.find_implied(UNITS) == frozenset(), "a number of units does not follow from there being one"


@pytest.mark.prove
def test_the_same_comparison_gives_the_same_png_1080_pixels_wide() -> None:
    three, again = (Budget("two_states", comparison.charges, CAP) for comparison in (THREE, AGAIN))
    picture = draw_comparison(three, r"A title with $x_{ in it")
    width, height = struct.unpack(">II", picture[16:24])
    assert width == 1080
    assert 800 < height < 2600
    assert picture == draw_comparison(three, r"A title with $x_{ in it")
    assert picture != draw_comparison(again, r"A title with $x_{ in it")


# Copies


@pytest.mark.deep
def test_the_composition_has_a_total_for_contributors_where_a_dataset_declares_copies() -> None:
    """In addition to ρ = 2.514562 for a person, 4ρ for one whose answers are in two records, whenever that was
    declared. The counts under the cap stay the same."""
    entries = charged(("s_dhc", S_DHC), ("swapped", SWAPPED))
    copied = Comparison(list_charges(entries, {"two_states": 2, "another": 5}))
    plain = compare(entries)
    assert [total for total in copied.totals if total.unit != "contributor"] == list(plain.totals)
    loss = {total.output_premetric: total.loss for total in copied.totals if total.unit == "contributor"}
    assert loss[CONCENTRATED] == rho("10.058248") + ConcentratedLoss.of_pure(EPSILON.of_group(2))
    assert loss[PURE] == EPSILON.of_group(2)
    assert [charge.loss for charge in copied.charges] == [charge.loss for charge in plain.charges]
    further = set(write_remarks(copied)) - set(write_remarks(plain))
    assert any("2 records of two_states" in remark for remark in further)
    assert "contributor (no moves)" in str(rows_of(describe_totals(copied)["totals"]))
    assert Budget("two_states", copied.charges, CAP).of_contributor == "ε = 61.5080 at δ = 1e-10"
    assert Budget("two_states", plain.charges, CAP).of_contributor == ""
    assert draw_comparison(Budget("two_states", copied.charges, CAP), "Two states")
