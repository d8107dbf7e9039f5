"""A swapping design: the roles of the variables, the swap rates, and the DP specification that follows from them.

A record's rate never depends on its swap values. Two data sets of one universe differ in these values, so a rate that
followed from them (or from a score that counts them, such as the rarity of a household in its block) would differ too,
and with it the rates of other records, whose number has no bound.

Source: Bailie, Gong and Meng, Proposition 4, Definition 2, Theorem 1 and Appendix C.2. The loss is in
`mechanisms.swapping.loss`.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from mechanisms.accounting.losses import Loss, PureLoss
from mechanisms.accounting.specification import PERSON, PERSON_RECORD, Flavor, Specification
from mechanisms.design import DesignError
from mechanisms.swapping.loss import EXEMPT, StirLoss, odds, theorem_1
from mechanisms.swapping.response import Response, loss_of_responses


@dataclass(frozen=True)
class Case:
    """The swap rate of the records that fit some conditions; without conditions, of all.

    By variable, in alphabetical order, `when` has the values that fit; `at_most` is the most records that may share the
    values by which rarity is counted, None for any number. The rate is strictly between 0 and 1, or `EXEMPT` for
    records that are never selected.
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
        cases: the first that fits a record gives its rate; if `epsilon` is given, there is only a case for exempt
            records.
        rarity_of: the holding variables by which rarity is counted; None for the whole combination of holding values.
        epsilon: the ε that every stratum attains with the smallest rate that gives it; None if the cases give rates.
        is_single: whether the rate was declared as one number. A swap with a single rate is plain, and its draw id
            differs from the one of a swap whose only case has the same rate.

    Raises ValueError if there are neither cases nor an ε, or an ε with cases other than the one for exempt records; or
    if a case, or `rarity_of`, could never have an effect.
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
        """p, if it was declared as one number; None if rates vary."""
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
class SecondStir:
    """A second swap, with p₂, after the first, by some of the first's match variables, in alphabetical order."""

    match: tuple[str, ...]
    swap_rate: Fraction

    def as_record(self) -> dict[str, Any]:
        return {"match": list(self.match), "swap_rate": str(self.swap_rate)}


@dataclass(frozen=True)
class SwapLosses:
    """The losses of a swap with varying rates, a second stir or noise before it. `charged` is the loss of the
    specification, in the universes that the invariants induce, `noise` is ε_R, and `finer` is the loss in universes
    that also fix `SwappingDesign.finer_invariant`; None if the charge is for the finest."""

    charged: PureLoss
    first: StirLoss
    second: StirLoss | None
    noise: PureLoss | None
    finer: PureLoss | None


@dataclass(frozen=True)
class SwappingDesign:
    """The swapped variables, the strata, and the rates.

    Variables of one role are stored in alphabetical order, so that designs with the same meaning are equal.

    Attributes:
        unit: the record that is swapped, in words, such as "household". It is "person" only if a change of one person
            changes one record, and otherwise "person record" (`mechanisms.accounting.specification`).
        match: the match variables (swap key): records are swapped only with records equal on these.
        held: the remaining holding variables, which a record keeps.
        persons: the variables of the unit's persons, who are part of its record and move with it.
        exempt: by match variable, the values of records that are never selected, such as imputed ones.
        noise: randomized response on all holding variables that are not matched on, before the swap.

    Raises DesignError if no variable is swapped or none is held, a variable has two roles, a rate is not strictly
    between 0 and 1, or no loss is known for the combination.
    """

    unit: str
    match: tuple[str, ...]
    swap: tuple[str, ...]
    held: tuple[str, ...]
    swap_rate: Rates
    persons: tuple[str, ...]
    exempt: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    second_stir: SecondStir | None = None
    noise: tuple[Response, ...] = ()

    def __post_init__(self) -> None:
        for role in ("match", "swap", "held", "persons", "exempt"):
            object.__setattr__(self, role, tuple(sorted(getattr(self, role))))
        object.__setattr__(self, "noise", tuple(sorted(self.noise, key=lambda response: response.variable)))
        if not self.swap:
            raise DesignError("swap: at least one variable must be swapped")
        if not self.holding:
            raise DesignError("holding: at least one variable must be held, or the swap would change no table")
        if both := [name for name in self.swap if name in self.match]:
            raise DesignError(f"swap: {', '.join(both)} cannot be a swap variable and a match variable at once")
        roles = (*self.match, *self.swap, *self.held)
        if repeated := sorted({name for name in roles if roles.count(name) > 1}):
            raise DesignError(f"{', '.join(repeated)}: a variable has one role")
        self._check_rates()
        self._check_exempt()
        self._check_second_stir()
        self._check_noise()

    def _check_rates(self) -> None:
        declared = [("swap_rate", case.rate) for case in self.swap_rate.cases]
        if self.second_stir:
            declared.append(("second_stir: swap_rate", self.second_stir.swap_rate))
        for field, rate in declared:
            try:
                odds(rate)
            except ValueError as error:
                raise DesignError(f"{field}: {error}") from None
        for name in self.swap_rate.variables:
            if name in self.swap:
                raise DesignError(
                    f"a swap rate may not depend on {name}, which is swapped: data sets that agree on the invariants "
                    "differ in it, so the rates would differ between them, and the loss is not known to be bounded"
                )
            if name not in self.holding:
                raise DesignError(f"a swap rate may depend on match and holding variables only, and {name} is neither")

    def _check_exempt(self) -> None:
        for name, _ in self.exempt:
            if name not in self.match:
                raise DesignError(
                    f"exempt: {name} is not a match variable, so exempt records would be swapped with others"
                )
            if name not in self.fixed:
                raise DesignError(
                    f"exempt: {name} is not a match variable of the second stir, which would swap exempt records"
                )

    def _check_second_stir(self) -> None:
        if not self.second_stir:
            return
        coarse = self.second_stir.match
        if others := [name for name in coarse if name not in self.match]:
            raise DesignError(f"second_stir: match: {', '.join(others)} is not a match variable of the first stir")
        if set(coarse) == set(self.match):
            raise DesignError("second_stir: match: it must leave out a match variable of the first stir")

    def _check_noise(self) -> None:
        if not self.noise:
            return
        perturbed = [response.variable for response in self.noise]
        if matched := [name for name in perturbed if name not in self.held]:
            raise DesignError(
                f"noise_before: {', '.join(matched)} is not a holding variable that may be perturbed: match variables "
                "stay unchanged, and swap variables are swapped"
            )
        if exact := [name for name in (*self.held, *self.persons) if name not in perturbed]:
            raise DesignError(
                f"noise_before: {', '.join(exact)} would stay exact, so that no loss is known without their counts "
                "held fixed; perturb every holding variable that is not a match variable, or leave it out (variables)"
            )
        for field in ("second_stir", "exempt"):
            if getattr(self, field):
                raise DesignError(f"noise_before: no loss is known together with {field}")
        if not self.has_rates_of_strata:
            raise DesignError("noise_before: swap rates may differ between strata only, not by perturbed values")

    @property
    def plain_rate(self) -> Fraction | None:
        """p of a plain swap: one rate, one stir, no exempt records and no noise. None for any other."""
        return None if self.exempt or self.second_stir or self.noise else self.swap_rate.single_rate

    @property
    def rates(self) -> Rates:
        """The rates of the first stir as cases, those of exempt records first; or one ε for all other records."""
        exempt = (Case(self.exempt, None, EXEMPT),) if self.exempt else ()
        return replace(self.swap_rate, cases=(*exempt, *self.swap_rate.cases), is_single=False)

    @property
    def has_rates_of_strata(self) -> bool:
        return not (self.swap_rate.counts_rarity or set(self.swap_rate.variables) - set(self.match))

    @property
    def without_estimates(self) -> str:
        """Why no counts before the swap are estimated, in words; "" if they are (`mechanisms.swapping.uncertainty`)."""
        if self.noise:
            return "values were perturbed before the swap"
        if self.second_stir:
            return "records were swapped twice, and the strata of the first swap are not published"
        if not self.has_rates_of_strata:
            return "swap rates differ between the records of a stratum"
        return ""

    @property
    def fixed(self) -> tuple[str, ...]:
        """The match variables by which the swap values are counted exactly: those of the last stir."""
        return self.second_stir.match if self.second_stir else self.match

    @property
    def ordered_match(self) -> tuple[str, ...]:
        """All match variables, those of the second stir first, so that its strata consist of consecutive ones."""
        return (*self.fixed, *(name for name in self.match if name not in self.fixed))

    @property
    def combinations(self) -> int:
        """The number of combinations of values that noise may give to a record of a stratum."""
        return math.prod(response.size for response in self.noise)

    @property
    def holding(self) -> tuple[str, ...]:
        """All holding variables: the match variables first."""
        return (*self.ordered_match, *self.held)

    @property
    def invariants(self) -> tuple[str, ...]:
        """The margins that swapping preserves, in words (Proposition 4), and the exempt records."""
        persons = [f"the {self.unit}'s persons, each with {_listed(self.persons)}"] if self.persons else []
        margin = f"the number of {self.unit}s by {_listed((*self.fixed, *self.swap))}"
        exempt = [f"every {self.unit} with {self.exempt_in_words}, with all its values"] if self.exempt else []
        if self.noise:
            return (margin,)
        return (f"the number of {self.unit}s by {_listed([*self.holding, *persons])}", margin, *exempt)

    @property
    def finer_invariant(self) -> str:
        """The additional invariant, in words, of the universes of `SwapLosses.finer`."""
        if self.noise:
            return f"the number of {self.unit}s by {_listed(self.holding)}"
        return f"the number of {self.unit}s by {_listed((*self.match, *self.swap))}"

    @property
    def exempt_in_words(self) -> str:
        return " and ".join(f"{name} = {' or '.join(map(str, values))}" for name, values in self.exempt)

    def as_record(self) -> dict[str, Any]:
        """The design as exact plain values, equal for designs with the same draws."""
        extended: dict[str, Any] = {}
        if self.exempt:
            extended["exempt"] = {name: sorted(map(str, values)) for name, values in self.exempt}
        if self.second_stir:
            extended["second_stir"] = self.second_stir.as_record()
        if self.noise:
            extended["noise_before"] = [response.as_record() for response in self.noise]
        return {
            "unit": self.unit,
            "persons": list(self.persons),
            "match": list(self.match),
            "swap": list(self.swap),
            "held": list(self.held),
            "swap_rate": self.swap_rate.as_record(),
            **extended,
        }

    def losses(self, first: StirLoss, second: StirLoss | None) -> SwapLosses:
        """The losses of the whole swap from those of its stirs (`docs/mechanisms/swapping-extensions.md`)."""
        noise = loss_of_responses(self.noise) if self.noise else None
        charged = (second or first).loss if noise is None else noise
        if noise is None and second is None:
            return SwapLosses(charged, first, None, None, None)
        return SwapLosses(charged, first, second, noise, charged if charged <= first.loss else first.loss)

    def specification(self, dataset: str, loss: int | PureLoss) -> Specification:
        """The DP specification of all products tabulated from the swapped data. `loss` is the one that is charged; of a
        plain swap it may be b of Theorem 1."""
        persons = f", each with the persons in it, by {_listed(self.persons)}" if self.persons else ""
        exempt = (
            f"; {self.unit}s with {self.exempt_in_words} are not protected, so that data sets which differ in one of "
            "them are infinitely far apart"
            if self.exempt
            else ""
        )
        flavor = Flavor(
            domain=f"all possible files of {self.unit}s with the variables of {dataset}: "
            f"{_listed((*self.match, *self.swap, *self.held))}{persons}{exempt}",
            multiverse=self.invariants,
            unit=self.unit,
            changes_per_person=None if self.unit in (PERSON, PERSON_RECORD) else 1,
        )
        if isinstance(loss, int):
            if self.plain_rate is None:
                raise ValueError("the loss of an extended swap does not follow from b alone")
            return Specification(flavor, theorem_1(loss, self.plain_rate))
        return Specification(flavor, loss)

    def specification_of_noise_after(self, dataset: str, tables: Loss) -> Specification:
        """The DP specification of tables with noise that are counted from withheld swapped data, where `tables` is the
        loss for a change of one counted record. It is for universes that fix only the sizes of strata, and for a change
        of all of a record's values: two swapped records then differ."""
        flavor = self.specification(dataset, PureLoss()).flavor
        sizes = f"the number of {self.unit}s by {_listed(self.match)}"
        return Specification(
            replace(flavor, multiverse=(sizes,), output_premetric=tables.output_premetric), tables.of_group(2)
        )


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return " × ".join(names) if names else "nothing else (their total)"
