"""Making a release again: without a change it gives the same bytes and no charge, with a change a new draw.

One release is published once. Every test copies its folder, changes one thing, and runs again.
"""

import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from resources.chain import Entry
from resources.custody import CustodyMode
from tests.deployments import PERSON_PRODUCTS, TO_PUBLICATION, Deployment, households, members, small_deployment
from tests.depth import deep_but, deep_cases, quick_cases

UNITS = households(60)
PERSONS = members(UNITS)
TO_CHARGE = ("cef", "invariants", "charge")
TO_DRAW = (*TO_CHARGE, "swapped")

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Published:
    """A published release and its results."""

    deployment: Deployment
    files: dict[str, bytes]
    versions: dict[str, str]
    ledger: tuple[Entry, ...]

    def taken_on(self, root: Path, units: Rows = UNITS, persons: Rows = PERSONS, **changes: Any) -> Deployment:
        """The release's deployment in a new folder, with other records or another declaration."""
        shutil.copytree(self.deployment.root, root, dirs_exist_ok=True)
        declared = {"custody": self.deployment.release.custody.value} | changes
        return small_deployment(root, units=units, persons=persons, **declared)


def publish(root: Path, custody: str, *stages: str) -> Published:
    """Make a release whole, or as far as some stages."""
    deployment = small_deployment(root, units=UNITS, persons=PERSONS, custody=custody)
    deployment.reach(*stages)
    return Published(deployment, deployment.published(), deployment.versions(), deployment.ledger)


@pytest.fixture(scope="module")
def escrowed(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(tmp_path_factory.mktemp("escrowed"), "escrowed")


@pytest.fixture(scope="module")
def ephemeral(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(tmp_path_factory.mktemp("ephemeral"), "ephemeral", *TO_PUBLICATION)


@pytest.fixture(params=["escrowed", "ephemeral"])
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Made whole, with its pictures."""
    if request.param == "escrowed":
        return request.getfixturevalue("escrowed")
    return publish(tmp_path_factory.mktemp("whole"), "ephemeral")


@deep_cases(1)
@pytest.mark.prove
def test_without_changes_bytes_and_versions_are_the_same_and_nothing_is_charged(
    published: Published, tmp_path: Path
) -> None:
    again = published.taken_on(tmp_path)
    again.run()
    assert again.published() == published.files
    assert again.versions() == published.versions
    assert len(again.versions()) == len(again.definitions.resolve_asset_graph().get_all_asset_keys())
    assert again.ledger == published.ledger


@pytest.mark.prove
def test_a_single_stage_made_again_keeps_its_version(escrowed: Published, tmp_path: Path) -> None:
    """This also holds for the last stage alone, in any order, as from the UI."""
    again = escrowed.taken_on(tmp_path)
    for stage in ("publication", "swapped", "charge", "utility", "tables", "invariants"):
        again.run(stage)
    assert again.versions().items() <= escrowed.versions.items()
    assert again.ledger == escrowed.ledger
    assert again.published() == escrowed.files


@pytest.mark.prove
def test_the_order_of_the_sources_rows_changes_nothing(escrowed: Published, tmp_path: Path) -> None:
    shuffle = random.Random(1)
    units, persons = shuffle.sample(UNITS, len(UNITS)), shuffle.sample(PERSONS, len(PERSONS))
    again = escrowed.taken_on(tmp_path, units, persons)
    again.run()
    assert again.published() == escrowed.files
    assert again.versions() == escrowed.versions
    assert again.ledger == escrowed.ledger


@pytest.mark.prove
def test_other_keys_for_the_same_records_change_nothing_public(escrowed: Published, tmp_path: Path) -> None:
    units = [unit | {"serial": 10_000 - 7 * unit["serial"]} for unit in UNITS]
    persons = [person | {"household": 10_000 - 7 * person["household"]} for person in PERSONS]
    again = escrowed.taken_on(tmp_path, units, persons)
    again.run()
    assert again.published() == escrowed.files
    assert again.ledger == escrowed.ledger
    changed = {name for name, version in again.versions().items() if version != escrowed.versions[name]}
    assert changed == {"village/cef"}, "the CEF holds the keys, and nothing downstream of it does"


def changed_unit() -> tuple[Rows, Rows]:
    units = [dict(unit) for unit in UNITS]
    units[7]["tenure"] = "own" if units[7]["tenure"] == "rent" else "rent"
    return units, PERSONS


def changed_person() -> tuple[Rows, Rows]:
    persons = [dict(person) for person in PERSONS]
    persons[7]["sex"] = "m" if persons[7]["sex"] == "f" else "f"
    return UNITS, persons


def moved_person() -> tuple[Rows, Rows]:
    persons = [dict(person) for person in PERSONS]
    persons[7]["household"] = UNITS[30]["serial"]
    return UNITS, persons


def two_units_exchange_what_is_swapped() -> tuple[Rows, Rows]:
    """In one stratum: both margins, and so every invariant, stay the same. Only the joint table changes."""
    units = [dict(unit) for unit in UNITS]
    one, other = next(
        (one, other)
        for one in units
        for other in units
        if (one["region"], one["size"]) == (other["region"], other["size"]) and one["county"] != other["county"]
    )
    one["county"], other["county"] = other["county"], one["county"]
    return units, PERSONS


def a_unit_more() -> tuple[Rows, Rows]:
    return [*UNITS, UNITS[0] | {"serial": 61}], PERSONS


@pytest.mark.deep
@deep_cases(1)
@pytest.mark.parametrize(
    "change",
    deep_but(
        [changed_unit], [changed_unit, changed_person, moved_person, two_units_exchange_what_is_swapped, a_unit_more]
    ),
)
def test_one_changed_record_is_a_new_draw_and_a_new_charge(escrowed: Published, change: Any, tmp_path: Path) -> None:
    again = escrowed.taken_on(tmp_path, *change())
    again.run(*TO_DRAW)
    before, (reserved, settled) = again.ledger[:-2], again.ledger[-2:]
    assert before == escrowed.ledger
    assert (reserved.kind, settled.kind) == ("reserve", "settle")
    assert reserved.draw_id == settled.draw_id != escrowed.ledger[0].draw_id
    assert reserved.commitment != escrowed.ledger[0].commitment
    assert settled.output_version != escrowed.ledger[1].output_version
    assert reserved.draw_id == again.versions()["village/counties/charge"]


@pytest.mark.deep
def test_the_same_noise_never_serves_two_versions_of_the_records(escrowed: Published, tmp_path: Path) -> None:
    """If the stream were the same for both, the difference of two publications would be the change itself."""
    again = escrowed.taken_on(tmp_path, *two_units_exchange_what_is_swapped())
    with escrowed.deployment.opened() as connection:
        before = set(connection.execute("FROM swapped_cells").fetchall())
    again.run(*TO_DRAW)
    with again.opened() as connection:
        after = set(connection.execute("FROM swapped_cells").fetchall())
    assert len(before ^ after) > 8, "by itself the exchange touches four cells, each replaced at most"


@pytest.mark.prove
def test_with_the_old_records_the_old_draw_is_used_again(escrowed: Published, tmp_path: Path) -> None:
    """Two versions of the records have two charges, however often one replaces the other."""
    escrowed.taken_on(tmp_path, *changed_unit()).run(*TO_DRAW)
    back = small_deployment(tmp_path, units=UNITS, persons=PERSONS)
    back.run(*TO_PUBLICATION)
    assert [entry.kind for entry in back.ledger] == ["reserve", "settle"] * 2
    tables = {name: text for name, text in escrowed.files.items() if name.endswith((".csv", ".parquet"))}
    assert {name: text for name, text in back.published().items() if name in tables} == tables
    assert b'"total_at_publication"' in back.published()["certificate.json"], "which has grown by the other charge"


@pytest.mark.prove
def test_another_product_costs_nothing_and_draws_nothing(escrowed: Published, tmp_path: Path) -> None:
    products = [*PERSON_PRODUCTS[:2], {"name": "tenures", "dimensions": ["tenure"]}]
    again = escrowed.taken_on(tmp_path, products=products)
    again.run(*TO_PUBLICATION)
    assert again.ledger == escrowed.ledger
    stages = ("charge", "swapped", "invariants")
    assert {again.versions()[f"village/counties/{stage}"] for stage in stages} == {
        escrowed.versions[f"village/counties/{stage}"] for stage in stages
    }
    assert again.published()["saturated.csv"] == escrowed.files["saturated.csv"]
    assert "tenures.csv" in again.published()
    assert "age_by_county.csv" not in again.published(), "what is no longer declared is no longer published"


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize(
    "changes",
    [
        {"title": "Other words", "description": "for the same"},
        {"dataset": {"title": "A hamlet", "cap": "41", "copies": 2}},
    ],
    ids=["words", "cap"],
)
def test_a_change_without_effect_on_outputs_makes_no_new_draw(
    escrowed: Published, changes: Any, tmp_path: Path
) -> None:
    again = escrowed.taken_on(tmp_path, **changes)
    again.run(*TO_CHARGE)
    assert again.ledger == escrowed.ledger


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize(
    "changes",
    [
        {"swap_rate": "1/4"},
        {"name": "again"},
        {"custody": "ephemeral"},
        {"match": ["region"]},
        {"swap": ["county", "tenure"]},
        {"unit": "person", "products": []},
        {"dataset": {"name": "town", "population": "village"}},
    ],
    ids=str,
)
def test_another_parameter_is_a_new_draw_and_a_new_charge(escrowed: Published, changes: Any, tmp_path: Path) -> None:
    again = escrowed.taken_on(tmp_path, **changes)
    again.run(*TO_CHARGE)
    assert [entry.kind for entry in again.ledger] == ["reserve", "settle", "reserve"]
    assert again.ledger[2].draw_id != again.ledger[0].draw_id
    assert again.ledger[2].commitment != again.ledger[0].commitment


@pytest.mark.deep
def test_a_swap_rate_written_differently_is_the_same_swap_rate(escrowed: Published, tmp_path: Path) -> None:
    again = escrowed.taken_on(tmp_path, swap_rate="2/6")
    again.run(*TO_CHARGE)
    assert again.ledger == escrowed.ledger


@pytest.mark.prove
def test_another_master_key_is_another_draw(escrowed: Published, tmp_path: Path) -> None:
    """Draw ids and keys depend on the custody. The records and the code alone predict neither."""
    other = small_deployment(tmp_path, units=UNITS, persons=PERSONS)
    other.reach(*TO_DRAW)
    assert other.ledger[0].draw_id != escrowed.ledger[0].draw_id
    assert other.ledger[0].commitment != escrowed.ledger[0].commitment
    assert other.ledger[1].output_version != escrowed.ledger[1].output_version


@pytest.mark.deep
def test_no_ephemeral_key_exists_once_the_draw_is_settled(ephemeral: Published) -> None:
    keys = list(ephemeral.deployment.root.glob("custody/ephemeral/*"))
    assert keys == []
    charge = ephemeral.ledger[0]
    with pytest.raises(Exception, match="cannot be replayed"):
        ephemeral.deployment.context.custody.open_key(charge.draw_id, CustodyMode.EPHEMERAL, charge.commitment)


@pytest.mark.deep
@deep_cases(1)
@pytest.mark.parametrize(
    ("stages", "changes"),
    [
        (TO_CHARGE, {"swap_rate": "1/4"}),
        (TO_CHARGE, {"swap_rate": "1/4", "dataset": {"charging": None}}),
        (TO_CHARGE, {"name": "again"}),
        (TO_CHARGE, {"custody": "escrowed"}),
        (TO_CHARGE, {"units": UNITS[:50], "persons": members(UNITS[:50])}),
        (["swapped"], {"swap_rate": "1/4"}),
    ],
    ids=["parameter", "not authorized", "renamed", "custody", "records", "not charged"],
)
def test_the_key_that_a_killed_process_left_goes_with_the_next_charge_or_draw_whatever_changed(
    ephemeral: Published, stages: Sequence[str], changes: Any, tmp_path: Path
) -> None:
    """It was killed after the settlement. Fails for: a stage that forgets only the key of its own draw."""
    again = ephemeral.taken_on(tmp_path, **changes)
    custody, (reserved, _) = again.context.custody, ephemeral.ledger
    custody.commit(reserved.draw_id, CustodyMode.EPHEMERAL)
    done = again.run(*stages, raise_on_error=False)
    new = {entry.draw_id for entry in again.ledger[2:]}
    assert done.success == bool(new)
    assert custody.list_keys() == (set() if changes.get("custody") else new)


@pytest.mark.prove
def test_swapped_data_lost_under_ephemeral_custody_stay_lost(ephemeral: Published, tmp_path: Path) -> None:
    again = ephemeral.taken_on(tmp_path)
    with again.opened() as connection:
        connection.execute("DROP VIEW swapped")
        connection.execute("DROP TABLE swapped_cells")
        connection.execute("DROP TABLE draw")
    refusal = again.refusal(*TO_PUBLICATION)
    assert refusal.startswith("village__counties__swapped:")
    assert "custody is ephemeral and its key was destroyed" in refusal
    assert "a release under a new name, with a new charge" in refusal
    assert again.ledger == ephemeral.ledger
    assert list(tmp_path.glob("custody/ephemeral/*")) == []
    assert again.published() == ephemeral.files
    with again.opened() as connection:
        left = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
    assert not left & {"swapped", "swapped_cells", "draw"}


@pytest.mark.prove
def test_swapped_data_lost_under_escrowed_custody_are_redrawn_identically(escrowed: Published, tmp_path: Path) -> None:
    again = escrowed.taken_on(tmp_path)
    with again.opened() as connection:
        connection.execute("DROP VIEW swapped")
        connection.execute("DROP TABLE swapped_cells")
        connection.execute("DROP TABLE draw")
    again.run(*TO_PUBLICATION)
    assert again.ledger == escrowed.ledger
    assert again.published() == escrowed.files
    assert again.versions().items() <= escrowed.versions.items()


@pytest.mark.prove
def test_a_lost_output_is_drawn_again_as_it_was(escrowed: Published, tmp_path: Path) -> None:
    again = escrowed.taken_on(tmp_path)
    with again.opened() as connection:
        connection.execute("DROP TABLE swapped_cells")
    again.run("swapped", "tables", "publication")
    assert again.published() == escrowed.files
    assert again.ledger == escrowed.ledger
