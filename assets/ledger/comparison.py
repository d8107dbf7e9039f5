"""A population's releases side by side: what was charged for each, and what each charge contributes to which total.

This module computes values from ledger entries. `mechanisms.accounting` composes losses, `words` describes the
comparison, and `charts` draws it. The form is that of Bailie, Gong and Meng, Table 4: different flavors stand side by
side, and only what composes is added.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from mechanisms.accounting.approximate import ApproximateLoss
from mechanisms.accounting.composition import NOT_FINITE, Conversion, Loss, conversion, finite, total_like
from mechanisms.accounting.infinite import InfiniteLoss
from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.specification import Specification, Total, compose, why_left_out
from mechanisms.accounting.zcdp import ConcentratedLoss
from resources.chain import RESERVE, SETTLE, Entry


@dataclass(frozen=True)
class Charge:
    """A reservation of the population's budget.

    Attributes:
        entry: the number of the reservation in the ledger.
        release: the release that was charged; with its dataset, if the population has several.
        specification: the DP specification that was charged.
        settled: whether the draw was made.
        latest: whether the release has no later charge.
    """

    entry: int
    release: str
    specification: Specification
    settled: bool
    latest: bool


@dataclass(frozen=True)
class Share:
    """The contribution of a charge to a total.

    Attributes:
        charge: the charge.
        loss: its contribution, in the form in which the total adds it: ρ in a total of ρ, ε in a total of ε, and
            either in a total under approximate DP, which adds all ρ and then converts their sum. None if the charge
            does not count.
        reason: why it does not count; None if it does.
    """

    charge: Charge
    loss: Loss | None
    reason: str | None = None


@dataclass(frozen=True)
class Comparison:
    """All charges of a population and their totals.

    Attributes:
        charges: the charges in the order of the ledger.
        totals: one total for each unit and output premetric.
        datasets: the datasets that were charged.
    """

    charges: tuple[Charge, ...]
    totals: tuple[Total, ...]
    datasets: tuple[str, ...] = ()

    @property
    def latest(self) -> tuple[Charge, ...]:
        """The last charge of each release."""
        return tuple(charge for charge in self.charges if charge.latest)

    @property
    def infinite(self) -> tuple[Charge, ...]:
        """The charges with an infinite loss, which no cap bounds."""
        return tuple(charge for charge in self.charges if isinstance(charge.specification.charge, InfiniteLoss))

    def of(self, release: str) -> tuple[Charge, ...]:
        """All charges of a release."""
        return tuple(charge for charge in self.charges if charge.release == release)

    @cached_property
    def invariants(self) -> dict[str, tuple[str, ...]]:
        """Every invariant in words, with all releases that held it in any of their charges."""
        found: dict[str, dict[str, None]] = {}
        for charge in self.charges:
            for words in charge.specification.flavor.multiverse:
                found.setdefault(words, {})[charge.release] = None
        return {words: tuple(releases) for words, releases in found.items()}

    def counted(self, cap: Loss) -> Loss:
        """The composition of all finite charges in the output premetric of a cap, whatever their units.

        Raises:
            DoesNotCompose: if one of them cannot be stated in that premetric.
        """
        return total_like(cap, finite(charge.specification.charge for charge in self.charges))

    def shares(self, total: Total) -> tuple[Share, ...]:
        """The contribution of each charge to one of the totals, or the reason why it does not count."""
        return tuple(_share(charge, total) for charge in self.charges)

    def shares_of_cap(self, cap: Loss) -> tuple[Share, ...]:
        """The contribution of each charge to the sum that is compared with a cap; all finite ones must count."""
        return tuple(
            Share(charge, None, NOT_FINITE)
            if isinstance(charge.specification.charge, InfiniteLoss)
            else Share(charge, _in_premetric(charge.specification.charge, cap))
            for charge in self.charges
        )


def compare(entries: Iterable[Entry]) -> Comparison:
    """The comparison of a population's releases.

    Args:
        entries: the population's entries of an intact ledger, in order.
    """
    listed = list(entries)
    reserved = [entry for entry in listed if entry.kind == RESERVE]
    datasets = tuple(dict.fromkeys(entry.dataset for entry in reserved))
    several = len(datasets) > 1
    names = {entry.sequence: f"{entry.dataset}/{entry.release}" if several else entry.release for entry in reserved}
    settled = {entry.draw_id for entry in listed if entry.kind == SETTLE}
    last = {names[entry.sequence]: entry.sequence for entry in reserved}
    charges = tuple(
        Charge(
            entry=entry.sequence,
            release=names[entry.sequence],
            specification=entry.declared(),
            settled=entry.draw_id in settled,
            latest=last[names[entry.sequence]] == entry.sequence,
        )
        for entry in reserved
    )
    return Comparison(charges, compose(charge.specification for charge in charges), datasets)


def converted(shares: Iterable[Share], total: Loss) -> Conversion | None:
    """The part of a total in approximate DP that is converted from zCDP; None for totals in other premetrics."""
    if not isinstance(total, ApproximateLoss):
        return None
    return conversion([share.loss for share in shares if share.loss is not None], total.delta)


def takes_part(loss: Loss, conversion: Conversion | None) -> bool:
    """Whether a share is converted together with others, and so has no separate contribution to the total."""
    if conversion is None:
        return False
    return isinstance(loss, ConcentratedLoss) or (isinstance(loss, PureLoss) and conversion.takes_pure)


def _share(charge: Charge, total: Total) -> Share:
    reason = why_left_out(charge.specification, total.unit, total.loss)
    loss = charge.specification.loss_for(total.unit)
    if reason is not None or loss is None:
        return Share(charge, None, reason)
    return Share(charge, _in_premetric(loss, total.loss))


def _in_premetric(loss: Loss, total: Loss) -> Loss:
    if isinstance(total, ConcentratedLoss) and isinstance(loss, PureLoss):
        return ConcentratedLoss.of_pure(loss)
    return loss
