"""A TopDown release as one value, which every stage of it is given.

Here belong what is declared of a redistricting release beyond what all releases declare, the names of its tables, and
the rules that the declaration keeps before anything runs. What the budgets mean belongs in `mechanisms.topdown.design`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from assets.cef.declaration import Role
from assets.release import Release
from mechanisms.topdown.design import STATISTICS, TopDownDesign

SPINE, INVARIANTS, HISTOGRAMS, MEASUREMENTS, DRAWN = "spine", "invariants", "histograms", "noisy_measurements", "draw"
HISTOGRAMS_VERSION = "histograms_version"
QUERIES, QUERY_CELLS = "queries", "query_cells"
PERSONS_TABLE, UNITS_TABLE, ACCURACY = "persons", "units", "accuracy"

TABLES = ("P1", "P2", "P3", "P4", "P5", "H1")
"""The redistricting tables."""

RECORDS = (PERSONS_TABLE, UNITS_TABLE)
"""The privacy-protected microdata."""

PRODUCTS = (*TABLES, *RECORDS, MEASUREMENTS, *STATISTICS)
"""What a release may publish by choice: a statistic only if it is held as an invariant. The spine is always
published."""

UNIT_COLUMNS = ("MAFID", "RTYPE", "GQTYPE", "FINAL_POP", "HHT")
PERSON_COLUMNS = ("MAFID", "QAGE", "CENHISP", "CENRACE")
_INTEGERS = {"MAFID", "QAGE", "FINAL_POP"}


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
        units, persons = self.dataset.units, self.dataset.persons
        if persons is None:
            self.refuse(f"dataset: {self.dataset.name} has no persons; TopDown counts persons and units")
        for table, records, columns in (("units", units, UNIT_COLUMNS), ("persons", persons, PERSON_COLUMNS)):
            for name in columns:
                stored = "BIGINT" if name in _INTEGERS else "VARCHAR"
                if name not in records.columns or records.columns[name].type.stored != stored:
                    hint = "; declare the dataset with group_quarters_types" if name == "GQTYPE" else ""
                    self.refuse(
                        f"dataset: {table} of {self.dataset.name} have no column {name} of type {stored}, as in the "
                        f"production layout{hint}"
                    )
        if units.key != "MAFID" or persons.unit != "MAFID":
            self.refuse("dataset: units and persons are not joined by MAFID, as in the production layout")
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
        return f"estimates_{level.lower()}"
