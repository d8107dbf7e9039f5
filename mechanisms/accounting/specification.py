"""DP specifications, the five building blocks of Bailie, Gong and Meng, Section 2, and their composition."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from mechanisms.accounting.composition import compose_like, explain_exclusion
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, Loss, PureLoss, require_delta
from mechanisms.accounting.pairs import LossPair, Pair, TabulatedPair, read_pair

BOUNDED = "bounded"
UNBOUNDED = "unbounded"

PERSON, PERSON_RECORD = "person", "person record"
"""Two units that differ. A *person record* is a row of a file with one row for each person, which also has columns of
the unit that the person lives in. If these columns follow from the unit's persons, a change of one person changes the
rows of others, so a guarantee for one row is not a guarantee for one person."""

CONTRIBUTOR = "contributor"
"""The unit of totals for a person whose answers are in several records, because editing and imputation copied them
(Bailie, Gong and Meng, Section 5.2)."""

RECORDS_OF_OTHERS = "a change of one person can change the records of all persons in the same unit"
"""Why a guarantee for one person record bounds no change of a person."""

DELTA = Fraction(1, 10**10)
"""The default δ at which zCDP is reported as (ε, δ): the Census Bureau's."""

_LOSSES: dict[str, type[Loss]] = {
    kind.output_premetric: kind for kind in (PureLoss, ConcentratedLoss, ApproximateLoss, InfiniteLoss)
}


@dataclass(frozen=True)
class Flavor:
    """The kind of protection that a release gives: the first four building blocks.

    Attributes:
        domain: who is eligible for protection: the data sets considered.
        multiverse: the invariants in words. Data sets are compared only if they agree on all of them.
        unit: the granularity of the input premetric (Hamming distance): "household", "person" or "person record".
        changes_per_person: the most units that a change of one person's characteristics (not a move) can change; None
            if the unit is the person, or if there is no bound, as for person records.
        neighbors: "bounded" if the loss is for a change of one unit, "unbounded" if for adding or removing one.
        copies: k, the most records with the answers of one person, as the dataset now declares. The ledger does not
            record k: a charge is for one unit.
    """

    domain: str
    multiverse: tuple[str, ...]
    unit: str
    changes_per_person: int | None
    output_premetric: str = PureLoss.output_premetric
    neighbors: str = BOUNDED
    copies: int = 1

    def __post_init__(self) -> None:
        if self.neighbors not in (BOUNDED, UNBOUNDED):
            raise ValueError(f"neighbors are {BOUNDED} or {UNBOUNDED}, not {self.neighbors}")


@dataclass(frozen=True)
class Line:
    """A part of a release's loss: the cost of one independent measurement, and, if its noise is known, pairs of
    distributions whose product dominates the measurement. Lines with equal losses protect equally, with any noise."""

    label: str
    loss: Loss
    pairs: tuple[Pair, ...] = field(default=(), compare=False)

    def as_record(self, tables: list[dict[str, Any]]) -> dict[str, Any]:
        """Exact plain values. Pairs of tables, which many lines share, go to `tables`, each once."""
        noise: list[Any] = []
        for pair in self.pairs:
            record = pair.as_record()
            if record is None:
                return {"label": self.label, "loss": self.loss.as_record()}
            if isinstance(pair, TabulatedPair):
                if record not in tables:
                    tables.append(record)
                record = {"table": tables.index(record)}
            noise.append(record)
        return {"label": self.label, "loss": self.loss.as_record()} | ({"noise": noise} if noise else {})

    @classmethod
    def from_record(cls, record: dict[str, Any], kind: type[Loss], tables: Sequence[Pair]) -> Self:
        noise = record.get("noise", [])
        pairs = tuple(tables[one["table"]] if "table" in one else read_pair(one) for one in noise)
        return cls(record["label"], kind.from_record(record["loss"]), pairs)


@dataclass(frozen=True)
class Specification:
    """A DP flavor and its protection-loss budget (PLB), the fifth building block, which is the sum of its lines."""

    flavor: Flavor
    loss: Loss
    lines: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        if self.lines and compose_like(self.loss, [line.loss for line in self.lines]) != self.loss:
            raise ValueError("the lines of a specification do not add up to its loss")
        if self.loss.output_premetric != self.flavor.output_premetric:
            raise ValueError(
                f"a loss in the {self.loss.output_premetric} does not fit the flavor's output premetric, "
                f"the {self.flavor.output_premetric}"
            )

    @property
    def charge(self) -> Loss:
        """The loss that counts against a cap: for a change of one unit, or of one person if that is greater."""
        return self._bounded().of_group(self.flavor.changes_per_person or 1)

    def loss_for(self, unit: str) -> Loss | None:
        """The loss for a change of one unit of some kind; None if the guarantee does not cover such a change.

        A contributor's answers are in `copies` persons' records, whose losses are kε and k²ρ by group privacy.
        """
        if unit == CONTRIBUTOR:
            person = self.loss_for(PERSON)
            try:
                return person and person.of_group(self.flavor.copies)
            except ValueError:
                # A δ of 1 or more is no guarantee.
                return None
        if unit == self.flavor.unit:
            return self._bounded()
        if unit == PERSON and self.flavor.changes_per_person:
            return self._bounded().of_group(self.flavor.changes_per_person)
        return None

    @property
    def charged_pairs(self) -> tuple[Pair, ...]:
        """Pairs whose product dominates the change whose loss is `charge`."""
        pairs = self.find_pairs(PERSON if self.flavor.changes_per_person else self.flavor.unit)
        assert pairs is not None
        return pairs

    def find_pairs(self, unit: str) -> tuple[Pair, ...] | None:
        """Pairs whose product dominates a change of one unit of some kind; None if the guarantee does not cover it."""
        loss = self.loss_for(unit)
        if loss is None:
            return None
        if loss != self.loss or not self.lines:
            return (LossPair(loss),)
        return tuple(pair for line in self.lines for pair in line.pairs or (LossPair(line.loss),))

    def _bounded(self) -> Loss:
        # A change is a removal and an addition. A mechanism with a smaller known loss states its bounded loss itself.
        return self.loss.of_group(2) if self.flavor.neighbors == UNBOUNDED else self.loss

    def with_copies(self, copies: int) -> "Specification":
        return replace(self, flavor=replace(self.flavor, copies=copies))

    def protects_like(self, other: "Specification") -> bool:
        """Whether both have the same loss, lines and unit, even if worded differently."""
        own, others = (
            (stated.loss, stated.lines, stated.flavor.unit, stated.flavor.changes_per_person, stated.flavor.neighbors)
            for stated in (self, other)
        )
        return own == others

    def as_record(self) -> dict[str, Any]:
        flavor = asdict(self.flavor) | {"multiverse": list(self.flavor.multiverse)}
        del flavor["copies"]
        tables: list[dict[str, Any]] = []
        parts = {"lines": [line.as_record(tables) for line in self.lines], "tables": tables}
        return {"flavor": flavor, "loss": self.loss.as_record()} | {name: part for name, part in parts.items() if part}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        flavor = record["flavor"] | {"multiverse": tuple(record["flavor"]["multiverse"])}
        kind = _LOSSES[flavor["output_premetric"]]
        tables = [read_pair(table) for table in record.get("tables", [])]
        lines = tuple(Line.from_record(line, kind, tables) for line in record.get("lines", []))
        return cls(Flavor(**flavor), kind.from_record(record["loss"]), lines)


@dataclass(frozen=True)
class Total:
    """The composition of specifications for one unit and one output premetric. It holds within the universes that share
    every invariant of `multiverse`; `left_out` has a sentence for each reason to leave specifications out."""

    unit: str
    output_premetric: str
    loss: Loss
    releases: int
    multiverse: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def compose(specifications: Iterable[Specification], delta: Fraction = DELTA) -> tuple[Total, ...]:
    """The total losses of one dataset's releases for a change of one unit, by unit and output premetric.

    In a total for persons, a guarantee for another unit counts as one for a group of `changes_per_person` units. If a
    dataset declares `copies`, there is also a total for contributors, in which a guarantee for persons counts as one
    for a group of `copies` persons.

    Each output premetric in which a release states its loss has a total. It adds up the losses from which a loss in
    this premetric follows, and lists the releases that it leaves out. Along with a total in zCDP, there is one in (ε,
    δ), whose δ is `delta` plus the releases' own δs. If a loss is infinite, there is also a total of ∞, which counts
    every release; no other total counts that loss.
    """
    require_delta(delta)
    composed = list(specifications)
    units = {specification.flavor.unit for specification in composed}
    if any(specification.flavor.changes_per_person for specification in composed):
        units.add(PERSON)
    if any(specification.flavor.copies > 1 for specification in composed):
        units.add(CONTRIBUTOR)
    totals = [total for unit in units for total in _totals(unit, composed, delta)]
    return tuple(sorted(totals, key=lambda total: (total.unit, total.output_premetric)))


def explain_omission(specification: Specification, unit: str, limit: Loss) -> str | None:
    """Why a specification does not count in a unit's total, in the output premetric of a limit; None if it does."""
    loss = specification.loss_for(unit)
    if loss is None:
        own = specification.flavor.unit
        if unit == CONTRIBUTOR and specification.loss_for(PERSON) is not None:
            return f"for a group of {specification.flavor.copies}, its δ grows to 1 or more, which guarantees nothing"
        because = f": {RECORDS_OF_OTHERS}" if own == PERSON_RECORD and unit in (PERSON, CONTRIBUTOR) else ""
        return f"a guarantee for one {own} bounds no change of a {unit}{because}"
    return explain_exclusion(loss, limit)


def _totals(unit: str, specifications: Sequence[Specification], delta: Fraction) -> Iterator[Total]:
    losses = [loss for specification in specifications if (loss := specification.loss_for(unit)) is not None]
    kinds = {type(loss) for loss in losses}
    own_deltas = sum(loss.delta for loss in losses if isinstance(loss, ApproximateLoss))
    limits: list[Loss] = [PureLoss()] if PureLoss in kinds else []
    if ConcentratedLoss in kinds:
        limits.append(ConcentratedLoss())
    if kinds & {ConcentratedLoss, ApproximateLoss} and delta + own_deltas < 1:
        limits.append(ApproximateLoss(PureLoss(), delta + own_deltas))
    if InfiniteLoss in kinds:
        limits.append(InfiniteLoss())
    for limit in limits:
        reasons = [explain_omission(specification, unit, limit) for specification in specifications]
        group = [specification for specification, reason in zip(specifications, reasons, strict=True) if reason is None]
        left_out = Counter(reason for reason in reasons if reason is not None)
        yield Total(
            unit,
            limit.output_premetric,
            compose_like(
                limit, [loss for specification in group if (loss := specification.loss_for(unit)) is not None]
            ),
            len(group),
            tuple(dict.fromkeys(invariant for member in group for invariant in member.flavor.multiverse)),
            tuple(f"{count} release{'s' * (count > 1)}: {reason}" for reason, count in sorted(left_out.items())),
        )
