"""A reader's loss and the exposure of a file by itself: published tables and files compared with the records.

The gains of attacks are measured in `evaluation`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.laboratory.evaluation import ALL, ANY_SIZE, Measure, Truth, name_class
from assets.laboratory.measures import IN_INTERVALS, TABLES, WIDTH
from assets.laboratory.publication import Publication, split_frames
from assets.laboratory.records import Tract
from mechanisms.risk.microdata import Kinds, compare_distances, find_special_uniques, measure_keys
from mechanisms.risk.posterior import GaussianLaw, LaplaceLaw, Law
from mechanisms.risk.tiers import HOUSEHOLDS, RACES, REDISTRICTING, TENURES, Counts, Shares, Tier
from mechanisms.sampling.stream import RandomStream

_CELL_SIZES = (0, 1, 3, 10, 100, 1000)
"""The least true count of each class of cells."""

_SPECIAL = 2
"""The most variables of a special unique."""

_NORMAL_95 = 1.645
_EQUAL = 1e-6
"""Sums that differ by no more are equal."""

_GROUPINGS, _DISTRICTS = 5, 4
"""The number of random groupings of blocks, and of districts in each."""


def measure_utility(truth: Truth, publication: Publication) -> Iterator[Measure]:
    """The errors of a publication: in tables P1 to P4 by the true size of the cell, and in each table by itself. From
    counts of types, the tables are sums."""
    tier, true, offered = truth.tract.tier, truth.counts, publication.published
    published = tier.tabulate(publication.share(publication.counts)) if publication.by_type else publication.counts
    exact, names = tier.tabulate(true), list(tier.tables)
    tables = np.isin(tier.table_of_cell, [names.index(name) for name in ("P1", "P2", "P3", "P4") if name in names])
    tables = tables if tables.any() else np.ones_like(tables)
    block = np.arange(len(exact))
    tract = truth.tract
    levels = {"block": block, "block group": tract.block_group, "tract": tract.tract}
    levels |= {"county": np.zeros_like(block)} if tract.is_county else {}
    for level, place in levels.items() if offered is None else [("block", block)]:
        ours, theirs = (_add_up(counts, place) for counts in (published, exact))
        shown = np.ones(theirs.shape, dtype=np.bool_) if offered is None else offered
        classes = np.searchsorted(_CELL_SIZES, theirs, side="right") - 1
        for number in range(len(_CELL_SIZES)):
            subset = f"cells of a {level}, {name_class(_CELL_SIZES, number)}"
            yield from _measure_errors(subset, ours, theirs, shown & tables & (classes == number))
        yield from _measure_errors(f"cells of a {level}, not 0", ours, theirs, shown & tables & (classes > 0))
        for number, name in enumerate(names):
            of_table = shown & (tier.table_of_cell == number) & (classes > 0)
            yield from _measure_errors(f"{name} of a {level}, not 0", ours, theirs, of_table)
        subset, relative = f"cells of a {level}", _find_relative_errors(ours, theirs)[shown]
        yield Measure(TABLES, subset, ANY_SIZE, "mean relative error with 0", float(relative.mean()), relative.size)
        if "P1" in names:
            persons = [counts[:, tier.table_of_cell == names.index("P1")].sum(axis=1) for counts in (ours, theirs)]
            difference = _shares(persons[0][None]) - _shares(persons[1][None])
            error = float(np.abs(difference).sum())
            yield Measure(TABLES, subset, ANY_SIZE, "error of shares", error, int(persons[1].sum()))
    if truth.units is not None:
        yield from _measure_units(publication, published, truth.units, levels)
    if publication.around is not None and truth.around is not None:
        subset, ours = "cells of the tract's tables, not 0", publication.around[:1]
        yield from _measure_errors(subset, ours, truth.around, truth.around > 0)
    yield Measure(TABLES, "cells of a block", ANY_SIZE, "below 0", float((published < 0).mean()), published.size)
    yield from _measure_small(tier, published, np.ones(published.shape, np.bool_) if offered is None else offered)
    if publication.law is not None:
        errors = publication.counts - (true if publication.by_type else exact)
        shown = np.ones(errors.shape, dtype=np.bool_) if offered is None else offered
        yield from _measure_intervals_of_law(publication.law, errors, shown)
    if tier is HOUSEHOLDS:
        yield _find_empty_types(publication, published)
    if "P1" not in tier.tables:
        return
    margins = _margin(tier.table_of_cell, names, published)
    persons = true.sum(axis=(1, 2))
    distances = 0.5 * np.abs(_shares(margins) - _shares(true.sum(axis=1))).sum(axis=1)
    for size, of_size in truth.block_sizes.items():
        if of_size.any():
            mean, number = np.average(distances[of_size], weights=persons[of_size]), int(persons[of_size].sum())
            yield Measure(TABLES, "blocks", size, "total variation", float(mean), number)
    values: dict[str, float] = {}
    for name, measure in (("association", measure_association), ("segregation", measure_segregation)):
        before, after = (measure(np.maximum(counts, 0)) for counts in (true.sum(axis=1), margins))
        values |= {f"{name}, change": after - before}
    of_p1, of_p2 = (published[:, tier.table_of_cell == names.index(name)].sum(axis=1) for name in ("P1", "P2"))
    values["not additive"] = float((np.abs(of_p1 - of_p2) > _EQUAL).mean())
    first, true_first = (_find_first_group(truth, each) for each in (margins, true.sum(axis=1)))
    values["first block group"] = float(first == true_first)
    values["deviation of districts"] = _measure_districts(of_p1, persons)
    for name, value in values.items():
        yield Measure(TABLES, "blocks", ANY_SIZE, name, value, int(persons.sum()))


def _measure_units(
    publication: Publication, counts: NDArray[Any], exact: Counts, levels: Mapping[str, NDArray[np.int64]]
) -> Iterator[Measure]:
    """The errors of tables of units, and the share of blocks with persons but no occupied unit. `counts` are the
    published counts of persons."""
    assert publication.units is not None
    tier, published = publication.tier, publication.share(publication.units)
    for level, place in levels.items():
        ours, theirs = (_add_up(of_blocks, place) for of_blocks in (published, exact))
        for number, name in enumerate(tier.of_units):
            of_table = (tier.table_of_units == number) & (theirs > 0)
            yield from _measure_errors(f"{name} of a {level}, not 0", ours, theirs, of_table)
    in_quarters, units = (published[:, tier.table_of_units == list(tier.of_units).index(name)] for name in ("P5", "H1"))
    in_households = publication.table("P1", counts).sum(axis=1) - in_quarters.sum(axis=1)
    contradicts = (in_households > _EQUAL) & (units[:, 0] <= _EQUAL)
    yield Measure(TABLES, "blocks", ANY_SIZE, "no occupied unit", float(contradicts.mean()), len(contradicts))


def _find_empty_types(publication: Publication, counts: NDArray[Any]) -> Measure:
    """The share of types of households with persons but no household, or a household but no persons."""
    persons, households = [], []
    for code in ("*", "A-G", "H,I"):
        for run, whole in (("PH1_num", "PH1_denom"), ("PH4", "PH5_denom")):
            ages = (publication.table(f"{run}, {each} {code}", counts) for each in ("under 18", "18 and over"))
            persons.append(sum(ages))
            households.append(publication.table(f"{whole} {code}", counts))
        mortgage, free, rented = np.split(publication.table(f"PH7 {code}", counts), len(TENURES), axis=1)
        persons.append(np.hstack([mortgage + free, rented]))
        households.append(publication.table(f"PH8_denom {code}", counts))
    has_persons, has_households = (np.hstack(each) > 0 for each in (persons, households))
    differs, either = (has_persons ^ has_households).sum(), (has_persons | has_households).sum()
    return Measure(TABLES, "blocks", ANY_SIZE, "empty household types", float(differs / max(1, either)), int(either))


def _find_relative_errors(published: NDArray[Any], exact: Counts) -> NDArray[np.float64]:
    """Relative errors as the Census Bureau computes them: where the true count is 0, relative to the mean of both
    counts, so that each error there is 200%."""
    relative_to = np.where(exact > 0, exact, np.abs(published) / 2)
    return np.asarray(np.abs(published - exact) / np.where(relative_to > 0, relative_to, 1))


def _measure_small(tier: Tier, published: NDArray[Any], shown: NDArray[np.bool_]) -> Iterator[Measure]:
    """Disclosures by tables alone: small counts, and rows in which all persons are of one race."""
    small = ((published == 1) | (published == 2))[shown]
    yield Measure(TABLES, "cells of a block", ANY_SIZE, "of 1 or 2", float(small.mean()), small.size)
    rows = published[:, tier.rows_by_race]
    filled = np.count_nonzero(rows, axis=-1)
    if (filled > 0).any():
        share = float((filled == 1).sum() / (filled > 0).sum())
        yield Measure(TABLES, "rows by race", ANY_SIZE, "of one race", share, int((filled > 0).sum()))


def _measure_intervals_of_law(law: Law, errors: NDArray[Any], shown: NDArray[np.bool_]) -> Iterator[Measure]:
    """The share of cells within the central 90% interval of the noise, and the width of the interval."""
    if isinstance(law, GaussianLaw):
        half = np.ceil(_NORMAL_95 * np.sqrt(np.broadcast_to(law.variance, errors.shape[1:])) - 0.5)
    elif isinstance(law, LaplaceLaw):
        # P(|e| > h) = 2 q^(h + 1) / (1 + q), where q = e^(−1 / scale).
        half = np.full(errors.shape[1:], np.ceil(-law.scale * np.log(0.05 * (1 + np.exp(-1 / law.scale))) - 1))
    else:
        return
    half = np.maximum(half, 0)
    inside, widths = (np.abs(errors) <= half)[shown], np.broadcast_to(2 * half, errors.shape)[shown]
    yield from _measure_widths("cells of a block", inside, widths)


def _measure_widths(subset: str, inside: NDArray[np.bool_], widths: NDArray[Any]) -> Iterator[Measure]:
    for name, values in ((IN_INTERVALS, inside), (WIDTH, widths)):
        if len(values):
            yield Measure(TABLES, subset, ANY_SIZE, name, float(values.mean()), len(values))


def measure_intervals(truth: Truth, lower: Counts, upper: Counts) -> Iterator[Measure]:
    """The share of counts within the intervals of a method whose noise has no law, and the width of the intervals;
    shapes (blocks, cells)."""
    exact = truth.tract.tier.tabulate(truth.counts)
    inside, widths = (lower <= exact) & (exact <= upper), upper - lower
    for subset, chosen in (("cells of a block", np.ones_like(inside)), ("cells of a block, not 0", exact > 0)):
        yield from _measure_widths(subset, inside[chosen], widths[chosen])


def _find_first_group(truth: Truth, margins: NDArray[Any]) -> int:
    """The block group with the greatest share of persons outside the tract's most frequent category."""
    groups = _add_up(margins, truth.tract.block_group)
    others = np.delete(groups, groups.sum(axis=0).argmax(), axis=1).sum(axis=1)
    return int((others / np.maximum(1, groups.sum(axis=1))).argmax())


def _measure_districts(published: NDArray[Any], exact: Counts) -> float:
    """The mean error of the persons of a district, as a share of them."""
    errors = []
    for seed in range(_GROUPINGS):
        district = np.random.default_rng(seed).permutation(len(exact)) % _DISTRICTS
        ours, theirs = (np.bincount(district, weights=totals) for totals in (published, exact))
        errors.append((np.abs(ours - theirs)[theirs > 0] / theirs[theirs > 0]).mean())
    return float(np.mean(errors))


def measure_file(truth: Truth, file: Counts, others: Sequence[Truth], key: bytes) -> Iterator[Measure]:
    """The exposure of a file of records, shape (places, frames, categories): by itself, and compared with the true
    records and the records of other tracts."""
    tier = truth.tract.tier
    coarse = file if tier.of_tract is None else tier.of_tract.join(file)
    persons = int(file.sum())
    keys = measure_keys(coarse)
    values = {f"key of fewer than {most}": keys[f"below {most}"] for most in (2, 3, 5)}
    values |= {name: keys[name] for name in ("individual risk", "one category")}
    place, frame, category = np.nonzero(file)
    counts = file[place, frame, category]
    kinds = _describe(truth.tract, frame, category)
    scores, smallest = find_special_uniques(np.column_stack([place, kinds]), counts)
    values["special unique"] = float(counts[(smallest > 0) & (smallest <= _SPECIAL)].sum() / max(1, persons))
    values["score of special uniques"] = float((scores * counts).sum() / max(1, persons))
    if others and len(file) == truth.tract.blocks:
        values["nearer to the truth"] = _measure_nearness(truth, (place, kinds, counts), others, key)
    yield from (Measure(TABLES, ALL, ANY_SIZE, name, value, persons) for name, value in values.items())


def _measure_nearness(
    truth: Truth, file: tuple[NDArray[np.int64], Kinds, Counts], others: Sequence[Truth], key: bytes
) -> float:
    tract, (place, kinds, counts) = truth.tract, file
    records = _describe(tract, tract.frame, tract.category)
    strangers = np.concatenate([_describe(other.tract, other.tract.frame, other.tract.category) for other in others])
    chosen = RandomStream(key, "strangers").words(len(records)) % np.uint64(len(strangers))
    nearer = 0.0
    for block in np.unique(place).tolist():
        of_block, there = place == block, tract.place == block
        own, holdout = records[there], strangers[chosen[there].astype(np.int64)]
        nearer += compare_distances(
            kinds[of_block], counts[of_block], np.unique(own, axis=0), np.unique(holdout, axis=0)
        ).sum()
    return float(nearer / max(1, counts.sum()))


def _describe(tract: Tract, frame: NDArray[np.int64], category: NDArray[np.int64]) -> Kinds:
    """The variables of kinds of records besides the block."""
    tier = tract.tier
    if tier.sizes is not None:
        return np.column_stack([frame, category])
    known = split_frames(tier, frame)
    of_persons = known[1:] if tier is REDISTRICTING else known
    return np.column_stack([*of_persons, *(np.divmod(category, RACES) if "P1" in tier.tables else (category,))])


def _add_up(counts: NDArray[Any], place: NDArray[np.int64]) -> NDArray[Any]:
    sums = np.zeros((int(place.max()) + 1, counts.shape[1]), dtype=counts.dtype)
    np.add.at(sums, place, counts)
    return sums


def _measure_errors(
    subset: str, published: NDArray[Any], exact: Counts, chosen: NDArray[np.bool_]
) -> Iterator[Measure]:
    errors, true = (published - exact)[chosen], exact[chosen]
    if not len(errors):
        return
    values = {
        "mean absolute error": np.abs(errors).mean(),
        "root mean squared error": np.sqrt((errors**2).mean()),
        "mean error": errors.mean(),
    }
    if true.all():
        values["mean relative error"] = (np.abs(errors) / true).mean()
        values["mean signed relative error"] = (errors / true).mean()
        values["relative root mean squared error"] = values["root mean squared error"] / true.mean()
        values |= {f"off by over {share}%": (100 * np.abs(errors) > share * true).mean() for share in (5, 10)}
    values["off by over 200"] = (np.abs(errors) > 200).mean()
    yield from (Measure(TABLES, subset, ANY_SIZE, name, float(value), len(errors)) for name, value in values.items())


def measure_association(counts: NDArray[Any]) -> float:
    """Cramér's V of block and category, from 0 to 1; counts of shape (blocks, categories)."""
    filled = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    smaller = min(filled.shape, default=0) - 1
    if smaller < 1:
        return 0.0
    expected = np.outer(filled.sum(axis=1), filled.sum(axis=0)) / filled.sum()
    return float(np.sqrt(((filled - expected) ** 2 / expected).sum() / filled.sum() / smaller))


def measure_segregation(counts: NDArray[Any]) -> float:
    """The dissimilarity index of the most frequent category and all others, from 0 to 1: the share of either group that
    would have to move for equal shares in all blocks. Counts of shape (blocks, categories)."""
    first = counts[:, counts.sum(axis=0).argmax()]
    others = counts.sum(axis=1) - first
    return float(np.abs(first / max(1, first.sum()) - others / max(1, others.sum())).sum() / 2)


def _margin(table_of_cell: NDArray[np.int64], names: list[str], counts: Counts) -> Counts:
    races, others = (counts[:, table_of_cell == names.index(name)] for name in ("P1", "P2"))
    return np.hstack([others[:, :RACES], races - others[:, :RACES]])


def _shares(counts: Counts) -> Shares:
    sums = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(sums > 0, sums, 1))
