"""The streams of a draw: a state's noise is its own, names are unambiguous, and the order of making does not matter."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from assets.topdown.measurements import Stream, encode_answers, hash_streams, list_streams
from mechanisms.topdown.allocation import allocate
from mechanisms.topdown.design import SCHEMAS, VERSION, TopDownDesign, level_of_states

KEY = bytes(range(32))
PLACES = {"01": (2, 3), "04": (1, 4), "05": (3, 2)}
"""By state, its numbers of counties and of blocks."""

ADVERSARIAL = [
    "",
    " ",
    "a",
    "a b",
    'a", "b',
    '"',
    "\\",
    '\\"',
    "null",
    "None",
    "[",
    "]",
    "a, b",
    "ä",
    "\\u00e4",
    "\n",
    "x",
]


def design(levels: Sequence[str] = ("Nation", "State", "County", "Block")) -> TopDownDesign:
    shares = {level: Fraction(1, len(levels)) for level in levels}
    queries = {level: {"detailed": Fraction(1, 2), "votingage": Fraction(1, 2)} for level in levels}
    units = {level: {"detailed": Fraction(1)} for level in levels}
    return TopDownDesign(
        tuple(levels),
        {
            "persons": allocate(SCHEMAS["persons"], Fraction(1), shares, queries),
            "units": allocate(SCHEMAS["units"], Fraction(1), shares, units),
        },
        {},
    )


def of(states: Mapping[str, tuple[int, int]]) -> tuple[Stream, ...]:
    """The streams of a country with these states."""
    counties, blocks = (np.cumsum([0, *(places[which] for places in states.values())]) for which in (0, 1))
    starts = {"Nation": [0, 1], "State": [0, len(states)], "County": counties, "Block": blocks}
    return list_streams(design(), list(states), {level: np.array(first) for level, first in starts.items()})


def noise(stream: Stream) -> NDArray[np.int64]:
    return stream.measured.noise.sample(stream.answers, stream.random(KEY))


def noise_of(found: Sequence[Stream], state: str) -> list[Any]:
    return [(stream.measured.label, noise(stream).tolist()) for stream in found if stream.state == state]


def test_the_noise_of_a_key_has_not_changed() -> None:
    """If the digest changes, the version must increase too, as a charged draw cannot be repeated."""
    digest = sha256()
    for stream in of({"01": (1, 2), "02": (2, 3)}):
        digest.update(noise(stream).astype("<i8").tobytes())
    assert (VERSION, digest.hexdigest()) == (3, "3cdc366090742ab71d5e1058336e07c76120d50f3adc2f07eafbd69a8bed1d85")


def test_every_place_of_every_query_belongs_to_one_stream_and_only_to_that_of_its_state() -> None:
    found = of(PLACES)
    assert [(each.measured.histogram, each.measured.level, each.state, each.measured.query) for each in found] == [
        (histogram, level, state, query)
        for histogram, queries in (("persons", ("votingage", "detailed")), ("units", ("detailed",)))
        for level, states in (("Nation", [None]), ("State", [None]), ("County", PLACES), ("Block", PLACES))
        for state in states
        for query in queries
    ]
    places = {"Nation": 1, "State": 3, "County": 6, "Block": 9}
    for measured in design().measured:
        own = [each for each in found if each.measured == measured]
        assert [number for each in own for number in range(each.first, each.last)] == list(
            range(places[measured.level])
        )
        if measured.level in ("County", "Block"):
            column = ("County", "Block").index(measured.level)
            assert {each.state: each.last - each.first for each in own} == {
                state: numbers[column] for state, numbers in PLACES.items()
            }


@pytest.mark.parametrize("state", PLACES)
def test_the_noise_of_a_state_does_not_depend_on_which_other_states_there_are(state: str) -> None:
    """Every subset and order of the other states, and other states with other names or sizes."""
    alone = noise_of(of({state: PLACES[state]}), state)
    assert len(alone) == 6
    others = [each for each in PLACES if each != state]
    for chosen in ([], *([each] for each in others), others):
        for order in permutations([state, *chosen]):
            assert noise_of(of({each: PLACES[each] for each in order}), state) == alone
    assert noise_of(of({"0": (7, 9), state: PLACES[state], f"{state}0": (1, 1)}), state) == alone


def test_the_noise_of_a_state_with_another_code_is_other_noise() -> None:
    renamed = noise_of(of({"99": PLACES["05"]}), "99")
    assert all(own != other for own, other in zip(renamed, noise_of(of(PLACES), "05"), strict=True))


def test_no_two_streams_have_the_same_label_or_the_same_noise() -> None:
    found = of(PLACES)
    assert len({each.label for each in found}) == len(found)
    assert len({tuple(each.random(KEY).words(4).tolist()) for each in found}) == len(found)


def test_labels_differ_whatever_codes_and_levels_contain() -> None:
    measured = [
        each for level in ADVERSARIAL for each in design((level, f"{level}\0", "Block")).measured if each.level == level
    ]
    every = [Stream(each, state, 0, 1) for each in measured for state in (None, *ADVERSARIAL)]
    assert len({each.label for each in every}) == len(every) == len(measured) * (len(ADVERSARIAL) + 1)


@pytest.mark.parametrize(
    ("levels", "level"),
    [
        (("US", "State", "County"), "State"),
        (("State", "County"), "State"),
        (("US", "State"), "US"),
        (("Nation", "Block"), "Nation"),
        (("US", "STATE", "County"), "US"),
    ],
)
def test_the_states_are_the_level_of_that_name_unless_it_is_the_finest(levels: Sequence[str], level: str) -> None:
    assert level_of_states(levels) == level


def test_streams_can_be_drawn_in_any_order_and_in_turns() -> None:
    found = of(PLACES)
    whole = {each.label: noise(each).tolist() for each in found}
    parts: dict[str, list[int]] = {each.label: [] for each in found}
    random = {each.label: each.random(KEY) for each in reversed(found)}
    for piece in range(3):
        for each in sorted(found, key=lambda stream: sha256(f"{stream.label}{piece}".encode()).digest()):
            count = [each.answers // 3, each.answers // 2 - each.answers // 3, each.answers - each.answers // 2][piece]
            parts[each.label] += each.measured.noise.sample(count, random[each.label]).tolist()
    assert parts == whole


def test_the_version_covers_the_answers_the_labels_and_their_order() -> None:
    digests = {"a": "1", "b": "2", "c": "1"}
    others = [
        {"a": "1", "b": "2"},
        {"a": "2", "b": "1", "c": "1"},
        {"a": "1", "b": "1", "c": "2"},
        {"b": "2", "a": "1", "c": "1"},
        {"a": "1", "b": "2", "d": "1"},
        {"a1": "", "b": "2", "c": "1"},
    ]
    versions = [hash_streams(each) for each in (digests, *others)]
    assert len(set(versions)) == len(versions)


def test_answers_are_hashed_as_32_bit_integers() -> None:
    assert bytes(encode_answers(np.array([[1, -1], [256, 0]]))) == bytes.fromhex("01000000 ffffffff 00010000 00000000")
