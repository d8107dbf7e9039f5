"""The population groups: types of regions, and the lists of race and ethnicity codes and iterations.

The regions follow from the blocks of the dataset. An *iteration* is a race or ethnicity for which groups are counted.
Level 0 are the major groups, which are never tabulated; level 1 are regional groups, level 2 detailed ones. The
*universe* of a region type and level is the set of iterations that have groups there.

A person with the distinct race codes C and the ethnicity code s is in these iterations of a universe: every iteration
alone to which all codes of C map, every iteration in any combination to which one of them maps, and every ethnicity
iteration to which s maps. Source: SafeTab-P's specification, iterations and validation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

PUERTO_RICO_ONLY = "PR-"
"""The prefix of the names of Puerto Rico's region types."""


class RegionType(StrEnum):
    """A type of regions, in the order of the draw."""

    USA = "USA"
    STATE = "STATE"
    COUNTY = "COUNTY"
    TRACT = "TRACT"
    PLACE = "PLACE"
    AIANNH = "AIANNH"
    """American Indian, Alaska Native and Native Hawaiian areas. They may cross states."""
    PR_STATE = "PR-STATE"
    PR_COUNTY = "PR-COUNTY"
    PR_TRACT = "PR-TRACT"
    PR_PLACE = "PR-PLACE"

    @property
    def detailed(self) -> bool:
        """Whether it is a nation or a state, which have other iterations (`Iteration.is_in`)."""
        return self in (RegionType.USA, RegionType.STATE, RegionType.PR_STATE)

    @property
    def run(self) -> str:
        """The run that counts these regions: `US` or `PR`. The runs share no record."""
        return "PR" if self.startswith(PUERTO_RICO_ONLY) else "US"

    @property
    def shared_name(self) -> str:
        return self.removeprefix(PUERTO_RICO_ONLY)

    @property
    def digits(self) -> int:
        return _DIGITS[self.shared_name]

    @property
    def words(self) -> str:
        words = _WORDS[self.shared_name]
        return f"{words} of Puerto Rico" if self.run == "PR" and self is not RegionType.PR_STATE else words


_DIGITS = {"USA": 1, "STATE": 2, "COUNTY": 5, "TRACT": 11, "PLACE": 7, "AIANNH": 4}

LEVELS_ABOVE = {
    "STATE": "USA",
    "COUNTY": "STATE",
    "TRACT": "COUNTY",
    "PLACE": "STATE",
    "AIANNH": "USA",
    "PR-COUNTY": "PR-STATE",
    "PR-TRACT": "PR-COUNTY",
    "PR-PLACE": "PR-STATE",
}
"""By region type, the type whose regions contain its regions. Except under the nation, codes begin with the
container's."""

_WORDS = {
    "USA": "The nation: all states of the release",
    "STATE": "State or its equivalent",
    "COUNTY": "County",
    "TRACT": "Census tract",
    "PLACE": "Place",
    "AIANNH": "American Indian, Alaska Native or Native Hawaiian area",
}


RACE_FILE = "race-characteristic-iterations.txt"
ETHNICITY_FILE = "ethnicity-characteristic-iterations.txt"
CODES_FILE = "race-and-ethnicity-codes.txt"
MAP_FILE = "race-and-ethnicity-code-to-iteration.txt"
"""The names of the four files, which errors contain."""

LEVELS = (1, 2)

MOST_RACE_CODES = 8


class ListsError(ValueError):
    """Lists that break a rule. The message names file, field, rule and the number of offenders."""


@dataclass(frozen=True)
class Iteration:
    """A race or ethnicity for which groups are counted, with a code of four digits and a level of 0, 1 or 2. `alone` is
    True for a race alone, False for a race alone or in any combination, None for an ethnicity. At level 0, the others
    are None: `detailed_only` is counted for the nation and states only, and only as a total; `coarse_only` for regions
    below the state only."""

    code: str
    name: str
    level: int
    alone: bool | None
    detailed_only: bool | None
    coarse_only: bool | None

    def is_in(self, detailed: bool) -> bool:
        """Whether the iteration has groups for the nation and states (`detailed`), or for regions below the state."""
        return (self.coarse_only if detailed else self.detailed_only) is False


class Memberships(NamedTuple):
    """The iterations of a universe by the codes that map to them, of races alone, in any combination, and of ethnicity.
    A code is missing where it maps to none."""

    alone: Mapping[str, str]
    combination: Mapping[str, str]
    ethnicity: Mapping[str, str]


@dataclass(frozen=True)
class CodeLists:
    """The lists of codes and iterations, with a pair (iteration, code) for every code of every iteration.

    Raises ListsError if an iteration's code is repeated, or in both files of iterations; if a level is not 0, 1 or 2,
    or does not suit the flags, or both flags are set; if a pair is repeated, or names an iteration or a code that does
    not exist; or if a code maps to two iterations of the same kind, level and universe.
    """

    names: Mapping[str, str]
    race: tuple[Iteration, ...]
    ethnicity: tuple[Iteration, ...]
    pairs: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for file, iterations in ((RACE_FILE, self.race), (ETHNICITY_FILE, self.ethnicity)):
            _check_iterations(file, iterations)
        _require_none(
            ETHNICITY_FILE,
            "ITERATION_CODE",
            f"a code is an iteration of {RACE_FILE} too",
            {iteration.code for iteration in self.race} & {iteration.code for iteration in self.ethnicity},
        )
        _require_none(MAP_FILE, "all fields", "a row is repeated", _repeated(self.pairs))
        unknown = [code for code, _ in self.pairs if code not in self.iteration]
        _require_none(MAP_FILE, "ITERATION_CODE", "a code is in neither file of iterations", unknown)
        unknown = [code for _, code in self.pairs if code not in self.names]
        _require_none(MAP_FILE, "RACE_ETH_CODE", f"a code is not in {CODES_FILE}", unknown)
        # A code that maps to several iterations of a kind is found here.
        _ = self.memberships

    @cached_property
    def iteration(self) -> Mapping[str, Iteration]:
        return {iteration.code: iteration for iteration in (*self.race, *self.ethnicity)}

    def universe(self, region_type: RegionType, level: int) -> tuple[Iteration, ...]:
        """The iterations that have groups for a region type at a level, in the order of their codes."""
        return self._universes[region_type.detailed, level]

    @cached_property
    def _universes(self) -> Mapping[tuple[bool, int], tuple[Iteration, ...]]:
        ordered = [self.iteration[code] for code in sorted(self.iteration)]
        return {
            (detailed, level): tuple(
                iteration for iteration in ordered if iteration.level == level and iteration.is_in(detailed)
            )
            for detailed in (True, False)
            for level in LEVELS
        }

    @cached_property
    def memberships(self) -> Mapping[tuple[bool, int], Memberships]:
        """By universe (whether of the nation and states) and level: the iterations to which codes map."""
        memberships = {}
        for (detailed, level), iterations in self._universes.items():
            alone = {iteration.code: iteration.alone for iteration in iterations}
            where = "the nation and states" if detailed else "regions below the state"
            kinds = []
            for kind, words in ((True, "alone"), (False, "in combination"), (None, "of ethnicity")):
                pairs = [(code, to) for to, code in self.pairs if to in alone and alone[to] is kind]
                rule = f"a code maps to more than one iteration of level {level} {words} for {where}"
                _require_none(MAP_FILE, "RACE_ETH_CODE", rule, _repeated(code for code, _ in pairs))
                kinds.append(dict(pairs))
            memberships[detailed, level] = Memberships(*kinds)
        return memberships

    def stability(self, region_type: RegionType, level: int, max_race_codes: int) -> int:
        """Δ: the most groups of a region type and level that one person can be in; at least 1.

        SafeTab's formula is h_race · max(2, r) + h_eth, where h is the most iterations of a kind to which a code maps
        (0 or 1 by the hierarchy) and r the number of race codes. It needs that codes with the same iteration alone have
        the same one in combination. If lists break this, 1 + r + h_eth may be greater, and is used instead: codes with
        a common iteration alone and as many different ones in combination as there are.
        """
        alone, combination, ethnicity = self.memberships[region_type.detailed, level]
        by_alone: dict[str, set[str]] = defaultdict(set)
        for code, iteration in alone.items():
            by_alone[iteration] |= {combination[code]} if code in combination else set()
        sharing = [1 + min(max_race_codes, len(combinations)) for combinations in by_alone.values()]
        most_race = max([min(max_race_codes, len(set(combination.values()))), *sharing])
        formula = max(2, max_race_codes) if alone or combination else 0
        return max(1, max(formula, most_race) + bool(ethnicity))


def _check_iterations(file: str, iterations: tuple[Iteration, ...]) -> None:
    _require_none(file, "ITERATION_CODE", "a code is repeated", _repeated(listed.code for listed in iterations))
    wrong = [listed for listed in iterations if (listed.alone is None) != (file == ETHNICITY_FILE)]
    _require_none(file, "ALONE", "the field is True or False for races, and ethnicities have none", wrong)
    wrong = [listed for listed in iterations if listed.level not in (0, *LEVELS)]
    _require_none(file, "LEVEL", "a level is 0, 1 or 2", wrong)
    for name, flag in (("DETAILED_ONLY", "detailed_only"), ("COARSE_ONLY", "coarse_only")):
        wrong = [listed for listed in iterations if (listed.level == 0) != (getattr(listed, flag) is None)]
        _require_none(file, name, "the field is Null at level 0, and only there", wrong)
    wrong = [listed for listed in iterations if listed.detailed_only and listed.coarse_only]
    _require_none(file, "COARSE_ONLY", "DETAILED_ONLY and COARSE_ONLY are not both True", wrong)


def _repeated(values: Iterable[object]) -> Iterator[object]:
    return (value for value, times in Counter(values).items() if times > 1)


def _require_none(file: str, field: str, rule: str, offenders: Iterable[object]) -> None:
    count = sum(1 for _ in offenders)
    if count:
        raise ListsError(f"{file}: {field}: {rule}: {format_count(count, 'offender')}")


def format_count(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
