"""The gates: after any alteration by hand, the right gates fail, and nothing is published.

A release is published once, and its folder is copied for every test. DuckDB alters the stored tables of the copy,
bypassing every safeguard. Then every check is run, and only the publication is made again.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pytest

from assets.gates.shared import all_gates
from assets.swapping import draw as swap
from mechanisms.swapping.permutation import Contingency
from resources.custody import CustodyMode
from tests.deployments import COUNTIES, SHOWN, TO_PUBLICATION, UNITS, Deployment, refuses_to_publish, small_deployment
from tests.depth import deep_but, deep_cases, quick_cases

Tampering = Callable[[Deployment], None]


@pytest.fixture(scope="module")
def escrowed(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A publication with a kept verdict of every gate that passed, however fast."""
    deployment = small_deployment(tmp_path_factory.mktemp("escrowed"))
    with patch("assets.release.gate.SHORTEST_KEPT", 0):
        deployment.reach(*TO_PUBLICATION, *SHOWN)
    return deployment


@pytest.fixture(scope="module")
def with_persons(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    deployment = small_deployment(tmp_path_factory.mktemp("persons"), persons=True)
    deployment.reach(*TO_PUBLICATION, *SHOWN)
    return deployment


@pytest.fixture(scope="module")
def ephemeral(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    deployment = small_deployment(tmp_path_factory.mktemp("ephemeral"), custody="ephemeral")
    deployment.reach(*TO_PUBLICATION, *SHOWN)
    return deployment


def taken_on(deployment: Deployment, root: Path, **changes: Any) -> Deployment:
    """The deployment in a new folder, with the Dagster instance that recorded the publication."""
    shutil.copytree(deployment.root, root, dirs_exist_ok=True)
    copy = small_deployment(root, custody=deployment.release.custody.value, **changes)
    copy.instance = deployment.instance
    return copy


def add(connection: duckdb.DuckDBPyConnection, *changes: tuple[int, int, int]) -> None:
    for holding, swapped, number in changes:
        connection.execute(
            "UPDATE swapped_cells SET count = count + ? WHERE holding_code = ? AND swap_code = ?",
            [number, holding, swapped],
        )


def corners(connection: duckdb.DuckDBPyConnection) -> tuple[int, int, int, int]:
    """Two holding codes and two swap codes of one stratum, with two records or more in each of the four cells."""
    return connection.execute(
        """
        SELECT a.holding_code, d.holding_code, a.swap_code, d.swap_code
        FROM swapped_cells AS a, swapped_cells AS b, swapped_cells AS c, swapped_cells AS d
        WHERE a.holding_code = b.holding_code AND c.holding_code = d.holding_code AND a.holding_code < c.holding_code
            AND a.swap_code = c.swap_code AND b.swap_code = d.swap_code AND a.swap_code < b.swap_code
            AND least(a.count, b.count, c.count, d.count) > 1
        ORDER BY ALL
        """
    ).fetchall()[0]  # type: ignore[return-value]


def two_records_exchanged(deployment: Deployment) -> None:
    """Four cells, altered so that every margin stays exact."""
    with deployment.opened() as connection:
        one, other, here, there = corners(connection)
        add(connection, (one, here, -1), (other, there, -1), (one, there, 1), (other, here, 1))


def a_record_with_other_held_values(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        one, other, here, _ = corners(connection)
        add(connection, (one, here, -1), (other, here, 1))


def a_record_with_another_swap_value(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        one, _, here, there = corners(connection)
        add(connection, (one, here, -1), (one, there, 1))


def a_record_too_many(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        one, _, here, _ = corners(connection)
        add(connection, (one, here, 1))


def a_table_in_place_of_the_view(deployment: Deployment) -> None:
    """The decoded swapped data are a view of the drawn codes. Here a table replaces it."""
    with deployment.opened() as connection:
        connection.execute("CREATE TABLE altered AS FROM swapped")
        connection.execute("DROP VIEW swapped")
        connection.execute("ALTER TABLE altered RENAME TO swapped")
        here, there = "Avon", "Brent"
        ((holding, other),) = connection.execute(
            """
            SELECT a.holding_code, b.holding_code
            FROM swapped AS a JOIN swapped AS b USING (region, size)
            WHERE a.county = $here AND b.county = $there AND a.tenure < b.tenure
            ORDER BY ALL
            LIMIT 1
            """,
            {"here": here, "there": there},
        ).fetchall()
        for code, county, number in ((holding, here, -1), (other, there, -1), (holding, there, 1), (other, here, 1)):
            connection.execute(
                "UPDATE swapped SET count = count + ? WHERE holding_code = ? AND county = ?", [number, code, county]
            )


def another_draws_output(deployment: Deployment) -> None:
    """The output of another draw on the same records, with this draw's label, and with another published table."""

    def product(drawn: Deployment) -> list[Any]:
        with drawn.opened() as connection:
            found = connection.execute("SELECT county, tenure, sum(count) FROM swapped GROUP BY ALL ORDER BY ALL")
            return found.fetchall()

    for rate in range(4, 100):
        other = small_deployment(deployment.root / f"other-{rate}", swap_rate=f"1/{rate}")
        other.reach("cef", "invariants", "charge", "swapped")
        if product(other) != product(deployment):
            break
    with deployment.opened() as connection:
        connection.execute(f"ATTACH '{other.root}/warehouse/public.duckdb' AS other (READ_ONLY)")
        connection.execute("CREATE OR REPLACE TABLE swapped_cells AS FROM other.village__counties.swapped_cells")


def a_label_of_another_draw(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        connection.execute("UPDATE draw SET draw_id = repeat('ab', 32)")


def in_a_product(deployment: Deployment) -> None:
    """Two households exchanged in one table. Its margins, which are all invariants, stay exact."""
    with deployment.opened() as connection:
        for county, tenure, number in (
            ("Avon", "own", 1),
            ("Avon", "rent", -1),
            ("Brent", "own", -1),
            ("Brent", "rent", 1),
        ):
            connection.execute(
                "UPDATE product_tenure_by_county SET count = count + ? WHERE county = ? AND tenure = ?",
                [number, county, tenure],
            )


def in_a_product_and_its_margins(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        connection.execute("UPDATE product_size_by_county SET count = count + 1 WHERE size_total OR size = 1")


def in_a_total(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        connection.execute("UPDATE product_tenure_by_county SET count = count + 1 WHERE tenure_total")


def in_an_interval(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        connection.execute("UPDATE product_tenure_by_county SET upper = upper - 1 WHERE upper > lower")


def a_cell_left_out(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        connection.execute("DELETE FROM product_size_by_county WHERE size = '1' AND county = 'Avon'")


def in_the_saturated_table(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        connection.execute(
            """
            UPDATE saturated
            SET county = CASE county WHEN 'Avon' THEN 'Brent' WHEN 'Brent' THEN 'Avon' ELSE county END
            """
        )


def a_key_twice(deployment: Deployment) -> None:
    with deployment.opened("confidential") as connection:
        connection.execute("UPDATE confidential.village.units SET serial = 1 WHERE serial = 2")


def a_value_lost(deployment: Deployment) -> None:
    with deployment.opened("confidential") as connection:
        connection.execute("UPDATE confidential.village.units SET serial = NULL WHERE serial = 2")


def the_cef_afterwards(deployment: Deployment) -> None:
    """Two households of one stratum exchange their counties. No invariant changes, but the joint table does."""
    with deployment.opened("confidential") as connection:
        (one, here, other, there) = connection.execute(
            """
            SELECT a.serial, a.county, b.serial, b.county
            FROM confidential.village.units AS a JOIN confidential.village.units AS b USING (region, size)
            WHERE a.county < b.county AND a.tenure < b.tenure
            ORDER BY ALL
            """
        ).fetchall()[0]
        for serial, county in ((one, there), (other, here)):
            connection.execute("UPDATE confidential.village.units SET county = ? WHERE serial = ?", [county, serial])


def invariants_of_a_smaller_stratum(deployment: Deployment) -> None:
    """An understated ε: b is 12 instead of 30, in both margins."""
    with deployment.opened() as connection:
        connection.execute("UPDATE invariant_holding SET count = 6")
        connection.execute("UPDATE invariant_swap SET count = 4")


def strata_split(deployment: Deployment) -> None:
    """Another way to a smaller b: owners and renters in separate strata."""
    with deployment.opened() as connection:
        connection.execute("UPDATE invariant_holding SET stratum = stratum + 4 WHERE tenure = 'rent'")


def another_version_of_the_records(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        connection.execute("UPDATE records SET version = repeat('cd', 32)")


def a_ledger_entry_removed(deployment: Deployment) -> None:
    with deployment.opened("ledger") as connection:
        connection.execute("DELETE FROM ledger.entries WHERE sequence = 1")


def the_last_ledger_entry_removed(deployment: Deployment) -> None:
    with deployment.opened("ledger") as connection:
        connection.execute("DELETE FROM ledger.entries WHERE kind = 'settle'")


def a_charge_made_smaller(deployment: Deployment) -> None:
    with deployment.opened("ledger") as connection:
        connection.execute("UPDATE ledger.entries SET specification = replace(specification, '62', '2')")


def the_ledger_thrown_away(deployment: Deployment) -> None:
    (deployment.root / "warehouse" / "ledger.duckdb").unlink()
    (deployment.root / "custody" / "ledger.anchor").unlink()


def the_ledger_of_another_deployment(deployment: Deployment) -> None:
    """A ledger that is intact and anchored, but does not contain this draw."""
    the_ledger_thrown_away(deployment)
    other = small_deployment(deployment.root / "other", swap_rate="1/4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", (deployment.root / "custody" / "master.key").read_text().strip())
        other.run("cef", "invariants", "charge")
    shutil.copy(other.root / "warehouse" / "ledger.duckdb", deployment.root / "warehouse")
    shutil.copy(other.root / "custody" / "ledger.anchor", deployment.root / "custody")


MARGINS = {"holding_margin_exact", "swap_margin_exact", "stratum_multisets_equal", "record_count"}
DRAW = {"replay", "settled"}
TABLES = {"tables_as_made"}
PRODUCTS = {*TABLES, "products_agree_with_swapped_data"}
LEDGER = {"charge_present", *DRAW, "within_cap", "ledger_intact", "shown_as_charged"}


@dataclass(frozen=True)
class Alteration:
    """An alteration, and exactly the gates that it makes fail."""

    alter: Tampering
    gates: set[str]
    says: str = ""


ALTERATIONS = [
    Alteration(a_key_twice, {"schema_and_keys", "as_read"}),
    Alteration(a_value_lost, {"schema_and_keys", "as_read"}),
    Alteration(the_cef_afterwards, {"as_read", "margins_of_the_cef", "replay"}),
    Alteration(
        another_version_of_the_records, {"margins_of_the_cef", "charge_present", *DRAW}, says="the CEF has changed"
    ),
    Alteration(a_record_with_other_held_values, {"holding_margin_exact", *DRAW, *PRODUCTS}),
    Alteration(a_record_with_another_swap_value, {"swap_margin_exact", "stratum_multisets_equal", *DRAW, *PRODUCTS}),
    Alteration(a_record_too_many, {*MARGINS, *DRAW, *PRODUCTS}),
    Alteration(two_records_exchanged, {*DRAW, *PRODUCTS}),
    Alteration(another_draws_output, {*DRAW, *PRODUCTS}),
    Alteration(a_table_in_place_of_the_view, {"values_as_drawn", *PRODUCTS}),
    Alteration(a_label_of_another_draw, DRAW),
    Alteration(in_a_product, PRODUCTS),
    Alteration(in_the_saturated_table, TABLES),
    Alteration(in_a_total, TABLES),
    Alteration(in_an_interval, TABLES),
    Alteration(a_cell_left_out, {*PRODUCTS, "products_agree_with_invariants"}),
    Alteration(in_a_product_and_its_margins, {*PRODUCTS, "products_agree_with_invariants"}),
    Alteration(a_ledger_entry_removed, LEDGER, says="the ledger is not intact"),
    Alteration(the_last_ledger_entry_removed, LEDGER, says="the ledger is not intact"),
    Alteration(a_charge_made_smaller, LEDGER, says="the ledger is not intact"),
    Alteration(
        the_ledger_thrown_away,
        {"margins_of_the_cef", *LEDGER, "files_as_published"},
        says="ledger.anchor is missing",
    ),
    Alteration(
        the_ledger_of_another_deployment,
        {"charge_present", *DRAW, "shown_as_charged", "files_as_published"},
        says="is of no draw in the ledger",
    ),
]


QUICK = {the_cef_afterwards, two_records_exchanged, in_a_product}
"""`make prove` tries all."""


@quick_cases(1)
@deep_cases(1)
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case.alter in QUICK else pytest.mark.deep) for case in ALTERATIONS],
    ids=lambda case: case.alter.__name__,
)
def test_an_alteration_fails_its_gates_and_is_not_published(
    escrowed: Deployment, case: Alteration, tmp_path: Path
) -> None:
    deployment = taken_on(escrowed, tmp_path)
    case.alter(deployment)
    assert deployment.failed_checks() == case.gates
    refuses_to_publish(deployment, case.gates, case.says)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("understate", [invariants_of_a_smaller_stratum, strata_split])
def test_altering_the_invariants_does_not_give_a_smaller_epsilon(
    escrowed: Deployment, understate: Tampering, tmp_path: Path
) -> None:
    deployment = taken_on(escrowed, tmp_path)
    understate(deployment)
    with deployment.opened() as connection:
        (b,) = connection.execute(
            "SELECT max(n) FROM (SELECT sum(count) AS n FROM invariant_holding GROUP BY stratum)"
        ).fetchall()[0]
    assert b < 30, "the tampering does what it is meant to"
    assert {"margins_of_the_cef", "charge_present", "settled"} <= deployment.failed_checks()
    before = deployment.published()
    assert "village__counties" in deployment.refusal("publication")
    assert deployment.published() == before


@pytest.mark.deep
def test_each_gate_fails_for_some_alteration(escrowed: Deployment) -> None:
    """A changed declaration makes three others fail, below; `test_confidentiality` tests `confidentiality`."""
    names = {gate.name for gate in all_gates(escrowed.context.method)}
    assert names - {"within_cap", "values_in_domain", "unique_records", "confidentiality"} <= set().union(
        *(case.gates for case in ALTERATIONS)
    )
    assert escrowed.failed_checks() == set()


def test_every_gate_is_a_blocking_check_of_its_stage(escrowed: Deployment) -> None:
    graph = escrowed.definitions.resolve_asset_graph()
    for gate in all_gates(escrowed.context.method):
        found = {key.asset_key.path[-1]: key for key in graph.asset_check_keys if key.name == gate.name}
        # The ledger's own page has the check on the ledger, too.
        assert set(found) - {"ledger"} == {gate.stage}
        assert graph.get(found[gate.stage]).blocking


@pytest.mark.prove
def test_tables_made_from_altered_swapped_data_do_not_pass_either(escrowed: Deployment, tmp_path: Path) -> None:
    """All margins hold and all products agree. Only the ledger and the replay of the draw reveal the alteration."""
    deployment = taken_on(escrowed, tmp_path)
    two_records_exchanged(deployment)
    refuses_to_publish(deployment, DRAW, "", "tables", "publication")


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize(
    ("alter", "gate"),
    [
        (two_records_exchanged, "settled"),
        (another_draws_output, "settled"),
        (a_table_in_place_of_the_view, "values_as_drawn"),
    ],
)
def test_altered_swapped_data_are_found_even_without_a_replay(
    ephemeral: Deployment, alter: Tampering, gate: str, tmp_path: Path
) -> None:
    deployment = taken_on(ephemeral, tmp_path)
    alter(deployment)
    assert deployment.failed_checks() == {gate, *PRODUCTS}
    refuses_to_publish(deployment, {gate}, "", "tables", "publication")


@pytest.mark.deep
def test_an_ephemeral_key_that_still_exists_stops_the_publication(ephemeral: Deployment, tmp_path: Path) -> None:
    deployment = taken_on(ephemeral, tmp_path)
    deployment.context.custody.commit(deployment.ledger[0].draw_id, CustodyMode.EPHEMERAL)
    assert deployment.failed_checks() == {"key_gone"}
    refuses_to_publish(deployment, {"key_gone"}, "")


@pytest.mark.prove
def test_a_domain_narrowed_afterwards_stops_the_publication(escrowed: Deployment, tmp_path: Path) -> None:
    columns = {**UNITS, "size": UNITS["size"] | {"maximum": 3}}
    deployment = taken_on(
        escrowed, tmp_path, dataset={"units": {"path": str(tmp_path / "units.csv"), "columns": columns}}
    )
    assert deployment.failed_checks() == {"values_in_domain"}
    refuses_to_publish(deployment, {"values_in_domain"}, "")


@pytest.mark.prove
def test_an_acceptance_withdrawn_afterwards_stops_the_publication(with_persons: Deployment, tmp_path: Path) -> None:
    deployment = taken_on(with_persons, tmp_path, persons=True, publishes_unique_records="1/2")
    assert deployment.failed_checks() == {"unique_records"}
    refuses_to_publish(deployment, {"unique_records"}, "")


def persons_of_two_kinds_exchanged(deployment: Deployment) -> None:
    """Exchange a person of one kind of household for a person of another. The total number of persons is the same."""
    with deployment.opened() as connection:
        ((one, age, sex), (other, others_age, others_sex)) = connection.execute(
            """
            SELECT a.holding_code, a.age, a.sex
            FROM invariant_persons AS a JOIN invariant_holding AS h USING (holding_code)
            WHERE h.size = 1 AND h.count = 1
            ORDER BY ALL LIMIT 2
            """
        ).fetchall()
        for code, values in ((one, [others_age, others_sex]), (other, [age, sex])):
            connection.execute("UPDATE invariant_persons SET age = ?, sex = ? WHERE holding_code = ?", [*values, code])


def in_the_published_persons(deployment: Deployment) -> None:
    with deployment.opened() as connection:
        connection.execute("UPDATE saturated_persons SET age = age + 1 WHERE household_type = 0")


def household_types_renumbered(deployment: Deployment) -> None:
    """Give every household the persons of another."""
    with deployment.opened() as connection:
        connection.execute(
            "UPDATE saturated SET household_type = (SELECT max(household_type) FROM saturated) - household_type"
        )


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize(
    ("alter", "failing"),
    [
        (in_the_published_persons, TABLES),
        pytest.param(household_types_renumbered, TABLES, marks=pytest.mark.deep),
    ],
)
def test_persons_belong_to_the_household_they_are_listed_with(
    with_persons: Deployment, alter: Tampering, failing: set[str], tmp_path: Path
) -> None:
    deployment = taken_on(with_persons, tmp_path, persons=True)
    alter(deployment)
    assert deployment.failed_checks() == failing
    refuses_to_publish(deployment, failing, "")


@pytest.mark.prove
def test_persons_of_two_kinds_exchanged_in_the_invariants_are_noticed(with_persons: Deployment, tmp_path: Path) -> None:
    """Whether a product shows it depends on where the draw has put the two households. The seal always shows it."""
    deployment = taken_on(with_persons, tmp_path, persons=True)
    persons_of_two_kinds_exchanged(deployment)
    failing = deployment.failed_checks()
    assert {"margins_of_the_cef", *TABLES} <= failing - {"charge_present", *DRAW} <= {"margins_of_the_cef", *PRODUCTS}
    refuses_to_publish(deployment, failing, "their seal does not match")


@pytest.mark.prove
def test_a_cap_lowered_below_what_is_charged_stops_the_publication(escrowed: Deployment, tmp_path: Path) -> None:
    deployment = taken_on(escrowed, tmp_path, dataset={"cap": 4})
    assert deployment.failed_checks() == {"within_cap"}
    refuses_to_publish(deployment, {"within_cap"}, "")


@pytest.mark.prove
def test_a_swap_rate_changed_afterwards_is_not_the_one_charged(escrowed: Deployment, tmp_path: Path) -> None:
    deployment = taken_on(escrowed, tmp_path, swap_rate="1/2")
    assert {"charge_present", "settled"} <= deployment.failed_checks()
    before = deployment.published()
    assert "charge_present" in deployment.refusal("tables", "publication")
    assert deployment.published() == before


def test_the_label_of_a_draw_has_no_further_column(escrowed: Deployment, tmp_path: Path) -> None:
    """Fails for: a comparison of the label's value alone, which ignores any further column."""
    deployment = taken_on(escrowed, tmp_path)
    with deployment.opened() as connection:
        connection.execute("ALTER TABLE draw ADD COLUMN more BIGINT")
    with deployment.context.snapshot() as context:
        gates = [gate for gate in all_gates(context.method) if gate.name in DRAW]
        assert {gate.name for gate in gates if gate.evaluate(context)} == DRAW


def test_a_value_outside_its_domain_is_found_in_either_margin(escrowed: Deployment, tmp_path: Path) -> None:
    """Fails for: a gate that reads the domains of one margin alone, or that reports unaltered values."""
    deployment = taken_on(escrowed, tmp_path)
    (gate,) = (gate for gate in all_gates(deployment.context.method) if gate.name == "values_in_domain")
    assert gate.evaluate(deployment.context) == []
    for table, column, value, back in (
        ("invariant_holding", "size", 99, 1),
        ("invariant_swap", "county", "Nowhere", "Avon"),
    ):
        with deployment.opened() as connection:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", [value, back])
        problems = gate.evaluate(deployment.context)
        assert problems
        assert all(table in problem and column in problem for problem in problems)
        assert not any(str(value) in problem for problem in problems)
        with deployment.opened() as connection:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", [back, value])


def test_the_larger_place_of_a_swapped_place_need_not_take_part(tmp_path: Path) -> None:
    """Fails for: a gate that declares the columns of one margin as a table, where `within` names a missing column."""
    area = {"source": "county", "type": "string", "role": "geography", "merge": {"all": list(COUNTIES)}}
    columns = UNITS | {"area": area, "county": UNITS["county"] | {"within": "area"}}
    units = {"path": str(tmp_path / "units.csv"), "columns": columns}
    taking_part = {"match": ["size"], "variables": ["tenure"]}
    deployment = small_deployment(tmp_path, dataset={"units": units}, **taking_part)
    deployment.run("cef", "invariants")
    (gate,) = (gate for gate in all_gates(deployment.context.method) if gate.name == "values_in_domain")
    assert gate.evaluate(deployment.context) == []


@pytest.mark.prove
def test_a_whole_run_repairs_what_was_altered(escrowed: Deployment, tmp_path: Path) -> None:
    """The stages are made again from the source: no alteration survives, and nothing is charged."""
    deployment = taken_on(escrowed, tmp_path)
    for alter in (a_key_twice, two_records_exchanged, a_label_of_another_draw, in_a_product):
        alter(deployment)
    deployment.reach(*TO_PUBLICATION, *SHOWN)
    assert deployment.failed_checks() == set()
    assert deployment.published() == escrowed.published()
    assert deployment.ledger == escrowed.ledger


@pytest.mark.deep
def test_an_altered_published_file_is_found_and_published_again(escrowed: Deployment, tmp_path: Path) -> None:
    deployment = taken_on(escrowed, tmp_path)
    path = deployment.release.folder / "saturated.csv"
    path.write_bytes(path.read_bytes().replace(b"Avon", b"Oban", 1))
    (deployment.release.folder / "certificate.html").unlink()
    assert deployment.failed_checks() == {"files_as_published"}
    deployment.run("publication")
    assert deployment.published() == escrowed.published()


def a_record_lost(table: Contingency) -> Contingency:
    count = table.count.copy()
    count[np.argmax(count)] -= 1
    return replace(table, count=count)


def swapped_across_strata(table: Contingency) -> Contingency:
    """Give every record the swap values of the next record, from any stratum."""
    holding, swapped = np.repeat(table.holding, table.count), np.repeat(table.swap, table.count)
    strata = np.repeat(table.stratum, table.count)
    cells, count = np.unique(np.stack([strata, holding, np.roll(swapped, 20)]), axis=1, return_counts=True)
    return Contingency(*cells, count)


def values_dealt_with_repetition(table: Contingency) -> Contingency:
    """A sampler that draws swap values with replacement: right in expectation, but an invariant does not hold."""
    random = np.random.default_rng(1)
    holding, swapped = np.repeat(table.holding, table.count), np.repeat(table.swap, table.count)
    strata = np.repeat(table.stratum, table.count)
    for stratum in np.unique(strata):
        own = strata == stratum
        swapped[own] = random.choice(swapped[own], own.sum())
    cells, count = np.unique(np.stack([strata, holding, swapped]), axis=1, return_counts=True)
    return Contingency(*cells, count)


@pytest.mark.deep
@deep_cases(1)
@pytest.mark.parametrize(
    "wrong",
    deep_but([swapped_across_strata], [a_record_lost, swapped_across_strata, values_dealt_with_repetition]),
)
def test_a_wrong_mechanism_is_stopped_in_the_run_itself(
    wrong: Callable[[Contingency], Contingency], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks of the swapped data are blocking: no table is made from the data, and nothing is published."""
    monkeypatch.setattr(swap, "permute", lambda table, rate, stream: wrong(table))
    deployment = small_deployment(tmp_path)
    result = deployment.run(*TO_PUBLICATION, *SHOWN, raise_on_error=False)
    assert not result.success
    failed = {check.check_name for check in result.get_asset_check_evaluations() if not check.passed}
    assert failed
    assert failed <= MARGINS
    assert {"swapped"} <= deployment.executed(result)
    assert not {"tables", "publication"} & deployment.executed(result)
    assert deployment.published() == {}
    with deployment.opened() as connection:
        assert "saturated" not in {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
