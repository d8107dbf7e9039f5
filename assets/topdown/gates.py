"""The gates that TopDown adds to those of all releases and of noisy counts.

This module lists them, and evaluates those on spine, invariants and charge. `estimate_gates` and `table_gates` evaluate
the others.
"""

from fractions import Fraction

from assets.gates.shared import count_problem, differing_table
from assets.release.gate import Gate, ReleaseContext
from assets.tabulation.asset import tables_gate
from assets.topdown import estimate_gates, table_gates
from assets.topdown.estimation import levels_not_as_made
from assets.topdown.histograms import (
    impossible_records,
    invariants_recipe,
)
from assets.topdown.limits import require_feasible
from assets.topdown.release import INVARIANTS, REPLICATES, SPINE, UNCERTAINTY, TopDownRelease
from assets.topdown.replicates import replicates_as_made
from assets.topdown.spine import SpineError, spine_recipe
from assets.topdown.streams import streams_of, version_of_streams
from assets.topdown.tables import tables_recipe
from assets.topdown.uncertainty import uncertainty_recipes
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.topdown.feasibility import InfeasibleError
from resources.statements import Zone

Context = ReleaseContext[TopDownRelease]


def topdown_gates(release: TopDownRelease) -> list[Gate[TopDownRelease]]:
    estimated = release.estimated
    return [
        Gate("spine_of_the_cef", "spine", "The stored spine is a tree, and is that of the current CEF.", _spine),
        Gate(
            "no_impossible_records",
            "histograms",
            "The histograms count no records that the edit constraints rule out.",
            _possible,
        ),
        Gate("invariants_of_the_cef", "invariants", "The stored invariants are those of the current CEF.", _invariants),
        Gate(
            "invariants_declared",
            "invariants",
            "The declared invariants, and no others, are published exactly, for every place of their level.",
            _declared,
        ),
        Gate(
            "charge_as_allocated",
            "charge",
            "The charge is exactly the sum over queries of ρ times the share of the level times the share of the "
            "query, where units count twice.",
            _allocated,
        ),
        Gate("feasible", "charge", "There are histograms that satisfy every invariant and bound.", _feasible),
        Gate(
            "estimates_as_made",
            estimated,
            "The stored estimates of every level were made from the stored measurements, invariants and spine.",
            _as_made,
        ),
        Gate(
            "invariants_exact", estimated, "The estimates of every level satisfy the invariants exactly.",
            estimate_gates.exact_invariants,
        ),
        Gate(
            "children_add_up", estimated, "The estimates of every place are the sums of those below it in every cell.",
            estimate_gates.children_add_up,
        ),
        Gate(
            "whole_numbers", estimated, "All estimates are nonnegative integers.",
            estimate_gates.non_negative_integers,
        ),
        Gate(
            "structural_zeros", estimated,
            "No person or unit is in an impossible cell, and no person in a place without a dwelling of that type.",
            estimate_gates.structural_zeros,
        ),
        Gate(
            "inequalities", estimated,
            "The numbers of persons in group quarters and in households are within their bounds.",
            estimate_gates.inequalities,
        ),
        Gate(
            "microdata_of_estimates", "microdata",
            "The microdata have exactly the counts estimated for the finest level, in the order of places and cells.",
            table_gates.microdata_of_estimates,
        ),
        tables_gate(lambda session: tables_recipe(session, release)),
        Gate(
            "tables_agree", "tables", "Tables are consistent with themselves and with each other.",
            table_gates.tables_agree,
        ),
        *(_of_errors(release) if release.declaration.replicates else []),
    ]  # fmt: skip


def _of_errors(release: TopDownRelease) -> list[Gate[TopDownRelease]]:
    return [
        Gate(
            "replicates_as_made",
            REPLICATES,
            "The stored replicates are those that were made from the current estimates, and one of them, chosen by the "
            "draw id, is the same when it is made again.",
            replicates_as_made,
        ),
        tables_gate(lambda session: uncertainty_recipes(session, release), UNCERTAINTY),
    ]


def _spine(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        try:
            made = spine_recipe(session, context.release)
        except SpineError as error:
            return [str(error)]
        return differing_table(session, context.release.public(SPINE), made)


def _possible(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return count_problem(impossible_records(session, context.release), "records that the edit constraints rule out")


def _invariants(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        return differing_table(session, context.release.public(INVARIANTS), invariants_recipe(session, context.release))


def _declared(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        stored = session.rows("topdown/held", invariants=release.public(INVARIANTS), spine=release.public(SPINE))
    problems = []
    for name, level, missing in stored:
        if release.design.invariants.get(name) != level:
            problems.append(f"{name} by {level} is published exactly but not declared")
        problems += count_problem(missing, f"{name}: places of {level} without a count")
    problems += [
        f"{name} is declared but missing" for name in release.design.invariants.keys() - {row[0] for row in stored}
    ]
    return problems


def _allocated(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = context.method.describe(session, context.custody)
    entry = context.reading.find_reservation(draw.draw_id)
    if entry is None:
        return [f"no ledger entry for draw {draw.draw_id}"]
    due = Fraction()
    for histogram, times in (("persons", 1), ("units", 2)):
        allocation = release.design.allocations[histogram]
        for level, share in allocation.levels.items():
            for part in allocation.queries[level].values():
                due += times * allocation.loss.rho * share * part
    charged = entry.parse_specification().loss
    return (
        [] if charged == ConcentratedLoss(due) else [f"ledger entry {entry.sequence} charges {charged}, not ρ = {due}"]
    )


def _feasible(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        try:
            require_feasible(session, context.release)
        except InfeasibleError as error:
            return [str(error)]
    return []


def _as_made(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = context.method.describe(session, context.custody)
        levels, read = levels_not_as_made(session, context.custody, context.release)
        streams = streams_of(session, context.release)
    if levels:
        return [f"{level}: altered, or made from other data" for level in levels]
    settled = context.reading.find_settlement(draw.draw_id)
    answers = {stream.label: read.get(stream.label, "") for stream in streams}
    if settled is None or version_of_streams(answers) != settled.output_version:
        return ["the estimates were made from other measurements than those that were drawn"]
    return []
