"""A population's releases side by side: the charges of each, and the contribution of each charge to each total.

This module computes values from ledger entries. `mechanisms.accounting` composes losses, `view` and `remarks` describe
the comparison, and `charts` draws it. The form follows Bailie, Gong and Meng, Table 4: different flavors stand side by
side, and only losses that compose are added.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from mechanisms.accounting.composition import NOT_FINITE, Conversion, convert
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, CurveLoss, InfiniteLoss, Loss, PureLoss
from mechanisms.accounting.risks import bound_epsilon
from mechanisms.accounting.rounding import DECIMALS
from mechanisms.accounting.specification import Specification, Total, compose, explain_omission
from resources.chain import DIFFERENT_PEOPLE, RESERVE, SETTLE, WITHDRAW, Entry

NOT_RECORDED = "not recorded"
"""The words for a name that an entry of an earlier version lacks."""


_IMPLIED_BY = {
    "whether a block has a housing unit or not": ("the number of housing units in each block",),
    "which blocks have at least one housing unit or group quarters": (
        "which blocks have a housing unit or group quarters, and the places they lie in",
    ),
}
"""By invariant, in the words of the mechanisms, the invariants that imply it."""


@dataclass(frozen=True)
class Charge:
    """A reservation, and the entries that settle and withdraw it, if there are any.

    Attributes:
        release: the charged release; with its dataset, if charges of several datasets are listed.
        latest: whether the release has no later charge.
        edition: the number of the draw's edition; None if the draw was not made.
        copies: the `copies` of its dataset, as declared now.
    """

    entry: Entry
    release: str
    latest: bool
    edition: int | None = None
    settled: Entry | None = None
    withdrawn: Entry | None = None
    copies: int = 1

    @cached_property
    def specification(self) -> Specification:
        return self.entry.parse_specification().with_copies(self.copies)

    @property
    def loss(self) -> Loss:
        return self.specification.charge

    @property
    def custody(self) -> str:
        return str(self.entry.parse_details().draw.get("parameters", {}).get("custody", "not recorded"))

    @property
    def authorized_by(self) -> str:
        return self.entry.parse_details().authorization.get("by", NOT_RECORDED)

    @property
    def different_people(self) -> str:
        """Why the records are about different people than another population's; "" if no reason was needed."""
        return self.entry.parse_details().authorization.get(DIFFERENT_PEOPLE, "")


@dataclass(frozen=True)
class Share:
    """The contribution of a charge to a total.

    Attributes:
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
    """All charges of a population, in the order of the ledger, and their totals."""

    charges: tuple[Charge, ...]

    @cached_property
    def totals(self) -> tuple[Total, ...]:
        """One total for each unit and output premetric."""
        return compose(charge.specification for charge in self.charges)

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(charge.entry.dataset for charge in self.charges))

    @property
    def latest(self) -> tuple[Charge, ...]:
        return tuple(charge for charge in self.charges if charge.latest)

    @property
    def infinite(self) -> tuple[Charge, ...]:
        """The charges with an infinite loss, which no cap bounds."""
        return tuple(charge for charge in self.charges if isinstance(charge.loss, InfiniteLoss))

    def find_charges(self, release: str) -> tuple[Charge, ...]:
        return tuple(charge for charge in self.charges if charge.release == release)

    @cached_property
    def invariants(self) -> dict[str, tuple[str, ...]]:
        """Each invariant in words, with all releases that held it in any of their charges."""
        holders: dict[str, dict[str, None]] = {}
        for charge in self.charges:
            for words in charge.specification.flavor.multiverse:
                holders.setdefault(words, {})[charge.release] = None
        return {words: tuple(releases) for words, releases in holders.items()}

    def find_implied(self, invariant: str) -> frozenset[str]:
        """The releases that hold another invariant from which this one follows."""
        implying = _IMPLIED_BY.get(invariant, ())
        return frozenset(release for words in implying for release in self.invariants.get(words, ()))

    def bound_by_curve(self, total: Total) -> Decimal | None:
        """ε of a total in (ε, δ) by the exact curve of all noise recorded in the ledger; None if it is not less."""
        if not isinstance(total.loss, ApproximateLoss):
            return None
        counted = [share.charge.specification for share in self.list_shares(total) if share.loss is not None]
        pairs = [pair for specification in counted for pair in specification.find_pairs(total.unit) or ()]
        epsilon = bound_epsilon(tuple(pairs), total.loss.delta)
        return epsilon if epsilon < total.loss.epsilon.round_up(DECIMALS) else None

    def list_shares(self, total: Total) -> tuple[Share, ...]:
        """The contribution of each charge to one of the totals, or the reason why it does not count."""
        return tuple(_share(charge, total) for charge in self.charges)

    def list_shares_of_cap(self, cap: Loss) -> tuple[Share, ...]:
        """The contribution of each charge to the sum that is compared with a cap; all finite charges must count. A cap
        on the curve has no sum, and so no shares."""
        if isinstance(cap, CurveLoss):
            return ()
        return tuple(
            Share(charge, None, NOT_FINITE)
            if isinstance(charge.loss, InfiniteLoss)
            else Share(charge, _in_premetric(charge.loss, cap))
            for charge in self.charges
        )


def compare(entries: Sequence[Entry]) -> Comparison:
    """The comparison of a population's releases, from its entries of an intact ledger, in order."""
    return Comparison(list_charges(entries))


def list_charges(entries: Sequence[Entry], copies: Mapping[str, int] | None = None) -> tuple[Charge, ...]:
    """The charges of an intact ledger, or of a part of one, in order; `copies` has each dataset's copies by name."""
    reserved = [entry for entry in entries if entry.kind == RESERVE]
    settled = {entry.draw_id: entry for entry in entries if entry.kind == SETTLE}
    withdrawn = {entry.draw_id: entry for entry in entries if entry.kind == WITHDRAW}
    editions: dict[str, int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for draw_id, entry in settled.items():
        counts[entry.dataset, entry.release] += 1
        editions[draw_id] = counts[entry.dataset, entry.release]
    several = len({entry.dataset for entry in reserved}) > 1
    last = {(entry.dataset, entry.release): entry.sequence for entry in reserved}
    return tuple(
        Charge(
            entry,
            f"{entry.dataset}/{entry.release}" if several else entry.release,
            last[entry.dataset, entry.release] == entry.sequence,
            editions.get(entry.draw_id),
            settled.get(entry.draw_id),
            withdrawn.get(entry.draw_id),
            (copies or {}).get(entry.dataset, 1),
        )
        for entry in reserved
    )


def find_conversion(shares: Iterable[Share], total: Loss) -> Conversion | None:
    """The part of a total in approximate DP that is converted from zCDP; None for totals in other premetrics."""
    if not isinstance(total, ApproximateLoss):
        return None
    return convert([share.loss for share in shares if share.loss is not None], total.delta)


def takes_part(loss: Loss, conversion: Conversion | None) -> bool:
    """Whether a share is converted together with others, and so has no separate contribution to the total."""
    if conversion is None:
        return False
    return isinstance(loss, ConcentratedLoss) or (isinstance(loss, PureLoss) and conversion.takes_pure)


def _share(charge: Charge, total: Total) -> Share:
    reason = explain_omission(charge.specification, total.unit, total.loss)
    loss = charge.specification.loss_for(total.unit)
    if reason is not None or loss is None:
        return Share(charge, None, reason)
    return Share(charge, _in_premetric(loss, total.loss))


def _in_premetric(loss: Loss, total: Loss) -> Loss:
    if isinstance(total, ConcentratedLoss) and isinstance(loss, PureLoss):
        return ConcentratedLoss.of_pure(loss)
    return loss
