"""Published noisy measurements estimated again: the release's own estimates, without a charge, and never from altered
files."""

import copy
import json
import re
import shutil
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from assets.gates.shared import all_gates
from assets.publication.asset import publication_problems, publish
from assets.publication.audit import audit
from assets.publication.listing import make_listing
from assets.publication.withdrawal import WithdrawalError, withdraw
from assets.release.release import DeclarationError, Format
from assets.release.signature import identity, sign
from assets.topdown.anew import Source
from assets.topdown.asking import add_up_places
from assets.topdown.bureau import read_bureau
from assets.topdown.reestimation.asset import Anew, certify
from assets.topdown.reestimation.declaration import ReestimationError
from assets.topdown.reestimation.measurements import open_measurements, read_opened
from assets.topdown.ways import Estimation
from orchestration.components import Reestimation
from resources.chain import RESERVE, SETTLE
from resources.ledger import LedgerError
from resources.statements import Zone
from stirred.deployment import Publication
from tests.assets.publication.test_formats import MISSING, read_csv, read_px
from tests.assets.topdown.test_bureau import made
from tests.contract.kinds import to_publication
from tests.deployments import Deployment, refuses_to_publish
from tests.reestimation_deployments import DECLARED, reestimation_deployment
from tests.topdown_deployments import TWO_LEVELS, topdown_dataset, topdown_deployment

STAGES = ("measurements", "estimates", "tables", "publication")
TABLES = ("p1", "p2", "p3", "p4", "p5", "h1")

TOTAL = ("US", "total_dpq")

OF_FOLDER: dict[str, Any] = {
    "dataset": "abroad",
    "of": None,
    "folder": "files",
    "source": "Noisy Measurement Files",
    "published": "2023-06-15",
}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Deployment[Any]:
    """A reestimation that is published next to its release; each test restores the files it alters."""
    root = tmp_path_factory.mktemp("town")
    beside = topdown_deployment(root, **TWO_LEVELS, estimation="full")
    beside.reach(*to_publication(beside.context.method))
    deployment = reestimation_deployment(root, estimation="full")
    deployment.run(*STAGES)
    return deployment


@pytest.mark.deep
def test_estimates_are_those_of_the_release_uncharged_and_go_when_it_is_withdrawn(
    town: Deployment[Any], tmp_path: Path
) -> None:
    """Wrong programs: other options or limits than the release's own; a ledger entry; a certificate that names no
    source; editions that the audit compares with draws of their own; estimates that outlive a withdrawn draw."""
    context, folder, of = town.context, town.release.folder, town.release.of
    assert [(each.kind, each.release) for each in town.ledger] == [(RESERVE, of.name), (SETTLE, of.name)]
    for name in (*TABLES, *(f"{name}_intervals" for name in TABLES), "spine"):
        assert pq.read_table(folder / f"{name}.parquet").equals(pq.read_table(of.folder / f"{name}.parquet")), name
    record = json.loads((folder / "certificate.json").read_text())
    schema = json.loads((folder / record["$schema"]).read_text())
    assert list(Draft202012Validator(schema).iter_errors(record)) == []
    source = record["estimate"]["source"]
    given = json.loads((of.folder / "certificate.json").read_text())
    assert (source["release"], source["loss"]["exact"]) == ("town/redistricting", given["loss"]["exact"])
    assert source["checksums"] in (folder / "certificate.html").read_text()
    assert "no budget was charged" in record["estimate"]["note"]
    own, drawn = identity(folder), identity(of.folder)
    assert (own.drawn_as, own.draw_id, own.ledger_hash) == ("redistricting", drawn.draw_id, drawn.ledger_hash)
    assert publication_problems(town.release.published, "town", "anew", context.custody, context.ledger) == []
    assert b"Estimated anew from published measurements" in make_listing(town.release.published)["index.html"]
    shutil.copytree(town.root, tmp_path, dirs_exist_ok=True)
    copied = reestimation_deployment(tmp_path, estimation="full")
    # As an earlier version published it after `of` had changed: only the earlier edition is of the release.
    current = copied.release.folder
    kept = Path(shutil.copytree(current, tmp_path / "kept"))
    path = current / "certificate.json"
    path.write_text(path.read_text().replace('"release": "redistricting"', '"release": "other"'))
    sign(current, context.custody)
    earlier = Path(shutil.copytree(kept, current / "editions" / "1"))
    assert [identity(each).rests_on for each in (current, earlier)] == ["other", "redistricting"]
    with pytest.raises(
        WithdrawalError, match=r"earlier editions of town/anew rest on redistricting.* withdraw town/anew first"
    ):
        withdraw(copied.context.ledger, copied.release.published, "town", "redistricting", "Ann")
    assert current.exists()
    shutil.rmtree(current)
    shutil.move(kept, current)
    withdraw(copied.context.ledger, copied.release.published, "town", "redistricting", "Ann")
    assert not copied.release.folder.exists()


@pytest.mark.prove
def test_estimates_are_published_in_other_formats(town: Deployment[Any], tmp_path: Path) -> None:
    """Wrong programs: formats that need a draw of the release's own, or that are missing in the certificate."""
    shutil.copytree(town.root, tmp_path, dirs_exist_ok=True)
    copied = reestimation_deployment(tmp_path, estimation="full", formats=[Format.PX.value])
    copied.run("publication")
    folder, cubes = copied.release.folder, [table for table in copied.context.method.tables() if table.is_cube]
    recorded = {each["path"] for each in json.loads((folder / "certificate.json").read_text())["products"]}
    assert {f"{table.name}.px" for table in cubes} <= recorded
    (folder / MISSING).write_text(json.dumps(dict.fromkeys((table.name for table in cubes), "")))
    for table in cubes:
        if table.name.startswith("h1"):
            assert read_px(folder, table) == read_csv(folder, table)


def test_no_name_has_editions_of_draws_of_two_releases(town: Deployment[Any]) -> None:
    """Wrong programs: estimates replace the publication of a release that is no longer declared, whose draw the audit
    would then look for in vain; estimates come from a draw of another release than before, so that their editions have
    the same numbers, and a withdrawal of the first release leaves the editions that rest on it."""
    release, before = town.release, sorted(town.release.published.rglob("*"))
    named = replace(release, declaration=release.declaration.model_copy(update={"name": "redistricting"}))
    context: Any = replace(town.context, method=Anew(named))
    with pytest.raises(dg.Failure, match="name: ledger entry 1 has a charge of a release of town"):
        publish(context, certify)
    other = replace(release.of, declaration=release.of.declaration.model_copy(update={"name": "other"}))
    for of in (other, None):
        context = replace(town.context, method=Anew(replace(release, of=of)))
        with pytest.raises(dg.Failure, match="name: edition 1 of town/anew is made from a draw of redistricting"):
            publish(context, certify)
    # An attacker who can alter the ledger frees no name that way.
    names = ["release", "of_release"]
    for old, new in (names, names[::-1]):
        with town.opened("ledger") as connection:
            connection.execute(f"ALTER TABLE entries RENAME COLUMN {old} TO {new}")
        if new == "of_release":
            with pytest.raises(LedgerError, match="its columns are not the ledger's"):
                publish(replace(town.context, method=Anew(replace(named, of=None))), certify)
    assert sorted(release.published.rglob("*")) == before


SOURCE, ESTIMATED = {"measurements_as_published"}, {"estimates_as_made", "within_limits"}
ATTACKS = {
    "UPDATE noisy_measurements SET answers = list_reverse(answers) WHERE level = 'Nation'": SOURCE,
    "UPDATE queries SET parameter = '1/7'": SOURCE,
    "UPDATE bounds SET total = NULL": SOURCE,
    "UPDATE sources SET sha256 = 'f'": SOURCE,
    "UPDATE estimates SET count = count + 1 WHERE level = 'Nation'": ESTIMATED,
    "UPDATE estimates SET cell = 2015 - cell WHERE histogram = 'persons'": ESTIMATED,
    "UPDATE estimates SET number = 99": ESTIMATED,
    "UPDATE p1 SET P0010001 = P0010001 + 1": {"tables_as_made"},
    "UPDATE h1_intervals SET linear_lower = linear_upper": {"tables_as_made"},
}
"""By statement on the public tables, the gates that must fail; gates of later stages may."""


def find_first_failing(town: Deployment[Any]) -> set[str]:
    """The failing gates of the first stage that has any."""
    for _, gates in groupby(all_gates(town.context.method), lambda gate: gate.stage):
        if found := {gate.name for gate in gates if gate.evaluate(town.context)}:
            return found
    return set()


def test_altered_tables_and_sources_are_not_published(town: Deployment[Any]) -> None:
    stored = town.context.warehouse.path(Zone.PUBLIC)
    intact = stored.read_bytes()
    for statement, failing in ATTACKS.items():
        with town.opened() as connection:
            connection.execute(statement)
        assert find_first_failing(town) == failing, statement
        stored.write_bytes(intact)
    path = town.release.of.folder / "noisy_measurements.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    refuses_to_publish(town, SOURCE, "noisy_measurements.parquet was altered")
    path.write_bytes(content)


@pytest.mark.deep
def test_a_certificate_of_others_says_nothing_that_is_not_repeated_as_it_is(town: Deployment[Any]) -> None:
    """Wrong programs: sign texts, dates and numbers of another deployment, or end in Python's own errors because of
    them."""
    given, folder, custody = town.release.of.folder, town.root / "foreign", town.context.custody
    shutil.copytree(given, folder)
    shutil.copy(given.parents[1] / "public_key.pem", town.root / "foreign.pem")
    named = {"dataset": "abroad", "of": None, "folder": "foreign", "key": "foreign.pem", "source": "Another office"}
    release = reestimation_deployment(town.root, **named).release
    record = json.loads((given / "certificate.json").read_text())
    changes: list[tuple[tuple[str, ...], Any, str]] = [
        (("dataset", "name"), "<b>", "dataset.name: String should match"),
        (("release", "name"), "a\nb", "release.name: String should match"),
        (("edition", "number"), 10**4000, "edition.number: Input should be less"),
        (("loss", "rounded_up"), float("nan"), "loss.rounded_up: Input should be a finite number"),
        (("loss", "exact"), "1\n2", "loss.exact: Value error, it is no line"),
        (("ledger", "recorded_at"), "9999-12-31T23:59:59-23:59", "it is no time of this calendar"),
        (("randomness", "draw_id"), "f", "randomness.draw_id: String should match"),
        (("ledger",), None, "ledger: Input should be an object"),
        ((), [], "Input should be an object"),
    ]
    for field, value, words in changes:
        changed = {"record": copy.deepcopy(record)}
        place: Any = changed
        for part in (path := ("record", *field))[:-1]:
            place = place[part]
        place[path[-1]] = value
        (folder / "certificate.json").write_text(json.dumps(changed["record"]))
        sign(folder, custody)
        with pytest.raises(ReestimationError, match=re.escape(words)):
            open_measurements(release, custody, town.context.ledger)


def test_files_that_change_after_they_were_hashed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong program: it publishes estimates from other files than those whose hashes it states."""
    truth = made(tmp_path / "files")
    deployment = reestimation_deployment(tmp_path, **OF_FOLDER, populations=truth["populations"])
    opened = open_measurements(deployment.release, deployment.context.custody, deployment.context.ledger)

    def read(source: Source) -> dict[str, Any]:
        (source.folder / next(iter(opened.digests))).write_bytes(b"other measurements")
        return {}

    monkeypatch.setattr(Source, "read", read)
    with pytest.raises(ReestimationError, match="the files in files changed while they were read; launch again"):
        read_opened(deployment.release, opened)


@pytest.mark.prove
def test_files_of_others_are_estimated_with_their_hash_and_nothing_else(tmp_path: Path) -> None:
    """In a deployment without records. Wrong programs: a publication that needs a ledger entry, or a database of
    records; other files that pass for the declared ones, or replace an edition, also after a withdrawal; a refused file
    that leaves tables or a publication behind, or whose hash is published although it is no measurement; sums of places
    from other files than were published."""
    truth = made(tmp_path / "files")
    declared = OF_FOLDER | {"populations": truth["populations"]}
    deployment = reestimation_deployment(tmp_path, estimation="full", **declared)
    deployment.run(*STAGES)
    context, folder, published = deployment.context, deployment.release.folder, deployment.release.published
    assert deployment.ledger == ()
    assert not context.warehouse.holds(Zone.CONFIDENTIAL)
    record = json.loads((folder / "certificate.json").read_text())
    assert record["ledger"] is None
    assert record["estimate"]["source"]["loss"] is None
    assert record["randomness"]["draw_id"] == record["estimate"]["source"]["checksums"]
    assert record["publisher"]["date"] == "2023-06-15"
    rows = pq.read_table(folder / "p1.parquet").to_pylist()
    of_states = {row["geoid"]: row["P0010001"] for row in rows if row["level"] == "State"}
    assert of_states == truth["populations"]
    assert publication_problems(published, "abroad", "anew", context.custody, context.ledger) == []
    found = audit([], {}, context.ledger, published, "now")["findings"]
    assert [each["name"] for each in found if each["verdict"] == "does not hold"] == []
    measured = read_bureau(tmp_path / "files", truth["populations"])
    (row, *_) = add_up_places(folder, ["01"], ["P1"], measured).to_pylist()
    assert (row["estimate"], row["standard_error"]) == (truth["populations"]["01"], 0)
    assert "estimated anew from: Noisy Measurement Files" in repr(Publication(folder, published / "public_key.pem"))
    pinned = declared | {"sha256": identity(folder).draw_id}
    made(tmp_path / "files", lambda row: {"value": [7]} if (row["level"], row["query_name"]) == TOTAL else None)
    wrong = reestimation_deployment(tmp_path, estimation="full", **pinned)
    assert "sha256: the files in files have " in wrong.refusal("measurements")
    deployment.run(*STAGES)
    assert {path.name: path.is_dir() for path in (folder / "editions").iterdir()} == {"1": True}
    assert identity(folder).edition == 2
    assert publication_problems(published, "abroad", "anew", context.custody, context.ledger) == []
    before = deployment.published()
    for path, words in (("US_Person_PL_PROD/State.parquet", "levels from US"), ("US_Unit_PL_PROD", "folders of units")):
        shutil.move(tmp_path / "files" / path, tmp_path / "away")
        assert words in deployment.refusal("measurements")
        shutil.move(tmp_path / "away", tmp_path / "files" / path)
    assert deployment.published() == before
    linked = tmp_path / "files" / "US_Person_PL_PROD" / "County.parquet" / "DPQuery" / "other.parquet"
    linked.symlink_to(deployment.root / "custody" / "master.key")
    assert "other.parquet is or lies behind a link" in deployment.refusal("measurements")
    linked.unlink()
    withdraw(context.ledger, published, "abroad", "anew", "Ann")
    assert not folder.exists()
    found = audit([], {}, context.ledger, published, "now")["findings"]
    assert [each["details"] for each in found if each["name"] == "editions"] == []
    deployment.run(*STAGES)
    assert identity(folder).edition == 2, "the same files have the same number, and no others get it"


def test_the_default_of_types_first_is_named_in_words() -> None:
    """The page of the estimates describes them before it is known which level that is."""
    assert str(Estimation()) == "full information, types first down to the second level"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"folder": "files"}, "of: declare either a release (of) or a folder"),
        ({"of": None}, "of: declare either a release (of) or a folder"),
        ({"populations": {"01": 1}}, "populations: it is for the Census Bureau's files"),
        (OF_FOLDER | {"published": None}, "published: it is required for a folder without a key"),
        (OF_FOLDER | {"source": None}, "source: it is required for a folder"),
        (OF_FOLDER | {"key": "key.pem"}, "published: it is for the Census Bureau's files, which have no key"),
        ({"lean_on_housing_units": True}, "lean_on_housing_units: it belongs to estimation: full"),
        ({"of": "tenure"}, "of: there is no release tenure"),
    ],
)
def test_contradictory_declarations_are_refused_by_field(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    fields = DECLARED | {"estimation": "own_levels"} | changes
    given = {name: value for name, value in fields.items() if value is not None}

    def declare() -> None:
        Reestimation.resolve_from_yaml(yaml.safe_dump(given)).require({"town": topdown_dataset(tmp_path)}, [])

    with pytest.raises((DeclarationError, ValidationError), match=re.escape(words)):
        declare()
