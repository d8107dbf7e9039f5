"""A deployment from Python: it lists and refuses the same as the command, and publications are read only if intact."""

import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import stirred
from assets.publication.withdrawal import withdraw
from assets.release import signature
from assets.release.signature import PUBLIC_KEY, VerificationError, pem, public_key
from resources.project import PROJECT
from stirred.deployment import Deployment, NotAuthorizedError, RefusedError
from tests.deployments import TO_PUBLICATION, small_deployment


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A deployment with one publication, `town/tenure`, which no declaration of the project knows."""
    small = small_deployment(tmp_path)
    small.reach(*TO_PUBLICATION)
    folder = small.release.folder.parents[1]
    (folder / PUBLIC_KEY).write_bytes(pem(public_key(small.context.custody)))
    monkeypatch.setenv("STIRRED_PUBLISHED", str(folder))
    return stirred.open(PROJECT)


def name(deployment: Deployment) -> str:
    (certificate,) = deployment.published.glob("*/*/certificate.json")
    return certificate.parent.relative_to(deployment.published).as_posix()


@pytest.mark.deep
def test_a_publication_is_read_with_its_errors_and_refused_if_it_was_altered(published: Deployment) -> None:
    release = name(published)
    publication = published[release]
    assert set(publication.tables) >= {"tenure_by_county", "size_by_county"}
    table = publication.table("tenure_by_county")
    assert {"county", "tenure", "count", "standard_error", "lower", "upper"} <= set(table.columns)
    assert publication.table("tenure_by_county", kind="arrow").num_rows == len(table)
    shown = repr(publication)
    assert "protection-loss budget: ε = " in shown
    assert f"{release}, edition 1" in shown
    with pytest.raises(KeyError, match="no table ages; there are"):
        publication.table("ages")
    with pytest.raises(KeyError, match="is not published"):
        published["town/other"]
    file, verify = publication.folder / "size_by_county.parquet", signature.verify
    kept = file.read_bytes()

    def exchange(*given: Any) -> Any:
        found = verify(*given)
        shutil.copy(publication.folder / "tenure_by_county.parquet", file)
        return found

    with patch.object(signature, "verify", exchange), pytest.raises(VerificationError, match="was altered"):
        publication.table("size_by_county")
    file.write_bytes(kept)
    assert len(publication.table("size_by_county")) > 0
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(VerificationError, match=r"size_by_county\.parquet"):
        published[release].table("tenure_by_county")


def test_texts_in_place_of_lists_are_no_question() -> None:
    """The command would count each letter of a text as a variable or a category."""
    for by, where in (("state", {}), (["state"], {"state": "10"})):
        with pytest.raises(RefusedError, match="given as lists"):
            stirred.open(PROJECT).ask("survey/tables_employment", by, where)


def test_a_publication_is_verified_with_the_key_that_is_given(published: Deployment, tmp_path: Path) -> None:
    release = name(published)
    (identity,) = published.verify(release, published.published / PUBLIC_KEY)
    assert f"{identity.dataset}/{identity.release}" == release
    other = small_deployment(tmp_path / "other")
    (tmp_path / "other.pem").write_bytes(pem(public_key(other.context.custody)))
    with pytest.raises(VerificationError, match="not signed"):
        published.verify(release, tmp_path / "other.pem")
    shutil.copytree(published[release].folder, published[release].folder.with_name("exchanged"))
    exchanged = published[f"{release.partition('/')[0]}/exchanged"]
    for read in (exchanged.verify, lambda: exchanged.tables, lambda: exchanged._read("certificate.json")):
        with pytest.raises(VerificationError, match=f"exchanged: the publication in its folder is that of {release}"):
            read()


def test_a_withdrawn_publication_that_was_put_back_is_refused(
    published: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: trusts the signature, which a withdrawn edition keeps; refuses a retabulation that was published
    again, because another withdrawn edition of it has the same draw."""
    release, ledger = name(published), small_deployment(tmp_path).context.ledger
    monkeypatch.setenv("STIRRED_HOME", str(tmp_path))
    names, (identity,) = release.split("/"), published[release].verify()
    for edition in ("1.1", "1"):
        ledger.custody.forget_editions(*names)
        ledger.custody.record_edition(*names, edition, identity.draw_id, "0" * 64, kept=False)
    assert published[release].verify()
    shutil.copytree(published.published, tmp_path / "kept")
    withdraw(ledger, published.published, *release.split("/"), "Ann Lee")
    shutil.copytree(tmp_path / "kept", published.published, dirs_exist_ok=True)
    for read in (published[release].verify, lambda: published[release]._read("certificate.json")):
        with pytest.raises(VerificationError, match=f"{release}, edition 1, ledger entry 1 was withdrawn"):
            read()


@pytest.mark.deep
def test_a_deployment_is_what_the_command_shows_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's declarations are shown, not the code's, and refusals keep their sentence."""
    declarations = Path("orchestration", "defs", "ma1940")
    shutil.copytree(PROJECT / declarations, tmp_path / declarations)
    for variable in [name for name in os.environ if name.startswith(("STIRRED_", "DAGSTER_HOME"))]:
        monkeypatch.delenv(variable)
    deployment = stirred.open(tmp_path)
    with monkeypatch.context() as relative:
        relative.setenv("STIRRED_PUBLISHED", "public")
        assert deployment.published == tmp_path / "public", "the command runs in this folder"
    assert [each["release"] for each in deployment.releases()] == ["ma1940/tenure_by_county"]
    assert (tmp_path / "var").is_dir(), "the state of the deployment lies in its folder"
    plan: dict[str, Any] = deployment.plan("ma1940/tenure_by_county", {"swap_rate": "1/10"}, largest_stratum=264331)[
        "plan"
    ]
    assert plan["total"].startswith("ε = 14.6822")
    with pytest.raises(RefusedError, match="there is no release ma1940/other"):
        deployment.plan("ma1940/other")
    with pytest.raises(FileNotFoundError, match="has no declarations"):
        stirred.open(tmp_path / "var")
    assert not issubclass(RefusedError, NotAuthorizedError)
