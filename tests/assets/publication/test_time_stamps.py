"""Claims about the time stamp in a certificate: its contents, and that it reveals a ledger that was set back."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from assets.publication.asset import publish
from assets.publication.audit import audit
from assets.publication.withdrawal import withdraw
from assets.release.gate import ReleaseContext
from assets.release.signature import sign
from orchestration.cli import main
from resources import storage
from resources.custody import CustodyMode
from resources.storage import TransientError
from tests.contract.kinds import KINDS, to_publication
from tests.deployments import Deployment
from tests.depth import deep_cases
from tests.gates import keep, put_back
from tests.time_authority import SECRET, Authority, certify, needs_openssl, time_authority

pytestmark = [needs_openssl, pytest.mark.deep]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment[Any]:
    deployment = KINDS["laplace tables"].build(tmp_path_factory.mktemp("stamps") / "release")
    deployment.reach(*to_publication(deployment.context.method))
    keep(deployment)
    return deployment


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with time_authority(tmp_path_factory.mktemp("clock") / "authority") as running:
        yield running


@pytest.fixture
def context(made: Deployment[Any], authority: Authority) -> Iterator[ReleaseContext[Any]]:
    """A release that was published without a stamp, before the deployment named an authority."""
    settings = {"time_authority": authority.address, "time_authority_root": str(authority.root)}
    authority.queries.clear()
    yield replace(made.context, ledger=made.context.ledger.model_copy(update=settings))
    put_back(made)


def charge_elsewhere(context: ReleaseContext[Any]) -> None:
    specification = context.ledger.entries()[0].parse_specification()
    context.ledger.reserve("elsewhere", "other", "0" * 64, specification, CustodyMode.ESCROWED, None)


def verified(folder: Path, *options: object) -> tuple[int, str]:
    key = folder.parent.parent / "public_key.pem"
    done = CliRunner().invoke(main, ["verify", str(folder), "--key", str(key), *map(str, options)])
    return done.exit_code, done.output


def test_a_certificate_has_the_stamp_of_the_ledgers_head_and_anyone_can_verify_it(
    context: ReleaseContext[Any], authority: Authority, tmp_path: Path
) -> None:
    """Fails for: a stamp of the release's own entry, one for each publication, and one that is never compared."""
    folder = context.release.folder
    assert verified(folder, "--authority", authority.root)[1].endswith("it has no time stamp\n")
    charge_elsewhere(context)
    publish(context)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    publish(context)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert len(authority.queries) == 1
    record = json.loads(files["certificate.json"])
    jsonschema.validate(record, json.loads(files["certificate.schema.json"]))
    stamp, head = record["ledger"]["time_stamp"], context.ledger.entries()[-1]
    assert (stamp["sequence"], stamp["entry_hash"], record["ledger"]["sequence"]) == (3, head.hash, 1)
    page = files["certificate.html"].decode()
    assert f"{stamp['time']} (UTC), by Clock of the Office" in page
    code, said = verified(folder)
    assert (code, said.splitlines()[-1]) == (0, f"{folder}: its time stamp was not verified, which --authority does")
    code, said = verified(folder, "--authority", authority.root)
    assert code == 0
    assert "UTC by Clock of the Office is of entry 3" in said.splitlines()[-1]
    code, said = verified(folder, "--authority", certify(tmp_path / "other"))
    assert (code, "the time stamp of entry 3 was altered" in said) == (1, True)
    stamp["time"] = "2026-01-01T00:00:00Z"
    (folder / "certificate.json").write_text(json.dumps(record))
    sign(folder, context.custody)
    code, said = verified(folder, "--authority", authority.root)
    assert (code, "states another time" in said) == (1, True)


def test_nothing_is_published_without_its_stamp(
    context: ReleaseContext[Any], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "WAITS", ())
    monkeypatch.setattr(authority, "answer", lambda query: 503)
    before = (context.release.folder / "SHA256SUMS").read_bytes()
    with pytest.raises(TransientError, match="STIRRED_TIME_AUTHORITY answers 503") as failure:
        publish(context)
    assert SECRET not in str(failure.value)
    assert (context.release.folder / "SHA256SUMS").read_bytes() == before


def find(context: ReleaseContext[Any], **settings: str) -> dict[str, tuple[str, str]]:
    """The verdicts and details of the audit on ledger, stamps and publication."""
    ledger = context.ledger.model_copy(update=settings)
    record = audit([], context.nodes, ledger, context.release.published, "2026-01-01T00:00:00Z")
    names = "ledger_intact", "files_as_published", "time_stamps"
    return {
        each["name"]: (each["verdict"], " ".join(each["details"]))
        for each in record["findings"]
        if each["name"] in names
    }


@deep_cases(1)
@pytest.mark.parametrize("left", ["the certificate", "the kept stamp"])
def test_the_audit_finds_a_ledger_that_was_set_back_with_its_anchor(
    left: str, context: ReleaseContext[Any], made: Deployment[Any]
) -> None:
    """Fails for: an audit that asks whether the ledger has the publication's own entry, which it still has."""
    assert "time_stamps" not in find(context), "there is none yet"
    kept = made.root.parent / "kept"
    charge_elsewhere(context)
    publish(context)
    assert find(context)["time_stamps"] == ("holds", "")
    for name in ("warehouse/ledger.duckdb", "custody/ledger.anchor"):
        shutil.copy2(kept / name, made.root / name)
    if left == "the certificate":
        shutil.rmtree(made.root / "custody" / "timestamps")
    else:
        shutil.rmtree(context.release.folder)
        shutil.copytree(kept / context.release.folder.relative_to(made.root), context.release.folder)
    found = find(context)
    assert found["ledger_intact"][0] == ("holds" if left == "the certificate" else "does not hold")
    assert found["files_as_published"][0] == "holds"
    verdict, said = found["time_stamps"]
    assert verdict == "does not hold"
    assert said.startswith("the ledger was set back or rebuilt: a time stamp of 2")
    assert "UTC by Clock of the Office is of entry 3 with the hash" in said
    assert said.endswith("and the ledger has 2 entries")
    assert find(context, time_authority_root="")["time_stamps"][0] == "does not hold"


def test_the_audit_verifies_every_stamp(context: ReleaseContext[Any], made: Deployment[Any], tmp_path: Path) -> None:
    """Stamps of withdrawn releases too."""
    publish(context)
    unset = "2 time stamps were not verified, because STIRRED_TIME_AUTHORITY_ROOT names no certificate."
    assert find(context, time_authority_root="")["time_stamps"] == ("could not be checked", unset)
    other = str(certify(tmp_path / "other"))
    assert find(context, time_authority_root=other)["time_stamps"][0] == "does not hold"
    (path,) = (made.root / "custody" / "timestamps").iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    verdict, said = find(context)["time_stamps"]
    assert (verdict, said.startswith("the time stamp of entry 2 was altered")) == ("does not hold", True)
    path.write_bytes(content)
    withdraw(context.ledger, context.release.published, "village", "noisy", "Ann")
    assert find(context, time_authority_root="")["time_stamps"] == ("could not be checked", unset.replace("2", "1"))
    assert (path.read_bytes(), find(context)["time_stamps"]) == (content, ("holds", ""))
