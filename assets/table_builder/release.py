"""A hypercube as one value, which all its stages receive, and the rules that its declaration satisfies before anything
runs."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.release.columns import Column, ColumnType, RecordTable, Value
from assets.release.draw import Inputs
from assets.release.names import COLUMNS_OF_HYPERCUBES
from assets.release.release import Release
from assets.release.withheld import WithheldRecords
from assets.table_builder.declaration import UNITS, Amount, HypercubeAttributes, HypercubeDeclaration, columns_to_count
from mechanisms.accounting.losses import Loss, format_loss
from mechanisms.accounting.specification import PERSON, PERSON_RECORD, Flavor, Specification
from mechanisms.table_builder.grid_values import LARGEST_STEPS
from mechanisms.table_builder.hypercube import Consistency, Hypercube, Table
from resources.chain import canonicalize

MOST_CELLS = 20_000_000
"""The most cells of all measured tables of a hypercube together, structural zeros included."""

BETWEEN = " × "

HYPERCUBE, TABLES, CATEGORIES, P_TABLE, LARGER_PLACES = TABLES_OF_ALL = (
    "hypercube",
    "measured_tables",
    "categories",
    "p_table",
    "larger_places",
)
"""The tables that hypercubes publish besides their products, and that questions use."""

NUMBER = "number of"
"""The beginning of the `quantity` of a hypercube that counts records."""


@dataclass(frozen=True)
class HypercubeInputs(Inputs):
    """The inputs of a hypercube's draw, with the additional specification of tables of withheld records."""

    withheld: Specification | None = None


@dataclass(frozen=True)
class HypercubeRelease(Release):
    """A declared hypercube. It counts the withheld records, if given, instead of the dataset's own."""

    declaration: HypercubeDeclaration
    design: Hypercube
    withheld: WithheldRecords | None = None

    def __post_init__(self) -> None:
        # This rule comes first, because all others list the categories or the cells.
        if (cells := sum(map(self.design.cells, self.design.tables))) > MOST_CELLS:
            self.refuse(f"variables: {cells:,} cells in all tables; at most {MOST_CELLS:,} are allowed")
        self._check_names()
        for place, zeros in enumerate(self.cube.structural_zeros):
            self._require_categories(f"structural_zeros.{place}", zeros)
        if not self.possible.any():
            self.refuse("structural_zeros: no cell is left")
        self._check_keys()
        if self.withheld:
            self._check_withheld(self.withheld)
        names = [product.name for product in self.cube.products]
        for product in self.cube.products:
            if names.count(product.name) > 1 or product.name in TABLES_OF_ALL:
                self.refuse(f"products: {product.name} is the name of another table")
            for name in product.by:
                if name not in {*self.domains, *self.larger_places}:
                    self.refuse(f"products: {product.name}: by: {name} is not among the variables")
                if product.by.count(name) > 1:
                    self.refuse(f"products: {product.name}: by: {name} is named twice")
            self._require_categories(f"products: {product.name}: where", product.where)
            self._require_places(f"products: {product.name}: where", product.where)

    def _check_names(self) -> None:
        names = [name.casefold() for name in self.cube.variables]
        ours = COLUMNS_OF_HYPERCUBES | {f"{name}_total" for name in names}
        for name in self.cube.variables:
            if name.casefold() in ours:
                self.refuse(f"variables: {name} is the name of a column that the tables of hypercubes use themselves")
            if BETWEEN in name:
                self.refuse(f"variables: {name} contains the sign that stands between the variables of a table")
            if names.count(name.casefold()) > 1:
                self.refuse(f"variables: {name} has the name of another variable, but for upper and lower case")

    def _check_withheld(self, withheld: WithheldRecords) -> None:
        for place, zeros in enumerate(self.cube.structural_zeros):
            if not any(set(zeros) <= set(kept) for kept in withheld.kept_together):
                self.refuse(
                    f"structural_zeros.{place}: {withheld.name} may put records into these cells, because it changes "
                    f"the counts by {', '.join(zeros)}; declare zeros among columns that it keeps together: "
                    + ", or ".join(" × ".join(kept) for kept in withheld.kept_together)
                )
        try:
            self.specification  # noqa: B018 - computed here, because it may be impossible
        except ValueError:
            self.refuse(
                "swapped: for the two counted records that may change, δ would be 1 or more, which guarantees nothing; "
                f"for one record: {format_loss(self.design.bounded)}"
            )

    def _check_keys(self) -> None:
        name, of = self.cube.record_keys, self.cube.of
        if self.withheld and self.design.consistency is Consistency.CELL:
            self.refuse(f"consistency: the withheld records of {self.withheld.name} have no keys")
        if self.design.consistency is Consistency.QUERY:
            if name is not None:
                self.refuse("record_keys: keys of records are used with consistency: cell only")
        elif name is not None:
            self._check_given_keys(name)
        elif self.record_table.key is None:
            self.refuse(f"consistency: {of} have no column of role key, from which the keys of records follow")

    def _check_given_keys(self, name: str) -> None:
        """Refuse keys of records that the draw, after the charge, could not look up in the p-table."""
        column = self.known_columns[name]
        values = column.codes or column.bounds
        if column.type is not ColumnType.INTEGER or not all(0 <= value <= LARGEST_STEPS for value in values):  # type: ignore[operator]
            self.refuse(f"record_keys: {name} is no column of whole numbers from 0 to {LARGEST_STEPS:,}")
        assert self.design.p_table is not None
        try:
            self.design.p_table.keys  # noqa: B018 - computed here, because it may be impossible
        except ValueError as error:
            self.refuse(f"record_keys: {error}")

    def _require_categories(self, field: str, categories: Mapping[str, Sequence[Value | None]]) -> None:
        for name, values in categories.items():
            if name not in {*self.domains, *self.larger_places}:
                self.refuse(f"{field}: {name} is not among the variables")
            listed = self.list_categories(name)
            known = {(type(value), value) for value in listed}
            for value in values:
                # Python treats True as equal to 1, but they are different categories.
                if (type(value), value) not in known:
                    first = ", ".join([*map(repr, listed[:10]), *(["…"] if len(listed) > 10 else [])])
                    self.refuse(f"{field}: {name} has no category {value!r}; there are {first}")
                if values.count(value) > 1:
                    self.refuse(f"{field}: {name}: {value!r} is named twice")

    def _require_places(self, field: str, categories: Mapping[str, Sequence[Value | None]]) -> None:
        """Refuse larger places without a counted category: there would be no cell to add up."""
        for variable, counted in zip(self.domains, self.list_counted(categories), strict=True):
            if not counted:
                self.refuse(f"{field}: {variable}: no category that counts lies in these places")

    def list_counted(self, categories: Mapping[str, Sequence[Value | None]]) -> list[list[int]]:
        """By variable, the numbers of the categories that count both by themselves and by their larger places."""
        listed = []
        for variable, domain in self.domains.items():
            above = {name: lies_in for name, (of, lies_in) in self.larger_places.items() if of == variable}
            counted = [
                number
                for number, values in enumerate(zip(domain, *above.values(), strict=True))
                if all(
                    value in categories.get(name, [value])
                    for name, value in zip((variable, *above), values, strict=True)
                )
            ]
            listed.append(counted)
        return listed

    @property
    def cube(self) -> HypercubeAttributes:
        return self.declaration.hypercube

    @property
    def known_columns(self) -> Mapping[str, Column]:
        return columns_to_count(self.cube, self.dataset, self.withheld)

    @cached_property
    def amount(self) -> Amount | None:
        return self.cube.amount(self.known_columns)

    @property
    def record_table(self) -> RecordTable:
        records = self.dataset.units if self.cube.of == UNITS else self.dataset.persons
        assert records is not None
        return records

    @property
    def has_finite_loss(self) -> bool:
        return self.design.is_bounded

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        known = self.known_columns
        return {name: known[name] for name in self.cube.variables}

    @cached_property
    def domains(self) -> Mapping[str, tuple[Value | None, ...]]:
        """By variable, its categories in order; null comes last."""
        return {name: tuple(self.columns[name].domain()) for name in self.design.inner}

    @cached_property
    def nesting(self) -> Mapping[str, Mapping[str, tuple[Value, ...]]]:
        """By variable and larger place reached by its column's `nesting`, the larger place of each category."""
        nesting: dict[str, dict[str, tuple[Value, ...]]] = {}
        for name in self.design.inner:
            column, above = self.columns[name], nesting.setdefault(name, {})
            codes: Sequence[Any] = self.domains[name] if column.nesting else ()
            while column.nesting and (larger := column.within) and larger in self.known_columns:
                places = column.larger_places(self.known_columns[larger])
                above[larger] = codes = tuple(places[code] for code in codes)
                column = self.known_columns[larger]
        return nesting

    @cached_property
    def larger_places(self) -> Mapping[str, tuple[str, tuple[Value, ...]]]:
        """By larger place that is not a variable, the variable that lies in it, and the larger place of each
        category."""
        variables = self.design.inner
        return {
            larger: (name, codes)
            for name in reversed(variables)
            for larger, codes in self.nesting[name].items()
            if larger not in variables
        }

    def list_categories(self, name: str) -> tuple[Value | None, ...]:
        """The categories of a variable, or of a larger place, in order."""
        if name in self.domains:
            return self.domains[name]
        lies_in = set(self.larger_places[name][1])
        return tuple(place for place in self.known_columns[name].domain() if place in lies_in)

    @cached_property
    def structural_zeros(self) -> list[Mapping[str, Sequence[Any]]]:
        """The declared structural zeros and, for variables that are nested places, the pairs that do not lie in each
        other."""
        zeros: list[Mapping[str, Sequence[Any]]] = list(self.cube.structural_zeros)
        for name, above in self.nesting.items():
            for larger in filter(self.domains.__contains__, above):
                if self.withheld and not any({name, larger} <= set(kept) for kept in self.withheld.kept_together):
                    continue
                for place in self.domains[larger]:
                    pairs = zip(self.domains[name], above[larger], strict=True)
                    if apart := [code for code, lies_in in pairs if lies_in != place]:
                        zeros.append({larger: [place], name: apart})
        return zeros

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """The cells of the inner table that are not structural zeros, as a mask of the inner table's shape."""
        possible = np.ones(self.design.shape(self.design.inner), dtype=np.bool_)
        for zeros in self.structural_zeros:
            places = [
                [domain.index(value) for value in zeros.get(name, domain)] for name, domain in self.domains.items()
            ]
            possible[np.ix_(*places)] = False
        return possible

    def possible_in(self, table: Table) -> NDArray[np.int64]:
        """The numbers, from 0, of cells that are not structural zeros; the table's last variable varies fastest."""
        if not self.structural_zeros:
            return np.arange(self.design.cells(table))
        return np.flatnonzero(self.design.margin(self.possible, table))

    def cells_of(self, table: Table) -> int:
        return len(self.possible_in(table)) if self.structural_zeros else self.design.cells(table)

    @property
    def quantity(self) -> str:
        return f"sum of {self.amount.column} of {self.cube.of}" if self.amount else f"{NUMBER} {self.cube.of}"

    @property
    def grid_step(self) -> Fraction:
        """The amount that a step in a cell represents: one record, or the step of the grid."""
        return self.amount.grid.step if self.amount else Fraction(1)

    @property
    def counted_with(self) -> dict[str, Any]:
        """The plain values that, besides the records, determine the exact cells."""
        amount, zeros = self.amount, self.structural_zeros
        return {
            "of": self.cube.of,
            "categories": sha256(
                canonicalize({name: list(map(repr, domain)) for name, domain in self.domains.items()})
            ).hexdigest(),
            "tables": [list(table) for table in self.design.tables],
            "amount": [amount.column, *map(str, astuple(amount.grid))] if amount else None,
            "record_keys": self.cube.record_keys,
            **({"withheld": [self.withheld.name, dict(self.withheld.parameters)]} if self.withheld else {}),
            "impossible": sha256(np.packbits(self.possible).tobytes()).hexdigest() if zeros else None,
        }

    @property
    def counted_as(self) -> dict[str, Any]:
        return {"amount": self.counted_with["amount"]} if self.amount else {}

    @property
    def columns_read(self) -> tuple[str, ...]:
        return (
            *self.cube.variables,
            *([self.amount.column] if self.amount else []),
            *([self.cube.record_keys] if self.cube.record_keys else []),
        )

    @cached_property
    def from_unit(self) -> tuple[str, ...]:
        """The columns read from a person's unit."""
        if self.withheld or self.cube.of == UNITS or self.dataset.persons is None:
            return ()
        return tuple(name for name in self.columns_read if name not in self.dataset.persons.variables)

    @property
    def unit(self) -> str:
        """The unit of the loss: a unit of the dataset, a person, or only a person's record (`PERSON_RECORD`)."""
        if self.withheld:
            return self.withheld.unit
        if self.cube.of == UNITS:
            return self.dataset.record_name
        return PERSON_RECORD if self.dataset.list_dependent(self.columns_read) else PERSON

    @cached_property
    def specification(self) -> Specification:
        """The loss for one record changed, with a line for each measured table."""
        if self.withheld:
            specification = self.withheld.specification(self.design.bounded)
            flavor = specification.flavor
            return replace(specification, flavor=replace(flavor, domain=flavor.domain + self._excluded))
        return Specification(self.flavor(self.columns_read), self.design.bounded, self.design.lines)

    @property
    def _excluded(self) -> str:
        return ", without those that the declared structural zeros exclude" if self.structural_zeros else ""

    def charged(self, loss: Loss) -> Loss:
        """The loss for one record of the dataset changed: if one changes, two records of a withheld swap may change."""
        return self.withheld.specification(loss).charge if self.withheld else loss

    def flavor(self, names: Sequence[str]) -> Flavor:
        """The DP flavor, with the given names of the columns read."""
        return Flavor(
            domain=f"all possible files of {self.unit}s with the variables of {self.dataset.title}: "
            + " × ".join(names)
            + self._excluded,
            multiverse=(),
            unit=self.unit,
            changes_per_person=1 if self.cube.of == UNITS and self.unit != PERSON_RECORD else None,
            output_premetric=self.design.bounded.output_premetric,
        )
