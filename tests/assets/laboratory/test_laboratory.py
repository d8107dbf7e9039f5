"""A laboratory from its declaration to its results, on a small synthetic census."""

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from assets.cef.census import RACE_CODES
from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.laboratory.asset import compute_digests, read_truths
from assets.laboratory.evaluation import NONMODAL
from assets.laboratory.grid import Part, Setting, measure_parts
from assets.laboratory.measures import ATTACKERS, FURTHER_MEASURES, MEASURES, POOR_LINK, UNDOING
from assets.laboratory.points import Point
from assets.laboratory.records import read_tract
from assets.laboratory.results import COLUMNS, ERROR, draw_pictures
from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from mechanisms.risk.tiers import DETAILED_GROUPS, HOUSEHOLDS, REDISTRICTING, SUMMARY_FILE
from orchestration.components.dataset import Dataset
from orchestration.components.laboratory import Laboratory, LaboratoryAttributes
from orchestration.release_definitions import without_configuration
from resources.chain import Details
from resources.custody import Custody, CustodyMode
from resources.ledger import Ledger
from resources.project import PROJECT
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.assets.charge.test_same_people import SPECIFICATION
from tests.assets.laboratory.test_attacks import KEY, make_truth
from tests.deployments import small_dataset

METHODS = {"swapping": {"rates": [0.5]}, "hypercubes": {"epsilons": [1]}, "rounding": {"bases": [3]}}
FOUR = {"tier": "T4-households", "methods": {"phsafe": {"factors": [1]}}}
TOO_LARGE = {"coarsening": {"thresholds": [{"place": 10_000, "least": 2}]}}


def declare(**changes: Any) -> Laboratory:
    declared: dict[str, Any] = {
        "name": "risk", "dataset": "town", "title": "Risk", "tier": "T1", "tracts": 1, "draws": 2, "targets": 4,
        "methods": METHODS,
    }  # fmt: skip
    given = {name: value for name, value in (declared | changes).items() if value is not None}
    return Laboratory(LaboratoryAttributes.model_validate(given))


def town(households: int = 270, **changes: Any) -> DatasetDeclaration:
    population = SyntheticPopulation(seed=1, households=households, states=["01"], detailed_codes=True)
    return synthetic_census(population, name="town", cap=100).model_copy(update=changes)


@dataclass
class Deployed:
    """A laboratory with its dataset and resources below a folder."""

    root: Path
    definitions: dg.Definitions
    instance: dg.DagsterInstance
    ledger: Ledger

    def run(self, first: str, last: str, alone: Sequence[dg.AssetKey] = ()) -> Mapping[str, dg.MetadataValue[Any]]:
        """Make all parts of the grid from one to another, and the results, or only some assets; return the metadata."""
        ends = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        job = self.definitions.get_repository_def().get_job("town__risk")
        config = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        result = job.execute_in_process(
            run_config=config, instance=self.instance, tags={} if alone else ends, asset_selection=alone or None
        )
        metadata: dict[str, dg.MetadataValue[Any]] = {}
        for event in result.get_asset_materialization_events():
            metadata |= event.materialization.metadata
        return metadata

    @property
    def measures(self) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.root / "warehouse" / "confidential.duckdb"), read_only=True) as connection:
            return connection.execute("FROM town__risk.measures ORDER BY ALL").fetchall()

    @property
    def folder(self) -> Path:
        return self.root / "var" / "laboratory" / "town" / "risk"


@contextmanager
def deploy(root: Path, households: int = 270, **changes: Any) -> Iterator[Deployed]:
    os.environ["STIRRED_HOME"] = str(root / "var")
    components = [Dataset(town(households)), declare(**{"methods": METHODS | TOO_LARGE} | changes)]
    tree = SimpleNamespace(get_all_components=lambda kind: [each for each in components if isinstance(each, kind)])
    context = cast(dg.ComponentLoadContext, SimpleNamespace(project_root=root, component_tree=tree))
    warehouse = Warehouse(folder=str(root / "warehouse"), threads=1)
    custody = Custody(folder=str(root / "custody"), databases=warehouse.folder, variable="STIRRED_TEST_MASTER_KEY")
    ledger = Ledger(warehouse=warehouse, custody=custody)
    resources = dg.Definitions(
        resources=without_configuration({"warehouse": warehouse, "custody": custody, "ledger": ledger}),
        executor=dg.in_process_executor,
    )
    definitions = dg.Definitions.merge(*(each.build_defs(context) for each in components), resources)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Deployed(root, definitions, instance, ledger)


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    monkeypatch.setenv("STIRRED_HOME", "")
    with deploy(tmp_path) as made:
        yield made


def test_records_that_were_charged_as_confidential_are_not_experimented_on(deployed: Deployed) -> None:
    """Fails for: a laboratory that trusts the declaration and shows the findings of attacks, or whose results, made
    alone, describe records that the grid refused."""
    deployed.run(FIRST, FIRST)
    details = Details("town", synthetic=False)
    deployed.ledger.reserve("town", "tables", "1" * 64, SPECIFICATION, CustodyMode.ESCROWED, None, details)
    for alone in ((), [dg.AssetKey(["town", "risk", "results"])]):
        with pytest.raises(dg.Failure, match="town is declared synthetic, but its records are confidential"):
            deployed.run(FIRST, FIRST, alone)


def test_no_attack_may_open_the_records_of_another_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails for: a laboratory that keeps attacks from the sources of its own dataset alone, which are synthetic."""
    laboratory, given = declare(), list[Path]()
    components = [Dataset(town()), Dataset(small_dataset(tmp_path)), laboratory]
    tree = SimpleNamespace(get_all_components=lambda kind: [each for each in components if isinstance(each, kind)])
    monkeypatch.setattr("assets.laboratory.asset.build_laboratory", lambda *args: given.extend(args[2]) or [])
    laboratory.build_defs(cast(dg.ComponentLoadContext, SimpleNamespace(project_root=tmp_path, component_tree=tree)))
    assert given == [tmp_path / path for path in small_dataset(tmp_path).list_files()] != []


FIRST, LAST = "0001|no-protection", "0002|coarsening-places-of-10000-combinations-of-2"

KILLED = """
import os, signal, sys
from pathlib import Path
from resources.warehouse import Session
from tests.assets.laboratory.test_laboratory import FIRST, LAST, deploy
create, stored = Session.create, []
def kill_in_the_third(self, table, statement, *given, **names):
    create(self, table, statement, *given, **names)
    stored.append(str(statement)) if "merged" in str(statement) else None
    if len(stored) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
Session.create = kill_in_the_third
with deploy(Path(sys.argv[1])) as deployed:
    deployed.run(FIRST, LAST)
"""


@pytest.mark.fault
def test_a_killed_grid_goes_on_with_the_same_numbers(deployed: Deployed, tmp_path: Path) -> None:
    """Fails for: a part that is stored before it is whole, and draws whose key is that of the run."""
    killed = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path)], check=False, cwd=PROJECT)
    assert killed.returncode == -signal.SIGKILL
    assert len({row[:2] for row in deployed.measures}) == 2
    again = deployed.run(FIRST, LAST)
    assert (again["made now"].value, again["stored before"].value) == (6, 2)
    measures = deployed.measures
    with duckdb.connect(str(tmp_path / "warehouse" / "confidential.duckdb")) as connection:
        connection.execute("DROP TABLE town__risk.measures")
    assert deployed.run(FIRST, LAST)["made now"].value == 8
    assert deployed.measures == measures


@pytest.mark.prove
def test_a_grid_is_made_in_any_number_of_runs_and_processes_with_the_same_numbers(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails for: draws that depend on the order, the time or the process of runs, and runs that remake stored
    parts."""
    monkeypatch.setattr("assets.laboratory.asset.count_cores", lambda: 2)
    first = deployed.run("0001|no-protection", "0001|swapping-0.5-by-persons")
    assert (first["made now"].value, first["parts of the grid"].value) == (2, "2 of 10")
    some = deployed.measures
    whole = deployed.run(FIRST, LAST)
    assert (whole["made now"].value, whole["stored before"].value) == (6, 2)
    assert whole["parts of the grid"].value == "8 of 10", "no tract is as large as coarsening needs"
    measures = deployed.measures
    assert set(some) < set(measures)
    with duckdb.connect(str(deployed.root / "warehouse" / "confidential.duckdb")) as connection:
        connection.execute("DELETE FROM town__risk.measures WHERE draw = 2 OR point = 'hypercube-1'")
    monkeypatch.setattr("assets.laboratory.asset.count_cores", lambda: 1)
    assert deployed.run(FIRST, LAST)["made now"].value == 5
    assert deployed.measures == measures
    ratios = {(point, draw, measure): value for point, draw, *_, measure, value, _ in measures if "ratio" in measure}
    greatest = [key for key in ratios if key[2] == "ln ratio, greatest" and (*key[:2], "ln ratio, bound") in ratios]
    assert len(greatest) == 4
    assert all(ratios[key] <= ratios[*key[:2], "ln ratio, bound"] * (1 + 1e-12) for key in greatest), "in every draw"
    _require_results(deployed.folder)
    _require_digests(deployed.root)
    _require_units(deployed.root)


@pytest.mark.prove
def test_a_county_is_compared_with_all_of_its_tracts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails for: a county of one tract, tracts whose blocks or block groups are taken for one, and methods that do not
    run on several."""
    monkeypatch.setenv("STIRRED_HOME", "")
    methods = {"swapping": {"rates": [0.9], "in_tracts": True}, "dhc": {"factors": [16]}}
    of_county = {"tier": "T2", "tracts": None, "counties": 1, "draws": 1, "targets": 2, "methods": methods}
    declaration, of_tracts = (declare(**each).declaration for each in (of_county, {"tier": "T2", "tracts": 5}))
    with deploy(tmp_path, 1500, **of_county) as made:
        assert made.run("0001|no-protection", "0001|dhc-budgets-16")["made now"].value == 4
        custody = Custody(
            folder=str(tmp_path / "custody"), databases=str(tmp_path / "warehouse"), variable="STIRRED_TEST_MASTER_KEY"
        )
        with Warehouse(folder=str(tmp_path / "warehouse"), threads=1).session(reads=[Zone.CONFIDENTIAL]) as session:
            (county,) = read_truths(session, declaration, town(1500)).values()
            tracts = [truth.tract for truth in read_truths(session, of_tracts, town(1500)).values()]
            digests = [compute_digests(session, custody, each, town(1500), {}) for each in (declaration, of_tracts)]
        rows = pq.read_table(made.folder / "results.parquet").to_pylist()
    assert len(tracts) == 2
    assert np.array_equal(county.counts, np.concatenate([tract.count() for tract in tracts]))
    assert county.tract.tract.tolist() == np.repeat([0, 1], [tract.blocks for tract in tracts]).tolist()
    groups = [tract.block_group for tract in tracts]
    assert county.tract.block_group.tolist() == np.concatenate([groups[0], groups[1] + groups[0].max() + 1]).tolist()
    assert digests[0]["no-protection"] != digests[1]["no-protection"]
    wrong = {
        row["parameters"]: row["value"]
        for row in rows
        if (row["method"], row["subset"], row["measure"]) == ("swapping", "cells of a tract, not 0", ERROR[-1])
    }
    assert wrong["0.9 by persons"] > wrong["0.9 by persons, in tracts"] == 0


def _require_digests(root: Path) -> None:
    """Two rates with the same name are different points, and other attackers have the same draws. Fails for: draws
    named by six digits or by their attackers, and measures taken for those of other attackers."""
    warehouse = Warehouse(folder=str(root / "warehouse"), threads=1)
    custody = Custody(folder=str(root / "custody"), databases=warehouse.folder, variable="STIRRED_TEST_MASTER_KEY")
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        first, second = (
            compute_digests(session, custody, declare(methods={"swapping": {"rates": [rate]}}).declaration, town(), {})
            for rate in (0.1234567, 0.1234568)
        )
        default, explicit, others, fewer = (
            compute_digests(session, custody, declare(**chosen).declaration, town(), {})["no-protection"]
            for chosen in (
                {}, {"attackers": [name for name in ATTACKERS if name not in {*UNDOING, POOR_LINK}][::-1]},
                {"attackers": ["link", "undo"]}, {"metrics": ["accuracy", "mean absolute error"]},
            )
        )  # fmt: skip
    same = [(key, first[key] == second[key]) for key in first.keys() & second.keys()]
    assert sorted(same) == [("no-protection", True), ("swapping-0.123457-by-persons", False)]
    assert default == explicit == (default[0], default[0]), "as before attackers and metrics could be declared"
    assert {others[0], fewer[0]} == {default[0]}
    assert len({default[1], others[1], fewer[1]}) == 3


def _require_units(root: Path) -> None:
    """Against a count in Python. Fails for: vacant units that are left out or counted in other blocks, facilities in
    place of persons, and types of group quarters that are merged."""
    warehouse = Warehouse(folder=str(root / "warehouse"), threads=1)
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        declared = (declare(tier=tier, methods={"swapping": {"rates": [0.5]}}) for tier in ("T1", "T2", "T3"))
        truths = [read_truths(session, each.declaration, town()) for each in declared]
    with duckdb.connect(str(root / "warehouse" / "confidential.duckdb"), read_only=True) as connection:
        units = connection.execute(
            "SELECT TABBLK, GQTYPE::INT, count(QAGE) FROM town.units LEFT JOIN town.persons USING (MAFID) "
            "GROUP BY TABBLK, GQTYPE, MAFID"
        ).fetchall()
    blocks = sorted({block for block, _, persons in units if persons})
    expected = np.zeros((len(blocks), 9), dtype=np.int64)
    for block, kind, persons in units:
        if block in blocks:
            cell, number = (kind - 1, persons) if kind else (7 if persons else 8, 1)
            expected[blocks.index(block), cell] += number
    assert all(np.array_equal(truth.units, expected) for (truth,) in map(dict.values, truths))
    assert expected[:, :7].any()
    assert expected[:, 8].any()


def _require_results(folder: Path) -> None:
    results = pq.read_table(folder / "results.parquet")
    assert results.column_names == list(COLUMNS)
    with (folder / "dictionary.csv").open(newline="") as lines:
        described = {(row["kind"], row["name"]) for row in csv.DictReader(lines)}
    rows = results.to_pylist()
    assert {("column", name) for name in COLUMNS} <= described
    assert {(kind, row[kind]) for row in rows for kind in ("measure", "attack", "subset")} <= described
    assert {row["measure"] for row in rows} <= set(MEASURES) - set(FURTHER_MEASURES)
    attackers = {name for kind, name in described if kind == "attack"}
    assert attackers == (set(ATTACKERS) | {"none", "tables"}) - {*UNDOING, POOR_LINK}
    assert results.schema.metadata[b"attackers"] == b"reconstruct, link, likeliest, margin, difference, pairs"
    assert (folder / "results.csv").read_text().count("\n") == len(rows) + 1
    found = {tuple(row[name] for name in ("method", "attack", "subset", "block_size", "measure")): row for row in rows}
    exact = found["no protection", "tables", "cells of a block, not 0", "all", "mean absolute error"]
    assert (exact["value"], exact["draws"], exact["tracts"]) == (0, 2, 1)
    assert found["no protection", "reconstruct", "all persons", "all", "agreement"]["value"] == 1, "T1 is saturated"
    assert found["no protection", "reconstruct", "all persons", "all", "provable"]["value"] == 1
    assert found["no protection", "reconstruct", "first 1%", "all", "match rate"]["value"] == 1
    assert found["no protection", "reconstruct", "confidence 1", "all", "match rate"]["value"] == 1
    assert found["swapping", "reconstruct", "first 50%", "all", "match rate"]["value"] < 1
    assert found["swapping", "tables", "H1 of a block, not 0", "all", "mean absolute error"]["value"] == 0
    assert ("hypercube", "tables", "P5 of a tract, not 0", "all", "mean absolute error") in found
    noisy = found["hypercube", "tables", "cells of a block, not 0", "all", "mean absolute error"]
    assert noisy["value"] > 0 < noisy["standard_error"]
    assert noisy["greatest"] == pytest.approx(noisy["value"] + noisy["sd_of_draws"] / 2**0.5), "of two draws"
    accuracy = [found[method, "link", NONMODAL, "all", "accuracy"]["value"] for method in ("no protection", "swapping")]
    assert accuracy[0] > accuracy[1]
    sure = found["no protection", "link", "modal", "all", "sure"]["value"]
    assert 0 < sure < 1
    assert found["no protection", "link", "modal", "all", "precision if sure"]["value"] > 0.9, "nobody is misled"
    difference = found["swapping", "link", NONMODAL, "all", "accuracy"]["difference"]
    assert difference == pytest.approx(accuracy[1] - accuracy[0])
    assert found["no protection", "link", NONMODAL, "all", "accuracy"]["difference"] == 0
    assert all((folder / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in ("accuracy", "gain"))


def test_who_is_declared_attacks_and_what_is_declared_is_measured() -> None:
    """Fails for: a declared attacker who is left out, an undeclared attacker, or undeclared measures."""
    declaration = declare(
        attackers=["undo", "aware_of_households", "poor_link", "pairs"],
        metrics=["accuracy", "gain", "advantage", "mean absolute error"],
    ).declaration
    truths, measured = {"town": make_truth(REDISTRICTING, 30, 4)}, declaration.measured
    setting = Setting(truths, 2, declaration.attackers, measured, {}, declaration.attack_seconds, [])
    found = find_measures(setting, declaration.points)
    error = ("tables", "mean absolute error")
    undone, aware = ({(name, "accuracy"), (name, "gain")} for name in ("undo", "aware_of_households"))
    assert found == {
        "no-protection": {error, *undone, ("poor_link", "accuracy")},
        "swapping-0.5-by-persons": {error, *undone, *aware, ("poor_link", "accuracy"), ("tables", "advantage")},
        "hypercube-1": {error, ("poor_link", "accuracy"), ("tables", "advantage")},
        "rounding-to-3": {error, ("poor_link", "accuracy"), ("tables", "advantage")},
    }
    # Fails for: a posterior by the law of a p-table alone, which takes the records before the swap for the true ones.
    p_tables = {"tables": [{"largest_change": 2, "variance": 1}]}
    methods = {"swapping": {"rates": [0.5], "then_p_tables": True}, "p_tables": p_tables}
    points = declare(methods=methods).declaration.points
    found = find_measures(replace(setting, attackers=["difference"]), points)
    assert {point: ("difference", "accuracy") in measures for point, measures in found.items()} == {
        "no-protection": True, "swapping-0.5-by-persons": False, "p-table-d-2-v-1": True,
        "swapping-then-p-table-0.5-by-persons-d-2-v-1": False,
    }  # fmt: skip


def find_measures(setting: Setting, points: Sequence[Point]) -> Mapping[str, set[tuple[str, str]]]:
    """By point, the attacks with their measures in a draw."""
    parts = [Part(point, 1, "", {"town": (KEY, KEY)}) for point in points]
    rows = [row for made in measure_parts(setting, parts, 1) for row in made.to_pylist()]
    return {each.key: {(row["attack"], row["measure"]) for row in rows if row["point"] == each.key} for each in points}


def test_all_methods_of_a_tier_are_in_one_picture() -> None:
    """Fails for: methods that take a color each, as there are fewer colors than methods."""
    tables = {"p_tables": {"tables": [{"largest_change": 2, "variance": 1}]}, "topdown": {"rhos": [1]}}
    methods = (
        METHODS
        | tables
        | {
            "swapping": {"rates": [0.5], "then_p_tables": True},
            "pair_swapping": {"rates": [0.1]},
            "coarsening": {"thresholds": [{"place": 9, "least": 2}]},
            "suppression": {"rules": [{"threshold": 5, "width": 3}]},
        }
    )
    declaration = declare(methods=methods).declaration
    rows = [
        {"method": point.method, "parameters": point.parameters, "value": 0.5, "standard_error": None}
        | dict(zip(("attack", "subset", "block_size", "measure"), measured, strict=True))
        for point in declaration.points
        for measured in (ERROR, ("link", NONMODAL, "all", "accuracy"))
    ]
    ((content, words),) = draw_pictures(pa.Table.from_pylist(rows), declaration).values()
    assert content.startswith(b"\x89PNG")
    assert words.count("0.500 at error 0.5") == len({point.method for point in declaration.points}) == 11


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tier": "T2", "methods": {"topdown": {"rhos": [1]}}}, "methods: TopDown is not built for tier T2"),
        ({"methods": {"suppression": {"rules": [{"threshold": 4, "width": 3}]}}}, "width: at most 2"),
        ({"methods": {"coarsening": {"thresholds": [{"place": 5, "least": 6}]}}}, "least"),
        ({"tier": "T5"}, "tier"),
        ({"tier": "T4-groups"}, "methods: hypercube is not built for tier T4-groups"),
        ({"methods": {"phsafe": {"factors": [1]}}}, "PHSafe is not built for tier T1; it is for T4-households"),
        ({"tier": "T4-households", "methods": {"safetab": {"factors": [1]}}}, "SafeTab-P is not built for tier T4-hou"),
        ({"methods": {"safetab": {"factors": [0]}}}, "factors"),
        (
            {"tier": "T4-groups", "methods": {"safetab": {"factors": [10**6]}}},
            "methods: budgets: TRACT 1: ρ = 8000",
        ),
        ({"draws": 0}, "draws"),
        ({"attacks": {"link": "a:b"}}, "a built-in attack has this name"),
        ({"attacks": {"mine": "no import path"}}, "attacks.mine"),
        ({"attacks": {"tables": "a:b"}}, "attacks: tables: a built-in attack has this name"),
        ({"attack_seconds": 0}, "attack_seconds"),
        ({"attackers": ["neighbor"]}, "attackers.0: it must be 'reconstruct', 'link', 'likeliest', 'margin'"),
        ({"attackers": ["link", "link"]}, "attackers: link: it is declared twice"),
        ({"attackers": ["aware"], **FOUR}, "attackers: aware: there is no reconstruction of records in tier T4-house"),
        ({"attackers": ["undo"], **FOUR}, "attackers: undo: there is no reconstruction of records in tier T4-house"),
        ({"metrics": []}, "metrics"),
        ({"metrics": ["risk"]}, "metrics.0: 'risk' is no measure; there are named; confirmed; precision; sure;"),
        ({"metrics": ["provable"], "attackers": ["link"]}, "metrics: provable: none of its attackers is declared: rec"),
        ({"metrics": ["accuracy"], "attackers": ["pairs"]}, "metrics: accuracy: none of its attackers is declared: li"),
        ({"metrics": ["agreement in years"]}, "metrics: agreement in years: only tier T3 has ages in years"),
        (
            {"metrics": ["agreement"], **FOUR},
            "metrics: agreement: there is no reconstruction of records in tier T4-house",
        ),
        ({"metrics": ["gain"], "attackers": ["poor_link"]}, "metrics: gain: none of its attackers is declared: link"),
        ({"metrics": ["gain"], "targets": 0}, "metrics: gain: it needs targets"),
        ({"methods": {"rounding": {"bases": [3, 3]}}}, "rounding-to-3: it is declared twice"),
        ({"methods": {"rounding": {"bases": [1]}}}, "bases"),
        ({"methods": {"hypercubes": {"epsilons": [401]}}}, "methods: budget: 401 for the table by block, frame, cate"),
        ({**FOUR, "methods": {"swapping": {"rates": [0.2], "noise_before": 0.9}}}, "noise, then swapping is not built"),
        ({"methods": {"swapping": {"rates": [1]}}}, "strictly between 0 and 1"),
        ({"methods": {"swapping": {"rates": [0.2], "then_p_tables": True}}}, "then_p_tables: no p_tables are declared"),
        ({"methods": {"shuffling": {}}}, "methods.shuffling"),
        ({"counties": 2}, "counties: there are tracts too; declare one of them"),
        ({"methods": {"swapping": {"rates": [0.5], "in_tracts": True}}}, "persons-in-tracts: it needs counties"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(changes: Mapping[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match="laboratory town/risk") as refused:
        declare(**changes)
    assert says in str(refused.value)


def test_only_synthetic_records_with_the_columns_of_the_tier_are_taken(tmp_path: Path) -> None:
    """Fails for: a laboratory that takes confidential or public records of real people."""
    methods, village = {"swapping": METHODS["swapping"]}, small_dataset(tmp_path, synthetic=True, name="town")
    declare(tier="T2", methods=methods).dataset({"town": town()})
    for dataset, says in (
        (town(synthetic=False), "is not declared synthetic"),
        (village, "has no CENHISP"),
        (synthetic_census(SyntheticPopulation(households=9, states=["01"]), name="town", cap=1), "has no QSEX"),
    ):
        with pytest.raises(DeclarationError, match=says):
            declare(tier="T2", methods=methods).dataset({"town": dataset})
    for tier in ("T1", "T2", "T3"):
        with pytest.raises(DeclarationError, match=rf"has no .*, GQTYPE, .*, which tier {tier} needs"):
            declare(tier=tier, methods=methods).dataset({"town": village})
    with pytest.raises(DeclarationError, match=r"has no QRACE1, .*, which tier T4-groups needs"):
        declare(tier="T4-groups", methods=methods).dataset({"town": dataset})
    declare(tier="T4-households", methods=methods).dataset({"town": dataset})
    with pytest.raises(DeclarationError, match="there is no dataset town"):
        declare().dataset({"village": town()})


def test_block_groups_are_those_of_the_records(tmp_path: Path) -> None:
    """Wrong program: takes the first digit of a block for its block group, where the census takes these as given."""
    unit = {"RTYPE": "2", "GQTYPE": "0", "TABBLKST": "01", "TABBLKCOU": "001", "TABTRACTCE": "000100", "TEN": "1"}
    unit |= {"HHT": "4", "HHT2": "09", "HHRACE": "01", "HHSPAN": "1"}
    places = [("1001", "2"), ("1002", "1"), ("2001", "2")]
    units = [{"MAFID": key, "TABBLK": block, "TABBLKGRPCE": group, **unit} for key, (block, group) in enumerate(places)]
    person = {"QAGE": 40, "QSEX": "1", "CENRACE": "01", "CENHISP": "1", **dict.fromkeys(RACE_CODES, "Null")}
    tables = {"units": units, "persons": [{"MAFID": key, **person} for key in range(len(places))]}
    with Warehouse(folder=str(tmp_path)).session() as session:
        registered = [session.register(name, pa.Table.from_pylist(rows)) for name, rows in tables.items()]
        dataset = cast(DatasetDeclaration, SimpleNamespace(cef_tables=lambda: registered))
        for tier in (REDISTRICTING, SUMMARY_FILE, HOUSEHOLDS, DETAILED_GROUPS):
            tract = read_tract(session, dataset, tier, ("01", "001", "000100"), {"1010": 0})
            assert tract.block_group.tolist() == [0, 1, 1], tier.name
            assert sorted(tract.block.tolist()) == [0, 1, 2]
