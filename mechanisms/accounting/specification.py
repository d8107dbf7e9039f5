"""DP specifications: the five building blocks, and what of several specifications adds up.

Source: Bailie, Gong and Meng, Section 2. Here belong values and functions over them; nothing here knows a mechanism.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any, Self

from mechanisms.accounting.loss import PureLoss


@dataclass(frozen=True)
class Flavor:
    """What kind of protection a release gives: the first four building blocks.

    Attributes:
        domain: who is eligible for protection: the data sets considered.
        multiverse: where protection extends to: the invariants, each in words; data sets are compared only
            with those that agree on all of them.
        unit: the granularity of the input premetric (Hamming distance): "household", "person" or "record".
        changes_per_person: units that a change of one person's characteristics changes at most (a move from
            one unit to another is not meant), or None if the unit is the person.
        output_premetric: how changes of the output's distribution are measured.
    """

    domain: str
    multiverse: tuple[str, ...]
    unit: str
    changes_per_person: int | None
    output_premetric: str = "multiplicative distance (pure DP)"


@dataclass(frozen=True)
class Specification:
    """A DP flavor and its protection-loss budget (PLB), the fifth building block."""

    flavor: Flavor
    loss: PureLoss

    def protects_like(self, other: "Specification") -> bool:
        """Whether both say the same of loss, unit and output premetric, in whatever words."""
        return (self.loss, self.flavor.unit, self.flavor.output_premetric) == (
            other.loss,
            other.flavor.unit,
            other.flavor.output_premetric,
        )

    def as_record(self) -> dict[str, Any]:
        """The specification as plain values for JSON, without rounding."""
        flavor = asdict(self.flavor) | {"multiverse": list(self.flavor.multiverse)}
        return {"flavor": flavor, "loss": self.loss.as_record()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """The inverse of `as_record`."""
        flavor = record["flavor"] | {"multiverse": tuple(record["flavor"]["multiverse"])}
        return cls(Flavor(**flavor), PureLoss.from_record(record["loss"]))


@dataclass(frozen=True)
class Total:
    """The composition of specifications for one unit and one output premetric.

    Attributes:
        unit: whose change is measured.
        output_premetric: in which the losses were added.
        loss: their sum.
        releases: how many specifications went into it.
        multiverse: all invariants involved; the total holds within the universes that share every one.
    """

    unit: str
    output_premetric: str
    loss: PureLoss
    releases: int
    multiverse: tuple[str, ...]


def compose(specifications: Iterable[Specification]) -> tuple[Total, ...]:
    """Total losses of one dataset's releases, one a unit and output premetric.

    Losses add where unit and output premetric are the same. A guarantee for another unit counts towards
    persons as often as one person's change changes its units (`changes_per_person`). Nothing else is added:
    totals of different units stand side by side.
    """
    parts: dict[tuple[str, str], list[tuple[PureLoss, Flavor]]] = {}
    for specification in specifications:
        flavor, loss = specification.flavor, specification.loss
        parts.setdefault((flavor.unit, flavor.output_premetric), []).append((loss, flavor))
        if flavor.unit != "person" and flavor.changes_per_person:
            key = ("person", flavor.output_premetric)
            parts.setdefault(key, []).append((loss * flavor.changes_per_person, flavor))
    return tuple(
        Total(unit, premetric, reduce(add, (loss for loss, _ in group)), len(group), _refinement(group))
        for (unit, premetric), group in sorted(parts.items())
    )


def _refinement(group: Sequence[tuple[PureLoss, Flavor]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(invariant for _, flavor in group for invariant in flavor.multiverse))
