"""The facts of the ledger as plain rows: budgets, charges, entries, releases and totals.

`page` shows them as metadata; the command and the explorer show them as tables. `comparison` computes the contribution
of each charge to each total; `remarks` explains which losses add up.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from assets.conventions import join_names, shorten_digest
from assets.ledger.comparison import Charge, Comparison, Share, list_charges
from assets.ledger.population import Population
from assets.release.dataset import DatasetDeclaration
from mechanisms.accounting.composition import (
    DoesNotCompose,
    bun_steinke,
    canonne_kamath_steinke,
    compose_like,
    drop_infinite,
    fits,
    warn_of_infinite,
)
from mechanisms.accounting.losses import (
    ConcentratedLoss,
    CurveLoss,
    InfiniteLoss,
    Loss,
    PureLoss,
    format_loss,
    format_number,
)
from mechanisms.accounting.risks import compose_charges, enclose_charges
from mechanisms.accounting.rounding import DECIMALS
from mechanisms.accounting.specification import CONTRIBUTOR, DELTA, PERSON, Specification, explain_omission
from resources.chain import DIFFERENT_PEOPLE, NOT_CHARGED, PUBLIC_BECAUSE, RESERVE, Entry
from resources.ledger import Reading, find_bound, of_population, remaining

AUTOMATIC = "the declaration: the dataset is charged automatically"
"""The ledger's words for a charge that needed no authorization."""
AUTOMATICALLY = "automatic"
"""The same in a table."""
FOR_CONTRIBUTOR = "for one contributor"
"""The label of the text that `describe_contributor` returns."""
UNDECLARED = "no longer declared"
"""The words for the cap of a charged population that no dataset declares any more."""
NONE = "–"
_BLOCKS = 10
_MINUTES = len("2026-01-01T00:00")


@dataclass(frozen=True)
class Budget:
    """The charges to a population, or to one of its datasets, under its cap, if it is still declared."""

    name: str
    charges: tuple[Charge, ...]
    cap: Loss | None = None
    declared: tuple[str, ...] = ()

    @cached_property
    def comparison(self) -> Comparison:
        return Comparison(self.charges)

    @cached_property
    def _composed(self) -> tuple[Loss | None, str]:
        losses = drop_infinite(charge.loss for charge in self.charges)
        cap = self.cap or next(iter(losses), PureLoss())
        try:
            recorded = find_bound([charge.entry for charge in self.charges], cap)
            return recorded or compose_charges(cap, [charge.specification for charge in self.charges]), ""
        except DoesNotCompose as error:
            return None, str(error)

    @property
    def total(self) -> Loss | None:
        """The composition of the finite charges in the cap's output premetric, or without a cap in the first charge's;
        None if they do not compose.
        """
        return self._composed[0]

    @property
    def problem(self) -> str:
        """Why there is no total; "" if there is one."""
        return self._composed[1]

    @property
    def excess(self) -> str:
        """Why the charges do not, or may not, stay within the cap; "" if they do."""
        if self.cap is None:
            return ""
        if self.total is None:
            return f"a charge cannot be counted under the cap of {format_loss(self.cap)}: {self.problem}"
        if not fits(self.total, self.cap):
            return f"charged {format_loss(self.total)} exceeds the cap of {format_loss(self.cap)}"
        if isinstance(self.cap, CurveLoss):
            least, _ = enclose_charges((charge.specification for charge in self.charges), self.cap.delta)
            if least > self.total.round_up():
                return f"the ledger records {format_loss(self.total)}, but the charges have ε = {least:.4f} or more"
        return ""

    @property
    def spent(self) -> str:
        """The total without its δ, which the cap states, followed by ∞ if a charge is infinite."""
        infinite = len(self.comparison.infinite)
        parts = []
        if infinite < len(self.charges) or not self.charges:
            parts.append(_without_delta(self.total) if self.total else "does not add up")
        return ", and ".join([*parts, *([_without_delta(InfiniteLoss())] if infinite else [])])

    @property
    def left(self) -> str:
        if self.cap is None or self.total is None:
            return "unknown"
        return f"{self.cap.symbol} = {remaining(self.total, self.cap)}"

    @property
    def warning(self) -> str:
        """A sentence on charges without a finite loss; "" if there are none."""
        return warn_of_infinite(len(self.comparison.infinite))

    @property
    def of_contributor(self) -> str:
        """The total for one contributor, as `total`, in words; "" if no charged dataset declares copies."""
        losses = [charge.specification.loss_for(CONTRIBUTOR) for charge in self.charges]
        known = drop_infinite(loss for loss in losses if loss is not None)
        if all(charge.copies == 1 for charge in self.charges):
            return ""
        try:
            total = format_loss(compose_like(self.cap or next(iter(known), PureLoss()), known))
        except DoesNotCompose as error:
            total = f"no total: {error}"
        return f"{total}, and {unknown} charges without such a loss" if (unknown := losses.count(None)) else total

    def as_of(self, last: Charge) -> "Budget":
        """The budget as it was after a charge."""
        return replace(self, charges=self.charges[: self.charges.index(last) + 1])


def find_budget(dataset: DatasetDeclaration, reading: Reading) -> Budget:
    """The budget of a dataset's population. Raises LedgerError if the ledger is not intact."""
    entries = of_population(reading.require_intact(), dataset.population)
    return Budget(dataset.population, list_charges(entries), dataset.cap)


def list_budgets(entries: Sequence[Entry], populations: Iterable[Population]) -> dict[str, Budget]:
    """By name, the budgets of the declared populations, and of charged populations that are no longer declared."""
    budgets = {
        population.name: Budget(
            population.name,
            list_charges(
                of_population(entries, population.name),
                {dataset.name: dataset.copies for dataset in population.datasets},
            ),
            population.cap,
            tuple(dataset.name for dataset in population.datasets),
        )
        for population in populations
    }
    for entry in entries:
        # Draws from public data are not charged; if their dataset were declared confidential, they would be.
        details = entry.parse_details()
        if entry.kind == RESERVE and not details.public and (name := details.population) not in budgets:
            budgets[name] = Budget(name, list_charges(of_population(entries, name)))
    return budgets


def list_budget_records(reading: Reading, populations: Iterable[Population]) -> list[dict[str, Any]]:
    """For each budget of `list_budgets`: its declared datasets, cap, charges and remainder. For scripts."""
    populations = tuple(populations)
    asks = {population.name: population.datasets[0].asks for population in populations}
    budgets = list_budgets(() if reading.problems else reading.entries, populations)
    unknown = {"beside": "", "contributor": "", "charged": "unknown: the ledger is not intact", "left": "unknown"}
    return [
        {
            "population": name,
            "datasets": list(budget.declared),
            "cap": format_loss(budget.cap) if budget.cap else UNDECLARED,
            "charging": {True: "asks", False: "automatic", None: NONE}[asks.get(name)],
            "beside": budget.warning,
            "contributor": budget.of_contributor,
            "charged": format_loss(budget.total) if budget.total else f"cannot be added up: {budget.problem}",
            "left": budget.left,
        }
        | (unknown if reading.problems else {})
        for name, budget in budgets.items()
    ]


def format_charge(reservation: Entry) -> str:
    """The loss of a charge, or of a draw from public data, which is not charged."""
    loss = format_loss(reservation.parse_specification().charge)
    return f"{loss} ({NOT_CHARGED})" if reservation.parse_details().public else loss


def describe_contributor(specification: Specification) -> str:
    """The loss of a person whose answers are in `copies` records, or why none is known; "" if all are in one."""
    if specification.flavor.copies == 1:
        return ""
    loss = specification.loss_for(CONTRIBUTOR)
    words = format_loss(loss) if loss else explain_omission(specification, CONTRIBUTOR, InfiniteLoss())
    return f"{words}, because one person's answers can be in {specification.flavor.copies} records"


def list_entry_records(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [
        {
            "entry": entry.sequence,
            "kind": entry.kind,
            "release": f"{entry.dataset}/{entry.release}",
            "population": entry.parse_details().population,
            "charged": format_charge(entry) if entry.kind == RESERVE else "",
            "public": entry.parse_details().public,
            "public_because": entry.parse_details().authorization.get(PUBLIC_BECAUSE, ""),
            "authorized_by": entry.parse_details().authorization.get("by", ""),
            "withdrawn_by": entry.parse_withdrawer(),
            "different_people": entry.parse_details().authorization.get(DIFFERENT_PEOPLE, ""),
            "recorded_at": entry.recorded_at,
            "draw_id": entry.draw_id,
        }
        for entry in entries
    ]


def list_budget_rows(budgets: Iterable[Budget]) -> list[dict[str, str]]:
    """A row for each population, and one for each of its datasets if it has another name."""
    rows = []
    for budget in budgets:
        cap, total = budget.cap, budget.total
        row = {"of": budget.name, "spent": budget.spent, "left": NONE, "of the cap": UNDECLARED}
        if cap:
            at_delta = format_loss(cap).partition(" at ")[2]
            of_cap = f"of\u00a0{cap.round_up()}" + (f" {keep_together(f'at {at_delta}')}" if at_delta else "")
            share = f"{draw_share(float(total) / float(cap))} " if total else ""
            row |= {"left": str(remaining(total, cap)) if total else NONE, "of the cap": f"{share}{of_cap}"}
        rows.append(row)
        for dataset in dict.fromkeys([*budget.declared, *budget.comparison.datasets]):
            if dataset != budget.name:
                charges = tuple(charge for charge in budget.charges if charge.entry.dataset == dataset)
                spent = replace(budget, charges=charges).spent
                rows.append({"of": f"– dataset {dataset}", "spent": spent, "left": NONE, "of the cap": NONE})
    return rows


def list_charge_rows(
    budgets: Iterable[Budget], replays: Mapping[str, str] | None = None, most: int | None = None
) -> list[dict[str, str]]:
    """A row for each charge, in the order of the ledger.

    Args:
        budgets: the budgets of the populations whose charges are listed.
        replays: by draw id, when the draw was last replayed and with which result.
        most: the number of latest charges to list; None for all.
    """
    pairs = [(charge, budget) for budget in budgets for charge in budget.charges]
    pairs.sort(key=lambda pair: pair[0].entry.sequence)
    return [
        {
            "entry": str(charge.entry.sequence),
            "release": describe_draw(charge),
            "loss": " at\u00a0".join(keep_together(part) for part in format_loss(charge.loss).split(" at ")),
            "total": budget.as_of(charge).spent,
            "unit": charge.specification.flavor.unit,
            "draw": shorten_digest(charge.entry.draw_id),
            "commitment": shorten_digest(charge.entry.commitment),
            "custody": charge.custody,
            "authorized by": AUTOMATICALLY if charge.authorized_by == AUTOMATIC else charge.authorized_by,
            "settled": f"entry {charge.settled.sequence}, {format_minute(charge.settled.recorded_at)}"
            if charge.settled
            else "not drawn",
            "last replay": _describe_replay(charge, replays or {}),
        }
        for charge, budget in (pairs[-most:] if most else pairs)
    ]


def _describe_replay(charge: Charge, replays: Mapping[str, str]) -> str:
    if not charge.settled:
        # The check that repeats draws fails until this draw is made, which `not drawn` shows already.
        return NONE
    return "impossible" if charge.custody == "ephemeral" else replays.get(charge.entry.draw_id, "none seen")


def describe_draw(charge: Charge) -> str:
    edition = f"edition {charge.edition}" if charge.edition else "not drawn"
    withdrawn = f", withdrawn in entry {charge.withdrawn.sequence}" if charge.withdrawn else ""
    return f"{charge.entry.dataset} / {charge.entry.release}, {keep_together(edition)}{withdrawn}"


def list_release_rows(comparison: Comparison) -> list[dict[str, str]]:
    """A row for each release, by its latest charge, with its DP specification. Only a ρ has an ε at `DELTA`."""
    rows = []
    for charge in comparison.latest:
        flavor, loss = charge.specification.flavor, charge.specification.loss
        row = {
            "release": charge.release if charge.settled else f"{charge.release} (charged, not drawn yet)",
            "unit": f"{flavor.unit} ({flavor.neighbors})",
            "loss": format_loss(loss),
            "charges": str(len(comparison.find_charges(charge.release))),
            "output premetric": loss.output_premetric,
            "exactly": str(loss),
            "invariants": str(len(flavor.multiverse)),
        }
        if isinstance(loss, ConcentratedLoss):
            row |= {
                "ε": str(canonne_kamath_steinke(loss, DELTA, DECIMALS)),
                "by Bun and Steinke": str(bun_steinke(loss, DELTA, DECIMALS)),
            }
        rows.append(row)
    return rows


def list_total_rows(comparison: Comparison) -> list[dict[str, str]]:
    """A row for each total; its last column names the releases that it counts or leaves out, with the reasons."""
    rows = []
    for total in comparison.totals:
        shares = comparison.list_shares(total)
        reasons: dict[str, dict[str, None]] = {}
        for share in shares:
            if share.reason is not None:
                reasons.setdefault(share.reason, {})[share.charge.release] = None
        left_out = "; ".join(f"{join_names(list(releases))}: {reason}" for reason, releases in reasons.items())
        # A total for persons does not bound a person's move between the units of a release that it counts.
        units = {share.charge.specification.flavor.unit for share in shares if share.loss is not None}
        moves = total.unit in (PERSON, CONTRIBUTOR) and units - {PERSON}
        by_curve = comparison.bound_by_curve(total)
        rows.append(
            {
                "unit": f"{total.unit} (no moves)" if moves else total.unit,
                "output premetric": total.output_premetric,
                "loss": format_loss(total.loss),
                "by curve": "" if by_curve is None else f" (ε = {by_curve} by the exact curve of the noise)",
                "charges": str(total.releases),
                "counts": f"{join_names(list_counted(shares))}, with {len(total.multiverse)} invariants; leaves out "
                f"{left_out or 'nothing'}",
            }
        )
    return rows


def list_invariant_rows(comparison: Comparison) -> list[dict[str, str]]:
    """A row for each invariant: the releases that hold it, and the releases that held it only in an earlier charge."""
    latest = {charge.release: charge.specification.flavor.multiverse for charge in comparison.latest}
    return [
        {
            "invariant": invariant,
            "releases": join_names(
                [f"{name}{'' if invariant in latest[name] else ' in an earlier charge'}" for name in releases]
            ),
        }
        for invariant, releases in comparison.invariants.items()
    ]


def list_counted(shares: Iterable[Share]) -> list[str]:
    return list(dict.fromkeys(share.charge.release for share in shares if share.loss is not None))


def draw_share(share: float) -> str:
    """A share as a bar of ten blocks and a percentage. Only 0 has no block, and only 1 has ten."""
    blocks = _BLOCKS if share >= 1 else min(_BLOCKS - 1, max(round(_BLOCKS * share), 1 if share > 0 else 0))
    percent = "under 1" if 0 < share < 0.01 else "over 99" if 0.99 < share < 1 else f"{100 * share:.0f}"
    return f"{'█' * blocks}{'░' * (_BLOCKS - blocks)} {keep_together(percent)}\u00a0%"


def keep_together(text: str) -> str:
    return text.replace(" ", "\u00a0")


def write_minute(recorded_at: str) -> str:
    """A time of an entry or run, to the minute."""
    return recorded_at[:_MINUTES].replace("T", " ")


def format_minute(recorded_at: str) -> str:
    return keep_together(write_minute(recorded_at).replace("-", "\N{NON-BREAKING HYPHEN}"))


def _without_delta(loss: Loss) -> str:
    return keep_together(f"{loss.symbol} = {format_number(loss)}")
