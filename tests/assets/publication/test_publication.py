"""A published release: its certificate's account of the budget, and the findings if its files are altered."""

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.conventions import group_digits
from assets.gates.shared import all_gates
from assets.ledger.page import REPLAY, read_last_replays
from assets.publication import asset, placement
from assets.publication.asset import publication_problems, publish, require_gates
from assets.publication.audit import audit
from assets.publication.placement import remove
from assets.publication.record import Check
from assets.publication.withdrawal import Withdrawal, withdraw
from assets.release.gate import ReleaseContext
from assets.release.signature import checksums, file_sha256, pem, public_key, sign
from resources.custody import Custody, CustodyMode
from resources.ledger import Ledger, LedgerError, Reading
from resources.statements import Zone
from resources.warehouse import Session, Warehouse
from tests.contract.kinds import KINDS, to_publication
from tests.deployments import Deployment, households, write_csv
from tests.gates import keep, put_back
from tests.whole_repository import known


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment[Any]:
    deployment = KINDS["laplace tables"].build(tmp_path_factory.mktemp("publication") / "release")
    deployment.reach(*to_publication(deployment.context.method))
    keep(deployment)
    return deployment


@pytest.fixture
def published(made: Deployment[Any]) -> Iterator[Deployment[Any]]:
    yield made
    put_back(made)


def charge_elsewhere(deployment: Deployment[Any], dataset: str, epsilon: int) -> None:
    """Charge another release."""
    specification = deployment.ledger[0].parse_specification()
    other = type(specification)(specification.flavor, type(specification.loss)(Fraction(epsilon)))
    draw_id = f"{epsilon:064x}"
    deployment.context.ledger.reserve(dataset, "another", draw_id, other, CustodyMode.ESCROWED, None)


def certificate(deployment: Deployment[Any]) -> dict[str, Any]:
    return json.loads((deployment.release.folder / "certificate.json").read_text())


def epsilon(exact: str) -> dict[str, Any]:
    """A loss in pure DP that is rational, as certificates state it."""
    return {"symbol": "ε", "rounded_up": float(Fraction(exact)), "exact": exact, "delta": None}


def test_beside_an_unreadable_ledger_the_files_are_verified_and_the_ledgers_page_says_what_to_do(
    published: Deployment[Any],
) -> None:
    release, context = published.release, published.context
    context.warehouse.path(Zone.LEDGER).write_bytes(b"damaged")

    def problems() -> list[str]:
        folder = release.folder.parent.parent
        return publication_problems(folder, release.dataset.name, release.name, context.custody, context.ledger)

    assert problems() == []
    with (release.folder / "certificate.json").open("ab") as file:
        file.write(b" ")
    assert problems() != []
    with pytest.raises(LedgerError, match=r"no entry can be read.*lost-key.md"):
        context.ledger.examine().require_intact()


@pytest.mark.deep
def test_a_certificate_tells_the_total_after_its_charge_from_that_at_publication(
    published: Deployment[Any],
) -> None:
    """The first never changes. The second counts every charge in between, for any release."""
    first = certificate(published)["ledger"]
    assert first["total_after_this_charge"] == first["total_at_publication"] == epsilon("3/2")
    charge_elsewhere(published, published.release.dataset.name, 7)
    charge_elsewhere(published, "another_dataset", 5)
    publish(published.context)
    again = certificate(published)["ledger"]
    assert again["total_after_this_charge"] == epsilon("3/2")
    assert again["total_at_publication"] == epsilon("17/2")
    assert (again["sequence"], first["last_charge_at_publication"], again["last_charge_at_publication"]) == (1, 1, 3)


def test_charges_to_other_datasets_leave_a_publication_as_it_is(published: Deployment[Any]) -> None:
    before = published.published()
    charge_elsewhere(published, "another_dataset", 5)
    publish(published.context)
    assert published.published() == before


def problems(deployment: Deployment[Any], recorded: str | None = None) -> list[str]:
    context = deployment.context
    release = context.release
    return publication_problems(
        release.published, release.dataset.name, release.name, context.custody, context.ledger, recorded
    )


def test_what_is_published_is_what_the_custody_signed(published: Deployment[Any]) -> None:
    assert problems(published, file_sha256(published.release.folder / "SHA256SUMS")) == []


def test_gates_and_files_read_one_state_of_the_tables(
    published: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No attacker can show the gates other tables than the files: all tables are opened once."""
    opened, session = [], Warehouse.session

    def noting(
        warehouse: Warehouse, reads: Sequence[Zone] = (), *others: Any, **more: Any
    ) -> AbstractContextManager[Session]:
        opened.append({Zone.CONFIDENTIAL, Zone.PUBLIC} & set(reads))
        return session(warehouse, reads, *others, **more)

    monkeypatch.setattr(Warehouse, "session", noting)
    publish(published.context)
    assert [zones for zones in opened if zones] == [{Zone.CONFIDENTIAL, Zone.PUBLIC}]


def test_gates_speak_of_one_moment_of_the_ledger_and_the_certificate_of_the_last(
    published: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A withdrawal that another process records between the gates and the certificate ends the publication."""
    release, ledger, before = published.release, published.context.ledger, published.published()
    assert published.context.reading.problems == ()
    gates = {gate.name: gate for gate in all_gates(published.context.method)}
    reads: list[int] = []
    read = Ledger.read

    def noting(of: Ledger) -> Reading:
        reads.append(len(reads))
        return read(of)

    def passed_and_withdrawn(context: ReleaseContext[Any], gates_: object = None) -> tuple[Check, ...]:
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "read", noting)
            passed = require_gates(context)
        # All gates share a reading, except that the key is opened only after a fresh one.
        assert len(reads) == 2
        ledger.withdraw(release.dataset.name, release.name, "Ann")
        assert gates["charge_present"].evaluate(context) == []
        (said,) = gates["replay"].evaluate(context)
        assert "was withdrawn in ledger entry 3" in said, "before a key is opened, the ledger itself is asked"
        return passed

    monkeypatch.setattr(asset, "require_gates", passed_and_withdrawn)
    with pytest.raises(dg.Failure, match="the draw was withdrawn meanwhile, in ledger entry 3"):
        publish(published.context)
    assert published.published() == before
    with published.context.snapshot() as held:
        assert gates["charge_present"].evaluate(held) == ["the draw was withdrawn in ledger entry 3"]


def test_a_run_whose_release_is_withdrawn_meanwhile_shows_that_and_promises_nothing(published: Deployment[Any]) -> None:
    """Fails for: a run that shows only the remains of the withdrawal, an unchanged publication and another launch."""
    release = published.release
    published.context.ledger.withdraw(release.dataset.name, release.name, "Ann")
    with published.opened() as connection:
        connection.execute(f"USE main; DROP SCHEMA public.{release.schema} CASCADE")
    for stage in ("tables", "publication"):
        refusal = published.refusal(stage)
        assert f"{release.dataset.name}/{release.name} was withdrawn in ledger entry 3." in refusal
        assert "is a new draw, with a new charge" in refusal
        for promise in ("stays unchanged", "aunch the job again", "charges nothing more", "Launch the release again"):
            assert promise not in refusal


def test_a_charge_beyond_the_cap_after_the_gates_ends_the_publication(
    published: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No certificate shows a total above its own cap."""
    before = published.published()

    def passed_and_charged(context: ReleaseContext[Any], gates_: object = None) -> tuple[Check, ...]:
        passed = require_gates(context)
        charge_elsewhere(published, published.release.dataset.name, 10**6)
        return passed

    monkeypatch.setattr(asset, "require_gates", passed_and_charged)
    with pytest.raises(dg.Failure, match="exceeds the cap"):
        publish(published.context)
    assert published.published() == before


@pytest.mark.deep
def test_a_withdrawal_while_the_first_edition_is_placed_removes_it(
    published: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is written already, but no publication is in place yet that the withdrawal could find."""
    release, ledger = published.release, published.context.ledger
    remove(release.folder)
    with ThreadPoolExecutor(1) as other:
        withdrawals: list[Future[Withdrawal]] = []

        def withdrawn_and_signed(folder: Path, custody: Custody) -> None:
            dataset = release.dataset.name
            withdrawals.append(other.submit(withdraw, ledger, release.published, dataset, release.name, "Ann"))
            while len(ledger.entries()) < 3:
                time.sleep(0.05)
            sign(folder, custody)

        monkeypatch.setattr(asset.signature, "sign", withdrawn_and_signed)
        publish(published.context)
        assert [entry.kind for entry in withdrawals[0].result().entries] == ["withdraw"]
    assert not release.folder.exists()


def test_a_ledger_that_cannot_be_read_fails_its_gates_in_words(published: Deployment[Any]) -> None:
    published.context.warehouse.path(Zone.LEDGER).write_bytes(b"damaged")
    gates = {gate.name: gate for gate in all_gates(published.context.method)}
    with published.context.snapshot() as held:
        for name in ("charge_present", "settled", "replay", "within_cap", "ledger_intact"):
            (said,) = gates[name].evaluate(held)
            assert said.startswith("it cannot be evaluated: cannot open ledger.duckdb"), said
            assert "not intact" not in said


def test_nothing_forged_passes_who_may_write_publications_and_dagsters_events(published: Deployment[Any]) -> None:
    """He alters a table, makes everything fit, signs it with a key of his own, and tells Dagster so."""
    folder = published.release.folder
    table = folder / "tenure_by_county.csv"
    table.write_text(table.read_text().replace("own", "rent", 1))
    his = Custody(folder=str(published.root / "his"), variable="STIRRED_TEST_MASTER_KEY")
    (folder / "SHA256SUMS").write_bytes(checksums(folder))
    found = problems(published, file_sha256(folder / "SHA256SUMS"))
    assert any("SHA256SUMS was altered" in problem for problem in found)
    sign(folder, his)
    (published.release.published / "public_key.pem").write_bytes(pem(public_key(his)))
    found = problems(published, file_sha256(folder / "SHA256SUMS"))
    assert [problem.split()[0] for problem in found] == ["public_key.pem", "SHA256SUMS"]
    with pytest.raises(dg.Failure, match=r"public_key.pem is not this deployment's key.* remove it"):
        publish(published.context)
    assert table.read_text() == (folder / "tenure_by_county.csv").read_text()
    (published.release.published / "public_key.pem").write_bytes(pem(public_key(published.context.custody)) + b" ")
    assert problems(published)[0] == "public_key.pem was altered", "though it is the same key"
    (published.release.published / "public_key.pem").unlink()
    publish(published.context)
    assert problems(published) == []


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("dataset", {"name": "town"}, "are those of town/noisy"),
        ("release", {"name": "other"}, "are those of village/other"),
        ("ledger", {"sequence": 2, "entry_hash": "e" * 64}, "the ledger holds no such draw"),
        ("randomness", {"draw_id": "d" * 64}, "the ledger holds no such draw"),
        ("edition", {"number": 2}, "edition 2 is signed, but the ledger holds no such draw"),
        ("edition", {"number": 0}, "edition 0 is signed, but the ledger holds no such draw"),
    ],
)
def test_a_signed_folder_in_the_wrong_place_is_found(
    published: Deployment[Any], field: str, value: dict[str, Any], says: str
) -> None:
    """An attacker who may write publications may exchange them: each was signed, but for another place."""
    folder = published.release.folder
    path = folder / "certificate.json"
    path.write_text(json.dumps(certificate(published) | {field: value}))
    sign(folder, published.context.custody)
    assert any(says in problem for problem in problems(published))


def evaluate(deployment: Deployment[Any], stage: str, name: str) -> dg.AssetCheckEvaluation:
    """Launch a check alone."""
    check = dg.AssetCheckKey(deployment.release.key(stage), name)
    repository = deployment.definitions.get_repository_def()
    job = repository.get_job("checks").get_subset(asset_selection=set(), asset_check_selection={check})
    with known(repository):
        run = job.execute_in_process(instance=deployment.instance, raise_on_error=False)
    (evaluation,) = run.get_asset_check_evaluations()
    return evaluation


def test_reports_by_hand_and_wiped_records_hide_no_earlier_state(published: Deployment[Any]) -> None:
    """Fails for: a check that ends with a KeyError, then compares nothing, or believes the checksums of any user who
    can launch."""
    key = published.release.key("publication")
    published.run("publication")
    for metadata in ({}, {"SHA256SUMS": group_digits("0" * 64)}):
        for _ in range(25):
            published.instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=metadata))
        assert evaluate(published, "publication", "files_as_published").passed
    published.instance.wipe_assets([key])
    evaluation = evaluate(published, "publication", "files_as_published")
    assert not evaluation.passed
    assert "no record of the run" in str(evaluation.description)


def test_a_replay_says_which_draw_it_repeated(published: Deployment[Any]) -> None:
    """Otherwise the ledger's page would show no replay at all, or the replay of another draw."""
    draw_stage = published.context.method.draw_stage
    assert evaluate(published, draw_stage, REPLAY).passed
    shown = read_last_replays(published.instance, [published.release.key(draw_stage)])
    assert [(draw, words[-11:]) for draw, words in shown.items()] == [(published.ledger[0].draw_id, "same output")]


def test_the_remedy_of_a_missing_charge_says_that_a_launch_charges(
    published: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users launch a changed declaration on this advice. Wrong program: it promises a launch at no charge."""
    monkeypatch.setattr(Reading, "find_reservation", lambda *_: None)
    with pytest.raises(dg.Failure, match="charge_present: no ledger entry for draw") as refused:
        require_gates(published.context)
    assert "the draw is new, and is charged" in str(refused.value.description)
    assert "at no charge" not in str(refused.value.description)


def test_an_earlier_state_that_was_put_back_is_found_by_what_dagster_recorded(published: Deployment[Any]) -> None:
    assert problems(published, "0" * 64) == ["SHA256SUMS is signed, but is not the one of the last materialization"]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.deep
def test_what_is_no_signed_edition_of_the_release_is_never_replaced(published: Deployment[Any]) -> None:
    """The folder could be an edition that a new one must keep, or a publication by a version that did not sign."""
    folder = published.release.folder
    (folder / "SHA256SUMS.sig").unlink()
    record = certificate(published)
    del record["edition"]
    (folder / "certificate.json").write_text(json.dumps(record))
    before = files(folder)
    with pytest.raises(dg.Failure, match=r"cannot be kept as an earlier edition. Move the folder elsewhere"):
        publish(published.context)
    assert files(folder) == before
    folder.rename(folder.parent / "elsewhere")
    publish(published.context)
    assert problems(published) == []


@pytest.mark.deep
def test_a_planted_edition_or_link_stops_the_publication_that_would_keep_it(
    published: Deployment[Any], tmp_path: Path
) -> None:
    folder = published.release.folder
    write_csv(published.root / "units.csv", households(90))
    published.run(*(stage for stage in to_publication(published.context.method) if stage != "publication"))
    (folder / "editions" / "1").mkdir(parents=True)
    (folder / "editions" / "1" / "table.csv").write_text("forged")
    with pytest.raises(dg.Failure, match=r"something else than signed editions .*editions/1: SHA256SUMS"):
        publish(published.context)
    shutil.rmtree(folder / "editions" / "1")
    (folder / "editions" / "1").symlink_to(published.root / "custody")
    with pytest.raises(dg.Failure, match=r"is not published: .*editions/1 is in the way"):
        publish(published.context)
    assert (published.root / "custody").stat().st_mode & 0o777 == 0o700
    shutil.rmtree(folder / "editions")
    kept = files(folder)
    publish(published.context)
    assert files(folder / "editions" / "1") == kept
    assert problems(published) == []


def test_a_planted_edition_stops_another_publication_of_the_same_draw_too(published: Deployment[Any]) -> None:
    folder = published.release.folder
    (folder / "editions" / "7").mkdir(parents=True)
    (folder / "editions" / "7" / "table.csv").write_text("forged")
    charge_elsewhere(published, "village", 1)
    before = files(folder)
    with pytest.raises(dg.Failure, match=r"something else than signed editions .*editions/7: SHA256SUMS"):
        publish(published.context)
    assert files(folder) == before
    assert (folder / "editions" / "7" / "table.csv").exists()


@pytest.mark.parametrize(
    ("exchanged", "named"), [("a table", r"[a-z_]+\.csv was altered"), ("for an earlier publication", "SHA256SUMS")]
)
def test_files_that_are_exchanged_while_they_are_put_in_place_are_not_published(
    published: Deployment[Any], monkeypatch: pytest.MonkeyPatch, exchanged: str, named: str
) -> None:
    """By an attacker who can write to the folder of publications. Fails for: signing the files that lie there,
    believing any signature, and recording an edition that is not put in place."""
    folder, move = published.release.folder, placement._move

    def move_and_exchange(source: Path, arriving: Path) -> None:
        move(source, arriving)
        if exchanged == "a table":
            next(arriving.glob("*.csv")).write_text("forged")
        else:
            shutil.rmtree(arriving)
            shutil.copytree(folder, arriving)

    charge_elsewhere(published, "village", 1)
    custody, release = published.context.custody, published.release
    recorded = custody.read_editions(release.dataset.name, release.name)
    before = files(folder)
    monkeypatch.setattr(placement, "_move", move_and_exchange)
    with pytest.raises(dg.Failure, match=rf"somebody altered its files while they were put in place \({named}\)"):
        publish(published.context)
    assert files(folder) == before
    assert custody.read_editions(release.dataset.name, release.name) == recorded != {}


def test_a_folder_that_cannot_be_written_is_named(published: Deployment[Any]) -> None:
    shutil.rmtree(published.release.folder.parent)
    published.release.folder.parent.write_text("in the way")
    with pytest.raises(dg.Failure, match=r"is not published: .*/published/village.*stays complete"):
        publish(published.context)
    published.release.folder.parent.unlink()
    publish(published.context)
    assert problems(published) == []


@pytest.mark.deep
def test_every_draw_is_an_edition_and_earlier_ones_stay_as_they_were(tmp_path: Path) -> None:
    """The records change, change back and change again. Editions are numbered in the order in which their draws were
    settled."""

    def run(guess: int) -> Deployment[Any]:
        deployment = KINDS["laplace tables"].build(tmp_path / "release", guess=guess)
        deployment.reach(*to_publication(deployment.context.method))
        assert problems(deployment) == []
        record = audit([], deployment.context.nodes, deployment.context.ledger, deployment.release.published, "now")
        assert [each["details"] for each in record["findings"] if each["name"] == "editions"] == []
        return deployment

    first = run(0)
    folder = first.release.folder
    kept = files(folder)
    assert certificate(first)["edition"]["number"] == 1
    assert run(0).release.folder == folder
    assert files(folder) == kept
    second = files(run(1).release.folder)
    assert files(folder / "editions" / "1") == kept
    shown = certificate(first)["edition"]
    assert (shown["number"], [(each["number"], each["ledger_entry"]) for each in shown["all"]]) == (2, [(1, 1), (2, 3)])
    assert certificate(first)["ledger"]["total_at_publication"] == epsilon("3")
    assert [each["charged"] for each in shown["all"]] == [epsilon("3/2")] * 2
    assert len(first.ledger) == 4
    run(0)
    assert (certificate(first)["edition"]["number"], len(first.ledger)) == (1, 4)
    assert [files(folder / "editions" / number) for number in "12"] == [kept, second]
    run(1)
    assert files(folder) == second
    assert [files(folder / "editions" / number) for number in "12"] == [kept, second]
    assert {path.name for path in (folder / "editions").iterdir()} == {"1", "2"}
    other = next(path for path in (folder / "editions" / "1").iterdir() if path.suffix == ".csv")
    other.write_text("forged")
    assert problems(first) == [f"editions/1: {other.name} was altered"]
