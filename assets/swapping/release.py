"""A swapping release as one value: its variables, and the rules that its declaration satisfies before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assets.release.columns import Column
from assets.release.names import COLUMNS_OF_SWAPPED, find_repeated
from assets.release.release import Release
from assets.swapping.declaration import ExperimentDeclaration, SwappedProduct, SwappingDeclaration
from mechanisms.swapping.design import SwappingDesign

MOST_COMBINATIONS = 1_000_000
"""The most combinations of holding values that noise chooses from in a stratum."""

MOST_HOLDING_VALUES = 20_000_000
"""The most rows of the public table that lists these combinations for every stratum."""


@dataclass(frozen=True)
class SwappingRelease(Release):
    """A declared release by permutation swapping. Variables that its design does not name take no part in it."""

    declaration: SwappingDeclaration
    design: SwappingDesign

    def __post_init__(self) -> None:
        for field, names in (("match", self.design.match), ("swap", self.design.swap)):
            for name in names:
                if name not in self.variables:
                    known = ", ".join(self.variables)
                    self.refuse(
                        f"{field}: {self._explain_absence(name)}; the {self.design.unit}'s variables are {known}"
                    )
        for name in self.design.match:
            if self.variables[name].nullable:
                self.refuse(
                    f"match: {name} may be null, and a null does not match; match by another column, or declare it not "
                    "nullable if the file has a value in each row"
                )
        if taken := [name for name in self.columns_read if name.casefold() in COLUMNS_OF_SWAPPED]:
            self.refuse(f"column {taken[0]} of the dataset has a name that is reserved for the release's own tables")
        self._check_values()
        if self.declaration.withheld:
            self._check_withheld()
        self._check_products()
        if self.declaration.experiment:
            self._check_experiment(self.declaration.experiment)

    @property
    def declared_specification(self) -> None:
        """None: the loss follows from the largest stratum."""

    def _check_withheld(self) -> None:
        """Check the fields of a withheld swap: the loss of noise after it needs rates that are constant in strata."""
        declaration, design = self.declaration, self.design
        if declaration.products or declaration.experiment:
            self.refuse("withheld: it is not published, so it can have neither products nor an experiment")
        if not self.can_replay:
            self.refuse("withheld: the swapped records are drawn again by gates; declare custody: escrowed")
        if design.second_stir or design.noise or design.exempt:
            self.refuse("withheld: no loss is known together with second_stir, noise_before or exempt")
        if not design.has_rates_of_strata:
            self.refuse("withheld: swap rates must be constant within strata, not differ between records (risk)")
        if design.persons:
            self.refuse(f"withheld: persons cannot follow; leave {', '.join(design.persons)} out (variables)")

    def _check_values(self) -> None:
        """Check the values in the conditions of rates and exempt records, and the domains of noise."""
        exempt = self.design.exempt
        rates = (("swap_rate or risk", case.when) for case in self.design.swap_rate.cases)
        for field, when in (("exempt", exempt), *rates):
            for name, values in when:
                domain = self._domain(field, name)
                for value in values:
                    if not any(value == known and type(value) is type(known) for known in domain):
                        self.refuse(f"{field}: {value!r} is not a value of {name}")
        if exempt and all(set(values) == set(self._domain("exempt", name)) for name, values in exempt):
            self.refuse("exempt: every record would be exempt, and published unchanged; leave a value out")
        for response in self.design.noise:
            if len(self._domain("noise_before", response.variable)) != response.size:
                self.refuse(f"noise_before: {response.variable} has another number of values than was declared")
        if self.design.combinations > MOST_COMBINATIONS:
            self.refuse(
                f"noise_before: a record could get {self.design.combinations:,} combinations of holding values; at "
                f"most {MOST_COMBINATIONS:,} are possible"
            )

    def _domain(self, field: str, name: str) -> Sequence[object]:
        try:
            return self.variables[name].domain()
        except ValueError as error:
            self.refuse(f"{field}: {name}: {error}")

    def _explain_absence(self, name: str) -> str:
        tables = self.dataset.tables.values()
        if any(name in table.variables for table in tables) and name not in self.columns_read:
            return f"{name} is not among the release's variables"
        if any(name in table.columns for table in tables):
            return f"{name} identifies records or belongs to another table, and is not a variable of the swapped data"
        return f"there is no column {name}"

    def _check_products(self) -> None:
        for name in find_repeated([product.name for product in self.declaration.products])[:1]:
            self.refuse(f"products: {name} is declared twice")
        for product in self.declaration.products:
            if product.of == "persons" and not self.has_persons_following:
                self.refuse(
                    f"products: {product.name}: no persons are swapped with their {self.design.unit}; persons are if "
                    "variables names columns of theirs, and the unit is not person"
                )
            known = self.variables_of(product)
            for name in product.columns:
                if name not in known:
                    self.refuse(
                        f"products: {product.name}: {self._explain_absence(name)}; "
                        f"columns of the swapped data are {', '.join(known)}"
                    )

    def _check_experiment(self, experiment: ExperimentDeclaration) -> None:
        if self.design.plain_rate is None:
            self.refuse("experiment: it compares single swap rates, and this release is not a plain swap")
        if not self.dataset.synthetic:
            self.refuse(
                "experiment: its draws would spend budget without a charge; only a dataset declared synthetic allows it"
            )
        if experiment.product not in [product.name for product in self.declaration.products]:
            self.refuse(f"experiment: there is no product {experiment.product}")

    @property
    def is_counted_in_parts(self) -> bool:
        """Whether the stages read counts of the records by their values, added up from the dataset's partitions."""
        return bool(self.dataset.partitions) and not self.declaration.withheld

    @property
    def swaps_persons(self) -> bool:
        """Whether the swapped records are the persons of a dataset that has units with persons."""
        return self.dataset.persons is not None and self.design.unit != self.dataset.record_name

    @property
    def has_persons_following(self) -> bool:
        """Whether persons follow their unit, so that the unit's record includes them."""
        return bool(self.design.persons)

    @cached_property
    def variables(self) -> Mapping[str, Column]:
        """The variables of the swapped records, with their declarations, in the order of the dataset."""
        persons = self._variables_of_persons if self.swaps_persons else {}
        taking_part = {*self.design.holding, *self.design.swap}
        columns = {**self.dataset.units.variables, **persons}
        return {name: column for name, column in columns.items() if name in taking_part}

    @cached_property
    def person_variables(self) -> Mapping[str, Column]:
        """The variables of the persons who follow their unit; empty if persons do not follow units."""
        return {name: column for name, column in self._variables_of_persons.items() if name in self.design.persons}

    @property
    def _variables_of_persons(self) -> Mapping[str, Column]:
        return self.dataset.persons.variables if self.dataset.persons else {}

    @property
    def counted_with(self) -> dict[str, Any]:
        """The design without the swap rate; for a withheld swap, the whole design."""
        record = self.design.as_record()
        return {name: value for name, value in record.items() if name != "swap_rate" or self.declaration.withheld}

    @property
    def columns_read(self) -> tuple[str, ...]:
        return (*self.variables, *self.person_variables)

    @property
    def columns_of_others(self) -> tuple[str, ...]:
        """The variables of a swapped person that can change when another person of the unit changes."""
        return self.dataset.list_dependent(self.variables) if self.swaps_persons else ()

    def variables_of(self, product: SwappedProduct) -> Mapping[str, Column]:
        return {**self.variables, **self.person_variables} if product.of == "persons" else self.variables
