"""A backup restores a deployment without a charge and with the same bytes. A backup that cannot be right is refused."""

import os
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pytest

from assets.publication.placement import copy_publications
from assets.publication.withdrawal import withdraw
from assets.release.signature import CHECKSUMS, SIGNATURE, file_sha256, pem, public_key, sign
from assets.texts import find_unseen
from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from orchestration.backup import BackupError, back_up, restore
from orchestration.cli import explain_error, main
from resources.custody import CURRENT, Custody, CustodyMode
from resources.ledger import Ledger
from resources.statements import Table, Zone
from resources.warehouse import Warehouse
from tests.contract.kinds import KINDS, to_publication
from tests.depth import deep_but, deep_cases, quick_cases

SPECIFICATION = Specification(Flavor("all households", ("their number",), "household", 1), PureLoss(Fraction(1)))
SECRET = Table(Zone.CONFIDENTIAL, "village", "units")


def resources(home: Path) -> dict[str, dg.ConfigurableResource]:
    warehouse = Warehouse(folder=str(home / "warehouse"), threads=1)
    custody = Custody(folder=str(home / "custody"), variable="STIRRED_TEST_MASTER_KEY")
    return {"ledger": Ledger(warehouse=warehouse, custody=custody)}


def ledger_of(home: Path) -> Ledger:
    ledger = resources(home)["ledger"]
    assert isinstance(ledger, Ledger)
    return ledger


def charge(ledger: Ledger, number: int) -> None:
    ledger.reserve("village", "counties", f"{number:064x}", SPECIFICATION, CustodyMode.EPHEMERAL, None)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A deployment with a charge, a confidential table, an ephemeral key and a publication, not made by a release."""
    home = tmp_path / "home"
    ledger = ledger_of(home)
    charge(ledger, 1)
    ledger.custody.keep_sketch(b"of the charged records", {})
    (entry,) = ledger.entries()
    (ledger.custody.private_folder("timestamps") / f"1-{entry.hash}.tsr").write_bytes(b"a time stamp")
    with ledger.warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        session.create(SECRET, "warehouse/label", {"text": "secret"}, column="value")
    release = tmp_path / "published" / "village" / "counties"
    (release / "editions" / "1").mkdir(parents=True)
    for folder in (release, release / "editions" / "1"):
        (folder / "table.csv").write_text("county,count\n")
        sign(folder, ledger.custody)
    (tmp_path / "published" / "public_key.pem").write_bytes(pem(public_key(ledger.custody)))
    return home


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_backup_holds_everything_but_the_keys_for_its_owner_alone(home: Path, tmp_path: Path) -> None:
    # Other files in the folders of the custody and the databases may be copies of a key or of the records.
    shutil.copy(home / "custody" / "master.key", home / "custody" / "master.key.bak")
    (home / "warehouse" / "export.csv").write_text("secret")
    (home / "custody" / "sketches" / "master.key.bak").write_text("ab" * 32)
    (home / "custody" / "timestamps" / "master.key.tsr.bak").write_text("ab" * 32)
    ledger_of(home).custody.record_edition("village", "counties", "1", "0" * 64, "1" * 64, kept=False)
    shutil.copy(home / "custody" / "master.key", home / "custody" / "publications" / "my__master.key.bak")
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources)
    names = set(tree(tmp_path / "kept"))
    assert {"warehouse/confidential.duckdb", "warehouse/ledger.duckdb", "custody/ledger.anchor"} <= names
    assert "published/village/counties/editions/1/table.csv" in names
    (sketch,) = (home / "custody" / "sketches").glob("[!m]*")
    assert {f"custody/sketches/{sketch.name}", "custody/publications/village__counties"} <= names
    assert f"custody/timestamps/1-{ledger_of(home).entries()[0].hash}.tsr" in names
    assert not [name for name in names if name.endswith((".key", ".wal", ".bak", "export.csv"))]
    assert (tmp_path / "kept").stat().st_mode & 0o077 == 0
    key = (home / "custody" / "master.key").read_bytes().strip()
    assert not [name for name, content in tree(tmp_path / "kept").items() if key in content]


def test_keys_are_in_a_backup_that_asks_for_them_and_it_needs_nothing_else(home: Path, tmp_path: Path) -> None:
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources, with_keys=True)
    entries, published = ledger_of(home).entries(), tree(tmp_path / "published")
    custody = tree(home / "custody")
    shutil.rmtree(home)
    shutil.rmtree(tmp_path / "published")
    restore(tmp_path / "kept", home, tmp_path / "published", resources)
    assert (ledger_of(home).entries(), ledger_of(home).verify()) == (entries, ())
    assert tree(tmp_path / "published") == published
    assert tree(home / "custody") == custody
    assert {path.name for path in home.iterdir()} == {"warehouse", "custody"}
    with ledger_of(home).warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert session.rows("warehouse/labelled", table=SECRET, column="value") == [("secret",)]
    readable = [tmp_path / "published", *(tmp_path / "published").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in readable} == {0o644, 0o755}


def test_no_backup_holds_or_brings_back_the_key_of_a_settled_draw(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process left it. Wrong programs: copy every key into the backup, or out of it."""
    ledger, published = ledger_of(home), tmp_path / "published"
    ledger.settle(f"{1:064x}", "v1")
    for place in ("kept", "kept with a key"):
        ledger.custody.commit(f"{1:064x}", CustodyMode.EPHEMERAL)
        with monkeypatch.context() as patch:
            if place != "kept":
                patch.setattr(Ledger, "forget_keys", lambda ledger: ())
            back_up(ledger, published, tmp_path / place, resources, with_keys=True)
        keys = list((tmp_path / place / "custody").glob("ephemeral/*.key"))
        assert len(keys) == (place != "kept")
    restore(tmp_path / "kept with a key", tmp_path / "other", tmp_path / "published again", resources)
    assert ledger_of(tmp_path / "other").custody.list_keys() == set()


@pytest.mark.parametrize("remove", [Ledger.forget_keys, lambda ledger: ledger.withdraw("village", None, "Ann Lee")])
def test_what_a_killed_backup_left_goes_with_the_next_draw_or_withdrawal(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: Any
) -> None:
    """Wrong program: keeps copies of the master key and of withdrawn records until the next backup."""
    left = tmp_path / "left"

    def restore_and_look(folder: Path, scratch: Path, *others: Any) -> None:
        restore(folder, scratch, *others)
        shutil.copytree(scratch.parent, left)

    monkeypatch.setattr("orchestration.backup.restore", restore_and_look)
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources)
    assert {path.name for path in home.iterdir()} == {"warehouse", "custody"}
    assert {"master.key", "confidential.duckdb"} <= {path.name for path in left.rglob("*")}
    left.rename(home / ".verifying")
    remove(ledger_of(home))
    assert {path.name for path in home.iterdir()} == {"warehouse", "custody"}


@pytest.mark.deep
def test_a_restoration_that_is_killed_leaves_no_copy_of_a_key_once_it_can_not_be_repeated(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Databases in the home prevent another restoration, which would remove the remaining files. They come last."""
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources, with_keys=True)
    key = (home / "custody" / "master.key").read_bytes().strip()
    found: dict[Path, list[str]] = {}

    def rename(source: Path, target: Path, rename: Any = Path.rename) -> Path:
        found[target] = [name for name, content in tree(tmp_path / "other").items() if key in content]
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", rename)
    restore(tmp_path / "kept", tmp_path / "other", tmp_path / "published again", resources)
    assert found[tmp_path / "other" / "warehouse"] == ["custody/master.key"]


def test_a_backup_of_an_earlier_version_with_the_empty_folder_of_a_dataset_is_restored(
    home: Path, tmp_path: Path
) -> None:
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources, with_keys=True)
    (tmp_path / "kept" / "published" / "withdrawn").mkdir()
    restore(tmp_path / "kept", tmp_path / "other", tmp_path / "published again", resources)
    assert ledger_of(tmp_path / "other").entries() == ledger_of(home).entries()
    shutil.rmtree(tmp_path / "other")
    (tmp_path / "kept" / "published" / "withdrawn" / "more").mkdir()
    with pytest.raises(BackupError, match="published/withdrawn/more is not part"):
        restore(tmp_path / "kept", tmp_path / "other", tmp_path / "published a third time", resources)


@pytest.mark.prove
def test_a_deployment_without_publications_is_restored_too(home: Path, tmp_path: Path) -> None:
    back_up(ledger_of(home), tmp_path / "nothing", tmp_path / "kept", resources, with_keys=True)
    restore(tmp_path / "kept", tmp_path / "other", tmp_path / "published again", resources)
    assert ledger_of(tmp_path / "other").entries() == ledger_of(home).entries()
    assert not (tmp_path / "published again").exists()


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("given", ["in the home", "in the environment"])
def test_without_keys_in_it_a_backup_needs_the_custody(
    home: Path, tmp_path: Path, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources)
    key = (home / "custody" / "master.key").read_text()
    entries = ledger_of(home).entries()
    shutil.rmtree(home)
    published = tmp_path / "published again"
    with pytest.raises(BackupError, match=r"the master key is missing: put master.key .* If the key is lost, keep the"):
        restore(tmp_path / "kept", home, published, resources)
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert not published.exists()
    if given == "in the environment":
        monkeypatch.setenv("STIRRED_TEST_MASTER_KEY", key.strip())
    else:
        (home / "custody").mkdir(mode=0o700)
        (home / "custody" / "master.key").write_text(key)
        (home / "custody" / "master.key").chmod(0o600)
    restore(tmp_path / "kept", home, published, resources)
    assert (ledger_of(home).entries(), ledger_of(home).verify()) == (entries, ())


@pytest.mark.deep
def test_an_older_ledger_is_not_restored_under_a_newer_anchor(home: Path, tmp_path: Path) -> None:
    """The databases are lost, the custody survived. Charges since the backup must not be forgotten."""
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "older", resources)
    charge(ledger_of(home), 2)
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "latest", resources)
    shutil.rmtree(home / "warehouse")
    custody, again = tree(home / "custody"), tmp_path / "published again"
    with pytest.raises(BackupError, match=r"entries from 2 to 2 are missing.* Restore the latest backup"):
        restore(tmp_path / "older", home, again, resources)
    assert not (home / "warehouse").exists()
    assert tree(home / "custody") == custody
    restore(tmp_path / "latest", home, again, resources)
    assert len(ledger_of(home).entries()) == 2
    assert tree(home / "custody") == custody


@quick_cases(1)
@deep_cases(2)
@pytest.mark.parametrize(
    ("name", "how"),
    deep_but(
        [("warehouse/confidential.duckdb", "altered"), ("SHA256SUMS.sig", "removed")],
        product(
            ["warehouse/confidential.duckdb", "published/public_key.pem", "SHA256SUMS.sig"], ["altered", "removed"]
        ),
    ),
)
def test_an_altered_backup_is_not_restored(home: Path, tmp_path: Path, name: str, how: str) -> None:
    kept = tmp_path / "kept"
    back_up(ledger_of(home), tmp_path / "published", kept, resources, with_keys=True)
    if how == "removed":
        (kept / name).unlink()
    else:
        (kept / name).write_bytes(b"x" + (kept / name).read_bytes()[1:])
    with pytest.raises(BackupError, match=rf"altered, is incomplete or .*: {name.replace('SHA256SUMS.sig', 'SHA256')}"):
        restore(kept, tmp_path / "other", tmp_path / "published again", resources)
    assert not (tmp_path / "published again").exists()
    assert not [path for path in (tmp_path / "other").rglob("*") if path.is_file()]


def test_nothing_is_restored_over_databases_or_publications(home: Path, tmp_path: Path) -> None:
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources, with_keys=True)
    for where, published in ((home, tmp_path / "new"), (tmp_path / "new", tmp_path / "published")):
        with pytest.raises(BackupError, match="into an empty home"):
            restore(tmp_path / "kept", where, published, resources)


def test_a_backup_waits_for_nobody_who_is_not_writing_and_needs_an_empty_folder(home: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="is not empty"):
        back_up(ledger_of(home), tmp_path / "published", home, resources)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "published")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    for place, obstacle in (
        ("published/kept", "is inside .*published, which is backed up"),
        ("link/village/kept", "is inside .*published, which is backed up"),
        (f"{home.name}/custody/../warehouse/kept", "is inside .*warehouse, which is backed up"),
        (f"{home.name}/custody/kept", "is inside .*custody, which is backed up"),
        ("file", "is not a folder"),
        ("dangling", "is not a folder"),
        ("a?b", "has a question mark"),
        ("a\nb", "letter that cannot be seen"),
        (os.fsdecode(b"\xff"), "letter that cannot be seen"),
    ):
        with pytest.raises(BackupError, match=obstacle):
            back_up(ledger_of(home), tmp_path / "published", tmp_path / place, resources, with_keys=True)
    assert sorted(tmp_path.rglob("*")) == before, "no copy of a key is in the publications"
    (home / "warehouse" / "ledger.duckdb").unlink()
    with pytest.raises(Exception, match="missing"):
        back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources)
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("name", ["line\nbreak", os.fsdecode(b"\xff")])
def test_a_name_that_cannot_be_read_is_in_the_way_of_a_backup(home: Path, tmp_path: Path, name: str) -> None:
    """It fails if the signed list of files has an invalid line or cannot be written."""
    next(path for path in (tmp_path / "published").glob("*/*") if path.is_dir()).joinpath(name).touch()
    with pytest.raises(FileExistsError, match="whose names can be read; remove it") as refused:
        back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources)
    sentence = explain_error(refused.value)
    assert sentence == str(refused.value)
    assert find_unseen(sentence) == ""


def test_a_file_that_somebody_made_huge_fills_no_disk(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: copies the file's holes, which takes hours or ends with a full disk."""
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "first", resources)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2**30))
    huge = (
        r"have [\d,]+ bytes, and the disk of .* has 1,073,741,824 free. The largest file is .* with 1,099,511,627,776"
    )
    os.truncate(tmp_path / "published" / "village" / "counties" / "table.csv", 2**40)
    with pytest.raises(BackupError, match=huge):
        back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources)
    assert not (tmp_path / "kept").exists()
    os.truncate(tmp_path / "first" / "warehouse" / "ledger.duckdb", 2**40)
    with pytest.raises(BackupError, match=huge):
        restore(tmp_path / "first", tmp_path / "new", tmp_path / "new" / "published", resources)
    assert not (tmp_path / "new").exists()


def test_a_backup_that_cannot_be_restored_says_so_and_has_no_signature(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails if a backup counts as right because every step of it ended."""

    def copy_with_an_empty_folder(published: Path, folder: Path, *given: Any) -> None:
        copy_publications(published, folder, *given)
        (folder / ".." / "warehouse" / "more").mkdir()

    monkeypatch.setattr("orchestration.backup.copy_publications", copy_with_an_empty_folder)
    with pytest.raises(BackupError, match=r"of no use, because it cannot be restored: .*warehouse/more is not part"):
        back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources)
    assert not (tmp_path / "kept" / SIGNATURE).exists()
    assert {path.name for path in home.iterdir()} == {"warehouse", "custody"}, "nor a copy of the key"


@pytest.mark.deep
def test_a_publication_that_lands_during_a_backup_is_in_it_with_its_own_record(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: copies records before the publications, so that the audit after a restoration reports that an
    earlier state was put back."""

    def publish(text: str) -> None:
        folder = tmp_path / "published" / "village" / "counties"
        (folder / "table.csv").write_text(text)
        sign(folder, ledger_of(home).custody)
        checksums = file_sha256(folder / CHECKSUMS)
        ledger_of(home).custody.record_edition("village", "counties", "1", "0" * 64, checksums, kept=False)

    def copy_after_another(*given: Any) -> None:
        publish("after the records were copied")
        copy_publications(*given)

    publish("before")
    monkeypatch.setattr("orchestration.backup.copy_publications", copy_after_another)
    back_up(ledger_of(home), tmp_path / "published", tmp_path / "kept", resources, with_keys=True)
    restore(tmp_path / "kept", tmp_path / "restored", tmp_path / "published again", resources)
    recorded = ledger_of(tmp_path / "restored").custody.read_editions("village", "counties")
    restored = file_sha256(tmp_path / "published again" / "village" / "counties" / CHECKSUMS)
    assert recorded == {name: ["0" * 64, restored] for name in ("1", CURRENT)}


def test_nothing_is_backed_up_of_a_deployment_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="holds no deployment yet"):
        back_up(ledger_of(tmp_path / "home"), tmp_path / "published", tmp_path / "kept", resources)
    assert not list(tmp_path.iterdir())


KEEP = (
    *("audit", "backup", "budget", "check", "completion", "estimate", "explore", "plan", "status", "table", "verify"),
    *("export registry", "ledger migrate", "new dataset", "new release", "regenerate", "unblock"),
)
"""The commands that leave the contents of a backup unchanged."""


def launch(root: Path) -> None:
    deployment = KINDS["laplace tables"].build(root)
    deployment.reach(*to_publication(deployment.context.method))


def preflight(root: Path) -> None:
    deployment = KINDS["laplace tables"].build(root)
    deployment.run("cef", "counts", "preflight")


def withdraw_release(root: Path) -> None:
    withdraw(ledger_of(root), root / "published", "village", "noisy", "Ann")


def withdraw_dataset(root: Path) -> None:
    withdraw(ledger_of(root), root / "published", "village", None, "Ann")


def restore_again(root: Path) -> None:
    back_up(ledger_of(root), root / "published", root / "for restore", resources, with_keys=True)
    for name in ("warehouse", "custody", "published"):
        shutil.rmtree(root / name, ignore_errors=True)
    restore(root / "for restore", root, root / "published", resources)


def hash_tables(ledger: Ledger, zone: Zone) -> dict[str, str]:
    if not ledger.warehouse.holds(zone):
        return {}
    with ledger.warehouse.session(reads=[zone]) as session:
        names = ((schema, name) for schema in session.schemas(zone) for name in session.tables(zone, schema))
        return {f"{schema}.{name}": session.content_version([Table(zone, schema, name)]) for schema, name in names}


STEPS: dict[str, list[Callable[[Path], None]]] = {
    "preflight": [preflight],
    "launch": [launch],
    "restore": [launch, restore_again],
    "withdraw": [launch, withdraw_release],
    "withdraw a dataset": [launch, withdraw_dataset],
    "withdraw what is gone already": [launch, withdraw_release, withdraw_dataset],
    "restore what was withdrawn": [launch, withdraw_release, restore_again],
}
"""Changes of a deployment. `ledger move` is another: `tests/contract/test_ledger_on_server.py` restores after it."""


def list_commands(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from list_commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_every_command_is_known_to_change_what_is_backed_up_or_not() -> None:
    """A new command fails this test until a developer has checked that its results can be restored."""
    assert {*list_commands(main)} == {*KEEP, "ledger move", *(step for step in STEPS if " " not in step)}


def test_a_withdrawn_release_is_not_published_again(tmp_path: Path) -> None:
    """Wrong program: restores all publications of a backup, although one is withdrawn in the ledger, which on a server
    may be later than the backup; or although its record says so, which alone knows of a withdrawn retabulation."""
    root, again = tmp_path / "home", tmp_path / "again"
    launch(root)
    record = root / "custody" / "publications" / "village__noisy"
    published = record.read_bytes()
    ledger_of(root).custody.forget_editions("village", "noisy")
    back_up(ledger_of(root), root / "published", tmp_path / "recorded", resources, with_keys=True)
    assert restore(tmp_path / "recorded", tmp_path / "other", tmp_path / "none", resources) == ("village/noisy",)
    record.write_bytes(published)
    # As if the withdrawal had been killed after its entries.
    ledger_of(root).withdraw("village", "noisy", "Ann")
    back_up(ledger_of(root), root / "published", tmp_path / "kept", resources, with_keys=True)
    assert restore(tmp_path / "kept", again, again / "published", resources) == ("village/noisy",)
    assert not (again / "published" / "village").exists()
    withdraw_release(again)
    assert not hash_tables(ledger_of(again), Zone.CONFIDENTIAL).keys() & {"village__noisy.counts"}


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    "step",
    [
        "withdraw",
        pytest.param("withdraw a dataset", marks=pytest.mark.deep),
        *(pytest.param(step, marks=pytest.mark.prove) for step in STEPS if not step.startswith("withdraw")),
        pytest.param("withdraw what is gone already", marks=pytest.mark.prove),
    ],
)
def test_a_deployment_is_restored_as_it_is_after_every_command_that_changes_it(tmp_path: Path, step: str) -> None:
    """It fails if files left by a command are backed up and then refused, such as the empty folder of a dataset."""
    root, again = tmp_path / "home", tmp_path / "again"
    for change in STEPS[step]:
        change(root)
    back_up(ledger_of(root), root / "published", tmp_path / "kept", resources, with_keys=True)
    restore(tmp_path / "kept", again, again / "published", resources)
    assert ledger_of(again).entries() == ledger_of(root).entries()
    assert tree(again / "published") == tree(root / "published")
    for zone in (Zone.CONFIDENTIAL, Zone.PUBLIC):
        assert hash_tables(ledger_of(again), zone) == hash_tables(ledger_of(root), zone)
    assert not [path for path in root.rglob("*") if path.name.startswith(".")], "nothing is left behind"
    assert not [path for path in (root / "published").rglob("*") if path.is_dir() and not any(path.iterdir())]


@pytest.mark.deep
def test_a_restored_release_is_made_again_with_the_same_bytes_and_without_a_charge(tmp_path: Path) -> None:
    """The drill: all is lost but the backup."""
    for name in ("swapping", "laplace tables"):
        root, kind = tmp_path / name, KINDS[name]
        deployment = kind.build(root)
        assert deployment.run(*to_publication(deployment.context.method)).success
        published, entries = deployment.published(), deployment.ledger
        back_up(deployment.context.ledger, root / "published", tmp_path / "kept" / name, resources, with_keys=True)
        for folder in ("warehouse", "custody", "published"):
            shutil.rmtree(root / folder)
        restore(tmp_path / "kept" / name, root, root / "published", resources)
        again = kind.build(root)
        assert again.published() == published
        shutil.rmtree(root / "published")
        assert again.run(*to_publication(again.context.method)).success
        assert again.published() == published
        assert again.ledger == entries


@pytest.mark.prove
def test_a_backup_made_while_others_charge_and_publish_is_consistent(home: Path, tmp_path: Path) -> None:
    def charge_on() -> None:
        for number in range(2, 30):
            charge(ledger_of(home), number)

    # A process of its own: threads of one process share its locks.
    child = os.fork()
    if child == 0:
        try:
            charge_on()
        finally:
            os._exit(0)
    for number in range(5):
        kept = tmp_path / f"kept {number}"
        back_up(ledger_of(home), tmp_path / "published", kept, resources, with_keys=True)
        restore(kept, tmp_path / f"home {number}", tmp_path / f"published {number}", resources)
        assert ledger_of(tmp_path / f"home {number}").verify() == ()
    os.waitpid(child, 0)
    assert len(ledger_of(home).entries()) == 29
