"""A dataset's releases side by side: what was charged for each, and what of it counts in which total.

Here belong values made of ledger entries. How losses add up belongs in `mechanisms.accounting`; what the comparison
says in words belongs in `words`, how it is drawn in `charts`. The form is that of Bailie, Gong and Meng, Table 4:
unlike flavors stand beside each other, and only what composes is added.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from mechanisms.accounting.approximate import ApproximateLoss
from mechanisms.accounting.composition import Conversion, Loss, conversion, total_like
from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.specification import Specification, Total, compose, why_left_out
from mechanisms.accounting.zcdp import ConcentratedLoss
from resources.chain import RESERVE, SETTLE, Entry


@dataclass(frozen=True)
class Charge:
    """A reservation of the dataset's budget.

    Attributes:
        entry: its number in the ledger.
        release: what for.
        specification: the DP specification it was made for.
        settled: whether its draw was made.
        latest: whether the release has no later one.
    """

    entry: int
    release: str
    specification: Specification
    settled: bool
    latest: bool


@dataclass(frozen=True)
class Share:
    """What a charge counts in a total.

    Attributes:
        charge: which.
        loss: in the output premetric in which the total adds it: ρ where it adds ρ, ε where it adds ε, and either
            under approximate DP, where ρ is added first and converted then; None if it does not count.
        reason: why it does not count; None if it does.
    """

    charge: Charge
    loss: Loss | None
    reason: str | None = None


@dataclass(frozen=True)
class Comparison:
    """All charges of a dataset, and what they add up to.

    Attributes:
        charges: in the ledger's order.
        totals: one a unit and output premetric.
    """

    charges: tuple[Charge, ...]
    totals: tuple[Total, ...]

    @property
    def latest(self) -> tuple[Charge, ...]:
        """The last charge of each release."""
        return tuple(charge for charge in self.charges if charge.latest)

    def of(self, release: str) -> tuple[Charge, ...]:
        """All charges of a release."""
        return tuple(charge for charge in self.charges if charge.release == release)

    @cached_property
    def invariants(self) -> dict[str, tuple[str, ...]]:
        """Every invariant in words, with the releases that were ever charged within universes that share it."""
        found: dict[str, dict[str, None]] = {}
        for charge in self.charges:
            for words in charge.specification.flavor.multiverse:
                found.setdefault(words, {})[charge.release] = None
        return {words: tuple(releases) for words, releases in found.items()}

    def counted(self, cap: Loss) -> Loss:
        """What all charges come to in the output premetric of a cap, whatever their units.

        Raises:
            DoesNotCompose: if one of them is none in that premetric.
        """
        return total_like(cap, [charge.specification.charge for charge in self.charges])

    def shares(self, total: Total) -> tuple[Share, ...]:
        """What each charge counts in one of the totals, or why it does not."""
        return tuple(_share(charge, total) for charge in self.charges)

    def shares_of_cap(self, cap: Loss) -> tuple[Share, ...]:
        """What each charge counts against a cap that all of them count against."""
        return tuple(Share(charge, _in_premetric(charge.specification.charge, cap)) for charge in self.charges)


def compare(entries: Iterable[Entry]) -> Comparison:
    """The comparison of one dataset's releases.

    Args:
        entries: of the dataset, in the ledger's order, from a ledger that is intact.
    """
    listed = list(entries)
    reserved = [entry for entry in listed if entry.kind == RESERVE]
    settled = {entry.draw_id for entry in listed if entry.kind == SETTLE}
    last = {entry.release: entry.sequence for entry in reserved}
    charges = tuple(
        Charge(
            entry=entry.sequence,
            release=entry.release,
            specification=entry.declared(),
            settled=entry.draw_id in settled,
            latest=last[entry.release] == entry.sequence,
        )
        for entry in reserved
    )
    return Comparison(charges, compose(charge.specification for charge in charges))


def converted(shares: Iterable[Share], total: Loss) -> Conversion | None:
    """What a total in approximate DP converts from zCDP; None for a total that adds all it counts."""
    if not isinstance(total, ApproximateLoss):
        return None
    return conversion([share.loss for share in shares if share.loss is not None], total.delta)


def takes_part(loss: Loss, conversion: Conversion | None) -> bool:
    """Whether a share is converted together with others, and has no part of the total of its own."""
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
