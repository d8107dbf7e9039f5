"""The comparison of a dataset's releases as stored tables, with losses both exact and rounded up to 4 decimals.

This module builds columns and rows from a `comparison`.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

import pyarrow as pa

from assets.ledger.comparison import Charge
from mechanisms.accounting.conversions import bun_steinke, canonne_kamath_steinke
from mechanisms.accounting.losses import ConcentratedLoss, Loss
from mechanisms.accounting.rounding import DECIMALS
from mechanisms.accounting.specification import DELTA, Total

_EXACT = ("rational", "ln", "rho", "delta")

_COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "release": (pa.string(), "Name of the release"),
    "entry": (pa.int64(), "Number of the charge in the ledger"),
    "latest": (pa.bool_(), "Whether the release has no later charge; earlier charges count too"),
    "settled": (pa.bool_(), "Whether the draw was made"),
    "domain": (pa.string(), "Who is eligible for protection"),
    "unit": (pa.string(), "Unit whose change the loss bounds"),
    "changes_per_person": (
        pa.int64(),
        "Maximal number of units that a change of one person's characteristics changes",
    ),
    "neighbors": (pa.string(), "bounded: a unit changes; unbounded: a unit is added or removed"),
    "output_premetric": (pa.string(), "How changes of the output's distribution are measured"),
    "invariants": (pa.list_(pa.string()), "Statistics on which all compared data sets agree"),
    "loss": (pa.float64(), "ε or ρ, rounded up; infinite if no finite loss holds"),
    "rational": (pa.string(), "Rational part of ε, exact"),
    "ln": (pa.string(), "Argument of the logarithm in ε, exact"),
    "rho": (pa.string(), "ρ, exact"),
    "delta": (pa.string(), "δ, exact"),
    "epsilon": (pa.float64(), "ε of ρ at δ = conversion_delta by Canonne, Kamath and Steinke, rounded up"),
    "epsilon_bun_steinke": (pa.float64(), "ε of ρ at δ = conversion_delta by Bun and Steinke, rounded up"),
    "conversion_delta": (pa.string(), "δ at which ρ is converted"),
    "charges": (pa.int64(), "Number of charges that the total counts"),
    "left_out": (pa.list_(pa.string()), "Number of charges that the total does not count, with the reasons"),
}
COLUMNS = {name: words for name, (_, words) in _COLUMNS.items()}


def make_totals_table(totals: Sequence[Total]) -> pa.Table:
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
    return _table(["unit", "output_premetric", "loss", *_EXACT, "charges", "left_out"], rows)


def make_releases_table(charges: Iterable[Charge], delta: Fraction = DELTA) -> pa.Table:
    """One row for each charge, from which the totals can be recomputed; `latest` marks one row for each release."""
    names = [name for name in COLUMNS if name not in ("charges", "left_out")]
    return _table(names, [_row(charge, delta) for charge in charges])


def _table(names: Sequence[str], rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, _COLUMNS[name][0]) for name in names]))


def _row(charge: Charge, delta: Fraction) -> dict[str, object]:
    flavor, loss = charge.specification.flavor, charge.specification.loss
    row: dict[str, object] = {
        "release": charge.release,
        "entry": charge.entry.sequence,
        "latest": charge.latest,
        "settled": charge.settled is not None,
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
            "epsilon": float(canonne_kamath_steinke(loss, delta, DECIMALS)),
            "epsilon_bun_steinke": float(bun_steinke(loss, delta, DECIMALS)),
            "conversion_delta": str(delta),
        }
    return row


def _loss(loss: Loss) -> dict[str, object]:
    exact = loss.as_record()
    return {"loss": float(loss.round_up()), **{name: exact.get(name) for name in _EXACT}}
