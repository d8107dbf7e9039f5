"""One part of the grid: one draw of a point, of every tract, attacked and evaluated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.laboratory.attacking import Attacker
from assets.laboratory.declaration import LIKELIEST, LaboratoryDeclaration
from assets.laboratory.evaluation import (
    Measure,
    Truth,
    measure_differences,
    measure_gain,
    measure_guesses,
    measure_ratios,
    measure_reconstruction,
    measure_utility,
    most_exposed,
)
from assets.laboratory.points import Point
from assets.laboratory.publication import Guesses, NamedPersons, Publication
from mechanisms.sampling.stream import RandomStream
from resources.custody import Custody

VERSION = 6
"""Increase it when the same records, parameters and key would give other measures."""

_PAIRS = 500
"""The pairs of persons of whom likelihood ratios are computed for counts under a law."""

_DIFFERENCES = 6
"""The most targets of whom all categories are tried."""


@dataclass(frozen=True)
class Part:
    """A part of the grid, and what names its randomness: `made_of` is a digest of all that its measures follow from."""

    point: Point
    draw: int
    made_of: str


def measure_part(
    declaration: LaboratoryDeclaration, part: Part, truths: Mapping[str, Truth], attacker: Attacker, custody: Custody
) -> pa.Table:
    """All measures of a part. By name of the tract, `truths` has its records. No draw is published or charged: its key
    is derived for the laboratory alone, from what it is made of."""
    columns = {"point": part.point.key, "draw": part.draw, "made_of": part.made_of}
    rows = [
        columns | {"tract": name} | vars(measure)
        for name, truth in truths.items()
        for measure in _measure_tract(declaration, part, name, truth, attacker, custody)
    ]
    return pa.Table.from_pylist(rows)


def _measure_tract(
    declaration: LaboratoryDeclaration, part: Part, name: str, truth: Truth, attacker: Attacker, custody: Custody
) -> Iterator[Measure]:
    key = custody.derive(f"laboratory: {part.made_of}: draw {part.draw} of tract {name}")
    # The same targets for every method, so that they are compared on the same persons.
    chosen = custody.derive(f"laboratory: {declaration.group}: targets {part.draw} of tract {name}")
    draw = part.point.draw(truth.tract, key)
    targets = choose_targets(truth, declaration.targets, chosen)
    pairs = RandomStream(chosen, "pairs").words(2 * _PAIRS) % np.uint64(len(truth.tract.household))
    yield from measure_utility(truth, draw.publication)
    yield from measure_ratios(truth, draw, pairs.astype(np.int64).reshape(-1, 2))
    if not part.point.random and part.draw == 1:
        worlds = lambda tract: part.point.draw(tract, key).publication  # noqa: E731
        few = targets[:: -(-len(targets) // _DIFFERENCES) or 1]
        yield from measure_differences(truth, few, draw.publication, worlds)
    reconstructed = draw.publication.law is None and draw.publication.places is None
    if reconstructed and not truth.tract.tier.of_types:
        found = attacker.reconstruct(draw.publication, certain=part.draw == 1)
        yield from measure_reconstruction(truth, "reconstruct", found)
    without = remove_each(truth, part.point, key, targets)
    for attack in declaration.attack_names:
        if attack == LIKELIEST and not draw.publication.has_perturbed_tables:
            continue
        guesses = attacker.guess(attack, draw.publication, truth.file)
        yield from measure_guesses(truth, attack, guesses)
        if without:
            then = [
                select(attacker.guess(attack, worlds.publication, worlds.persons), worlds.places) for worlds in without
            ]
            yield from measure_gain(truth, attack, targets, select(guesses, targets), Guesses.join(then))


def choose_targets(truth: Truth, number: int, key: bytes) -> NDArray[np.int64]:
    """Different persons, in random order: half of them among those whom the tables expose most, as far as there are."""
    order = np.argsort(RandomStream(key, "targets").words(len(truth.tract.household)), kind="stable")
    exposed = truth.subsets[most_exposed(truth.subsets)][order]
    first = order[exposed][: number // 2]
    return np.concatenate([first, order[~exposed][: number - len(first)]])


class Worlds(NamedTuple):
    """For some targets, the block of each as published in the world without the target, with those that it is linked
    to; the attacker's file of these blocks, in which the target still is; and each target's position in that file."""

    publication: Publication
    persons: NamedPersons
    places: NDArray[np.int64]


def remove_each(truth: Truth, point: Point, key: bytes, targets: NDArray[np.int64]) -> list[Worlds]:
    """The worlds without each of the targets, with the same randomness: together, but where exact tables of the tract
    link its blocks, so that each is the whole tract."""
    tract, worlds = truth.tract, []
    for target in targets.tolist():
        published = point.publish_without(tract, target, key)
        linked = published.find_neighbors(int(tract.place[target]))
        neighbors = np.flatnonzero(np.isin(tract.place, linked))
        file = NamedPersons(np.searchsorted(linked, tract.place[neighbors]), tract.frame[neighbors])
        # A view would keep the whole publication in memory.
        worlds.append(Worlds(published.take(linked), file, np.searchsorted(neighbors, [target])))
    if not worlds or worlds[0].publication.links_blocks:
        return worlds
    publications, files, places = zip(*worlds, strict=True)
    blocks = np.cumsum([0, *(len(published.counts) for published in publications)])
    persons = np.cumsum([0, *(len(file.block) for file in files)])
    block = [first + file.block for first, file in zip(blocks[:-1], files, strict=True)]
    joined = NamedPersons(np.concatenate(block), np.concatenate([file.frame for file in files]))
    return [Worlds(Publication.join(publications), joined, persons[:-1] + np.concatenate(places))]


def select(guesses: Guesses, persons: NDArray[np.int64]) -> Guesses:
    return Guesses(guesses.shares[persons], guesses.fallback[persons])
