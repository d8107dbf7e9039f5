"""A TopDown release as one value, with the rules that it must satisfy before any run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_args

from assets.cef.census import CensusDeclaration
from assets.release.columns import Role
from assets.release.prose import Prose
from assets.release.release import Release
from assets.topdown.declaration import (
    FEWEST_REPLICATES,
    MOST_REPLICATES,
    Code,
    Product,
    TopDownDeclaration,
    TreeDeclaration,
)
from mechanisms.refusal import RefusedError
from mechanisms.topdown.design import SCHEMAS, STATE, STATISTICS, TopDownDesign, level_of_states
from mechanisms.topdown.redistricting import REDISTRICTING
from mechanisms.topdown.schema import PERSONS
from resources.machine import count_cores
from resources.statements import Fragment, Table
from resources.warehouse import Session, Warehouse

TEXTS = Prose(Path(__file__).with_name("texts.md"))
"""The texts of stages and tables; those of the certificate are in `statement.md`."""

PLACES = "places"

SPINE, INVARIANTS, HISTOGRAMS = "spine", "invariants", "histograms"
QUERIES, QUERY_CELLS, ACCURACY = "queries", "query_cells", "accuracy"
REPLICATES, UNCERTAINTY = "replicates", "uncertainty"
SUMMARY = f"{UNCERTAINTY}_summary"

TABLES = tuple(REDISTRICTING)

INFORMATION, OCCUPANCY = "information", "occupancy"
"""The stages of a release with full estimation before and after the levels: the information from the measurements at
and below every place, and the estimation of units."""

MEASUREMENTS_OF_STATES = "noisy_measurements_of_states"
"""With partitions, the stage before `noisy_measurements`, which draws the measurements below each state."""

INFORMATION_OF_STATES = f"{INFORMATION}_of_states"
"""With partitions, the stage before `information`, which makes the information below each state."""

INTERVALS, INTERVALS_OF_STATES, LINEAR = "intervals", "intervals_of_states", "linear_estimates"
"""The stages of a release with full estimation for the intervals around linear estimates. With partitions, the second
makes the intervals below each state, from the linear estimates of the states, which the third keeps."""

ABOVE = "above"
"""With partitions, the suffix of the tables with the measurements or intervals of the states and above."""

MICRODATA, RECORDS = "microdata", "records"
"""The stage of the microdata and, with partitions, the stage before it, which makes the records of each state."""

ESTIMATES = "estimates"
"""The stage that joins separate estimates of states, or of persons and units."""

PRODUCTS: tuple[str, ...] = get_args(Product)
"""The products that a release may choose to publish; a statistic only if it is an invariant. The spine is always
published."""

_ENDINGS = ("_made", "_seal")
"""The suffixes of the tables with the account and the seal of a level's estimates."""


class SpineError(RefusedError, ValueError):
    """The codes of places do not form a tree. The message names level, rule and count."""


@dataclass(frozen=True)
class TreeRelease(Release):
    """A release by a TopDown algorithm: a census counted in the places of a spine, level by level."""

    declaration: TreeDeclaration
    dataset: CensusDeclaration

    computed_columns: ClassVar[Collection[str]] = ()
    """The columns of place codes that `stage_units` computes."""

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, CensusDeclaration):
            self.refuse(
                f"dataset: {self.dataset.name} is not a census in the production layout (CensusDataset, "
                "SyntheticCensus), whose codes TopDown needs"
            )
        self._check_columns()
        self._check_spine()

    def _check_columns(self) -> None:
        """Raise DeclarationError if the dataset lacks columns to be counted."""

    def adapt(self, warehouse: Warehouse) -> Warehouse:
        return warehouse.relying_on_statistics()

    def _check_spine(self) -> None:
        (root, first), *below = self.spine.items()
        if first != Code():
            self.refuse(f"spine: {root}: the root is a single place and takes no columns")
        finest = self.finest
        names: dict[str, str] = {}
        for level in self.levels:
            # Level names become table names, whose case DuckDB ignores.
            if (other := names.setdefault(level.lower(), level)) != level:
                self.refuse(f"spine: levels {other} and {level} differ only in upper and lower case")
            if f"_{level.lower()}".endswith(_ENDINGS):
                self.refuse(f"spine: {level}: names that end with {' or '.join(_ENDINGS)} belong to tables of ours")
        for level, code in below:
            if not code.columns and code.prefix is None:
                self.refuse(
                    f"spine: {level}: its code is either joined from columns or a prefix of the {finest}'s code"
                )
            if code.prefix is not None and level == finest:
                self.refuse(f"spine: {level}: a prefix is a number of characters of the {finest}'s code, 1 or more")
            for column in set(code.columns).difference(self.computed_columns):
                declared = self.dataset.units.stored.get(column)
                if declared is None or declared.role is not Role.GEOGRAPHY:
                    places = [
                        name for name, known in self.dataset.units.columns.items() if known.role is Role.GEOGRAPHY
                    ]
                    self.refuse(
                        f"spine: {level}: {column} is not a geographic column of {self.dataset.name}, which has "
                        f"{', '.join(places)}"
                    )
                if declared.type.stored != "VARCHAR" or declared.nullable:
                    self.refuse(f"spine: {level}: column {column} must be text and not nullable")
                if declared.follows_persons:
                    self.refuse(
                        f"spine: {level}: column {column} depends on persons (depends_on_persons), so that a change of "
                        "one person could move all persons of a unit, and more than one person would be charged for"
                    )
        if self.partitioned and level_of_states(self.levels) in (self.levels[0], self.finest):
            self.refuse(
                f"partitions: the spine has no level {STATE} between {self.levels[0]} and {self.finest}, whose places "
                "would be the partitions"
            )

    def _check_replicates(self, declared: int, tables: Collection[str], having: str) -> None:
        """Raise DeclarationError if too few or too many replicates are declared, or if there are no tables for them."""
        if declared and not FEWEST_REPLICATES <= declared <= MOST_REPLICATES:
            self.refuse(
                f"replicates: {declared}; there are from {FEWEST_REPLICATES} to {MOST_REPLICATES}, or 0 for none"
            )
        if declared and not tables:
            self.refuse(f"replicates: they give the errors of {having}, none of which is among the products")

    @cached_property
    def spine(self) -> Mapping[str, Code]:
        return self.declaration.codes

    @property
    def counted_with(self) -> dict[str, Any]:
        """The codes of the places, under the key `levels`: the field of the design with the names of the levels."""
        return {"levels": [[level, list(code.columns), code.prefix] for level, code in self.spine.items()]}

    @property
    def columns_read(self) -> list[str]:
        """The columns of the spine. All others belong to the layout, and are never recoded."""
        columns = [column for code in self.spine.values() for column in code.columns]
        return [column for column in columns if column not in self.computed_columns]

    @property
    def partitioned(self) -> bool:
        """Whether places below the states are estimated state by state, each in its own run."""
        return self.declaration.partitions is not None

    def estimates(self, level: str, state: str = "", histogram: str = "level") -> str:
        """The name of the stage and table of a level's estimates, or of the table of one state's or one histogram's
        estimates."""
        name = f"{histogram}_{level.lower()}"
        return self.of_state(name, state)

    def of_state(self, name: str, state: str) -> str:
        """The name of one state's part of a table; without a state, of the table."""
        return f"{name}__{state}" if state else name

    def is_below_states(self, level: str) -> bool:
        return self.levels.index(level) > self.levels.index(level_of_states(self.levels))

    def is_by_state(self, level: str) -> bool:
        return self.partitioned and self.is_below_states(level)

    @property
    def measured_by_state(self) -> Sequence[str]:
        """The stages of the round before the levels, if there is one."""
        return []

    @property
    def stages_by_state(self) -> Sequence[str]:
        """The stages of the round of the levels, in which each state has its own run, in order."""
        return [self.estimates(level) for level in self.levels if self.is_by_state(level)]

    def stage_units(self, session: Session) -> Table | Fragment:
        """The units of the CEF with all columns of place codes."""
        return self.dataset.cef_tables()[0]

    @property
    def levels(self) -> tuple[str, ...]:
        return self.design.levels

    @property
    def finest(self) -> str:
        return self.levels[-1]

    @property
    def processes(self) -> int:
        """The number of processes or threads that work at the same time: by default one per core."""
        return self.declaration.processes or count_cores()


@dataclass(frozen=True)
class TopDownRelease(TreeRelease):
    declaration: TopDownDeclaration
    design: TopDownDesign
    scheduler: str = ""
    """The address of a Dask scheduler whose workers estimate; empty for processes of this machine. Either way, this
    machine makes the draw."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.products:
            if name not in self._allowed_products:
                self.refuse(f"products: {name} would be published exactly, but is not declared among the invariants")
        self._check_replicates(self.declaration.replicates, set(self.products) & set(TABLES), ", ".join(TABLES))

    def _check_columns(self) -> None:
        if "GQTYPE" not in self.dataset.units.columns:
            self.refuse(
                f"dataset: units of {self.dataset.name} have no column GQTYPE; declare the dataset with "
                "group_quarters_types"
            )

    @property
    def counted_with(self) -> dict[str, Any]:
        return super().counted_with | {"invariants": dict(self.design.invariants)}

    @property
    def products(self) -> tuple[str, ...]:
        """The products published besides the spine: the declared ones, by default all that the design allows."""
        return tuple(self.declaration.products) or self._allowed_products

    @property
    def _allowed_products(self) -> tuple[str, ...]:
        return tuple(name for name in PRODUCTS if name not in STATISTICS or name in self.design.invariants)

    @property
    def measured_by_state(self) -> Sequence[str]:
        measured = [MEASUREMENTS_OF_STATES] if self.partitioned else []
        return [*measured, *([INFORMATION_OF_STATES] if self.informs_by_state else [])]

    @property
    def stages_by_state(self) -> Sequence[str]:
        return [*super().stages_by_state, *([INTERVALS_OF_STATES] if self.has_intervals_by_state else []), RECORDS]

    @property
    def has_intervals_by_state(self) -> bool:
        """Whether the intervals below the states are made state by state, each in its own run."""
        return self.partitioned and self.design.full and not set(TABLES).isdisjoint(self.products)

    def list_interval_parts(self, states: Iterable[str]) -> list[str]:
        """The names of the separately stored intervals: those of the states and above, those of each state, and the
        linear estimates of the states."""
        tables = [f"{name.lower()}_{INTERVALS}" for name in TABLES]
        of_states = [self.of_state(name, state) for name in (*tables, INTERVALS) for state in states]
        return [LINEAR, *(f"{name}_{ABOVE}" for name in tables), *of_states]

    @property
    def informs_by_state(self) -> bool:
        """Whether the information below the states is made state by state, each in its own run. The finest level has no
        information."""
        return self.partitioned and self.design.full and level_of_states(self.levels) not in self.levels[-2:]

    @property
    def recorded_by_state(self) -> Sequence[str]:
        """The histograms whose records are made state by state. Units are not among them if they are estimated after
        all persons."""
        if not self.partitioned:
            return ()
        return (PERSONS.name,) if self.design.full else tuple(SCHEMAS)

    @property
    def tabulated_by_state(self) -> Sequence[str]:
        """The redistricting tables that are made state by state."""
        by_state = [name for name in TABLES if REDISTRICTING[name].schema.name in self.recorded_by_state]
        return [name for name in by_state if name in self.products]

    @property
    def made_by_state(self) -> Sequence[str]:
        """The names of the public tables with a part for each state: records and redistricting tables."""
        return [*self.recorded_by_state, *map(str.lower, self.tabulated_by_state)]

    @property
    def in_parts(self) -> bool:
        """Whether the estimates of a level are in several tables, which the stage `estimates` joins."""
        return self.partitioned or self.design.full

    @property
    def estimated(self) -> str:
        """The stage after which all estimates are stored."""
        return ESTIMATES if self.in_parts else self.estimates(self.finest)
