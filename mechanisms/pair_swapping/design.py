"""The parameters of targeted pair swapping, and its specification: ε = ∞.

Source: Bailie, Gong and Meng, Appendix C.2: swapping disjoint pairs is not transitive on the universe that its
invariants induce, so neighbors have different possible outputs. `tests/mechanisms/pair_swapping` enumerates some.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from mechanisms.accounting.losses import InfiniteLoss
from mechanisms.accounting.specification import Flavor, Specification
from mechanisms.design import DesignError

MECHANISM = "pair swapping 2010"

WEIGHTS = (1, 2, 4, 8, 16)
"""The weight of each risk in the selection: of risk 1 first. They rise, and none is 0."""


ALWAYS = ("block", "block_group", "tract", "county")
"""The places in which households that are unique may always be selected: those of risk 2, 3, 4 or 5 on."""

Steps = tuple[tuple[Fraction, Fraction], ...]
"""Ascending numbers, each with the factor that applies from it on; below the first, the factor is 1."""


@dataclass(frozen=True)
class RiskFactors:
    """The factors that multiply the weight of a household's risk. A household with a factor of 0 is not selected, but
    may be a partner.

    Source: Bailie, Gong and Meng, Appendix C, Step 1, A to E; the Census Bureau did not publish the factors of 2010.
    Raises DesignError if steps do not ascend.

    Attributes:
        block_size: by the number of households in the block, including imputed ones.
        unique_race: for a household with a person whose race no one outside the household in the block has: the
            variable of persons, and the factor.
        block_imputation: by the share of the block's households that are imputed.
        imputed_items: by a number stored with the unit: the variable, and the steps.
        always_selected: the place in which a household that is unique on the key variables is always selected.
    """

    block_size: Steps = ()
    unique_race: tuple[str, Fraction] | None = None
    block_imputation: Steps = ()
    imputed_items: tuple[str, Steps] | None = None
    always_selected: str | None = None

    def __post_init__(self) -> None:
        _, items = self.imputed_items or ("", ())
        for name, steps in (
            ("block_size", self.block_size), ("block_imputation", self.block_imputation), ("imputed_items", items)
        ):  # fmt: skip
            if any(before[0] >= after[0] for before, after in pairwise(steps)):
                raise DesignError(f"risk_factors: {name}: every step is at least more than the one before")

    def as_record(self) -> dict[str, Any]:
        """The declared factors as plain values; empty if there are none."""
        return {name: _as_plain(value) for name, value in vars(self).items() if value}


def _as_plain(value: Any) -> Any:
    return list(map(_as_plain, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class PairSwappingDesign:
    """How households are selected, and the variables that they exchange.

    Households that are unique in a place on the key variables have a higher risk; `swap_rate` is the share of each
    state's households that is selected, and `place` has the variables that partners exchange. Variables are stored in
    alphabetical order, so that designs with the same meaning are equal. Raises DesignError if there is no key variable,
    or one is named twice, or the swap rate is not above 0 and at most 1.
    """

    unit: str
    key: tuple[str, ...]
    swap_rate: Fraction
    place: tuple[str, ...]
    risk_factors: RiskFactors = RiskFactors()

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
            **({"risk_factors": factors} if (factors := self.risk_factors.as_record()) else {}),
        }

    def specification(self, dataset: str) -> Specification:
        """The specification of all tabulations of the swapped data: no finite ε."""
        flavor = Flavor(
            domain=f"all possible files of {self.unit}s and persons with the variables of {dataset}",
            multiverse=self.invariants,
            unit=self.unit,
            changes_per_person=1,
            output_premetric=InfiniteLoss.output_premetric,
        )
        return Specification(flavor, InfiniteLoss())
