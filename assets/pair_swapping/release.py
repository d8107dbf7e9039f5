"""A release by targeted pair swapping as one value, with the rules that its declaration satisfies before anything
runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assets.cef.census import CensusDeclaration
from assets.pair_swapping.declaration import PairSwappingDeclaration
from assets.release.columns import Column, ColumnType
from assets.release.names import find_repeated
from assets.release.published import Product
from assets.release.release import Release
from mechanisms.pair_swapping.design import PairSwappingDesign

HOUSEHOLDS, SWAPPED, SWAPPED_PERSONS = "households", "swapped", "swapped_persons"

ADULT = 18
"""The age from which a person is an adult."""

RESERVED = {"unit", "unit_key", "adults", "minors", "composition", "swappable", "count"}
"""The names of Stirred's own columns in the tables of a release, in lowercase, because DuckDB ignores case."""


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
        if (race := self.design.risk_factors.unique_race) and race[0] not in self.person_variables:
            known = ", ".join(self.person_variables)
            self.refuse(f"risk_factors: unique_race: there is no variable {race[0]} of persons; there are {known}")
        if items := self.design.risk_factors.imputed_items:
            self._require_kept("risk_factors: imputed_items", items[0])
            if self.variables[items[0]].type is not ColumnType.INTEGER:
                self.refuse(f"risk_factors: imputed_items: {items[0]} is no integer")
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
            self.refuse(f"{field}: {name} is not a variable that a unit keeps; such variables are {known}")

    @property
    def has_finite_loss(self) -> bool:
        return False

    @property
    def counted_with(self) -> Mapping[str, Any]:
        """The values that determine the coded households and the imputed ones, equal for declarations with the same
        meaning."""
        imputed, factors = self.declaration.imputed, self.design.risk_factors.as_record()
        return {
            "key": list(self.design.key),
            "imputed": {"column": imputed.column, "values": sorted(imputed.values)} if imputed else None,
            **({"risk_factors": factors} if factors else {}),
        }

    @property
    def counted_as(self) -> Mapping[str, Any]:
        return {name: rule for name, rule in self.counted_with.items() if name != "key" and rule}

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
