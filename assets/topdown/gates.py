"""The gates that a TopDown release adds to those of every release and of noisy counts.

This module lists them and evaluates those on spine, invariants and charge; `estimate_gates` and `table_gates` evaluate
the others.
"""

from fractions import Fraction

from assets.gates.shared import differing_table, said
from assets.release.gate import Gate, ReleaseContext
from assets.tabulation.asset import tables_gate
from assets.topdown import estimate_gates as estimate_gates
from assets.topdown import table_gates as table_gates
from assets.topdown.estimation import levels_not_as_made
from assets.topdown.histograms import (
    impossible_records,
    invariants_recipe,
)
from assets.topdown.limits import limits_of
from assets.topdown.release import INVARIANTS, SPINE, TopDownRelease
from assets.topdown.spine import SpineError, spine_recipe
from assets.topdown.tables import tables_recipe
from mechanisms.accounting.zcdp import ConcentratedLoss
from mechanisms.topdown.feasibility import InfeasibleError
from resources.statements import Zone

Context = ReleaseContext[TopDownRelease]


def topdown_gates(release: TopDownRelease) -> list[Gate[TopDownRelease]]:
    """The gates that TopDown adds to those of every release and of noisy counts."""
    estimated = release.estimates(release.finest)
    return [
        Gate("spine_of_the_cef", "spine", "The spine is a tree, and that of the CEF as it is.", _spine),
        Gate(
            "no_impossible_records",
            "histograms",
            "No record is counted that the edit constraints rule out.",
            _possible,
        ),
        Gate("invariants_of_the_cef", "invariants", "The invariants are those of the CEF as it is.", _invariants),
        Gate(
            "invariants_declared",
            "invariants",
            "Nothing is held exactly but what the release declares to be, for every place of its level.",
            _declared,
        ),
        Gate(
            "charge_as_allocated",
            "charge",
            "The charge is the sum of ρ times the levels' times the queries' shares, exactly.",
            _allocated,
        ),
        Gate("feasible", "charge", "Some histograms satisfy every invariant and bound.", _feasible),
        Gate(
            "estimates_as_made",
            estimated,
            "Every level's estimates are those that were made of the stored measurements, invariants and spine.",
            _as_made,
        ),
        Gate(
            "invariants_exact", estimated, "Every level's estimates have the invariants exactly.",
            estimate_gates.exact_invariants,
        ),
        Gate(
            "children_add_up", estimated, "Every place's estimates are the sum of those below it, cell by cell.",
            estimate_gates.children_add_up,
        ),
        Gate(
            "whole_numbers", estimated, "Estimates are whole numbers, none of them negative.",
            estimate_gates.non_negative_integers,
        ),
        Gate(
            "structural_zeros", estimated, "Nobody is where nobody can be.",
            estimate_gates.structural_zeros,
        ),
        Gate(
            "inequalities", estimated,
            "Group quarters and households hold at least and at most as many persons as they can.",
            estimate_gates.inequalities,
        ),
        Gate(
            "microdata_of_estimates", "microdata", "The microdata are the finest level's estimates, record by record.",
            table_gates.microdata_of_estimates,
        ),
        tables_gate(lambda session: tables_recipe(session, release)),
        Gate("tables_agree", "tables", "Tables agree where they count the same.", table_gates.tables_agree),
    ]  # fmt: skip


def _spine(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        try:
            made = spine_recipe(session, context.release)
        except SpineError as error:
            return [str(error)]
        return differing_table(session, context.release.public(SPINE), made)


def _possible(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return said(impossible_records(session, context.release), "records that the edit constraints rule out")


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
            problems.append(f"{name} by {level} is published exactly, but not declared")
        problems += said(missing, f"{name}: places of {level} without a count")
    problems += [
        f"{name} is declared and missing" for name in release.design.invariants.keys() - {row[0] for row in stored}
    ]
    return problems


def _allocated(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = context.method.describe(session, context.custody)
    entry = context.ledger.reservation(draw.draw_id)
    if entry is None:
        return [f"no ledger entry for draw {draw.draw_id}"]
    due = Fraction()
    for histogram, times in (("persons", 1), ("units", 2)):
        allocation = release.design.allocations[histogram]
        for level, share in allocation.levels.items():
            for part in allocation.queries[level].values():
                due += times * allocation.loss.rho * share * part
    charged = entry.declared().loss
    return (
        [] if charged == ConcentratedLoss(due) else [f"ledger entry {entry.sequence} charges {charged}, not ρ = {due}"]
    )


def _feasible(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        try:
            limits_of(session, context.release)
        except InfeasibleError as error:
            return [str(error)]
    return []


def _as_made(context: Context) -> list[str]:
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        return [
            f"{level}: altered, or made of something else" for level in levels_not_as_made(session, context.release)
        ]
