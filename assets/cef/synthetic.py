"""A synthetic census: any number of households in any states, in the production layout.

This module defines the parameters, computes the number of units of each kind in each state, and writes the census.
`sql/cef/synthetic_plan.sql`, and the two statements that include it, compose the households. All values follow from
the parameters by MD5 and arithmetic, so that the same parameters give the same records on any machine.

The figures are only plausible: only the relative sizes of the states were fitted to a census.
"""

import csv
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from assets.cef.census import NO_CODE, PERSON_COLUMNS, UNIT_COLUMNS, CensusDeclaration, list_optional_columns
from assets.cef.generated import SEED, GeneratedDeclaration, Parameters, States, count, divide, find_stride, read_states
from assets.release.columns import Column
from assets.release.dataset import Reader, Size
from mechanisms.races import RACE_COMBINATIONS, SIX_RACES
from mechanisms.states import STATES
from resources.warehouse import Session

RACE_CODES_2020 = Path(__file__).with_name("race_codes_2020.csv")
"""The codes of race and Hispanic origin of the 2020 Census except 9950, not Hispanic.

The columns `race` (1 to 6, in the order of `SIX_RACES`) and `hispanic` are facts: the major race, and whether the
origin is Hispanic, that the iterations of level 0 give to a code. They are from the lists with which SafeTab-P was run
for that census (`assets/safetab/lists`). The order of rows is invented: within a race, early codes are frequent.
"""

NOT_HISPANIC = "9950"
"""The code in QSPAN of a person who is not Hispanic."""

HISPANIC_LIST = len(SIX_RACES) + 1
"""The number of the list of Hispanic origins, after those of the six races. As races, they are Some Other Race."""

_MULTIPLIERS = (48_271, 69_621, 16_807, 39_373, 742_938, 62_089_911, 630_360_016, 950_706_376, 1_226_874_159)
"""Multipliers for arithmetic modulo the prime 2^31 − 1: one for each list, and two for the further codes of a person.
The products of a word with each of them serve as separate draws."""


_VACANT_EVERY = 9
"""The number of occupied housing units for each vacant one: a tenth of all housing units is vacant."""
_QUARTERS_EVERY = 520
"""The number of households for each group quarters: with the sizes in `synthetic_plan.sql`, 2.5% of all persons live in
group quarters."""
_PERSONS_PER_HOUSEHOLD = 2.58
"""The persons of a census for each household, including persons in group quarters."""
_BLOCK_GROUP_UNITS = 500
_BLOCKS = 25
_TRACT_BLOCK_GROUPS = 3
_PLACE_TRACTS = 4
"""The tracts of an incorporated place; three of four areas of this size are one."""
_COUNTY_TRACTS = 10
_MOST_COUNTIES = 500
"""County codes are the odd numbers of up to three digits."""


class SyntheticPopulation(Parameters):
    """The parameters of a synthetic census."""

    statements = "synthetic"

    seed: int = Field(
        SEED, ge=0, lt=2**63, strict=True, description="The seed; each seed gives another census of the same size."
    )
    households: int = Field(
        ge=1,
        le=200_000_000,
        strict=True,
        description="The number of households. Vacant housing units and group quarters are added to them.",
    )
    states: States = Field(
        description="FIPS codes of the states; households are divided among them by population in 2020."
    )
    detailed_codes: bool = Field(
        False,
        description="Whether persons have the columns QSEX, QRACE1 to QRACE8 and QSPAN. Releases by SafeTab need "
        "them, and laboratories that declare the tier T4-groups; the tiers T2 and T3 need QSEX. All other columns of "
        "persons stay as they are. Some areas in AIANNHCE then cross states.",
    )
    dhc: bool = Field(
        False,
        description="Whether units have the columns GQTYPE3 and VACS, and persons QSEX, which a DHC release needs. All "
        "other columns stay as they are, except the ages in some types of group quarters.",
    )

    varied_blocks: int = Field(
        0,
        ge=0,
        le=100,
        strict=True,
        description="There are six kinds of tracts, each with its own shares of race and ethnicity. By default, all "
        "blocks have the kind of their tract; with varied_blocks, this percentage of blocks draws a kind of their own.",
    )

    @model_validator(mode="after")
    def _check_households(self) -> Self:
        if self.households < len(self.states):
            raise ValueError(f"households: {len(self.states)} states need at least one household each")
        return self

    @property
    def size(self) -> Size:
        """The size of the census: units and places exactly, persons and incorporated places on average."""
        states = _divide_into_states(self)
        units, block_groups, tracts, counties = (
            sum(state[kind] for state in states) for kind in ("units", "block_groups", "tracts", "counties")
        )
        return Size(
            units=units,
            persons=round(_PERSONS_PER_HOUSEHOLD * self.households),
            places={
                "TABBLKST": len(states),
                "TABBLKCOU": counties,
                "TABTRACTCE": tracts,
                "TABBLKGRPCE": block_groups,
                "TABBLK": _BLOCKS * block_groups,
                "PLACEFP": -(-tracts // _PLACE_TRACTS),
                "AIANNHCE": counties,
            },
        )

    @property
    def origin(self) -> str:
        return (
            f"A synthetic census of {self.households:,} households in {count(len(self.states), 'state')} (seed "
            f"{self.seed}): no record is about a real person."
        )

    def columns(self) -> tuple[dict[str, Column], dict[str, Column]]:
        values = {state: STATES[state] for state in self.states}
        units = {**UNIT_COLUMNS, "TABBLKST": UNIT_COLUMNS["TABBLKST"].model_copy(update={"values": values})}
        of_units, of_persons = list_optional_columns(self.detailed_codes, self.dhc)
        return {**units, **of_units}, {**PERSON_COLUMNS, **of_persons}

    def placeholders(self) -> dict[str, Any]:
        states = _divide_into_states(self)
        names: dict[str, Any] = {
            "states": states,
            "units": sum(state["units"] for state in states),
            "detailed": self.detailed_codes,
            "dhc": self.dhc,
            "varied_blocks": self.varied_blocks,
        }
        if self.detailed_codes:
            lists, first = [], 0
            for (number, codes), multiplier in zip(_list_codes().items(), _MULTIPLIERS, strict=False):
                lists.append({"number": number, "first": first, "size": len(codes), "multiplier": multiplier})
                first += len(codes)
            names |= {"lists": lists, "extra_multipliers": list(_MULTIPLIERS[HISPANIC_LIST:])}
        return names

    def values(self, table: str) -> dict[str, Any]:
        """The seed and, for detailed codes, all codes, list by list, and the races of each CENRACE as bits."""
        if table != "persons" or not self.detailed_codes:
            return super().values(table)
        return super().values(table) | {
            "codes": [code for codes in _list_codes().values() for code in codes],
            "combinations": [sum(1 << SIX_RACES.index(race) for race in races) for races in RACE_COMBINATIONS],
            "no_code": NO_CODE,
            "not_hispanic": NOT_HISPANIC,
        }


class SyntheticCensusDeclaration(GeneratedDeclaration, CensusDeclaration):
    """A dataset whose records are a synthetic census."""

    generator = Reader.SYNTHETIC_CENSUS

    generated: SyntheticPopulation


synthetic_census = SyntheticCensusDeclaration.from_parameters


@cache
def _list_codes() -> dict[int, list[str]]:
    """The codes of each list, by its number: the six races without Hispanic origins, then Hispanic origins."""
    lists: dict[int, list[str]] = {number: [] for number in range(1, HISPANIC_LIST + 1)}
    with RACE_CODES_2020.open(newline="") as lines:
        for row in csv.DictReader(lines):
            lists[HISPANIC_LIST if row["hispanic"] == "1" else int(row["race"])].append(row["code"])
    return lists


def _divide_into_states(population: SyntheticPopulation) -> list[dict[str, int]]:
    """The numbers of units and places of each state, whose units are numbered from `first`.

    Multiples of `stride`, which is coprime to `units`, number the units in another order.
    """
    rows = [read_states()[state] for state in population.states]
    states: list[dict[str, int]] = []
    first = 0
    for row, households in zip(rows, divide(population.households, [row["population"] for row in rows]), strict=True):
        vacant = round(households / _VACANT_EVERY)
        units = households + vacant + round(households / _QUARTERS_EVERY)
        block_groups = -(-(households + vacant) // _BLOCK_GROUP_UNITS)
        tracts = -(-block_groups // _TRACT_BLOCK_GROUPS)
        states.append(
            {
                "fips": row["state"],
                "region": row["region"],
                "division": row["division"],
                "first": first,
                "households": households,
                "vacant": vacant,
                "units": units,
                "stride": find_stride(units),
                "block_groups": block_groups,
                "tracts": tracts,
                "counties": min(_MOST_COUNTIES, -(-tracts // _COUNTY_TRACTS)),
            }
        )
        first += units
    return states


def write(session: Session, declaration: SyntheticCensusDeclaration) -> None:
    """Write the tables of a synthetic census without the validation of `ingestion`, for benchmarks and tests."""
    for table, (name, records) in zip(declaration.cef_tables(), declaration.tables.items(), strict=True):
        statement, values, names = declaration.generated.recipe(name, records.stored)
        session.create(table, statement, values, **names)
