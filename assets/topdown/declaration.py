"""The fields of a redistricting release by TopDown, and the design that follows from them."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic.json_schema import SkipJsonSchema

from assets.measurement.declaration import PRODUCTION_OR_OWN, Production
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.names import require_distinct_products
from assets.release.numbers import Delta, Rho, Share
from assets.release.release import ReleaseDeclaration
from mechanisms.accounting.specification import DELTA
from mechanisms.design import DesignError
from mechanisms.topdown.allocation import PERSON_ALLOCATION, UNIT_ALLOCATION, Allocation, AllocationError, allocate
from mechanisms.topdown.design import (
    GROUP_QUARTERS,
    HOUSING_UNITS,
    POPULATION,
    SCHEMAS,
    TopDownDesign,
)
from mechanisms.topdown.schema import PERSONS, TOTAL, UNITS, QueryError, Schema

FEWEST_REPLICATES, MOST_REPLICATES = 2, 200
"""The range of replicates that a release may ask for, if any."""

TYPES_FIRST = (
    "Only with `estimation: full`: from the root down to this level, the counts by type of group quarters, and by race "
    "alone or in combination, are fixed before single cells. By default, the level below the root."
)
"""The description of the field `types_first` of a release, and of a reestimation of its measurements."""


@dataclass(frozen=True)
class Code:
    """The form of the codes of a level's places: columns of the CEF's units joined together, or the first `prefix`
    characters of the finest level's code. The root, the only place of its level, has neither."""

    columns: tuple[str, ...] = ()
    prefix: int | None = None


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
"""The statistics that the 2020 Census published exactly, and their levels."""

Product = Literal[
    "P1", "P2", "P3", "P4", "P5", "H1", "persons", "units", "noisy_measurements",
    "population", "housing_units", "group_quarters",
]  # fmt: skip

MOST_PROCESSES = 256
"""The maximum number of estimating processes. Each needs its own memory, and a charged release must still be
estimated."""

Level = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*$", max_length=40)]


OF_MEASUREMENTS, OF_LEVELS = "measurements", "states"
"""The names of the rounds in which each state has its own run."""


class PrefixDeclaration(Part):
    """A level whose codes are the first characters of the codes of the finest level."""

    prefix: int = Field(ge=1, le=255, strict=True, description="The number of characters.")


class AllocationDeclaration(Part):
    """ρ and its division over levels and queries."""

    rho: Rho = Field(description="ρ of all measurements of persons, of units or (in a DHC) of households, together.")
    levels: dict[Level, Share] = Field(description="For each level, from the root to the finest, its share of ρ.")
    queries: dict[Level, dict[str, Share]] = Field(
        description="For each level, the share of its ρ for each query, such as total, hispanic * cenrace or detailed."
    )

    def divide(self, schema: Schema, levels: Sequence[str]) -> Allocation:
        """The allocation of a histogram, with its levels in the order of the spine, independent of the order of the
        declared shares. Raises DesignError if it is inconsistent or names an unknown query."""
        ordered = {level: self.levels[level] for level in levels if level in self.levels}
        try:
            return allocate(schema, self.rho, ordered | self.levels, self.queries)
        except (AllocationError, QueryError) as error:
            raise DesignError(f"{schema.name}: {error}") from None


PlaceCode = Annotated[
    Annotated[list[str], Tag("columns")] | Annotated[PrefixDeclaration, Tag("prefix")],
    Discriminator(lambda value: "prefix" if isinstance(value, Mapping | PrefixDeclaration) else "columns"),
]


Allocated = Annotated[Production | Annotated[AllocationDeclaration, Tag("own")], PRODUCTION_OR_OWN]
Spine = Annotated[
    Production | Annotated[dict[Level, PlaceCode], Field(min_length=2, max_length=20), Tag("own")], PRODUCTION_OR_OWN
]


def read_codes(spine: Mapping[str, Sequence[str] | PrefixDeclaration]) -> dict[str, Code]:
    return {
        level: Code(prefix=code.prefix) if isinstance(code, PrefixDeclaration) else Code(tuple(code))
        for level, code in spine.items()
    }


class TreeDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release by a TopDown algorithm, in the places of a spine."""

    partitions: Literal["state"] | SkipJsonSchema[None] = Field(
        None,
        description="state: the levels below State are estimated state by state, each state in a run of its own. "
        "Several machines can execute these runs at the same time. The publication is the same as without partitions. "
        "The spine needs a level State between the root and the finest level.",
    )
    processes: int = Field(
        0,
        ge=0,
        le=MOST_PROCESSES,
        strict=True,
        description="The number of processes that estimate; 0 means one per core.",
    )

    @property
    @abstractmethod
    def codes(self) -> Mapping[str, Code]:
        """By level from the root to the finest, the code that identifies its places."""

    @property
    def rounds(self) -> Sequence[str]:
        return [OF_LEVELS] if self.partitions else []


InvariantLevels = Annotated[
    Production | Annotated[dict[Literal["population", "housing_units", "group_quarters"], Level], Tag("own")],
    PRODUCTION_OR_OWN,
]


class TopDownDeclaration(TreeDeclaration):
    """The YAML declaration of a release of redistricting data (P.L. 94-171)."""

    spine: Spine = Field(
        "production",
        description="production: US, State, County, Tract, Block_Group, Block. Otherwise a mapping by level, from "
        "the root to the finest level: the columns of the table units that together identify a place (none at the "
        "root), or {prefix: n} for the first n characters of the finest level's code.",
    )
    invariants: InvariantLevels = Field(
        "production",
        description="production: {population: State, housing_units: Block, group_quarters: Block}. Otherwise a "
        "mapping from each statistic to the level at which it is exact. The certificate's DP specification names all "
        "invariants.",
    )
    persons: Allocated = Field(
        "production",
        description="The budget of the queries of persons: production, or ρ with shares by level and query.",
    )
    units: Allocated = Field(
        "production", description="The budget of the queries of units: production, or ρ with shares by level and query."
    )
    total_first: list[Level] | SkipJsonSchema[None] = Field(
        None,
        description="Only with `estimation: own_levels`: the levels at which the query `total` determines the "
        "number of persons before any other query is used. By default, all levels that measure `total` except the "
        "finest, as in the 2020 Census.",
    )
    estimation: Literal["full", "own_levels"] = Field(
        "full",
        description="full: every place is estimated from its own measurements and those of all places in it; units are "
        "estimated after persons, within bounds that make the two agree. own_levels: from its own measurements and "
        "its parent's estimates alone. Charge and draw are the same with both.",
    )
    types_first: Level | SkipJsonSchema[None] = Field(None, description=TYPES_FIRST)
    lean_on_housing_units: bool = Field(
        False,
        strict=True,
        description="Only with `estimation: full`: whether the estimates of the finest level also use the exact "
        "number of housing units, through a model. The variance of the model is estimated from the noisy measurements "
        "of each state, and published.",
    )
    delta: Delta = Field(DELTA, description="δ at which the loss is stated as (ε, δ).")
    products: Annotated[list[Product], AfterValidator(require_distinct_products)] = Field(
        default_factory=list,
        description="The products to publish: tables P1 to P5 and H1, microdata (persons, units), "
        "noisy_measurements, and the exact statistics. By default, all of them. The list of places, `spine`, is "
        "always published.",
    )

    replicates: int = Field(
        0,
        ge=0,
        le=MOST_REPLICATES,
        strict=True,
        description="How often noise and estimation are repeated on the published counts, for the errors of the "
        "tables: 0 (not at all), or at least 2; 25 is a good number. Replicates cost time, but no budget.",
    )

    @property
    def codes(self) -> dict[str, Code]:
        return PRODUCTION_SPINE if isinstance(self.spine, str) else read_codes(self.spine)

    @property
    def rounds(self) -> Sequence[str]:
        return [OF_MEASUREMENTS, OF_LEVELS] if self.partitions else []

    def design(self, dataset: DatasetDeclaration, **_: Any) -> TopDownDesign:
        """The queries with their budgets, the invariants, and the levels where totals are determined first."""
        levels = tuple(self.codes)
        allocations = {histogram: self._allocation(histogram, levels) for histogram in SCHEMAS}
        exact: Mapping[Any, str] = PRODUCTION_INVARIANTS if isinstance(self.invariants, str) else self.invariants
        total_first, types_first = self.total_first, self.types_first
        if self.estimation == "full":
            types_first = types_first or levels[min(1, len(levels) - 2)]
        elif types_first:
            raise DesignError("types_first: it belongs to estimation: full")
        if total_first is None and types_first:
            total_first = []
        elif total_first is None:
            queries = allocations[PERSONS.name].queries
            total_first = [level for level in levels[:-1] if queries.get(level, {}).get(TOTAL)]
        return TopDownDesign(
            levels,
            allocations,
            {statistic: exact[statistic] for statistic in PRODUCTION_INVARIANTS if statistic in exact},
            tuple(total_first),
            types_first,
            self.lean_on_housing_units,
        )

    def _allocation(self, histogram: str, levels: Sequence[str]) -> Allocation:
        declared: str | AllocationDeclaration = getattr(self, histogram)
        if isinstance(declared, str):
            return PRODUCTION_ALLOCATIONS[histogram]
        return declared.divide(SCHEMAS[histogram], levels)
