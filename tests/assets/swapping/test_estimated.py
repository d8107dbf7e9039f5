"""Products of a swap show estimates that are right for its rates; of a swap without estimates, they say why.

All outcomes of a small release are enumerated with their probabilities, stored, and tabulated by the release's recipes.
"""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assets.swapping.declaration import ESTIMATED
from assets.swapping.draw import write_cells
from assets.swapping.records import read_contingency, stage_records
from assets.swapping.release import SwappingRelease
from assets.swapping.statement import PROSE
from assets.swapping.tables import published_tables, table_recipes
from mechanisms.swapping.permutation import Contingency
from resources.statements import Zone
from resources.warehouse import Session
from tests.assets.swapping.villages import Village, village
from tests.depth import deep_cases, quick_cases
from tests.mechanisms.swapping.enumeration import algorithm_1, cycle_type

UNITS = {
    "serial": {"type": "integer", "role": "key"},
    "size": {"type": "integer", "minimum": 1, "maximum": 9},
    "tenure": {"type": "string", "values": ["own", "rent"]},
    "street": {"type": "string", "values": ["East", "West"]},
}
PERSONS = {
    "household": {"type": "integer", "role": "unit"},
    "age": {"type": "integer", "minimum": 0, "maximum": 115},
}
ROWS = (
    (1, "own", "East"),
    (1, "own", "East"),
    (1, "rent", "West"),
    (1, "rent", "West"),
    (2, "own", "East"),
    (2, "rent", "West"),
    (2, "rent", "West"),
    (3, "own", "West"),
)
AGES = ((30,), (7,), (30,), (30,), (30, 7), (30, 7), (30, 30), (7, 7, 30))
BY_STREET = {"name": "tenure", "geography": ["street"], "dimensions": ["tenure"], "totals": ["street", "tenure"]}
AGES_BY_STREET = {"name": "ages", "of": "persons", "geography": ["street"], "dimensions": ["age"], "totals": ["age"]}

Cells = dict[tuple[Any, ...], dict[str, Any]]


@pytest.fixture
def small(tmp_path: Path) -> Village:
    rows = [dict(zip(UNITS, (number, *row), strict=True)) for number, row in enumerate(ROWS)]
    persons = [{"household": number, "age": age} for number, ages in enumerate(AGES) for age in ages]
    return village(tmp_path, UNITS, rows, PERSONS, persons)


def declared(small: Village, **changes: Any) -> SwappingRelease:
    return small.release(
        **{
            "match": ["size"],
            "swap": ["street"],
            "products": [BY_STREET, AGES_BY_STREET],
            "publishes_unique_records": "accepted",
        }
        | changes
    )


def outcomes(records: Contingency, rates: dict[int, Fraction]) -> dict[tuple[tuple[int, int], ...], Fraction]:
    """All swapped data, as pairs of codes of each record, with their probabilities; rates by stratum."""
    stratum, holding, swap = (
        np.repeat(each, records.count) for each in (records.stratum, records.holding, records.swap)
    )
    of_strata = []
    for number in np.unique(stratum):
        places = np.flatnonzero(stratum == number)
        law: defaultdict[tuple[tuple[int, int], ...], Fraction] = defaultdict(Fraction)
        for moved in permutations(range(len(places))):
            rate = rates[int(number)]
            chance = algorithm_1(cycle_type(moved), rate) if rate else Fraction(moved == tuple(range(len(places))))
            after = swap[places[list(moved)]]
            law[tuple(sorted(zip(holding[places].tolist(), after.tolist(), strict=True)))] += chance
        of_strata.append({outcome: chance for outcome, chance in law.items() if chance})
    whole: dict[tuple[tuple[int, int], ...], Fraction] = {}
    for parts in product(*(law.items() for law in of_strata)):
        chance = Fraction(1)
        for _, each in parts:
            chance *= each
        whole[tuple(pair for outcome, _ in parts for pair in outcome)] = chance
    return whole


def tabulated(session: Session, release: SwappingRelease, name: str) -> Cells:
    table = release.public(f"product_{name}")
    recipe, values, names = table_recipes(session, release)[table]
    session.create(table, recipe, values, **names)
    rows = session.arrow("warehouse/all", source=table).to_pylist()
    figures = ("count", *ESTIMATED)
    return {tuple(each for name, each in row.items() if name not in figures): row for row in rows}


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize(
    ("changes", "rates"),
    [
        pytest.param({"swap_rate": "1/3"}, ("1/3", "1/3", "1/3"), marks=pytest.mark.deep, id="one rate"),
        pytest.param(
            {"swap_rate": {"by": [{"when": {"size": 1}, "rate": "1/5"}, {"rate": "2/5"}]}},
            ("1/5", "2/5", "2/5"),
            marks=pytest.mark.deep,
            id="by stratum",
        ),
        pytest.param(
            {"swap_rate": None, "risk": {"cases": [{"when": {"size": 2}, "rate": "1/4"}, {"rate": "1/6"}]}},
            ("1/6", "1/4", "1/6"),
            marks=pytest.mark.deep,
            id="risk by match variables",
        ),
        pytest.param({"swap_rate": "1/3", "exempt": {"size": 1}}, ("0", "1/3", "1/3"), id="exempt"),
    ],
)
def test_the_mean_of_every_estimate_is_the_true_count(small: Village, changes: Any, rates: Any) -> None:
    release = declared(small, **changes)
    small.write_invariants(release)
    with small.warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session:
        records = read_contingency(session, release, stage_records(session, release))
    with small.warehouse.session(writes=Zone.PUBLIC) as session:
        write_cells(session, release, records)
        truth = {name: tabulated(session, release, name) for name in ("tenure", "ages")}
        law = outcomes(records, dict(enumerate(map(Fraction, rates))))
        assert sum(law.values()) == 1
        means: defaultdict[tuple[Any, ...], float] = defaultdict(float)
        for outcome, chance in law.items():
            pairs = sorted(Counter(outcome).items())
            holding, swap = (np.array([pair[place] for pair, _ in pairs], dtype=np.int32) for place in (0, 1))
            stratum = records.stratum[np.searchsorted(records.holding, holding)]
            counts = np.array([count for _, count in pairs], dtype=np.int64)
            write_cells(session, release, Contingency(stratum, holding, swap, counts))
            for name, cells in truth.items():
                for key, row in tabulated(session, release, name).items():
                    assert key in cells
                    assert row["greatest_bias"] == 0
                    means[name, *key] += float(chance) * float(row["estimate"])
        for name, cells in truth.items():
            for key, row in cells.items():
                # Published estimates are rounded to hundredths.
                assert means[name, *key] == pytest.approx(row["count"], abs=0.0051)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"second_stir": {"match": [], "swap_rate": "1/10"}}, "records were swapped twice"),
        ({"noise_before": {"tenure": "9/10"}, "variables": ["tenure"], "products": [BY_STREET]}, "perturbed"),
        (
            {
                "swap_rate": None,
                "risk": {"rarity_of": ["tenure"], "cases": [{"at_most": 3, "rate": "1/2"}, {"rate": "1/4"}]},
            },
            "swap rates differ",
        ),
        (
            {"swap_rate": None, "risk": {"cases": [{"when": {"tenure": "own"}, "rate": "1/4"}, {"rate": "1/6"}]}},
            "swap rates differ",
        ),
    ],
    ids=["second stir", "noise before", "rarity", "risk by held variables"],
)
def test_products_without_estimates_say_why(small: Village, changes: Any, reason: str) -> None:
    release = declared(small, **changes)
    (described, *_) = published_tables(release)
    assert reason in described.description
    assert [column.name for column in described.columns][-1] == "count"
    assert reason in PROSE("estimates", design=release.design)
