"""The values that plans exchange: requests, planned lines, charts, and the plan of a draft declaration.

A plan reads no record. `Method.plan` makes one from a declaration, `orchestration.planning` from a declaration with
other fields. `assets.planning` derives budgets and charts from lines, and shows plans.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import dagster as dg
from pydantic import Field

from mechanisms.accounting.losses import Loss
from mechanisms.accounting.specification import Specification

Cells = tuple[Sequence[str], Sequence[Sequence[str]]]
"""A small table for readers: its header and its rows."""


class PlanRequest(dg.Config):
    """Values to try instead of the declared ones. Neither the release nor its tables change."""

    fields: dict[str, Any] = Field(
        default_factory=dict,
        description="Fields of the defs.yaml in place of the declared ones. Mappings are merged, null removes a field, "
        "and anything else replaces what is declared.",
    )
    margins: dict[str, Any] = Field(
        default_factory=dict,
        description="For each line: the wanted 90% margin of error of one number, from which the budget follows.",
    )
    total: Any = Field(
        default=None,
        description="The wanted charge, ρ or ε as declared. All budgets are multiplied by one number; in swapping, the "
        "swap rate is the smallest in millionths.",
    )
    posterior: Any = Field(
        default=None,
        description="The wanted risk, instead of a total: the largest probability with which an attacker who knows "
        "every other record picks the true one of two values.",
    )
    prior: Any = Field(
        default="1/2", description="For a posterior: the probability that one of the values had before the publication."
    )
    largest_stratum: int | None = Field(
        default=None,
        description="In swapping: b, the number of records of the largest stratum with two distinct records. By "
        "default, that of the published edition.",
    )

    records: int | None = Field(
        default=None,
        ge=1,
        description="The expected number of persons, or of units if there are none, for the expected time, memory and "
        "disk. By default, that of a generated dataset; that of other datasets is not public.",
    )

    @property
    def is_empty(self) -> bool:
        """Whether the plan follows the declaration unchanged."""
        return self.model_copy(update={"records": None}) == PlanRequest()


@dataclass(frozen=True)
class Line:
    """Numbers that are measured with the same noise.

    Attributes:
        name: the name under which a wanted margin is given, such as `PH3 state_A-G`.
        budget: ρ or ε as declared, exact: for one record added or removed, and in TopDown for one changed.
        standard_error: of one number, in the unit of the numbers.
        margin: the noise of one number is within this margin in at least 90% of draws.
        margin_at: the margin at another budget; it does not grow with the budget.
        numbers: the count of numbers measured in one place or group; None if unknown.
        level: the geographic level in words, for charts; "" if there is none.
        title: the line in words, for charts; "" if its name is in words.
    """

    name: str
    counted: str
    budget: Fraction
    standard_error: float
    margin: float = field(init=False)
    margin_at: Callable[[Fraction], float | Fraction] = field(compare=False, repr=False)
    numbers: int | None = None
    level: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "margin", float(self.margin_at(self.budget)))


@dataclass(frozen=True)
class Curve:
    """A chart with a line for each series of points, which ascend by x, and marks for the planned values: name, x and
    y.

    The axes are given in words. If one is logarithmic, its numbers are greater than 0.
    """

    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    marks: Sequence[tuple[str, float, float]] = ()
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Plan:
    """The charge and accuracy that a release would have.

    Attributes:
        specification: the DP specification that a charge states; None if the release charges nothing, or if its loss
            depends on unknown values. If `is_bound`, its loss is an upper bound of the charged loss.
        lines: the numbers measured with noise.
        facts, tables: further facts in words, by label, and further small tables, by title.
        problem: why a charge would be refused whatever else is charged, as a sentence; or "".
        fewest: the fewest units in which two data sets differ that agree on the invariants and differ at all.
    """

    specification: Specification | None
    lines: tuple[Line, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Cells] = field(default_factory=dict)
    curves: tuple[Curve, ...] = ()
    is_bound: bool = False
    problem: str = ""
    fewest: int = 1

    @property
    def loss(self) -> Loss | None:
        """The loss to charge; None as for `specification`."""
        return self.specification.charge if self.specification else None
