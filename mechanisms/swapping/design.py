"""A swapping design, and the DP specification that follows from it.

This module defines the roles of the variables and the wording of the guarantee. Source: Bailie, Gong and Meng,
Proposition 4, Definition 2 and Theorem 1.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mechanisms.accounting.specification import PERSON, PERSON_RECORD, Flavor, Specification
from mechanisms.swapping.loss import odds, theorem_1


class DesignError(ValueError):
    """A swapping design that cannot be carried out."""


@dataclass(frozen=True)
class SwappingDesign:
    """What is swapped, within which strata, and how often.

    Variables of one role are stored in alphabetical order, so that designs with the same meaning are equal.

    Attributes:
        unit: the record that is swapped, in words, such as "household". It is "person" only if a change of one person
            changes one record, and otherwise "person record" (`mechanisms.accounting.specification`).
        match: the match variables (swap key): records are swapped only with records equal on these.
        swap: the swap variables: moved between the selected records.
        held: the remaining holding variables: kept.
        swap_rate: p, the probability with which a record is selected.
        persons: the variables of the unit's persons, who are part of its record and move with it; empty if they are
            not.

    Raises:
        DesignError: if no variable is swapped or none is held, a variable has two roles, or p is not strictly
            between 0 and 1.
    """

    unit: str
    match: tuple[str, ...]
    swap: tuple[str, ...]
    held: tuple[str, ...]
    swap_rate: Fraction
    persons: tuple[str, ...]

    def __post_init__(self) -> None:
        for role in ("match", "swap", "held", "persons"):
            object.__setattr__(self, role, tuple(sorted(getattr(self, role))))
        if not self.swap:
            raise DesignError("swap: at least one variable must be swapped")
        if not self.holding:
            raise DesignError("holding: at least one variable must be held, or nothing would change")
        both = [name for name in self.swap if name in self.match]
        if both:
            raise DesignError(f"swap: {', '.join(both)} cannot be a swap variable and a match variable at once")
        roles = (*self.match, *self.swap, *self.held)
        twice = sorted({name for name in roles if roles.count(name) > 1})
        if twice:
            raise DesignError(f"{', '.join(twice)}: a variable has one role")
        try:
            odds(self.swap_rate)
        except ValueError as error:
            raise DesignError(f"swap_rate: {error}") from None

    @property
    def holding(self) -> tuple[str, ...]:
        """All holding variables: the match variables first."""
        return (*self.match, *self.held)

    @property
    def invariants(self) -> tuple[str, ...]:
        """The two margins that swapping preserves, in words (Proposition 4)."""
        persons = [f"the {self.unit}'s persons, each with {_listed(self.persons)}"] if self.persons else []
        held = [*self.holding, *persons]
        return (
            f"the number of {self.unit}s by {_listed(held)}",
            f"the number of {self.unit}s by {_listed((*self.match, *self.swap))}",
        )

    def as_record(self) -> dict[str, Any]:
        """The design as exact plain values, equal for designs with the same draws."""
        return {
            "unit": self.unit,
            "persons": list(self.persons),
            "match": list(self.match),
            "swap": list(self.swap),
            "held": list(self.held),
            "swap_rate": str(self.swap_rate),
        }

    def specification(self, dataset: str, largest_stratum: int) -> Specification:
        """The DP specification of all products tabulated from the swapped data (Theorem 1).

        Args:
            dataset: its name, for the domain.
            largest_stratum: b, the largest stratum that holds two distinct records; 0 if there is none.
        """
        persons = f", each with the persons in it, by {_listed(self.persons)}" if self.persons else ""
        flavor = Flavor(
            domain=f"all possible files of {self.unit}s with the variables of {dataset}: "
            f"{_listed((*self.match, *self.swap, *self.held))}{persons}",
            multiverse=self.invariants,
            unit=self.unit,
            changes_per_person=None if self.unit in (PERSON, PERSON_RECORD) else 1,
        )
        return Specification(flavor, theorem_1(largest_stratum, self.swap_rate))


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return " × ".join(names) if names else "nothing else (their total)"
