"""Swap rates that vary: by stratum, by record, and zero for exempt records.

A varying rate is a list of cases over match and holding values, each with an exact rational rate; the first case that
fits a record gives its rate. A record's rate never depends on its swap values: between two data sets of one universe,
the swap values are what differs, so a rate that followed from them (or from a score that counts them, such as how rare
a household is in its block) would differ too, and with it the rates of other records, whose number has no bound.

Source: Bailie, Gong and Meng, Appendix C.2; the loss is derived in `docs/mechanisms/swapping-extensions.md`.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.losses import PureLoss
from mechanisms.swapping.loss import odds

FINEST = 10**6
"""The denominator of the rates that are looked for to attain a given ε."""

EXEMPT = Fraction(0)


@dataclass(frozen=True)
class Case:
    """The swap rate of the records that fit some conditions; without conditions, of all.

    Attributes:
        when: by variable, the values that fit; in alphabetical order of the variables.
        at_most: how many records at most may share the values that rarity is counted by; None for any number.
        rate: the swap rate, strictly between 0 and 1; `EXEMPT` for records that are never selected.
    """

    when: tuple[tuple[str, tuple[Any, ...]], ...]
    at_most: int | None
    rate: Fraction

    def as_record(self) -> dict[str, Any]:
        record: dict[str, Any] = {"rate": str(self.rate)}
        if self.when:
            record["when"] = {name: sorted(map(str, values)) for name, values in self.when}
        if self.at_most is not None:
            record["at_most"] = self.at_most
        return record


@dataclass(frozen=True)
class Rates:
    """The swap rates of all records: a single one, or rates that vary between strata or records.

    Attributes:
        cases: the cases, of which the first that fits counts; if `epsilon` is given, only that of exempt records.
        rarity_of: the holding variables by which rarity is counted; None for the whole combination of holding values.
        epsilon: the ε that every stratum attains with the smallest rate that gives it; None if the cases give rates.
        is_single: whether the rate was declared as one number. A swap with a single rate is plain, and its draw id
            differs from the one of a swap whose only case has the same rate.

    Raises:
        ValueError: if there are neither cases nor an ε, or other cases than that of exempt records beside an ε; or if a
            case, or `rarity_of`, could never count.
    """

    cases: tuple[Case, ...] = ()
    rarity_of: tuple[str, ...] | None = None
    epsilon: Fraction | None = None
    is_single: bool = False

    @classmethod
    def single(cls, rate: Fraction) -> Self:
        return cls((Case((), None, rate),), is_single=True)

    def __post_init__(self) -> None:
        if self.epsilon is None and not self.cases:
            raise ValueError("rates that vary have cases, or one ε for all strata")
        if self.epsilon is not None and any(case.rate != EXEMPT for case in self.cases):
            raise ValueError("rates follow from cases or from one ε for all strata, not from both")
        if any(not case.when and case.at_most is None for case in self.cases[:-1]):
            raise ValueError("a case of the swap rate without conditions fits all, so those after it would never count")
        if self.rarity_of is not None and not self.counts_rarity:
            raise ValueError("rarity_of: no case of the swap rate has at_most, so rarity would never count")

    @property
    def single_rate(self) -> Fraction | None:
        """The rate that was declared as one number; None if rates vary."""
        return self.cases[0].rate if self.is_single else None

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(sorted({name for case in self.cases for name, _ in case.when} | set(self.rarity_of or ())))

    @property
    def counts_rarity(self) -> bool:
        return any(case.at_most is not None for case in self.cases)

    def as_record(self) -> str | dict[str, Any]:
        if self.is_single:
            return str(self.single_rate)
        if self.epsilon is not None:
            return {"epsilon": str(self.epsilon)}
        record: dict[str, Any] = {"cases": [case.as_record() for case in self.cases]}
        if self.counts_rarity:
            record["rarity_of"] = "all holding variables" if self.rarity_of is None else list(self.rarity_of)
        return record


@dataclass(frozen=True)
class Stir:
    """Who is swapped with whom, and how often: strata and swap rates of all groups of records.

    A *group* consists of records with the same holding values, or is a whole stratum. All its records have one rate.

    Attributes:
        stratum: shape (groups,), the number of the group's stratum, ascending from 0.
        rate_class: shape (groups,), the position of the group's rate in `rates`.
        rates: the rates; `EXEMPT` for records that are never selected, which are whole strata.

    Raises:
        ValueError: if a stratum has exempt records and others.
    """

    stratum: NDArray[np.int32]
    rate_class: NDArray[np.int32]
    rates: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        exempt = np.array([rate == EXEMPT for rate in self.rates], dtype=bool)[self.rate_class]
        if np.any((np.diff(self.stratum) == 0) & (exempt[1:] != exempt[:-1])):
            raise ValueError("a stratum consists of exempt records, or of none")

    def of_groups(self, groups: NDArray[Any]) -> "Stir":
        """The same for selected groups, such as the group of each cell of a contingency table."""
        return Stir(self.stratum[groups], self.rate_class[groups], self.rates)


@dataclass(frozen=True)
class StirLoss:
    """What a stir costs, and on what that depends.

    Attributes:
        largest_stratum: b, the largest stratum that counts; 0 if none does.
        lowest: the lowest rate in a stratum that counts; None if there is none.
        highest: the highest rate in such a stratum.
    """

    strata: int
    largest_stratum: int
    exempt: int
    lowest: Fraction | None
    highest: Fraction | None
    loss: PureLoss


def loss_of_stir(stir: Stir, records: NDArray[np.int64], counts: NDArray[np.bool_]) -> StirLoss:
    """The exact loss: the greatest over strata of ln((n + 1) / o_min) and ln o_max.

    n is the number of records of the stratum, o = p / (1 - p), and o_min and o_max are over its records.

    Args:
        records: shape (groups,), the number of records in each group.
        counts: shape (strata,), whether the stratum can hold two distinct records. Exempt strata do not count.
    """
    if not len(stir.stratum):
        return StirLoss(0, 0, 0, None, None, PureLoss())
    order = np.array(sorted(range(len(stir.rates)), key=lambda place: stir.rates[place]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks = rank[stir.rate_class]
    firsts = np.flatnonzero(np.diff(stir.stratum, prepend=-1))
    sizes = np.add.reduceat(records, firsts)
    exempt = np.array([rate == EXEMPT for rate in stir.rates], dtype=bool)[stir.rate_class[firsts]]
    lowest, highest = np.minimum.reduceat(ranks, firsts), np.maximum.reduceat(ranks, firsts)
    counted = counts & ~exempt & (sizes > 1)
    kinds = np.unique(np.stack([lowest[counted], highest[counted], sizes[counted]], axis=1), axis=0)
    by_rates: dict[tuple[int, int], int] = {}
    for low, high, size in kinds.tolist():
        by_rates[low, high] = max(size, by_rates.get((low, high), 0))
    arguments = [
        max((size + 1) / odds(stir.rates[order[low]]), odds(stir.rates[order[high]]))
        for (low, high), size in by_rates.items()
    ]
    return StirLoss(
        strata=len(firsts),
        largest_stratum=int(sizes[counted].max(initial=0)),
        exempt=int(sizes[exempt].sum()),
        lowest=min((stir.rates[order[low]] for low, _ in by_rates), default=None),
        highest=max((stir.rates[order[high]] for _, high in by_rates), default=None),
        loss=PureLoss.logarithm(max(arguments)) if arguments else PureLoss(),
    )


def smallest_rate(size: int, epsilon: Fraction) -> Fraction:
    """The smallest swap rate, in steps of 1 / `FINEST`, at which a stratum of some size loses at most ε.

    Args:
        size: the number of records; at least 2.
        epsilon: ε.

    Raises:
        ValueError: if no rate gives ε: the smallest possible is ½ ln(size + 1).
    """
    limit = PureLoss(epsilon)

    def low_enough(steps: int) -> bool:
        return PureLoss.logarithm(max(Fraction(1), (size + 1) / odds(Fraction(steps, FINEST)))) <= limit

    first, last = 0, FINEST - 1
    if not low_enough(last):
        raise ValueError(_unattainable(size, epsilon))
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if low_enough(middle) else (middle, last)
    rate = Fraction(last, FINEST)
    if odds(rate) > 1 and not PureLoss.logarithm(odds(rate)) <= limit:
        raise ValueError(_unattainable(size, epsilon))
    return rate


def _unattainable(size: int, epsilon: Fraction) -> str:
    return (
        f"no swap rate gives ε = {epsilon} in a stratum of {size:,} records; the smallest there is "
        f"{np.log(size + 1) / 2:.4f}"
    )


def rates_of_sizes(sizes: NDArray[np.int64], epsilon: Fraction) -> tuple[NDArray[np.int32], tuple[Fraction, ...]]:
    """The smallest rate that gives ε in each stratum: its position in the rates, and the rates.

    A stratum of one record is never stirred, and gets the rate of a stratum of two.
    """
    distinct, place = np.unique(np.maximum(sizes, 2), return_inverse=True)
    return place.astype(np.int32), tuple(smallest_rate(size, epsilon) for size in distinct.tolist())


def expected_selected(stir: Stir, records: NDArray[np.int64]) -> float:
    """The share of all records that is selected on average; from the rates and the sizes of groups alone.

    In a stratum, K records are selected independently, anew if K = 1. So the mean is
    (Σ p - P(K = 1)) / (1 - P(K = 1)), with P(K = 1) = Π (1 - p) Σ o.
    """
    if not len(stir.stratum):
        return 0.0
    rate = np.array([float(each) for each in stir.rates])[stir.rate_class]
    firsts = np.flatnonzero(np.diff(stir.stratum, prepend=-1))
    sizes = np.add.reduceat(records, firsts)
    none = np.exp(np.add.reduceat(records * np.log1p(-rate), firsts))
    one = none * np.add.reduceat(records * rate / (1 - rate), firsts)
    mean = np.add.reduceat(records * rate, firsts)
    stirred = sizes > 1
    selected = (mean[stirred] - one[stirred]) / (1 - one[stirred])
    return float(selected.sum() / (records.sum() or 1))
