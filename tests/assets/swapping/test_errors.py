"""The errors of a release and of an experiment's draws, against plain arithmetic on the tables themselves."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from assets.swapping import utility
from assets.swapping.declaration import ExperimentDeclaration, SwappedProduct
from assets.swapping.records import COMPOSITIONS, SWAPPING, holding_table, read_contingency, stage_records
from assets.swapping.release import SwappingRelease
from assets.swapping.utility import run_experiment
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.permutation import Contingency, permute
from resources.statements import Table, Zone
from resources.warehouse import Session
from tests.assets.swapping.villages import village
from tests.deployments import PERSON_PRODUCTS, PERSONS, UNITS, households, members
from tests.depth import deep_cases, quick_cases

KEY = bytes(range(32))
INVARIANT = ("size_by_county", "sex_by_tenure")
RATES, DRAWS = (Fraction(1, 3), Fraction(1, 2)), 3


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("at_a_time", [1, 200, 10**9], ids=["one by one", "a few together", "all together"])
@pytest.mark.parametrize("name", [product["name"] for product in PERSON_PRODUCTS])
def test_every_draw_has_the_error_of_its_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, at_a_time: int
) -> None:
    """With any number of draws compared together, and with cells that only the swapped data have."""
    monkeypatch.setattr(utility, "_CELLS_AT_A_TIME", at_a_time)
    units = households(60)
    place = village(tmp_path, UNITS, units, PERSONS, members(units))
    release = place.release(
        match=["size"], swap=["region", "county"], products=PERSON_PRODUCTS, publishes_unique_records="accepted"
    )
    place.write_invariants(release)
    (product,) = (product for product in release.declaration.products if product.name == name)
    with place.warehouse.session(reads=[Zone.PUBLIC], writes=Zone.CONFIDENTIAL) as session:
        table = read_contingency(session, release, stage_records(session, release))
        truth = _tabulated(session, release, product, table)
        experiment = ExperimentDeclaration(product=name, swap_rates=RATES, draws=DRAWS)
        found = list(run_experiment(session, release, experiment, KEY))
        assert [(rate, draw) for rate, draw, _ in found] == [(rate, draw) for rate in RATES for draw in (1, 2, 3)]
        seen = set()
        for rate, draw, error in found:
            drawn = permute(table, rate, RandomStream(KEY, f"experiment {rate} {draw}"))
            swapped = _tabulated(session, release, product, drawn)
            differences = {cell: abs(truth[cell] - swapped[cell]) for cell in truth | swapped}
            mape = sum(Fraction(differences[cell], count) for cell, count in truth.items()) / len(truth)
            assert error["mape"] == pytest.approx(float(mape), rel=1e-12)
            assert error["largest_difference"] == max(differences.values())
            assert error["cells"] == len(truth)
            assert product.zeros or error["empty_cells"] == len(swapped.keys() - truth.keys())
            seen.add(error["mape"])
        assert seen == {0.0} if name in INVARIANT else len(seen) > 1, "draws differ where anything changes"


def _tabulated(
    session: Session, release: SwappingRelease, product: SwappedProduct, table: Contingency
) -> Counter[tuple[Any, ...]]:
    """The counts of a product's cells that are not empty."""
    held = _by_code(session, holding_table(release), "holding_code")
    swapped = _by_code(session, release.public(SWAPPING), "swap_code")
    persons = _records(session, release.public(COMPOSITIONS))
    counted: Counter[tuple[Any, ...]] = Counter()
    for holding, swap, count in zip(
        *(codes.tolist() for codes in (table.holding, table.swap, table.count)), strict=True
    ):
        unit = held[holding] | swapped[swap]
        if product.of == "units":
            counted[tuple(unit[column] for column in product.columns)] += count
            continue
        for person in persons:
            if person["holding_code"] == holding:
                values = unit | person
                counted[tuple(values[column] for column in product.columns)] += count * person["persons"]
    return counted


def _by_code(session: Session, table: Table, code: str) -> dict[int, Mapping[str, Any]]:
    return {row[code]: row for row in _records(session, table)}


def _records(session: Session, table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.arrow("warehouse/all", source=table).to_pylist()
    return found
