"""A synthetic census: any number of households in any states, in the production layout.

This module defines the parameters, computes the number of units of each kind in each state, and writes the census.
`sql/cef/synthetic_plan.sql`, and the two statements that include it, compose the households. Everything follows from
the parameters by MD5 and arithmetic, so that the same parameters give the same records on any machine.

The figures are only plausible: nothing but the relative sizes of the states was fitted to a census.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import dagster as dg
from pydantic import ConfigDict, Field, field_validator, model_validator

from assets.cef.census import CensusDeclaration, census_persons, census_units
from assets.cef.generated import (
    SEED,
    States,
    divided,
    generated_columns,
    refuse_unknown_sources,
    states_in_words,
    states_of_2020,
    stride,
)
from assets.cef.synthetic_codes import code_names, code_values
from assets.release.columns import Column, RecordTable
from assets.release.dataset import Reader, Size
from mechanisms.states import STATES
from resources.statements import Fragment, render
from resources.warehouse import Session

_VACANT_EVERY = 9
"""The number of occupied housing units for each vacant one: a tenth of all housing units is vacant."""
_QUARTERS_EVERY = 520
"""The number of households for each group quarters: with the sizes in `synthetic_plan.sql`, 2.5% of all persons live in
group quarters."""
_PERSONS_PER_HOUSEHOLD = 2.58
"""The persons of a census for each household, those in group quarters included."""
_BLOCK_GROUP_UNITS = 500
_BLOCKS = 25
_TRACT_BLOCK_GROUPS = 3
_PLACE_TRACTS = 4
"""The tracts of an incorporated place; three of four such areas are one."""
_COUNTY_TRACTS = 10
_MOST_COUNTIES = 500
"""County codes are the odd numbers of up to three digits."""


class SyntheticPopulation(dg.Model):
    """The parameters of a synthetic census."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(
        SEED, ge=0, lt=2**63, strict=True, description="The seed; each seed gives another census of the same size."
    )
    households: int = Field(
        ge=1,
        le=200_000_000,
        strict=True,
        description="The number of households; vacant housing units and group quarters are added to it.",
    )
    states: States = Field(
        description="FIPS codes of the states; households are divided among them by population in 2020."
    )
    detailed_codes: bool = Field(
        False,
        description="Whether persons have the columns QSEX, QRACE1 to QRACE8 and QSPAN, which a SafeTab-P release "
        "needs. All other columns of persons stay as they are; some areas in AIANNHCE then cross states.",
    )

    @model_validator(mode="after")
    def _check_households(self) -> Self:
        if self.households < len(self.states):
            raise ValueError(f"households: {len(self.states)} states need at least one household each")
        return self


class SyntheticCensusDeclaration(CensusDeclaration):
    """A dataset whose records are a synthetic census; always marked as synthetic."""

    generated: SyntheticPopulation

    @field_validator("reader")
    @classmethod
    def _check_reader(cls, reader: Reader) -> Reader:
        if reader is not Reader.SYNTHETIC_CENSUS:
            raise ValueError(f"the reader of a synthetic census is {Reader.SYNTHETIC_CENSUS.value}")
        return reader

    @model_validator(mode="after")
    def _check_synthetic(self) -> Self:
        if not self.synthetic:
            raise ValueError("a synthetic census must be declared synthetic")
        refuse_unknown_sources(self)
        return self


def synthetic_census(
    generated: SyntheticPopulation,
    *,
    recoded_units: Mapping[str, Column] | None = None,
    recoded_persons: Mapping[str, Column] | None = None,
    **described: Any,
) -> SyntheticCensusDeclaration:
    """The declaration of a synthetic census.

    recoded_units: columns of units that are recoded from those of the layout.
    recoded_persons: the same for persons.
    described: the other fields of the dataset: `name`, `cap`, and optionally `title` and `description`.
    """
    described["title"] = described.get("title") or f"Synthetic census of {states_in_words(generated.states)}"
    origin = (
        f"A synthetic census of {generated.households:,} households in {len(generated.states)} "
        f"state{'' if len(generated.states) == 1 else 's'} (seed {generated.seed}): no record is about a real person."
    )
    described["description"] = "\n\n".join(text for text in (described.get("description"), origin) if text)
    return SyntheticCensusDeclaration(
        **described,
        synthetic=True,
        reader=Reader.SYNTHETIC_CENSUS,
        record_name="unit",
        units=_units_of(generated.states, recoded_units),
        persons=census_persons(recodes=recoded_persons, detailed_codes=generated.detailed_codes),
        generated=generated,
    )


def _units_of(states: Sequence[str], recodes: Mapping[str, Column] | None) -> RecordTable:
    units = census_units(group_quarters_types=True, recodes=recodes)
    state = units.columns["TABBLKST"].model_copy(update={"values": {code: STATES[code] for code in sorted(states)}})
    return units.model_copy(update={"columns": {**units.columns, "TABBLKST": state}})


@dataclass(frozen=True)
class _State:
    """The numbers of units and places in one state. Its units are numbered from `first`."""

    fips: int
    region: int
    division: int
    first: int
    households: int
    vacant: int
    units: int
    stride: int
    """Coprime to `units`: its multiples modulo `units` number the units in another order."""
    block_groups: int
    tracts: int
    counties: int


def _states(population: SyntheticPopulation) -> list[_State]:
    known = states_of_2020()
    rows = [known[state] for state in population.states]
    states: list[_State] = []
    for row, households in zip(rows, divided(population.households, [row["population"] for row in rows]), strict=True):
        vacant = round(households / _VACANT_EVERY)
        units = households + vacant + round(households / _QUARTERS_EVERY)
        block_groups = -(-(households + vacant) // _BLOCK_GROUP_UNITS)
        tracts = -(-block_groups // _TRACT_BLOCK_GROUPS)
        states.append(
            _State(
                fips=row["state"],
                region=row["region"],
                division=row["division"],
                first=states[-1].first + states[-1].units if states else 0,
                households=households,
                vacant=vacant,
                units=units,
                stride=stride(units),
                block_groups=block_groups,
                tracts=tracts,
                counties=min(_MOST_COUNTIES, -(-tracts // _COUNTY_TRACTS)),
            )
        )
    return states


def synthetic_size(population: SyntheticPopulation) -> Size:
    """The size of a synthetic census: units and places exactly, persons and incorporated places on average."""
    states = _states(population)
    counties, tracts = sum(state.counties for state in states), sum(state.tracts for state in states)
    block_groups = sum(state.block_groups for state in states)
    return Size(
        units=states[-1].first + states[-1].units,
        persons=round(_PERSONS_PER_HOUSEHOLD * population.households),
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


def synthetic_names(population: SyntheticPopulation) -> dict[str, Any]:
    states = _states(population)
    names = {
        "states": [asdict(state) for state in states],
        "units": states[-1].first + states[-1].units,
        "detailed": population.detailed_codes,
    }
    return names | (code_names() if population.detailed_codes else {})


def synthetic_values(population: SyntheticPopulation, table: str) -> dict[str, Any]:
    return {"seed": population.seed} | (code_values() if population.detailed_codes and table == "persons" else {})


def synthetic_relation(declaration: SyntheticCensusDeclaration, table: str) -> tuple[Fragment, dict[str, Any]]:
    """A subquery that gives the layout's columns of a table of the census, and the values bound in it."""
    names = synthetic_names(declaration.generated) | {"columns": list(generated_columns(declaration, table).values())}
    return Fragment(render(f"cef/synthetic_{table}", names)), synthetic_values(declaration.generated, table)


def write(session: Session, declaration: SyntheticCensusDeclaration) -> None:
    """Write the tables of a synthetic census without validation, for benchmarks and tests.

    The asset of a dataset validates what it writes (`ingestion`).
    """
    for table, (name, records) in zip(declaration.cef_tables(), declaration.tables.items(), strict=True):
        session.create(
            table,
            f"cef/synthetic_{name}",
            synthetic_values(declaration.generated, name),
            **synthetic_names(declaration.generated),
            columns=list(records.stored),
        )
