"""Claims about p-tables of greatest entropy: constraints hold exactly, and no general solver finds more entropy."""

from fractions import Fraction
from itertools import pairwise
from math import fsum, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from mechanisms.table_builder import entropy
from mechanisms.table_builder.entropy import ImpossibleTableError, MadeTable, Parameters, make
from mechanisms.table_builder.p_table import Row
from tests.depth import deep_but, deep_cases, examples, quick_cases

EXAMPLES = {
    "sdcTools' first example": Parameters(2, Fraction(1)),
    "its second": Parameters(2, Fraction(9, 10)),
    "with a threshold": Parameters(5, Fraction(3), 2),
    "with a probability to stay": Parameters(4, Fraction(1), 0, Fraction(1, 2)),
    "with both": Parameters(5, Fraction(3), 2, Fraction(2, 5)),
    "not monotone": Parameters(5, Fraction(2), 1, monotone=False),
    "the greatest variance is not reached": Parameters(3, Fraction(100)),
    "a count that can only stay": Parameters(3, Fraction(4), 3),
    "wide": Parameters(8, Fraction(16), 3),
    "nearly always staying": Parameters(5, Fraction(3), 2, Fraction(999, 1000)),
    "monotone by row": Parameters(2, Fraction(105, 100), 1, monotone=(True, True, False, True)),
}
QUICK = [
    EXAMPLES[name] for name in ("sdcTools' first example", "with both", "monotone by row", "a count that can only stay")
]


def allowed(parameters: Parameters, count: int) -> list[int]:
    """The changes of a count that lead neither below 0 nor to a blocked result."""
    changes = range(-parameters.largest_change, parameters.largest_change + 1)
    return [v for v in changes if count + v == 0 or count + v > parameters.threshold]


def violations(parameters: Parameters, count: int, row: Row) -> list[str]:
    """Every constraint that a row does not satisfy, exactly."""
    chances = row.probabilities
    every = [chances.get(v, Fraction(0)) for v in allowed(parameters, count)]
    nearer = [*pairwise([v for v in allowed(parameters, count) if v >= 0])]
    nearer += [(v, w) for w, v in pairwise([v for v in allowed(parameters, count) if v <= 0])]
    rules = {
        "sum": sum(every) == 1,
        "support": set(chances) <= set(allowed(parameters, count)),
        "mean": sum(v * p for v, p in chances.items()) == 0,
        "variance": sum(v * v * p for v, p in chances.items()) <= parameters.variance,
        "stay": count <= parameters.threshold or chances.get(0, 0) >= parameters.probability_to_stay,
        "monotone": not parameters.is_monotone(count) or all(chances.get(v, 0) >= chances.get(w, 0) for v, w in nearer),
    }
    return [name for name, kept in rules.items() if not kept]


def slsqp(parameters: Parameters, count: int) -> tuple[float, float]:
    """The greatest entropy that a general solver finds, and by how much its point violates a constraint."""
    changes = np.array(allowed(parameters, count), dtype=float)
    order = np.argsort(np.abs(changes), kind="stable")
    conditions = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": "eq", "fun": lambda p: p @ changes},
        {"type": "ineq", "fun": lambda p: float(parameters.variance) - p @ changes**2},
    ]
    bounds = [(1e-12, 1.0)] * len(changes)
    if count > parameters.threshold:
        bounds[int(order[0])] = (max(1e-12, float(parameters.probability_to_stay)), 1.0)
    if parameters.is_monotone(count):
        for side in (changes >= 0, changes <= 0):
            for one, other in pairwise([place for place in order if side[place]]):
                conditions.append({"type": "ineq", "fun": lambda p, one=one, other=other: p[one] - p[other]})
    found = minimize(
        lambda p: float(np.sum(p * np.log(p))),
        np.full(len(changes), 1 / len(changes)),
        jac=lambda p: np.log(p) + 1,
        bounds=bounds,
        constraints=conditions,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    off = max(abs(c["fun"](found.x)) if c["type"] == "eq" else max(0.0, -c["fun"](found.x)) for c in conditions)
    return -found.fun, float(off)


def entropies(made: MadeTable) -> list[float]:
    return [-fsum(float(p) * log(p) for p in row.probabilities.values()) for row in made.table.rows]


@deep_cases(4)
@pytest.mark.parametrize("parameters", deep_but(QUICK, EXAMPLES.values()))
def test_every_row_satisfies_every_constraint_exactly(parameters: Parameters) -> None:
    made = make(parameters)
    assert made.table.last == parameters.largest_change + parameters.threshold + 1
    assert made.table.cycle == 1
    assert made.table.rows[0] == Row((0,), (1,))
    for count, row in enumerate(made.table.rows[1:], 1):
        assert violations(parameters, count, row) == [], count
        assert 2**entropy.PLACES % row.whole == 0 or count <= parameters.threshold


@deep_cases(2)
@pytest.mark.parametrize("parameters", deep_but(QUICK[:3], EXAMPLES.values()))
def test_no_general_solver_finds_more_entropy(parameters: Parameters) -> None:
    """SLSQP may gain from violating constraints, here by less than 10^-8: hence an allowance of 10^-10."""
    made = make(parameters)
    assert max(made.gaps) <= 1e-11
    for count in range(1, made.table.last + 1):
        if len(made.table.rows[count].changes) > 1:
            found, off = slsqp(parameters, count)
            assert off < 1e-8
            assert entropies(made)[count] >= found - 1e-10, count


@deep_cases(4)
@pytest.mark.parametrize("parameters", deep_but(QUICK, EXAMPLES.values()))
def test_the_certificate_bounds_every_row_that_satisfies_the_constraints(parameters: Parameters) -> None:
    """Rows that satisfy them, mixed from the optimum and the interior point, never have more than entropy and gap."""
    made = make(parameters)
    for count, row in enumerate(made.table.rows[1:], 1):
        if len(row.changes) < 3:
            assert made.gaps[count] == 0
            continue
        inside = entropy._interior(parameters, allowed(parameters, count))
        for share in (0.0, 1e-3, 0.1, 1.0):
            mixed = [
                (1 - share) * float(row.probabilities.get(v, 0)) + share * float(q)
                for v, q in zip(allowed(parameters, count), inside, strict=True)
            ]
            value = -fsum(p * log(p) for p in mixed if p)
            assert value <= entropies(made)[count] + made.gaps[count] + 1e-12


def as_sdctools(variance: Fraction, changes: list[int], monotone: bool) -> list[float]:
    """A row as the R code of `ptable` has it, by a general solver: with an entropy in bits, probabilities of 10^-8 or
    more, and monotony on the side below 0 alone, if the count may stay."""
    values = np.array(changes, dtype=float)
    conditions = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": "eq", "fun": lambda p: p @ values},
        {"type": "ineq", "fun": lambda p: float(variance) - p @ values**2},
    ]
    if monotone and 0 in changes:
        for place in range(changes.index(0)):
            conditions.append({"type": "ineq", "fun": lambda p, place=place: p[place + 1] - p[place]})
    found = minimize(
        lambda p: float(np.sum(p * np.log2(p))),
        np.full(len(changes), 1 / len(changes)),
        jac=lambda p: np.log2(p) + 1 / log(2),
        bounds=[(1e-8, 1.0)] * len(changes),
        constraints=conditions,
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 2000},
    )
    return [float(chance) for chance in found.x]


OF_ITS_TESTS = [
    Parameters(2, Fraction(105, 100), 1, monotone=(True, True, False, True)),
    Parameters(3, Fraction(1)),
    Parameters(7, Fraction(3)),
    Parameters(5, Fraction(2)),
    Parameters(5, Fraction(3), 2),
]


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("parameters", OF_ITS_TESTS, ids=str)
def test_the_tables_are_those_of_the_parameters_in_the_tests_of_sdctools(parameters: Parameters) -> None:
    """Of `ptable`, its examples and `cellKey`, without a probability to stay. To 10^-6, as its solver stops at seven
    digits. It bounds the left side alone, and the right one follows."""
    table = make(parameters).table
    for count in range(1, parameters.last + 1):
        changes = allowed(parameters, count)
        chances = [float(table.rows[count].probabilities.get(change, 0)) for change in changes]
        theirs = as_sdctools(parameters.variance, changes, parameters.is_monotone(count))
        assert chances == pytest.approx(theirs, abs=1e-6), count


def test_the_example_of_sdctools_is_not_monotone_in_the_row_of_js_plus_2() -> None:
    """The probabilities that its tests of `pt_ex_cnts` expect. With every row monotone, count 3 has others."""
    expected = {
        1: [0.50833333, 0.47500000, 0.01666667],
        2: [0.16155827, 0.55565037, 0.24246618, 0.04032518],
        3: [0.41231301, 0.28806097, 0.18693903, 0.11268699],
        4: [0.07012498, 0.24450007, 0.37074990, 0.24450007, 0.07012498],
    }
    table = make(OF_ITS_TESTS[0]).table
    for count, chances in expected.items():
        assert [*map(float, table.rows[count].probabilities.values())] == pytest.approx(chances, abs=1e-6)
    monotone = make(Parameters(2, Fraction(105, 100), 1)).table.rows[3].probabilities
    assert monotone[-1] <= monotone[0]


@settings(max_examples=examples(40))
@given(
    largest=st.integers(1, 8),
    threshold=st.integers(0, 3),
    over=st.fractions(Fraction(1, 20), 20, max_denominator=20),
    stay=st.fractions(0, 1, max_denominator=20),
    monotone=st.booleans(),
)
def test_any_parameters_give_a_table_that_satisfies_them(
    largest: int, threshold: int, over: Fraction, stay: Fraction, monotone: bool
) -> None:
    threshold = min(threshold, largest)
    least = max((count * (threshold + 1 - count) for count in range(1, threshold + 1)), default=0)
    parameters = Parameters(largest, least + over, threshold, stay, monotone)
    made = make(parameters)
    for count, row in enumerate(made.table.rows[1:], 1):
        assert violations(parameters, count, row) == []
    assert max(made.gaps) <= 1e-9


PUBLISHED = {
    Parameters(2, Fraction(1)): """
        1 0.36648551 0.3664855 0.1675725 0.09945652
        2 0.06382714 0.2446915 0.3829628 0.24469145 0.06382714""",
    Parameters(2, Fraction(9, 10)): """
        1 0.3625 0.3625 0.1875 0.0875
        2 0.05154609 0.24381564 0.40927654 0.24381564 0.05154609""",
    Parameters(5, Fraction(3), 2): """
        1 0.73446954 0.136720190 0.07279631 0.03742956 0.018584399
        2 0.40880704 0.406643537 0.14762401 0.03231882 0.004266868 0.0003397188
        3 0.20398618 0.393662525 0.24749239 0.11056847 0.035102043 0.0079189055 0.001269491
        4 0.08485487 0.277921233 0.27792123 0.18939369 0.105125448 0.0454553570 0.015310774 0.004017391
        5 0.02014749 0.173347467 0.22063302 0.22131828 0.174967643 0.1090164652 0.053532830 0.020717693 0.006319113
        6 0.072029825 0.13671708 0.19735138 0.216652933 0.1808822561 0.114850887 0.055459983 0.020367237 0.005688418
        7 0.018439196 0.05548389 0.12162104 0.194208159 0.2259140226 0.191441399 0.118180404 0.053146176 0.017410672
          0.004155049
        8 0.003791861 0.01659093 0.05229263 0.118730368 0.1941934608 0.228801496 0.194193460 0.118730371 0.052292634
          0.016590928 0.00379186""",
}
"""From the introduction of sdcTools' `ptable` 1.0.0: a count, and the probabilities of its results in order."""


@pytest.mark.parametrize("parameters", PUBLISHED)
def test_the_tables_are_those_that_sdctools_prints(parameters: Parameters) -> None:
    """To 10^-6: its solver is stopped at seven digits, and its probabilities are at least 10^-8."""
    table = make(parameters).table
    lines = PUBLISHED[parameters].replace("\n          ", " ").strip().splitlines()
    for count, *chances in map(str.split, lines):
        printed = [float(chance) for chance in table.row(int(count)).probabilities.values()]
        assert printed == pytest.approx(list(map(float, chances)), abs=1e-6), count


def test_without_other_constraints_it_is_the_known_distribution() -> None:
    """On −D … D with a variance, the greatest entropy has p(v) ∝ exp(−λv²)."""
    chances = make(Parameters(3, Fraction(1), monotone=False)).table.rows[-1].probabilities
    rates = [-log(chances[v] / chances[0]) / v**2 for v in (-3, -2, -1, 1, 2, 3)]
    assert rates == pytest.approx([rates[0]] * 6, rel=1e-6)
    assert float(sum(v * v * p for v, p in chances.items())) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((0, Fraction(1)), "largest_change: D is from 1 to 25, not 0"),
        ((26, Fraction(1)), "largest_change: D is from 1 to 25, not 26"),
        ((3, Fraction(0)), "variance: V is greater than 0"),
        ((3, Fraction(1), 0, Fraction(3, 2)), "probability_to_stay: a probability is from 0 to 1"),
        ((3, Fraction(9), 4), "threshold: js is from 0 to D = 3, not 4"),
        (
            (5, Fraction(3), 2, Fraction(0), (True, False)),
            "monotone: it is true, false, or a list with one for each count from 1 to 8, not for 2 counts",
        ),
        (
            (5, Fraction(19, 10), 2),
            "variance: count 1 must become 0 or at least 3 .* a variance of 2 or more; V is 19/10",
        ),
        (
            (5, Fraction(3), 3),
            "variance: count 1 must|variance: count 2 must become 0 or at least 4 .* of 4 or more; V is 3",
        ),
    ],
)
def test_what_no_table_satisfies_is_refused_with_the_rule_and_the_count(arguments: tuple, rule: str) -> None:
    with pytest.raises(ImpossibleTableError, match=rule):
        Parameters(*arguments)


@pytest.mark.parametrize("gap", [2e-9, float("nan")])
def test_a_row_whose_entropy_may_not_be_the_greatest_is_refused(gap: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong program: one that takes a row of a solver that stopped early, or whose bound is not a number."""
    monkeypatch.setattr(entropy, "_row", lambda parameters, count: (Row((0,), (1,)), gap))
    with pytest.raises(ImpossibleTableError, match="count 1: the solver came no nearer"):
        make(Parameters(2, Fraction(1)))


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_the_least_variance_that_a_threshold_allows_gives_the_only_row_there_is(threshold: int) -> None:
    least = max(count * (threshold + 1 - count) for count in range(1, threshold + 1))
    table = make(Parameters(5, Fraction(least), threshold)).table
    for count in range(1, threshold + 1):
        if count * (threshold + 1 - count) == least:
            up = threshold + 1 - count
            assert table.rows[count].probabilities == {
                -count: Fraction(up, threshold + 1),
                up: Fraction(count, threshold + 1),
            }
