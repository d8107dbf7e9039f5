"""Permitted but extreme declarations: each is refused before anything is charged, or the whole release succeeds.

A release that is charged but cannot be made or published has wasted its budget.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assets.release.names import COLUMNS_OF_SWAPPED
from resources.statements import SQL_FOLDER
from tests.deployments import (
    PERSONS,
    UNITS,
    Deployment,
    deploy,
    households,
    members,
    small_dataset,
    small_release,
    write_csv,
)
from tests.phsafe_deployments import census, phsafe_deployment
from tests.topdown_deployments import topdown_deployment

pytestmark = pytest.mark.deep

OF_SWAPPING = ("swapping", "cef", "gates", "publication", "warehouse")
"""The folders of the statements that a release by swapping runs."""

CAP = {"rho": 10**9}
UNIQUE = {"publishes_unique_records": "accepted"}
OF_NOBODY = {"title": "Only $ in $x_{ and <b>&amp;"}
"""Titles are not formulas or markup."""


def household(root: Path, count: int = 1, **changes: Any) -> Deployment[Any]:
    """A release by swapping of a few records."""
    rows = households(count)
    root.mkdir(exist_ok=True)
    write_csv(root / "units.csv", rows)
    dataset = small_dataset(root, synthetic=True, cap=10**9, **OF_NOBODY)
    return deploy(root, dataset, small_release(dataset, **UNIQUE | changes))


def every_kind_of_column(root: Path) -> Deployment[Any]:
    """Columns of all types with nulls, one with a single value and one with the widest domain, and many totals."""
    columns = {
        **UNITS,
        "moved": {"type": "date", "nullable": True},
        "rent": {"type": "decimal", "nullable": True},
        "lift": {"type": "boolean", "nullable": True},
        "wide": {"type": "integer", "minimum": -(10**18) + 1, "maximum": 10**18 - 1, "nullable": True},
        "alone": {"type": "string", "values": ["only"]},
        "odd \"name\" of 'a', column; with | and %" + "x" * 80: {"type": "string", "pattern": ".*", "nullable": True},
    }
    others: dict[str, list[Any]] = {
        "moved": ["", "0001-01-01", "9999-12-31"],
        "rent": ["", "-99999999999999.9999", "0.0001"],
        "lift": ["", "true", "false"],
        "wide": ["", 10**18 - 1, -(10**18) + 1],
        "alone": ["only"],
        list(columns)[-1]: ["", "Total?", 'a "quoted", text'],
    }
    rows = [
        row | {name: values[number % len(values)] for name, values in others.items()}
        for number, row in enumerate(households(60))
    ]
    root.mkdir(exist_ok=True)
    write_csv(root / "units.csv", rows)
    units = {"path": str(root / "units.csv"), "columns": columns}
    dataset = small_dataset(root, synthetic=True, cap=10**9, units=units)
    names = [name for name in columns if name != "serial"]
    some = ["county", "alone", "lift", "size", "tenure", "region"]
    products = [
        {"name": "a" * 60, "dimensions": some, "totals": some},
        {"name": "every", "dimensions": names, "zeros": False},
    ]
    return deploy(root, dataset, small_release(dataset, products=products, name="r" * 60, **UNIQUE))


def named_like_our_sql(root: Path, turn: int) -> Deployment[Any]:
    """Columns with every word that occurs in our statements. In four turns, each is a match variable, a swap variable,
    another variable of units, and one of persons."""
    text = "\n".join(path.read_text() for path in SQL_FOLDER.rglob("*.sql") if path.parent.name in OF_SWAPPING)
    text = re.sub("--.*|(?s:{#.*?#})", "", text)
    words = sorted({word.lower() for word in re.findall("[A-Za-z_]+", text)} - COLUMNS_OF_SWAPPED - {*UNITS, *PERSONS})
    column = {"type": "integer", "minimum": 0, "maximum": 9}
    match, swap, others, theirs = (words[(role + turn) % 4 :: 4] for role in range(4))
    ours = [*match, *swap, *others]
    units = [row | dict.fromkeys(ours, number % 2) for number, row in enumerate(households(12))]
    persons = [row | dict.fromkeys(theirs, number % 2) for number, row in enumerate(members(units))]
    root.mkdir(exist_ok=True)
    write_csv(root / "units.csv", units)
    write_csv(root / "persons.csv", persons)
    dataset = small_dataset(
        root,
        with_persons=True,
        synthetic=True,
        units={"path": str(root / "units.csv"), "columns": UNITS | dict.fromkeys(ours, column)},
        persons={"path": str(root / "persons.csv"), "columns": PERSONS | dict.fromkeys(theirs, column)},
    )
    products = [
        {"name": "units", "dimensions": ours, "totals": ours[:2], "zeros": False},
        {"name": "persons", "of": "persons", "dimensions": [*theirs, "county"], "totals": theirs[:2], "zeros": False},
    ]
    roles = {"match": ["region", "size", *match], "swap": ["county", *swap]}
    return deploy(root, dataset, small_release(dataset, products=products, **roles, **UNIQUE))


def too_many_cells(root: Path) -> Deployment[Any]:
    """A product of more columns than an integer of 128 bits can count the cells of."""
    names = [f"c{number}" for number in range(140)]
    rows = [row | dict.fromkeys(names, number % 2) for number, row in enumerate(households(12))]
    root.mkdir(exist_ok=True)
    write_csv(root / "units.csv", rows)
    columns = UNITS | {name: {"type": "integer", "values": [0, 1]} for name in names}
    dataset = small_dataset(root, synthetic=True, units={"path": str(root / "units.csv"), "columns": columns})
    return deploy(root, dataset, small_release(dataset, products=[{"name": "p", "dimensions": names}], **UNIQUE))


def phsafe(root: Path, households: int = 1, **changes: Any) -> Deployment[Any]:
    """A release by PHSafe of a few households in one state."""
    declared = {"states": ["10"], "dataset": {"cap": CAP, "synthetic": True, **OF_NOBODY}}
    return phsafe_deployment(root, files=census(households, ("10",)), **(declared | changes))


def topdown(root: Path, households: int = 1, **changes: Any) -> Deployment[Any]:
    """A release by TopDown of a few households in one state, with replicates."""
    dataset = {"cap": CAP, "synthetic": True, **OF_NOBODY}
    return topdown_deployment(root, files=census(households, ("10",)), dataset=dataset, replicates=2, **changes)


def levels(number: int, rho: Any, detailed: str = "1") -> dict[str, Any]:
    """A spine of some levels with equal shares: prefixes of the block's code of 15 characters."""
    spine: dict[str, Any] = {"US": []}
    spine |= {f"Prefix{length}".ljust(40, "x"): {"prefix": length} for length in range(1, number - 1)}
    spine["Block"] = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
    share = dict.fromkeys(spine, f"1/{number}")
    coarse = {} if detailed == "1" else {"total": f"{int(detailed[2:]) - 1}/{detailed[2:]}"}
    persons = {"rho": rho, "levels": share, "queries": {level: {**coarse, "detailed": detailed} for level in spine}}
    units = {"rho": rho, "levels": share, "queries": {level: {"detailed": 1} for level in spine}}
    return {
        "spine": spine,
        "persons": persons,
        "units": units,
        "invariants": {"population": "Block", "housing_units": "Block", "group_quarters": "Block"},
    }


CASES: dict[str, Callable[[Path], Deployment[Any]]] = {
    "swapping: one record, the least rate": lambda root: household(root, swap_rate="1/1000000000"),
    "swapping: two records, the greatest rate": lambda root: household(
        root, 2, match=[], swap_rate="999999999/1000000000"
    ),
    "swapping: every type of column": every_kind_of_column,
    **{
        f"swapping: columns named like everything in our SQL, turn {turn}": partial(named_like_our_sql, turn=turn)
        for turn in range(4)
    },
    "swapping: more empty cells than anyone reads": too_many_cells,
    "PHSafe: the widest noise": lambda root: phsafe(
        root,
        40,
        runs={
            "PH1_num": {"truncation": 99_999, "budget": {"nation_*": "0.00000002", "state_A-G": "0.00000002"}},
            "PH1_denom": {"budget": {"nation_*": "0.000000000001", "state_A-G": "0.000000000001"}},
            "PH4": {"truncation": 99_999, "budget": {"nation_*": "0.00000002"}},
            "PH6": {"truncation": 99_999, "budget": {"nation_*": "0.00000002", "state_*": "0.00000002"}},
        },
        delta="1e-100",
    ),
    "PHSafe: the widest noise in pure DP": lambda root: phsafe(
        root,
        40,
        noise="pure",
        runs={
            "PH1_num": {"truncation": 99_999, "budget": {"nation_*": "0.000283", "state_A-G": "0.000283"}},
            "PH1_denom": {"budget": {"nation_*": "0.000000003", "state_A-G": "0.000000003"}},
            "PH6": {"truncation": 99_999, "budget": {"nation_*": "0.000283", "state_*": "0.000283"}},
        },
    ),
    "PHSafe: hardly any noise, the least truncation": lambda root: phsafe(
        root,
        runs={
            "PH1_num": {"truncation": 1, "budget": {"nation_*": 1000}},
            "PH1_denom": {"budget": {"nation_*": 1000}},
            "PH2": {"truncation": 1, "budget": {"nation_*": 1000}},
        },
        delta="0.999999999999",
    ),
    "TopDown: 17 levels, the greatest curvature": lambda root: topdown(root, 40, **levels(17, 10, "1/49")),
    "TopDown: hardly any noise": lambda root: topdown(root, **levels(2, 1000), delta="0.999999999999"),
    "TopDown: the widest noise": lambda root: topdown(root, 40, **levels(2, "1/16000000000"), delta="1e-100"),
    "TopDown: no invariants": lambda root: topdown(root, 10, **levels(2, "1/10000") | {"invariants": {}}),
}


REFUSED = {"swapping: more empty cells than anyone reads"}


@pytest.mark.prove
@pytest.mark.parametrize("case", CASES)
def test_a_permitted_extreme_is_refused_before_the_charge_or_succeeds(case: str, tmp_path: Path) -> None:
    deployment = CASES[case](tmp_path)
    result = deployment.run(raise_on_error=False)
    if deployment.ledger:
        failed = [event.step_key for event in result.all_events if event.is_step_failure]
        assert not failed, f"{case}: charged, and then {failed} failed"
        assert deployment.published()
    else:
        assert not result.success
        assert deployment.published() == {}
    assert bool(deployment.ledger) == (case not in REFUSED)
