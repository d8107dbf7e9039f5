"""Measures of risk, each compared with an enumeration or with a case that rejects a wrong program."""

from collections import Counter
from collections.abc import Mapping
from itertools import combinations_with_replacement, product
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from stirred import risk

VALUES = {"sex": ["f", "m"], "race": ["a", "b", "c"]}
TRUE = [("f", "a"), ("f", "a"), ("f", "b"), ("m", "a"), ("m", "c")]
RECORDS = {"sex": [sex for sex, _ in TRUE], "race": [race for _, race in TRUE]}


def margin(*by: str, records: Mapping[str, list[str]] = RECORDS) -> dict[str, list[Any]]:
    counts = Counter(zip(*(records[name] for name in by), strict=True))
    return {name: [row[place] for row in counts] for place, name in enumerate(by)} | {"count": list(counts.values())}


def test_a_reconstruction_varies_and_is_certain_as_far_as_all_solutions_show() -> None:
    """Wrong programs: a variability between any two solutions, and certain records that another solution lacks."""
    tables = [margin("sex"), margin("race")]
    kinds = list(product(*VALUES.values()))
    solutions: list[Counter[tuple[str, ...]]] = [
        Counter(each)
        for each in combinations_with_replacement(kinds, len(TRUE))
        if all(Counter(row[place] for row in each) == Counter(row[place] for row in TRUE) for place in (0, 1))
    ]
    found = risk.reconstruct([pd.DataFrame(tables[0]), tables[1]], VALUES)

    assert isinstance(found.table, pd.DataFrame)
    own: Counter[tuple[str, ...]] = Counter(
        {(sex, race): count for sex, race, count in zip(*found.arrow.to_pydict().values(), strict=True)}
    )
    assert own in solutions
    assert found.variability == max(1 - (own & other).total() / 5 for other in solutions)
    assert found.provable == sum(min(other[kind] for other in solutions) for kind in kinds)
    assert found.measure_agreement(RECORDS) == (own & Counter(TRUE)).total() / 5
    whole = risk.reconstruct([margin("sex", "race")], VALUES)
    assert (whole.variability, whole.provable, whole.measure_agreement(RECORDS)) == (0, 5, 1)
    assert "5 records of 4 kinds" in repr(whole)
    nobody = risk.reconstruct([{"sex": ["f"], "count": [0]}], VALUES)
    assert (nobody.records, nobody.variability, nobody.provable) == (0, 0, 0)


@pytest.mark.parametrize(
    ("tables", "error"),
    [
        # Two counts of the same kinds; the wrong program would leave one out.
        ([{"sex": ["f"], "count": [1]}, {"sex": ["f"], "count": [2]}], risk.NotSolvedError),
        ([margin("sex"), {"count": [6]}], risk.NotSolvedError),
        ([{"sex": ["f", "f"], "count": [1, 1]}], ValueError),
        ([{"sex": ["x"], "count": [1]}], ValueError),
        ([{"age": [1], "count": [1]}], ValueError),
        ([{"sex": ["f"], "count": [-1]}], ValueError),
        ([], ValueError),
    ],
)
def test_tables_that_no_records_have_are_refused(tables: list[dict[str, list[Any]]], error: type[Exception]) -> None:
    with pytest.raises(error):
        risk.reconstruct(tables, VALUES)


def test_persons_are_matched_without_replacement() -> None:
    """Wrong program: one that matches with replacement, so that all three men are named."""
    persons = {"sex": ["m", "m", "m", "f", "x"]}
    matches = risk.match(persons, margin("sex", "race"), known=["sex"], wanted="race")
    named = dict(zip(matches.values, matches.shares[0], strict=True))
    assert named == pytest.approx({"a": 1 / 3, "b": 0, "c": 1 / 3})
    assert matches.named == pytest.approx(2 + 1)
    assert matches.score(["c", "a", "z", "a", "a"]) == pytest.approx([1 / 3, 1 / 3, 0, 2 / 3, 0])
    unknown = {"sex": ["f"], "race": [None]}
    assert risk.match(unknown, unknown, known=["sex"], wanted="race").score([float("nan")]).sum() == 1
    assert risk.match({"sex": []}, RECORDS, known=["sex"], wanted="race").score([]).shape == (0,)


def test_guessers_and_the_gain_leave_the_target_out() -> None:
    """Wrong programs: guessers that count the target, and a gain that is the success with the target."""
    assert risk.guess_by_share(RECORDS, place=["sex"], wanted="race") == pytest.approx([1 / 2, 1 / 2, 0, 0, 0])
    assert risk.guess_by_mode(pd.DataFrame(RECORDS), place=["sex"], wanted="race")[:3] == pytest.approx([0.5, 0.5, 0])

    def attack(published: pa.Table, known: Mapping[str, Any]) -> dict[str, float]:
        assert set(known) == {"sex"}
        of_sex = Counter(row["race"] for row in published.to_pylist() if row["sex"] == known["sex"])
        return {race: count / of_sex.total() for race, count in of_sex.items()}

    gains = risk.measure_gain(RECORDS, lambda records: records, attack, wanted="race", targets=[0, 2, 4])
    assert gains == pytest.approx([2 / 3 - 1 / 2, 1 / 3, 1 / 2])
    with pytest.raises(IndexError):
        risk.measure_gain(RECORDS, lambda records: records, attack, wanted="race", targets=[-1])
