"""The gates that pair swapping adds to those of all releases."""

from fractions import Fraction

import numpy as np

from assets.charge.drawing import make_output
from assets.gates.shared import count_differences, count_problem, differing_table
from assets.pair_swapping.draw import SwappedRecords
from assets.pair_swapping.records import households_recipe, original, with_persons
from assets.pair_swapping.release import HOUSEHOLDS, SWAPPED, SWAPPED_PERSONS, PairSwappingRelease
from assets.release.gate import Gate, ReleaseContext
from mechanisms.pair_swapping.pairing import NOBODY
from resources.statements import SQL, Fragment, Zone
from resources.warehouse import Session

_NOT_SWAPPABLE = SQL("pair_swapping/not_swappable", "SELECT * FROM {{ records }} WHERE NOT swappable")

Context = ReleaseContext[PairSwappingRelease]


def pair_swapping_gates(release: PairSwappingRelease) -> list[Gate[PairSwappingRelease]]:
    """The gates that pair swapping adds. Whoever was paired is known only to who can repeat the draw."""
    repeated = [
        Gate[PairSwappingRelease](
            "pairs_disjoint",
            SWAPPED,
            "The draw, repeated, exchanges the places of disjoint pairs of households, each of one state, one number "
            "of adults and of minors and one tenure, and of two blocks.",
            lambda context: pair_problems(_again(context)),
        ),
        Gate[PairSwappingRelease](
            "rate_met",
            SWAPPED,
            "The draw, repeated, selects the declared share of the households of each state, rounded down, and every "
            "pair has a selected household.",
            lambda context: rate_problems(_again(context), context.release.design.swap_rate),
        ),
    ]
    return [
        Gate("households_of_the_cef", HOUSEHOLDS, "The coded households are those of the current CEF.", _households),
        *(repeated if release.can_replay else []),
        Gate(
            "nothing_but_place_changed",
            SWAPPED,
            "Counts of units by everything but their place, with their persons, are exact.",
            _held,
        ),
        Gate(
            "blocks_exact",
            SWAPPED,
            "Counts of units in every place by adults, minors, tenure and type are exact.",
            _places,
        ),
        Gate(
            "others_unchanged",
            SWAPPED,
            "Units that are no household, and imputed ones, are unchanged, with their persons and places.",
            _others,
        ),
    ]


def pair_problems(output: SwappedRecords) -> list[str]:
    """The ways in which the exchange is not one of disjoint pairs of possible partners, each with a count."""
    households, partner = output.households, output.swapped.partner
    moving = np.flatnonzero(partner != NOBODY)
    others = partner[moving]
    wrong = {
        "households that are not the partner of their partner": partner[others] != moving,
        "pairs of households that differ in what partners share": households.group[others] != households.group[moving],
        "pairs of households in one block": households.block[others] == households.block[moving],
    }
    return [problem for what, found in wrong.items() for problem in count_problem(int(found.sum()), what)]


def rate_problems(output: SwappedRecords, swap_rate: Fraction) -> list[str]:
    """The ways in which the selection is not the declared one, each with a count."""
    state, selected = output.households.state, output.swapped.selected
    there, chosen = np.bincount(state), np.bincount(state, weights=selected)
    missed = sum(int(number) != int(swap_rate * int(all_of)) for number, all_of in zip(chosen, there, strict=True))
    moving = np.flatnonzero(output.swapped.partner != NOBODY)
    neither = ~(selected[moving] | selected[output.swapped.partner[moving]])
    return [
        *count_problem(missed, "states with another number of selected households"),
        *count_problem(int(neither.sum()), "swapped households of which neither was selected"),
    ]


def _again(context: Context) -> SwappedRecords:
    method = context.method
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = method.describe(session, context.custody)
        output = make_output(method, session, draw, context.custody, context.ledger)
        assert isinstance(output, SwappedRecords)
        return output


def _households(context: Context) -> list[str]:
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        return differing_table(session, release.confidential(HOUSEHOLDS), households_recipe(session, release))


def _held(context: Context) -> list[str]:
    release = context.release
    held = [name for name in release.variables if name not in release.design.place]
    # Of the columns of the place, the state never changes.
    return _differing(context, ["TABBLKST", *held, "composition"], "units that differ in more than their place")


def _places(context: Context) -> list[str]:
    columns = [*context.release.design.place, "RTYPE", "TEN", "adults", "minors"]
    return _differing(context, columns, "units by place, type, tenure, adults and minors that differ")


def _others(context: Context) -> list[str]:
    columns = [*context.release.variables, "composition"]
    return _differing(context, columns, "units that are never swapped and differ", only_others=True)


def _differing(context: Context, columns: list[str], what: str, only_others: bool = False) -> list[str]:
    """The rows by which the CEF and the swapped records differ over some columns, as multisets."""
    release = context.release
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        tables = original(session, release), _swapped(session, release)
        if only_others:
            first, second = (
                session.stage(name, _NOT_SWAPPABLE, records=table)
                for name, table in zip(("others_before", "others_after"), tables, strict=True)
            )
            tables = first, second
        return count_problem(count_differences(session, *tables, columns), what)


def _swapped(session: Session, release: PairSwappingRelease) -> Fragment:
    return with_persons(session, release, "after", release.public(SWAPPED), release.public(SWAPPED_PERSONS), "unit")
