"""The DHC on a small country from data frames: every place keeps the held counts, and wrong input is refused."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import stirred
from mechanisms.topdown.dhc import levels
from mechanisms.topdown.dhc.levels import Estimated as Level
from mechanisms.topdown.schema import Counts
from stirred import dhc
from stirred.topdown import PERSONS as REDISTRICTING

TREE = {"State": [0], "County": [0, 0], "Block": [0, 0, 1, 1, 1]}
KEY = bytes(range(32))


def divide(schema: stirred.topdown.Schema, allocation: dhc.Allocation) -> dhc.Allocation:
    """Production's last three levels, under the names of the tree."""
    queries = list(allocation.queries["Block"])
    parts = {}
    for name, level in zip(TREE, list(allocation.levels)[-3:], strict=True):
        parts[name] = [int(allocation.part(level, query).rho * 10_000) for query in queries]
    return dhc.divide(schema, queries, parts)


def draw_persons() -> pd.DataFrame:
    """Householders, their spouses and children, and inmates of prisons (type 102) in one block."""
    random = np.random.default_rng(1)
    relgq = random.choice([0, 1, 2, 6], 60)
    age = np.where(relgq == 6, random.integers(0, 18, 60), random.integers(20, 80, 60))
    homes = pd.DataFrame({"block": random.integers(0, 5, 60), "relgq": relgq, "age": age})
    prison = pd.DataFrame({"block": 2, "relgq": 19, "age": random.integers(20, 60, 8)})
    persons = pd.concat([homes, prison], ignore_index=True)
    return persons.assign(
        sex=random.integers(0, 2, len(persons)), hispanic=0, cenrace=random.integers(0, 2, len(persons))
    )


def summarize(persons: pd.DataFrame) -> np.ndarray:
    redistricting = np.zeros((5, REDISTRICTING.size), dtype=np.int64)
    kind = np.where(persons.relgq < 18, 0, 1)
    cells = ((kind * 2 + (persons.age >= 18)) * 2 + persons.hispanic) * 63 + persons.cenrace
    np.add.at(redistricting, (persons.block, cells), 1)
    return redistricting


PEOPLE = draw_persons()
PRISON = np.zeros((5, 24), dtype=np.int64)
PRISON[2, 1] = 1


def measure(**changes: object) -> dhc.Estimated:
    arguments = {"tree": TREE, "persons": PEOPLE, "redistricting": summarize(PEOPLE), "facilities": PRISON,
                 "allocation": divide(dhc.PERSONS, dhc.PERSON_ALLOCATION),
                 "randomness": stirred.random.from_key(KEY)}  # fmt: skip
    return dhc.measure_persons(**{**arguments, **changes})  # type: ignore[arg-type]


def test_persons_of_a_small_country() -> None:
    measured = measure()
    blocks = measured.table("persons", "Block")
    assert isinstance(blocks, pd.DataFrame)
    records = blocks.loc[blocks.index.repeat(blocks["count"])].rename(columns={"place": "block"})
    assert np.array_equal(summarize(records), summarize(PEOPLE))
    assert set(blocks.relgq[blocks.relgq >= 18]) == {19}
    assert not records[records.block == 2].merge(PEOPLE.drop_duplicates(), how="inner").equals(records)
    above = records.assign(place=np.array(TREE["Block"])[records.block]).drop(columns=["block", "count"])
    counted = above.value_counts().rename("count").reset_index().sort_values(list(above.columns))
    county = measured.table("persons", "County").sort_values(list(above.columns))
    assert np.array_equal(county[counted.columns], counted)
    # The last four queries tell householders who live alone from others.
    rho = Fraction(sum(sum(each) + 2 * sum(each[6:]) for each in _parts().values()), 10_000)
    assert measured.specification.loss.rho == rho == sum(line.loss.rho for line in measured.specification.lines)
    assert "the redistricting file's persons" in repr(measured)
    assert "not charged" in repr(measured)
    tables = {name: measured.tabulate(name, "Block").set_index("place") for name in ("P1", "P8", "P12", "P13", "P18")}
    people = PEOPLE.groupby("block").size().reindex(range(5), fill_value=0)
    assert tables["P1"]["P1_001N"].tolist() == tables["P12"]["P12_001N"].tolist() == people.tolist()
    assert tables["P8"]["P8_003N"].tolist() == PEOPLE[PEOPLE.cenrace == 0].groupby("block").size().tolist()
    assert tables["P18"]["P18_001N"].tolist() == [0, 0, 8, 0, 0]
    state = measured.tabulate("P13", "State")
    assert abs(state["P13_001N"].item() - 0.5 - records["age"].median()) <= 1
    for unknown in ("P13AB", "P13J", "P130", "P99"):
        with pytest.raises(KeyError, match=unknown):
            measured.tabulate(unknown, "County")
    again, other = measure(), measure(randomness=stirred.random.from_key(bytes(32)))
    assert again.table("persons", "Block").equals(blocks)
    assert not other.table("persons", "Block").equals(blocks)
    assert not measure(estimation="own_levels").table("persons", "State").equals(measured.table("persons", "State"))


def _parts() -> dict[str, list[int]]:
    allocation = dhc.PERSON_ALLOCATION
    levels = list(allocation.levels)[-3:]
    return {
        level: [int(allocation.part(level, query).rho * 10_000) for query in allocation.queries[level]]
        for level in levels
    }


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"persons": PEOPLE.drop(columns="sex")}, "persons: there is no column sex"),
        ({"persons": PEOPLE.assign(block=7)}, r"block: 68 codes are not between 0 and 4"),
        ({"persons": PEOPLE.assign(age=3)}, r"persons: \d+ records are impossible"),
        ({"tree": {"State": [0], "County": [0, 0], "Block": [1, 0, 0, 1, 1]}}, "places lie in the order"),
        ({"tree": {"State": [0], "Block": [0, 0]}}, "the allocation's levels are"),
        ({"allocation": dhc.divide(dhc.PERSONS, ["detailed"], dict.fromkeys(TREE, (1,)))},
         r"persons: State: the query relgq \* .* has no share"),
        ({"allocation": dhc.divide(dhc.PERSONS, [*dhc.PERSON_ALLOCATION.queries["Block"]],
                                   dict.fromkeys(TREE, (1001, *[1] * 9)))},
         "persons: State: one query has over 1,000 times the share of another"),
        ({"passes": [["sex", "detailed"], ["detailed"]]}, "passes: persons: the query detailed is named twice"),
        ({"redistricting": np.eye(5, REDISTRICTING.size, 3 * 252, dtype=np.int64)}, "5 blocks have impossible persons"),
        ({"redistricting": -summarize(PEOPLE)}, "not negative"),
        ({"estimation": "half"}, "full or own_levels, not half"),
        ({"facilities": PRISON[:, :7]}, r"the shape \(5, 24\), not \(5, 7\)"),
        ({"facilities": PRISON * 0}, "1 blocks have persons in a type of group quarters without a facility"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes: dict[str, object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        measure(**changes)


def test_upper_levels_add_up_the_filled_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Counts(*[np.empty(0, dtype=np.int64)] * 3)
    monkeypatch.setattr(dhc, "fill_facilities", lambda *_: nobody)
    measured = measure()
    assert measured.unfilled == np.count_nonzero(PRISON.any(axis=1)) > 0
    assert not any(len(measured.table("persons", level)) for level in TREE)


def test_a_level_without_a_budget_is_refused() -> None:
    with pytest.raises(dhc.AllocationError, match="the level County has no ρ"):
        dhc.divide(dhc.UNITS, ["detailed"], {"State": [1], "County": [0]})


def test_answers_about_units_are_not_over_a_thousand_times_as_precise_as_those_beside_them() -> None:
    """Fails for: a check of the queries of households alone."""
    nothing = pd.DataFrame({"block": []})
    with pytest.raises(dhc.AllocationError, match="households: State: one query has over 1,000 times the share"):
        dhc.measure_homes(
            TREE, nothing, nothing, [], persons=[], randomness=stirred.random.from_key(KEY),
            unit_allocation=dhc.divide(dhc.UNITS, ["detailed"], dict.fromkeys(TREE, (10**6,))),
            household_allocation=divide(dhc.HOUSEHOLDS, dhc.HOUSEHOLD_ALLOCATION),
        )  # fmt: skip


def test_a_move_costs_at_most_what_homes_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong program counts households twice, as units. But when two persons of the same kind who live alone move in
    together, one cell loses 2 and another gains 1."""
    monkeypatch.setattr(
        levels,
        "estimate_level",
        lambda plan, own, *rest, **_: Level(
            own.measuring._exact, *[0.5 if own.measuring.level.name == "State" else 0.1] * 2
        ),
    )
    alone, couple = (
        next(code for code, each in enumerate(dhc.TYPES) if each.size == size and each.couple == kind)
        for size, kind in ((1, dhc.Couple.NONE), (2, dhc.Couple.OPPOSITE_SEX_COHABITING))
    )
    other = dict.fromkeys(("sex", "hisp", "race", "elderly", "hhtenshort_3lev"), 0) | {"hhage": 3}
    before = pd.DataFrame({"block": [0, 1], "hhtype_dhch": alone, **other})
    after = pd.DataFrame({"block": [0], "hhtype_dhch": couple, **other})
    of_units, of_households = divide(dhc.UNITS, dhc.UNIT_ALLOCATION), divide(dhc.HOUSEHOLDS, dhc.HOUSEHOLD_ALLOCATION)
    counted = []
    for households in (before, after):
        occupied = np.bincount(households.block, minlength=5)
        vacant = np.array([1, 1, 0, 0, 0]) - occupied
        measured = dhc.measure_homes(
            TREE, pd.DataFrame({"block": [0, 1], "tenvacgq": 4 * vacant[:2]}), households,
            np.stack([occupied, vacant], axis=1), randomness=stirred.random.from_key(KEY),
            unit_allocation=of_units, household_allocation=of_households,
        )  # fmt: skip
        state = measured.table("households", "State")
        counted.append(state.set_index([*other, "hhtype_dhch"])["count"])
    assert (measured.gap, measured.violation) == (0.5, 0.5)
    squared = int((counted[0].sub(counted[1], fill_value=0) ** 2).sum())
    assert squared == 5
    charged = measured.specification.loss.rho - 2 * of_units.loss.rho
    # A squared distance of 2 costs ρ; 8 is the distance for two households with the same change.
    assert Fraction(squared, 2) * of_households.loss.rho <= charged == Fraction(8, 2) * of_households.loss.rho
    assert sum(line.loss.rho for line in measured.specification.lines) == measured.specification.loss.rho


@pytest.mark.prove
def test_homes_of_a_small_country() -> None:
    """The root has all possible cells, over a million, which takes seconds. Each householder is among the redistricting
    file's persons. Fails for: homes estimated without these persons, which have others."""
    random = np.random.default_rng(2)
    cells = random.choice(np.flatnonzero(dhc.HOUSEHOLDS.possible), 50)
    codes = {part.name: dhc.HOUSEHOLDS.marginal(part.name).find(cells) for part in dhc.HOUSEHOLDS.attributes}
    households = pd.DataFrame({"block": random.integers(0, 5, 50), **codes})
    occupied = households[["block"]].assign(tenvacgq=households.hhtenshort_3lev)
    others = pd.DataFrame({"block": random.integers(0, 5, 20), "tenvacgq": random.integers(4, 35, 20)})
    units = pd.concat([occupied, others])
    vacant = np.bincount(others.block[others.tenvacgq < 11], minlength=5)
    published = np.stack([np.bincount(households.block, minlength=5), vacant], axis=1)
    published[:, 0] -= (moved := np.minimum(published[:, 0], 1))
    published[:, 1] += moved
    arguments = {
        "unit_allocation": divide(dhc.UNITS, dhc.UNIT_ALLOCATION),
        "household_allocation": divide(dhc.HOUSEHOLDS, dhc.HOUSEHOLD_ALLOCATION),
        "randomness": stirred.random.from_key(KEY),
    }
    persons = np.zeros((5, 8, 2, 2, 63), dtype=np.int64)
    np.add.at(persons, (households.block, 0, 1, households.hisp, households.race), 1)
    living = persons[:, 0, 1, :, :7]
    measured = dhc.measure_homes(TREE, units, households, published, persons=persons.reshape(5, -1), **arguments)
    homes, found = (measured.table(name, "Block") for name in ("households", "units"))
    assert np.array_equal(np.bincount(homes.place, homes["count"], 5), published[:, 0])
    householders = np.zeros_like(living)
    np.add.at(householders, (homes.place, homes.hisp, homes.race), homes["count"])
    assert (householders <= living).all()
    assert np.array_equal(np.bincount(found.place, found["count"] * (found.tenvacgq < 4), 5), published[:, 0])
    quarters = found[found.tenvacgq >= 11].groupby(["place", "tenvacgq"])["count"].sum()
    assert quarters.to_dict() == others[others.tenvacgq >= 11].value_counts().to_dict()
    of_unit, of_household = (arguments[f"{name}_allocation"].loss.rho for name in ("unit", "household"))
    assert measured.specification.loss.rho == 2 * of_unit + 4 * of_household
    assert "vacant units, its persons, and" in measured.specification.flavor.multiverse[1]
    with pytest.raises(ValueError, match="another number of housing units"):
        dhc.measure_homes(TREE, units, households, published + 1, **arguments)
