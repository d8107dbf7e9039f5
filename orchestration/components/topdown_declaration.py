"""The YAML declaration of a redistricting release by TopDown, and the design that follows from it.

This module defines the fields, their domains and their JSON schema. What a design must satisfy is in
`mechanisms.topdown.design`. The component is in `topdown`.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import dagster as dg
from pydantic import ConfigDict, Discriminator, Field, Tag, field_validator
from pydantic.json_schema import SkipJsonSchema

from assets.release.numbers import Delta, Rho, Share
from assets.release.release import DeclarationError
from assets.topdown.release import MOST_REPLICATES, Code
from mechanisms.accounting.semantics import Allocation, AllocationError
from mechanisms.accounting.specification import DELTA
from mechanisms.design import DesignError
from mechanisms.topdown.design import GROUP_QUARTERS, HOUSING_UNITS, POPULATION, SCHEMAS, TopDownDesign
from mechanisms.topdown.production import PERSON_ALLOCATION, UNIT_ALLOCATION, allocation
from mechanisms.topdown.schema import PERSONS, TOTAL, UNITS, QueryError
from orchestration.components.release import ReleaseDeclaration

PRODUCTION_SPINE = {
    "US": Code(),
    "State": Code(("TABBLKST",)),
    "County": Code(("TABBLKST", "TABBLKCOU")),
    "Tract": Code(("TABBLKST", "TABBLKCOU", "TABTRACTCE")),
    "Block_Group": Code(("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE")),
    "Block": Code(("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")),
}
"""The six levels of the 2020 Census, by the columns of the production layout."""

PRODUCTION_ALLOCATIONS = {PERSONS.name: PERSON_ALLOCATION, UNITS.name: UNIT_ALLOCATION}

PRODUCTION_INVARIANTS = {POPULATION: "State", HOUSING_UNITS: "Block", GROUP_QUARTERS: "Block"}
"""What the 2020 Census published exactly, and at which level."""

Product = Literal[
    "P1", "P2", "P3", "P4", "P5", "H1", "persons", "units", "noisy_measurements",
    "population", "housing_units", "group_quarters",
]  # fmt: skip

LONGEST_LEVEL = 40
MOST_LEVELS = 20

Level = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*$", max_length=LONGEST_LEVEL)]


LONGEST_CODE = 255
"""The most characters of a place's code that a prefix can name."""

MOST_PROCESSES = 256
"""The most estimating processes: each takes memory of its own, and a release that is charged has to be estimated."""


class PrefixDeclaration(dg.Model):
    """A level whose codes are the first characters of the codes of the finest level."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: int = Field(ge=1, le=LONGEST_CODE, strict=True, description="The number of characters.")


class AllocationDeclaration(dg.Model):
    """ρ and its division over levels and queries."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    rho: Rho = Field(description="ρ of all measurements of the histogram together.")
    levels: dict[Level, Share] = Field(description="By level, from the root to the finest: the level's share of ρ.")
    queries: dict[Level, dict[str, Share]] = Field(
        description="By level and query (such as total, hispanic * cenrace or detailed): the share of the level's ρ."
    )


PlaceCode = Annotated[
    Annotated[list[str], Tag("columns")] | Annotated[PrefixDeclaration, Tag("prefix")],
    Discriminator(lambda value: "prefix" if isinstance(value, Mapping | PrefixDeclaration) else "columns"),
]


def _production_or(other: str) -> Discriminator:
    return Discriminator(lambda value: other if isinstance(value, Mapping | AllocationDeclaration) else "production")


Allocated = Annotated[
    Annotated[Literal["production"], Tag("production")] | Annotated[AllocationDeclaration, Tag("allocation")],
    _production_or("allocation"),
]
Spine = Annotated[
    Annotated[Literal["production"], Tag("production")]
    | Annotated[dict[Level, PlaceCode], Field(min_length=2, max_length=MOST_LEVELS), Tag("levels")],
    _production_or("levels"),
]
Held = Annotated[
    Annotated[Literal["production"], Tag("production")]
    | Annotated[dict[Literal["population", "housing_units", "group_quarters"], Level], Tag("held")],
    _production_or("held"),
]


class TopDownDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release of redistricting data (P.L. 94-171)."""

    spine: Spine = Field(
        "production",
        description="production: US, State, County, Tract, Block_Group, Block. Otherwise a mapping by level, from the "
        "root to the finest: the columns of units whose joined codes identify a place (none at the root), or "
        "{prefix: n} for the first n characters of the finest level's code.",
    )
    invariants: Held = Field(
        "production",
        description="production: {population: State, housing_units: Block, group_quarters: Block}. Otherwise, for each "
        "statistic, the level at which it is exact; the DP specification names them all.",
    )
    persons: Allocated = Field("production", description="production, or ρ with shares by level and query.")
    units: Allocated = Field("production", description="production, or ρ with shares by level and query.")
    total_first: list[Level] | SkipJsonSchema[None] = Field(
        None,
        description="The levels at which the query total determines the number of persons before any other query is "
        "used; by default all levels that measure it except the finest, as in the 2020 Census.",
    )
    delta: Delta = Field(DELTA, description="δ at which the loss is stated as (ε, δ).")
    products: list[Product] = Field(
        default_factory=list,
        description="What is published besides the spine: tables P1 to P5 and H1, microdata (persons, units), "
        "noisy_measurements, and the statistics that are exact; if empty, everything.",
    )
    processes: int = Field(
        0, ge=0, le=MOST_PROCESSES, strict=True, description="The number of estimating processes; 0: one per core."
    )

    replicates: int = Field(
        0,
        ge=0,
        le=MOST_REPLICATES,
        strict=True,
        description="How often noise and estimation run again on the published counts, for the errors of the tables; "
        "0: not at all. 25 is a good number, 2 the least. Costs time and no budget.",
    )

    partitions: Literal["state"] | SkipJsonSchema[None] = Field(
        None,
        description="state: the levels below State are estimated state by state, each state in a run of its own, which "
        "other machines can make side by side. The publication is the same. Needs a level State between the root and "
        "the finest level.",
    )

    @field_validator("products")
    @classmethod
    def _check_products(cls, products: list[Product]) -> list[Product]:
        twice = sorted({name for name in products if products.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)}: a product is declared once")
        return products


def topdown_spine(declaration: TopDownDeclaration) -> dict[str, Code]:
    """By level, the code that identifies its places."""
    if isinstance(declaration.spine, str):
        return PRODUCTION_SPINE
    return {
        level: Code(prefix=code.prefix) if isinstance(code, PrefixDeclaration) else Code(tuple(code))
        for level, code in declaration.spine.items()
    }


def topdown_design(declaration: TopDownDeclaration) -> TopDownDesign:
    """The declared design.

    Raises:
        DeclarationError: if the declared design is not valid; the message names the release, the field and the rule.
    """
    name = f"release {declaration.dataset}/{declaration.name}"
    declared = declaration.invariants
    held: Mapping[str, str] = (
        PRODUCTION_INVARIANTS if isinstance(declared, str) else {str(name): level for name, level in declared.items()}
    )
    try:
        return TopDownDesign(
            tuple(topdown_spine(declaration)),
            {histogram: _allocation(declaration, histogram) for histogram in SCHEMAS},
            {statistic: held[statistic] for statistic in PRODUCTION_INVARIANTS if statistic in held},
            _total_first(declaration),
        )
    except DesignError as error:
        raise DeclarationError(f"{name}: {error}") from None


def _total_first(declaration: TopDownDeclaration) -> tuple[str, ...]:
    if declaration.total_first is not None:
        return tuple(declaration.total_first)
    *above, _ = topdown_spine(declaration)
    persons = _allocation(declaration, PERSONS.name)
    return tuple(level for level in above if persons.queries.get(level, {}).get(TOTAL))


def _allocation(declaration: TopDownDeclaration, histogram: str) -> Allocation:
    declared: str | AllocationDeclaration = getattr(declaration, histogram)
    if isinstance(declared, str):
        return PRODUCTION_ALLOCATIONS[histogram]
    # The levels follow the order of the spine, whatever the order of the declared shares.
    levels = {level: declared.levels[level] for level in topdown_spine(declaration) if level in declared.levels}
    try:
        return allocation(SCHEMAS[histogram], declared.rho, levels | declared.levels, declared.queries)
    except (AllocationError, QueryError) as error:
        raise DesignError(f"{histogram}: {error}") from None
