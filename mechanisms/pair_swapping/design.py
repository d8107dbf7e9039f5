"""The parameters of targeted pair swapping, and its specification: ε = ∞.

Source: Bailie, Gong and Meng, Appendix C.2: swapping disjoint pairs is not transitive on the universe that its
invariants induce, so that neighbors have other possible outputs. `tests/mechanisms/pair_swapping` enumerates some.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mechanisms.accounting.losses import InfiniteLoss
from mechanisms.accounting.specification import Flavor, Specification
from mechanisms.design import DesignError

MECHANISM = "pair swapping 2010"

WEIGHTS = (1, 2, 4, 8, 16)
"""The weight of each risk in the selection: of risk 1 first. They rise, and none is 0."""


@dataclass(frozen=True)
class PairSwappingDesign:
    """How households are selected and what they exchange.

    By the key variables, households that are alone with their values in a place have a higher risk; `swap_rate` is the
    share of each state's households that is selected, and `place` has the variables that partners exchange. Variables
    are stored in alphabetical order, so that designs with the same meaning are equal. Raises DesignError if there is no
    key variable, or one is named twice, or the swap rate is not above 0 and at most 1.
    """

    unit: str
    key: tuple[str, ...]
    swap_rate: Fraction
    place: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", tuple(sorted(self.key)))
        object.__setattr__(self, "place", tuple(sorted(self.place)))
        if not self.key:
            raise DesignError("key: at least one key variable is needed to tell which households are unique")
        if repeated := [name for name in self.key if self.key.count(name) > 1]:
            raise DesignError(f"key: {repeated[0]} is named twice")
        if not 0 < self.swap_rate <= 1:
            raise DesignError(f"swap_rate: it is above 0 and at most 1, not {self.swap_rate}")

    @property
    def invariants(self) -> tuple[str, ...]:
        return (
            f"the number of {self.unit}s in each state by everything but their place, each with its persons",
            "the number of households in each block by adults × minors × tenure",
            f"every {self.unit} that is no household, and every imputed one, with its place",
        )

    def as_record(self) -> dict[str, Any]:
        """The design as exact plain values, equal for designs with the same draws."""
        return {
            "key": list(self.key),
            "swap_rate": str(self.swap_rate),
            "place": list(self.place),
            "weights": list(WEIGHTS),
        }

    def specification(self, dataset: str) -> Specification:
        """The specification of all that is tabulated from the swapped data: no finite ε."""
        flavor = Flavor(
            domain=f"all possible files of {self.unit}s and persons with the variables of {dataset}",
            multiverse=self.invariants,
            unit=self.unit,
            changes_per_person=1,
            output_premetric=InfiniteLoss.output_premetric,
        )
        return Specification(flavor, InfiniteLoss())
