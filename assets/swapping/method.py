"""Permutation swapping as a method: its hooks for charge, draw, gates and publication."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import dagster as dg

from assets.conventions import lineage
from assets.measurement.parts import PartCounts
from assets.release.columns import describe_columns
from assets.release.dataset import CEF
from assets.release.draw import Draw
from assets.release.gate import Gate
from assets.release.method import CHARGE, Fact, Method, release_hook, statement_hook
from assets.release.plan import Plan, PlanRequest
from assets.release.published import PublishedTable, describe_published
from assets.swapping.counting import build_counts_by_value, counts_gate, find_parts
from assets.swapping.draw import (
    MECHANISM,
    SWAPPED,
    SwappingInputs,
    draw_cells,
    read_inputs,
    read_version,
    swapped_version,
    write_cells,
)
from assets.swapping.gates import swapping_gates
from assets.swapping.invariants import build_invariants, invariant_tables, require_few_stored
from assets.swapping.plan import rate_for, swapping_plan
from assets.swapping.records import COUNTED, stage_of_records
from assets.swapping.release import SwappingRelease
from assets.swapping.statement import describe_charge, describe_draw, describe_invariants, swapping_statement
from assets.swapping.tables import describe_tables, preview_products, published_tables, require_readable, table_recipes
from assets.swapping.utility import build_experiment, build_utility
from assets.swapping.withheld import WithheldSwap, build_strata, build_withheld, withheld_gates
from assets.tabulation.asset import TABLES, build_tables
from mechanisms.accounting.specification import Specification
from mechanisms.swapping import permutation
from mechanisms.swapping.design import SwapLosses
from mechanisms.swapping.loss import evaluated, smallest_attainable, theorem_1
from mechanisms.swapping.permutation import Contingency
from resources.custody import Custody
from resources.statements import Table
from resources.warehouse import Session


class Swapping(Method[SwappingRelease, SwappingInputs, Contingency]):
    mechanism = MECHANISM
    version = permutation.VERSION
    keeps_verdicts = True
    draw_stage = "swapped"
    drawn_table = SWAPPED
    drawn_words = "swapped data"
    publishes_also_from = ("invariants",)
    plan = release_hook(swapping_plan)
    statement = statement_hook(swapping_statement)
    charge_description = release_hook(describe_charge)
    draw_description = release_hook(describe_draw)

    @property
    def stages(self) -> Sequence[str]:
        if self.release.declaration.withheld:
            return ("invariants", "swapped")
        counted = (COUNTED,) if self.part_counts else ()
        return (*counted, "invariants", CHARGE, "swapped", TABLES)

    @property
    def draw_follows(self) -> Sequence[str]:  # type: ignore[override]
        return (stage_of_records(self.release), "invariants")

    @property
    def part_counts(self) -> PartCounts[SwappingRelease] | None:
        return find_parts(self.release)

    def assets_of_parts(self) -> Sequence[dg.AssetsDefinition]:
        return [self.part_counts.build(self)] if self.part_counts else []

    @property
    def drawn_columns(self) -> Mapping[str, str]:
        return describe_columns(self.release.variables) | {
            "holding_code": "Number of the combination of holding values",
            "count": "Number of swapped records in the cell",
        }

    @property
    def withheld_records(self) -> WithheldSwap | None:
        return WithheldSwap.from_release(self.release) if self.release.declaration.withheld else None

    def plan_request(self, request: PlanRequest) -> Plan:
        return swapping_plan(self.release, request.largest_stratum)

    def fields_for_total(self, total: Fraction, request: PlanRequest) -> Mapping[str, Any]:
        """One rate: the smallest, in millionths, whose ε is at most the total; or one ε for all strata."""
        return {"swap_rate": rate_for(self.release, request.largest_stratum, total)}

    def own_assets(self) -> Sequence[dg.AssetsDefinition]:
        release = self.release
        if release.declaration.withheld:
            return [build_strata(release), build_withheld(release)]
        return [
            *([build_counts_by_value(release, self.part_counts)] if self.part_counts else []),
            build_invariants(release, describe_invariants(release)),
            build_tables(
                release,
                ["swapped", *(["invariants"] if release.has_persons_following else [])],
                describe_tables(release),
                lambda session: table_recipes(session, release),
                describe_published(published_tables(release)),
                lambda session: {**preview_products(session, self.release), **self._lineage_of_tables(session)},
            ),
            build_utility(release),
            *([build_experiment(self, experiment)] if (experiment := release.declaration.experiment) else []),
        ]

    def own_gates(self) -> Sequence[Gate[SwappingRelease]]:
        if self.release.declaration.withheld:
            return withheld_gates(self.release)
        counted = [counts_gate(self.release, self.part_counts)] if self.part_counts else []
        return [*counted, *swapping_gates(self.release)]

    def charged_tables(self) -> Mapping[str, Sequence[Table]]:
        return {"invariants": invariant_tables(self.release)}

    def inputs(self, session: Session, custody: Custody) -> SwappingInputs:
        return read_inputs(session, self.release, self.release.version_key(custody))

    def specification(self, inputs: SwappingInputs) -> Specification:
        return self.release.design.specification(self.release.dataset.name, inputs.loss)

    def require_chargeable(self, session: Session) -> None:
        require_few_stored(session, self.release)
        require_readable(session, self.release)

    def charge_facts(self, inputs: SwappingInputs) -> dict[str, Fact]:
        b, rate, losses = inputs.largest_stratum, self.release.design.plain_rate, inputs.losses
        alone = "Number of records that are the only one with their values"
        if losses is not None:
            charged, further = losses.charged, _facts_of_extensions(losses)
        else:
            assert rate is not None, "a swap that is not plain has losses of its own"
            charged, further = theorem_1(b, rate), _facts_of_plain_swap(b, rate)
        return {
            "swap_rate": (self._rates(inputs), "p, the probability with which a record is selected"),
            "strata": (inputs.strata, "Number of strata"),
            "largest_stratum": (b, "b, the size of the largest stratum with two distinct records; 0 if there is none"),
            "unique_on_holding": (inputs.unique.holding, f"{alone} of the holding variables"),
            "unique_on_swap": (inputs.unique.swap, f"{alone} of match and swap variables"),
            "epsilon_exact": (str(charged), "ε that is charged, exact; by Theorem 1 for a plain swap"),
            "epsilon": (float(charged.round_up()), "ε that is charged, rounded up"),
            **further,
        }

    def _rates(self, inputs: SwappingInputs) -> str:
        rates = self.release.design.swap_rate
        if rates.is_single:
            return str(rates.single_rate)
        first = inputs.losses.first if inputs.losses else None
        if first is None or first.lowest is None:
            return "none"
        return str(first.lowest) if first.lowest == first.highest else f"{first.lowest} to {first.highest}"

    def draw_metadata(self, session: Session) -> Mapping[str, Any]:
        columns = session.columns(self.release.public(SWAPPED))
        return self._lineage(CEF, [name for name in columns if name in self.release.variables])

    def _lineage_of_tables(self, session: Session) -> Mapping[str, Any]:
        columns = {name for table in self.tables() for name in session.columns(table.table)}
        return self._lineage(self.draw_stage, sorted(columns & {*self.release.variables, "count"}))

    def _lineage(self, stage: str, columns: Sequence[str]) -> Mapping[str, Any]:
        key = self.release.key(stage)
        return {"dagster/column_lineage": lineage({name: [(key, name)] for name in columns})}

    def make(self, session: Session, draw: Draw[SwappingInputs], key: bytes, custody: Custody) -> Contingency:
        return draw_cells(session, self.release, draw, key, custody)

    def version_of(self, draw: Draw[SwappingInputs], output: Contingency) -> str:
        return swapped_version(draw.inputs, output)

    def write(self, session: Session, draw: Draw[SwappingInputs], output: Contingency) -> str:
        with ThreadPoolExecutor(1) as pool:
            version = pool.submit(self.version_of, draw, output)
            write_cells(session, self.release, output)
            return version.result()

    def read_version(self, session: Session, draw: Draw[SwappingInputs]) -> str | None:
        return read_version(session, self.release, draw.inputs)

    def tables(self) -> Sequence[PublishedTable]:
        return [] if self.release.declaration.withheld else published_tables(self.release)


def _facts_of_plain_swap(b: int, rate: Fraction) -> dict[str, Fact]:
    smallest, at_rate = smallest_attainable(b) if b else (0.0, 0.0)
    return {
        "epsilon_evaluated": (evaluated(b, rate), "ε from the ratio in the proof of Theorem 1, for information"),
        "smallest_epsilon": (round(smallest, 4), "Smallest ε attainable for b at any swap rate"),
        "smallest_epsilon_at_swap_rate": (round(at_rate, 6), "Swap rate that attains the smallest ε"),
    }


def _facts_of_extensions(losses: SwapLosses) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    if losses.first.exempt:
        facts["exempt_records"] = losses.first.exempt, "Number of records that are exempt"
    if losses.second is not None:
        facts["largest_stratum_of_second_stir"] = losses.second.largest_stratum, "b of the second stir"
    if losses.finer is not None:
        finer = float(losses.finer.round_up())
        facts["epsilon_in_finer_universes"] = finer, "ε if more counts are held fixed, for information"
    return facts
