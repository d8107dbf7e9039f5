"""How each method publishes a tract: the contents, and that the removal of a person changes nothing else."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from assets.coarsening.laboratory import Coarsened
from assets.laboratory.attacks import Attack, guess_likeliest, link
from assets.laboratory.evaluation import (
    ALL,
    NONMODAL,
    UNIQUE,
    Truth,
    measure_baselines,
    measure_differences,
    measure_guesses,
    measure_posteriors,
    measure_ratios,
)
from assets.laboratory.grid import remove_each
from assets.laboratory.points import Changing, Draw, Exact, Point, Rounded, Then
from assets.laboratory.publication import Guesses, Publication
from assets.laboratory.records import Tract
from assets.laboratory.utility import (
    measure_association,
    measure_file,
    measure_intervals,
    measure_segregation,
    measure_utility,
)
from assets.pair_swapping.laboratory import PairSwapped
from assets.phsafe.laboratory import PHSafe
from assets.safetab.laboratory import SafeTab
from assets.suppression.laboratory import Suppressed
from assets.swapping.laboratory import Randomized, Swapped, SwappedInGroups, SwappedInTracts
from assets.table_builder.laboratory import NoisyHypercube, PerturbedCounts
from assets.topdown.dhc.laboratory import DHC
from assets.topdown.dhc.laboratory import SCHEMA as DHC_SCHEMA
from assets.topdown.laboratory import TopDown, make_intervals
from mechanisms.races import RACE_COMBINATIONS, SIX_RACES
from mechanisms.risk.baselines import guess_by_share
from mechanisms.risk.posterior import GaussianLaw, LaplaceLaw
from mechanisms.risk.tiers import (
    AGE_STARTS,
    DETAILED_GROUPS,
    GROUP_AGES,
    HOUSEHOLD_TYPES,
    HOUSEHOLDS,
    REDISTRICTING,
    SUMMARY_FILE,
    TIERS,
    WITH_TRACT,
    Tier,
    number_household,
)
from mechanisms.suppression.linked import SUPPRESSED, count_narrow
from mechanisms.table_builder.p_table import PTable
from tests.assets.laboratory.test_attacks import KEY, Blank, find, make_truth
from tests.depth import deep_cases, quick_cases

HALF, BY_PERSONS = Fraction(1, 2), ("persons",)
TABLE = PTable.of([{0: Fraction(1)}, {0: HALF, 2: HALF}, {1: HALF, 3: HALF}, {2: HALF, 4: HALF}])
"""Every count but 0 changes, by 1."""

MOVING: list[Changing] = [
    Swapped(HALF, BY_PERSONS, Fraction(9, 10), 30),
    Swapped(HALF, BY_PERSONS, second_rate=HALF),
    SwappedInGroups(HALF, BY_PERSONS),
    PairSwapped(Fraction(1, 5)),
]


@pytest.fixture(scope="module")
def t1() -> Truth:
    return make_truth(REDISTRICTING)


@pytest.fixture(scope="module")
def t2() -> Truth:
    return make_truth(SUMMARY_FILE, 160, 12)


@pytest.mark.parametrize("point", MOVING, ids=lambda point: point.key)
def test_households_exchange_blocks_with_those_that_match(t1: Truth, point: Changing) -> None:
    """Fails for: a swap that leaves the number of a block's households by size open."""
    tract = t1.tract
    block = point.change(tract, KEY).tract.block
    assert (block != tract.block).mean() > 0
    for size in np.unique(tract.sizes):
        of_size = tract.sizes == size
        assert np.array_equal(np.bincount(block[of_size], minlength=8), np.bincount(tract.block[of_size], minlength=8))


def test_ratios_of_pair_swapping_are_infinite_where_a_household_has_moved(t1: Truth) -> None:
    """Fails for: pairs within one block, which exchange nothing, and missing ratios of households that stay."""
    draw = PairSwapped(Fraction(1, 5)).draw(t1.tract, KEY)
    ratios = {row.measure: row.value for row in measure_ratios(t1, draw, np.zeros((0, 2), dtype=np.int64))}
    assert draw.log_ratios is not None
    assert 350 < len(draw.log_ratios) < 500
    moved = (PairSwapped(Fraction(1, 5)).change(t1.tract, KEY).tract.block != t1.tract.block).mean()
    assert ratios == {"ln ratio, infinite": pytest.approx(1 - (1 - moved) ** 2, abs=0.1)}


def test_rare_households_have_a_rate_of_their_own_and_a_first_stir_stays_in_the_block_group(t1: Truth) -> None:
    tract, never = t1.tract, Fraction(1, 10**6)
    rare = Swapped(never, BY_PERSONS, Fraction(9, 10), 30)
    moved = rare.change(tract, KEY).tract.block != tract.block
    held = [len(np.unique(tract.household[tract.category == category])) for category in range(126)]
    has_rare = np.isin(np.arange(240), tract.household[np.array(held)[tract.category] <= 30])
    assert moved[has_rare].mean() > 0.5
    assert not moved[~has_rare].any()
    first = Swapped(HALF, BY_PERSONS, second_rate=never).change(tract, KEY).tract.block
    assert np.array_equal(tract.block_group[first], tract.block_group[tract.block])
    assert not np.array_equal(first, tract.block)
    only = SwappedInGroups(HALF, BY_PERSONS).change(tract, KEY)
    assert np.array_equal(tract.block_group[only.tract.block], tract.block_group[tract.block])
    assert only.bound is not None
    assert 0 < np.abs(only.log_ratios).max() <= only.bound


def test_in_a_county_swaps_cross_tracts_and_topdown_measures_the_county(t1: Truth) -> None:
    """Fails for: swaps that stay within tracts or block groups in any case, totals and numbers of blocks of the county
    in place of the tract's, and a level that is not measured, or whose places lie in the wrong larger places."""
    group, tract = np.arange(8) // 2, np.arange(8) // 4
    county = Truth(replace(t1.tract, block_group=group, tract=tract))
    errors, first = {}, tract[t1.tract.block]
    for point in (Swapped(HALF, BY_PERSONS), SwappedInTracts(HALF, BY_PERSONS), SwappedInGroups(HALF, BY_PERSONS)):
        block = point.change(county.tract, KEY).tract.block
        crossed = (tract[block] != first).mean(), (group[block] != group[t1.tract.block]).mean()
        assert [share > 0.1 for share in crossed] == [type(point) is Swapped, type(point) is not SwappedInGroups]
        assert [share > 0 for share in crossed] == [share > 0.1 for share in crossed]
        published = point.draw(county.tract, KEY).publication
        errors[point.key] = {
            level: find(measure_utility(county, published), f"cells of a {level}, not 0", "mean absolute error") > 0
            for level in ("block", "block group", "tract", "county")
        }
        assert np.array_equal(published.totals[3], published.counts[:4].sum(axis=0))
        assert np.array_equal(published.totals[4], published.counts[4:].sum(axis=0))
        assert published.blocks.tolist() == [4] * 8
    assert [list(wrong.values()) for wrong in errors.values()] == [
        [True, True, True, False], [True, True, False, False], [True, False, False, False],
    ]  # fmt: skip
    topdown = TopDown(Fraction(10**6), measurements=True)
    measured = topdown.measure(county.tract, KEY)
    assert {level: len(counts) for (level, query), counts in measured.items() if query == "total"} == {
        "County": 1, "Tract": 2, "Block_Group": 4, "Block": 8,
    }  # fmt: skip
    share = Fraction(447, 4099) * Fraction(3126, 4097 - 20)
    assert topdown.find_variances(["County"])["County", "total"] == 1 / (10**6 * share), "but for two queries"
    assert np.array_equal(topdown.estimate(county.tract, measured), county.counts), "next to no noise"


def test_topdown_measures_with_the_declared_noise_and_the_same_noise_without_a_person(t1: Truth) -> None:
    """Fails for: noise of σ² = 1/2ρ, a tract that is not the root of its own tree, microdata that contradict it,
    and noise that depends on the counts."""
    point = TopDown(Fraction(256, 100), measurements=True)
    published = point.draw(t1.tract, KEY).publication
    exact = t1.counts.reshape(8, -1)
    for query in published.measured:
        if query.counts.size >= 1000:
            noise = query.counts - np.array([np.bincount(query.cells.ravel(), block) for block in exact])
            assert noise.var() == pytest.approx(query.variance, rel=0.2)
    assert min(query.variance for query in published.measured) == pytest.approx(10, rel=0.1), "1/(2.56 · 165/4099 · …)"
    assert published.counts.min() >= 0
    assert published.counts.sum() == pytest.approx(exact.sum(), abs=5)
    # Invariant populations neither remove noise nor add any.
    invariant = replace(point, populations=True).draw(t1.tract, KEY).publication
    same = [
        np.array_equal(one.counts, other.counts)
        for one, other in zip(invariant.measured, published.measured, strict=True)
    ]
    persons = exact.sum(axis=1)
    assert all(same)
    assert (invariant.counts.sum(axis=(1, 2)) == persons).all()
    assert (published.counts.sum(axis=(1, 2)) != persons).any()
    person, group = 7, t1.tract.block_group[t1.tract.place]
    without = point.publish_without(t1.tract, person, KEY)
    for query, then in zip(published.measured, without.measured, strict=True):
        own = query.cells[t1.tract.frame[person], t1.tract.category[person]]
        for counts, counts_then, place in (
            (query.counts, then.counts, t1.tract.place == t1.tract.place[person]),
            (query.totals, then.totals, group == group[person]),
        ):
            expected = np.zeros_like(counts)
            expected[np.unique(t1.tract.place[place]), own] = 1
            assert np.array_equal(counts - counts_then, expected)


@pytest.mark.prove
def test_the_dhc_lies_within_the_redistricting_data_of_the_same_draw(t2: Truth) -> None:
    """Fails for: adults and minors that are estimated again, the noise of production's other levels, microdata
    that ignore the measurements, and an attacker who ignores them."""
    tract, adult = t2.tract, t2.tract.tier.tables["P3"][:, 0] >= 0
    drawn = [DHC(Fraction(factor), measurements=True).draw(tract, KEY).publication for factor in (1, 10**4)]
    coarse = replace(tract, tier=REDISTRICTING, frame=tract.adult.astype(np.int64))
    rho = Fraction(542, 339) ** 2
    for factor, published in zip((1, 10**4), drawn, strict=True):
        redistricting = TopDown(factor * rho, measurements=True)
        held = redistricting.draw(coarse, KEY).publication
        for number in range(2):
            assert np.array_equal(published.counts[:, adult == number].sum(axis=1), held.counts[:, number])
        assert published.counts.min() >= 0
        for ours, theirs in zip(published.measured[: len(held.measured)], held.measured, strict=True):
            assert np.array_equal(ours.counts, theirs.counts)
            assert np.array_equal(ours.cells[adult], np.broadcast_to(theirs.cells[1], (adult.sum(), 126)))
    right = [np.minimum(published.counts, t2.counts).sum() / t2.counts.sum() for published in drawn]
    assert right[0] < 0.5 < 0.95 < right[1]
    without, expected = (
        DHC(Fraction(1), measurements=True).publish_without(tract, 7, KEY),
        DHC(Fraction(1), measurements=True).draw(tract.without(7), KEY).publication,
    )
    assert np.array_equal(without.counts, expected.counts)
    for ours, theirs in zip(without.measured, expected.measured, strict=True):
        assert np.array_equal(ours.counts, theirs.counts)
    differences = [
        np.abs(ours.counts - theirs.counts).sum()
        for ours, theirs in zip(drawn[0].measured, without.measured, strict=True)
    ]
    assert differences == [1] * len(differences), "the same noise, and one person less"
    shares = DHC(Fraction(1), measurements=True).find_variances(("Tract", "Block_Group", "Block"))
    assert shares["Block", "detailed"] == Fraction(10**4, 11)
    assert shares["Block_Group", "hispanic * sex"] == Fraction(10**4, 430)
    assert shares["Tract", "age_38_groups * sex"] == Fraction(10**4, 868)
    types = np.arange(DHC_SCHEMA.size).reshape(tract.tier.shape)
    assert np.array_equal(DHC_SCHEMA.marginal("sex * age").cells[types[:, 0]], np.arange(76))
    detailed = drawn[1].measured[-1]
    assert detailed.cells.ravel().tolist() == list(range(DHC_SCHEMA.size))
    assert np.abs(detailed.counts - t2.counts.reshape(tract.blocks, -1)).max() < 3
    coarse_only, alone = (replace(drawn[1], measured=drawn[1].measured[:end]) for end in (len(held.measured), 0))
    in_groups = replace(
        drawn[1], measured=(*coarse_only.measured, *(replace(each, variance=1e12) for each in drawn[1].measured[-2:]))
    )
    accuracy = [
        find(measure_guesses(t2, "link", link(published, t2.file)), UNIQUE, "accuracy")
        for published in (*drawn, coarse_only, alone, in_groups)
    ]
    assert accuracy[1] > accuracy[4] > accuracy[2] + 0.05, "those of block groups tell more by themselves"
    assert min(accuracy[1], accuracy[3]) > 0.95 > 0.6 > accuracy[2] > accuracy[0] > 0, (
        "measurements tell what microdata do"
    )


def test_a_cell_key_belongs_to_the_records_of_a_cell(t2: Truth) -> None:
    """Fails for: independent changes of each cell, and keys of positions, which a missing person shifts."""
    point, tract = PerturbedCounts("made", TABLE), t2.tract
    published, exact = point.draw(tract, KEY).publication.counts, tract.tier.tabulate(t2.counts)
    changes = published - exact
    types = tract.frame * tract.tier.shape[1] + tract.category
    records: dict[frozenset[int], set[int]] = {}
    for block in range(tract.blocks):
        persons = np.flatnonzero(tract.place == block)
        for of_table in tract.tier.cells:
            for cell in np.unique(of_table[types[persons]]):
                members = frozenset(persons[of_table[types[persons]] == cell].tolist())
                if cell >= 0:
                    records.setdefault(members, set()).add(int(changes[block, cell]))
    assert len(records) > 200
    assert all(len(of_records) == 1 for of_records in records.values())
    assert {min(of_records) for of_records in records.values()} == {-1, 1}
    last = len(types) - 1
    without = point.draw(tract.without(last), KEY).publication.counts
    hers = np.zeros_like(exact, dtype=bool)
    of_tables = tract.tier.cells[:, types[last]]
    hers[tract.place[last], of_tables[of_tables >= 0]] = True
    assert np.array_equal(published[~hers], without[~hers])


def test_tables_of_the_tract_are_published_beside_those_of_blocks_and_attacked_together() -> None:
    """Fails for: swaps that change the tract, noise of a share for each table of the block alone, changes of a
    tract's cell that differ from the changes of a block's cell with the same records, an attack on blocks alone, and a
    world without a person whose tract still has the record."""
    truth, of_tract = make_truth(WITH_TRACT, 60, 4), WITH_TRACT.of_tract
    assert of_tract is not None
    tract, exact = truth.tract, Exact().draw(truth.tract, KEY).publication
    swapped, noisy, keyed = (
        point.draw(tract, KEY).publication
        for point in (Swapped(HALF, BY_PERSONS), NoisyHypercube(Fraction(31)), PerturbedCounts("made", TABLE))
    )
    assert exact.around is not None
    assert np.array_equal(swapped.around, exact.around)
    assert noisy.law == LaplaceLaw(1)
    assert np.abs(noisy.around - exact.around)[0].mean() == pytest.approx(1 / np.sinh(1), rel=0.1)
    # For a man under 20 whose age no other man of the tract has: his cells of P14 and of PCT12.
    (single,) = np.nonzero(np.bincount(tract.frame)[:20] == 1)
    assert len(single)
    block = [tract.place[tract.frame == frame][0] for frame in single]
    in_block = keyed.table("P14", keyed.counts - exact.counts)[block, single]
    assert np.array_equal((keyed.around - exact.around)[0, single], in_block)
    right = []
    for published, frame in (
        (exact, tract.frame),
        (replace(exact, tier_name="T2", around=None), of_tract.group[tract.frame]),
    ):
        guesses = link(published, replace(truth.file, frame=frame))
        right.append(find(measure_guesses(truth, "link", guesses), NONMODAL, "accuracy"))
    assert right[0] > right[1]
    worlds, _ = remove_each(truth, Exact(), KEY, np.array([3, 50]))
    assert [(exact.around - world.publication.around)[0].sum() for world in worlds] == [3, 3], "by race, and in all"


def test_another_process_publishes_the_same(t1: Truth, t2: Truth) -> None:
    """Fails for: a tier that changes when it is sent, so that no method counts its types any more."""
    for truth in (t1, t2):
        sent: Truth = pickle.loads(pickle.dumps(truth))
        for point in (NoisyHypercube(Fraction(1)), PerturbedCounts("made", TABLE), Rounded(3)):
            here, there = (point.draw(tract, KEY).publication.counts for tract in (truth.tract, sent.tract))
            assert here.shape == there.shape
            assert np.array_equal(here, there)
    for tier in TIERS.values():
        assert pickle.loads(pickle.dumps(tier)) is tier


@pytest.mark.deep
def test_more_noise_names_fewer_unique_persons_and_no_ratio_exceeds_the_bound(t1: Truth, t2: Truth) -> None:
    """Fails for: a table that has the whole ε, and an attack on tables that ignores their contents."""
    pairs = np.random.default_rng(1).integers(0, len(t2.tract.household), (300, 2))
    accuracy = []
    for point in (Exact(), NoisyHypercube(Fraction(60)), NoisyHypercube(Fraction(4))):
        draw = point.draw(t2.tract, KEY)
        law = draw.publication.law
        if isinstance(law, LaplaceLaw):
            _require_coverage(t2, draw.publication)
            _require_coverage(t1, point.draw(t1.tract, KEY).publication)
        attacks = (link, guess_likeliest) if draw.publication.needs_program else (link,)
        guesses = [measure_guesses(t2, "link", attack(draw.publication, t2.file)) for attack in attacks]
        accuracy.append([find(measures, UNIQUE, "accuracy") for measures in guesses])
        if draw.bound is not None:
            ratios = {row.measure: row.value for row in measure_ratios(t2, draw, pairs)}
            assert draw.bound / 4 < ratios["ln ratio, greatest"] <= draw.bound
            one = point.draw(t1.tract, KEY)
            ratios = {row.measure: row.value for row in measure_ratios(t1, one, pairs)}
            assert ratios["ln ratio, greatest"] == pytest.approx(one.bound), "two cells change, each as far as it can"
    assert accuracy[0][0] > 0.6 > min(accuracy[1]) > 0.4 > max(accuracy[2])


def _require_coverage(truth: Truth, published: Publication) -> None:
    """Five standard deviations of the exact coverage. Fails for: continuous quantiles, one-sided intervals, and
    intervals of a hypercube's cells used for its sums."""
    measured, law = list(measure_utility(truth, published)), published.law
    assert isinstance(law, LaplaceLaw)
    half, q = find(measured, "cells of a block", "width of 90% intervals") / 2, np.exp(-1 / law.scale)
    coverage = 1 - 2 * q ** (half + 1) / (1 + q)
    assert 1 - 2 * q**half / (1 + q) < 0.9 <= coverage
    inside = find(measured, "cells of a block", "in 90% intervals")
    assert abs(inside - coverage) <= 5 * np.sqrt(coverage * (1 - coverage) / published.counts.size)


def test_who_knows_all_others_learns_as_much_as_noise_lets_through(t1: Truth, t2: Truth) -> None:
    """Fails for: a true category among the candidates though no neighbor has it, the truth as the prior, and counts
    that still include the target."""
    targets = np.arange(40)

    def measure(truth: Truth, published: Publication) -> tuple[float, float]:
        assert published.law is not None
        rows = list(measure_posteriors(truth, targets, published, published.law))
        subset = NONMODAL if truth is t1 else UNIQUE
        mean, high, greatest = (
            find(rows, subset, f"posterior to prior{kind}") for kind in ("", ", 95th percentile", ", greatest")
        )
        each = [
            list(measure_posteriors(truth, targets[[target]], published, published.law))
            for target in np.flatnonzero(truth.subsets[subset][targets])
        ]
        ratios, right = ([find(of_one, subset, name) for of_one in each] for name in ("posterior to prior", "accuracy"))
        assert [mean, high, greatest] == pytest.approx([np.mean(ratios), np.quantile(ratios, 0.95), max(ratios)])
        over = [find(rows, subset, f"true category over {least}") for least in (0.5, 0.9)]
        assert over == [np.mean(np.array(right) > least) for least in (0.5, 0.9)]
        return find(rows, subset, "accuracy"), mean

    blank = measure(t1, Blank().draw(t1.tract, KEY).publication)
    assert 0 < blank[0] < 0.1
    assert 0.9 < blank[1] <= 1 + 1e-9, "all but those whose category nobody near has"
    for truth in (t1, t2):
        drawn = [NoisyHypercube(Fraction(epsilon)).draw(truth.tract, KEY) for epsilon in (Fraction(1, 10), 400)]
        (little, ratio), (much, _) = (measure(truth, each.publication) for each in drawn)
        assert little < 0.5 < 0.7 < much <= 1
        assert drawn[0].bound is not None
        assert ratio <= np.exp(drawn[0].bound)


def test_who_knows_all_others_weighs_all_tables_of_the_block_and_of_the_tract() -> None:
    """Against a tabulation of each whole world. Fails for: tables of the tract that are left out, and a category of the
    target that stays in a table."""
    truth = make_truth(WITH_TRACT, 40, 4)
    tract, targets = truth.tract, np.arange(30)
    published = NoisyHypercube(Fraction(40)).draw(tract, KEY).publication
    assert isinstance(published.law, LaplaceLaw)
    assert published.around is not None
    found, group = [], tract.block_group[tract.place]
    for target in targets[truth.subsets[UNIQUE][targets]].tolist():
        others = np.delete(tract.category, target)[np.delete(group == group[target], target)]
        costs = {}
        for category in np.unique(others).tolist():
            changed = tract.category.copy()
            changed[target] = category
            world = Exact().draw(replace(tract, category=changed), KEY).publication
            assert world.around is not None
            distance = np.abs(world.counts - published.counts).sum()
            distance += np.abs(world.around - published.around)[0].sum()
            costs[category] = distance / published.law.scale
        own = costs.get(tract.category[target], np.inf)
        found.append(1 / sum(np.exp(own - cost) for cost in costs.values()))
    rows = measure_posteriors(truth, targets, published, published.law)
    assert find(rows, UNIQUE, "accuracy") == pytest.approx(np.mean(found))
    assert 0.2 < np.mean(found) < 0.9


def test_files_are_measured_by_their_keys_and_by_whom_they_repeat(t2: Truth) -> None:
    """Fails for: a file that is compared with the records of other blocks, and strangers of the same tract."""
    other, groups = make_truth(SUMMARY_FILE, 100, 4), make_truth_of_types(DETAILED_GROUPS)
    exact = Exact().draw(t2.tract, KEY)
    assert exact.file is not None
    rows = list(measure_file(t2, exact.file, [other], KEY))
    alone = t2.counts.sum(axis=2)[t2.tract.place, t2.tract.frame] == 1
    assert find(rows, ALL, "key of fewer than 2") == pytest.approx(alone.mean())
    assert find(rows, ALL, "nearer to the truth") > 0.8
    turned = find(measure_file(t2, np.roll(exact.file, 1, axis=0), [other], KEY), ALL, "nearer to the truth")
    assert 0.3 < turned < 0.6
    assert 0 < find(rows, ALL, "special unique") < find(rows, ALL, "score of special uniques")
    swapped = Then(Swapped(HALF, BY_PERSONS), PerturbedCounts("made", TABLE)).draw(t2.tract, KEY)
    assert swapped.file is None, "perturbed tables are of no file"
    of_groups = Exact().draw(groups.tract, KEY).file
    assert of_groups is not None
    assert len(list(measure_file(groups, of_groups, [], KEY))) == 7
    coarse = Coarsened(60, 3, by_race=False).draw(t2.tract, KEY).file
    assert coarse is not None
    assert coarse.sum() == t2.counts.sum() > 60 * len(coarse)


def test_who_is_drawn_from_the_shares_of_the_tract_is_right_by_chance() -> None:
    """Two blocks, each of one frame and category of its own: half of the records match, with or without replacement. In
    T3, keys are the same if their age groups are, as in the agreement of a reconstruction."""
    one, nobody, household = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=bool), np.repeat([0, 1], 2000)
    tract = Tract(REDISTRICTING, 2, np.arange(2), one, one, nobody, household, household, household, household)
    with_years = replace(tract, tier=WITH_TRACT, frame=85 + household)
    for each, keys in ((tract, 0.5), (with_years, 1)):
        rows = list(measure_baselines(Truth(each)))
        assert find(rows, ALL, "chance agreement") == pytest.approx(0.5, abs=0.02)
        for name in ("chance of keys", "chance of keys, with replacement"):
            assert find(rows, ALL, name) == pytest.approx(keys, abs=0.02)


def test_what_follows_a_swap_has_the_ratios_of_the_swap(t1: Truth) -> None:
    """Fails for: ratios of the second method's law at the true counts, which that method never saw."""
    swapped, perturbed = Swapped(HALF, BY_PERSONS), PerturbedCounts("made", TABLE)
    both = Then(swapped, perturbed).draw(t1.tract, KEY)
    alone = swapped.draw(t1.tract, KEY)
    assert both.log_ratios is not None
    assert alone.log_ratios is not None
    assert np.array_equal(both.log_ratios, alone.log_ratios)
    counts = t1.tract.tier.tabulate(both.publication.counts)
    assert np.abs(counts - alone.publication.counts).max() > 0
    assert np.abs(both.publication.counts - swapped.change(t1.tract, KEY).tract.count()).max() == 1
    measured = {row.measure for row in measure_ratios(t1, both, np.zeros((1, 2), dtype=np.int64))}
    assert "ln ratio, bound" in measured
    without_ratios = Then(Swapped(HALF, BY_PERSONS, second_rate=HALF), perturbed).draw(t1.tract, KEY)
    assert not list(measure_ratios(t1, without_ratios, np.array([[0, 5], [3, 9]])))


def test_noise_before_a_swap_changes_categories_at_random_and_those_of_one_household_alone(t1: Truth) -> None:
    """Five standard deviations. Fails for: noise that draws the record's own category again, is the same for all
    persons of a household, or shifts if a person is missing."""
    noise, tract = Randomized(Fraction(4, 5)), t1.tract
    changed = noise.change(tract, KEY).tract.category
    moves, persons = (changed - tract.category) % 126, len(tract.category)
    assert abs((moves == 0).sum() - 0.8 * persons) < 5 * np.sqrt(0.16 * persons)
    assert len(np.unique(moves[moves > 0])) > 50
    same = tract.household[1:] == tract.household[:-1]
    assert not np.array_equal(moves[1:][same], moves[:-1][same])
    without = noise.change(tract.without(7), KEY).tract.category
    others = tract.household != tract.household[7]
    assert np.array_equal(changed[others], without[np.delete(others, 7)])
    both = Then(noise, Swapped(HALF, BY_PERSONS)).draw(tract, KEY).publication.counts
    expected = Swapped(HALF, BY_PERSONS).draw(replace(tract, category=changed), KEY).publication.counts
    assert np.array_equal(both, expected)


def test_coarse_places_are_large_and_who_knows_the_rule_follows_the_moves(t2: Truth) -> None:
    """Fails for: an attack that looks for persons where their combination was moved away, a world without the
    target whose other blocks of the place are missing, and errors of a place taken for errors of its block."""
    point, tract = Coarsened(60, 3, by_race=False), t2.tract
    published = point.draw(tract, KEY).publication
    assert published.places is not None
    _, of_place = np.unique(published.places, return_index=True)
    records = published.counts[of_place]
    assert 1 < len(records) < tract.blocks
    assert records.sum(axis=(1, 2)).min() >= 60
    assert records.sum(axis=2)[records.sum(axis=2) > 0].min() >= 3
    exact = np.zeros((len(records), tract.tier.shape[1]), dtype=np.int64)
    np.add.at(exact, (published.places[tract.place], tract.category), 1)
    assert np.array_equal(records.sum(axis=1), exact)
    both = Coarsened(60, 3, by_race=True).draw(tract, KEY).publication.counts
    assert both[both > 0].min() >= 3
    assert not np.array_equal(both.sum(axis=1)[of_place], exact)
    named = [
        find(measure_guesses(t2, "link", link(each, t2.file)), ALL, "named")
        for each in (published, replace(published, moves=None))
    ]
    assert named[0] == pytest.approx(1)
    assert named[1] < 0.9
    (worlds,), _ = remove_each(t2, point, KEY, np.array([3, 100]))
    then = point.draw(tract.without(100), KEY).publication
    together = then.find_neighbors(int(tract.place[100]))
    assert np.array_equal(worlds.publication.take(range(-len(together), 0)).counts, then.counts[together])
    assert worlds.persons.frame[worlds.places[1]] == tract.frame[100]
    persons = len(tract.household)
    assert Coarsened(persons - 1, 3, by_race=False).can_publish(tract)
    assert not Coarsened(persons, 3, by_race=False).can_publish(tract), "nor then the world without a person"
    errors = list(measure_utility(t2, published))
    assert find(errors, "cells of a tract, not 0", "mean absolute error") < 1e-9, (
        "races are kept in a place, and adults"
    )
    assert find(errors, "cells of a block, not 0", "mean absolute error") > 0.5


def test_errors_of_cells_have_their_sign_and_size_at_every_level(t1: Truth) -> None:
    """Fails for: a bias of absolute errors, levels whose errors are not those of sums, and one table's error
    computed over all tables."""
    published = Exact().draw(t1.tract, KEY).publication
    of_p1 = t1.tract.tier.table_of_cell == 0
    changed = replace(published, counts=published.counts + np.where(of_p1, [[3], [-1]] * 4, 0))
    true = t1.tract.tier.tabulate(t1.counts)[:, of_p1].sum(axis=0)
    true = true[true > 0]
    rows = {(row.subset, row.measure): row.value for row in measure_utility(t1, changed)}
    kinds = ("mean error", "mean absolute error", "root mean squared error")
    # In the four blocks of each block group, gains of 3 alternate with losses of 1.
    for level, error in (("block group", 4), ("tract", 8)):
        assert [rows[f"P1 of a {level}, not 0", kind] for kind in kinds] == [error] * 3
        assert [rows[f"P2 of a {level}, not 0", kind] for kind in kinds] == [0] * 3
    mean, size, square = (rows["P1 of a block, not 0", kind] for kind in kinds)
    assert size == pytest.approx((mean + 3) / 2), "a share of 3s, and of 1s"
    assert square**2 == pytest.approx(2 * mean + 3)
    assert 0 < rows["cells of a block", "below 0"] < 0.2
    relative = rows["P1 of a tract, not 0", "mean relative error"]
    assert rows["P1 of a tract, not 0", "mean signed relative error"] == relative
    assert rows["P1 of a tract, not 0", "off by over 10%"] == (true < 80).mean()
    assert rows["P1 of a tract, not 0", "relative root mean squared error"] == pytest.approx(8 / true.mean())
    assert rows["blocks", "not additive"] == 1
    assert rows["blocks", "deviation of districts"] > 0.1
    assert rows.pop(("blocks", "first block group")) in {0, 1}
    of_all = rows["cells of a tract", "mean relative error with 0"] * t1.tract.tier.table_of_cell.size
    assert of_all == pytest.approx(sum(8 / true) + 2 * (of_p1.sum() - len(true)))
    persons = t1.counts.sum(axis=(1, 2))
    then = persons + of_p1.sum() * np.array([3, -1] * 4)
    moved = abs(then / then.sum() - persons / persons.sum()).sum()
    assert rows["cells of a block", "error of shares"] == pytest.approx(moved)
    exact = {(row.subset, row.measure): row.value for row in measure_utility(t1, published)}
    assert exact.pop(("blocks", "first block group")) == 1
    assert exact.pop(("cells of a block", "of 1 or 2")) > exact.pop(("rows by race", "of one race")) == 0
    assert not any(exact.values()), "exact tables have no errors"
    _require_variation_by_size(t1.tract)
    exchanged = replace(published, counts=np.roll(published.counts, 4, axis=0))
    assert find(measure_utility(t1, exchanged), "blocks", "first block group") == 0
    apart, mixed = np.array([[9, 0], [0, 4]]), np.array([[6, 2], [3, 1]])
    assert (measure_association(apart), measure_segregation(apart)) == (1, 1)
    assert measure_association(mixed) == pytest.approx(0) == measure_segregation(mixed)


def _require_variation_by_size(tract: Tract) -> None:
    """Two blocks of 4 and 6 persons and one of 20, of which the second and the third are published as of another race
    to a half and to a quarter. Fails for: a mean over blocks instead of persons, and sizes as published, or the
    persons' own."""
    counts = np.zeros((3, 2, 126), dtype=np.int64)
    counts[:, 1, 0] = 4, 6, 20
    truth = Truth(replace(tract, blocks=3, block_group=np.zeros(3, int), tract=np.zeros(3, int)).with_records(counts))
    assert np.array_equal(truth.counts, counts)
    published = counts.copy()
    published[1, 1, :2] = 30, 30
    published[2, 1, :2] = 3, 1
    rows = measure_utility(truth, replace(Exact().draw(truth.tract, KEY).publication, counts=published))
    assert {row.block_size: (row.value, row.persons) for row in rows if row.measure == "total variation"} == {
        "all": (pytest.approx(8 / 30), 30), "1 to 9": (pytest.approx(3 / 10), 10), "10 to 49": (0.25, 20),
    }  # fmt: skip


def test_intervals_are_made_of_replicates_of_the_published_microdata(t1: Truth) -> None:
    """First on known counts, with intervals from 37 to 55, 38 to 56, 21 to 60 and 49 to 61, then on a draw. Fails for:
    intervals around the truth, deviations of replicates from it, and replicates that are all the same or are made from
    the records instead of the microdata."""
    adults = np.zeros((4, 8, 2, 126), dtype=np.int64)
    adults[:, :, 1, 0] = 50
    adults[:, :4, 1, 0] = np.transpose([(40, 43, 43, 37), (40, 44, 44, 38), (50, 50, 60, 59), (48, 55, 57, 52)])
    truth, used = Truth(t1.tract.with_records(adults[0])), []
    published = replace(Exact().draw(truth.tract, KEY).publication, counts=adults[1])

    def draw(tract: Tract, key: bytes) -> Draw:
        assert np.array_equal(tract.count(), adults[1])
        assert not np.any(tract.adult != tract.frame)
        used.append(key)
        return Draw(replace(published, counts=adults[2 + len(used) % 2]), None, None)

    lower, upper = make_intervals(draw, truth.tract, published, KEY)
    assert len({*used, KEY}) == 11
    assert np.array_equal(lower[:4, 0], [37, 38, 21, 49])
    assert np.array_equal(upper[:4, 0], [55, 56, 60, 61])
    rows = list(measure_intervals(truth, lower, upper))
    assert find(rows, "cells of a block, not 0", "in 90% intervals") == 7 / 8
    assert find(rows, "cells of a block, not 0", "width of 90% intervals") == (18 + 18 + 39 + 12) / 8
    topdown = TopDown(Fraction(256, 100), measurements=False)
    drawn = topdown.draw(t1.tract, KEY).publication
    rows = list(measure_intervals(t1, *topdown.find_intervals(t1.tract, drawn, KEY)))
    assert 0.7 < find(rows, "cells of a block, not 0", "in 90% intervals") < 0.97
    width = find(rows, "cells of a block", "width of 90% intervals")
    assert 0 < width < find(rows, "cells of a block, not 0", "width of 90% intervals")


def make_tract_with_quarters() -> Tract:
    """Block 0: households of 2 and of 1, and a vacant unit. Block 1: 3 students in college housing. Block 2: a person
    living alone, and a nursing facility of 2."""
    household = np.repeat(np.arange(5), [2, 1, 3, 1, 2])
    adult, three = np.ones(9, dtype=np.int64), np.zeros(3, dtype=np.int64)
    block, quarters = np.array([0, 0, 1, 2, 2]), np.array([0, 0, 5, 0, 3])
    return Tract(
        REDISTRICTING, 3, block, three, three, quarters, household, adult, adult, 0 * adult, np.array([1, 0, 0])
    )


def test_group_quarters_and_units_are_counted_beside_the_records() -> None:
    """Fails for: quarters counted as units, or by facilities instead of persons, a unit that leaves with its last
    person, and students without a unit among those who should have one."""
    tract = make_tract_with_quarters()
    exact = np.zeros((3, 9), dtype=np.int64)
    exact[0, 7:], exact[1, 4], exact[2, [2, 7]] = (2, 1), 3, (2, 1)
    assert np.array_equal(tract.count_units(), exact)
    assert np.array_equal(tract.without(2).count_units() - exact, [[0] * 7 + [-1, 1], [0] * 9, [0] * 9])
    assert np.array_equal(tract.without(3).count_units() - exact, [[0] * 9, [0, 0, 0, 0, -1, 0, 0, 0, 0], [0] * 9])
    truth, published = Truth(tract), Exact().draw(tract, KEY).publication
    assert published.units is not None
    assert find(measure_utility(truth, published), "blocks", "no occupied unit") == 0
    changed = exact + np.array([[0] * 7 + [-2, 3], [0] * 9, [0, 0, 0, 0, 0, 0, 1, 0, 0]])
    rows = list(measure_utility(truth, replace(published, units=changed)))
    assert find(rows, "blocks", "no occupied unit") == 1 / 3
    assert find(rows, "P5 of a block, not 0", "mean absolute error") == 0, "but where there are quarters"
    assert find(rows, "H1 of a block, not 0", "mean absolute error") == pytest.approx(5 / 3)
    assert find(rows, "H1 of a tract, not 0", "mean error") == 1 / 2
    in_one = replace(published, units=np.tile([0] * 7 + [1, 0], (3, 1)), places=np.zeros(3, dtype=np.int64))
    assert find(measure_utility(truth, in_one), "H1 of a block, not 0", "mean absolute error") == pytest.approx(10 / 9)


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("tier", [REDISTRICTING, SUMMARY_FILE, WITH_TRACT], ids=lambda tier: tier.name)
def test_every_method_of_a_tier_publishes_group_quarters_and_units(tier: Tier) -> None:
    """Fails for: a tier or a method without them, exact counts beside noisy ones, units that are swapped, facilities
    where there are none, more persons in quarters than in the block, or units that come and go."""
    quarters = np.where(np.arange(240) % 20 == 7, 1 + np.arange(240) % 7, 0)
    tract = replace(make_truth(tier).tract, quarters=quarters)
    exact, by_place = tract.count_units(), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    assert exact is not None
    of_records: list[Point] = [Exact(), *MOVING, Randomized(HALF)]
    of_records += [TopDown(Fraction(10**6), measurements=False), DHC(Fraction(10**6), measurements=False)]
    noisy, keyed, rounded = NoisyHypercube(Fraction(1)), PerturbedCounts("made", TABLE), Rounded(4)
    suppressed, coarse = Suppressed(4, 2), Coarsened(300, 3, by_race=False)
    estimated: list[Point] = [TopDown(Fraction(256, 100), measurements=True), DHC(Fraction(1), measurements=True)]
    published = {
        point: point.draw(tract, KEY).publication
        for point in (*of_records, noisy, keyed, rounded, suppressed, coarse, *estimated)
        if tier.name in point.tiers
    }
    units = {point: each.units for point, each in published.items() if each.units is not None}
    assert units.keys() == published.keys()
    assert all(np.array_equal(units[point], exact) for point in of_records if point in units)
    assert np.abs(units[noisy] - exact).mean() == pytest.approx(1 / np.sinh(1), abs=0.3)
    assert set(np.abs(units[keyed] - exact)[exact > 0]) == {1}
    assert not units[keyed][exact == 0].any()
    if tier is WITH_TRACT:
        return
    assert not (units[rounded] % 4).any()
    assert np.abs(units[rounded] - exact).max() == 2
    assert set(units[suppressed][(exact > 0) & (exact < 4)]) == {2}
    assert np.array_equal(units[suppressed][exact > 3], exact[exact > 3])
    assert np.array_equal(published[coarse].places, by_place)
    assert np.array_equal(units[coarse][[0, 4]], [exact[:4].sum(axis=0), exact[4:].sum(axis=0)])
    (topdown,) = (point for point in estimated if point in units)
    in_quarters, in_units = np.split(units[topdown] - exact, [7], axis=1)
    assert not in_quarters[exact[:, :7] == 0].any()
    assert in_quarters.any()
    assert not in_units.sum(axis=1).any()
    assert in_units.any()
    persons = published[topdown].counts.sum(axis=(1, 2))
    assert (units[topdown][:, :7].sum(axis=1) <= persons).all()


def test_units_have_the_budgets_of_production() -> None:
    of_quarters, of_units = TopDown(Fraction(542, 339) ** 2, measurements=True).find_variances_of_units("Block")
    assert of_units == 1 / (Fraction(3379, 12343) ** 2 * Fraction(495, 4100))
    assert of_quarters == 1 / (Fraction(542, 339) ** 2 * Fraction(165, 4099) * Fraction(5, 4097 - 10))


def test_types_of_households_are_empty_that_one_of_two_tables_has_alone() -> None:
    """Fails for: households that are sought without those of one person, or the reverse; tenures of PH7 that differ
    from PH8's; and types in neither table among the possible types."""
    truth = make_truth_of_types(HOUSEHOLDS)
    published = Exact().draw(truth.tract, KEY).publication
    number = {name: place for place, name in enumerate(HOUSEHOLDS.tables)}

    def measure(table: str, counts: Sequence[int]) -> tuple[float, int]:
        changed = published.counts.copy()
        changed[0, HOUSEHOLDS.table_of_cell == number[table]] = counts
        rows = measure_utility(truth, replace(published, counts=changed))
        (row,) = (row for row in rows if row.measure == "empty household types")
        return row.value, row.persons

    persons = published.table("PH7 *", published.counts)[0]
    nothing, types = measure("PH7 *", persons.tolist())
    assert nothing == 0
    assert (persons > 0).all()
    assert measure("PH8_denom *", [0, 5]) == (1 / types, types)
    assert measure("PH7 *", [0, 0, 7]) == (1 / types, types), "both kinds of owners are gone"
    assert measure("PH7 *", [0, 3, 7]) == (0, types)
    races = published.table("PH1_denom A-G", published.counts)[0]
    assert races[6] == 0
    assert measure("PH1_denom A-G", [*races[:6].tolist(), 2]) == (1 / (types + 1), types + 1)
    assert measure("PH1_denom A-G", [*races[:6].tolist(), -2]) == (0, types)


def test_rows_of_one_race_are_those_of_races_that_exclude_each_other(t2: Truth) -> None:
    """Fails for: rows that are in P12H and in P12I, so that each person is counted in two, and rows without persons."""
    tract = t2.tract
    ages = np.searchsorted(GROUP_AGES[0], np.array(AGE_STARTS), side="right")
    races: dict[tuple[int, int, int], set[int]] = {}
    for place, frame, category in zip(tract.place, tract.frame, tract.category % len(RACE_COMBINATIONS), strict=True):
        sex, age = divmod(int(frame), len(AGE_STARTS))
        races.setdefault((int(place), sex, int(ages[age])), set()).add(min(int(category), len(SIX_RACES)))
    rows = list(measure_utility(t2, Exact().draw(tract, KEY).publication))
    share = sum(len(each) == 1 for each in races.values()) / len(races)
    assert find(rows, "rows by race", "of one race") == pytest.approx(share)
    assert 0.2 < share < 0.8
    counts = tract.tier.tabulate(t2.counts)
    assert find(rows, "cells of a block", "of 1 or 2") == ((counts == 1) | (counts == 2)).mean()


@pytest.mark.deep
def test_the_attackers_file_closes_the_intervals_of_suppressed_counts(t2: Truth) -> None:
    """Fails for: primary suppression alone, and intervals that claim to hold for a reader with any knowledge."""
    point, tier = Suppressed(4, 2), t2.tract.tier
    published, exact = point.draw(t2.tract, KEY).publication.counts, tier.tabulate(t2.counts)
    hidden = published == 2
    assert not np.any((exact > 0) & (exact < 4) & ~hidden)
    assert np.array_equal(published[~hidden], exact[~hidden])
    cells, frames = tier.cells.astype(np.int64), np.arange(np.prod(tier.shape)) // tier.shape[1]
    block = int(hidden.sum(axis=1).argmin())
    suppressed = np.where(hidden, SUPPRESSED, exact)[block]
    assert count_narrow(cells, suppressed, 2) == 0
    alone = np.where((exact > 0) & (exact < 4), SUPPRESSED, exact)[block]
    assert count_narrow(cells, alone, 2) > 0
    known = np.concatenate([suppressed, t2.counts[block].sum(axis=1)])
    assert count_narrow(np.vstack([cells, len(suppressed) + frames]), known, 2) > hidden[block].sum() / 2


@pytest.mark.deep
def test_methods_without_randomness_are_known_by_difference(t1: Truth, t2: Truth) -> None:
    """Fails for: an attacker who tries only the true category, and so always names it."""
    targets = np.arange(5)

    def differ(truth: Truth, point: Point) -> float:
        published = point.draw(truth.tract, KEY).publication
        rows = measure_differences(truth, targets, published, lambda tract: point.draw(tract, KEY).publication)
        return find(rows, NONMODAL if truth is t1 else UNIQUE, "accuracy")

    assert min(differ(t1, Exact()), differ(t2, Coarsened(60, 3, by_race=False))) > 0.7, "or nobody near is like her"
    assert 0 < differ(t1, Blank()) < 0.1, "one of the categories of the block group"
    assert differ(t1, Rounded(50)) < differ(t1, Rounded(3)) < 1
    assert differ(t2, Coarsened(60, 3, by_race=True)) < 0.6


def test_zeros_and_totals_of_suppressed_tables_give_unique_persons_away(t2: Truth) -> None:
    """A finding that must stay one: fails for an attack that takes a suppressed count for a small known one."""
    draws = [point.draw(t2.tract, KEY).publication for point in (Exact(), Suppressed(4, 2))]
    exact, suppressed = (find(measure_guesses(t2, "", link(each, t2.file)), UNIQUE, "accuracy") for each in draws)
    likeliest = find(measure_guesses(t2, "", guess_likeliest(draws[1], t2.file)), UNIQUE, "accuracy")
    assert min(suppressed, likeliest) > 0.8 * exact


def make_truth_of_types(tier: Tier, records: int = 160, blocks: int = 5) -> Truth:
    """Records of a few possible types, each a household of its own; blocks differ in their categories."""
    rng = np.random.default_rng(8)
    block = rng.integers(0, blocks, records)
    frame = rng.choice(20, records)
    common = rng.integers(0, 6, (blocks, 3))
    category = common[block, rng.choice(3, records, p=[0.6, 0.3, 0.1])]
    if tier is HOUSEHOLDS:
        # A man alone, and a married couple with or without children, each of a race.
        alone, childless = 5 * 14, 14 * ~tier.possible[frame, 0]
        category += np.where(np.array(tier.sizes)[frame] == 1, alone, childless)
    else:
        category = np.where(category == 5, len(tier.groups), category)
    alone, none = np.arange(records), np.zeros(records, dtype=bool)
    adult, group = np.ones(records, dtype=np.int64), np.arange(blocks) // 3
    tract = np.zeros_like(group)
    return Truth(Tract(tier, blocks, block, group, tract, none, alone, adult, frame, category))


def find_right(truth: Truth, publication: Publication, attack: Attack = link) -> float:
    guesses = Guesses.of(attack(publication, truth.file), len(truth.tract.frame), truth.tract.tier.shape[1])
    return find(measure_guesses(truth, "link", guesses), ALL, "accuracy")


@pytest.mark.prove
@pytest.mark.parametrize(
    ("tier", "points"),
    [
        (HOUSEHOLDS, [PHSafe(Fraction(10**6)), PHSafe(Fraction(300)), PHSafe(Fraction(1))]),
        (DETAILED_GROUPS, [SafeTab(Fraction(10**4)), SafeTab(Fraction(50)), SafeTab(Fraction(1))]),
    ],
    ids=["households", "groups"],
)
def test_records_of_tables_of_types_are_linked_less_with_less_budget(tier: Tier, points: Sequence[Point]) -> None:
    """Fails for: tables whose detail follows from the records and not from noise, an attack that does not read
    the tables, and a missing record that changes noise."""
    truth = make_truth_of_types(tier, 96, 3) if tier is HOUSEHOLDS else make_truth_of_types(tier)
    exact = Exact().draw(truth.tract, KEY).publication
    swapped = Swapped(Fraction(9, 10), BY_PERSONS).draw(truth.tract, KEY).publication
    drawn = [point.draw(truth.tract, KEY).publication for point in points]
    right = [find_right(truth, publication) for publication in (exact, *drawn)]
    assert right[0] == pytest.approx(right[1], abs=0.03)
    assert right[1] > right[2] > right[3]
    assert right[0] > find_right(truth, swapped)
    # Weighing all sums together is as good as their linear estimate, and better if there is some noise.
    programs = [find_right(truth, publication, guess_likeliest) for publication in (exact, *drawn[:2])]
    assert min(programs[:2]) > right[0] - 0.03, "also with hardly any noise"
    assert programs[0] > programs[2] > right[2] + 0.02
    guesser = guess_by_share(truth.tract.place, truth.tract.category, tier.shape[1]).mean()
    assert right[3] < guesser < right[0]
    person = int(np.argmax(truth.tract.category != 22))
    without = points[0].publish_without(truth.tract, person, KEY)
    changed = (drawn[0].counts != without.counts).any(axis=1)
    assert np.array_equal(np.flatnonzero(changed), [truth.tract.block[person]])
    nothing = np.zeros_like(exact.counts)
    ignored = replace(exact, counts=nothing, totals=nothing, law=GaussianLaw(1e12))
    flat = tier.possible if tier.possible is not None else np.ones(tier.shape)
    chance = (1 / flat.sum(axis=1))[truth.tract.frame].mean()
    assert find_right(truth, replace(ignored, published=None)) == pytest.approx(chance, rel=0.01)


def test_phsafe_measures_with_the_noise_of_the_2020_census_for_states() -> None:
    truth = make_truth_of_types(HOUSEHOLDS)
    draw = PHSafe(Fraction(1)).draw(truth.tract, KEY)
    errors = draw.publication.counts - HOUSEHOLDS.tabulate(truth.counts)
    law = draw.publication.law
    assert isinstance(law, GaussianLaw)
    deviation = np.sqrt(np.broadcast_to(law.variance, HOUSEHOLDS.table_of_cell.shape))
    names = np.array(list(HOUSEHOLDS.tables))[HOUSEHOLDS.table_of_cell]
    for name, margin in (
        ("PH1_denom A-G", 68), ("PH7 *", 200), ("PH8_denom H,I", 200), ("PH4, under 18 A-G", 68), ("PH6 *", 400),
    ):  # fmt: skip
        assert set(np.round(deviation[names == name], 0)) == {round(margin / 1.645)}
    of_couples = deviation[names == "PH2 *"]
    assert of_couples[0] == pytest.approx(of_couples[2] * np.sqrt(2))
    of_children = deviation[names == "PH3 *"]
    assert of_children[4] == pytest.approx(of_children[0] * np.sqrt(3))
    assert (errors / deviation).std() == pytest.approx(1, abs=0.1)
    pairs = np.random.default_rng(1).integers(0, 160, (200, 2))
    ratios = {row.measure: row.value for row in measure_ratios(truth, draw, pairs)}
    assert 0.01 < ratios["ln ratio, median"] < ratios["ln ratio, greatest"] < 3


def test_children_and_relatives_are_counted_by_the_type_of_their_household() -> None:
    """Fails for: other people's children among own children, persons outside a family among relatives, and households
    with more children than PH3 and PH6 count."""
    kinds = ["married couple with own children", "woman with other relatives", "man with others", "man alone"]
    types = np.array([HOUSEHOLD_TYPES.index(kind) for kind in kinds])
    persons, minors, tenure = np.array([9, 3, 4, 1]), np.array([7, 1, 2, 0]), np.zeros(4, dtype=np.int64)
    records = number_household(persons, minors, tenure), types * 2 * (len(SIX_RACES) + 1)
    histogram = np.zeros((1, *HOUSEHOLDS.shape), dtype=np.int64)
    np.add.at(histogram[0], records, 1)
    assert HOUSEHOLDS.possible is not None
    assert HOUSEHOLDS.possible[records].all()
    assert not HOUSEHOLDS.possible[records[0] - 3 * minors, records[1]][0], "own children without minors"
    counts, names = HOUSEHOLDS.tabulate(histogram)[0], np.array(list(HOUSEHOLDS.tables))[HOUSEHOLDS.table_of_cell]
    assert counts[names == "PH6 *"].tolist() == [6, 0, 0, 0]
    assert counts[names == "PH3 *"].tolist() == [6, 0, 0, 0, 3]
    assert [counts[names == f"PH4, {ages} *"].tolist() for ages in ("under 18", "18 and over")] == [[8], [4]]
    assert counts[names == "PH1_num, under 18 *"].tolist() == [10]


@pytest.mark.prove
def test_safetab_publishes_each_group_in_the_detail_of_its_first_noisy_total() -> None:
    """Fails for: the total beside its parts, totals that suppression leaves out, and an attack that learns
    nothing from an unpublished group."""
    truth = make_truth_of_types(DETAILED_GROUPS, 1000)
    published = SafeTab(Fraction(2000)).draw(truth.tract, KEY).publication
    mask, tier = published.published, DETAILED_GROUPS
    assert mask is not None
    exact = tier.tabulate(truth.counts)
    details = np.full((5, 22), -1)
    for detail in range(4):
        for group in range(22):
            of_group = mask[:, (tier.table_of_cell == detail) & (tier.category_of_cell == group)]
            assert np.all(of_group.all(axis=1) == of_group.any(axis=1))
            details[of_group.any(axis=1), group] = detail
    totals = exact[:, :22]
    expected = np.searchsorted(tier.thresholds, totals, side="right")
    assert (details[totals > 9] == expected[totals > 9]).mean() > 0.8
    assert set(np.unique(details)) == {-1, 2, 3}
    assert not totals[details == -1].any()
    assert not published.counts[:, 22:][~mask[:, 22:]].any()
    # A group that is left out of a block is not among those of persons who are in no other group there.
    group, counts, left = int(totals[0].argmax()), published.counts.copy(), mask.copy()
    left[0, tier.category_of_cell == group] = False
    counts[0, tier.category_of_cell == group] = 0
    hidden = replace(published, counts=counts, published=left)
    frequent = published.totals.copy()
    frequent[0, group] *= 3
    for attack, totals_of in ((link, published.totals), (guess_likeliest, frequent)):
        shares = [
            attack(replace(each, totals=totals_of), truth.file).shares[truth.tract.place == 0, group].mean()
            for each in (hidden, replace(hidden, choice=None))
        ]
        assert shares[0] < 0.7 * shares[1]
