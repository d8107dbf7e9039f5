"""The plan of a swapping release: ε by the largest stratum and the swap rate, and the effects of a swap on counts.

ε depends on b, the number of records of the largest stratum with two distinct records, which is an invariant. Before
the invariants are published, b is a guess. An earlier edition with the same invariants has published it.
"""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.release.plan import Cells, Curve, Plan
from assets.release.signature import CERTIFICATE
from assets.swapping.release import SwappingRelease
from assets.swapping.statement import FEWEST, LARGEST_STRATUM, SWAP_KEY, variable_words
from mechanisms.accounting.losses import PureLoss, format_loss, format_number
from mechanisms.swapping.design import SwappingDesign
from mechanisms.swapping.loss import EXEMPT, odds, smallest_attainable, smallest_rate, theorem_1
from mechanisms.swapping.response import loss_of_responses
from mechanisms.swapping.uncertainty import LEAST_KEPT, laws, moments
from resources.regular import read_regular

SIZES = (100, 10_000, 1_000_000)
"""Values of b that the plan shows if b is unknown."""

RATES = tuple(map(Fraction, ("1/100", "1/20", "1/10", "1/4", "1/2")))
"""Swap rates that the plan shows beside the declared one."""

STRATA = (2, 3, 5, 10, 100)
"""Sizes of strata for which the plan shows the effects of a swap."""

LARGEST = 10**9
"""The largest b for which there is a plan: beyond it, floats overflow."""

_GRID = np.arange(1, 200) / 200


def swapping_plan(release: SwappingRelease, largest_stratum: int | None = None) -> Plan:
    """The charge of a swap and its effects on counts.

    The largest stratum, b, is by default the published edition's. With a second stir, b is the largest stratum of that
    stir. Raises ValueError if b is negative, 1 or above `LARGEST`.
    """
    design = release.design
    b, words = _stratum(release, largest_stratum)
    loss = _loss(design, b)
    facts = {} if design.noise else {"largest stratum b": _NOT_KNOWN if b is None else f"{b:,}, {words}"}
    if b and not design.noise:
        least, rate_of_least = smallest_attainable(b)
        facts["smallest ε attainable for this b"] = f"{least:.4f}, at p = {rate_of_least:.6f}"
        if design.plain_rate is not None:
            share = float(laws(b, design.plain_rate)[0])
            facts["expected share of records that move"] = f"{share:.4f} of the largest stratum"
    if design.noise:
        facts["ε"] = "the noise before the swap determines it, for any b"
    elif _has_varying_rates(design):
        facts["ε"] = "at most this: rates differ, and ε depends on the sizes of all strata"
    if release.declaration.withheld:
        swap = "depends on b" if loss is None else format_loss(loss)
        facts["charge"] = "none by this release; tables that are counted from its records are charged by themselves"
        facts["loss of the swap, where its margins are held fixed"] = swap
    rates = _rates(design)
    tables: dict[str, Cells] = {}
    if not design.noise:
        tables["ε by largest stratum and swap rate"] = _tabulate_epsilons(b, rates)
    for rate in rates[:1]:
        tables[f"What a swap with p = {float(rate):g} does, by size of stratum"] = _tabulate_effects(b, rate)
    charged = None if loss is None or release.declaration.withheld else design.specification(release.dataset.name, loss)
    curves = () if design.noise else (_curve(b, rates),)
    return Plan(
        charged,
        facts=facts,
        tables=tables,
        curves=curves,
        is_bound=_has_varying_rates(design),
        fewest=1 if design.noise else FEWEST,
    )


def rate_for(release: SwappingRelease, largest_stratum: int | None, epsilon: Fraction) -> Mapping[str, Any] | Fraction:
    """The declared field `swap_rate` with which a swap charges at most ε. Raises ValueError if there is none."""
    design = release.design
    if design.noise or design.second_stir:
        raise ValueError(
            "total: ε does not follow from swap_rate alone here, so change the fields that it follows from"
        )
    if design.swap_rate.epsilon is not None:
        return {"epsilon": epsilon}
    if not design.swap_rate.is_single:
        raise ValueError("total: swap rates differ, so change the rate of each case")
    b, _ = _stratum(release, largest_stratum)
    if b is None:
        raise ValueError(f"total: largest_stratum: {_NOT_KNOWN}")
    if b == 0:
        raise ValueError("total: with b = 0, ε is 0 at every swap rate")
    return smallest_rate(b, epsilon)


def _stratum(release: SwappingRelease, given: int | None) -> tuple[int | None, str]:
    """b, if it is known, and its origin. Raises ValueError if b is negative, 1 or above `LARGEST`."""
    b, words = (published_stratum(release), "of the published edition") if given is None else (given, "as given")
    if b is not None:
        theorem_1(b, Fraction(1, 2))
        if b > LARGEST:
            raise ValueError(f"largest_stratum: there are plans for up to {LARGEST:,} records only")
    return b, words


def published_stratum(release: SwappingRelease) -> int | None:
    """b in the certificate of the published edition, if the edition has the strata, invariants and exempt records of
    this release, which has no second stir; otherwise None. Callers that rely on b verify the publication."""
    try:
        record = json.loads(read_regular(release.folder / CERTIFICATE))
        if tuple(record["invariants"]["as_charged"]) != release.design.invariants:
            return None
        parameters = {parameter["label"]: parameter["value"] for parameter in record["mechanism"]["parameters"]}
        words = variable_words(release)
        # The certificate sorts them by their words.
        if sorted(parameters[SWAP_KEY]) != sorted(words[name] for name in release.design.match):
            return None
        b = parameters[LARGEST_STRATUM]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return b if isinstance(b, int) and release.design.second_stir is None else None


_NOT_KNOWN = "it is unknown before the invariants are published; give a guess, such as b of an earlier census"


def _has_varying_rates(design: SwappingDesign) -> bool:
    return not (design.noise or design.second_stir or design.swap_rate.is_single)


def _rates(design: SwappingDesign) -> list[Fraction]:
    """The declared swap rates that determine the loss, without the rate of exempt records."""
    if design.second_stir and not design.noise:
        return [design.second_stir.swap_rate]
    return sorted({case.rate for case in design.rates.cases if case.rate != EXEMPT})


def _loss(design: SwappingDesign, b: int | None) -> PureLoss | None:
    """The charged loss, or an upper bound of it if rates vary; None if it is unknown."""
    if design.noise:
        return loss_of_responses(design.noise)
    rates = _rates(design)
    if not rates:
        return None if design.swap_rate.epsilon is None else PureLoss(design.swap_rate.epsilon)
    if b is None:
        return None
    return PureLoss() if b == 0 else PureLoss.logarithm(max((b + 1) / odds(rates[0]), odds(rates[-1])))


def _tabulate_epsilons(b: int | None, rates: list[Fraction]) -> Cells:
    """ε by swap rate; if b is known, also for half and twice that b, because it may be a guess."""
    sizes = sorted({max(2, b // 2), b, 2 * b}) if b else SIZES
    rows = [
        [f"{float(rate):g}", *(format_number(theorem_1(size, rate)) for size in sizes)]
        for rate in sorted({*RATES, *rates})
    ]
    return ["p", *(f"b = {size:,}" for size in sizes)], [
        *rows,
        ["smallest", *(f"{smallest_attainable(size)[0]:.4f}" for size in sizes)],
    ]


def _tabulate_effects(b: int | None, rate: Fraction) -> Cells:
    """By size of stratum: the share of records that move; c, the share of a count's deviation from independence that a
    swap keeps (`mechanisms.swapping.uncertainty`); and the factor by which the variance of estimates grows."""
    rows = []
    for size in sorted({*STRATA, *([b] if b else [])}):
        kept = float(moments(size, rate).kept)
        growth = "no estimate" if abs(kept) < LEAST_KEPT else f"{1 / kept**2:.4f}"
        rows.append([f"{size:,}", f"{float(laws(size, rate)[0]):.4f}", f"{kept:.4f}", growth])
    return ["records", "moved p̃", "kept c", "variance 1/c²"], rows


def _curve(b: int | None, rates: list[Fraction]) -> Curve:
    marks = [] if not b else [(f"p = {float(rate):g}", float(rate), float(theorem_1(b, rate))) for rate in rates]
    return Curve(
        "Protection loss by swap rate and largest stratum",
        "Swap rate p",
        "ε (Theorem 1)",
        {
            f"b = {size:,}": list(zip(_GRID.tolist(), estimate_epsilon(size, _GRID).tolist(), strict=True))
            for size in ([b] if b else SIZES)
        },
        marks,
    )


def estimate_epsilon(b: int, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Theorem 1 in floating point, for b > 0; `mechanisms.swapping.loss.theorem_1` gives the exact value."""
    log_odds = np.log(rates / (1 - rates))
    return np.maximum(np.log(b + 1) - log_odds, log_odds)
