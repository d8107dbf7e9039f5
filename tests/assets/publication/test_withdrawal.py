"""A withdrawn release is gone, to the last byte; its charges stay charged; and its draw is never made again."""

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from assets.charge.assessment import assess
from assets.charge.asset import preflight_metadata
from assets.charge.drawing import UnchargedDrawError, make_draw
from assets.publication import withdrawal
from assets.publication.asset import publication_problems, publish
from assets.publication.listing import write_listing
from assets.publication.placement import place_folder, remove
from assets.publication.withdrawal import WithdrawalError, withdraw
from assets.release.signature import sign
from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from orchestration.jobs import withdraw_job
from resources.custody import Custody, CustodyMode
from resources.ledger import Ledger, LedgerError
from resources.statements import Table, Zone
from resources.storage import Removal, WarehouseError
from resources.warehouse import Warehouse
from tests.contract.kinds import KINDS, to_publication

SPECIFICATION = Specification(Flavor("all households", ("their number",), "household", 1), PureLoss(Fraction(1)))
CANARY = "planted-19be07d3-"
DRAW, LATER, OTHER = (f"{number:064x}" for number in (1, 2, 3))


def ledger_in(root: Path) -> Ledger:
    warehouse = Warehouse(folder=str(root / "warehouse"), threads=1)
    custody = Custody(folder=str(root / "custody"), databases=warehouse.folder, variable="STIRRED_TEST_MASTER_KEY")
    return Ledger(warehouse=warehouse, custody=custody)


@pytest.fixture
def ledger(before: Path, tmp_path: Path) -> Ledger:
    shutil.copytree(before, tmp_path, dirs_exist_ok=True)
    return ledger_in(tmp_path)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Releases of two datasets with charges, tables, ephemeral keys and publications, not made by their assets."""
    root = tmp_path_factory.mktemp("before")
    ledger = ledger_in(root)
    warehouse, custody = ledger.warehouse, ledger.custody
    for dataset, release, draw_id in (("village", "a", DRAW), ("village", "b", LATER), ("village_two", "a", OTHER)):
        ledger.reserve(dataset, release, draw_id, SPECIFICATION, CustodyMode.EPHEMERAL, None)
        for zone in (Zone.CONFIDENTIAL, Zone.PUBLIC):
            with warehouse.session(writes=zone) as session:
                for schema in (dataset, f"{dataset}__{release}"):
                    words = {"text": f"{CANARY}{schema}-end"}
                    session.create(Table(zone, schema, "units"), "warehouse/label", words, column="value")
        folder = root / "published" / dataset / release
        (folder / "editions" / "1").mkdir(parents=True)
        (folder / "table.csv").write_text(f"{CANARY}{dataset}__{release}-end")
        sign(folder, custody)
    ledger.settle(DRAW, "0" * 64)
    return root


def left(root: Path) -> set[str]:
    """The schemas and releases whose canaries remain in any file."""
    contents = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    names = {f"{name}{release}" for name in ("village", "village_two") for release in ("", "__a", "__b")}
    return {name for name in names if any(f"{CANARY}{name}-end".encode() in content for content in contents)}


EVERYTHING = {"village", "village__a", "village__b", "village_two", "village_two__a"}


def test_a_withdrawn_release_is_gone_to_the_last_byte(ledger: Ledger, tmp_path: Path) -> None:
    assert left(tmp_path) == EVERYTHING
    write_listing(tmp_path / "published")
    # The other two files of the catalog list it too.
    (tmp_path / "published" / "index.html").unlink()
    withdraw(ledger, tmp_path / "published", "village", "a", "Ann")
    assert left(tmp_path) == EVERYTHING - {"village__a"}
    assert "village/a/" not in (tmp_path / "published" / "index.html").read_text()
    assert not (tmp_path / "published" / "village" / "a").exists()
    assert ledger.custody.list_keys() == {LATER, OTHER}


def test_what_stands_in_the_place_of_the_list_keeps_nothing_from_being_withdrawn(
    ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "published" / "index.html").mkdir()
    withdraw(ledger, tmp_path / "published", "village", "a", "Ann")
    assert left(tmp_path) == EVERYTHING - {"village__a"}


def test_a_file_that_cannot_be_removed_is_named_with_what_is_done_and_left(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example is an immutable file. Wrong program: it names no folder, and leaves open whether anything happened."""

    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), "table.csv")

    with monkeypatch.context() as patched:
        patched.setattr("assets.publication.placement.shutil", SimpleNamespace(rmtree=refuse))
        with pytest.raises(WithdrawalError) as refused:
            withdraw(ledger, tmp_path / "published", "village", "a", "Ann")
    left_in = tmp_path / "published" / "village" / ".a.arriving"
    assert f"table.csv in {left_in}: Operation not permitted" in str(refused.value)
    assert str(refused.value).startswith("village/a is not completely withdrawn: ")
    withdraw(ledger, tmp_path / "published", "village", "a", "Ann")
    assert left(tmp_path) == EVERYTHING - {"village__a"}


def test_a_withdrawn_dataset_takes_its_releases_with_it_and_no_other(ledger: Ledger, tmp_path: Path) -> None:
    done = withdraw(ledger, tmp_path / "published", "village", None, "Ann")
    assert left(tmp_path) == {"village_two", "village_two__a"}
    assert "in its entries 5, 6" in str(done)
    assert ledger.custody.list_keys() == {OTHER}


def test_the_ledger_says_who_withdrew_what_and_every_charge_stays(ledger: Ledger, tmp_path: Path) -> None:
    charged = ledger.read().compose("village", PureLoss(Fraction(9)))
    withdraw(ledger, tmp_path / "published", "village", "a", " Ann ")
    *_, entry = ledger.entries()
    assert (entry.kind, entry.dataset, entry.release, entry.draw_id) == ("withdraw", "village", "a", DRAW)
    assert entry.details == '{"by":"Ann","withdrawn":"release village/a"}'
    assert ledger.verify() == ()
    assert ledger.read().compose("village", PureLoss(Fraction(9))) == charged == PureLoss(Fraction(2))


@pytest.mark.prove
def test_withdrawing_again_completes_and_records_nothing_new(ledger: Ledger, tmp_path: Path) -> None:
    """As after a kill: the ledger's entry is there, and some of the rest. Fails for a program that keeps the leftovers
    of a killed removal of a retabulation, which has no charge."""
    half = tmp_path / "published" / "village" / ".places.arriving"
    half.mkdir()
    with ledger.warehouse.session(writes=Zone.PUBLIC) as session:
        table = Table(Zone.PUBLIC, "village__places", "units")
        session.create(table, "warehouse/label", {"text": "left"}, column="text")
    withdraw(ledger, tmp_path / "published", "village", "places", "Ann")
    assert not half.exists()
    ledger.withdraw("village", "a", "Ann")
    entries = ledger.entries()
    withdraw(ledger, tmp_path / "published", "village", "a", "Ben")
    assert ledger.entries() == entries
    assert left(tmp_path) == EVERYTHING - {"village__a"}
    withdraw(ledger, tmp_path / "published", "village", "a", "Ben")
    assert ledger.entries() == entries


def test_what_is_published_while_its_withdrawal_waits_is_recorded_as_withdrawn(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: reduces the record before it waits for a publication that is being placed, so that the publication
    is recorded afterwards. No ledger has the withdrawal of a retabulation, so a restoration would publish it again."""
    folder, private, waiting = tmp_path / "published" / "village" / "places", tmp_path / "private", threading.Event()
    private.mkdir()
    with ledger.warehouse.session(writes=Zone.PUBLIC) as session:
        table = Table(Zone.PUBLIC, "village__places", "units")
        session.create(table, "warehouse/label", {"text": "counted"}, column="text")
    record = partial(ledger.custody.record_edition, "village", "places", "1", DRAW, "0" * 64, kept=False)
    monkeypatch.setattr(withdrawal, "remove", lambda *given: [waiting.set(), remove(*given)])
    with ThreadPoolExecutor(1) as threads:
        with place_folder(folder, private, lambda present: None, lambda arriving: None, record) as placed:
            (placed / "table.csv").write_text("of the retabulation")
            done = threads.submit(withdraw, ledger, tmp_path / "published", "village", "places", "Ann")
            assert waiting.wait(60)
        done.result()
    assert not folder.exists()
    assert ledger.custody.read_editions("village", "places") == {"1": [DRAW, ""]}


@pytest.mark.prove
def test_a_withdrawal_whose_compaction_failed_is_completed_although_nothing_was_charged(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails for: refusing a name of which a database holds only bytes, from before or from a run meanwhile."""
    warehouse, compact = ledger.warehouse, Warehouse.compact

    def write() -> None:
        with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
            table = Table(Zone.CONFIDENTIAL, "town", "units")
            session.create(table, "warehouse/label", {"text": f"{CANARY}village-end"}, column="text")

    write()
    withdraw(ledger, tmp_path / "published", "village", None, "Ann")
    assert left(tmp_path) == {"village", "village_two", "village_two__a"}

    def fail(*given: Any) -> Removal:
        raise WarehouseError("the disk is full")

    for _ in range(2):
        monkeypatch.setattr(Warehouse, "compact", fail)
        with pytest.raises(WarehouseError, match="full"):
            withdraw(ledger, tmp_path / "published", "town", None, "Ann")
    assert "village" in left(tmp_path), "the deleted rows are still in the file"

    def write_meanwhile(warehouse: Warehouse, zone: Zone) -> Removal:
        removal = compact(warehouse, zone)
        if zone is Zone.CONFIDENTIAL:
            write()
        return removal

    monkeypatch.setattr(Warehouse, "compact", write_meanwhile)
    withdraw(ledger, tmp_path / "published", "town", None, "Ann")
    monkeypatch.setattr(Warehouse, "compact", compact)
    assert "confidential.town" in str(withdraw(ledger, tmp_path / "published", "town", None, "Ann"))
    assert left(tmp_path) == {"village_two", "village_two__a"}
    with pytest.raises(WithdrawalError, match="there is no data of town"):
        withdraw(ledger, tmp_path / "published", "town", None, "Ann")


def test_a_withdrawn_draw_is_neither_charged_nor_settled_again(ledger: Ledger) -> None:
    ledger.withdraw("village", None, "Ann")
    entries = ledger.entries()
    with pytest.raises(LedgerError, match=r"was withdrawn in ledger entry 5 and is never made again"):
        ledger.reserve("village", "a", DRAW, SPECIFICATION, CustodyMode.EPHEMERAL, None)
    with pytest.raises(LedgerError, match="was withdrawn in ledger entry 6"):
        ledger.settle(LATER, "0" * 64)
    assert ledger.entries() == entries


def test_what_cannot_be_meant_is_refused_and_nothing_is_removed(ledger: Ledger, tmp_path: Path) -> None:
    entries = ledger.entries()
    for dataset, release, by, says in (
        ("village", "c", "Ann", "there is no data of village/c"),
        ("town", None, "Ann", "there is no data of town"),
        ("village", "a", "  ", "no person is named"),
        (
            "village",
            "a",
            "Ann\n\n**Entry 9**",
            r"by has the character U\+000A, and a name is one line of plain text",
        ),
        ("..", None, "Ann", "is not the name"),
        ("village", "../village_two/a", "Ann", "is not the name"),
        ("village", "", "Ann", "is not the name"),
    ):
        with pytest.raises(WithdrawalError, match=says):
            withdraw(ledger, tmp_path / "published", dataset, release, by)
    folder = tmp_path / "published" / "village"
    folder.symlink_to(folder.rename(tmp_path / "elsewhere"))
    with pytest.raises(WithdrawalError, match="village is a link"):
        withdraw(ledger, folder.parent, "village", "a", "Ann")
    assert ledger.entries() == entries
    assert left(tmp_path) == EVERYTHING


@pytest.mark.prove
def test_the_job_withdraws_what_its_configuration_names(ledger: Ledger, tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        for release, success in (("a", True), ("c", False)):
            result = withdraw_job(tmp_path / "published").execute_in_process(
                run_config={"ops": {"withdrawal": {"config": {"dataset": "village", "release": release, "by": "Ann"}}}},
                resources={"ledger": ledger},
                instance=instance,
                raise_on_error=False,
            )
            assert result.success == success
    assert left(tmp_path) == EVERYTHING - {"village__a"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    deployment = KINDS["laplace tables"].build(tmp_path_factory.mktemp("withdrawal") / "release")
    deployment.reach(*to_publication(deployment.context.method))
    return deployment


@pytest.mark.deep
def test_a_withdrawn_release_is_not_made_or_published_again_but_another_draw_of_it_is(made: Any) -> None:
    context, method = made.context, made.context.method
    folder, published = made.release.folder, made.release.published
    shutil.copytree(made.root / "warehouse", made.root / "kept")
    shutil.copytree(folder, made.root / "kept_files")
    withdraw(context.ledger, published, "village", "noisy", "Ann")
    assert "was withdrawn in ledger entry 3" in made.refusal()
    for name in ("public.duckdb", "confidential.duckdb"):
        # A copy of the tables was kept.
        shutil.copy(made.root / "kept" / name, made.root / "warehouse" / name)
    with pytest.raises(UnchargedDrawError, match="was withdrawn"):
        make_draw(method, context.warehouse, context.custody, context.ledger)
    with pytest.raises(dg.Failure, match="the draw was withdrawn in ledger entry 3"):
        publish(context)
    assert not folder.exists()
    decision = preflight_metadata(assess(method, context.warehouse, context.custody, context.ledger))["decision"]
    assert decision.startswith("The ledger would refuse it: the draw was withdrawn in ledger entry 3")
    # A copy of the files was kept, too, whose signature is still right.
    shutil.copytree(made.root / "kept_files", folder)
    problems = publication_problems(published, "village", "noisy", context.custody, context.ledger)
    assert problems == ["edition 1 is signed, but was withdrawn in entry 3"]
    # A killed withdrawal leaves them, too. The next publication does not keep them as an earlier edition.
    other = KINDS["laplace tables"].build(made.root, guess=1)
    other.reach(*to_publication(method))
    assert publication_problems(published, "village", "noisy", context.custody, context.ledger) == []
    assert not (folder / "editions").exists()
    certificate = (folder / "certificate.html").read_text()
    assert "withdrawn in entry 3" in certificate
    assert "2, of " in certificate
