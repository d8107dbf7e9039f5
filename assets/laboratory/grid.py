"""Parts of the grid, several at a time. A part is one draw of a point for every tract, attacked and evaluated."""

import pickle
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.laboratory.attacking import Attacker, OwnAttack
from assets.laboratory.evaluation import (
    Measure,
    Truth,
    measure_differences,
    measure_gain,
    measure_guesses,
    measure_posteriors,
    measure_ratios,
    measure_reconstruction,
    most_exposed,
)
from assets.laboratory.measures import (
    AWARE_OF_HOUSEHOLDS,
    DIFFERENCE,
    GAIN,
    GUESSERS,
    IN_INTERVALS,
    LIKELIEST,
    LINK,
    MATCH_RATE,
    PAIRS,
    POOR_LINK,
    PROVABLE,
    RECONSTRUCT,
    UNDO,
    UNDOING,
    WIDTH,
)
from assets.laboratory.points import Point, Then
from assets.laboratory.publication import Guesses, NamedPersons, Publication
from assets.laboratory.utility import measure_file, measure_intervals, measure_utility
from mechanisms.sampling.stream import RandomStream
from resources.custody import Custody
from resources.processes import in_processes

VERSION = 19
"""Increase it when the same records, parameters and key would give other measures."""

SCHEMA = pa.schema(
    [
        *(("point", pa.string()), ("draw", pa.int64()), ("made_of", pa.string()), ("tract", pa.string())),
        *((name, pa.string()) for name in ("attack", "subset", "block_size", "measure")),
        *(("value", pa.float64()), ("persons", pa.int64())),
    ]
)
"""The columns of a table of measures."""

_PAIRS = 500
"""The number of pairs of persons for which likelihood ratios are computed, for counts under a law."""

_DIFFERENCES = 6
"""The most targets for which all categories are tried."""


@dataclass(frozen=True)
class Part:
    """A part of the grid.

    Attributes:
        made_of: a digest of all inputs to its measures.
        keys: by measured tract, the key of its draw and the key of its targets. The key of targets is the same for
            every method, so that methods are compared on the same persons.
    """

    point: Point
    draw: int
    made_of: str
    keys: Mapping[str, tuple[bytes, bytes]] = field(repr=False)

    @classmethod
    def of(
        cls,
        point: Point,
        draw: int,
        digests: tuple[str, str],
        laboratory: str,
        tracts: Sequence[str],
        custody: Custody,
    ) -> "Part":
        """A part with its keys, from the digests of its draws and of its measures. The keys are derived for the
        laboratory only, whose draws are neither published nor charged."""
        drawn_of, made_of = digests
        keys = {
            tract: (
                custody.derive(f"laboratory: {drawn_of}: draw {draw} of tract {tract}"),
                custody.derive(f"laboratory: {laboratory}: targets {draw} of tract {tract}"),
            )
            for tract in tracts
        }
        return cls(point, draw, made_of, keys)


@dataclass(frozen=True)
class Setting:
    """The inputs common to all parts of a grid: the records of tracts by name, the number of targets, the built-in
    attackers, the measures, a researcher's own attacks with their time limit in seconds, and the paths that no attack
    may open."""

    truths: Mapping[str, Truth]
    targets: int
    attackers: Sequence[str]
    measures: Set[str]
    own: Mapping[str, OwnAttack]
    own_seconds: int
    left_out: Sequence[Path]


def measure_parts(setting: Setting, parts: Sequence[Part], processes: int) -> Generator[pa.Table, None, None]:
    """The measures of each part, in order. Each process has a process of attacks of its own. Raises AttackError, and
    WorkerError if a process ends prematurely."""
    content = pickle.dumps(setting)
    try:
        yield from in_processes(partial(_measure_part, content), iter(parts), max(1, min(processes, len(parts))))
    finally:
        if _prepare.cache_info().currsize:
            _prepare(content)[1].close()
            _prepare.cache_clear()


def _measure_part(content: bytes, part: Part) -> pa.Table:
    setting, attacker = _prepare(content)
    columns = {"point": part.point.key, "draw": part.draw, "made_of": part.made_of}
    rows = [
        columns | {"tract": name} | vars(measure)
        for name, keys in part.keys.items()
        for measure in _measure_tract(setting, part, setting.truths[name], attacker, *keys)
        if measure.measure in setting.measures
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@lru_cache(maxsize=1)
def _prepare(content: bytes) -> tuple[Setting, Attacker]:
    """The setting, which keeps its subsets because they take long to compute, and a process of attacks."""
    setting = pickle.loads(content)
    return setting, Attacker(setting.own, setting.left_out, setting.own_seconds)


def _measure_tract(
    setting: Setting, part: Part, truth: Truth, attacker: Attacker, key: bytes, key_of_targets: bytes
) -> Iterator[Measure]:
    draw = part.point.draw(truth.tract, key)
    targets = choose_targets(truth, setting.targets, key_of_targets)
    pairs = RandomStream(key_of_targets, "pairs").words(2 * _PAIRS) % np.uint64(len(truth.tract.household))
    # After a change of the records, the law of counts is conditional on the changed records, which no attacker knows.
    law = None if isinstance(part.point, Then) else draw.publication.law
    yield from measure_utility(truth, draw.publication)
    if draw.file is not None:
        elsewhere = [each for each in setting.truths.values() if each is not truth]
        yield from measure_file(truth, draw.file, elsewhere, key_of_targets)
    if PAIRS in setting.attackers:
        yield from measure_ratios(truth, draw, pairs.astype(np.int64).reshape(-1, 2))
    if DIFFERENCE in setting.attackers and not part.point.random and part.draw == 1:
        publish = lambda tract: part.point.draw(tract, key).publication  # noqa: E731
        few = targets[:: -(-len(targets) // _DIFFERENCES) or 1]
        yield from measure_differences(truth, few, draw.publication, publish)
    elif DIFFERENCE in setting.attackers and part.point.random and law is not None:
        yield from measure_posteriors(truth, targets, draw.publication, law)
    if RECONSTRUCT in setting.attackers and draw.publication.is_exact and not truth.tract.tier.of_types:
        certain = part.draw == 1 and not setting.measures.isdisjoint({PROVABLE, MATCH_RATE})
        yield from measure_reconstruction(truth, RECONSTRUCT, attacker.reconstruct(draw.publication, certain=certain))
    targets = targets if GAIN in setting.measures else targets[:0]
    guessers = [name for name in GUESSERS if name in setting.attackers]
    exact, swapped = draw.publication.is_exact, draw.publication.swaps is not None
    undoing = [name for name in UNDOING if name in guessers and exact and (swapped or name == UNDO)]
    gaining = undoing or not {*guessers, *setting.own} <= {POOR_LINK, *UNDOING}
    near, whole = remove_each(truth, part.point, key, targets if gaining else targets[:0], whole=bool(undoing))
    for attack in [*guessers, *setting.own]:
        if attack == LIKELIEST and not draw.publication.needs_program:
            continue
        if attack == POOR_LINK:
            file, there = truth.spoil_file(key_of_targets)
            guesses = attacker.guess(LINK, draw.publication, file).spread(there, len(truth.tract.household))
            yield from measure_guesses(truth, attack, guesses)
            continue
        if attack in UNDOING and attack not in undoing:
            continue
        without = whole if attack in UNDOING else near
        if attack == UNDO:
            without = [keep_frame(truth, world) for world in without]
        worlds = [(draw.publication, truth.file), *((each.publication, each.persons) for each in without)]
        if attack == AWARE_OF_HOUSEHOLDS:
            worlds = [(published, truth.file_with_households) for published, _ in worlds]
        guesses, *guessed = attacker.guess_each(attack, worlds)
        yield from measure_guesses(truth, attack, guesses)
        then = [select(each, world.places) for each, world in zip(guessed, without, strict=True)]
        if then:
            yield from measure_gain(truth, attack, targets, select(guesses, targets), Guesses.join(then))
    if part.draw == 1 and not setting.measures.isdisjoint({IN_INTERVALS, WIDTH}):
        intervals = part.point.find_intervals(truth.tract, draw.publication, key)
        if intervals is not None:
            yield from measure_intervals(truth, *intervals)


def choose_targets(truth: Truth, number: int, key: bytes) -> NDArray[np.int64]:
    """Distinct persons in random order, half of them from the most exposed subset if it has enough."""
    order = np.argsort(RandomStream(key, "targets").words(len(truth.tract.household)), kind="stable")
    exposed = truth.subsets[most_exposed(truth.subsets)][order]
    first = order[exposed][: number // 2]
    return np.concatenate([first, order[~exposed][: number - len(first)]])


class Worlds(NamedTuple):
    """For some targets, the publication of some blocks in the world without each target; the attacker's file of these
    blocks, which still has the target; and each target's position in that file."""

    publication: Publication
    persons: NamedPersons
    places: NDArray[np.int64]


def remove_each(
    truth: Truth, point: Point, key: bytes, targets: NDArray[np.int64], *, whole: bool = False
) -> tuple[list[Worlds], list[Worlds]]:
    """The worlds without each of the targets, with the same randomness: the blocks of all targets together, each with
    its linked blocks, or one world per target if exact tables of the tract link all blocks; and, if `whole`, each
    complete world without measurements."""
    tract, near, entire = truth.tract, [], []
    for target in targets.tolist():
        published = point.publish_without(tract, target, key)
        linked = published.find_neighbors(int(tract.place[target]))
        neighbors = np.flatnonzero(np.isin(tract.place, linked))
        file = NamedPersons(np.searchsorted(linked, tract.place[neighbors]), tract.frame[neighbors])
        # A view would keep the whole publication in memory.
        near.append(Worlds(published.take(linked), file, np.searchsorted(neighbors, [target])))
        if whole:
            entire.append(Worlds(replace(published, measured=()), truth.file, np.array([target])))
    return _join(near), entire


def keep_frame(truth: Truth, world: Worlds) -> Worlds:
    """A whole world, with only the target's frame in the attacker's file."""
    frame = truth.frame_of_block
    kept = np.flatnonzero(frame == frame[world.places[0]])
    file = NamedPersons(world.persons.block[kept], world.persons.frame[kept])
    return Worlds(world.publication, file, np.searchsorted(kept, world.places))


def _join(worlds: list[Worlds]) -> list[Worlds]:
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
