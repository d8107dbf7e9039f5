"""SafeTab-P's adaptive draw: a first noisy total of a group determines in which detail it is measured.

This module draws one block of groups: all groups of some regions, of one region type and level. Nearly all groups of
small regions are empty, and all are measured. A block therefore takes a few arrays of its size while it is drawn, and
only the published counts are kept. Source: SafeTab-P's specification, algorithm, steps 1 to 5.

**Which noise a group gets** follows from its place among the groups, or from its name, and never from a count. Each
query has a stream; groups take numbers from it in the order of regions and iterations. Every group that is not measured
as a total only takes a number from stage 1 and one from stage 2's totals, with any detail. The noise of cells comes
from a stream of the group's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mechanisms.safetab.design import MECHANISM_P, Measured
from mechanisms.safetab.details import DETAILS, Counts, cells, find_details, fold
from mechanisms.safetab.lists import Iteration
from mechanisms.sampling.noise import Noise
from mechanisms.sampling.stream import RandomStream


class GroupNoise(Noise):
    """The noise of a draw of SafeTab-P, from the draw's key: 32 bytes, secret."""

    def __init__(self, measured: Sequence[Measured], key: bytes) -> None:
        of_next = {query: distribution for line in measured for query, distribution in line.distributions.items()}
        super().__init__(MECHANISM_P, of_next, key)
        self._of_cells = {line.query("cells"): line.stage_2 for line in measured}
        self._key = key

    def of_group(self, query: str, region_id: str, iteration_code: str, count: int) -> Counts:
        """The noise of a group's cells, shape (count,), from the group's own stream."""
        stream = RandomStream(self._key, f"{MECHANISM_P} {query} {region_id} {iteration_code}")
        return self._of_cells[query].sample(count, stream)


@dataclass(frozen=True)
class Kept:
    """The groups of a block that are published in one detail, in the order of the block. `regions` and `iterations`, of
    shape (groups,), are their places in the block and in the universe; `cells`, of shape (groups,
    `details.cells(detail)`), are the noisy counts."""

    detail: int
    regions: Counts
    iterations: Counts
    cells: Counts


def draw_block(
    measured: Measured,
    region_ids: Sequence[str],
    iterations: Sequence[Iteration],
    totals: Counts,
    exact_cells: Callable[[Counts, Counts], Counts],
    noise: GroupNoise,
) -> tuple[Kept, ...]:
    """Measure all groups of some regions, and keep the published counts in each detail, 0 to 3.

    Args:
        region_ids: the regions. Consecutive blocks of a region type and level continue the same streams.
        iterations: the universe of the region type and level, in the order of codes.
        totals: the exact totals of all groups, shape (regions, iterations), or else ValueError. They are not changed.
        exact_cells: gives the exact finest counts, shape (groups, 46), of the groups that have a detail above 0: from
            their places among the block's regions and iterations, each of shape (groups,).
    """
    if totals.shape != (len(region_ids), len(iterations)):
        raise ValueError("a block's totals have one row for each region and one column for each iteration")
    is_only = np.array([bool(iteration.detailed_only) for iteration in iterations], dtype=bool)
    only, adaptive = np.flatnonzero(is_only), np.flatnonzero(~is_only)

    exact = totals[:, only].ravel()
    alone = noise.of_next(measured.query("total only"), exact.size) + exact
    at_once = _places(np.arange(exact.size), only)

    exact = (totals[:, adaptive] if len(only) else totals).ravel()
    stage_1 = noise.of_next(measured.query("stage 1"), exact.size)
    stage_1 += exact
    large = np.flatnonzero(stage_1 >= measured.thresholds[0])
    details = find_details(stage_1[large], measured.thresholds)
    del stage_1

    stage_2 = noise.of_next(measured.query("total"), exact.size)
    stage_2 += exact
    stays = np.ones(exact.size, dtype=bool) if measured.cut_off is None else stage_2 > measured.cut_off
    stays[large] = False
    small = np.flatnonzero(stays)

    regions, columns = np.hstack([at_once, _places(small, adaptive)])
    order = np.lexsort((columns, regions))
    kept = [Kept(0, regions[order], columns[order], np.concatenate([alone, stage_2[small]])[order, np.newaxis])]
    for detail in DETAILS[1:]:
        regions, columns = _places(large[details == detail], adaptive)
        counts = fold(detail, exact_cells(regions, columns)) if regions.size else np.empty((0, cells(detail)), np.int64)
        for place, (region, column) in enumerate(zip(regions, columns, strict=True)):
            of_group = (region_ids[region], iterations[column].code)
            counts[place] += noise.of_group(measured.query("cells"), *of_group, cells(detail))
        kept.append(Kept(detail, regions, columns, counts))
    if measured.negative_counts:
        return tuple(kept)
    return tuple(replace(groups, cells=np.maximum(groups.cells, 0)) for groups in kept)


def _places(groups: Counts, columns: Counts) -> Counts:
    """The places of groups among regions and iterations, shape (2, groups), from their places in an array of all
    regions and of the iterations at `columns`, read row by row."""
    regions, among = np.divmod(groups, max(1, len(columns)))
    return np.stack([regions, columns[among]])
