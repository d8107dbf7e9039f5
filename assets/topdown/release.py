"""A TopDown release as one value, which every stage of it is given.

Here belong what is declared of a redistricting release beyond what all releases declare, the names of its tables, and
the rules that the declaration keeps before anything runs. What the budgets mean belongs in `mechanisms.topdown.design`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from assets.cef.census import CensusDeclaration
from assets.measurement.method import MEASUREMENTS
from assets.release.columns import Role
from assets.release.release import Release
from mechanisms.topdown.design import STATISTICS, TopDownDesign
from mechanisms.topdown.redistricting import REDISTRICTING

PLACES = "places"
"""The name under which a draw's inputs hold the version of spine and invariants."""

SPINE, INVARIANTS, HISTOGRAMS = "spine", "invariants", "histograms"
QUERIES, QUERY_CELLS = "queries", "query_cells"
PERSONS_TABLE, UNITS_TABLE, ACCURACY = "persons", "units", "accuracy"

TABLES = tuple(REDISTRICTING)
"""The redistricting tables."""

RECORDS = (PERSONS_TABLE, UNITS_TABLE)
"""The privacy-protected microdata."""

PRODUCTS = (*TABLES, *RECORDS, MEASUREMENTS, *STATISTICS)
"""What a release may publish by choice: a statistic only if it is held as an invariant. The spine is always
published."""


def available_products(design: TopDownDesign) -> tuple[str, ...]:
    """The products that a design allows: all but statistics that it does not hold."""
    return tuple(name for name in PRODUCTS if name not in STATISTICS or name in design.invariants)


@dataclass(frozen=True)
class Code:
    """How a level's units are told apart.

    Attributes:
        columns: of the CEF's units, whose codes, joined in this order, are the geographic identifier; none at the
            root, which is the one unit of its level.
        prefix: the identifier is so many leading characters of the finest level's; None if columns make it up.
    """

    columns: tuple[str, ...] = ()
    prefix: int | None = None


@dataclass(frozen=True)
class TopDownRelease(Release):
    """Everything declared of a release by TopDown.

    Attributes:
        design: what is measured and held, with which budgets.
        spine: by level from the root to the finest, how its units are told apart.
        delta: at which ρ is stated as (ε, δ) in the certificate.
        products: what is published besides the spine, out of `PRODUCTS`.
        processes: how many estimate at a time; 0 for one on each core.

    Raises:
        DeclarationError: where the declaration contradicts itself or the dataset.
    """

    design: TopDownDesign
    spine: Mapping[str, Code]
    delta: Fraction
    products: tuple[str, ...]
    processes: int

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, CensusDeclaration):
            self.refuse(
                f"dataset: {self.dataset.name} is no census in the production layout (CensusDataset, SyntheticCensus), "
                "whose codes TopDown counts by"
            )
        if "GQTYPE" not in self.dataset.units.columns:
            self.refuse(
                f"dataset: units of {self.dataset.name} have no column GQTYPE; declare the dataset with "
                "group_quarters_types"
            )
        self._check_spine()
        for name in self.products:
            if name in STATISTICS and name not in self.design.invariants:
                self.refuse(f"products: {name} is to be published exactly, but is not declared among the invariants")
        if not 0 < self.delta < 1:
            self.refuse(f"delta: {self.delta} does not lie strictly between 0 and 1")
        if self.processes < 0:
            self.refuse(f"processes: {self.processes} is negative; 0 stands for one on each core")

    def _check_spine(self) -> None:
        (root, first), *below = self.spine.items()
        if first != Code():
            self.refuse(f"spine: {root}: the widest level is one unit, and takes no columns")
        finest = self.levels[-1]
        for level, code in below:
            if bool(code.columns) == (code.prefix is not None):
                self.refuse(
                    f"spine: {level}: its code is made of columns or is a prefix of the {finest}'s, one of both"
                )
            if code.prefix is not None and (level == finest or code.prefix < 1):
                self.refuse(f"spine: {level}: a prefix is a number of characters of the {finest}'s code, 1 or more")
            for column in code.columns:
                declared = self.dataset.units.columns.get(column)
                if declared is None or declared.role is not Role.GEOGRAPHY:
                    places = [name for name, each in self.dataset.units.columns.items() if each.role is Role.GEOGRAPHY]
                    self.refuse(
                        f"spine: {level}: {column} is no column of {self.dataset.name}'s geography; there are "
                        f"{', '.join(places)}"
                    )
                if declared.type.stored != "VARCHAR" or declared.nullable:
                    self.refuse(f"spine: {level}: column {column} is not a text that every unit has")

    @property
    def levels(self) -> tuple[str, ...]:
        """The geographic levels, from the root to the finest."""
        return self.design.levels

    @property
    def finest(self) -> str:
        """The finest level."""
        return self.levels[-1]

    def estimates(self, level: str) -> str:
        """The name of a level's stage and table of estimates."""
        return f"level_{level.lower()}"
