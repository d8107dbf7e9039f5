"""The audit finds violations, names the claims that it could not check, and reveals nothing confidential."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.measurement.method import GridError
from assets.publication import audit as audit_module
from assets.publication import placement
from assets.publication.audit import audit, write_report
from assets.publication.withdrawal import withdraw
from assets.release.gate import Gate
from assets.release.signature import PUBLIC_KEY
from assets.table_builder.cells import CountsError
from orchestration.jobs import audit_job
from resources.custody import Custody, CustodyMode
from tests.contract.kinds import KINDS, to_publication
from tests.deployments import Deployment, households, write_csv
from tests.depth import deep_cases
from tests.gates import executes, keep, put_back
from tests.permissions import obeying_modes
from tests.whole_repository import known

pytestmark = pytest.mark.deep


SECRET = "Avon-4711"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment[Any]:
    deployment = KINDS["laplace tables"].build(tmp_path_factory.mktemp("audit") / "release")
    deployment.reach(*to_publication(deployment.context.method))
    keep(deployment)
    return deployment


@pytest.fixture
def published(made: Deployment[Any]) -> Iterator[Deployment[Any]]:
    yield made
    put_back(made)


def audited(deployment: Deployment[Any]) -> dict[str, Any]:
    context = deployment.context
    return audit([context.method], context.nodes, context.ledger, deployment.release.published, "2026-01-01T00:00:00Z")


def failing(record: dict[str, Any]) -> set[str]:
    return {finding["name"] for finding in record["findings"] if finding["verdict"] == "does not hold"}


def test_all_that_holds_is_said_on_the_page_and_the_draw_is_repeated(
    published: Deployment[Any], tmp_path: Path
) -> None:
    record = audited(published)
    assert record["verdict"] == "holds", failing(record)
    (draw,) = record["draws"]
    assert (draw["edition"], draw["entry"], draw["charged"], draw["state"]) == (1, 1, "ε = 1.5000", "drawn")
    assert draw["replay"] == "repeated, with the same output"
    assert record["ledger"] == {"entries": 2, "head": published.ledger[-1].hash}
    gates = {finding["name"] for finding in record["findings"]}
    assert {"ledger_intact", "replay", "settled", "tables_as_made", "files_as_published"} <= gates
    written, page = write_report(record, tmp_path / "audit")
    assert json.loads(written.read_text()) == record
    text = re.sub(r"<[^>]*>", "", page.read_text())
    assert "Everything that was checked holds." in text
    for fact in (*gates, draw["charged"], draw["population"], draw["authorized_by"], record["public_key"]):
        assert fact in text
    assert not re.search(r"https?:|url\(|@import|<script", page.read_text())


def test_what_was_altered_is_found_and_named(published: Deployment[Any], tmp_path: Path) -> None:
    executes(KINDS["laplace tables"].tampering)(published)
    (published.release.folder / "tenure_by_county.csv").write_text("forged")
    record = audited(published)
    assert {"settled", "replay", "files_as_published"} <= failing(record)
    assert record["verdict"] == "does not hold"
    assert record["draws"][0]["replay"] == "repeating it failed"
    _, page = write_report(record, tmp_path)
    assert "tenure_by_county.csv was altered" in page.read_text()
    assert f"{len(failing(record))} do not hold" in page.read_text()


def test_a_table_of_a_publication_that_is_gone_fails_and_no_error_of_duckdb_is_shown(
    published: Deployment[Any],
) -> None:
    """Fails for: a half-made release that counts as one that could not be checked."""
    with published.opened() as connection:
        connection.execute("DROP TABLE noisy_measurements; DROP TABLE product_tenure_by_county")
    record = audited(published)
    assert findings(record, "made") == [
        ("does not hold", "Of 2 tables to publish, 1 are missing: product_tenure_by_county.")
    ]
    assert "failed: CatalogException (does not exist)" in json.dumps(record)
    assert "Catalog Error" not in json.dumps(record)


def findings(record: dict[str, Any], name: str) -> list[tuple[str, str]]:
    """The verdict and the details of each finding of this name."""
    found = [finding for finding in record["findings"] if finding["name"] == name]
    return [(finding["verdict"], " ".join(finding["details"])) for finding in found]


def test_what_lies_beside_the_publications_is_named_if_it_does_not_follow_from_them(
    published: Deployment[Any], tmp_path: Path
) -> None:
    """The catalog is not signed: the check fails if links to elsewhere, or a table of no publication, pass for the
    office's."""
    folder = published.release.published
    text = (folder / "index.html").read_text()
    (folder / "index.html").write_text(text.replace(published.release.name, "elsewhere", 1))
    (folder / "dcat.jsonld").unlink()
    (folder / "village" / "counts.px").symlink_to(folder / "index.html")
    (folder / ".more").mkdir()
    (folder / "village" / ".counts.leaving").mkdir()
    (folder / "village" / "counts.csv.arriving").write_text("5\n")
    (folder / "the count is 5").mkdir()
    odd = os.fsdecode(b"x\n\xff")
    (folder / odd / odd).mkdir(parents=True)
    (published.release.folder / odd).write_text("")
    write_report(audited(published), tmp_path)
    told = [said for _, said in findings(audited(published), "files_as_published")]
    assert told == ["x � is not part of the publication", "SHA256SUMS is missing"]
    ((verdict, said),) = findings(audited(published), "catalog")
    assert verdict == "could not be checked"
    assert "index.html is not as this version writes it." in said
    assert "dcat.jsonld is not as this version writes it." in said
    assert "village/counts.px is not part of any publication." in said
    assert ".more is not part of any publication." in said
    planted = ("village/.counts.leaving", "village/counts.csv.arriving", "the count is 5")
    assert all(f"{name} is not part of any publication." in said for name in planted)
    with placement._lock(folder / "village"):
        ((_, said),) = findings(audited(published), "catalog")
    assert ".counts.leaving" not in said, "a publication that is moved into its place"
    assert "counts.csv.arriving" in said
    (folder / "index.html").unlink()
    assert ".more is not part of any publication." in findings(audited(published), "catalog")[0][1]


@pytest.mark.prove
def test_a_folder_that_cannot_be_read_is_named(published: Deployment[Any]) -> None:
    """Fails for: an audit that ends with an error, and one that takes such a folder for no publication."""
    folder = published.release.published
    (folder / "hidden" / "more").mkdir(parents=True)

    def closed(path: Path, mode: int, name: str) -> list[tuple[str, str]]:
        path.chmod(mode)
        record = obeying_modes(lambda: audited(published))
        path.chmod(0o755)
        assert record["verdict"] != "holds"
        return findings(record, name)

    for mode in (0, 0o600):
        assert closed(folder / "hidden", mode, "catalog") == [("could not be checked", "hidden cannot be read.")]
        ((_, said),) = closed(folder / "village", mode, "catalog")
        assert said.endswith("village cannot be read.")
        ((_, said),) = closed(folder, mode, "catalog")
        assert said == "Their folder cannot be read."
        _, told = closed(published.release.folder, mode, "files_as_published")
        assert told == ("does not hold", "SHA256SUMS cannot be read: Permission denied")


@deep_cases(1)
@pytest.mark.parametrize("what", ["a terabyte", "a pipe"])
def test_what_somebody_put_in_the_place_of_files_is_not_read_to_its_end(published: Deployment[Any], what: str) -> None:
    """Fails for: an audit, and a publication, that wait forever, or use up all memory."""
    folder = published.release.published
    for path in (folder / "index.html", folder / PUBLIC_KEY):
        if what == "a pipe":
            path.unlink()
            os.mkfifo(path)
        else:
            os.truncate(path, 2**40)
    record = audited(published)
    assert f"index.html is not {'part of any' if what == 'a pipe' else 'as this'}" in findings(record, "catalog")[0][1]
    ((verdict, said),) = findings(record, "files_as_published")
    assert verdict == "does not hold"
    assert PUBLIC_KEY in said
    assert published.run("publication", raise_on_error=False).success is (what == "a terabyte")
    assert findings(audited(published), "catalog")[0][0] == (
        "holds" if what == "a terabyte" else "could not be checked"
    )


def test_keys_that_killed_processes_left_are_deleted_and_one_that_cannot_be_deleted_is_named(
    published: Deployment[Any],
) -> None:
    """Also of releases that are no longer declared. Fails for: the belief that settled draws have no key."""
    context, draws = published.context, ["0" * 64, "1" * 64]
    charged = published.ledger[0].parse_specification()
    for draw_id in draws:
        context.ledger.reserve("elsewhere", "gone", draw_id, charged, CustodyMode.EPHEMERAL, None)
    context.ledger.settle(draws[0], "v1")
    context.custody.commit(draws[0], CustodyMode.EPHEMERAL)
    said = f"The key of draw {draws[0]} was left by a killed process. The audit deleted it."
    assert findings(audited(published), "keys_deleted") == [("holds", said)]
    assert findings(audited(published), "keys_deleted") == [("holds", "")]
    assert context.custody.list_keys() == {draws[1]}, "which can still be made"
    # A folder in its place, which cannot be deleted like a file.
    (published.root / "custody" / "ephemeral" / f"{draws[0]}.key").mkdir()
    record = audited(published)
    ((verdict, said),) = findings(record, "keys_deleted")
    assert verdict == "does not hold"
    assert re.fullmatch(f"key file .* cannot be deleted .* The key of draw {draws[0]} still exists.", said)
    replays = {draw["entry"]: draw["replay"] for draw in record["draws"] if draw["release"] == "elsewhere/gone"}
    assert sorted(replays.values()) == [
        "not repeated: its key still exists, which should be deleted",
        "not repeated: there is no output",
    ]


def test_a_publication_that_was_removed_is_missed(published: Deployment[Any]) -> None:
    """Fails for an audit that stops comparing editions once the record of one is damaged."""
    shutil.rmtree(published.release.folder)
    record = audited(published)
    assert record["verdict"] == "could not be checked"
    assert findings(record, "editions") == [
        ("could not be checked", "No verified folder holds edition 1: removed, or never published.")
    ]
    (damaged := published.root / "custody" / "publications" / "elsewhere__gone").write_bytes(b"")
    missed, altered = findings(audited(published), "editions")
    assert missed == findings(record, "editions")[0]
    assert altered[0] == "does not hold"
    assert altered[1].startswith(f"{damaged} was altered")


def test_what_the_pages_show_is_compared_with_the_ledger(published: Deployment[Any]) -> None:
    """The check distinguishes a table that lags behind from one that shows a state that the ledger never had."""
    published.run("ledger", "composition")
    assert findings(audited(published), "shown_as_charged") == [("holds", "")]
    with published.opened() as connection:
        connection.execute("DELETE FROM public.ledger.entries WHERE sequence = 2")
    ((verdict, said),) = findings(audited(published), "shown_as_charged")
    assert verdict == "could not be checked"
    assert said == "public.ledger.entries shows the ledger as of entry 1; the job budget brings it up to date"
    with published.opened() as connection:
        connection.execute("UPDATE public.village.composition SET loss = 0")
    ((verdict, said),) = findings(audited(published), "shown_as_charged")
    assert verdict == "does not hold"
    assert "public.village.composition shows no state that the ledger has had" in said
    with published.opened() as connection:
        connection.execute("ALTER TABLE public.ledger.entries ALTER sequence TYPE DOUBLE")
        connection.execute("DROP TABLE public.village.composition")
    ((verdict, said),) = findings(audited(published), "shown_as_charged")
    assert verdict == "does not hold"
    assert "public.ledger.entries shows no state that the ledger has had" in said
    assert "public.village.composition is not there; the job budget brings it up to date" in said


@pytest.mark.prove
def test_a_composition_of_a_population_that_is_not_declared_is_compared_too(published: Deployment[Any]) -> None:
    """Fails for: a comparison of declared populations alone, or of the schemas that DuckDB lists, without its own
    `main`, beside which a forged composition can lie."""
    published.run("ledger", "composition")
    with published.opened() as connection:
        connection.execute('CREATE SCHEMA "else\nwhere"; CREATE SCHEMA hamlet')
        connection.execute('CREATE TABLE "else\nwhere".composition AS FROM public.village.composition')
        connection.execute("CREATE TABLE main.composition AS FROM public.village.composition")
        connection.execute("CREATE TABLE hamlet.composition_releases AS FROM village.composition_releases LIMIT 0")
    forged = ("else where", "main")
    said = " ".join(f"public.{schema}.composition shows no state that the ledger has had" for schema in forged)
    assert findings(audited(published), "shown_as_charged") == [("does not hold", said)]
    with published.opened() as connection:
        connection.execute('DROP SCHEMA "else\nwhere" CASCADE; DROP TABLE main.composition')
    # As it was before a first charge.
    assert findings(audited(published), "shown_as_charged") == [("holds", "")]
    context, loss = published.context, published.ledger[0].parse_specification()
    context.ledger.reserve("hamlet", "gone", "0" * 64, loss, CustodyMode.ESCROWED, None)
    context.custody.commit("0" * 64, CustodyMode.ESCROWED)
    ((verdict, said),) = findings(audited(published), "shown_as_charged")
    assert verdict == "could not be checked"
    assert "hamlet.composition_releases shows the ledger as of entry 2; no declared population brings it up" in said


@pytest.mark.prove
def test_a_draw_that_is_no_longer_repeated_is_named(published: Deployment[Any]) -> None:
    """Its records are gone, so the draw cannot be repeated, and the audit does not report that everything holds."""
    write_csv(published.root / "units.csv", households(90))
    assert published.run(*to_publication(published.context.method)).success
    record = audited(published)
    ((verdict, said),) = findings(record, "repeated")
    assert verdict == record["verdict"] == "could not be checked"
    assert said == (
        "Entry 1, village/noisy: not repeated: its records or its declaration are no longer the current ones."
    )


def test_of_an_error_that_may_have_confidential_values_only_its_kind_is_told(
    published: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = {
        KeyError(SECRET): "it could not be evaluated (KeyError)",
        CountsError(f"{SECRET}: 2 cells have records"): "it could not be evaluated (CountsError; a launch says why)",
        GridError("town: 3 cells have no count"): "town: 3 cells have no count",
    }

    def breaks(context: Any, error: Exception) -> list[str]:
        raise error

    gates = [Gate("replay", "draw", "It holds.", partial(breaks, error=error)) for error in errors]
    monkeypatch.setattr(audit_module, "all_gates", lambda method: gates)
    record = audited(published)
    assert SECRET not in json.dumps(record)
    assert [details for verdict, *details in findings(record, "replay")] == [[said] for said in errors.values()]


@pytest.mark.deep
def test_a_lost_ledger_or_custody_is_a_finding_and_no_crash(published: Deployment[Any]) -> None:
    (published.root / "warehouse" / "ledger.duckdb").unlink()
    assert "ledger_intact" in failing(audited(published))
    put_back(published)
    (published.root / "custody" / "master.key").write_text(f"{'ab' * 32}\n")
    assert {"ledger_intact", "files_as_published"} <= failing(audited(published))


@pytest.mark.prove
def test_releases_without_a_draw_are_open_and_withdrawn_ones_too(tmp_path: Path) -> None:
    deployment = KINDS["laplace tables"].build(tmp_path / "release", custody="ephemeral")
    record = audited(deployment)
    assert (record["verdict"], failing(record)) == ("could not be checked", set())
    deployment.reach(*to_publication(deployment.context.method))
    record = audited(deployment)
    assert record["verdict"] == "holds", failing(record)
    assert record["draws"][0]["replay"] == "cannot be repeated: its key was destroyed, as declared"
    withdraw(deployment.context.ledger, deployment.release.published, "village", "noisy", "Ann")
    record = audited(deployment)
    assert (record["verdict"], failing(record)) == ("could not be checked", set())
    assert record["draws"][0]["state"] == "withdrawn in entry 3"
    charged = deployment.ledger[0].parse_specification()
    deployment.context.ledger.reserve("village", "noisy", "0" * 64, charged, CustodyMode.ESCROWED, None)
    assert failing(audited(deployment)) == set(), "what is charged and not drawn has no tables to check"


@pytest.mark.deep
def test_nothing_confidential_is_in_a_report(published: Deployment[Any], tmp_path: Path) -> None:
    """Neither if all is in order nor if the confidential records were altered. The report has no keys either."""
    key = (published.root / "custody" / "master.key").read_text().strip()
    with published.opened("confidential") as connection:
        connection.execute(f"UPDATE village.units SET county = '{SECRET}' WHERE serial = 17")
    record = audited(published)
    assert record["verdict"] == "does not hold"
    for path in write_report(record, tmp_path):
        assert SECRET not in path.read_text()
        assert key not in path.read_text()


@pytest.mark.deep
def test_the_job_writes_the_report_and_fails_if_something_does_not_hold(
    published: Deployment[Any], tmp_path: Path
) -> None:
    job = audit_job([published.context.method], published.release.published, tmp_path / "audit")
    definitions = dg.Definitions.merge(published.definitions, dg.Definitions(jobs=[job]))
    repository = definitions.get_repository_def()
    for success in (True, False):
        with known(repository):
            result = repository.get_job("audit").execute_in_process(instance=published.instance, raise_on_error=False)
        assert result.success == success
        assert ("Everything that was checked holds" in (tmp_path / "audit" / "audit.html").read_text()) == success
        (published.release.folder / "more").write_text("")


def test_the_key_of_a_draw_that_is_no_longer_repeated_is_still_compared_with_its_commitment(
    published: Deployment[Any],
) -> None:
    ledger, entries = published.context.ledger, list(published.ledger)
    assert audit_module._audit_keys(ledger, entries).verdict.value == "holds"
    entries[0] = replace(entries[0], commitment="0" * 64)
    found = audit_module._audit_keys(ledger, entries)
    assert found.verdict.value == "does not hold"
    assert found.details == (
        "Entry 1, village/noisy: the key in custody is missing, or is not the one that its charge committed to.",
    )
    entries[0] = replace(entries[0], details="")
    assert audit_module._audit_keys(ledger, entries).verdict.value == "could not be checked"


def test_another_key_under_the_same_name_is_found(published: Deployment[Any]) -> None:
    his = Custody(folder=str(published.root / "his"), variable="STIRRED_TEST_MASTER_KEY")
    findings = audit_module._audit_publications(
        published.context.ledger.model_copy(update={"custody": his}), published.release.published, None
    )
    assert [(finding.subject, finding.verdict.value) for finding in findings] == [("village/noisy", "does not hold")]
