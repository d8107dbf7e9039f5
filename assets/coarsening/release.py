"""A release by coarsening: the rules that its declaration satisfies before anything runs."""

from dataclasses import dataclass
from typing import Any

from assets.coarsening.declaration import CoarseningDeclaration
from assets.release.columns import Value
from assets.unperturbed.release import PLACES, UnperturbedRelease
from mechanisms.coarsening.design import CoarseningDesign

COARSENED = "coarsened"


@dataclass(frozen=True)
class CoarseningRelease(UnperturbedRelease):
    """A declared release by coarsening."""

    declaration: CoarseningDeclaration
    design: CoarseningDesign

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_columns("geography, key and kept", self.design.columns)
        for name in (*self.design.key, *self.design.kept):
            if self.origins[name] == PLACES:
                self.refuse(f"key and kept: {name} is a place; name it in geography, or leave it out")
        for name in self.design.kept:
            if self.origins[name] in {self.origins[key] for key in self.design.key}:
                self.refuse(f"kept: {name} is of the same column of the source as one of key, and tells it")
        for name in self.design.geography:
            if self.variables[name].nullable:
                self.refuse(f"geography: {name} may be empty, and an empty value stands for the rest of a place")
        for name in self.design.key:
            try:
                self.variables[name].domain()
            except ValueError as error:
                self.refuse(f"key: {name}: {error}")
        for product in self.declaration.products:
            if product.name == COARSENED:
                self.refuse(f"products: the name {COARSENED} belongs to the records")
            for name in product.columns:
                if name not in self.design.columns:
                    self.refuse(f"products: {product.name}: {name} is not published; add it to key or kept")
            places = tuple(name for name in product.columns if name in self.design.geography)
            if places != self.design.geography[: len(places)]:
                self.refuse(
                    f"products: {product.name}: places are named from the coarsest on, in order: "
                    f"{', '.join(self.design.geography)}"
                )

    @property
    def orders(self) -> dict[str, tuple[Value | None, ...]]:
        """By key variable, its values in declared order, or ascending if they are not listed; None comes last."""
        found = {}
        for name in self.design.key:
            column = self.variables[name]
            found[name] = (*column.codes, *([None] if column.nullable else [])) if column.codes else column.domain()
        return found

    @property
    def distances(self) -> dict[str, list[Any]]:
        """By key variable, what determines the steps between its values, as plain values: the list of the values, or if
        they are not listed and None comes after them, the bounds."""
        columns = {name: self.variables[name] for name in self.design.key}
        return {
            name: list(column.codes or column.bounds)
            for name, column in columns.items()
            if column.codes or column.nullable
        }

    @property
    def counted_with(self) -> dict[str, Any]:
        return {"of": self.design.of, "columns": list(self.design.columns)}
