"""The comparison of a dataset's releases as stored tables: exact, and rounded up to 4 decimals.

Here belong columns and rows. What they are made from belongs in `comparison`.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

import pyarrow as pa

from assets.ledger.comparison import Charge
from mechanisms.accounting.composition import Loss
from mechanisms.accounting.conversions import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.specification import DELTA, Total
from mechanisms.accounting.zcdp import ConcentratedLoss

PLACES = 4
_EXACT = ("rational", "ln", "rho", "delta")

COLUMNS = {
    "release": "The release",
    "entry": "Number of the charge in the ledger",
    "latest": "Whether the release has no later charge; earlier ones count all the same",
    "settled": "Whether the draw was made",
    "domain": "Who is eligible for protection",
    "unit": "Whose change the loss is for",
    "changes_per_person": "Units that a change of one person's characteristics changes at most",
    "neighbors": "bounded: a unit changes; unbounded: a unit is added or removed",
    "output_premetric": "How changes of the output's distribution are measured",
    "invariants": "Data sets are compared only with those that agree on all of these",
    "loss": "ε or ρ, rounded up",
    "rational": "Rational part of ε, exact",
    "ln": "What the logarithm in ε is taken of, exact",
    "rho": "ρ, exact",
    "delta": "δ, exact",
    "epsilon": "ε of a ρ at δ = conversion_delta by Canonne, Kamath and Steinke, rounded up",
    "epsilon_bun_steinke": "The same by Bun and Steinke",
    "conversion_delta": "δ at which a ρ is converted",
    "charges": "Charges that the total counts",
    "left_out": "How many charges the total does not count, and why",
}
"""What the columns of both tables say."""


def totals_table(totals: Sequence[Total]) -> pa.Table:
    """One row a total."""
    schema = pa.schema(
        [
            ("unit", pa.string()),
            ("output_premetric", pa.string()),
            ("loss", pa.float64()),
            *((name, pa.string()) for name in _EXACT),
            ("charges", pa.int64()),
            ("left_out", pa.list_(pa.string())),
        ]
    )
    rows = [
        {
            "unit": total.unit,
            "output_premetric": total.output_premetric,
            **_loss(total.loss),
            "charges": total.releases,
            "left_out": list(total.left_out),
        }
        for total in totals
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def releases_table(charges: Iterable[Charge], delta: Fraction = DELTA) -> pa.Table:
    """One row a charge, so that the totals can be added up again from it; `latest` marks one row a release."""
    schema = pa.schema(
        [
            ("release", pa.string()),
            ("entry", pa.int64()),
            ("latest", pa.bool_()),
            ("settled", pa.bool_()),
            ("domain", pa.string()),
            ("unit", pa.string()),
            ("changes_per_person", pa.int64()),
            ("neighbors", pa.string()),
            ("output_premetric", pa.string()),
            ("invariants", pa.list_(pa.string())),
            ("loss", pa.float64()),
            *((name, pa.string()) for name in _EXACT),
            ("epsilon", pa.float64()),
            ("epsilon_bun_steinke", pa.float64()),
            ("conversion_delta", pa.string()),
        ]
    )
    return pa.Table.from_pylist([_row(charge, delta) for charge in charges], schema=schema)


def _row(charge: Charge, delta: Fraction) -> dict[str, object]:
    flavor, loss = charge.specification.flavor, charge.specification.loss
    row: dict[str, object] = {
        "release": charge.release,
        "entry": charge.entry,
        "latest": charge.latest,
        "settled": charge.settled,
        "domain": flavor.domain,
        "unit": flavor.unit,
        "changes_per_person": flavor.changes_per_person,
        "neighbors": flavor.neighbors,
        "output_premetric": flavor.output_premetric,
        "invariants": list(flavor.multiverse),
        **_loss(loss),
    }
    if isinstance(loss, ConcentratedLoss):
        row |= {
            "epsilon": float(canonne_kamath_steinke(loss, delta, PLACES)),
            "epsilon_bun_steinke": float(bun_steinke(loss, delta, PLACES)),
            "conversion_delta": str(delta),
        }
    return row


def _loss(loss: Loss) -> dict[str, object]:
    exact = loss.as_record()
    return {"loss": float(loss.rounded_up(PLACES)), **{name: exact.get(name) for name in _EXACT}}
