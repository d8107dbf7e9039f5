"""Tables of published microdata for further places: sums are exact and uncharged, and only of publications that can be
believed."""

import csv
import json
import os
import shutil
from collections import Counter
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml
from jsonschema import Draft202012Validator

from assets.cef.synthetic import SyntheticPopulation
from assets.publication import asset, placement
from assets.publication.asset import publication_problems
from assets.publication.audit import audit
from assets.publication.withdrawal import withdraw
from assets.release.codes import read_codes
from assets.release.columns import Column
from assets.release.release import DeclarationError
from assets.release.signature import identity, public_key, sign
from orchestration.deployment import Deployment as Environment
from resources.project import PROJECT
from resources.statements import SQL, Table, Zone
from resources.warehouse import Warehouse
from tests.deployments import Deployment
from tests.phsafe_deployments import census
from tests.retabulation_deployments import declare
from tests.topdown_deployments import TWO_LEVELS, TWO_LEVELS_TO_PUBLICATION, topdown_deployment, with_quarters

STAGES = ("geography", "tables", "publication")


def keys(*stages: str) -> list[dg.AssetKey]:
    return [dg.AssetKey(["town", "places", stage]) for stage in stages]


def deploy_town(root: Path, **changes: Any) -> Deployment[Any]:
    return topdown_deployment(root, files=with_quarters(census(60)), **(TWO_LEVELS | changes))


def read_blocks(deployment: Deployment[Any]) -> dict[str, list[str]]:
    """By block, its places: from the source, and every second block in a district."""
    found = {}
    with (deployment.root / "geo.csv").open() as lines:
        for row in csv.DictReader(lines):
            block = "".join(row[name] for name in deployment.release.spine[deployment.release.finest].columns)
            found[block] = ["place", row["TABBLKST"] + row["PLACEFP"]]
    return found


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment[Any]:
    monkeypatch.setenv("STIRRED_PUBLISHED", str(tmp_path / "town" / "published"))
    deployment = deploy_town(tmp_path / "town")
    deployment.reach(*TWO_LEVELS_TO_PUBLICATION)
    blocks = sorted(read_blocks(deployment))
    lines = [f"{block},{'north' if number % 3 else 'south'}{number % 2}" for number, block in enumerate(blocks[1:])]
    (deployment.root / "districts.csv").write_text("\n".join(["block,district", *lines]) + "\n")
    return declare(deployment)


def read_table(folder: Path, name: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["level"], row["geoid"]): row for row in pq.read_table(folder / f"{name}.parquet").to_pylist()}


@pytest.mark.deep
def test_each_place_has_the_sums_of_its_records_and_nothing_is_charged(
    town: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails for an audit that compares editions with the ledger alone, which has no entry for a retabulation:
    neither one that is removed nor the signed files of an earlier publication of it would be named."""
    before, source = town.ledger, town.published()
    town.run_assets(*keys(*STAGES))
    assert town.ledger == before
    assert town.published() == source
    signed = SimpleNamespace(published=town.release.published, public_key=public_key(town.context.custody))
    assert Environment._describe_published(cast(Any, signed), "town", "places", before)["published"]
    assert not Environment._describe_published(cast(Any, signed), "town", "places", [])["published"]
    folder = town.release.published / "town" / "places"
    of_block = {block: {tuple(place)} for block, place in read_blocks(town).items()}
    for line in (town.root / "districts.csv").read_text().splitlines()[1:]:
        block, district = line.split(",")
        of_block[block].add(("district", district))
    counts = {name: Counter[tuple[str, str]]() for name in ("P1", "P2", "H1")}
    for row in pq.read_table(town.release.folder / "persons.parquet").to_pylist():
        for place in of_block[row["geoid"]]:
            counts["P1"][place] += row["cenrace"] == "02"
            counts["P2"][place] += row["hispanic"] == "2"
    for row in pq.read_table(town.release.folder / "units.parquet").to_pylist():
        for place in of_block[row["geoid"]]:
            counts["H1"][place] += row["occupancy"] == "1"
    cells = {"P1": "P0010004", "P2": "P0020002", "H1": "H0010003"}
    every = set().union(*of_block.values())
    for name, cell in cells.items():
        table = read_table(folder, name.lower())
        assert set(table) == every
        assert {place: row[cell] for place, row in table.items()} == {place: counts[name][place] for place in every}
    # In a small town, the noise may leave no record of one kind.
    assert sum(number for of_table in counts.values() for number in of_table.values()) > 0
    record = json.loads((folder / "certificate.json").read_text())
    schema = json.loads((folder / "certificate.schema.json").read_text())
    assert list(Draft202012Validator(schema).iter_errors(record)) == []
    assert record["retabulation"]["release"] == "redistricting"
    assert record["loss"]["meaning"].startswith("Nothing was charged for these tables.")
    assert "Nothing was charged for these tables" in (folder / "certificate.html").read_text()
    own, of_source = identity(folder), identity(town.release.folder)
    assert (own.drawn_as, own.draw_id, own.edition) == ("redistricting", of_source.draw_id, of_source.edition)
    context = town.context
    assert publication_problems(town.release.published, "town", "places", context.custody, context.ledger) == []
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    town.run_assets(*keys(*STAGES))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert find_unlike_editions(town) == []
    earlier = Path(shutil.copytree(folder, town.root / "earlier"))
    retitled = declare(deploy_town(town.root), title="The same places")
    with monkeypatch.context() as full:
        full.setattr(placement, "_replace", Mock(side_effect=OSError(28, "No space left on device")))
        assert "town__places is not published: " in refusal(retitled, "publication")
    not_as_published = "Edition 1 is signed, but is not as it was last published: "
    assert find_unlike_editions(town)[1].startswith(not_as_published), "until the next launch"
    retitled.run_assets(*keys("publication"))
    assert find_unlike_editions(town) == []
    shutil.rmtree(folder)
    missing = "No verified folder holds edition 1: removed, or never published."
    assert find_unlike_editions(town) == ["could not be checked", missing]
    earlier.rename(folder)
    assert publication_problems(town.release.published, "town", "places", context.custody, context.ledger) == []
    verdict, said = find_unlike_editions(town)
    assert verdict == "could not be checked"
    assert said.startswith(not_as_published)
    (record_file,) = (Path(context.custody.folder) / "publications").glob("*places")
    content = record_file.read_bytes()
    for altered in (content.replace(b'"1"', b'"2"'), content[:-1]):
        record_file.write_bytes(altered)
        assert find_unlike_editions(town)[0] == "does not hold"
    record_file.write_bytes(content)
    withdraw(context.ledger, town.release.published, "town", "places", "Ann")
    assert find_unlike_editions(town) == [], "what was withdrawn is not missed"


def find_unlike_editions(deployment: Deployment[Any]) -> list[str]:
    """An audit's findings about editions that differ from their published state."""
    context = deployment.context
    record = audit([], context.nodes, context.ledger, deployment.release.published, "2026-01-01")
    found = [each for each in record["findings"] if each["name"] == "editions"]
    return [part for each in found for part in (each["verdict"], *each["details"])]


@pytest.mark.deep
def test_a_publication_that_cannot_be_believed_is_not_counted_nor_published_again(
    town: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails for a program that reads any files it finds: the altered file is well-formed. Fails for a program that
    verifies files, but reads files put there afterwards."""
    path = town.release.folder / "persons.parquet"
    original = path.read_bytes()
    pq.write_table(pq.read_table(path).slice(1), path)
    said = refusal(town, "geography", "tables")
    assert "cannot be counted: persons.parquet was altered" in said
    path.write_bytes(original)
    town.run_assets(*keys(*STAGES), checks=False)
    pq.write_table(pq.read_table(path).slice(1), path)
    assert "source_as_published: persons.parquet was altered" in refusal(town, "publication")
    path.write_bytes(original)
    with town.opened() as connection:
        connection.execute("UPDATE public.town__places.p1 SET P0010001 = P0010001 + 1 WHERE level = 'place'")
    said = refusal(town, "publication")
    assert "tables_as_made: " in said
    assert "sums_of_blocks: P1: places that are not the sums of their blocks" in said
    folder, verify = town.release.folder, asset.publication_problems

    def exchange_file() -> None:
        pq.write_table(pq.read_table(path).slice(1), path)

    def exchange_folder() -> None:
        folder.rename(folder.with_name("kept"))
        shutil.copytree(folder.with_name("places"), folder)

    for exchange, said in (
        (exchange_file, "persons.parquet is missing or was altered"),
        (exchange_folder, "signed, but are those of town/places"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(asset, "publication_problems", lambda *given, do=exchange: [verify(*given), do()][0])
            assert said in refusal(town, "tables")
        path.write_bytes(original)
    shutil.rmtree(folder)
    folder.with_name("kept").rename(folder)
    town.run_assets(*keys("tables"), checks=False)
    with town.opened() as connection:
        connection.execute("DELETE FROM public.town__places.geography WHERE level = 'district'")
    assert "geography_as_declared: " in refusal(town, "publication")
    with town.opened("confidential") as connection:
        connection.execute("UPDATE confidential.town.units SET PLACEFP = '99999'")
    town.run_assets(*keys("geography", "tables"), checks=False)
    assert "cef: as_read: " in refusal(town, "publication"), "the places are those of a source that was read"


@pytest.mark.prove
def test_a_withdrawal_takes_the_retabulation_with_it_and_nothing_that_only_looks_like_one(
    town: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails for a program that drops the tables of any release with the certificate of a retabulation, even if signed
    for another release or dataset, which an attacker who can write to the published folder can put there; for one that
    leaves a retabulation that a run was publishing for the first time; and for one that, killed, leaves its tables
    forever."""
    town.run_assets(*keys(*STAGES), checks=False)
    folder, ledger = town.release.published / "town" / "places", town.context.ledger
    for name in ("copied", "altered", "foreign"):
        shutil.copytree(folder, folder.with_name(name))
        path = folder.with_name(name) / "certificate.json"
        if name != "copied":
            path.write_bytes(path.read_bytes().replace(b'"places"', f'"{name}"'.encode()))
        if name == "foreign":
            path.write_bytes(path.read_bytes().replace(b'"town"', b'"city"'))
            sign(path.parent, ledger.custody)
            assert identity(path.parent).dataset == "city"
        with town.opened("confidential") as connection:
            connection.execute(f"CREATE SCHEMA town__{name}; CREATE TABLE town__{name}.counts AS SELECT 1 AS count")
    folder.rename(kept := town.root / "arriving")
    append = ledger.withdraw
    with monkeypatch.context() as once:
        once.setattr(type(ledger), "withdraw", lambda _, *given: [append(*given), kept.rename(folder)][0])
        once.setattr(type(ledger.warehouse), "compact", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            withdraw(ledger, town.release.published, "town", "redistricting", "Ann")
    withdrawal = withdraw(ledger, town.release.published, "town", "redistricting", "Ann")
    assert not folder.exists()
    with town.opened("confidential") as connection:
        for name in ("copied", "altered", "foreign"):
            assert connection.execute(f"FROM town__{name}.counts").fetchall() == [(1,)]
    for name in ("copied", "altered", "foreign"):
        shutil.rmtree(folder.with_name(name))
    assert list(folder.parent.glob("*")) == [], "no empty folder, which a backup would have"
    assert {"public.town__places", "public.town__redistricting"} <= set(withdrawal.schemas)
    with town.opened("confidential") as connection:
        connection.execute("CREATE SCHEMA town__counted; CREATE TABLE town__counted.p1 AS SELECT 1 AS count")
    of_counted = withdraw(ledger, town.release.published, "town", "counted", "Ann")
    assert (of_counted.schemas, of_counted.entries) == (("confidential.town__counted",), ()), "never published"
    assert "redistricting is not published" in refusal(town, "geography", "tables")


@pytest.mark.prove
def test_a_file_of_blocks_is_refused_without_its_codes(town: Deployment[Any]) -> None:
    """Fails for: districts without the blocks whose zeros a spreadsheet removed, an error that would go unnoticed."""
    block = sorted(read_blocks(town))[0]
    for text, rule in (
        ('BLOCK20,district\n{0},a\u202eb\n{0},"a\nb"\n{0}\n', "3 of 3 lines do not have two codes"),
        ("{0},north\n{0},south\n", "1 times a block lies in a further place of the same geography"),
    ):
        (town.root / "districts.csv").write_text(text.format(block))
        said = refusal(town, "geography")
        assert rule in said
        assert block not in said
    lines = f"{block},north\n{block[1:]},north\n"
    for text, rule in (
        (lines, "geographies: district: 1 codes are longer or shorter than those of published blocks"),
        (f"{'9' * len(block)},north\n", "geographies: district: none of the codes is that of a published block"),
    ):
        (town.root / "districts.csv").write_text(text)
        said = refusal(town, "geography", "tables")
        assert rule in said
        assert block not in said


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"of": "other"}, "of: there is no release other"),
        ({"dataset": "city"}, "dataset: there is no dataset city"),
        ({"tables": ["P9"]}, "tables: P9: from its microdata follow P1, P2"),
        ({"geographies": {"place": ["TEN"]}}, "geographies: place: TEN is not a geographic column"),
        (
            {"geographies": {"place": ["PART"]}},
            "geographies: place: PART is not a geographic column .* no person changes",
        ),
        ({"geographies": {"place": []}}, "geographies: place: at least one column"),
        (
            {"geographies": {"place": "places.csv"}},
            "geographies: place: the file has records of town, but is published",
        ),
        ({"geographies": {"place": "more.csv"}}, "geographies: place: the file has records of village, but"),
    ],
)
def test_what_cannot_be_counted_is_refused_at_once(tmp_path: Path, changes: dict[str, Any], rule: str) -> None:
    """Fails for: a file of records that is compared by its name, and whose columns would be published."""
    part = {"source": "PLACEFP", "type": "string", "merge": {"a": ["99999"]}, "everything_else": "b"}
    recode = Column.model_validate(part | {"role": "geography", "depends_on_persons": True})
    deployment = deploy_town(tmp_path / "town", dataset={"recoded_units": {"PART": recode}})
    os.link(deployment.root / "units.csv", deployment.root / "places.csv")
    units = deployment.release.dataset.units.model_copy(update={"path": "others.csv"})
    village = deployment.release.dataset.model_copy(update={"name": "village", "units": units})
    (deployment.root / "others.csv").touch()
    os.link(deployment.root / "others.csv", deployment.root / "more.csv")
    with pytest.raises(DeclarationError, match=rule):
        declare(deployment, village, **changes)


def refusal(deployment: Deployment[Any], *stages: str) -> str:
    result = deployment.run_assets(*keys(*stages), raise_on_error=False)
    assert not result.success
    failed = [event for event in result.all_events if event.is_step_failure]
    data = [event.step_failure_data for event in failed]
    texts = [each.user_failure_data.description if each.user_failure_data else "" for each in data]
    return "\n".join([*map(str, texts), *(each.error.message for each in data if each.error)])


@pytest.mark.prove
def test_after_another_draw_the_earlier_edition_stays_beside_the_new_one(town: Deployment[Any]) -> None:
    town.run_assets(*keys(*STAGES), checks=False)
    folder = town.release.published / "town" / "places"
    first = (folder / "p1.csv").read_bytes()
    persons = TWO_LEVELS["persons"] | {"rho": 1}
    again = declare(deploy_town(town.root, persons=persons))
    again.run(*TWO_LEVELS_TO_PUBLICATION)
    assert "source_as_published" not in refusal(again, "publication"), "the release is sound, and another edition"
    again.run_assets(*keys(*STAGES), checks=False)
    assert (folder / "editions" / "1" / "p1.csv").read_bytes() == first != (folder / "p1.csv").read_bytes()
    assert identity(folder).edition == 2
    context = again.context
    assert publication_problems(town.release.published, "town", "places", context.custody, context.ledger) == []
    assert find_unlike_editions(again) == []
    shutil.rmtree(folder / "editions")
    assert find_unlike_editions(again)[1].startswith("No verified folder holds edition 1: ")


def test_the_places_of_the_demonstration_have_names_and_its_districts_are_made_of_its_blocks(tmp_path: Path) -> None:
    """Wrong program: a census whose blocks or places have other codes than the file and the names. Districts are not
    places of the spine."""
    folder = PROJECT / "orchestration" / "defs" / "two_counties"
    profile = yaml.safe_load((folder / "profile" / "defs.yaml").read_text("utf-8"))["attributes"]["geographies"]
    declared = yaml.safe_load((folder / "dataset" / "defs.yaml").read_text("utf-8"))["attributes"]
    generated = SyntheticPopulation(**{name: declared[name] for name in ("households", "states", "dhc")})
    units, code = Table(Zone.CONFIDENTIAL, "two_counties", "units"), "TABBLKST || TABBLKCOU || TABTRACTCE || TABBLK"
    with Warehouse(folder=str(tmp_path)).session(writes=Zone.CONFIDENTIAL) as session:
        statement, values, names = generated.recipe("units", generated.columns()[0])
        session.create(units, statement, values, **names)
        due = session.rows(SQL("blocks", f"SELECT DISTINCT {code} FROM {{{{ units }}}}"), units=units)
        columns = ", ".join(" || ".join(joined) for joined in profile.values())
        places = session.rows(SQL("places", f"SELECT DISTINCT {columns} FROM {{{{ units }}}}"), units=units)
    district = dict(read_codes(folder / "congress_118" / "blocks.csv", 2))
    assert set(district) == {block for (block,) in due}
    assert {*chain.from_iterable(places), *district.values()} == set(declared["place_names"])
    of_tract = Counter(tract for tract, _ in {(block[:11], own) for block, own in district.items()})
    assert max(of_tract.values()) == 2
