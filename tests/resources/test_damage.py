"""Claims about damaged databases and read-only folders: each gives one clear error, and no zone starts again empty."""

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from mechanisms.accounting.losses import PureLoss
from resources.custody import Custody, CustodyMode
from resources.ledger import Ledger, LedgerError
from resources.statements import Table, Zone
from resources.warehouse import Warehouse, WarehouseError
from tests.depth import deep_cases, quick_cases
from tests.resources.test_ledger import HOUSEHOLDS, LN2, specified

EARLIER = Path(__file__).parent.parent / "data" / "earlier_ledger.json"
HEADER = 4096
"""The size in bytes of each of the three headers of a DuckDB file."""


@pytest.fixture(autouse=True)
def _own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment with three charges, and a table in each of the other zones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("STIRRED_MASTER_KEY", raising=False)
        folder = tmp_path_factory.mktemp("made") / "deployment"
        ledger = deployment(folder)
        for number in range(3):
            charge(ledger, f"release {number}")
        for zone in (Zone.CONFIDENTIAL, Zone.PUBLIC):
            with ledger.warehouse.session(writes=zone) as session:
                session.create(Table(zone, "s", "t"), "warehouse/label", {"text": "planted-2f81c7"}, column="label")
    return folder


@pytest.fixture
def ledger(made: Path, tmp_path: Path) -> Ledger:
    return deployment(Path(shutil.copytree(made, tmp_path / "deployment")))


def deployment(folder: Path) -> Ledger:
    warehouse = Warehouse(folder=str(folder / "warehouse"), threads=1, patience=1)
    return Ledger(warehouse=warehouse, custody=Custody(folder=str(folder / "custody"), databases=warehouse.folder))


def charge(ledger: Ledger, release: str) -> int:
    draw_id = ledger.custody.draw_id({"release": release})
    specification = specified(HOUSEHOLDS, LN2)
    return ledger.reserve("ma1940", release, draw_id, specification, CustodyMode.ESCROWED, None).sequence


def checksum(block: bytes) -> int:
    """DuckDB's checksum of a block whose size is a multiple of 8."""
    result = 5381
    for (word,) in struct.iter_unpack("<Q", block):
        result ^= word * 0xBF58476D1CE4E5B9 % 2**64
    return result


def of_storage_version(content: bytes, version: int) -> bytes:
    """The same file as if another release of DuckDB had written it, with a checksum that is right."""
    header = bytearray(content[8:HEADER])
    assert checksum(header) == struct.unpack("<Q", content[:8])[0]
    header[4:12] = struct.pack("<Q", version)
    return struct.pack("<Q", checksum(header)) + header + content[HEADER:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no bytes": lambda _: b"",
    "zeros": lambda content: bytes(len(content)),
    "a text": lambda _: b"household,county\n" * 1000,
    "cut in the first header": lambda content: content[:100],
    "cut after the first header": lambda content: content[:HEADER],
    "cut after the headers": lambda content: content[: 3 * HEADER],
    "a bit of the first header": lambda content: content[:20] + bytes([content[20] ^ 1]) + content[21:],
    "a bit of every block": lambda content: b"".join(
        content[at : at + 1000] + bytes([content[at + 1000] ^ 1]) + content[at + 1001 : at + HEADER]
        for at in range(0, len(content), HEADER)
    ),
    "a later release's": lambda content: of_storage_version(content, 200),
    "an early release's": lambda content: of_storage_version(content, 30),
}


QUICK = {
    (Zone.CONFIDENTIAL, "no bytes"),
    (Zone.CONFIDENTIAL, "a bit of every block"),
    (Zone.PUBLIC, "a later release's"),
}
"""Zones and damages of the quick suite; it tries some damages of the ledger too."""


@deep_cases(0)
@quick_cases(1)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_ledger_is_refused_and_not_begun_anew(ledger: Ledger, damage: str) -> None:
    file = ledger.warehouse.path(Zone.LEDGER)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    damaged, anchor = file.read_bytes(), ledger.custody.anchor()
    (problem,) = ledger.verify()
    assert "no entry can be read: cannot open ledger.duckdb" in problem
    assert "restore it" in problem
    for use in (
        lambda: charge(ledger, "another"),
        lambda: ledger.read().compose("ma1940", PureLoss()),
        ledger.entries,
    ):
        with pytest.raises((WarehouseError, LedgerError), match=r"ledger\.duckdb"):
            use()
    assert file.read_bytes() == damaged
    assert ledger.custody.anchor() == anchor


@deep_cases(6)
@pytest.mark.parametrize(
    ("zone", "damage"),
    [
        pytest.param(zone, damage, marks=[] if (zone, damage) in QUICK else pytest.mark.deep)
        for zone in (Zone.CONFIDENTIAL, Zone.PUBLIC)
        for damage in DAMAGES
    ],
)
def test_a_damaged_zone_is_refused_and_not_begun_anew(ledger: Ledger, zone: Zone, damage: str) -> None:
    warehouse = ledger.warehouse
    file = warehouse.path(zone)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    damaged = file.read_bytes()
    for arguments in ({"reads": [zone]}, {"writes": zone}):
        with (
            pytest.raises(WarehouseError, match=rf"cannot open {zone.value}\.duckdb: .*restore it") as caught,
            warehouse.session(**arguments),
        ):
            pass
        assert "planted" not in str(caught.value)
    assert file.read_bytes() == damaged


@pytest.mark.parametrize("name", ["public.duckdb", "public.duckdb.wal"])
def test_a_pipe_in_the_place_of_a_file_is_refused(ledger: Ledger, name: str) -> None:
    """Wrong program: a session that opens the pipe and waits forever for a writer."""
    file = ledger.warehouse.path(Zone.PUBLIC).with_name(name)
    file.unlink(missing_ok=True)
    os.mkfifo(file, 0o600)
    with (
        pytest.raises(WarehouseError, match=rf"cannot open public\.duckdb: .*/{name} is no file\. .*restore it"),
        ledger.warehouse.session(reads=[Zone.PUBLIC]),
    ):
        pass


def test_a_path_that_duckdb_cannot_write_to_is_refused(tmp_path: Path) -> None:
    """Wrong program: a deployment whose first commit fails with a path that the user does not know."""
    with (
        pytest.raises(WarehouseError, match=r"cannot open ledger\.duckdb: DuckDB takes no path with `\?`, .*why\?"),
        deployment(tmp_path / "why?").warehouse.session(writes=Zone.LEDGER),
    ):
        pass


@pytest.mark.fault
def test_a_bit_changed_anywhere_in_the_ledger_is_refused_or_of_no_consequence(ledger: Ledger) -> None:
    """This includes an append: either its entry is refused, or all entries are there and intact."""
    file, anchor = ledger.warehouse.path(Zone.LEDGER), Path(ledger.custody.folder) / "ledger.anchor"
    whole, sealed, entries = file.read_bytes(), anchor.read_bytes(), ledger.entries()
    found = {"refused": 0, "read": 0, "charged": 0}
    for number in range(200):
        at = number * len(whole) // 200 + number % 8
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << number % 8]) + whole[at + 1 :])
        anchor.write_bytes(sealed)
        if ledger.verify():
            found["refused"] += 1
            with pytest.raises((WarehouseError, LedgerError)):
                charge(ledger, "another")
            continue
        assert ledger.entries() == entries
        try:
            assert charge(ledger, "another") == 4
            assert ledger.verify() == ()
            found["charged"] += 1
        except WarehouseError:
            found["read"] += 1
    assert sum(found.values()) == 200
    assert found["refused"] > 25, found


def test_a_ledger_in_the_oldest_storage_that_duckdb_reads_goes_on(ledger: Ledger, tmp_path: Path) -> None:
    file, old = ledger.warehouse.path(Zone.LEDGER), tmp_path / "old.duckdb"
    entries = ledger.entries()
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{file}' AS new (READ_ONLY)")
        connection.execute(f"ATTACH '{old}' AS old (STORAGE_VERSION 'v0.10.2')")
        connection.execute("COPY FROM DATABASE new TO old")
    old.chmod(0o600)
    old.replace(file)
    assert ledger.entries() == entries
    assert ledger.verify() == ()
    assert charge(ledger, "another") == 4


@pytest.mark.parametrize("given", [True, False], ids=["key in the environment", "key in a file"])
def test_a_ledger_of_the_first_version_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    """Its table has no details, its custody no fingerprint; `tests/data` has what that version wrote."""
    earlier = json.loads(EARLIER.read_text())
    ledger = deployment(tmp_path)
    for folder in ("custody", "warehouse"):
        (tmp_path / folder).mkdir(mode=0o700)
    if given:
        monkeypatch.setenv("STIRRED_MASTER_KEY", earlier["master"])
    else:
        (tmp_path / "custody" / "master.key").touch(mode=0o600)
        (tmp_path / "custody" / "master.key").write_text(earlier["master"])
    (tmp_path / "custody" / "ledger.anchor").write_text(json.dumps(earlier["anchor"]))
    with duckdb.connect(str(ledger.warehouse.path(Zone.LEDGER))) as connection:
        connection.execute(earlier["create"])
        for entry in earlier["entries"]:
            connection.execute(f"INSERT INTO entries VALUES ({', '.join('?' * len(entry))})", list(entry.values()))
    ledger.warehouse.path(Zone.LEDGER).chmod(0o600)
    assert ledger.verify() == ()
    assert ledger.read().compose("ma1940", PureLoss()) == LN2
    assert [entry.kind for entry in ledger.entries()] == ["reserve", "settle"]
    settled = ledger.read().find_settlement(ledger.custody.draw_id({"release": "half"}))
    assert settled is not None
    assert charge(ledger, "half") == 1
    assert charge(ledger, "another") == 3
    assert ledger.verify() == ()
    assert ledger.entries()[1] == settled


@pytest.mark.parametrize("name", ["memory_limit", "spill_folder", "folder"])
def test_an_impossible_setting_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    impossible = {"memory_limit": "plenty"}.get(name, str(tmp_path / "file"))
    warehouse = Warehouse(**{"folder": str(tmp_path / "warehouse"), name: impossible})
    refused = pytest.raises(WarehouseError, match=r"cannot open a session|file cannot be written|warehouse folder")
    with refused as caught, warehouse.session(writes=Zone.PUBLIC):
        pass
    assert "plenty" not in str(caught.value)


@pytest.fixture
def of_anyone() -> Iterator[Path]:
    """A folder that an ordinary user can reach; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="stirred-"))
    try:
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
    except OSError:
        pytest.skip("these tests run as root where root cannot take on another user")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("new custody", "CustodyError"),
        pytest.param("new warehouse", "CustodyError", marks=pytest.mark.deep),
        ("custody", "CustodyError"),
        pytest.param("warehouse", "WarehouseError", marks=pytest.mark.deep),
        pytest.param("warehouse/spill", "WarehouseError", marks=pytest.mark.deep),
        ("warehouse/ledger.duckdb", "WarehouseError"),
    ],
)
def test_what_cannot_be_written_is_named_and_nothing_is_charged(
    of_anyone: Path, processes: Callable[..., dict[str, object]], what: str, error: str
) -> None:
    found = processes("refused", of_anyone, what)
    said = found["said"]
    assert isinstance(said, list), found
    assert said[0] == error, found
    assert what.removeprefix("new ").split("/")[0] in said[1]
    assert "permission denied" in said[1].lower()
    assert found["left"] == [] or what.startswith("new "), found
    assert found["problems"] == []
    assert found["second"] == ("1" if what.startswith("new ") else "2"), found
