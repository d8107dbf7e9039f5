"""The charge of a population with a thousand different charges under a cap on their joint privacy curve."""

import time
from fractions import Fraction

from benchmarks.harness import Result, time_call
from mechanisms.accounting.losses import ConcentratedLoss, CurveLoss, PureLoss
from mechanisms.accounting.pairs import GaussianPair
from mechanisms.accounting.specification import Flavor, Line, Specification
from resources.chain import Details, Entry, make_reservation
from resources.ledger import Reading

CHARGES = 1_000
LIMIT = 1.0
"""Seconds of one core. No result is reused between charges."""

_CAP = CurveLoss(PureLoss(Fraction(100)), Fraction(1, 10**10))
_FLAVOR = Flavor("all persons", (), "person", None, ConcentratedLoss.output_premetric)


def measure() -> list[Result]:
    """The processor time of one further charge, from the ledger's entries."""
    entries: tuple[Entry, ...] = ()
    for number in range(CHARGES):
        release, details = f"release{number}", Details("people")
        entry = make_reservation(entries, "people", release, f"{number:064}", _specify(number), "0" * 64, details)
        entries = (*entries, entry)
    reading = Reading(entries, ())
    seconds, _ = time_call(
        lambda: reading.require_chargeable("people", "next", _specify(CHARGES), _CAP, Details("people")),
        time.process_time,
    )
    return [Result(f"the charge after {CHARGES:,} others under a cap on the curve (s)", seconds, LIMIT)]


def _specify(number: int) -> Specification:
    """Two cells with a variance of their own."""
    pair = GaussianPair(Fraction(400 + number))
    loss = ConcentratedLoss(1 / pair.variance)
    return Specification(_FLAVOR, loss, (Line("cells", loss, (pair, pair)),))
