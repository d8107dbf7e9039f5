"""Releases that follow from the records alone, without randomness: their fields, and the records that they count.

Such a release has no finite loss: an attacker who knows all records but one can compute the publication that follows
from each value of that record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import Field

from assets.release.columns import Column, Role
from assets.release.names import COLUMNS_OF_COUNTS, find_repeated
from assets.release.published import SUPPRESSED, Product
from assets.release.release import Release, ReleaseDeclaration
from mechanisms.accounting.losses import InfiniteLoss
from mechanisms.accounting.specification import PERSON, PERSON_RECORD, Flavor, Specification
from resources.custody import CustodyMode
from resources.warehouse import Recipe

RESERVED = COLUMNS_OF_COUNTS | {SUPPRESSED}

UNITS, PERSONS, PLACES = "units", "persons", "places"


class UnperturbedDeclaration(ReleaseDeclaration):
    """The fields that all releases without randomness declare."""

    custody: CustodyMode = Field(
        CustodyMode.ESCROWED,
        description="escrowed: gates and the audit repeat the draw; ephemeral: they do not. The key makes no "
        "difference to the tables, because nothing is random.",
    )
    of: Literal["units", "persons"] = Field("units", description="The records that are published and counted.")
    products: list[Product] = Field(
        default_factory=list,
        description="The tables to publish. If the release has `of: persons`, declare it in each table too.",
    )


@dataclass(frozen=True)
class UnperturbedRelease(Release):
    """A declared release without randomness."""

    declaration: UnperturbedDeclaration

    def __post_init__(self) -> None:
        if self.declaration.of == PERSONS and self.dataset.persons is None:
            self.refuse("of: the dataset has no persons")
        for name in find_repeated([product.name for product in self.declaration.products])[:1]:
            self.refuse(f"products: {name} is declared twice")
        for product in self.declaration.products:
            if product.of != self.declaration.of:
                self.refuse(f"products: {product.name}: it counts {product.of}, and the release {self.declaration.of}")
            self.require_columns(f"products: {product.name}", product.columns)

    def require_columns(self, field: str, names: tuple[str, ...]) -> None:
        """Raise DeclarationError unless all columns exist, under names that are not Stirred's own."""
        for name in names:
            if name not in self.variables:
                self.refuse(f"{field}: there is no column {name}; there are {', '.join(self.variables)}")
            if name.casefold() in RESERVED:
                self.refuse(f"{field}: column {name} has a name that is reserved for the release's own tables")

    @property
    def has_finite_loss(self) -> bool:
        return False

    @property
    def specification(self) -> Specification:
        unit = self.dataset.record_name
        flavor = Flavor(
            domain=f"all possible files with the variables of {self.dataset.name}",
            multiverse=(),
            unit=unit,
            changes_per_person=None if unit in (PERSON, PERSON_RECORD) else 1,
            output_premetric=InfiniteLoss.output_premetric,
        )
        return Specification(flavor, InfiniteLoss())

    @cached_property
    def variables(self) -> Mapping[str, Column]:
        """The columns of the counted records; persons also have the columns of their unit."""
        persons = self.dataset.persons if self.declaration.of == PERSONS else None
        return {**self.dataset.units.variables, **(persons.variables if persons else {})}

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """By column, its origin: places, or a column of the source. Columns of the same origin reveal each other's
        values."""
        return {
            name: PLACES if column.role is Role.GEOGRAPHY else f"{table}: {column.source or name}"
            for table, records in self.dataset.tables.items()
            for name, column in records.columns.items()
        }

    def count_by(self, columns: tuple[str, ...]) -> Recipe:
        """The recipe of the exact counts of all combinations of these columns that occur."""
        units, *persons = self.dataset.cef_tables()
        own = list(columns)
        if self.dataset.persons is None or self.declaration.of == UNITS:
            return "unperturbed/counts", {}, {"units": units, "columns": own}
        theirs = self.dataset.persons.variables
        names = {
            "key": self.dataset.units.key,
            "unit": self.dataset.persons.unit,
            "of_units": [name for name in own if name not in theirs],
            "of_persons": [name for name in own if name in theirs],
        }
        return "unperturbed/counts", {}, {"units": units, "persons": persons[0], "columns": own, **names}
