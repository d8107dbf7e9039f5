"""The DHC's codes for records with its columns: the statements `dhc/persons`, `dhc/households` and `dhc/units`, and the
tables in which they and the rules of the layout look up codes, made from the DHC's schemas.

Only modules that check or count such records import this module.
"""

from dataclasses import asdict

import numpy as np
import pyarrow as pa

from mechanisms.topdown.dhc.households import HOUSEHOLDS, LARGEST, TYPES
from mechanisms.topdown.dhc.persons import HOUSEHOLD_CODES, MAJOR_TYPE, PERSONS, QUARTERS
from mechanisms.topdown.schema import Schema
from resources.statements import Fragment
from resources.warehouse import Session


def register_codes(session: Session) -> dict[str, Fragment | int]:
    """The placeholders of the statements except `persons`, `units` and `carried`: the types of group quarters and of
    households with their codes, and the size that stands for larger ones."""
    quarters = {"type": map(str, QUARTERS), "major": map(str, MAJOR_TYPE[1:]), "code": range(HOUSEHOLD_CODES, 42)}
    types = [{"code": code, **asdict(each)} for code, each in enumerate(TYPES)]
    return {
        "quarters": session.register("quarters", pa.table({name: list(own) for name, own in quarters.items()})),
        "types": session.register("types", pa.Table.from_pylist(types)),
        "largest": LARGEST,
    }


def register_impossible(session: Session) -> dict[str, Fragment]:
    """The combinations of codes that no person and no household has, as tables with a column for each attribute."""
    return {
        "impossible_persons": session.register("impossible_persons", _list_impossible(PERSONS, "relgq", "age")),
        "impossible_households": session.register(
            "impossible_households", _list_impossible(HOUSEHOLDS, "sex", "hhage", "elderly", "hhtype_dhch")
        ),
    }


def _list_impossible(schema: Schema, *attributes: str) -> pa.Table:
    """All impossible combinations of these attributes, which no other attribute rules out."""
    possible = schema.possible.reshape([attribute.size for attribute in schema.attributes])
    others = [axis for axis, attribute in enumerate(schema.attributes) if attribute.name not in attributes]
    return pa.table(dict(zip(attributes, np.nonzero(~possible.any(axis=tuple(others))), strict=True)))
