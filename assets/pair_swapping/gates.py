"""The gates that pair swapping adds to the shared gates."""

from fractions import Fraction
from functools import partial

import numpy as np

from assets.charge.drawing import make_output
from assets.gates.shared import count_differences, count_problem
from assets.pair_swapping.records import SwappedRecords, households_recipes, stage_units
from assets.pair_swapping.release import HOUSEHOLDS, SWAPPED, PairSwappingRelease
from assets.release.gate import Gate, ReleaseContext, session_gate
from assets.tabulation.asset import recipes_gate
from mechanisms.pair_swapping.pairing import NOBODY, number_due
from resources.statements import SQL, Zone
from resources.warehouse import Session

_NOT_SWAPPABLE = SQL("pair_swapping/not_swappable", "SELECT * FROM {{ records }} WHERE NOT swappable")

Context = ReleaseContext[PairSwappingRelease]


def pair_swapping_gates(release: PairSwappingRelease) -> list[Gate[PairSwappingRelease]]:
    """The gates that pair swapping adds. Only a repeated draw shows the pairs."""
    of_cef = "The stored households are those of the current CEF."
    both = [Zone.CONFIDENTIAL, Zone.PUBLIC]
    disjoint = (
        "The draw, repeated, exchanges the places of disjoint pairs of households. The two of a pair are in the same "
        "state but different blocks, and have the same numbers of adults and minors and the same tenure."
    )
    share = (
        "The draw, repeated, selects the declared share of the households of each state, rounded down, and every pair "
        "has a selected household."
    )
    if release.design.risk_factors.as_record():
        share += " All that are always selected are among them, even if they are more, and none has a factor of 0."
    rate = release.design.swap_rate
    repeated: list[Gate[PairSwappingRelease]] = [
        Gate("pairs_disjoint", SWAPPED, disjoint, lambda context: find_pair_problems(_repeat_draw(context))),
        Gate("rate_met", SWAPPED, share, lambda context: find_rate_problems(_repeat_draw(context), rate)),
    ]
    return [
        recipes_gate(
            "households_of_the_cef", HOUSEHOLDS, of_cef, partial(households_recipes, release), [Zone.CONFIDENTIAL]
        ),
        *(repeated if release.can_replay else []),
        session_gate("nothing_but_place_changed", SWAPPED, _check_kept, both),
        session_gate("blocks_exact", SWAPPED, _check_places, both),
        session_gate("others_unchanged", SWAPPED, _check_others, both),
    ]


def find_pair_problems(output: SwappedRecords) -> list[str]:
    """The deviations of the exchange from disjoint pairs of possible partners, each with a count."""
    households, partner = output.households, output.swapped.partner
    moving = np.flatnonzero(partner != NOBODY)
    others = partner[moving]
    wrong = {
        "households that are not the partner of their partner": partner[others] != moving,
        "pairs of households that differ in shared variables": households.group[others] != households.group[moving],
        "pairs of households in one block": households.block[others] == households.block[moving],
    }
    return [problem for what, places in wrong.items() for problem in count_problem(int(places.sum()), what)]


def find_rate_problems(output: SwappedRecords, swap_rate: Fraction) -> list[str]:
    """The deviations of the selection from the declared one, each with a count."""
    state, selected = output.households.state, output.swapped.selected
    households, chosen = np.bincount(state), np.bincount(state, weights=selected)
    always, never = np.zeros_like(households), np.zeros_like(households)
    if weights := output.weights:
        always = np.bincount(state, weights=weights.always).astype(int)
        never = np.bincount(state, weights=(weights.numerator == 0) & ~weights.always).astype(int)
    due = map(partial(number_due, swap_rate), households.tolist(), always.tolist(), never.tolist())
    missed = sum(int(picked) != number for picked, number in zip(chosen, due, strict=True))
    if weights is not None:
        missed += int((weights.always & ~selected).sum())
    moving = np.flatnonzero(output.swapped.partner != NOBODY)
    neither = ~(selected[moving] | selected[output.swapped.partner[moving]])
    return [
        *count_problem(missed, "states with another number of selected households"),
        *count_problem(int(neither.sum()), "swapped households of which neither was selected"),
    ]


def _repeat_draw(context: Context) -> SwappedRecords:
    method = context.method
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = method.describe(session, context.custody)
        output = make_output(method, session, draw, context.custody, context.ledger)
        assert isinstance(output, SwappedRecords)
        return output


def _check_kept(session: Session, context: Context) -> list[str]:
    """Counts of units by everything but their place, with their persons, are exact."""
    # Of the columns of the place, the state never changes.
    columns = ["TABBLKST", *context.release.kept_variables, "composition"]
    return _compare(session, context, columns, "units that differ in more than their place")


def _check_places(session: Session, context: Context) -> list[str]:
    """Counts of units in every place by adults, minors, tenure and type are exact."""
    columns = [*context.release.design.place, "RTYPE", "TEN", "adults", "minors"]
    return _compare(session, context, columns, "units by place, type, tenure, adults and minors that differ")


def _check_others(session: Session, context: Context) -> list[str]:
    """Units that are not households, and imputed households, are unchanged, with their persons and places."""
    columns = [*context.release.variables, "composition"]
    return _compare(session, context, columns, "units that are never swapped and differ", _NOT_SWAPPABLE)


def _compare(
    session: Session, context: Context, columns: list[str], what: str, selection: SQL | None = None
) -> list[str]:
    before, after = (stage_units(session, context.release, swapped=swapped) for swapped in (False, True))
    if selection:
        before = session.stage("selected_before", selection, records=before)
        after = session.stage("selected_after", selection, records=after)
    return count_problem(count_differences(session, before, after, columns), what)
