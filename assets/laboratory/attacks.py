"""The built-in attacks of the laboratory. Each receives only a publication and an attacker's file."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.laboratory.measures import AWARE, AWARE_OF_HOUSEHOLDS, LIKELIEST, LINK, MARGIN, UNDO
from assets.laboratory.publication import (
    NONE,
    Choice,
    Guesses,
    NamedPersons,
    Publication,
    Reconstruction,
    join_frames,
    split_frames,
)
from mechanisms.races import SIX_RACES
from mechanisms.risk.linear import Sums, estimate_shares, estimate_types, observe_interval, weigh_interval
from mechanisms.risk.matching import find_modes, match_in_two_passes, match_persons
from mechanisms.risk.posterior import (
    GaussianLaw,
    LaplaceLaw,
    Law,
    expect_shares,
    expect_shares_of_pairs,
    weigh_membership,
)
from mechanisms.risk.reconstruction import (
    NotSolvedError,
    System,
    find_likeliest,
    find_possible,
    measure_variability,
)
from mechanisms.risk.swaps import share_records
from mechanisms.risk.tiers import OUTSIDE, RACES, REDISTRICTING, Counts, Shares, Tier

Attack = Callable[[Publication, NamedPersons], Any]

_CERTAIN = 2.0
"""A total of noisy counts below this number of its standard deviations is taken for 0."""
_LEAST = 0.5
"""The persons of a tract that a prior assumes in a category without published persons."""
_DIFFERENCE = 2
"""The number of published counts whose difference is the Hispanic persons of a race."""
_STEPS_AROUND, _STEPS = 20, 5
"""Steps towards the likeliest shares of the tract and of a block, whose shares stay near the tract's."""
_NEARLY_EXACT = LaplaceLaw(0.1)
"""In place of exact counts, which after swaps can contradict the attacker's file: each difference costs 10 nats."""
_RARE = 1e-4
"""Types with a lower prior share are left out of a program."""
_LEAST_VARIANCE = 0.01
"""In place of a smaller variance of noise, because an integer program cannot weigh a greater cost of a difference."""
_GAP = 0.005
"""The greatest excess, as a share, of the costs of records behind sums over types above the least costs."""
_LEAST_WEIGHT = 5.0
"""The weight of the tract's shares in a prior, in persons of the block, if a block's counts are hardly perturbed."""

_TOGETHER = 16
"""The number of frames, of about equal numbers of persons, whose posteriors are computed together."""

_ENSEMBLE = 20
"""The number of reconstructions of a block that rank its records."""


def link(publication: Publication, persons: NamedPersons) -> Guesses:
    """Race and ethnicity of named persons, given their block and frame: from exact tables by reconstruction and
    matching, from microdata by matching, and from perturbed counts or measurements by their posterior. Persons without
    a match get the mode of the block."""
    if publication.tier.of_types:
        known = persons.count(len(publication.counts), len(publication.tier.frames))
        return Guesses(_estimate(publication, known)[persons.block, persons.frame], np.full(len(persons.block), NONE))
    known = publication.add_up(persons.count(len(publication.counts), len(publication.tier.frames)))
    frame = persons.frame
    if publication.moves is not None:
        known, frame = _follow_moves(publication, known, persons)
    if publication.measured:
        shares = _infer_from_measurements(publication, known)
    elif publication.law is None:
        shares = _match(publication, known)
    elif publication.by_type:
        shares = _infer(publication.law, publication.counts, known, _estimate_priors(publication, publication.law))
    else:
        shares = infer_from_tables(publication, known, publication.law)
    return Guesses(shares[persons.block, frame], _find_modes(publication)[persons.block].argmax(axis=1))


def guess_likeliest(publication: Publication, persons: NamedPersons) -> Guesses:
    """As `link`, from the likeliest records behind perturbed counts, found by an integer program. The program weighs
    all tables of a block together, which is better than a posterior of single cells if noise is small. If noise is
    great, very many other records are about as likely."""
    law, tier = publication.law, publication.tier
    known = persons.count(len(publication.counts), len(tier.frames))
    if tier.of_types:
        shares = match_persons(known, _find_likeliest_types(publication, known))
        return Guesses(shares[persons.block, persons.frame], np.full(len(persons.block), NONE))
    assert law is not None
    histograms = np.zeros((len(known), *tier.shape), dtype=np.int64)
    priors = _estimate_priors(publication, law)
    for block, prior in enumerate(priors):
        costs = -law.log_likelihoods(publication.counts[block], int(known[block].sum()))
        if law.standard_deviation:
            kept = np.where(prior > 1.5 * prior.min(), prior, 0.0)
        else:
            filled = np.asarray(np.isfinite(costs[:, 1:]).any(axis=1))
            allowed = np.all((tier.cells == OUTSIDE) | filled[tier.cells], axis=0)
            kept = np.where(allowed.reshape(tier.shape).any(axis=0), prior, 0.0)
        try:
            histograms[block] = find_likeliest(tier.cells, costs, known[block], kept if kept.any() else prior)
        except NotSolvedError:
            # Without a solution, the prior's mode is the best guess.
            histograms[block, :, prior.argmax()] = known[block]
    return Guesses(match_persons(known, histograms)[persons.block, persons.frame], np.full(len(persons.block), NONE))


def guess_by_margin(publication: Publication, persons: NamedPersons) -> Guesses:
    """A guess from the published shares of the block alone, without linking persons."""
    if publication.tier.of_types:
        known = persons.count(len(publication.counts), len(publication.tier.frames))
        margins = (_estimate(publication, known) * known[..., None]).sum(axis=1)
    else:
        margins = np.maximum(_margins(publication), 0)
    sums = margins.sum(axis=1, keepdims=True)
    modes = find_modes(margins, margins.sum(axis=0)) if publication.tier.of_types else _find_modes(publication)
    shares = np.where(sums > 0, margins / np.maximum(1, sums), modes)
    return Guesses(shares[persons.block], np.full(len(persons.block), NONE))


def reconstruct(publication: Publication, certain: bool) -> Reconstruction:
    """The records behind exact tables, the solution variability of each block and, if `certain`, the provable records
    and the confidence in each type. Microdata are their own reconstruction; their other values are unknown."""
    histograms = _reconstruct(publication)
    if publication.by_type:
        unknown = np.full(len(histograms), NONE)
        return Reconstruction(histograms, unknown.astype(np.float64), unknown)
    variability, provable = np.zeros(len(histograms)), np.full(len(histograms), NONE)
    tier, around, in_years, solutions = publication.tier, publication.around, float(NONE), histograms
    if tier.of_tract is not None and around is not None:
        system = System.of_tract(tier, publication.counts, around[0])
        solution = histograms.ravel()[system.types]
        in_years = measure_variability(solution, system.differ_most(solution))
        solutions = tier.of_tract.join(histograms)
    confidence = np.zeros(solutions.shape if certain else 0)
    for block, counts in enumerate(publication.counts):
        system = System.of(tier, counts, None if around is None else around[block])
        solution = solutions[block].ravel()[system.types]
        other = system.differ_most(solution)
        variability[block] = measure_variability(solution, other)
        if certain:
            provable[block] = system.count_provable(solution, other)
            costs = np.random.default_rng(0).normal(size=(_ENSEMBLE, len(system.types)))
            confidence[block].ravel()[system.types] = system.rank(solution, other, costs)
    return Reconstruction(histograms, variability, provable, in_years, confidence)


def undo(publication: Publication, persons: NamedPersons) -> Guesses:
    """As `link` from exact tables of swapped records. A person without a record in the block was swapped away, and is
    matched with the records of the same frame in any block that match no person of the attacker's file. The file has
    all persons of some or all frames."""
    records, frame = _reconstruct_by_group(publication, persons, of_all=False)
    asked, frame = np.unique(frame, return_inverse=True)
    records = records[:, asked]
    blocks, frames, categories = records.shape
    known = NamedPersons(persons.block, frame).count(blocks, frames)
    of_frame = np.tile(np.arange(frames), blocks)
    shares = match_in_two_passes(known.ravel(), records.reshape(-1, categories), of_frame)
    modes = _find_modes(publication)[persons.block].argmax(axis=1)
    return Guesses(shares.reshape(records.shape)[persons.block, frame], modes)


def weigh_swaps(publication: Publication, persons: NamedPersons) -> Guesses:
    """As `link` from exact tables of swapped records, by the posterior probabilities, given the swap rate, that each
    person (or household if households are known) stayed in the block or is in each of the others."""
    assert publication.swaps is not None
    records, frame = _reconstruct_by_group(publication, persons)
    household = np.arange(len(frame)) if persons.household is None else persons.household
    known = NamedPersons(persons.block, frame).count(*records.shape[:2])
    stay = publication.swaps.find_stay(_margins(publication).sum(axis=0))
    shares = share_records(known, records, (household, persons.block, frame), stay)
    return Guesses(shares, _find_modes(publication)[persons.block].argmax(axis=1))


ATTACKS: dict[str, Attack] = {
    LINK: link,
    MARGIN: guess_by_margin,
    LIKELIEST: guess_likeliest,
    UNDO: undo,
    AWARE: weigh_swaps,
    AWARE_OF_HOUSEHOLDS: weigh_swaps,
}


def _follow_moves(publication: Publication, known: Counts, persons: NamedPersons) -> tuple[Counts, NDArray[np.int64]]:
    """The persons of each block's place by frame, and each person's frame, after coarsening. An attacker who knows the
    frames of all persons of a place can repeat the moves of their combinations."""
    assert publication.places is not None
    assert publication.moves is not None
    _, first = np.unique(publication.places, return_index=True)
    place, frame = np.nonzero(known[first])
    keys = np.stack(split_frames(publication.tier, frame), axis=1)
    moved = publication.moves(place, keys, known[first][place, frame])
    new = np.tile(np.arange(known.shape[1]), (len(first), 1))
    new[place, frame] = join_frames(publication.tier, moved)
    after = np.zeros_like(known[first])
    np.add.at(after, (place, new[place, frame]), known[first][place, frame])
    return after[publication.places], new[publication.places[persons.block], persons.frame]


def _reconstruct_by_group(
    publication: Publication, persons: NamedPersons, *, of_all: bool = True
) -> tuple[Counts, NDArray[np.int64]]:
    """The records by block, and the frames of persons, as coarse as in the tables of blocks, because single years are
    only in the tract's tables and say little about its blocks. Unless `of_all`, records of frames without persons may
    be left out."""
    of_tract = publication.tier.of_tract
    records = _reconstruct(publication, None if of_all else np.unique(persons.frame))
    return (records, persons.frame) if of_tract is None else (of_tract.join(records), of_tract.group[persons.frame])


def _reconstruct(publication: Publication, frames: NDArray[np.int64] | None = None) -> Counts:
    """The records by block. If frames are given, records of other frames may be left out."""
    if publication.by_type:
        return publication.counts
    tier = publication.tier
    histograms = np.zeros((len(publication.counts), np.prod(tier.shape)), dtype=np.int64)
    if publication.around is not None:
        together = System.of_tract(tier, publication.counts, publication.around[0])
        histograms.ravel()[together.types] = together.reconstruct()
        return histograms.reshape(-1, *tier.shape)
    cells = tier.cells.reshape(-1, *tier.shape)[:, slice(None) if frames is None else frames]
    for block, counts in enumerate(publication.counts):
        if len(find_possible(cells.reshape(len(cells), -1), counts)):
            types, numbers = _reconstruct_block(tier, counts.astype(np.int64).tobytes())
            histograms[block, types] = numbers
    return histograms.reshape(-1, *tier.shape)


@lru_cache(maxsize=10_000)
def _reconstruct_block(tier: Tier, counts: bytes) -> tuple[NDArray[np.int64], Counts]:
    """The possible types and their numbers, from a block's counts. Cached, because worlds without one person hardly
    differ."""
    system = System.of(tier, np.frombuffer(counts, dtype=np.int64))
    return system.types, system.reconstruct()


def _estimate(publication: Publication, known: Counts) -> Shares:
    """The shares of a record of each frame of a block, estimated linearly from sums over many types, with a prior from
    the tract's publication. If a category's total decided on its table, the decision is evidence of the total too."""
    tier, choice, variances = publication.tier, publication.choice, _find_variances(publication)
    shares = np.zeros((len(known), *tier.shape))
    for place, persons in enumerate(known):
        present = persons > 0
        if not present.any():
            continue
        own, prior, persons = tier.factors[:, present], _estimate_prior(publication, place, persons), persons[present]
        chosen = slice(None) if publication.published is None else np.flatnonzero(publication.published[place])
        sums = Sums(own[chosen], publication.counts[place][chosen], variances[chosen])
        if choice is not None:
            sums = _observe_choices(publication, choice, place, sums, (persons, prior))
        prior = estimate_shares(sums, persons, prior, _STEPS)
        shares[place, present] = estimate_types(sums, persons, prior) / persons[:, None]
    return shares


def _find_variances(publication: Publication) -> Shares:
    """The variance of the noise of each cell of tables of types; 0 if the tables are exact."""
    law, cells = publication.law, len(publication.tier.table_of_cell)
    return np.broadcast_to(law.variance, cells) if isinstance(law, GaussianLaw) else np.zeros(cells)


def _estimate_prior(publication: Publication, place: int, persons: Counts) -> Shares:
    """π of each frame with persons in the block, from the tract's publication."""
    tier, present, variances = publication.tier, persons > 0, _find_variances(publication)
    everywhere = np.flatnonzero(tier.table_of_cell == 0) if tier.thresholds else np.arange(len(variances))
    possible = np.ones(tier.shape) if tier.possible is None else tier.possible
    flat = (possible / possible.sum(axis=1, keepdims=True))[present]
    blocks = publication.blocks[place]
    factors, noise = tier.factors[:, present][everywhere], variances[everywhere] * blocks
    around = Sums(factors, publication.totals[place][everywhere], noise)
    return estimate_shares(around, persons[present] * blocks, flat, _STEPS_AROUND)


def _find_likeliest_types(publication: Publication, known: Counts) -> Counts:
    """The likeliest histogram of each block by an integer program of all its sums over types. A slope of the cost of
    noise spans half of its standard deviation. The choice of a category's table bounds a noisy total of the category,
    so the choice has a cost too."""
    tier, choice, law = publication.tier, publication.choice, publication.law or _NEARLY_EXACT
    if isinstance(law, GaussianLaw):
        law = GaussianLaw(np.maximum(law.variance, _LEAST_VARIANCE))
    groups, cells = len(tier.groups) if choice else 0, len(tier.table_of_cell)
    spacing = np.append(np.maximum(1, np.sqrt(_find_variances(publication)) / 2).astype(int), np.ones(groups, int))
    category = np.tile(np.arange(tier.shape[1]), tier.shape[0])
    weight = np.vstack([tier.weight, np.ones_like(category)])
    histograms = np.zeros((len(known), *tier.shape), dtype=np.int64)
    for place, persons in enumerate(known):
        present, prior = persons > 0, np.zeros(tier.shape)
        if not present.any():
            continue
        prior[present] = _estimate_prior(publication, place, persons)
        rare = prior < np.minimum(_RARE, prior.max(axis=1, keepdims=True))
        most = int((persons * tier.weight.max(axis=0).reshape(tier.shape)[:, 0]).sum())
        costs = -law.log_likelihoods(publication.counts[place], most)
        counted = tier.cells
        if publication.published is not None:
            counted = np.where(publication.published[place][counted], counted, OUTSIDE)
        if choice is not None:
            costs = np.vstack(
                [costs, *(-_weigh_choice(publication, choice, place, each, most) for each in range(groups))]
            )
        counted = np.vstack([counted, np.where(category < groups, cells + category, OUTSIDE)])
        try:
            likely = np.where(rare, 0, prior)
            histograms[place] = find_likeliest(counted, costs, persons, likely, weight, spacing, _GAP)
        except NotSolvedError:
            histograms[place, np.arange(len(persons)), prior.argmax(axis=1)] = persons
    return histograms


def _weigh_choice(publication: Publication, choice: Choice, place: int, category: int, most: int) -> Shares:
    """ln of the probability of the choice of a category's table (or none), given 0, 1, …, `most` persons in it."""
    counts = np.arange(most + 1)
    return np.asarray(
        sum(weigh_interval(counts, *event) for event in _list_events(publication, choice, place, category))
    )


def _list_events(
    publication: Publication, choice: Choice, place: int, category: int
) -> list[tuple[float, tuple[float, float]]]:
    """The intervals known to contain the noisy totals of a block's category, with the variances of the noise."""
    tier = publication.tier
    assert publication.published is not None
    ends = [-np.inf, *(threshold - 0.5 for threshold in tier.thresholds), np.inf]
    tables = tier.table_of_cell[publication.published[place] & (tier.category_of_cell == category)]
    detail = int(tables[0]) if len(tables) else 0
    events = [(choice.variance, (ends[detail], ends[detail + 1]))]
    if not len(tables) and choice.above is not None:
        events.append((choice.second, (-np.inf, choice.above + 0.5)))
    return events


def _observe_choices(
    publication: Publication, choice: Choice, place: int, sums: Sums, known: tuple[Counts, Shares]
) -> Sums:
    """Add the evidence of each category's total in the choice of its table (or none), as a noisy total."""
    tier, (persons, prior) = publication.tier, known
    for category in range(len(tier.groups)):
        total = np.zeros((len(persons), tier.shape[1]))
        total[:, category] = 1
        mean = float((persons * prior[:, category]).sum())
        variance = float((persons * prior[:, category] * (1 - prior[:, category])).sum())
        for noise, interval in _list_events(publication, choice, place, category):
            if observed := observe_interval(mean, variance, noise, interval):
                sums = sums.also(total, *observed)
    return sums


def _match(publication: Publication, known: Counts) -> Shares:
    """Match persons to the records behind exact tables: by frame, and the remaining persons by group of ages."""
    histograms, of_tract = _reconstruct(publication), publication.tier.of_tract
    if of_tract is None:
        return match_persons(known, histograms)
    return match_in_two_passes(known, histograms, of_tract.group)


def _margins(publication: Publication, *, of_tract: bool = False) -> Counts:
    """The published persons by race and ethnicity, shape (blocks, categories)."""
    counts = publication.totals if of_tract else publication.counts
    if publication.by_type:
        return np.asarray(counts.sum(axis=1))
    races, others = (publication.table(name, counts) for name in ("P1", "P2"))
    return np.hstack([others[:, :RACES], races - others[:, :RACES]])


def _find_modes(publication: Publication) -> Shares:
    return find_modes(_margins(publication), _margins(publication, of_tract=True))


def _estimate_priors(publication: Publication, law: Law) -> Shares:
    """π for each block, shape (blocks, categories), from the tract's publication, never from the truth. Tables also
    have the shares of the block, with less noise than the sum of its types."""
    counted = len(publication.tier.frames) if publication.by_type else _DIFFERENCE
    deviation = law.standard_deviation * counted**0.5
    priors = _clip(_margins(publication, of_tract=True), deviation * publication.blocks[:, None] ** 0.5)
    if not publication.by_type:
        block = _margins(publication)
        priors = np.where(block > _CERTAIN * deviation, block, 0) + (_LEAST_WEIGHT + deviation**2) * priors
    return np.asarray(priors / priors.sum(axis=1, keepdims=True))


def _clip(counts: Counts | Shares, deviation: float | Shares) -> Shares:
    """Shares from noisy counts, shape (blocks, categories); counts that noise alone explains get low, equal shares."""
    likely = np.maximum(np.where(counts > _CERTAIN * deviation, counts, 0), _LEAST)
    return np.asarray(likely / likely.sum(axis=1, keepdims=True))


def _infer(law: Law, counts: Counts | Shares, known: Counts, priors: Shares) -> Shares:
    """The posterior shares of a person of each block and frame, from counts of all types."""
    shares, (block, frame) = np.zeros(counts.shape), np.nonzero(known)
    by_size = np.argsort(known[block, frame], kind="stable")
    for first in range(0, len(by_size), _TOGETHER):
        chosen = by_size[first : first + _TOGETHER]
        at = block[chosen], frame[chosen]
        shares[at] = expect_shares(law, counts[at], priors[at[0]], known[at])
    return shares


def _infer_from_measurements(publication: Publication, known: Counts) -> Shares:
    """The same from noisy measurements of several queries. Their best linear estimate of all types is as good as one
    measurement of each type, except that its errors are correlated. The prior combines the shares of the place around a
    block with the block's microdata, which were made to agree with that place."""
    if publication.tier is not REDISTRICTING:
        return _infer_by_adults(publication, known)
    own, covariance = _average(publication, "counts", "variance")
    around, around_covariance = _average(publication, "totals", "totals_variance")
    # All types have the same role in every query, so their variances are equal. A category sums its frames.
    clipped = _clip(around.sum(axis=1), around_covariance[:, 0, :, 0].sum() ** 0.5)
    priors = publication.counts.sum(axis=1) + _LEAST_WEIGHT * clipped
    priors /= priors.sum(axis=1, keepdims=True)
    return _infer(GaussianLaw(covariance[0, 0, 0, 0]), own, known, priors)


def _average(publication: Publication, counts: str, variance: str) -> tuple[Shares, Shares]:
    """The best linear estimates of all types from measurements, shape (blocks, frames, categories), with the covariance
    of two types, shape (frames, categories, frames, categories)."""
    shape = publication.tier.shape
    types = int(np.prod(shape))
    information, weighted = np.zeros((types, types)), np.zeros((len(publication.counts), types))
    for query in publication.measured:
        cells, weight = query.cells.ravel(), 1 / getattr(query, variance)
        information += weight * (cells[:, None] == cells)
        weighted += weight * getattr(query, counts)[:, cells]
    inverse = np.linalg.inv(information)
    return np.reshape(weighted @ inverse, (-1, *shape)), np.reshape(inverse, (*shape, *shape))


def _infer_by_adults(publication: Publication, known: Counts) -> Shares:
    """The same from measurements that distinguish only adults and minors: their posterior, times the relative frequency
    of a category in the frame, from the tract's microdata. Measurements of all types are weighed after that."""
    adult = (publication.tier.tables["P3"][:, 0] != OUTSIDE).astype(np.int64)
    frames = [int(np.flatnonzero(adult == number)[0]) for number in range(2)]
    is_coarse = [np.array_equal(query.cells, query.cells[frames][adult]) for query in publication.measured]

    def add_up(counts: Any) -> Any:
        return np.stack([counts[:, adult == number].sum(axis=1) for number in range(2)], axis=1)

    coarse = replace(
        publication,
        tier_name=REDISTRICTING.name,
        counts=add_up(publication.counts),
        totals=add_up(publication.totals),
        measured=tuple(
            replace(query, cells=query.cells[frames])
            for query, of_adults in zip(publication.measured, is_coarse, strict=True)
            if of_adults
        ),
    )
    shares, around = _infer_from_measurements(coarse, add_up(known)), coarse.totals + _LEAST
    expected = (around / around.sum(axis=2, keepdims=True))[:, adult]
    totals = publication.totals
    own = (totals + _LEAST_WEIGHT * expected) / (totals.sum(axis=2, keepdims=True) + _LEAST_WEIGHT)
    weighed = shares[:, adult] * own / expected
    if not all(is_coarse):
        # The distribution of a category's persons over the frames of adults, or minors, in the tract's microdata.
        spread = own * totals.sum(axis=2, keepdims=True)
        spread /= np.maximum(add_up(spread)[:, adult], np.finfo(float).tiny)
        others = _expect_around(coarse)[:, adult] * spread
        weighed = _weigh_types(publication, known, weighed, others)
    # No person of the file is in a frame without shares.
    return np.asarray(weighed / np.maximum(weighed.sum(axis=2, keepdims=True), np.finfo(float).tiny))


def _expect_around(publication: Publication) -> Shares:
    """The persons of each type in the place around each block, shape (blocks, frames, categories): the number expected
    from the tract's shares, moved towards the measured one in proportion to the precision of the measurement."""
    measured, covariance = _average(publication, "totals", "totals_variance")
    shares = publication.totals + _LEAST
    expected = shares / shares.sum(axis=(1, 2), keepdims=True) * measured.sum(axis=(1, 2), keepdims=True)
    expected = np.maximum(expected, _RARE)
    surprise = (measured - expected) / (expected + covariance[0, 0, 0, 0])
    return np.asarray(np.maximum(expected * (1 + surprise), _RARE))


def _weigh_types(publication: Publication, known: Counts, shares: Shares, around: Shares) -> Shares:
    """Shares of each frame times the likelihood ratio of the measurements of all types, in the block and in the place
    around it, if a person is of the type. `around` has the persons expected in that place."""
    shape = publication.tier.shape
    sums = {name: np.zeros((len(known), *shape)) for name in ("counts", "totals")}
    weights = {name: np.zeros(shape) for name in sums}
    for query in publication.measured:
        cells = query.cells.ravel()
        alone = (np.bincount(cells)[cells] == 1).reshape(shape)
        for name, variance in (("counts", query.variance), ("totals", query.totals_variance)):
            sums[name] += alone * getattr(query, name)[:, query.cells] / variance
            weights[name] += alone / variance
    weighed = np.zeros_like(shares)
    for block, persons in enumerate(known):
        present = persons > 0
        prior = shares[block, present]
        in_block = (persons[present, None] - 1) * prior / prior.sum(axis=1, keepdims=True)
        weighed[block, present] = prior
        for name, others in (("counts", in_block), ("totals", around[block, present])):
            variance = 1 / weights[name][present]
            weighed[block, present] *= weigh_membership(sums[name][block, present] * variance, variance, others)
    return weighed


def infer_from_tables(publication: Publication, known: Counts, law: Law) -> Shares:
    """The same from perturbed tables, each with its own errors. Each group of frames that tables do not distinguish is
    inferred by itself: in T1 adults, and then minors from the remainder; otherwise the persons of a sex and an age
    group of P12. A class has the races that tables by age do not distinguish."""
    tier, prior = publication.tier, _estimate_priors(publication, law).reshape(-1, 2, RACES)
    by_race = tier is REDISTRICTING
    class_of_race = np.arange(RACES) if by_race else np.minimum(np.arange(RACES), len(SIX_RACES))
    of_class = np.zeros((len(known), 2, int(class_of_race.max()) + 1))
    np.add.at(np.moveaxis(of_class, 2, 0), class_of_race, np.moveaxis(prior, 2, 0))
    within = prior / of_class[..., class_of_race]
    found = (_infer_by_adult if by_race else _infer_by_sex_and_age)(publication, known, law, of_class)
    shares = (found[..., class_of_race] * within[:, None]).reshape(-1, *tier.shape)
    if publication.around is not None:
        for block, around in enumerate(publication.around):
            shares[block] *= _compare_years(tier, around, law)
        shares /= np.maximum(shares.sum(axis=2, keepdims=True), np.finfo(float).tiny)
    return shares


def _infer_by_adult(publication: Publication, known: Counts, law: Law, of_class: Shares) -> Shares:
    """The posterior shares of minors and adults by ethnicity and class, shape (blocks, 2, 2, classes), from P1 to P4;
    `of_class` are the prior shares. Without persons, the shares are 0."""
    shares = np.zeros((len(known), 2, *of_class.shape[1:]))
    for block, prior in enumerate(of_class):
        minors, adults = known[block].tolist()
        p1, p2, p3, p4 = (publication.table(name, publication.counts[block]) for name in ("P1", "P2", "P3", "P4"))
        alone = np.ones((*prior.shape, 1))
        if adults:
            races, others = (_weigh(law, table, adults) for table in (p3, p4))
            likely = _by_pairs(races, others[:-1])
            shares[block, 1] = expect_shares_of_pairs(likely[None], others[None, -1], prior[None], adults)[0]
            alone = _weigh_alone(np.stack([others[:-1], races]), prior)
        if minors:
            parts = (_weigh(law, table, minors + adults) for table in (p1, p2[:-1]))
            races, others = (
                np.stack([np.correlate(row, weights, "valid") for row, weights in zip(part, of_adults, strict=True)])
                for part, of_adults in zip(parts, alone[::-1], strict=True)
            )
            likely, of_second = _by_pairs(races, others), np.ones((1, minors + 1))
            shares[block, 0] = expect_shares_of_pairs(likely[None], of_second, prior[None], minors)[0]
    return shares


def _infer_by_sex_and_age(publication: Publication, known: Counts, law: Law, of_class: Shares) -> Shares:
    """The same by frame, shape (blocks, frames, 2, classes), from P12A to P12I."""
    tier, classes = publication.tier, of_class.shape[2]
    names = [list(tier.tables).index(f"P12{letter}") for letter in "ABCDEFGHI"]
    _, first, group = np.unique(tier.tables["P12"][:, 0], return_index=True, return_inverse=True)
    cells = tier.cells.reshape(-1, *tier.shape)[names][:, first].max(axis=2).T
    numbers = np.zeros((len(known), len(first)), dtype=np.int64)
    np.add.at(numbers.T, group, known.T)
    shares = np.zeros((*numbers.shape, *of_class.shape[1:]))
    for number in np.unique(numbers[numbers > 0]).tolist():
        at = np.nonzero(numbers == number)
        parts = _weigh(law, publication.counts[at[0][:, None], cells[at[1]]], number)
        # The last two tables count Hispanic persons, and the first class's persons who are not Hispanic.
        others = np.ones_like(parts[:, :classes])
        others[:, 0] = parts[:, -1]
        likely = _by_pairs(parts[:, :classes], others)
        shares[at] = expect_shares_of_pairs(likely, parts[:, -2], of_class[at[0]], number)
    return shares[:, group]


def _compare_years(tier: Tier, around: Counts, law: Law) -> Shares:
    """The frequency of a category at an age relative to its group of ages, shape (frames, categories), from the
    perturbed tables of the tract. It is only a prior, shrunk towards the group's frequency by the amount of noise."""
    assert tier.of_tract is not None
    counts = around.reshape(-1, len(tier.frames))
    # A to G count races, I to O their persons who are not Hispanic.
    races, others = counts[1:8], counts[9:16]
    class_of_race = np.minimum(np.arange(RACES), len(SIX_RACES))
    deviation, group = law.standard_deviation, tier.of_tract.group
    own = np.stack([others, races - others])
    own = np.where(own > _CERTAIN * deviation * np.array([1, _DIFFERENCE**0.5])[:, None, None], own, 0)
    of_group = np.zeros((*own.shape[:2], int(group.max()) + 1))
    np.add.at(np.moveaxis(of_group, 2, 0), group, np.moveaxis(own, 2, 0))
    of_group = (of_group + _LEAST) / (of_group + _LEAST).sum(axis=(0, 1))
    weight, expected = _LEAST_WEIGHT + deviation**2, of_group[:, :, group]
    ratios = (own + weight * expected) / (own.sum(axis=(0, 1)) + weight) / expected
    return np.asarray(ratios[:, class_of_race].reshape(2 * RACES, -1).T)


def _weigh(law: Law, published: Counts, most: int) -> Shares:
    """P(published | 0, …, most), divided by the greatest."""
    logs = law.log_likelihoods(published, most)
    tops = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.exp(logs - np.where(np.isneginf(tops), 0, tops)))


def _by_pairs(of_all: Shares, of_first: Shares) -> Shares:
    """P(published | a, b), shape (…, n + 1, n + 1), from P(published | a + b) and P(published | a), shapes
    (…, n + 1)."""
    size = of_all.shape[-1]
    counts = np.arange(size)
    return np.asarray(of_all[..., np.minimum(counts[:, None] + counts, size - 1)] * of_first[..., None])


def _weigh_alone(likely: Shares, of_class: Shares) -> Shares:
    """The probability of each number of adults of each class, not Hispanic and in total, from its own count alone;
    shape (2, classes, n + 1)."""
    size = likely.shape[2]
    means = (size - 1) * np.stack([of_class[0], of_class.sum(axis=0)])[..., None]
    factorials = np.cumsum(np.log(np.maximum(np.arange(size), 1)))
    weights = likely * np.exp(np.arange(size) * np.log(means) - means - factorials)
    sums = weights.sum(axis=2, keepdims=True)
    return np.asarray(np.where(sums > 0, weights / np.where(sums > 0, sums, 1), 1 / size))
