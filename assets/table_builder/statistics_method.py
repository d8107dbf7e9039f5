"""Quantiles and moments of the cells of a hypercube as a method, with their plan and their part of the certificate."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import pyarrow as pa

from assets.measurement.grid import Query
from assets.measurement.method import Batch, plan_gate
from assets.planning.lines import budgets_for_margins
from assets.release.columns import describe_columns, distinguish_columns
from assets.release.draw import Inputs
from assets.release.gate import Gate
from assets.release.method import Fact, release_hook, session_hook, statement_hook
from assets.release.plan import Line, Plan
from assets.release.stage import Recipes
from assets.release.statement import Accuracy, Paper, Parameter, Statement
from assets.table_builder.cells import categories
from assets.table_builder.declaration import QuantilesAttributes
from assets.table_builder.method import CELL_COLUMNS, TableBuilderMethod
from assets.table_builder.statement import PROSE, hypercube_statement
from assets.table_builder.statistics import StatisticRelease
from assets.table_builder.statistics_cells import added_recipe, list_numbers, numbers_recipe, part_recipe, queries_of
from assets.table_builder.statistics_tables import (
    planned_statistic,
    published_statistic,
    shown_first_statistic,
    statistic_recipes,
)
from assets.tabulation.asset import tables_gate
from mechanisms.accounting.losses import format_loss
from mechanisms.accounting.specification import PERSON_RECORD, RECORDS_OF_OTHERS
from mechanisms.sampling.goodness import find_misfits
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.stream import RandomStream
from mechanisms.table_builder.choosing import NAME, Chosen
from mechanisms.table_builder.hypercube import LARGEST_RATE
from resources.warehouse import Session

HAY = Paper(
    "Hay, Rastogi, Miklau and Suciu: Boosting the Accuracy of Differentially Private Histograms Through Consistency "
    "(2010)",
    "https://arxiv.org/abs/0904.0942",
)

PERMUTE_AND_FLIP = Paper(
    "McKenna and Sheldon: Permute-and-Flip: A New Mechanism for Differentially Private Selection (2020)",
    "https://arxiv.org/abs/2010.12603",
)


def statistic_lines(release: StatisticRelease) -> Iterator[Line]:
    for part, query in zip(release.parts, queries_of(release), strict=True):
        error = part.deviation * float(part.step)
        yield Line(part.name, release.quantity, part.budget, error, part.margin_at, query.cells)


def statistic_plan(release: StatisticRelease) -> Plan:
    facts = {
        "charged, for one record changed": format_loss(release.specification.charge),
        "one record added or removed": format_loss(release.design.unbounded),
        "cells": f"{release.cells_of(release.design.inner):,}",
        "numbers": f"{sum(query.cells for query in queries_of(release)):,}",
    }
    return Plan(release.specification, tuple(statistic_lines(release)), facts, {}, ())


def describe_statistic_charge(release: StatisticRelease) -> str:
    return PROSE(
        "statistic, charge",
        release=release,
        unbounded=format_loss(release.design.unbounded),
        charge=format_loss(release.specification.charge),
        of_persons=release.unit == PERSON_RECORD,
        records_of_others=RECORDS_OF_OTHERS,
    )


def statistic_statement(release: StatisticRelease, inputs: Inputs, output_version: str) -> Statement:
    of_cells = hypercube_statement(release, inputs, output_version)
    columns = release.known_columns
    words = distinguish_columns({name: columns[name] for name in release.columns_read})
    gaussian, chosen = isinstance(release.parts[0].noise, DiscreteGaussian), release.drawn
    bounds = [_describe_bounds(release, name, words[name]) for name in release.variables]
    return replace(
        of_cells,
        method=PROSE(
            "statistic",
            release=release,
            words=", ".join(words[name] for name in release.variables),
            by=[words[name] for name in release.cube.variables],
            scales=bounds,
            chosen=chosen,
        ),
        parameters=(
            *(
                replace(parameter, value=NAME) if chosen and parameter.label == "Noise" else parameter
                for parameter in of_cells.parameters
                if parameter.label in _KEPT
            ),
            Parameter("Bounds", tuple(f"{name}: {low} to {high}" for name, low, high in bounds), PROSE("Bounds")),
            *([_describe_parts(release, chosen=chosen)] if release.variable else []),
        ),
        loss_source=PROSE("statistic, loss source", release=release, gaussian=gaussian, chosen=chosen),
        accuracy=_describe_accuracy(release),
        papers=((PERMUTE_AND_FLIP if chosen else HAY),) if release.variable else of_cells.papers,
    )


def _describe_parts(release: StatisticRelease, *, chosen: bool) -> Parameter:
    label = "Quantiles" if chosen else "Levels"
    return Parameter(label, tuple(f"{part.name}: {part.budget}" for part in release.parts), PROSE(label))


_KEPT = ("Counted", "Variables", "Noise", "Added up", "Structural zeros")
"""The parameters of the cells that a statistic also has."""


def _describe_bounds(release: StatisticRelease, name: str, words: str) -> tuple[str, str, str]:
    scale = release.variable.grid if release.variable else release.scales[name]
    return words, f"{float(scale.lower):,.15g}", f"{float(scale.upper):,.15g}"


def _describe_accuracy(release: StatisticRelease) -> Accuracy:
    rows = [
        (line.name, line.numbers or 0, ceil(line.standard_error * 100) / 100, ceil(line.margin * 100) / 100)
        for line in statistic_lines(release)
    ]
    return Accuracy(
        summary=PROSE("statistic, accuracy, drawn" if release.drawn else "statistic, accuracy"),
        columns=("Measured", "Numbers", "Standard error", "90% margin (±)"),
        rows=tuple(rows),
        note=PROSE("statistic, accuracy, note", release=release),
    )


class StatisticMethod(TableBuilderMethod):
    """The cells have numbers of their own, which are charged, drawn and checked like those of hypercubes."""

    release: StatisticRelease
    drawn_columns = CELL_COLUMNS | {"place": "Number of the range or sum in its cell"}
    described: ClassVar[Mapping[str, str]] = {"counts": "numbers", "tables": "numbers, tables"}
    build_grid = release_hook(list_numbers)
    counts_recipe = session_hook(numbers_recipe)
    recipes_of_parts = (part_recipe, added_recipe)
    plan = release_hook(statistic_plan)
    plan_tables = release_hook(planned_statistic)
    tables = release_hook(published_statistic)
    charge_description = release_hook(describe_statistic_charge)
    statement = statement_hook(statistic_statement)
    shown_first = session_hook(shown_first_statistic)

    def table_recipes(self, session: Session) -> Recipes:
        return statistic_recipes(session, self)

    def column_descriptions(self) -> dict[str, str]:
        return describe_columns(self.release.columns) | {
            column.name: column.description
            for table in published_statistic(self.release)[:2]
            for column in table.columns
            if column.name not in self.release.columns
        }

    def queries(self) -> Sequence[Query]:
        return queries_of(self.release)

    def perturb(self, session: Session, key: bytes) -> Iterator[Batch]:
        chosen = self.release.measured
        if not isinstance(chosen, Chosen):
            yield from super().perturb(session, key)
            return
        for place, batch in enumerate(self.exact(session)):
            stream = RandomStream(key, f"{self.mechanism} {batch.query}")
            drawn = chosen.draw_cells(batch.values.reshape(-1, chosen.numbers), place, stream)
            yield replace(batch, values=drawn.ravel())

    def unlikely(self, pairs: Iterable[tuple[Batch, Batch]]) -> list[str]:
        chosen = self.release.measured
        if not isinstance(chosen, Chosen):
            return super().unlikely(pairs)
        checked = {}
        for place, batches in enumerate(pairs):
            exact, drawn = (batch.values.reshape(-1, chosen.numbers) for batch in batches)
            checked[batches[0].query] = chosen.check_cells(exact, place, drawn)
        return find_misfits(checked)

    def described_cells(self) -> list[pa.Table]:
        return [pa.table({name: values}) for name, values in categories(self.release)]

    def fields_for_margins(self, margins: Mapping[str, Fraction]) -> Mapping[str, Any]:
        design = self.release.design
        if len(design.tables) > 1:
            raise ValueError("margins: the levels of all fitted tables share one budget; ask for a total instead")
        most = LARGEST_RATE * design.sensitivity**2
        budgets = budgets_for_margins(statistic_lines(self.release), margins, most, as_shares=True)
        total = sum(budgets.values(), Fraction())
        shares = [budget / total for budget in budgets.values()]
        chosen, declared = self.release.measured, self.release.declaration.attributes
        if isinstance(chosen, Chosen) and isinstance(declared, QuantilesAttributes):
            # The shares are in the order of the declaration, not of the draw.
            shares = [shares[chosen.quantiles.index(quantile)] for quantile in declared.at]
        return self._own_fields(total, {"shares": shares} if len(shares) > 1 else {})

    def scale_budgets(self, factor: Fraction) -> Mapping[str, Any]:
        return self._own_fields(factor * self.release.design.budget, {})

    def _own_fields(self, budget: Fraction, further: Mapping[str, Any]) -> Mapping[str, Any]:
        gaussian = self.release.cube.rho is not None
        fields = {"rho" if gaussian else "epsilon": budget, **further}
        return {"quantiles": {self.release.variables[0]: fields}} if self.release.variable else {"moments": fields}

    def further_gates(self) -> Sequence[Gate[Any]]:
        words = "The stored plan is the one that follows from the declaration."
        return [
            plan_gate(self, "plan_as_declared", words),
            *self.withheld_gates(),
            tables_gate(self.table_recipes),
        ]

    def charge_facts(self, inputs: Inputs) -> dict[str, Fact]:
        parts = len(self.release.parts)
        return super().charge_facts(inputs) | {
            "measured_tables": (parts, "Number of measured levels or drawn quantiles, or 1 for moments")
        }
