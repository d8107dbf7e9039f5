"""Matching, baselines and posteriors: each is compared with an enumeration and a program often mistaken for it."""

from itertools import permutations, product
from math import comb, factorial, prod
from math import erf as _erf

import numpy as np
import pytest

from mechanisms.risk.baselines import guess_by_mode, guess_by_share
from mechanisms.risk.linear import Sums, estimate_shares, estimate_types, observe_interval, weigh_interval
from mechanisms.risk.matching import (
    match_in_two_passes,
    match_persons,
    measure_agreement_with_one_error,
    measure_agreement_within_a_year,
)
from mechanisms.risk.posterior import (
    GaussianLaw,
    LaplaceLaw,
    Law,
    RoundedLaw,
    TabulatedLaw,
    expect_shares,
    expect_shares_of_pairs,
    weigh_membership,
)
from mechanisms.risk.reconstruction import NotSolvedError, find_likeliest
from mechanisms.risk.swaps import share_records, weigh_places
from mechanisms.risk.tiers import CATEGORIES, FLAGS, OUTSIDE


@pytest.mark.parametrize(("persons", "records"), [(4, [2, 1]), (2, [2, 1, 1]), (3, [1, 2]), (3, [0, 0]), (1, [3, 1])])
def test_expected_matches_are_the_mean_over_all_matchings_without_replacement(persons: int, records: list[int]) -> None:
    """Fails for: matching with replacement, which names everyone if there is any record."""
    labels = [category for category, number in enumerate(records) for _ in range(number)]
    slots = [*labels, *[None] * max(0, persons - len(labels))]
    matchings = list(permutations(slots, persons))
    enumerated = [sum(one[0] == category for one in matchings) / len(matchings) for category in range(len(records))]
    shares = match_persons(np.array(persons), np.array(records))
    assert shares == pytest.approx(enumerated)
    with_replacement = np.array(records) / max(1, sum(records))
    assert np.allclose(shares, with_replacement) == (sum(records) >= persons or not sum(records))


def test_who_is_left_by_a_first_matching_is_matched_by_group_of_frames() -> None:
    """Fails for: a second matching of everyone, and one with the records used by the first."""
    persons, group, labels = np.array([2, 1, 1]), np.array([0, 0, 1]), [(0, 0), (1, 0), (1, 1), (1, 1), (2, 0)]
    records = np.zeros((3, 2), dtype=np.int64)
    np.add.at(records, tuple(np.array(labels).T), 1)
    sums, number = np.zeros((3, 2)), 0
    # In any order, each person takes the first record of the same frame, and then, in the same order, of the group.
    for order in permutations(labels):
        left, unmatched = list(order), []
        for frame in np.repeat(np.arange(3), persons).tolist():
            found = next((record for record in left if record[0] == frame), None)
            if found is None:
                unmatched.append(frame)
            else:
                left.remove(found)
                sums[found] += 1 / persons[frame]
        for frame in unmatched:
            found = next((record for record in left if group[record[0]] == group[frame]), None)
            if found is not None:
                left.remove(found)
                sums[frame, found[1]] += 1 / persons[frame]
        number += 1
    assert match_in_two_passes(persons, records, group) == pytest.approx(sums / number)


def test_ages_that_differ_by_a_year_agree_one_to_one() -> None:
    """After equal ages, the most pairs of all assignments. Fails for: pairs with replacement, and an age that is
    paired with the older one although only the younger one has no other partner."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        records = [np.bincount(rng.integers(0, 6, 6), minlength=6) for _ in range(2)]
        equal = np.minimum(*records)
        ours, theirs = (np.repeat(np.arange(6), counts - equal).tolist() for counts in records)
        most = max(sum(abs(a - b) <= 1 for a, b in zip(ours, order, strict=True)) for order in permutations(theirs))
        shaped = [counts.reshape(1, 6, 1) for counts in records]
        assert measure_agreement_within_a_year(*shaped, ages=6) == (equal.sum() + most) / 6


def test_one_error_is_another_sex_or_one_race_more_in_the_same_block_at_an_age_within_a_year() -> None:
    """Fails for: an error and another age by two years, another race, which is two errors, records of another
    block, and a record that is matched twice."""
    white, asian, both, hispanic = (
        CATEGORIES.index(f"{words}Hispanic")
        for words in ("White alone, not ", "Asian alone, not ", "White; Asian, not ", "White alone, ")
    )
    assert [int(FLAGS[each] ^ FLAGS[white]).bit_count() for each in (white, asian, both, hispanic)] == [0, 2, 1, 1]
    agree = {
        (0, 3, both): [(0, 4, white)], (1, 3, white): [(0, 3, hispanic)], (0, 3, white): [(0, 3, asian), (0, 5, both)],
        (0, 0, white): [(0, 0, both), (0, 0, hispanic), (1, 1, white)],
    }  # fmt: skip
    for ours, theirs in agree.items():
        records, others = (np.zeros((2, 2 * 6, len(CATEGORIES)), dtype=np.int64) for _ in range(2))
        # Another block has the same record.
        records[0, ours[0] * 6 + ours[1], ours[2]] = others[1, ours[0] * 6 + ours[1], ours[2]] = 1
        for sex, age, category in theirs:
            others[0, sex * 6 + age, category] += 1
        expected = {(0, 3, both): 1, (1, 3, white): 0, (0, 3, white): 0, (0, 0, white): 1}[ours]
        right = measure_agreement_with_one_error(records, others, 6, FLAGS)
        assert right * others.sum() == pytest.approx(expected), ours
        assert measure_agreement_within_a_year(records, others, 6) == 0


def test_numbers_of_records_tell_who_stays_leaves_and_arrives() -> None:
    """Against sums over who stays and how many arrive. Fails for: numbers that already count the target, and arrivals
    from the target's own cell."""
    stay, known, records = 0.7, np.array([[2, 0], [1, 3]]), np.array([[3, 1], [0, 2]])
    stays, arrives = weigh_places(known, records, stay)
    for cell in np.ndindex(2, 2):
        of_frame, persons = known[:, cell[1]].sum(), known.sum(axis=1)
        mean = max(0.3 * (of_frame - known[cell]) * persons[cell[0]] / persons.sum(), 1e-9)

        def chance(own: int, found: int, mean: float = mean) -> float:
            return sum(
                comb(own, k) * stay**k * 0.3 ** (own - k) * np.exp(-mean) * mean ** (found - k) / factorial(found - k)
                for k in range(min(own, found) + 1)
            )

        for ratios, own in ((arrives, known[cell]), (stays, known[cell] - 1)):
            expected = chance(own, records[cell] - 1) / chance(own, records[cell]) if records[cell] and own >= 0 else 0
            assert ratios[cell] == pytest.approx(expected, rel=1e-6)


def test_a_household_is_where_all_of_its_persons_are() -> None:
    """Two of a household are missing in their block. A record of either frame is in the second block, and of both in
    the third one. Fails for: persons who move alone, and a home that no person may leave."""
    known, records = np.zeros((3, 3), dtype=np.int64), np.zeros((3, 3, 2), dtype=np.int64)
    known[:, 2] = 30
    known[0, :2] = 1
    records[:, 2, 0] = 30
    records[1, 0, 0] = records[2, 0, 1] = records[2, 1, 1] = 1
    block, frame, stay = np.zeros(2, dtype=np.int64), np.arange(2), np.full(2, 0.5)
    together = share_records(known, records, (np.zeros(2, dtype=np.int64), block, frame), stay)
    assert together[0] == pytest.approx([0, 1], abs=1e-6)
    alone = share_records(known, records, (np.arange(2), block, frame), stay)
    assert alone[0] == pytest.approx([0.5, 0.5], abs=0.01)
    assert not share_records(known, 0 * records, (np.arange(2), block, frame), stay).any()
    # Of two records of the frame, one is at home: the less likely persons stay, the likelier is the other record.
    records[0, 0, 0] = 1
    shares = [share_records(known, records, (np.arange(2), block, frame), np.array(each))[0, 1] for each in
              ([0.5, 0.5], [0.2, 0.2], [0.5, 0.2])]  # fmt: skip
    assert shares[0] < shares[1]
    assert shares[0] < shares[2]


def test_guessers_leave_the_target_out() -> None:
    """Nine of one category and one of another: 90% by mode and 80% by shares. Fails for: guessers that count the
    target too, which draw it with 82%."""
    category, place = np.array([0] * 9 + [1]), np.zeros(10, dtype=np.int64)
    assert guess_by_mode(place, category, 2).mean() == pytest.approx(0.9)
    assert guess_by_share(place, category, 2).mean() == pytest.approx(0.8)
    assert guess_by_mode(place, category, 2)[9] == 0


def test_someone_who_is_alone_is_guessed_from_the_others_elsewhere_and_ties_are_broken_at_random() -> None:
    category, place = np.array([1, 0, 0, 1, 1]), np.array([0, 1, 1, 1, 1])
    assert guess_by_mode(place, category, 2)[0] == 0.5
    assert guess_by_share(place, category, 2)[0] == 0.5
    assert guess_by_mode(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), 2)[0] == 0.5


erf = np.vectorize(_erf)

LAWS: list[tuple[Law, list[int]]] = [
    (LaplaceLaw(0.7), [2, 0, -1, 3]),
    # One person fewer than the attacker knows of, and hardly any noise: the world without a target.
    (LaplaceLaw(1 / 64), [1, 0, 3, 0]),
    (RoundedLaw(3), [3, 0, 0, 3]),
    (TabulatedLaw(np.array([[0, 0, 1, 0, 0], [0, 0.3, 0.4, 0.3, 0], [0.1, 0.2, 0.4, 0.2, 0.1]])), [2, 0, 1, 3]),
]


@pytest.mark.parametrize(("law", "published"), LAWS)
def test_posterior_shares_are_those_of_bayes_over_all_compositions(law: Law, published: list[int]) -> None:
    """Fails for: a posterior of each count by itself, which does not know that they sum to n; and one that leaves
    out unlikely counts until none sum to n."""
    prior, persons = np.array([0.5, 0.3, 0.15, 0.05]), 5
    likely = np.exp(law.log_likelihoods(np.array(published), persons))
    compositions = [one for one in product(range(persons + 1), repeat=4) if sum(one) == persons]
    weights = np.array(
        [prod(prior[c] ** m / factorial(m) * likely[c, m] for c, m in enumerate(one)) for one in compositions]
    )
    enumerated = weights @ np.array(compositions) / weights.sum() / persons
    of_fewer = expect_shares(law, np.array([published]), prior[None], np.array([3]))
    found = expect_shares(law, np.array([published] * 2), np.array([prior] * 2), np.array([persons, 3]))
    assert found[0] == pytest.approx(enumerated)
    assert np.array_equal(found[1:], of_fewer), "frames tell nothing of each other"


def test_a_posterior_of_many_persons_neither_underflows_nor_ignores_what_is_published() -> None:
    """Fails for: products of π^m/m! without the factor n^m, which are 0 as floats near n = 200."""
    rng = np.random.default_rng(3)
    prior = np.full(126, 1 / 126)
    counts = rng.multinomial(400, rng.dirichlet(np.full(126, 0.1)))
    shares = expect_shares(LaplaceLaw(0.05), counts[None], prior[None], np.array([400]))
    assert shares[0] == pytest.approx(counts / 400, abs=1e-3)


def test_what_contradicts_the_attackers_knowledge_leaves_the_prior() -> None:
    prior = np.array([0.75, 0.25])
    found = expect_shares(RoundedLaw(3), np.array([[9, 9], [3, 0]]), np.array([prior] * 2), np.array([2, 2]))
    assert found[0] == pytest.approx(prior)
    assert found[1, 0] > prior[0]
    # The attacker knows one person of three who are published with hardly any noise: e^(−2 · 390) is 0 as a float.
    flat = np.full(3, 1 / 3)
    found = expect_shares(LaplaceLaw(1 / 390), np.ones((1, 3), dtype=np.int64), flat[None], np.ones(1, dtype=np.int64))
    assert found[0] == pytest.approx(flat)


def test_a_noisy_count_is_weighed_with_and_without_somebody_in_its_cell() -> None:
    """Against sums over all numbers of others, whose law is exact for a mean of 0. Fails for: the density at the
    mean of the others, which leaves out that their number varies, and too few numbers of them."""
    counts = np.arange(400)
    for published, variance, mean in product([-20.0, 0.3, 4, 90], [0.01, 11.6, 900], [0.0, 0.02, 3, 60]):
        chances = [mean**n / factorial(n) for n in range(150)]
        logs = -((published - counts) ** 2) / (2 * variance)
        logs -= logs.max()
        likely = np.exp(np.maximum(logs, -600))
        expected = np.dot(chances, likely[1:151]) / np.dot(chances, likely[:150])
        if np.any(np.exp(logs[:150]) * chances > 1e-250):
            (found,) = weigh_membership(np.array([published]), np.array([variance]), np.array([mean]))
            assert found == pytest.approx(expected, rel=1e-6) or found > 1e9 < expected


def test_posterior_shares_of_pairs_are_those_of_bayes_over_all_compositions() -> None:
    """Fails for: a class whose own count is used for a and b apart, and Hispanic persons counted by class."""
    rng, persons = np.random.default_rng(2), 4
    likely, of_second, prior = rng.random((2, 2, 5, 5)), rng.random((2, 5)), np.array([[[0.5, 0.2], [0.2, 0.1]]] * 2)
    compositions = np.array([one for one in product(range(persons + 1), repeat=4) if sum(one) == persons])
    weights = np.array(
        [
            prod(share**m / factorial(m) for share, m in zip(prior[0].ravel(), one, strict=True))
            * likely[:, 0, one[0], one[2]] * likely[:, 1, one[1], one[3]] * of_second[:, one[2] + one[3]]
            for one in compositions.tolist()
        ]
    )  # fmt: skip
    enumerated = (weights.T @ compositions / weights.sum(axis=0)[:, None] / persons).reshape(2, 2, 2)
    assert expect_shares_of_pairs(likely, of_second, prior, persons) == pytest.approx(enumerated)


def test_the_linear_estimate_is_near_the_posterior_and_leaves_the_prior_if_nothing_is_published() -> None:
    """Fails for: the published count of each category by itself, without the prior or without n."""
    prior, published, persons = np.array([0.5, 0.3, 0.2]), np.array([14, 12, 6]), 30
    factors = np.eye(3)[:, None, :]
    sums = Sums(factors, published.astype(float), np.full(3, 9.0))
    found = estimate_types(sums, np.array([persons]), prior[None])[0]
    (shares,) = expect_shares(GaussianLaw(9.0), published[None], prior[None], np.array([persons]))
    assert found == pytest.approx(persons * shares, abs=0.2)
    assert np.abs(found - published).max() > 0.5
    nothing = Sums(factors, published.astype(float), np.full(3, 1e12))
    assert estimate_shares(nothing, np.array([persons]), prior[None], 20)[0] == pytest.approx(prior, abs=1e-5)
    # Of 2 households of 3 persons and 3 of 1, 5 persons and 3 households are of the first category: one and two.
    weighted = np.array([[[3.0, 0], [1, 0]], [[1, 0], [1, 0]]])
    both = Sums(weighted, np.array([5.0, 3]), np.zeros(2))
    assert estimate_types(both, np.array([2, 3]), np.full((2, 2), 0.5))[:, 0] == pytest.approx([1, 2], abs=0.05)
    assert estimate_shares(both, np.array([2, 3]), np.full((2, 2), 0.5), 20)[0, 0] == pytest.approx(0.58, abs=0.05)


@pytest.mark.parametrize("ends", [(-np.inf, 3.5), (3.5, 9.5), (9.5, np.inf), (60.0, 70.0)])
def test_an_interval_of_a_noisy_total_tells_as_much_as_the_noisy_total_in_its_place(ends: tuple[float, float]) -> None:
    """Moments by enumeration. Fails for: the middle of the interval, and an interval of the count itself."""
    mean, variance, noise = 6.0, 8.0, 5.0
    counts = np.linspace(-30, 45, 7501)
    likely = [erf((end - counts[:, None]) / np.sqrt(2 * noise)).ravel() for end in ends]
    weights = np.exp(-((counts - mean) ** 2) / (2 * variance)) * (likely[1] - likely[0])
    own = np.exp(weigh_interval(counts[3000:4000], noise, ends))
    assert own == pytest.approx((likely[1] - likely[0])[3000:4000] / 2, abs=1e-12)
    observed = observe_interval(mean, variance, noise, ends)
    if ends[0] > 50:
        assert observed is None, "nothing is made of what cannot happen"
        return
    expected = (weights * counts).sum() / weights.sum()
    spread = (weights * (counts - expected) ** 2).sum() / weights.sum()
    assert observed is not None
    precision = 1 / variance + 1 / observed[1]
    assert (mean / variance + observed[0] / observed[1]) / precision == pytest.approx(expected, abs=1e-3)
    assert 1 / precision == pytest.approx(spread, abs=1e-3)


@pytest.mark.parametrize("weights", [[1, 1], [3, 1]], ids=["persons", "households"])
@pytest.mark.parametrize("law", [law for law, _ in LAWS])
def test_the_likeliest_records_are_those_of_the_enumeration(law: Law, weights: list[int]) -> None:
    """Fails for: a program that takes the cheapest steps of a cost that is not convex, one that does not know how
    many persons are in a frame, one of single cells, one that counts households in place of their persons, and one
    whose prior is that of another frame."""
    persons, prior = np.array([2, 1]), np.array([[0.5, 0.3, 0.2], [0.2, 0.1, 0.7]])
    cells = np.array([[0, 1, 2, 0, 1, 2], [3, 3, OUTSIDE, 4, 4, OUTSIDE]])
    published = np.array([0, 1, 3, 0, 1]) if isinstance(law, RoundedLaw) else np.array([2, 0, 1, 0, 2])
    weight = np.array([[1] * 6, np.repeat(weights, 3)])
    costs = -law.log_likelihoods(published, 7)

    def cost(x: tuple[int, ...]) -> float:
        counted = list(zip(x * 2, weight.ravel(), cells.ravel(), strict=True))
        sums = [sum(number * times for number, times, row in counted if row == cell) for cell in range(5)]
        of_cells = sum(costs[cell, number] for cell, number in enumerate(sums))
        return float(of_cells - np.array(x) @ np.log(prior.ravel()))

    possible = [x for x in product(range(3), repeat=6) if sum(x[:3]) == 2 and sum(x[3:]) == 1]
    least = min(map(cost, possible))
    if np.isinf(least):
        with pytest.raises(NotSolvedError):
            find_likeliest(cells, costs, persons, prior, weight)
    else:
        found = find_likeliest(cells, costs, persons, prior, weight)
        assert cost(tuple(found.ravel().tolist())) == pytest.approx(least)
