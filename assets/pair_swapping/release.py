"""A release by targeted pair swapping: the fields of its declaration, and the rules that it satisfies as one value.

What a design must satisfy by itself is in `mechanisms.pair_swapping.design`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from assets.cef.census import CensusDeclaration
from assets.release.columns import Column, Role
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Part
from assets.release.names import find_repeated
from assets.release.numbers import SwapRate
from assets.release.published import Product
from assets.release.release import Release, ReleaseDeclaration
from mechanisms.pair_swapping.design import PairSwappingDesign

HOUSEHOLDS, SWAPPED, SWAPPED_PERSONS = "households", "swapped", "swapped_persons"

ADULT = 18
"""The age from which a person is an adult."""

RESERVED = {"unit", "unit_key", "adults", "minors", "composition", "swappable", "count"}
"""The names of Stirred's own columns in the tables of a release, in lowercase, because DuckDB ignores case."""


class ImputedDeclaration(Part):
    """Which households are imputed; they are never swapped."""

    column: str = Field(description="A variable of the units.")
    values: Annotated[list[str], Field(min_length=1)] = Field(description="Its values for imputed households, as text.")


class PairSwappingDeclaration(ReleaseDeclaration):
    """The YAML declaration of a release by targeted pair swapping."""

    key: Annotated[list[str], Field(min_length=1)] = Field(
        description="The key variables of units: a household that is unique on them has a higher risk, and is selected "
        "more often."
    )
    swap_rate: SwapRate = Field(description="The share of each state's households that is selected, such as 1/25.")
    imputed: ImputedDeclaration | SkipJsonSchema[None] = Field(
        None, description="Which households are imputed and never swapped; by default, none is marked."
    )
    products: list[Product] = Field(default_factory=list, description="The tables of counts to publish.")

    def design(self, dataset: DatasetDeclaration, **_: Any) -> PairSwappingDesign:
        # Partners exchange all columns of a unit's place together.
        variables = dataset.units.variables if isinstance(dataset, CensusDeclaration) else {}
        place = tuple(name for name, column in variables.items() if column.role is Role.GEOGRAPHY)
        return PairSwappingDesign(dataset.record_name, tuple(self.key), self.swap_rate, place)


@dataclass(frozen=True)
class PairSwappingRelease(Release):
    """A declared release by targeted pair swapping."""

    declaration: PairSwappingDeclaration
    design: PairSwappingDesign

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, CensusDeclaration):
            self.refuse(
                f"dataset: {self.dataset.name} is not a census in the production layout (CensusDataset, "
                "SyntheticCensus), whose places and persons the procedure needs"
            )
        if taken := [name for name in (*self.variables, *self.person_variables) if name.casefold() in RESERVED]:
            self.refuse(f"column {taken[0]} of the dataset has a name that is reserved for the release's own tables")
        for name, column in self.variables.items():
            if name not in self.design.place and column.source in self.design.place:
                self.refuse(f"column {name} is recoded from {column.source}, which moves; give it the role geography")
        for name in self.design.key:
            self._require_kept("key", name)
        if imputed := self.declaration.imputed:
            self._require_kept("imputed", imputed.column)
            codes = [str(code) for code in self.variables[imputed.column].codes]
            for value in imputed.values:
                if codes and value not in codes:
                    self.refuse(f"imputed: values: {imputed.column} has no value {value!r}; it has {', '.join(codes)}")
        for name in find_repeated([product.name for product in self.declaration.products])[:1]:
            self.refuse(f"products: {name} is declared twice")
        for product in self.declaration.products:
            if product.name in (SWAPPED, SWAPPED_PERSONS):
                self.refuse(f"products: the name {product.name} belongs to the swapped records")
            for name in product.columns:
                if name not in self.columns_of(product):
                    known = ", ".join(self.columns_of(product))
                    self.refuse(f"products: {product.name}: there is no column {name}; there are {known}")

    def _require_kept(self, field: str, name: str) -> None:
        if name not in self.kept_variables:
            known = ", ".join(self.kept_variables)
            self.refuse(f"{field}: {name} is no variable that a unit keeps; those are {known}")

    @property
    def has_finite_loss(self) -> bool:
        return False

    @property
    def counted_with(self) -> Mapping[str, Any]:
        """What the coded households follow from, with those that are imputed, equal for declarations of one meaning."""
        imputed = self.declaration.imputed
        return {
            "key": list(self.design.key),
            "imputed": {"column": imputed.column, "values": sorted(imputed.values)} if imputed else None,
        }

    @property
    def key_column(self) -> str:
        """The column that identifies a unit, in both tables of the CEF."""
        return str(self.dataset.units.key)

    @cached_property
    def variables(self) -> Mapping[str, Column]:
        return self.dataset.units.variables

    @property
    def kept_variables(self) -> list[str]:
        """The variables of units that partners do not exchange."""
        return [name for name in self.variables if name not in self.design.place]

    @cached_property
    def person_variables(self) -> Mapping[str, Column]:
        return self.dataset.persons.variables if self.dataset.persons else {}

    def columns_of(self, product: Product) -> Mapping[str, Column]:
        return {**self.variables, **(self.person_variables if product.of == "persons" else {})}
