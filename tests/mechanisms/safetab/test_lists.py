"""Lists of codes and iterations: production's universes, memberships, stability by brute force, the refusals."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.safetab.lists import read_lists
from mechanisms.safetab.lists import LEVELS, CodeLists, Iteration, ListsError, RegionType
from tests.depth import examples

STATE, TRACT = RegionType.STATE, RegionType.TRACT


@lru_cache
def production() -> CodeLists:
    """The lists of the 2020 Census."""
    return read_lists()


def iterations_of(
    lists: CodeLists, region_type: RegionType, level: int, race: Sequence[str], ethnicity: str
) -> set[str]:
    """A person's iterations by the specification's formula, from the pairs alone."""
    universe = {
        each.code: each.alone
        for each in (*lists.race, *lists.ethnicity)
        if each.level == level
        and not (each.coarse_only if region_type.detailed else each.detailed_only)
        and each.detailed_only is not None
    }

    def mapped(code: str, alone: bool | None) -> set[str]:
        return {each for each, other in lists.pairs if other == code and universe.get(each, "") is alone}

    found = set.intersection(*(mapped(code, True) for code in set(race)))
    for code in set(race):
        found |= mapped(code, False)
    return found | mapped(ethnicity, None)


@pytest.mark.parametrize(
    ("region_type", "level", "alone", "combination", "ethnicity", "detailed_only"),
    [
        (STATE, 1, 24, 24, 4, 4),
        (STATE, 2, 1457, 1457, 30, 794),
        (TRACT, 1, 22, 22, 4, 0),
        (TRACT, 2, 1020, 1103, 27, 0),
    ],
)
def test_the_production_universes_have_the_published_sizes(
    region_type: RegionType, level: int, alone: int, combination: int, ethnicity: int, detailed_only: int
) -> None:
    universe = production().universe(region_type, level)
    assert Counter(each.alone for each in universe) == {True: alone, False: combination, None: ethnicity}
    assert sum(bool(each.detailed_only) for each in universe) == detailed_only
    assert not any(each.coarse_only for each in universe)
    assert [each.code for each in universe] == sorted(each.code for each in universe)


def test_the_production_lists_have_the_published_numbers_of_rows() -> None:
    lists = production()
    assert (len(lists.race), len(lists.ethnicity), len(lists.names), len(lists.pairs)) == (3016, 38, 1755, 14_088)
    assert Counter(each.level for each in lists.race)[0] == 54
    assert Counter(each.level for each in lists.ethnicity)[0] == 4


def test_universes_depend_on_the_region_type_by_its_granularity_alone() -> None:
    lists = production()
    for region_type in RegionType:
        like = STATE if region_type in {RegionType.USA, STATE, RegionType.PR_STATE} else TRACT
        for level in LEVELS:
            assert lists.universe(region_type, level) == lists.universe(like, level)


@pytest.mark.parametrize("region_type", [STATE, TRACT])
@pytest.mark.parametrize("level", LEVELS)
def test_a_person_is_in_at_most_nine_groups_of_production(region_type: RegionType, level: int) -> None:
    assert production().stability(region_type, level, 8) == 9
    assert production().stability(region_type, level, 1) == production().stability(region_type, level, 2) == 3


def test_memberships_give_the_specifications_examples() -> None:
    lists = production()
    for region_type in (STATE, TRACT):
        for level, race, expected in (
            (2, ["1010"], {"1003", "1114"}),
            (2, ["1010", "1015"], {"1114", "1115"}),
            (1, ["1010", "1015"], {"1002", "1113"}),
            (1, ["1000", "1010"], {"1113", "1211"}),
        ):
            expected = {code for code in expected if lists.iteration[code].is_in(region_type.detailed)}
            assert iterations_of(lists, region_type, level, race, "9950") == expected
            alone, combination, ethnicity = lists.memberships[region_type.detailed, level]
            by_memberships = {combination[code] for code in race if code in combination}
            shared = {alone.get(code) for code in race}
            assert by_memberships | (shared if len(shared) == 1 else set()) - {None} == expected
            assert "9950" not in ethnicity


def test_a_code_without_an_iteration_leaves_none_alone() -> None:
    lists = production()
    mapped = {code for _, code in lists.pairs}
    without = next(code for code in lists.names if code not in mapped) if mapped < set(lists.names) else "9950"
    assert iterations_of(lists, STATE, 2, ["1010", without], "9950") == {"1114"}


CODES = ("1001", "1002", "1003", "1004", "1005")


@st.composite
def small_lists(draw: st.DrawFn) -> CodeLists:
    """Lists of five codes that keep the hierarchy, with any flags, including flags that exceed the formula."""
    race, ethnicity, pairs = [], [], []
    flags = st.sampled_from([(False, False), (True, False), (False, True)])
    number = 0
    for alone in (True, False, None):
        count = draw(st.integers(0, 4))
        kind: list[Iteration] = []
        for _ in range(count):
            number += 1
            detailed_only, coarse_only = draw(flags)
            level = draw(st.sampled_from([1, 1, 2]))
            kind.append(Iteration(f"{number:04d}", "", level, alone, detailed_only, coarse_only))
        (ethnicity if alone is None else race).extend(kind)
        for code in CODES:
            chosen = draw(st.permutations(kind))[: draw(st.integers(0, 2))]
            taken: set[tuple[int, bool]] = set()
            for each in chosen:
                places = {(each.level, detailed) for detailed in (True, False) if each.is_in(detailed)}
                if not places & taken:
                    taken |= places
                    pairs.append((each.code, code))
    return CodeLists(dict.fromkeys(CODES, ""), tuple(race), tuple(ethnicity), tuple(pairs))


@settings(max_examples=examples(150))
@given(small_lists(), st.integers(1, 5))
def test_the_stability_is_the_formula_or_the_greatest_number_of_groups_of_all_possible_persons(
    lists: CodeLists, most_codes: int
) -> None:
    persons = [
        (race, ethnicity)
        for size in range(1, most_codes + 1)
        for race in combinations(CODES, size)
        for ethnicity in CODES
    ]
    for region_type in (STATE, TRACT):
        for level in LEVELS:
            alone, combination, ethnicity = lists.memberships[region_type.detailed, level]
            most = max(len(iterations_of(lists, region_type, level, *person)) for person in persons)
            formula = bool(alone or combination) * max(2, most_codes) + bool(ethnicity)
            assert lists.stability(region_type, level, most_codes) == max(1, formula, most)


def test_lists_that_break_the_formulas_condition_have_the_exact_stability() -> None:
    race = [Iteration("0001", "", 2, True, False, False)]
    race += [Iteration(f"001{place}", "", 2, False, False, False) for place in range(5)]
    pairs = [("0001", code) for code in CODES] + [(f"001{place}", code) for place, code in enumerate(CODES)]
    lists = CodeLists(dict.fromkeys(CODES, ""), tuple(race), (), tuple(pairs))
    assert [lists.stability(TRACT, 2, most) for most in (1, 2, 3, 5, 8)] == [2, 3, 4, 6, 8]
    assert len(iterations_of(lists, TRACT, 2, CODES, "1001")) == 6


@settings(max_examples=examples(50))
@given(small_lists())
def test_memberships_are_those_of_the_pairs(lists: CodeLists) -> None:
    for region_type in (STATE, TRACT):
        for level in LEVELS:
            alone, combination, ethnicity = lists.memberships[region_type.detailed, level]
            for code in CODES:
                mapped = {each for each in (alone.get(code), combination.get(code), ethnicity.get(code)) if each}
                assert mapped == iterations_of(lists, region_type, level, [code], code)


A = Iteration("0001", "A alone", 2, True, False, False)
B = Iteration("0002", "B alone", 2, True, True, False)
C = Iteration("0003", "A in combination", 2, False, False, False)
E = Iteration("0004", "E", 1, None, False, False)
LISTS = CodeLists({"1001": "a", "1002": "b"}, (A, B, C), (E,), (("0001", "1001"), ("0003", "1001"), ("0004", "1002")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"race": (A, B, C, A)}, "race-characteristic-iterations.txt: ITERATION_CODE: a code is repeated: 1 offender$"),
        (
            {"ethnicity": (E, replace(E, level=2))},
            "ethnicity-characteristic-iterations.txt: ITERATION_CODE: .*repeated",
        ),
        ({"race": (A, B, C, replace(A, code="0004"))}, "ethnicity-.*: ITERATION_CODE: a code is an iteration of race-"),
        ({"race": (A, replace(B, alone=None), C)}, "race-.*: ALONE: "),
        ({"ethnicity": (replace(E, alone=True),)}, "ethnicity-.*: ALONE: "),
        ({"race": (A, replace(B, level=3), C)}, "race-.*: LEVEL: a level is 0, 1 or 2: 1 offender$"),
        ({"race": (replace(A, level=0), replace(B, level=0), C)}, "race-.*: DETAILED_ONLY: .*Null.*: 2 offenders$"),
        ({"race": (A, replace(B, detailed_only=None), C)}, "race-.*: DETAILED_ONLY: .*Null"),
        ({"race": (A, replace(B, coarse_only=None), C)}, "race-.*: COARSE_ONLY: .*Null"),
        ({"ethnicity": (replace(E, level=0, detailed_only=None),)}, "ethnicity-.*: COARSE_ONLY: .*Null"),
        ({"race": (A, replace(B, coarse_only=True), C)}, "race-.*: COARSE_ONLY: .*not both True"),
        ({"pairs": (*LISTS.pairs, ("0001", "1001"))}, "race-and-ethnicity-code-to-iteration.txt: .*row is repeated"),
        ({"pairs": (*LISTS.pairs, ("0009", "1001"))}, "code-to-iteration.txt: ITERATION_CODE: .*neither file"),
        (
            {"pairs": (*LISTS.pairs, ("0001", "1009"))},
            "code-to-iteration.txt: RACE_ETH_CODE: .*race-and-ethnicity-codes",
        ),
        (
            {"pairs": (*LISTS.pairs, ("0002", "1001"))},
            "RACE_ETH_CODE: a code maps to more than one iteration of level 2 alone for the nation and states: 1 offen",
        ),
        (
            {"race": (A, replace(B, detailed_only=False, coarse_only=True), C, replace(B, code="0007"))}
            | {"pairs": (("0002", "1001"), ("0001", "1001"))},
            "more than one iteration of level 2 alone for regions below the state",
        ),
        (
            {"ethnicity": (E, replace(E, code="0005")), "pairs": (*LISTS.pairs, ("0005", "1002"))},
            "more than one iteration of level 1 of ethnicity",
        ),
    ],
)
def test_lists_that_break_a_rule_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ListsError, match=message):
        replace(LISTS, **changes)  # type: ignore[arg-type]


def test_one_code_may_map_to_iterations_of_different_universes_levels_and_kinds() -> None:
    below = Iteration("0005", "A alone below", 2, True, False, True)
    above = Iteration("0006", "A alone above", 2, True, True, False)
    other_level = Iteration("0007", "A alone", 1, True, False, False)
    major = [Iteration(f"001{place}", "major", 0, True, None, None) for place in range(2)]
    race = (below, above, other_level, C, *major)
    CodeLists({"1001": "a"}, race, (E,), tuple((each.code, "1001") for each in (*race, E)))


def test_every_region_type_has_one_run_and_one_granularity() -> None:
    detailed = {RegionType.USA, RegionType.STATE, RegionType.PR_STATE}
    assert {each for each in RegionType if each.detailed} == detailed
    assert " ".join(each for each in RegionType if each.run == "US") == "USA STATE COUNTY TRACT PLACE AIANNH"
    assert " ".join(each for each in RegionType if each.run == "PR") == "PR-STATE PR-COUNTY PR-TRACT PR-PLACE"
    for region_type in RegionType:
        namesake = RegionType(region_type.shared_name)
        assert namesake.run == "US"
        assert (namesake is region_type) == (region_type.run == "US")
        assert namesake.detailed == region_type.detailed
