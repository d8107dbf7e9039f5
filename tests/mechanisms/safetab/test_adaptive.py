"""SafeTab-P's draw of a block with the real noise: the algorithm group by group, and noise that no count changes."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mechanisms.noise import Noise
from mechanisms.safetab.adaptive import GroupNoise, Kept, draw_block
from mechanisms.safetab.design import Measured, SafeTabPDesign
from mechanisms.safetab.details import AGES, FINEST, cells
from mechanisms.safetab.lists import Iteration, RegionType
from mechanisms.sampling.stream import RandomStream
from tests.depth import examples

Integers = NDArray[np.int64]
Block = tuple[Measured, Integers, list[bool]]
"""A measurement, exact counts of shape (regions, iterations, 46), and whether each iteration is a total only."""

Published = dict[tuple[int, int], tuple[int, list[int]]]
"""By number of the region and place of the iteration: the detail and the counts."""

KEY = bytes(range(32))
STATE, COUNTY = (RegionType.STATE, 2), (RegionType.COUNTY, 2)
DESIGN = SafeTabPDesign(
    states=("01",),
    noise=Noise.GAUSSIAN,
    stabilities={STATE: 2, COUNTY: 2},
    budgets={STATE: Fraction(1), COUNTY: Fraction(1, 2)},
    thresholds={STATE: (3, 6, 9), COUNTY: (4, 4, 10)},
    zero_suppression_chance=Fraction(9, 10),
)
MEASURED = dict(zip((STATE, COUNTY), DESIGN.measured, strict=True))


def iterations(only: Sequence[bool]) -> list[Iteration]:
    """Iterations in the order of their codes; some are a total only."""
    return [Iteration(f"{place + 1001}", "", 2, False, each, False) for place, each in enumerate(only)]


def draw(
    measured: Measured, exact: Integers, only: Sequence[bool], noise: GroupNoise, first: int = 0
) -> Sequence[Kept]:
    """The draw of a block.

    Args:
        measured: the measured lines.
        exact: the finest counts of its groups, shape (regions, iterations, 46).
        only: which iterations are a total only.
        noise: of the draw.
        first: the number of the block's first region.
    """
    region_ids = [f"{first + place:05d}" for place in range(len(exact))]
    return draw_block(measured, region_ids, iterations(only), exact.sum(axis=-1), lambda r, i: exact[r, i], noise)


def published(kept: Sequence[Kept], first: int = 0) -> Published:
    """The published results, group by group."""
    return {
        (int(region) + first, int(column)): (each.detail, counts)
        for each in kept
        for region, column, counts in zip(each.regions, each.iterations, each.cells.tolist(), strict=True)
    }


def by_definition(
    measured: Measured, exact: Integers, only: Sequence[bool]
) -> dict[tuple[int, int], tuple[int, list[int]]]:
    """The algorithm, group by group, with the streams named as documented."""
    name = f"SafeTab-P {measured.region_type.value} {measured.level}"
    streams = {query: RandomStream(KEY, f"{name} {query}") for query in ("total only", "stage 1", "total")}
    found = {}
    for region in range(len(exact)):
        for column, is_only in enumerate(only):
            total = int(exact[region, column].sum())
            if is_only:
                counts, detail = [total + int(measured.total_only.sample(1, streams["total only"])[0])], 0
            else:
                stage_1 = total + int(measured.stage_1.sample(1, streams["stage 1"])[0])
                stage_2 = total + int(measured.stage_2.sample(1, streams["total"])[0])
                detail = sum(threshold <= stage_1 for threshold in measured.thresholds)
                if detail == 0:
                    if measured.cut_off is not None and stage_2 <= measured.cut_off:
                        continue
                    counts = [stage_2]
                else:
                    own = RandomStream(KEY, f"{name} cells {region:05d} {column + 1001}")
                    counts = []
                    for sex in (0, 1):
                        for first, last in AGES[detail]:
                            held = [place for place, (age, _) in enumerate(AGES[3]) if first <= age <= last]
                            counts.append(int(exact[region, column, [23 * sex + place for place in held]].sum()))
                    noise = measured.stage_2.sample(len(counts), own)
                    counts = [count + int(each) for count, each in zip(counts, noise, strict=True)]
            if not measured.negative_counts:
                counts = [max(0, count) for count in counts]
            found[region, column] = (detail, counts)
    return found


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    """A few regions and iterations."""
    pair = draw(st.sampled_from([STATE, COUNTY]))
    only = draw(st.lists(st.booleans() if pair == STATE else st.just(False), max_size=5))
    measured = replace(MEASURED[pair], negative_counts=draw(st.booleans()))
    regions = draw(st.integers(0, 4))
    exact = np.zeros((regions, len(only), FINEST), dtype=np.int64)
    if exact.size:
        place = st.tuples(st.integers(0, regions - 1), st.integers(0, len(only) - 1), st.integers(0, FINEST - 1))
        for where in draw(st.lists(place, max_size=30)):
            exact[where] += draw(st.integers(1, 12))
    return measured, exact, only


@given(blocks())
def test_a_block_is_drawn_as_the_specification_says_group_by_group(
    block: Block,
) -> None:
    measured, exact, only = block
    before = exact.copy()
    kept = draw(measured, exact, only, GroupNoise(DESIGN.measured, KEY))
    assert published(kept) == by_definition(measured, exact, only)
    assert (exact == before).all()
    assert [each.detail for each in kept] == [0, 1, 2, 3]
    for each in kept:
        assert each.cells.shape == (len(each.regions), cells(each.detail))
        order = list(zip(each.regions.tolist(), each.iterations.tolist(), strict=True))
        assert order == sorted(order)


@settings(max_examples=examples(50))
@given(blocks(), st.sets(st.integers(0, 4)))
def test_the_size_of_blocks_changes_nothing(block: Block, cuts: set[int]) -> None:
    measured, exact, only = block
    noise = GroupNoise(DESIGN.measured, KEY)
    found: Published = {}
    for start, stop in pairwise(sorted({0, len(exact), *(cut for cut in cuts if cut < len(exact))})):
        found |= published(draw(measured, exact[start:stop], only, noise, start), start)
    assert found == published(draw(measured, exact, only, GroupNoise(DESIGN.measured, KEY)))


@settings(max_examples=examples(50))
@given(blocks(), st.data())
def test_what_is_published_of_a_group_depends_on_no_other_groups_counts(block: Block, data: st.DataObject) -> None:
    measured, exact, only = block
    if not exact.size:
        return
    group = data.draw(st.tuples(st.integers(0, len(exact) - 1), st.integers(0, len(only) - 1)))
    other = np.random.default_rng(data.draw(st.integers(0, 99))).poisson(0.2, exact.shape)
    other[group] = exact[group]
    kept = [published(draw(measured, each, only, GroupNoise(DESIGN.measured, KEY))) for each in (exact, other)]
    assert kept[0].get(group) == kept[1].get(group)


def test_a_groups_noise_of_one_detail_is_the_same_whatever_its_own_count_is() -> None:
    """The noise of stage 2 is drawn whether or not the group's total is used, and does not move with the count."""
    measured = replace(MEASURED[COUNTY], cut_off=None, thresholds=(10**6,) * 3)
    for counts in (np.zeros((3, 4), dtype=np.int64), np.arange(12).reshape(3, 4)):
        exact = np.zeros((3, 4, FINEST), dtype=np.int64)
        exact[..., 7] = counts
        (first, *_) = draw(measured, exact, [False] * 4, GroupNoise(DESIGN.measured, KEY))
        noise = first.cells[:, 0] - counts.ravel()
        assert noise.tolist() == measured.stage_2.sample(12, RandomStream(KEY, "SafeTab-P COUNTY 2 total")).tolist()


def test_every_stage_and_every_groups_cells_have_noise_of_their_own() -> None:
    """Noise shared by two uses would cancel out: no two of these streams agree on 60 numbers."""
    same = replace(MEASURED[STATE], total_only=MEASURED[STATE].stage_2, stage_1=MEASURED[STATE].stage_2)
    noise = GroupNoise([same, replace(same, level=1)], KEY)
    drawn = [noise.of_next(query, 60) for level in (1, 2) for query in replace(same, level=level).distributions]
    drawn += [
        noise.of_group(replace(same, level=level).query("cells"), region, code, 60)
        for level in (1, 2)
        for region in ("01", "02")
        for code in ("1001", "1002")
    ]
    assert len({tuple(each.tolist()) for each in drawn}) == len(drawn) == 14
    again = [noise.of_group(same.query("cells"), "01", "1001", 60) for _ in range(2)]
    assert again[0].tolist() == again[1].tolist()
    assert noise.of_next(same.query("total"), 60).tolist() != drawn[5].tolist()


def test_totals_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="one row for each region and one column for each iteration"):
        draw_block(
            MEASURED[STATE],
            ["01"],
            iterations([False]),
            np.zeros((1, 2), dtype=np.int64),
            lambda r, i: r,
            None,  # type: ignore[arg-type]
        )


def test_a_group_of_detail_0_counts_equal_thresholds_as_reached() -> None:
    """With (4, 4, 10), no group has detail 1."""
    exact = np.zeros((2000, 3, FINEST), dtype=np.int64)
    exact[..., 0] = 4
    kept = draw(MEASURED[COUNTY], exact, [False] * 3, GroupNoise(DESIGN.measured, KEY))
    assert [len(each.regions) > 0 for each in kept] == [True, False, True, True]


def test_the_share_of_empty_groups_that_stay_is_the_chance_of_exceeding_the_cut_off() -> None:
    """Of 300,000 empty groups, as many stay as the exact probability says, within 5 standard deviations (3e-7)."""
    measured = replace(MEASURED[COUNTY], thresholds=(10**6,) * 3)
    exact = np.broadcast_to(np.zeros(FINEST, dtype=np.int64), (3000, 100, FINEST))
    (first, *rest) = draw_block(
        measured,
        [f"{place:05d}" for place in range(3000)],
        iterations([False] * 100),
        np.zeros((3000, 100), dtype=np.int64),
        lambda r, i: exact[r, i],
        GroupNoise(DESIGN.measured, KEY),
    )
    assert measured.cut_off is not None
    above = np.arange(measured.cut_off + 1, measured.cut_off + 200)
    chance = float(measured.stage_2.probabilities(above).sum())
    assert abs(len(first.regions) - 300_000 * chance) < 5.1 * (300_000 * chance) ** 0.5
    assert not any(len(each.regions) for each in rest)


def test_groups_that_are_totals_only_are_kept_in_their_places_among_the_others() -> None:
    exact = np.zeros((3, 4, FINEST), dtype=np.int64)
    (first, *_) = draw(MEASURED[STATE], exact, [False, True, True, False], GroupNoise(DESIGN.measured, KEY))
    places = list(zip(first.regions.tolist(), first.iterations.tolist(), strict=True))
    assert places == sorted(places)
    assert {column for _, column in places} == {0, 1, 2, 3}
