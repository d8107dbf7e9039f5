"""The published tables of SafeTab-P: T1 and T2 in the production layout, and both in words, with errors and intervals.

All are post-processing of the measurements. A total of a group that is measured in detail is the sum of its cells.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.cef.census import CensusDeclaration
from assets.conventions import preview
from assets.measurement.method import MEASUREMENTS
from assets.release.dataset import DatasetDeclaration
from assets.safetab.release import REGIONS, SafeTabPRelease, SafeTabRelease
from assets.tabulation.asset import build_tables
from mechanisms.safetab.details import AGES, DETAILS, SEXES, cells
from mechanisms.safetab.regions import RegionType
from mechanisms.sampling.quantiles import Uncapped, half_width
from mechanisms.states import STATES
from resources.statements import Fragment, Table
from resources.warehouse import Recipe, Session

T1, T2, TOTALS, SEX_BY_AGE = "t1", "t2", "total_population", "sex_by_age"
NATION = "United States"
FIRST_ROWS = 12
"""How many groups the asset's page shows."""

PLACES = 4
COVERAGE = Fraction(9, 10)
ERROR = pa.decimal128(24, PLACES)
"""How standard errors are stored."""


def build_person_tables(release: SafeTabPRelease, columns: Mapping[str, str]) -> dg.AssetsDefinition:
    return build_tables(
        release,
        [REGIONS, MEASUREMENTS],
        "T1, the total of every published group, and T2, sex by age of those published in detail: in the production "
        "layout, and in words with standard errors and 90% intervals. Made from public data only.",
        lambda session: person_table_recipes(session, release),
        columns,
        shown=lambda session: {
            "largest groups": preview(
                ["region", "iteration", "estimate", "90% interval"],
                [
                    (region, iteration, f"{estimate:,}", f"{lower:,}\u00a0–\u00a0{upper:,}")
                    for region, iteration, estimate, lower, upper in session.rows(
                        "safetab/largest", {"rows": FIRST_ROWS}, table=release.public(TOTALS)
                    )
                ],
            )
        },
    )


def person_table_recipes(session: Session, release: SafeTabPRelease) -> dict[Table, Recipe]:
    names: dict[str, Any] = {
        "measurements": release.public(MEASUREMENTS),
        "cells": session.register("cells_of_details", _cells()),
        **in_words(session, release),
        "errors": session.register("errors", pa.Table.from_pylist(list(_errors(release)), _ERRORS)),
    }
    return {release.public(each): (f"safetab/{each}", {}, names) for each in (T1, T2, TOTALS, SEX_BY_AGE)}


def _cells() -> pa.Table:
    """What each cell of a detail counts, with the codes of the production layout."""
    return pa.Table.from_pylist(
        [
            {
                "detail": detail,
                "cell": sex * len(ages) + place,
                "sex": str(SEXES[sex]),
                "age_start": str(start),
                "age_end": str(end),
                "age": f"{start}" if start == end else f"{start} to {end}",
            }
            for detail, ages in AGES.items()
            for sex in range(len(SEXES))
            for place, (start, end) in enumerate(ages)
        ]
    )


def in_words(session: Session, release: SafeTabRelease) -> dict[str, Fragment]:
    """The names of iterations and of regions, registered for the statements of tables in words."""
    iterations = [
        {"iteration_code": each.code, "name": each.name.strip(), "total_only": bool(each.detailed_only)}
        for each in release.lists.iteration.values()
    ]
    return {
        "iterations": session.register("iterations_in_words", pa.Table.from_pylist(iterations, _ITERATIONS)),
        "names": session.register("names", pa.Table.from_pylist(list(_names(release.dataset)), _NAMES)),
    }


_ITERATIONS = pa.schema([("iteration_code", pa.string()), ("name", pa.string()), ("total_only", pa.bool_())])

_NAMES = pa.schema([(name, pa.string()) for name in ("region_type", "region_id", "name")])


def _names(dataset: DatasetDeclaration) -> Iterator[dict[str, str]]:
    """The names of regions that are known: of the nation, of the states, and of the places that the dataset names."""
    known = dataset.place_names if isinstance(dataset, CensusDeclaration) else {}
    yield {"region_type": RegionType.USA.value, "region_id": "1", "name": NATION}
    for region_type in RegionType:
        named = dict(STATES) if region_type.digits == 2 else {}
        named |= {code: name for code, name in known.items() if len(code) == region_type.digits}
        for code, name in named.items():
            yield {"region_type": region_type.value, "region_id": code, "name": name}


_ERRORS = pa.schema(
    [
        ("region_type", pa.string()),
        ("level", pa.uint8()),
        ("detail", pa.int8()),
        ("quantity", pa.string()),
        ("measures_totals_only", pa.bool_()),
        ("total_only", pa.bool_()),
        ("standard_error", ERROR),
        ("half_width", pa.int64()),
    ]
)


def _errors(release: SafeTabPRelease) -> Iterator[dict[str, Any]]:
    """The standard error and the half width of the interval of every kind of published number."""
    for each in release.design.measured:
        of = {
            "region_type": each.region_type.value,
            "level": each.level,
            "measures_totals_only": each.region_type.detailed,
        }
        if each.region_type.detailed:
            yield of | {"detail": 0, "quantity": "total", "total_only": True} | error_of(each.total_only, 1)
        for detail in DETAILS:
            measured = {"total": cells(detail)}
            if detail:
                measured |= {"sex": cells(detail) // len(SEXES), "cell": 1}
            for quantity, added in measured.items():
                row = {"detail": detail, "quantity": quantity, "total_only": False}
                yield of | row | error_of(each.stage_2, added)


def error_of(noise: Uncapped, added: int) -> dict[str, Any]:
    """The standard error of a sum of noises, and the half width of its 90% interval."""
    error = sqrt(added * float(noise.exact_variance))
    return {"standard_error": Decimal(f"{error:.{PLACES}f}"), "half_width": half_width(noise, added, COVERAGE)}
