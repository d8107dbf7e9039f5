"""Claims about a source in partitions: its CEF, and everything made from it, equals that of the same records in one
file."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from assets.cef import parts as reading
from assets.cef.ingestion import ingest
from assets.cef.parts import unite_parts
from assets.cef.validation import SourceError
from assets.confidentiality import find_leaks
from assets.conventions import ZONE
from assets.gates.shared import all_gates
from assets.measurement import parts as counting
from assets.measurement.parts import PartCounts, complete_parts
from assets.publication.withdrawal import withdraw
from assets.release.contents import find_content_problems, read_contents, read_sketch_name
from assets.release.dataset import DatasetDeclaration
from assets.release.gate import find_verdicts
from assets.release.method import PUBLICATION
from assets.release.seal import SealError
from assets.table_builder.cells import CountsError, add_up_parts
from orchestration.explorer.launcher import list_left_out
from resources.custody import Custody
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse
from tests.assets.cef.test_census import Census
from tests.deployments import (
    PERSONS,
    SHOWN,
    TO_PUBLICATION,
    UNITS,
    Deployment,
    deploy,
    households,
    members,
    small_dataset,
    small_deployment,
    small_release,
    write_csv,
)
from tests.depth import deep_cases, quick_cases
from tests.dhc_deployments import dhc_deployment
from tests.lake import make_lake
from tests.phsafe_deployments import FEW, census, phsafe_deployment
from tests.postgres import Server
from tests.safetab_deployments import safetab_deployment
from tests.table_builder_deployments import after_swap_deployment, hypercubes
from tests.templates import MASTER_KEY
from tests.topdown_deployments import TWO_LEVELS, topdown_deployment, write_parts

KEYS = ("n", "S")
TABLES: dict[str, Any] = {
    "units": {"path": "units_{part}.csv", "columns": UNITS},
    "persons": {"path": "persons_{part}.csv", "columns": PERSONS},
}
Rows = Sequence[Mapping[str, Any]]


def in_parts(rows: Rows) -> dict[str, Rows]:
    """Households by partition. The second partition has the households that come first in one file."""
    return {key: [row for row in rows if (row["serial"] % 3 == 0) == (key == "n")] for key in KEYS}


def declare(root: Path, by_part: Mapping[str, Rows], **changes: Any) -> DatasetDeclaration:
    for key, rows in by_part.items():
        write_csv(root / f"units_{key}.csv", rows)
        write_csv(root / f"persons_{key}.csv", members(rows))
    paths = {name: {**records, "path": str(root / records["path"])} for name, records in TABLES.items()}
    return small_dataset(root, with_persons=True, **{**paths, "partitions": list(by_part)} | changes)


def parted_deployment(root: Path, by_part: Mapping[str, Rows] | None = None, **changes: Any) -> Deployment[Any]:
    root.mkdir(exist_ok=True)
    declared = declare(root, by_part or in_parts(households()))
    return deploy(root, declared, small_release(declared, **changes))


def data_files(deployment: Deployment[Any]) -> dict[str, bytes]:
    return {name: content for name, content in deployment.published().items() if name.endswith((".csv", ".parquet"))}


def read_published(deployment: Deployment[Any]) -> tuple[tuple[str, ...], bytes | None]:
    """The versions by which records are recognized, and their sketch."""
    context = deployment.context
    with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        contents = read_contents(session, context.custody, context.release.dataset)
        name = read_sketch_name(session, context.custody, context.release.dataset)
    return contents, context.custody.open_sketch(name)


def read_one(deployment: Deployment[Any], key: str) -> None:
    """The run of one partition."""
    repository = deployment.definitions.get_repository_def()
    job = repository.get_job("cef__village")
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    assert job.execute_in_process(run_config=quiet, instance=deployment.instance, partition_key=key).success


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The datasets and partitions that are read."""
    found = list[str]()

    def note(session: Any, declaration: DatasetDeclaration, *given: Any) -> Any:
        found.append(declaration.name)
        return ingest(session, declaration, *given)

    monkeypatch.setattr(reading, "ingest", note)
    return found


@pytest.fixture(scope="module", autouse=True)
def key() -> Iterator[None]:
    """The same for all deployments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MASTER_KEY, "5a" * 32)
        yield


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, key: None) -> Deployment[Any]:
    made = small_deployment(tmp_path_factory.mktemp("plain") / "village", persons=True)
    made.run(*TO_PUBLICATION)
    return made


@pytest.mark.deep
def test_what_is_made_of_partitions_is_what_is_made_of_one_file(
    tmp_path: Path, plain: Deployment[Any], read: list[str]
) -> None:
    """Wrong programs: content versions that depend on the order of partitions or on their tables' names; a sketch of
    one partition, or the partitions' sketches side by side; a CEF that reads again the partitions that a run has read;
    a public zone that shows which partition has changed."""
    parted = parted_deployment(tmp_path / "village")
    read_one(parted, "S")
    assert read == ["village__parts__S"]
    parted.run(*TO_PUBLICATION, "counts", *SHOWN)
    assert read == ["village__parts__S", "village__parts__n"]
    assert data_files(parted) == data_files(plain) != {}
    assert [entry.draw_id for entry in parted.ledger] == [entry.draw_id for entry in plain.ledger]
    (contents, sketch), (of_one, sketch_of_one) = read_published(parted), read_published(plain)
    assert sketch == sketch_of_one is not None
    assert len(set(contents) & set(of_one)) == 1, "the content of the CEF; the files differ"
    assert len(contents) == len(of_one) == 1 + len(TABLES)
    with parted.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert [schema for schema in session.schemas(Zone.PUBLIC) if "parts" in schema] == []
    parted.run("cef")
    assert len(read) == 2
    assert parted.failed_checks() == set()
    for name in ("village__counties", "preflight__village__counties"):
        job = parted.definitions.get_repository_def().get_job(name)
        keys = {key.path[-1] for key in job.asset_layer.executable_asset_keys}
        assert (job.partitions_def, keys & {"cef", "cef_of_parts"}) == (None, {"cef"})


@pytest.mark.prove
def test_in_a_lake_partitions_are_put_together_too(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: a view of confidential tables that a lake's session refuses, and versions that depend on where
    tables are stored."""
    declared, versions = declare(tmp_path, in_parts(households())), list[tuple[str, bool]]()
    lake = make_lake(postgres, tmp_path / "lake")
    lake.name_services(monkeypatch)
    for warehouse in (Warehouse(folder=str(tmp_path / "warehouse"), threads=1), lake.warehouse()):
        custody = Custody(folder=str(tmp_path / "custody"), databases=warehouse.folder, variable=MASTER_KEY)
        versions += [unite_parts(warehouse, custody, declared, tmp_path, "1") for _ in range(2)]
        with warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
            assert find_content_problems(session, custody, declared) == []
    (version, _), *_ = versions
    assert versions == [(version, True), (version, False)] * 2


@pytest.fixture
def parted(tmp_path: Path) -> Deployment[Any]:
    made = parted_deployment(tmp_path / "village")
    made.reach("cef", "counts", "invariants", "charge")
    return made


ALTERED = {
    "records": "UPDATE confidential.village__parts__S.persons SET age = 1 + age % 80 WHERE household = 1",
    "a partition in place of another": "CREATE OR REPLACE TABLE confidential.village__parts__S.persons AS "
    "FROM confidential.village__parts__n.persons",
    "a view that leaves a partition out": "CREATE OR REPLACE VIEW confidential.village.persons AS "
    "SELECT part.household, part.age, part.sex FROM confidential.village__parts__S.persons AS part",
    "a view with a partition twice": "CREATE OR REPLACE VIEW confidential.village.persons AS "
    "SELECT part.household, part.age, part.sex FROM confidential.village__parts__S.persons AS part UNION ALL "
    "SELECT part.household, part.age, part.sex FROM confidential.village__parts__S.persons AS part",
    "no table": "DROP TABLE confidential.village__parts__S.persons",
}


def find_problems(deployment: Deployment[Any]) -> list[str]:
    """The problems that the check `as_read` and every charge find."""
    context = deployment.context
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        try:
            return find_content_problems(session, context.custody, context.release.dataset)
        except SealError as error:
            return [str(error)]


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("what", ALTERED)
def test_an_altered_partition_is_refused_until_it_is_read_again(
    parted: Deployment[Any], read: list[str], what: str
) -> None:
    """Wrong program: takes the CEF's version from the published versions of its partitions."""
    ledger = parted.ledger
    with parted.opened("confidential") as connection:
        connection.execute(ALTERED[what])
    (problem,) = find_problems(parted)
    assert ("the CEF is missing" if what == "no table" else "the stored records are not those") in problem
    assert problem.partition(";")[0] in parted.refusal("charge")
    parted.run("cef", "charge")
    assert set(read) <= {"village__parts__S"}
    assert (find_problems(parted), parted.ledger) == ([], ledger)


def test_a_partition_read_from_another_source_is_not_charged_before_all_are_put_together(
    parted: Deployment[Any], tmp_path: Path
) -> None:
    """The partition's own run has read it, so the views show it. Wrong program: a gate that compares partitions with
    their published versions."""
    declare(tmp_path / "village", {"S": households(9)})
    read_one(parted, "S")
    assert len(find_problems(parted)) == 1


def test_invariants_of_a_swap_are_made_only_from_counts_of_the_current_records(
    parted: Deployment[Any], tmp_path: Path
) -> None:
    """Wrong program: seals as current the margins of records that were counted before others were read."""
    declare(tmp_path / "village", in_parts(households(9)))
    parted.run("cef")
    assert "the stored tables of stage counts are not" in parted.refusal("invariants")
    parted.run("counts", "invariants")


@deep_cases(1)
@pytest.mark.parametrize("what", ["altered", "read anew"])
def test_partitions_that_change_while_they_are_put_together_are_refused(
    parted: Deployment[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Each changes after the comparison with its source. Wrong programs: a CEF with the versions of altered records, or
    of new records with the sketch of the earlier ones."""
    root, declared = tmp_path / "village", declare(tmp_path / "village", in_parts(households()))
    warehouse, custody = parted.context.warehouse, parted.context.custody

    def change(_: Warehouse, __: Custody, part: DatasetDeclaration, *given: Any) -> tuple[str, bool]:
        if part.name.endswith("S"):
            if what == "read anew":
                declare(root, {"S": households(9)})
                with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
                    ingest(session, part, root, custody.version_key(), None)
            else:
                with parted.opened("confidential") as connection:
                    connection.execute(ALTERED["records"])
        return "", True

    monkeypatch.setattr(reading, "read_source", change)
    with pytest.raises(SealError, match="village__parts__S: the stored records are not those"):
        unite_parts(warehouse, custody, declared, root, "another")
    assert len(find_problems(parted)) == 1


@pytest.mark.prove
def test_a_key_may_change_between_upper_and_lower_case(parted: Deployment[Any], tmp_path: Path) -> None:
    """DuckDB has one schema for both. Wrong programs: remove the tables just read; or do not recognize files under
    another name of their partition, so that they could be charged to another population."""
    rows, known = in_parts(households()), read_published(parted)
    again = parted_deployment(tmp_path / "village", {"N": rows["n"], "S": rows["S"]})
    again.run("cef", "counts", "invariants", "charge")
    assert find_problems(again) == []
    assert read_published(again) == known


@pytest.mark.prove
def test_tables_of_earlier_declarations_are_dropped(parted: Deployment[Any], tmp_path: Path) -> None:
    """Wrong programs: keep persons that are no longer declared, or a partition that only its own run had read before
    the partitions were taken back."""
    root = tmp_path / "village"
    alone = declare(root, in_parts(households()), persons=None)
    custody, warehouse = parted.context.custody, parted.context.warehouse
    for declared, rest in ((alone, {"units"}), (alone.model_copy(update={"partitions": None}), {"units"})):
        unite = unite_parts if declared.partitions else reading.read_source
        if not declared.partitions:
            write_csv(root / "units_{part}.csv", households())
        for is_new in (True, False):
            assert unite(warehouse, custody, declared, root, "1")[1] == is_new
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            assert set(session.tables(Zone.CONFIDENTIAL, "village")) == rest
    reading.read_source(warehouse, custody, alone.parts["S"], root, "1")
    assert reading.read_source(warehouse, custody, declared, root, "1")[1]
    with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.tables(Zone.CONFIDENTIAL, "village__parts__S") == {}


def test_what_no_partition_knows_is_found_when_they_are_put_together(tmp_path: Path) -> None:
    """A key in two partitions, a place in two larger ones, and other columns. Wrong program: checks each partition only
    by itself, or names all partitions."""
    rows = in_parts(households())
    nested = {**UNITS, "county": UNITS["county"] | {"within": "region"}}
    apart = {key: [row | {"region": "NS"[row["county"] != "Avon"]} for row in each] for key, each in rows.items()}
    moved = [row | {"region": "S"} for row in apart["S"]]
    cases = {
        "units: column serial: key that another row has; in partitions n, S: 1 row": (
            {**rows, "n": [*rows["n"], rows["S"][0]], "other": [rows["n"][0] | {"serial": 999}]},
            {},
        ),
        "units: column county: place in more than one region: ": ({**apart, "S": moved}, {"units": nested}),
    }
    for number, (says, (by_part, columns)) in enumerate(cases.items()):
        root = tmp_path / str(number)
        root.mkdir()
        units = {"path": str(root / "units_{part}.csv"), "columns": columns.get("units", UNITS)}
        deployment = deploy(root, declared := declare(root, by_part, units=units), small_release(declared))
        assert says in deployment.refusal("cef")
        with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            assert not session.columns(Table(Zone.CONFIDENTIAL, "village", "units"))


@pytest.mark.prove
def test_a_block_in_two_block_groups_is_found_though_each_partition_has_it_in_one(tmp_path: Path) -> None:
    """The layout's rule on several units at once. Wrong program: checks the rules in each partition only."""
    whole, said = Census(tmp_path), dict[str, str]()
    for groups in ("11", "12"):
        for key, group in zip(KEYS, groups, strict=True):
            part = Census(tmp_path / groups / key)
            part.folder.mkdir(parents=True)
            own = [row["MAFID"] for row in whole.files["geo"] if (int(row["MAFID"]) % 2 == 0) == (key == "n")]
            part.files = {name: [row for row in rows if row["MAFID"] in own] for name, rows in whole.files.items()}
            part.files["geo"] = [row | {"TABBLKGRPCE": group} for row in part.files["geo"]]
            part.write()
        declared = Census(tmp_path / groups / "{part}").declare(block_group="as_given", partitions=KEYS)
        try:
            unite_parts(whole.warehouse, whole.custody, declared, tmp_path, groups)
        except SourceError as error:
            said[groups] = str(error)
    assert said == {"12": f"units: column TABBLK: block in more than one block group: {len(whole.files['geo'])} rows"}


@pytest.mark.prove
def test_partitions_can_be_declared_and_left_out_at_any_time(tmp_path: Path) -> None:
    """Wrong programs: leave unused tables, leave a view where a table is due, or charge a second time."""
    root = tmp_path / "village"

    def schemas(deployment: Deployment[Any]) -> set[str]:
        found = set[str]()
        for zone in (Zone.CONFIDENTIAL, Zone.PUBLIC):
            with deployment.context.warehouse.session(reads=[zone]) as session:
                found |= {schema for schema in session.schemas(zone) if session.tables(zone, schema)}
        return {schema for schema in found if "parts" in schema}

    whole = small_deployment(root, persons=True)
    whole.run("cef", "invariants", "charge")
    parted = parted_deployment(root)
    parted.run("cef", "counts", "invariants", "charge")
    assert schemas(parted) == {"village__parts__n", "village__parts__S"}
    other = parted_deployment(root, {"all": households()})
    other.run("cef", "counts", "invariants", "charge")
    assert schemas(other) == {"village__parts__all"}
    again = small_deployment(root, persons=True)
    again.run("cef", "invariants", "charge")
    assert schemas(again) == set()
    again.run("swapped", "utility")
    with again.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert set(session.tables(Zone.CONFIDENTIAL, again.release.schema)) == {"utility"}
    assert [entry.kind for entry in again.ledger] == ["reserve", "settle"]
    parted.run("cef")
    withdraw(parted.context.ledger, root / "published", "village", None, "A. Officer")
    assert schemas(parted) == set()


def test_no_file_of_a_partition_is_left_out_where_files_are_kept_from_others(tmp_path: Path) -> None:
    """A path with {part} names no file, but the explorer could open the files of partitions."""
    declared = declare(tmp_path, in_parts(households()))
    files = {tmp_path / f"{table}_{key}.csv" for table in TABLES for key in KEYS}
    assert files <= set(list_left_out(tmp_path, [declared]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"partitions": []}, "partitions: it must have 1 or more entries"),
        ({"partitions": ["a", "A"]}, "partitions: keys become names of tables"),
        ({"partitions": ["a-b"]}, "partitions: keys become names of tables"),
        ({"units": {"path": "units.csv", "columns": UNITS}}, "units: path: it has no {part}"),
        (
            {"units": TABLES["units"] | {"geography_path": "places.csv"}},
            "units: geography_path: it has no {part}",
        ),
        ({"reader": "ma1940", "persons": None, "units": {"columns": UNITS}}, "partitions: they are for files"),
        (
            {
                "copies": 2,
                "persons": TABLES["persons"]
                | {
                    "columns": PERSONS
                    | {"giver": {"type": "integer", "role": "donor"}, "id": {"type": "integer", "role": "key"}}
                },
            },
            "partitions: persons have donors",
        ),
    ],
)
def test_partitions_that_cannot_be_are_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises((ValidationError, ValueError), match=says):
        small_dataset(tmp_path, with_persons=True, **{**TABLES, "partitions": ["a", "b"], **changes})


def safetab(root: Path, *parts: str, **changes: Any) -> Deployment[Any]:
    return safetab_deployment(root, size=150, partitions=parts, **changes)


def safetab_of_households(root: Path, *parts: str) -> Deployment[Any]:
    """Those of the groups that a release of persons has published."""
    safetab(root, *parts).run("cef", "plan", "regions", "counts", "charge", "noisy_measurements", "tables", PUBLICATION)
    return safetab(root, *parts, releases="h")


def phsafe(root: Path, *parts: str) -> Deployment[Any]:
    """Some units have more persons than count."""
    return phsafe_deployment(root, files=census(60), runs=FEW, dataset={"partitions": parts} if parts else {})


def topdown(root: Path, *parts: str) -> Deployment[Any]:
    """A release of two levels; the finest has blocks with units in both partitions."""
    return topdown_deployment(root, parts=parts, **TWO_LEVELS)


AGES = {
    "name": "ages",
    "of": "persons",
    "variables": ["county", "sex"],
    "weight": {"column": "size", "grid": "0.5", "most": 3},
    "epsilon": 1,
    "quantiles": {"age": {"bounds": [0, 90], "grid": 10}},
    "moments": ["age"],
}


def hypercube(root: Path, *parts: str, tested: int = 0, count: int = 120) -> Deployment[Any]:
    """Weighted sums by values of persons and of their units, of which some cells are in both partitions."""
    root.mkdir(exist_ok=True)
    declared = declare(root, in_parts(households(count))) if parts else small_dataset(root, with_persons=True)
    if not parts:
        write_csv(root / "units.csv", households(count))
        write_csv(root / "persons.csv", members(households(count)))
    releases = hypercubes(declared.name, AGES)
    return deploy(root, declared, releases.pop(tested), *releases)


def swapping(root: Path, *parts: str, **changes: Any) -> Deployment[Any]:
    """Households and their persons, of which some are alike in both partitions."""
    return parted_deployment(root, **changes) if parts else small_deployment(root, persons=True, **changes)


COUNTED: dict[str, Callable[..., Deployment[Any]]] = {
    "SafeTab-P": safetab,
    "hypercube": hypercube,
    "SafeTab-H": safetab_of_households,
    "PHSafe": phsafe,
    "TopDown": topdown,
    "quantiles": partial(hypercube, tested=1),
    "moments": partial(hypercube, tested=2),
    "swapping": swapping,
    "swapping of persons": partial(swapping, unit="person", products=[]),
    "swapping of units": partial(swapping, variables=["region", "county", "size"], exempt={"size": [4]}, products=[]),
    "noise before a swap": partial(swapping, noise_before={"tenure": "9/10"}, variables=["tenure"], products=[]),
    "two stirs": partial(
        swapping,
        second_stir={"match": ["region"], "swap_rate": "1/3"},
        swap_rate={"by": [{"when": {"size": [1, 2]}, "rate": "1/2"}, {"rate": "9/10"}]},
    ),
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions that are counted, by stages and by gates."""
    found, count = list[str](), PartCounts._count

    def note(counts: PartCounts[Any], session: Session, part: str) -> Any:
        found.append(part)
        return count(counts, session, part)

    monkeypatch.setattr(PartCounts, "_count", note)
    return found


def count_one(deployment: Deployment[Any], key: str) -> None:
    """The run that reads and counts one partition."""
    job = deployment.definitions.get_repository_def().get_job(f"counts__{deployment.release.schema}")
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    assert job.execute_in_process(run_config=quiet, instance=deployment.instance, partition_key=key).success


@quick_cases(1)
@deep_cases(1)
@pytest.mark.parametrize("kind", COUNTED)
def test_counts_of_partitions_add_up_to_those_of_one_file(tmp_path: Path, counted: list[str], kind: str) -> None:
    """Of regions, groups and cells that are in both partitions. Wrong programs: sums that depend on the order of
    partitions or leave one out; truncation and households that see a unit in part; a stage or a gate that repeats the
    counts and checks of a run; and a graph in which the counts of a partition are public, or are made by the job of the
    release for one partition alone."""
    whole, parted = COUNTED[kind](tmp_path / "whole"), COUNTED[kind](tmp_path / "parted", *KEYS)
    counted.clear()
    count_one(parted, "S")
    assert counted == ["S", "S"], "by the stage, and for the verdict"
    for deployment in (whole, parted):
        deployment.run("cef", *deployment.context.method.stages, PUBLICATION)
    # The publication has asked every gate.
    assert counted == ["S", "S", "n", "n"]
    assert data_files(parted) == data_files(whole) != {}
    assert [entry.draw_id for entry in parted.ledger] == [entry.draw_id for entry in whole.ledger]
    nodes, name = parted.context.nodes, f"{parted.context.method.part_counts.name}"
    assert find_leaks(nodes, parted.key(PUBLICATION)) == []
    assert nodes[parted.key(name).to_user_string()].tags[ZONE] == Zone.CONFIDENTIAL
    job = parted.definitions.get_repository_def().get_job(parted.release.schema)
    keys, stage = (
        {key.path[-1] for key in job.asset_layer.executable_asset_keys},
        parted.context.method.part_counts.stage,
    )
    assert (job.partitions_def, keys & {name, stage, "cef_of_parts"}) == (None, {stage})
    # Anyone who can launch runs can give a run any partition; a fault of the code would not name it.
    job = parted.definitions.get_repository_def().get_job(f"cef__{parted.release.dataset.name}")
    run = job.execute_in_process(instance=parted.instance, tags={"dagster/partition": "zz"}, raise_on_error=False)
    (failure,) = run.get_step_failure_events()
    assert "partition zz does not exist" in str(failure.step_failure_data.user_failure_data)


@pytest.mark.deep
def test_cells_of_a_partition_that_were_altered_or_are_of_other_records_are_counted_again(
    tmp_path: Path, counted: list[str]
) -> None:
    """Of a hypercube. Wrong programs: a gate that adds up stored cells without counting them; and a change of one
    partition that makes the cells of all again."""
    deployment = hypercube(tmp_path / "village", *KEYS)
    deployment.run("cef", "plan", "counts")
    assert ask_counts(deployment) == []
    with deployment.opened("confidential") as connection:
        for table in ("counts", "counts__S"):
            connection.execute(f'UPDATE confidential.{deployment.release.schema}."{table}" {_ADDED}')
    assert ask_counts(deployment) != []
    del counted[:]
    deployment.run("counts")
    assert (ask_counts(deployment), counted) == ([], ["S"])
    # The last household of all is in the first partition.
    deployment = hypercube(tmp_path / "village", *KEYS, count=119)
    deployment.run("cef", "plan")
    del counted[:]
    deployment.run("counts")
    assert (ask_counts(deployment), counted) == ([], ["n", "n"]), "by the stage, and by the gate"


def test_sums_of_partitions_that_64_bits_do_not_hold_are_refused(tmp_path: Path) -> None:
    """Wrong program: an error of the database, which names neither the release nor the remedy."""
    context = hypercube(tmp_path / "village").context
    with context.warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        rows = session.register("rows", pa.table({"cell": [0], "count": [2**62]}))
        names = {"tables": [rows, rows], "columns": ["cell", "count"], "keys": ["cell"]}
        with pytest.raises(CountsError, match=r"village__.*: the sums are too large; declare"):
            add_up_parts(session, context.release, names)


def test_withheld_records_are_not_counted_in_partitions(tmp_path: Path) -> None:
    """Wrong program: counts all withheld records once for each partition of the dataset."""
    units = {**TABLES["units"], "path": str(tmp_path / TABLES["units"]["path"])}
    method = after_swap_deployment(tmp_path, dataset={"units": units, "partitions": list(KEYS)}).context.method
    assert (method.release.dataset.partitions is None, method.assets_of_parts()) == (False, [])


@pytest.mark.prove
def test_histograms_of_a_dhc_add_up_too(tmp_path: Path) -> None:
    """The histograms of all records, which the gate counts. Wrong programs: households that see a unit in part, and a
    place of one partition under its number in another."""
    files = census(60, ("10",), dhc=True)
    write_parts(tmp_path, files, KEYS)
    (tmp_path / "made_of_0").touch()
    deployment = dhc_deployment(tmp_path, files=files, dataset={"partitions": KEYS})
    deployment.run("cef", "spine", "histograms")
    context = deployment.context
    (gate,) = (gate for gate in all_gates(context.method) if gate.name == "counts_exact")
    assert gate.evaluate(context) == []
    with context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        stored = session.arrow("warehouse/all", source=context.release.confidential("histograms"))
    assert set(stored["histogram"].to_pylist()) == {"persons", "units", "households"}
    assert len(set(stored["number"].to_pylist())) > 1


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory, key: None) -> Path:
    """A release by SafeTab-P in partitions, up to its counts, with kept verdicts."""
    root = tmp_path_factory.mktemp("town") / "town"
    deployment = safetab(root, *KEYS)
    for part in KEYS:
        count_one(deployment, part)
    deployment.run("cef", "plan", "regions", "counts")
    return root


@pytest.fixture
def of_town(town: Path, tmp_path: Path) -> Deployment[Any]:
    shutil.copytree(town, tmp_path / "town")
    return safetab(tmp_path / "town", *KEYS)


def read_counts(deployment: Deployment[Any]) -> dict[str, list[tuple[Any, ...]]]:
    """The tables of counts by name, in the order of their rows."""
    with deployment.opened("confidential") as connection:
        names = connection.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'town__a'").fetchall()
        return {name: connection.execute(f'FROM confidential.town__a."{name}"').fetchall() for (name,) in names}


def ask_counts(deployment: Deployment[Any]) -> list[str]:
    """The problems of the gate on the counts, with the verdicts that are kept."""
    method, custody = deployment.context.method, deployment.context.custody
    (gate,) = (gate for gate in all_gates(method) if gate.name == "counts_exact")
    with deployment.context.snapshot() as held:
        return gate.evaluate(replace(held, verdicts=find_verdicts(method, custody)))


_S, _N = (f'confidential.town__a."counts__{key}' for key in ("S", "n"))
_ADDED = "SET count = count + 1"
OTHER_COUNTS: dict[str, Sequence[str]] = {
    "altered": [f'UPDATE {_S}" {_ADDED}'],
    "missing": [f'DROP TABLE {_S}"'],
    "without an account": [f'DROP TABLE {_S}_made"'],
    "without a seal": [f'UPDATE {_S}_seal" SET seal = reverse(seal)'],
    "exchanged": [f'CREATE OR REPLACE TABLE {_S}{end}" AS FROM {_N}{end}"' for end in ("", "_made", "_seal")],
    "of other records": [],
    "of other rules": [],
}


@quick_cases(2)
@deep_cases(2)
@pytest.mark.parametrize("what", OTHER_COUNTS)
def test_counts_that_are_not_of_the_records_of_their_partition_are_never_added_up(
    of_town: Deployment[Any], counted: list[str], what: str
) -> None:
    """They are made again. Wrong programs: a stage that checks only whether there are counts, or only their account; an
    account that is not tied to its partition, to the records, or to the declared fields that decide on counts."""
    before = read_counts(of_town)
    if what == "of other rules":
        of_town = safetab(of_town.root, *KEYS, persons={"max_race_codes": 1})
    if what == "of other records":
        # As the partition's own run reads it, without counting.
        safetab_deployment(of_town.root, size=150, seed=2, partitions=KEYS)
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        job = of_town.definitions.get_repository_def().get_job("cef__town")
        assert job.execute_in_process(run_config=quiet, instance=of_town.instance, partition_key="S").success
    with of_town.opened("confidential") as connection:
        for statement in OTHER_COUNTS[what]:
            connection.execute(statement)
    of_town.run("cef", "regions", "counts")
    assert set(counted) == ({"S"} if OTHER_COUNTS[what] else {"S", "n"})
    assert (read_counts(of_town) == before) == bool(OTHER_COUNTS[what])
    assert ask_counts(of_town) == []
    del counted[:]
    of_town.run("counts")
    assert counted == []


def test_counts_by_code_that_cannot_be_told_are_taken_over_by_no_other_process(
    of_town: Deployment[Any], counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: two processes whose files changed after they had started take each other's code for the same."""
    monkeypatch.setattr(counting, "hash_code", lambda *_: None)
    for process in ("first", "second"):
        monkeypatch.setattr(counting, "_THIS_PROCESS", process, raising=False)
        of_town.run("counts")
    assert counted == ["n", "S"] * 2


def test_a_partition_that_is_read_again_meanwhile_is_not_added_up(
    of_town: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run of a lake can read it like this. Wrong program: seals a sum of the earlier records as a sum of the
    records read last."""
    schema, warehouse = f"{of_town.release.dataset.name}__parts__S", of_town.context.warehouse

    def copy_records() -> dict[str, Any]:
        with warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            names = session.tables(Zone.CONFIDENTIAL, schema)
            return {
                name: session.arrow("warehouse/all", source=Table(Zone.CONFIDENTIAL, schema, name)) for name in names
            }

    def put(session: Session, records: Mapping[str, Any]) -> None:
        for name, rows in records.items():
            source = session.register("copied", rows)
            session.create(Table(Zone.CONFIDENTIAL, schema, name), "warehouse/all", source=source)

    before = copy_records()
    safetab_deployment(of_town.root, size=150, seed=2, partitions=KEYS)
    count_one(of_town, "S")
    after = copy_records()
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        put(session, before)

    def complete(session: Session, *given: Any) -> None:
        complete_parts(session, *given)
        put(session, after)

    monkeypatch.setattr(counting, "complete_parts", complete)
    assert "read or counted again while counts was made" in of_town.refusal("counts")


FORGED: dict[str, Sequence[str]] = {
    "the counts and those of a partition": [
        f'UPDATE confidential.town__a."{table}" {_ADDED}' for table in ("counts", "counts__S")
    ],
    "the counts": [f"UPDATE confidential.town__a.counts {_ADDED}"],
    "the counts of a partition that there is twice": [
        f'UPDATE confidential.town__a."{table}" SET count = 2 * count' for table in ("counts", "counts__S", "counts__n")
    ],
}


@quick_cases(1)
@pytest.mark.parametrize("what", FORGED)
def test_the_gate_on_counts_takes_those_of_no_partition_for_granted(of_town: Deployment[Any], what: str) -> None:
    """They were altered together with their sum. Wrong programs: a gate that adds up partitions without counting them,
    or with verdicts on other counts than the stored ones; and a charge that does not see altered counts."""
    assert ask_counts(of_town) == []
    of_town.run("charge")
    with of_town.opened("confidential") as connection:
        for statement in FORGED[what]:
            connection.execute(statement)
    (problem,) = ask_counts(of_town)
    assert "differing rows" in problem
    assert "the exact counts have changed since the charge" in of_town.refusal("noisy_measurements")


def test_counts_of_partitions_that_are_declared_no_more_are_dropped(of_town: Deployment[Any]) -> None:
    """Wrong programs: leave unused tables, or draw again."""
    before, root = read_counts(of_town), of_town.root
    other = safetab(root, "N", "other")
    other.run("cef", "regions", "counts")
    assert {name for name in read_counts(other) if not name.endswith(("_made", "_seal"))} == {
        *("counts", "counts__N", "counts__other")
    }
    whole = safetab(root)
    whole.run("cef", "regions", "counts")
    assert read_counts(whole) == {"counts": before["counts"]}


@pytest.mark.prove
def test_counts_of_partitions_in_a_lake_are_those_on_files(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch, counted: list[str]
) -> None:
    """Wrong program: counts and verdicts depend on where tables are stored, so that everything is counted again."""
    lake = make_lake(postgres, tmp_path / "lake")
    lake.name_services(monkeypatch)
    versions = list[str]()
    for name in ("files", "town"):
        deployment = safetab(tmp_path / name, *KEYS)
        for part in KEYS:
            count_one(deployment, part)
        deployment.run("cef", "regions", "counts")
        versions.append(deployment.versions()["town/a/counts"])
        assert ask_counts(deployment) == []
        monkeypatch.setattr("tests.deployments.Warehouse", partial(Warehouse, lake=lake.data))
    assert counted == ["n", "n", "S", "S"] * 2
    assert versions[0] == versions[1]
