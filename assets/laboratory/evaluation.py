"""Compares guesses and reconstructions with the records. Apart from `utility`, no other module does.

Every measure is a row for a subset of persons of a tract. Only the evaluator knows the subsets; attacks do not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.laboratory.measures import (
    ADVANTAGE,
    BASELINE,
    DIFFERENCE,
    GAIN,
    MATCH_RATE,
    OVER_GUESSER,
    POSTERIOR_RATIO,
    POSTERIOR_RATIO_95,
    POSTERIOR_RATIO_GREATEST,
    PROVABLE,
    TABLES,
    TRUE_OVER_90,
    TRUE_OVER_HALF,
    WITHIN_ONE_ERROR,
)
from assets.laboratory.points import Draw
from assets.laboratory.publication import NONE, Guesses, NamedPersons, Publication, Reconstruction
from assets.laboratory.records import Tract
from mechanisms.risk.baselines import guess_by_mode, guess_by_share
from mechanisms.risk.matching import (
    measure_agreement,
    measure_agreement_with_one_error,
    measure_agreement_within_a_year,
)
from mechanisms.risk.posterior import GaussianLaw, Law
from mechanisms.risk.reconstruction import System, measure_variability
from mechanisms.risk.tiers import AGES, FLAGS, OUTSIDE, Counts, Shares
from mechanisms.sampling.stream import RandomStream

BLOCK_SIZES = (1, 10, 50, 100, 250, 500, 1000)
"""The least persons of each class of blocks, as the Census Bureau reports them."""
_POOR = (0.07, 0.58, 0.12, 0.01)
"""The shares of persons who are missing in a poor file, in another block, of another age, and of the other sex. The
second share makes 35 to 40% of a file of sex and age groups right."""
_YEARS, _LAST_AGES = 5, 15
"""The greatest error in years of an age in a poor file, and the assumed width in years of the last age group."""

_BY_CHANCE = 20
"""The number of draws from which agreement by chance is estimated."""

_SURE = 0.95
"""The least probability of a guess that an attacker is sure of."""

_OVER = {TRUE_OVER_HALF: 0.5, TRUE_OVER_90: 0.9}
"""By measure, the threshold that the probability of the true category exceeds."""

ALL, MODAL, NONMODAL, UNIQUE = "all persons", "modal", "nonmodal", "nonmodal, unique"
DETERMINED = "nonmodal, unique, in blocks of one solution"
ANY_SIZE = "all"
RANKS = (0.01, 0.1, 0.5)
"""The shares of kinds of records to evaluate, the most confident first."""
CONFIDENCES = (0.0, 0.5, 0.8, 1.0, 2.0)
"""The least confidence of each class."""


@dataclass(frozen=True)
class Measure:
    """A measure of a draw of a tract, on a subset of its persons (or cells, or pairs); `persons` is their number."""

    attack: str
    subset: str
    block_size: str
    measure: str
    value: float
    persons: int


@dataclass(frozen=True)
class Truth:
    """A tract, or a county, as the evaluator sees it."""

    tract: Tract

    @cached_property
    def counts(self) -> Counts:
        return self.tract.count()

    @property
    def file(self) -> NamedPersons:
        """The attacker's file with the best possible knowledge: the true block and frame of each person."""
        return NamedPersons(self.tract.place, self.tract.frame)

    @property
    def file_with_households(self) -> NamedPersons:
        """The same file with each person's household."""
        return NamedPersons(self.tract.place, self.tract.frame, self.tract.household)

    def spoil_file(self, key: bytes) -> tuple[NamedPersons, NDArray[np.int64]]:
        """A file of poor quality, and the positions of the persons in it. Some persons are missing, others in another
        block, a few years too old or young, or of the other sex: like the commercial files of the Census Bureau's
        study, of which 37% agreed with the census."""
        persons, ages = len(self.tract.household), AGES.get(self.tract.tier.name)
        words = RandomStream(key, "poor file").words(len(_POOR) * persons).reshape(len(_POOR), persons)
        missing, moved, older, other = (
            chances < np.uint64(int(share * 2**64)) for chances, share in zip(words, _POOR, strict=True)
        )
        # The upper half of a word decides whether a value changes, the lower half by how much.
        rest = [(chances % np.uint64(2**32)).astype(np.int64) for chances in words]
        block, frame = self.tract.place, self.tract.frame
        if self.tract.blocks > 1:
            block = np.where(moved, (block + 1 + rest[1] % (self.tract.blocks - 1)) % self.tract.blocks, block)
        if ages is not None:
            starts = np.array([*ages, ages[-1] + _LAST_AGES])
            sex, group = np.divmod(frame, len(ages))
            width = np.diff(starts)[group]
            years = starts[group] + rest[0] % width
            steps = rest[2] % (2 * _YEARS) - _YEARS
            years = np.maximum(0, np.where(older, years + steps + (steps >= 0), years))
            group = np.searchsorted(starts[:-1], years, side="right") - 1
            frame = np.where(other, 1 - sex, sex) * len(ages) + group
        there = np.flatnonzero(~missing)
        return NamedPersons(block[there], frame[there]), there

    @cached_property
    def subsets(self) -> dict[str, NDArray[np.bool_]]:
        """By subset, whether each person is in it. Modal persons have the most frequent category of their block; unique
        persons are the only ones of their frame in it."""
        tract = self.tract
        margins = self.counts.sum(axis=1)
        modal = margins[tract.place, tract.category] == margins.max(axis=1)[tract.place]
        everybody = np.ones_like(modal)
        persons = self.coarse.sum(axis=2)
        unique = persons[tract.place, self.frame_of_block] == 1
        subsets = {ALL: everybody, MODAL: modal, NONMODAL: ~modal}
        if tract.tier.name != "T1":
            subsets[UNIQUE] = ~modal & unique
        if tract.tier.name in ("T2", "T3"):
            subsets[DETERMINED] = subsets[UNIQUE] & self.determined[tract.place]
        return subsets

    @cached_property
    def shares_of_others(self) -> Shares:
        """By person, the probability that a category drawn from the other persons of the block is right."""
        tract = self.tract
        return guess_by_share(tract.place, tract.category, tract.tier.shape[1])

    @property
    def frame_of_block(self) -> NDArray[np.int64]:
        """By person, the frame, as coarse as in the tables of blocks."""
        of_tract = self.tract.tier.of_tract
        return self.tract.frame if of_tract is None else of_tract.group[self.tract.frame]

    @cached_property
    def coarse(self) -> Counts:
        """The counts by the types that the tables of blocks distinguish."""
        of_tract = self.tract.tier.of_tract
        return self.counts if of_tract is None else of_tract.join(self.counts)

    @cached_property
    def around(self) -> Counts | None:
        """The counts of the tract's own tables, shape (1, cells)."""
        whole = self.tract.whole
        return None if whole is None else whole.tier.tabulate(whole.count())

    @cached_property
    def units(self) -> Counts | None:
        """The counts of the tier's tables of units."""
        return self.tract.count_units()

    @cached_property
    def determined(self) -> NDArray[np.bool_]:
        """By block, whether no other records have its exact tables."""
        only = np.zeros(len(self.counts), dtype=np.bool_)
        for block, counts in enumerate(self.tract.tier.tabulate(self.counts)):
            system = System.of(self.tract.tier, counts, None if self.around is None else self.around[0])
            solution = self.coarse[block].ravel()[system.types]
            only[block] = measure_variability(solution, system.differ_most(solution)) == 0
        return only

    @cached_property
    def block_sizes(self) -> dict[str, NDArray[np.bool_]]:
        """By class, whether each block belongs to it."""
        classes = np.searchsorted(BLOCK_SIZES, self.counts.sum(axis=(1, 2)), side="right") - 1
        named = {name_class(BLOCK_SIZES, number): classes == number for number in range(len(BLOCK_SIZES))}
        return {ANY_SIZE: np.ones(len(classes), dtype=np.bool_)} | named

    def cells(self) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
        for subset, members in self.subsets.items():
            for size, of_size in self.block_sizes.items():
                chosen = members & of_size[self.tract.place]
                if chosen.any():
                    yield subset, size, chosen

    def score(self, guesses: Guesses, persons: NDArray[np.int64] | None = None) -> tuple[Shares, Shares, Shares]:
        """By person, the probabilities that the attack names a category, that it names the right one, and that its
        answer is right if the fallback is used where it names none."""
        category = self.tract.category if persons is None else self.tract.category[persons]
        named, confirmed = guesses.shares.sum(axis=1), guesses.shares[np.arange(len(category)), category]
        return named, confirmed, confirmed + (1 - named) * (guesses.fallback == category)


def most_exposed(subsets: Sequence[str] | Mapping[str, object]) -> str:
    """The most exposed of the subsets: unique nonmodal persons if there is such a subset, otherwise nonmodal ones."""
    return UNIQUE if UNIQUE in subsets else NONMODAL


def measure_guesses(truth: Truth, attack: str, guesses: Guesses) -> Iterator[Measure]:
    named, confirmed, accuracy = truth.score(guesses)
    sure = guesses.shares.max(axis=1) >= _SURE
    for subset, size, chosen in truth.cells():
        number = int(chosen.sum())
        means = {
            "named": named[chosen].mean(),
            "confirmed": confirmed[chosen].mean(),
            "accuracy": accuracy[chosen].mean(),
            OVER_GUESSER: (accuracy - truth.shares_of_others)[chosen].mean(),
        }
        if means["named"] > 0:
            means["precision"] = means["confirmed"] / means["named"]
        means |= {name: (confirmed[chosen] > least).mean() for name, least in _OVER.items()}
        means["sure"] = sure[chosen].mean()
        if means["sure"] > 0:
            means["precision if sure"] = confirmed[chosen & sure].mean()
        yield from (Measure(attack, subset, size, name, float(value), number) for name, value in means.items())


def measure_baselines(truth: Truth) -> Iterator[Measure]:
    tract = truth.tract
    categories = tract.tier.shape[1]
    right = {
        "mode of others": guess_by_mode(tract.place, tract.category, categories),
        "share of others": truth.shares_of_others,
        "share of tract": guess_by_share(tract.tract[tract.place], tract.category, categories),
    }
    for subset, size, chosen in truth.cells():
        for name, shares in right.items():
            yield Measure(BASELINE, subset, size, name, float(shares[chosen].mean()), int(chosen.sum()))
    persons = int(truth.counts.sum())
    for name, value in _agree_by_chance(truth.coarse).items():
        yield Measure(BASELINE, ALL, ANY_SIZE, name, value, persons)


def _agree_by_chance(counts: Counts) -> dict[str, float]:
    """The shares of records that agree by chance, in type and in frame, if each block's number of records is drawn from
    the shares of all blocks together. With replacement, a drawn record agrees if its frame occurs in the block."""
    of_block, kinds = counts.sum(axis=(1, 2)), np.flatnonzero(counts.sum(axis=0))
    types, frame = counts.reshape(len(counts), -1)[:, kinds], kinds // counts.shape[2]
    drawn = np.random.default_rng(0).multinomial(of_block, types.sum(axis=0) / types.sum(), (_BY_CHANCE, len(counts)))
    frames, frames_drawn = (np.zeros((*each.shape[:-1], counts.shape[1]), dtype=np.int64) for each in (types, drawn))
    for sums, each in ((frames, types), (frames_drawn, drawn)):
        np.add.at(np.moveaxis(sums, -1, 0), frame, np.moveaxis(each, -1, 0))
    whole = max(1, int(of_block.sum()))
    return {
        "chance agreement": float(np.minimum(drawn, types).sum() / whole / _BY_CHANCE),
        "chance of keys": float(np.minimum(frames_drawn, frames).sum() / whole / _BY_CHANCE),
        "chance of keys, with replacement": float(frames_drawn[:, frames > 0].sum() / whole / _BY_CHANCE),
    }


def measure_gain(
    truth: Truth, attack: str, targets: NDArray[np.int64], within: Guesses, without: Guesses
) -> Iterator[Measure]:
    """The gain of targets, from the guesses about them in the worlds with and without each target."""
    gains = truth.score(within, targets)[2] - truth.score(without, targets)[2]
    yield from _measure_targets(truth, targets, attack, GAIN, gains)


_PUBLISHED = ("counts", "places", "around", "published", "units")
"""The fields of a publication that depend on the records, for a method without randomness."""


def measure_differences(
    truth: Truth, targets: NDArray[np.int64], published: Publication, publish: Callable[[Tract], Publication]
) -> Iterator[Measure]:
    """For a method without randomness, the success of an attacker who knows all records except the target's race and
    ethnicity. The attacker tries each category of the block group's other persons and keeps those that reproduce the
    publication."""
    tract, right = truth.tract, np.zeros(len(targets))
    group = tract.block_group[tract.place]
    for place, target in enumerate(targets.tolist()):
        left = []
        near = group == group[target]
        near[target] = False
        for category in np.unique(tract.category[near]).tolist():
            changed = tract.category.copy()
            changed[target] = category
            world = publish(replace(tract, category=changed))
            if all(np.array_equal(getattr(world, name), getattr(published, name)) for name in _PUBLISHED):
                left.append(category)
        right[place] = (tract.category[target] in left) / max(1, len(left))
    yield from _measure_probabilities(truth, targets, right)


def measure_posteriors(truth: Truth, targets: NDArray[np.int64], published: Publication, law: Law) -> Iterator[Measure]:
    """The same under a law: the posterior probability of the true category, and its ratio to the prior one, which is
    equal for all categories of the block group's other persons."""
    tract, tier = truth.tract, truth.tract.tier
    types = np.arange(np.prod(tier.shape)).reshape(tier.shape)
    kinds = types.reshape(1, -1)
    # Published and true counts by block, the cell of each type in each table, and its weight there.
    sums: list[tuple[Counts, Counts, NDArray[Any], Counts]] = []
    if published.by_type:
        shape = len(truth.counts), types.size
        sums.append((published.counts.reshape(shape), truth.counts.reshape(shape), kinds, np.ones_like(kinds)))
    else:
        sums.append((published.counts, tier.tabulate(truth.counts), tier.cells, tier.weight))
    if tier.of_tract is not None and published.around is not None and truth.around is not None:
        tables, around = tier.of_tract.tables, np.broadcast_to(truth.around, published.around.shape)
        sums.append((published.around, around, tables.cells, tables.weight))
    group = tract.block_group[tract.place]
    right, ratios = np.zeros(len(targets)), np.zeros(len(targets))
    for number, target in enumerate(targets.tolist()):
        place, near = tract.place[target], group == group[target]
        near[target] = False
        candidates = np.unique(tract.category[near])
        if tier.possible is not None:
            candidates = candidates[tier.possible[tract.frame[target], candidates]]
        own = types[tract.frame[target], [tract.category[target], *candidates]]
        logs = np.zeros(len(candidates))
        for counts, true, cells, weight in sums:
            # By world, how much the target adds to each cell; the first world is the true one.
            steps = np.zeros((len(own), true.shape[1]), dtype=np.int64)
            for of_table, weights in zip(cells, weight, strict=True):
                inside = np.flatnonzero(of_table[own] != OUTSIDE)
                steps[inside, of_table[own[inside]]] += weights[own[inside]]
            changed = np.flatnonzero(steps.any(axis=0))
            if published.published is not None:
                changed = changed[published.published[place, changed]]
            worlds = true[place, changed] + (steps[1:] - steps[0])[:, changed]
            of_cells = law.at(changed) if isinstance(law, GaussianLaw) else law
            likely = of_cells.log_likelihoods(counts[place, changed], int(worlds.max(initial=0)))
            logs += likely[np.arange(len(changed)), worlds].sum(axis=1)
        # A p-table may rule out all candidates.
        highest = logs.max(initial=-np.inf)
        posterior = np.exp(logs - highest) if np.isfinite(highest) else np.ones(len(logs))
        found = float(posterior[candidates == tract.category[target]].sum() / max(1, posterior.sum()))
        right[number], ratios[number] = found, found * len(candidates)
    yield from _measure_probabilities(truth, targets, right)
    yield from _measure_targets(truth, targets, DIFFERENCE, POSTERIOR_RATIO, ratios)
    for measure, share in ((POSTERIOR_RATIO_95, 0.95), (POSTERIOR_RATIO_GREATEST, 1)):
        yield from _measure_targets(truth, targets, DIFFERENCE, measure, ratios, partial(np.quantile, q=share))


def _measure_probabilities(truth: Truth, targets: NDArray[np.int64], right: Shares) -> Iterator[Measure]:
    """The probabilities of targets' true categories, for an attacker who knows all other records."""
    yield from _measure_targets(truth, targets, DIFFERENCE, "accuracy", right)
    for name, least in _OVER.items():
        yield from _measure_targets(truth, targets, DIFFERENCE, name, right > least)


def _measure_targets(
    truth: Truth,
    targets: NDArray[np.int64],
    attack: str,
    measure: str,
    values: Shares | NDArray[np.bool_],
    summarize: Callable[[Any], Any] = np.mean,
) -> Iterator[Measure]:
    exposed = truth.subsets[most_exposed(truth.subsets)]
    for subset, members in truth.subsets.items():
        chosen = members[targets]
        # Exposed persons are chosen as targets more often, so a mean over exposed and other persons would be biased.
        if chosen.any() and len(np.unique(exposed[members])) == 1:
            yield Measure(attack, subset, ANY_SIZE, measure, float(summarize(values[chosen])), int(chosen.sum()))


def measure_reconstruction(truth: Truth, attack: str, found: Reconstruction) -> Iterator[Measure]:
    persons = found.histograms.sum(axis=(1, 2))
    number = int(persons.sum())
    shares, of_tract = {"agreement": measure_agreement(found.histograms, truth.counts)}, truth.tract.tier.of_tract
    if of_tract is not None:
        counts, ages = (found.histograms, truth.counts), of_tract.ages
        shares = {
            "agreement": measure_agreement(of_tract.join(found.histograms), truth.coarse),
            "agreement in years": shares["agreement"],
            "agreement within a year": measure_agreement_within_a_year(*counts, ages),
            WITHIN_ONE_ERROR: measure_agreement_with_one_error(*counts, ages, FLAGS),
            "solution variability in years": found.variability_in_years,
        }
    if not np.any(found.variability == NONE):
        shares["solution variability"] = float((found.variability * persons).sum() / max(1, number))
        for size, of_size in truth.block_sizes.items():
            if of_class := int(persons[of_size].sum()):
                share = float(persons[of_size & (found.variability == 0)].sum() / of_class)
                yield Measure(attack, ALL, size, "determined", share, of_class)
    if not np.any(found.provable == NONE):
        shares[PROVABLE] = float(found.provable.sum() / max(1, number))
    for name, value in shares.items():
        yield Measure(attack, ALL, ANY_SIZE, name, value, number)
    if found.confidence.size:
        yield from _measure_ranks(truth, attack, found.confidence)


def _measure_ranks(truth: Truth, attack: str, confidence: Shares) -> Iterator[Measure]:
    """The match rates of the kinds of a block's records that the attacker is most confident of, K of them, and of all
    kinds by confidence. K is a share of the expected number. Ties go to kinds that are frequent in the attacker's
    reconstructions."""
    everywhere = np.broadcast_to(confidence.sum(axis=0), confidence.shape).ravel()
    sure, right = confidence.ravel(), truth.coarse.ravel() > 0
    kinds = np.flatnonzero(sure)
    order = kinds[np.lexsort((-everywhere[kinds], -sure[kinds]))]
    for share in RANKS:
        first = order[: int(np.ceil(share * sure.sum()))]
        yield Measure(attack, f"first {share:.0%}", ANY_SIZE, MATCH_RATE, float(right[first].mean()), len(first))
    for least, most in pairwise(CONFIDENCES):
        chosen = kinds[(sure[kinds] >= least) & (sure[kinds] < most)]
        if len(chosen):
            subset = f"confidence {least:g}" + ("" if least == 1 else f" to {most:g}")
            yield Measure(attack, subset, ANY_SIZE, MATCH_RATE, float(right[chosen].mean()), len(chosen))


def measure_holdout(truth: Truth, others: Sequence[Truth]) -> Iterator[Measure]:
    """The match rates of the same ranks for a guesser who knows the number of persons of each block and the kinds of
    records of other tracts; empty without other tracts."""
    if not others:
        return
    expected = truth.coarse.sum(axis=(1, 2))[:, None, None] * sum(other.coarse.sum(axis=0) for other in others)
    order, right = np.argsort(-expected.ravel(), kind="stable"), truth.coarse.ravel() > 0
    for share in RANKS:
        first = order[: int(np.ceil(share * right.sum()))]
        yield Measure(BASELINE, f"first {share:.0%}", ANY_SIZE, MATCH_RATE, float(right[first].mean()), len(first))


def measure_ratios(truth: Truth, draw: Draw, pairs: NDArray[np.int64]) -> Iterator[Measure]:
    """Likelihood ratios: the method's own, or else, for counts under a law, the ratios to worlds in which the first
    person of each pair has the category of the second. `pairs` are positions of persons, shape (pairs, 2)."""
    law, ratios = draw.publication.law, draw.log_ratios
    if law is not None and ratios is None:
        tract, tier = truth.tract, truth.tract.tier
        first, other = pairs[tract.category[pairs[:, 0]] != tract.category[pairs[:, 1]]].T
        if tier.possible is not None:
            there_can_be = tier.possible[tract.frame[first], tract.category[other]]
            first, other = first[there_can_be], other[there_can_be]
        place, frame, publication = tract.place[first], tract.frame[first], draw.publication
        types = [frame * tier.shape[1] + tract.category[persons] for persons in (first, other)]
        if publication.by_type:
            moves = [(publication.counts, truth.counts, place, types, np.ones_like(place))]
        else:
            exact = tier.tabulate(truth.counts)
            moves = [
                (publication.counts, exact, place, [cells[each] for each in types], weight[types[0]])
                for cells, weight in zip(tier.cells, tier.weight, strict=True)
            ]
        if tier.of_tract is not None and publication.around is not None and truth.around is not None:
            whole = publication.around[:1], truth.around, np.zeros_like(place)
            moves += [
                (*whole, [cells[each] for each in types], np.ones_like(place)) for cells in tier.of_tract.tables.cells
            ]
        ratios = np.zeros(len(first))
        with np.errstate(invalid="ignore"):
            for published, exact, rows, (left, entered), weight in moves:
                published, exact = (counts.reshape(len(counts), -1) for counts in (published, exact))
                for cells, step in ((left, -1), (entered, 1)):
                    chosen = np.flatnonzero((left != entered) & (cells != OUTSIDE))
                    at = rows[chosen], cells[chosen]
                    count, each = exact[at], np.arange(len(chosen))
                    steps = step * weight[chosen]
                    own = law.at(cells[chosen]) if isinstance(law, GaussianLaw) else law
                    likely = own.log_likelihoods(published[at], int(np.maximum(count, count + steps).max(initial=0)))
                    ratios[chosen] += likely[each, count] - likely[each, count + steps]
    if ratios is None or not len(ratios):
        return
    sizes = np.abs(ratios)
    finite, number = np.isfinite(sizes), len(sizes)
    values = {"ln ratio, infinite": float(np.isinf(sizes).mean())}
    if finite.any():
        values["ln ratio, median"] = float(np.median(sizes[finite]))
        values["ln ratio, greatest"] = float(sizes[finite].max())
    if draw.bound is not None:
        values["ln ratio, bound"] = draw.bound
    # With a prior of one half for each world, the true one has the posterior probability 1 / (1 + e^-ratio).
    if not np.isnan(ratios).any():
        values[ADVANTAGE] = float(np.tanh(ratios / 2).mean())
    yield from (Measure(TABLES, "pairs", ANY_SIZE, name, value, number) for name, value in values.items())


def name_class(starts: tuple[int, ...], number: int) -> str:
    first = starts[number]
    if number + 1 == len(starts):
        return f"{first} or more"
    last = starts[number + 1] - 1
    return str(first) if first == last else f"{first} to {last}"
