"""The fields of a DHC release by TopDown, and the design that follows from them."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from assets.measurement.declaration import PRODUCTION_OR_OWN, Production
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.names import ReleaseName, require_distinct_products
from assets.release.numbers import Delta
from assets.topdown.declaration import MOST_REPLICATES, Allocated, Code, Level, PlaceCode, TreeDeclaration, read_codes
from mechanisms.accounting.specification import DELTA
from mechanisms.topdown.allocation import Allocation
from mechanisms.topdown.dhc.allocation import (
    HOUSEHOLD_ALLOCATION,
    HOUSEHOLD_ALLOCATION_OF_PUERTO_RICO,
    LEVELS,
    PERSON_ALLOCATION,
    PERSON_ALLOCATION_OF_PUERTO_RICO,
    UNIT_ALLOCATION,
    UNIT_ALLOCATION_OF_PUERTO_RICO,
)
from mechanisms.topdown.dhc.design import SCHEMAS, DHCDesign
from mechanisms.topdown.dhc.households import HOUSEHOLDS, UNITS
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.tables import DHC_TABLES, MEDIAN_AGES, P_L_TABLES

SUBSET_GROUP, BLOCK_GROUP = "tract_subset_group", "block_group_run"
"""The columns of units that the production spine computes: runs of tract subsets in a prim, and runs of blocks in a
tract subset with the same block group and the same major types of group quarters."""

_STATE = ("TABBLKST",)
_COUNTY = (*_STATE, "TABBLKCOU")
_PRIM = (*_COUNTY, "PLACEFP")
_SUBSET = (*_PRIM, SUBSET_GROUP, "TABTRACTCE")

PRODUCTION_SPINE = dict(
    zip(
        LEVELS,
        (
            Code(),
            Code(_STATE),
            Code(_COUNTY),
            Code(_PRIM),
            Code((*_PRIM, SUBSET_GROUP)),
            Code(_SUBSET),
            Code((*_SUBSET, BLOCK_GROUP)),
            Code(("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")),
        ),
        strict=True,
    )
)
"""The eight levels of the 2020 Census. A prim is the part of a county in one place, as the layout has no county
subdivisions."""

PUERTO_RICO, PRODUCTION = "puerto_rico", "production"

SPINES: Mapping[str, Mapping[str, Code]] = {
    PRODUCTION: PRODUCTION_SPINE,
    PUERTO_RICO: {LEVELS[1]: Code(), **{level: PRODUCTION_SPINE[level] for level in LEVELS[2:]}},
}

PRODUCTION_ALLOCATIONS: Mapping[str, Mapping[str, Allocation]] = {
    PRODUCTION: {
        PERSONS.name: PERSON_ALLOCATION,
        UNITS.name: UNIT_ALLOCATION,
        HOUSEHOLDS.name: HOUSEHOLD_ALLOCATION,
    },
    PUERTO_RICO: {
        PERSONS.name: PERSON_ALLOCATION_OF_PUERTO_RICO,
        UNITS.name: UNIT_ALLOCATION_OF_PUERTO_RICO,
        HOUSEHOLDS.name: HOUSEHOLD_ALLOCATION_OF_PUERTO_RICO,
    },
}

_SERIES = ("P", "PCT", "H")


def _rank(name: str) -> tuple[int, int, str]:
    series, number, iteration = re.fullmatch(r"([A-Z]+)(\d+)([A-Z]?)", name).groups()  # type: ignore[union-attr]
    return _SERIES.index(series), int(number), iteration


TABLES = tuple(sorted((*P_L_TABLES, *MEDIAN_AGES, *DHC_TABLES), key=_rank))
"""The tables of counts and medians, in the standard order."""

RECORDS = ("persons", "units")
MEASURED, FACILITIES = "noisy_measurements", "facilities"
PRODUCTS = (*TABLES, *RECORDS, MEASURED, FACILITIES)

Spine = Annotated[
    Annotated[Literal["production", "puerto_rico"], Tag("production")]
    | Annotated[dict[Level, PlaceCode], Field(min_length=2, max_length=20), Tag("own")],
    Discriminator(lambda value: "own" if isinstance(value, Mapping | Part) else "production"),
]


Passes = Annotated[
    Production
    | Annotated[dict[Literal["persons", "units", "households"], list[list[str]]], Field(min_length=1), Tag("own")],
    PRODUCTION_OR_OWN,
]


def _require_products(names: list[str]) -> list[str]:
    for name in names:
        if name not in PRODUCTS:
            raise ValueError(f"there is no product {name}; there are {', '.join(PRODUCTS)}")
    return require_distinct_products(names)


class DHCDeclaration(TreeDeclaration):
    """The YAML declaration of a Demographic and Housing Characteristics File (DHC), within a redistricting release's
    counts."""

    consistent_with: ReleaseName = Field(
        description="The name of a redistricting release (TopDown) of the same dataset, which must publish its "
        "microdata. In every place, the DHC keeps the numbers published there: persons by type of group quarters, "
        "voting age, Hispanic origin and race, and occupied and vacant units."
    )
    spine: Spine = Field(
        "production",
        description="production: US, State, County, Prim, Tract_Subset_Group, Tract_Subset, Block_Group, Block. "
        "puerto_rico: the same without US. Otherwise as in a redistricting release. The finest level must be the "
        "finest level of the redistricting release.",
    )
    persons: Allocated = Field(
        "production",
        description="The budget of the queries of persons: production, or ρ with shares by level and query. A query "
        "that distinguishes householders who live alone from other householders counts three times in the charge, "
        "because a person's move can also change whether two other householders live alone.",
    )
    units: Allocated = Field(
        "production",
        description="The budget of the queries of units: production, or ρ with shares by level and "
        "query. This ρ counts twice in the charge, because a person's move can change two units.",
    )
    households: Allocated = Field(
        "production",
        description="The budget of the queries of households: production, or ρ with shares by level and query. This "
        "ρ counts four times in the charge, because a person's move can change two households.",
    )
    passes: Passes = Field(
        "production",
        description="The queries of each pass of estimation: production, or a mapping from persons, units or "
        "households to a list of passes. Each pass is a list of queries, and a histogram then has only these queries. "
        "The answers to the last query of a pass add up to the answers to its other queries and to the answers fixed "
        "by earlier passes; from then on, they are fixed too. The last query needs a share at every level, the others "
        "at some level. The last pass ends with `detailed`.",
    )
    estimation: Literal["full", "own_levels"] = Field(
        "full",
        description="full: every place is estimated from the answers at and below it. own_levels: every place is "
        "estimated from its own answers. The charge is the same with both, but the draw is not, because other answers "
        "to the queries are measured.",
    )
    householders_among_persons: bool = Field(
        False,
        strict=True,
        description="Whether the estimates of every place have, for each Hispanic origin and race, at most as many "
        "householders as persons in households. The redistricting release must have estimation: full.",
    )
    intervals: bool = Field(
        False,
        strict=True,
        description="Whether tables have linear estimates, with standard errors and 90% intervals, from the "
        "measurements of both releases. Cells have them if they follow from the redistricting measurements or from "
        "queries of the DHC with up to 1,000 answers. Such queries are then drawn in full, including the answers that "
        "the estimation does not use. The redistricting release must publish noisy_measurements and declare "
        "housing_units an invariant of its finest level. The charge is the same as without intervals, but the draw is "
        "not.",
    )
    delta: Delta = Field(DELTA, description="δ at which the loss is stated as (ε, δ).")
    products: Annotated[list[str], AfterValidator(_require_products)] = Field(
        default_factory=list,
        description="The products to publish: tables such as P12 or P12A, microdata (persons, units), "
        "noisy_measurements, and facilities (the exact number of group quarters by type). By default, all of them. "
        "The list of places, `spine`, is always published.",
    )

    replicates: int = Field(
        0,
        ge=0,
        le=MOST_REPLICATES,
        strict=True,
        description="How often noise and estimation are repeated on the published counts, for the errors of the "
        "tables: 0 (not at all), or at least 2. The redistricting release must declare as many or more. Replicates "
        "cost time, but no budget.",
    )

    @property
    def codes(self) -> Mapping[str, Code]:
        return SPINES[self.spine] if isinstance(self.spine, str) else read_codes(self.spine)

    @property
    def published(self) -> tuple[str, ...]:
        return tuple(name for name in PRODUCTS if name in self.products or not self.products)

    def design(self, dataset: DatasetDeclaration, **_: Any) -> DHCDesign:
        """The queries with their budgets."""
        levels = tuple(self.codes)
        production = PRODUCTION_ALLOCATIONS[PRODUCTION if levels[0] == LEVELS[0] else PUERTO_RICO]
        allocations = {}
        for histogram, schema in SCHEMAS.items():
            declared = getattr(self, histogram)
            allocations[histogram] = (
                production[histogram] if isinstance(declared, str) else declared.divide(schema, levels)
            )
        full = self.estimation == "full"
        passes: Mapping[Any, list[list[str]]] = {} if isinstance(self.passes, str) else self.passes
        return DHCDesign(levels, allocations, full, self.householders_among_persons, self.intervals, passes)
