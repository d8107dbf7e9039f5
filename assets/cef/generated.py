"""What generated datasets have in common: the states, how households are divided among them, and their columns.

`synthetic` generates a census and `survey` a survey. Everything here is exact and follows from the parameters.
"""

import csv
from collections.abc import Sequence
from fractions import Fraction
from math import gcd
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from assets.release.dataset import DatasetDeclaration
from assets.release.numbers import shown
from mechanisms.states import STATES

SEED = 2020
"""The seed of a generated dataset that declares none."""

STATES_2020 = Path(__file__).with_name("states_2020.csv")
"""Region, division and resident population of each state in the 2020 Census, from its apportionment and P.L. 94-171
tables."""


def _known_states(states: list[str]) -> list[str]:
    unknown = [state for state in states if state not in STATES]
    if unknown:
        named = ", ".join(state if len(state) < 10 else shown(state) for state in unknown)
        raise ValueError(f"{named}: not a FIPS code of a state such as '01', in quotes")
    if not states:
        raise ValueError("name at least one state")
    if len(set(states)) < len(states):
        raise ValueError("a state is named twice")
    return sorted(states)


States = Annotated[
    list[str],
    AfterValidator(_known_states),
    WithJsonSchema({"type": "array", "items": {"enum": list(STATES)}, "minItems": 1, "uniqueItems": True}),
]
"""FIPS codes of different states, in ascending order."""


def states_in_words(states: Sequence[str]) -> str:
    """The names of one or two states, or the number of more."""
    names = [STATES[state] for state in states]
    return " and ".join(names) if len(names) <= 2 else f"{len(names)} states"


def states_of_2020() -> dict[str, dict[str, int]]:
    """By FIPS code: the columns state, region, division and population of `STATES_2020`."""
    with STATES_2020.open(newline="") as lines:
        return {row["state"]: {name: int(number) for name, number in row.items()} for row in csv.DictReader(lines)}


def divided(total: int, weights: Sequence[int | Fraction]) -> list[int]:
    """Divide a total into positive integers: one each, and the rest by weight with the largest-remainder method."""
    rest, whole = total - len(weights), sum(weights)
    shares = [int(rest * weight // whole) for weight in weights]
    remainders = [rest * weight % whole for weight in weights]
    for place in sorted(range(len(weights)), key=lambda place: -remainders[place])[: rest - sum(shares)]:
        shares[place] += 1
    return [1 + share for share in shares]


def stride(units: int) -> int:
    """A number coprime to the number of units: its multiples modulo that number visit each unit once."""
    return next(stride for stride in range(units * 5 // 8 + 1, 2 * units + 2) if gcd(stride, units) == 1)


def generated_columns(declaration: DatasetDeclaration, table: str) -> dict[str, str]:
    """The columns of a table that are generated and not recoded, by their names in a file."""
    columns = declaration.tables[table].columns
    return {column.source or name: name for name, column in columns.items() if column.recode is None}


def refuse_unknown_sources(declaration: DatasetDeclaration) -> None:
    """Raise ValueError if a column is recoded from one that is not generated."""
    for table, records in declaration.tables.items():
        known = generated_columns(declaration, table)
        for name, column in records.columns.items():
            if column.recode is not None and (column.source or name) not in known:
                raise ValueError(
                    f"recoded_{table}: {name}: source: there is no column {column.source or name}; "
                    f"{table} have {', '.join(known)}"
                )
