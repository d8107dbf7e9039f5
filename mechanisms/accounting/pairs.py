"""Dominating pairs: for a part of a release, the two distributions of outcomes that are easiest to distinguish.

A pair (P, Q) dominates a measurement if δ(ε) = sup_S P(S) − e^ε Q(S) is, at every ε, not below the δ(ε) of any
neighbors in either order (Zhu, Dong and Wang, "Optimal Accounting of Differential Privacy via Characteristic Function",
2022). Measurements with independent noise are then dominated by the product of their pairs, whose privacy losses L = ln
P/Q are independent. `curves` composes them.

The noise of a cell is N under Q, and d + N under P. All noise here is log-concave on the integers, so P/Q increases,
the best tests are thresholds, and their power increases with d. So the pair of the largest shift of a cell dominates
the pairs of all smaller shifts, and the pair of an unchanged cell.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from mechanisms.accounting.losses import Loss

MOST_OUTCOMES = 1_000
"""The most recorded outcomes of tables: about 50,000 characters."""


class Pair:
    """A dominating pair. Equal pairs are composed together."""

    def as_record(self) -> dict[str, Any] | None:
        """Exact plain values, from which `read_pair` makes an equal pair; None for a pair that is not recorded."""
        return None


@dataclass(frozen=True)
class NoisePair(Pair):
    """A cell with noise that changes by `shift`."""

    distribution: ClassVar[str]

    def as_record(self) -> dict[str, Any]:
        return {"distribution": self.distribution} | {
            name: str(value) if isinstance(value, Fraction) else value for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class GaussianPair(NoisePair):
    """A cell with discrete Gaussian noise of parameter σ² that changes by `shift`.

    At the noise x = 0, ±1, … the loss is d(d + 2x)/2σ², so that sums over equal cells stay on one lattice.
    """

    distribution = "discrete Gaussian"

    variance: Fraction
    shift: int = 1


@dataclass(frozen=True)
class LaplacePair(NoisePair):
    """A cell with discrete Laplace noise of scale t that changes by `shift`. With q = exp(−1/t) and the noise x under
    P, measured towards Q, the loss is (d − 2x)/t for 0 <= x <= d, and d/t or −d/t on the sides."""

    distribution = "discrete Laplace"

    scale: Fraction
    shift: int = 1


@dataclass(frozen=True)
class CappedPair(NoisePair):
    """A cell with discrete Laplace noise of scale t, capped at ±D, that changes by `shift`: noise within d of the upper
    end gives results that are impossible under Q."""

    distribution = "capped discrete Laplace"

    scale: Fraction
    cap: int
    shift: int = 1


@dataclass(frozen=True)
class SpreadPair(NoisePair):
    """Numbers with discrete Gaussian noise of parameters σᵢ², none below `variance`, of which at most `numbers` change,
    by whole numbers dᵢ with Σ dᵢ²/2σᵢ² <= ρ. Which ones, and by how much, may differ from change to change.

    Up to a factor e^κ of all probabilities, κ = ln((1 + η)/(1 − η)) with η = 2(e^(−2π²r²) + e^(−8π²r²) + …), noise N of
    parameter σ² is M + R, where M is continuous Gaussian noise of variance σ² − r², and R makes it whole: it is z − M
    with a probability proportional to e^(−(z − M)²/2r²). For this distribution's constant is √(2π)r(1 ± η) by Poisson's
    sum, and the convolution of two Gaussian functions is one. R is the same under P and Q. So the changed numbers are
    dominated, up to e^κ each, by continuous noise, of which only μ² = Σ dᵢ²/(σᵢ² − r²) matters, that is by
    μ² = 2ρσ²/(σ² − r²) with the least σ². For the same reason, continuous noise is dominated, up to another e^κ, by one
    cell with discrete noise of a greater parameter V that changes by k, where k²/(V + 2) = μ²: Gaussian noise of
    variance 2 makes it continuous. As P(S) <= e^c P'(S) and Q(S) >= e^−c Q'(S) for every S, with
    c = (`numbers` + 1)κ, δ(ε) is at most e^c δ'(ε − 2c)."""

    distribution = "discrete Gaussian, spread"

    rho: Fraction
    variance: Fraction
    numbers: int


@dataclass(frozen=True)
class TabulatedPair(Pair):
    """The worst of several pairs, at each ε separately. A pair is a sequence of the exact probabilities of its outcomes
    under P and Q."""

    distribution = "tables"

    alternatives: frozenset[tuple[tuple[Fraction, Fraction], ...]]

    def as_record(self) -> dict[str, Any] | None:
        if sum(map(len, self.alternatives)) > MOST_OUTCOMES:
            return None
        tables = [[[str(p), str(q)] for p, q in outcomes] for outcomes in sorted(self.alternatives)]
        return {"distribution": self.distribution, "tables": tables}


@dataclass(frozen=True)
class LossPair(Pair):
    """A pair that follows from a measurement's loss alone.

    For (ε, δ): with probability δ the outcomes are distinguished, and otherwise the loss is ε or −ε (Kairouz, Oh and
    Viswanath, 2015, whose pair dominates every such mechanism). For ρ-zCDP: the greatest curve that the conversion by
    Canonne, Kamath and Steinke allows in both orders.
    """

    loss: Loss


def read_pair(record: dict[str, Any]) -> Pair:
    """The pair of a record of `as_record`. Raises KeyError for an unknown distribution."""
    if record["distribution"] == TabulatedPair.distribution:
        tables = record["tables"]
        return TabulatedPair(frozenset(tuple((Fraction(p), Fraction(q)) for p, q in outcomes) for outcomes in tables))
    known = GaussianPair, LaplacePair, CappedPair, SpreadPair
    kinds: dict[str, type[NoisePair]] = {kind.distribution: kind for kind in known}
    fields = {
        name: Fraction(value) if isinstance(value, str) else value
        for name, value in record.items()
        if name != "distribution"
    }
    return kinds[record["distribution"]](**fields)
