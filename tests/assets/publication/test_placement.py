"""The target folder always holds a complete publication, the new one or the old one, even after errors and kills."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from assets.publication import placement
from assets.publication.placement import copy_publications, place_folder, publications, remove
from tests.depth import deep_but, deep_cases
from tests.permissions import obeying_modes

OLD = {"table.csv": b"county,count\nDukes,1741\n", "inner/notes.txt": b"old"}
FIRST = {"table.csv": b"county,count\nDukes,0\n"}
NEW = {"table.csv": b"county,count\nDukes,1025\n", "certificate.json": b"{}"}

OLD_AND_FIRST = OLD | {f"editions/1/{name}": content for name, content in FIRST.items()}
NEW_AND_BOTH = (
    NEW
    | {f"editions/1/{name}": content for name, content in FIRST.items()}
    | {f"editions/2/{name}": content for name, content in OLD.items()}
)

KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from assets.publication import placement

target, point, when = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
seen = 0

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def killing(function, number):
    def patched(*arguments, **named):
        global seen
        seen += 1
        if seen == number and when == "before":
            kill()
        result = function(*arguments, **named)
        if seen == number and when == "after":
            kill()
        return result
    return patched

name, number = point.split(":")
if name == "rename":
    Path.rename = killing(Path.rename, int(number))
elif name == "fsync":
    os.fsync = killing(os.fsync, int(number))
elif name == "link":
    os.link = killing(os.link, int(number))
elif name == "unlink":
    # The only files removed are those of the old publication, one by one.
    os.unlink = killing(os.unlink, int(number))

private = target.parents[2] / "private"
shutil.rmtree(private, ignore_errors=True)
private.mkdir()
with placement.place_folder(target, private, lambda present: "2") as folder:
    (folder / "table.csv").write_bytes(b"county,count\\nDukes,1025\\n")
    if name == "body":
        kill()
    (folder / "certificate.json").write_bytes(b"{}")
"""


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _read(folder: Path) -> dict[str, bytes] | None:
    if not folder.exists():
        return None
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def _placing(target: Path, kept_as: str | None = None) -> Iterator[Path]:
    """The folder to write a publication into, private like a warehouse's. Without `kept_as`, the publication belongs to
    the edition of the present one."""
    with (
        TemporaryDirectory(dir=target.parents[2]) as private,
        place_folder(target, Path(private), lambda present: kept_as) as folder,
    ):
        yield folder


def _place(target: Path, files: Mapping[str, bytes], kept_as: str | None = None) -> None:
    with _placing(target, kept_as) as folder:
        _write(folder, files)


def _fail(target: Path, error: type[BaseException]) -> None:
    with _placing(target) as folder:
        _write(folder, {"table.csv": b"half"})
        raise error


def _beside(target: Path) -> list[str]:
    """Everything in the target's parent folder, by name."""
    return sorted(path.name for path in target.parent.iterdir())


def _stamps(target: Path) -> list[tuple[str, int, int]]:
    paths = [target, *sorted(target.rglob("*"))]
    return [(str(path), path.stat().st_ino, path.stat().st_mtime_ns) for path in paths]


class BrokenError(Exception):
    pass


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "published" / "ma1940" / "tenure_by_county"


def test_a_publication_is_visible_only_when_it_is_complete(target: Path) -> None:
    with _placing(target) as folder:
        _write(folder, NEW)
        assert _read(target.parent) == {}, "whoever can write here cannot exchange a file before it is signed"
    assert _read(target) == NEW
    assert _beside(target) == [target.name]


def test_a_publication_is_placed_although_the_old_one_cannot_be_removed(
    target: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong programs: report a publication as not published, though it is in its place, or leave the old one without a
    word."""
    _place(target, OLD)

    discard = placement._discard

    def refuse(folder: Path) -> None:
        if (folder / "table.csv").exists():
            raise PermissionError(errno.EPERM, "Operation not permitted", str(folder / "table.csv"))
        discard(folder)

    with monkeypatch.context() as patch:
        patch.setattr(placement, "_discard", refuse)
        _place(target, NEW, "1")
        assert f"{target}: published, but the earlier one" in caplog.text
        with pytest.raises(PermissionError):
            _place(target, FIRST)
    placed = NEW | {f"editions/1/{name}": content for name, content in OLD.items()}
    assert _read(target) == placed
    assert _beside(target) == [f".{target.name}.arriving", target.name]
    _place(target, placed)
    assert _beside(target) == [target.name]


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o000])
def test_everyone_can_read_a_publication_whatever_the_umask(target: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        _place(target, OLD)
    finally:
        os.umask(before)
    root = target.parents[1]
    modes = {path.relative_to(root).as_posix(): path.stat().st_mode & 0o777 for path in (root, *root.rglob("*"))}
    files = {f"ma1940/tenure_by_county/{name}" for name in OLD}
    assert files < modes.keys()
    assert modes == {name: 0o644 if name in files else 0o755 for name in modes}


def test_folders_above_a_publication_keep_their_modes(target: Path) -> None:
    target.parents[1].mkdir(mode=0o700)
    _place(target, OLD)
    assert target.parents[1].stat().st_mode & 0o777 == 0o700


def test_a_new_publication_replaces_the_old_one_completely(target: Path) -> None:
    _place(target, OLD)
    with _placing(target) as folder:
        _write(folder, NEW)
        assert _read(target) == OLD
    assert _read(target) == NEW
    assert _beside(target) == [target.name]


def test_the_same_publication_leaves_the_target_untouched(target: Path) -> None:
    _place(target, OLD)
    before = _stamps(target)
    _place(target, OLD)
    assert _stamps(target) == before
    assert _beside(target) == [target.name]
    (target / "the count is 5").mkdir()
    _place(target, OLD)
    assert {path.name for path in target.iterdir()} == {"table.csv", "inner"}, "an empty folder is in it too"


@pytest.mark.parametrize(
    "other",
    [
        OLD | {"table.csv": b"county,count\nDukes,1742\n"},
        OLD | {"more.csv": b""},
        {"table.csv": OLD["table.csv"]},
    ],
    ids=["one byte of the same length", "a file more", "a file less"],
)
def test_the_smallest_difference_is_published(target: Path, other: dict[str, bytes]) -> None:
    _place(target, OLD)
    stamp = (target / "table.csv").stat()
    with _placing(target) as folder:
        _write(folder, other)
        os.utime(folder / "table.csv", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert _read(target) == other


@pytest.mark.parametrize("before", [None, OLD], ids=["first", "again"])
@pytest.mark.parametrize("error", [BrokenError, KeyboardInterrupt])
def test_an_exception_leaves_the_target_unchanged(
    target: Path, before: dict[str, bytes] | None, error: type[BaseException]
) -> None:
    if before is not None:
        _place(target, before)
        stamps = _stamps(target)
    with pytest.raises(error):
        _fail(target, error)
    assert _read(target) == before
    if before is not None:
        assert _stamps(target) == stamps
    assert _beside(target) == ([target.name] if before is not None else [])


def test_an_earlier_edition_is_kept_and_never_changes(target: Path) -> None:
    _place(target, FIRST)
    _place(target, OLD, kept_as="1")
    kept = target / "editions" / "1" / "table.csv"
    inode = kept.stat().st_ino
    _place(target, OLD, kept_as="1")
    _place(target, NEW, kept_as="2")
    assert _read(target) == NEW_AND_BOTH
    assert kept.stat().st_ino == inode
    assert kept.stat().st_mode & 0o777 == 0o644
    assert {path.stat().st_mode & 0o777 for path in (target / "editions", kept.parent)} == {0o755}


def test_another_publication_of_the_same_edition_keeps_nothing_of_it(target: Path) -> None:
    _place(target, FIRST)
    _place(target, OLD, kept_as="1")
    _place(target, NEW)
    assert _read(target) == NEW | {f"editions/1/{name}": content for name, content in FIRST.items()}


def test_an_edition_that_comes_back_and_leaves_again_stays_as_it_was_kept(target: Path) -> None:
    _place(target, FIRST)
    _place(target, OLD, kept_as="1")
    _place(target, {"table.csv": b"the first again, with another total"}, kept_as="2")
    _place(target, NEW, kept_as="1")
    assert _read(target) == NEW_AND_BOTH


def test_what_may_not_be_kept_stays_in_place(target: Path) -> None:
    def refuse(present: Path) -> None:
        raise BrokenError

    _place(target, OLD)
    (private := target.parents[2] / "private").mkdir()
    with pytest.raises(BrokenError), place_folder(target, private, refuse) as folder:
        _write(folder, NEW)
    assert _read(target) == OLD
    assert _beside(target) == [target.name]


def test_editions_are_kept_where_there_are_no_hard_links(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(source: str, destination: str, **options: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refused)
    _place(target, FIRST)
    _place(target, OLD, kept_as="1")
    assert _read(target) == OLD_AND_FIRST


def test_a_publication_is_brought_from_another_disk(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only folders in one file system can be renamed. Other errors are no reason to copy."""
    rename, refused = Path.rename, errno.EXDEV

    def rename_beside(path: Path, other: Path) -> Path:
        if path.parent != other.parent:
            raise OSError(refused, os.strerror(refused))
        return rename(path, other)

    monkeypatch.setattr(Path, "rename", rename_beside)
    _place(target, OLD)
    assert _read(target) == OLD
    assert {path.stat().st_mode & 0o777 for path in target.rglob("*")} == {0o644, 0o755}
    refused = errno.ENOTEMPTY
    with pytest.raises(OSError, match="not empty"):
        _place(target, NEW)
    assert _read(target) == OLD
    assert _beside(target) == [target.name]


@pytest.mark.parametrize("planted", ["table.csv", "inner", "."])
def test_no_link_is_followed_where_a_publication_is_brought_from_another_disk(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """Fails for: a copy that overwrites the file that a planted link leads to."""
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "table.csv").write_text("a key")
    rename = Path.rename

    def rename_beside(path: Path, other: Path) -> Path:
        if path.parent == other.parent:
            return rename(path, other)
        (link := other / planted).rmdir() if planted == "." else (link := other / planted)
        link.symlink_to(elsewhere / "table.csv" if planted == "table.csv" else elsewhere)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(Path, "rename", rename_beside)
    with pytest.raises(OSError, match=r"exists|Not a directory|symbolic links"):
        _place(target, OLD)
    assert _read(elsewhere) == {"table.csv": b"a key"}
    assert not target.exists()


@pytest.mark.parametrize("closed", ["editions", "editions/1"])
def test_editions_that_cannot_be_read_are_not_lost(target: Path, closed: str) -> None:
    """Fails for: a walk that skips such a folder, so that the next publication lacks it."""
    _place(target, FIRST)
    _place(target, OLD, kept_as="1")
    (target / closed).chmod(0)
    with pytest.raises(PermissionError):
        obeying_modes(lambda: _place(target, NEW, kept_as="2"))
    (target / closed).chmod(0o755)
    assert _read(target) == OLD_AND_FIRST


def test_a_removed_publication_is_gone_with_its_editions_and_what_a_kill_left(target: Path) -> None:
    other = target.with_name("other")
    _place(other, NEW)
    remove(target)
    _place(target, FIRST)
    _place(target, OLD, kept_as="1")
    target.rename(placement._leaving(target))
    _write(placement._arriving(target), {"table.csv": b"half"})
    _write(placement._arriving(target.with_name("half_removed")), {"table.csv": b"half"})
    other.rename(placement._leaving(other))
    remove(target)
    assert _beside(target) == ["other"]
    assert publications(target.parents[1]) == [("ma1940", "other")]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_failing_move_leaves_the_target_unchanged(target: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    _place(target, OLD)
    rename, calls = Path.rename, 0

    def failing(path: Path, other: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == number:
            raise OSError("no space left on device")
        return rename(path, other)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no space left"):
        _place(target, NEW)
    assert calls >= number
    assert _read(target) == OLD
    assert _beside(target) == [target.name]


def test_files_are_durable_before_the_old_publication_is_replaced(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _place(target, OLD)
    fsync, rename = os.fsync, Path.rename
    events: list[str] = []

    def recording_fsync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def recording_rename(path: Path, other: Path) -> Path:
        events.append(f"to {other.name}")
        return rename(path, other)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(Path, "rename", recording_rename)
    _place(target, NEW)
    leaves, arrives = (events.index(f"to {name}") for name in (f".{target.name}.leaving", target.name))
    assert {*NEW, f".{target.name}.arriving"} <= set(events[:leaves])
    assert target.parent.name in events[arrives:]
    events.clear()
    placement.place_file(target.with_name("key.pem"), b"public")
    assert events == [".key.pem.arriving", target.parent.name]


def test_anything_else_at_the_target_is_refused(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_text("mine")
    with pytest.raises(FileExistsError, match="in the way"):
        _place(target, NEW)
    assert target.read_text() == "mine"
    assert _beside(target) == [target.name]


@pytest.mark.parametrize("where", ["editions", "editions/1", "editions/1/key", "table.csv", "."])
def test_a_link_is_refused_and_what_it_leads_to_stays_as_it_is(target: Path, tmp_path: Path, where: str) -> None:
    """Otherwise an attacker who may write to the published folder could open the custody to everyone, or publish its
    keys."""
    custody = tmp_path / "custody"
    custody.mkdir(mode=0o700)
    (custody / "master.key").write_text("secret")
    (custody / "master.key").chmod(0o600)
    if where != ".":
        _place(target, OLD)
        (target / where).parent.mkdir(parents=True, exist_ok=True)
        (target / where).unlink(missing_ok=True)
    else:
        target.parent.mkdir(parents=True)
    (target / where).symlink_to(custody / "master.key" if Path(where).name in ("key", "table.csv") else custody)
    with pytest.raises(FileExistsError, match="in the way"):
        _place(target, NEW, kept_as="2")
    assert custody.stat().st_mode & 0o777 == 0o700
    assert (custody / "master.key").stat().st_mode & 0o777 == 0o600
    assert _beside(target) == [target.name]
    assert (target / where).is_symlink()


@pytest.mark.parametrize("planted", ["editions/1", "editions/1/key"])
def test_a_link_that_is_planted_while_a_publication_is_written_is_not_followed(
    target: Path, tmp_path: Path, planted: str
) -> None:
    custody = tmp_path / "custody"
    custody.mkdir(mode=0o700)
    (custody / "master.key").write_text("secret")
    (custody / "master.key").chmod(0o600)
    _place(target, OLD)

    def place() -> None:
        with _placing(target, "2") as folder:
            _write(folder, NEW)
            (target / planted).parent.mkdir(parents=True, exist_ok=True)
            (target / planted).symlink_to(custody / "master.key" if planted.endswith("key") else custody)

    with pytest.raises(FileExistsError, match="in the way"):
        place()
    assert custody.stat().st_mode & 0o777 == 0o700
    assert (custody / "master.key").stat().st_mode & 0o777 == 0o600
    assert not any(path.read_text() == "secret" for path in tmp_path.rglob("publications/**/*.key"))
    assert _beside(target) == [target.name]


def test_a_hard_link_opens_nothing(target: Path, tmp_path: Path) -> None:
    """Fails for: files that get their modes in place, where the folder may have been exchanged since it was verified. A
    hard link looks like a file, and leads to a file of the deployment on the same disk."""
    (key := tmp_path / "source.csv").write_text("records")
    key.chmod(0o600)

    def exchange() -> None:
        (arriving := placement._arriving(target)).rename(tmp_path / "away")
        arriving.mkdir()
        (arriving / "table.csv").hardlink_to(key)

    (private := tmp_path / "private").mkdir()
    with place_folder(target, private, lambda present: None, record=exchange) as folder:
        _write(folder, NEW)
    assert (target / "table.csv").samefile(key)
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_file_is_never_written_through_a_planted_link(tmp_path: Path) -> None:
    """In an earlier version, the master key was overwritten with the public key and opened to everyone."""
    key = tmp_path / "master.key"
    key.write_text("secret")
    key.chmod(0o600)
    (tmp_path / ".public_key.pem.arriving").symlink_to(key)
    placement.place_file(tmp_path / "public_key.pem", b"public")
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("secret", 0o600)
    assert (tmp_path / "public_key.pem").read_bytes() == b"public"
    assert not (tmp_path / "public_key.pem").is_symlink()


def test_what_stands_beside_is_removed_and_never_followed(target: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    _place(target, OLD)
    target.with_name(f".{target.name}.arriving").symlink_to(tmp_path / "elsewhere")
    target.with_name(f".{target.name}.leaving").symlink_to(tmp_path / "elsewhere")
    _place(target, NEW)
    assert _read(target) == NEW
    assert _beside(target) == [target.name]
    remove(target)
    target.parent.mkdir()
    target.symlink_to(tmp_path / "elsewhere")
    remove(target)
    assert not target.parent.exists()
    target.parent.symlink_to(tmp_path / "elsewhere")
    for work in (remove, lambda path: _place(path, NEW)):
        with pytest.raises(FileExistsError, match="in the way"):
            work(target)
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["kept"]


def test_a_folder_that_is_removed_before_its_lock_is_held_is_made_again(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A withdrawal removes the folder of a dataset that becomes empty, while another release of it is placed."""
    removed: list[Path] = []

    def remove_and_lock(descriptor: int, operation: int) -> None:
        if not removed:
            target.parent.rmdir()
            removed.append(target.parent)
        flock(descriptor, operation)

    flock = fcntl.flock
    monkeypatch.setattr("assets.publication.placement.fcntl.flock", remove_and_lock)
    _place(target, NEW)
    assert _read(target) == NEW
    assert removed


def test_a_publication_that_is_withdrawn_while_others_are_copied_is_left_out(target: Path, tmp_path: Path) -> None:
    """Fails for: a copy that fails because a folder listed earlier is gone."""
    published, copied = target.parent.parent, tmp_path / "copied"
    withdrawn = published / f"{target.parent.name}_too" / "counties"
    for each in (target, withdrawn):
        _place(each, NEW)
    copied.mkdir()
    copy_publications(published, copied, lambda dataset: remove(withdrawn))
    assert [path.name for path in copied.iterdir()] == [target.parent.name]


POINTS = deep_but(
    ["body before", *(f"rename:{number} {when}" for number in range(1, 5) for when in ("before", "after"))],
    [
        "body before",
        *(f"link:{number} {when}" for number in range(1, 4) for when in ("before", "after")),
        *(f"fsync:{number} {when}" for number in range(1, 14) for when in ("before", "after")),
        *(f"rename:{number} {when}" for number in range(1, 5) for when in ("before", "after")),
        *(f"unlink:{number} {when}" for number in range(1, 4) for when in ("before", "after")),
    ],
)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a system with SIGKILL")
@deep_cases(8)
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_no_edition(target: Path, point: str) -> None:
    """After the next attempt, even a failing one, the target holds the complete old or new publication.

    The old one is edition 2, and edition 1 is kept already. The new one keeps both.
    """
    _place(target, FIRST)
    _place(target, OLD, kept_as="1")
    assert _read(target) == OLD_AND_FIRST
    name, _, when = point.partition(" ")
    name = name if ":" in name else f"{name}:0"
    process = subprocess.run([sys.executable, "-c", KILLED, str(target), name, when], check=False)
    assert process.returncode == -signal.SIGKILL, "the point was never reached"
    assert _read(target) in (OLD_AND_FIRST, NEW_AND_BOTH, None)
    with pytest.raises(BrokenError):
        _fail(target, BrokenError)
    assert _read(target) in (OLD_AND_FIRST, NEW_AND_BOTH)
    assert _beside(target) == [target.name]
    if _read(target) == OLD_AND_FIRST:
        _place(target, NEW, kept_as="2")
    assert _read(target) == NEW_AND_BOTH
    assert _beside(target) == [target.name]


def test_a_half_removed_old_publication_never_comes_back(target: Path) -> None:
    """The process was killed while removing old files. If the new publication is then deleted, the target is empty."""
    _place(target, OLD)
    process = subprocess.run([sys.executable, "-c", KILLED, str(target), "unlink:1", "after"], check=False)
    assert process.returncode == -signal.SIGKILL
    assert _read(target) == NEW | {f"editions/2/{name}": content for name, content in OLD.items()}
    target.rename(target.parent / "elsewhere")
    with pytest.raises(BrokenError):
        _fail(target, BrokenError)
    assert _read(target) is None


def test_another_writer_waits_for_a_live_one_and_keeps_its_files(target: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def write_slowly() -> None:
        with _placing(target) as folder:
            _write(folder, OLD)
            entered.set()
            leave.wait(10)

    first = threading.Thread(target=write_slowly)
    first.start()
    assert entered.wait(10)
    second = threading.Thread(target=_place, args=(target, NEW))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    assert _read(target) is None
    leave.set()
    first.join(10)
    second.join(10)
    assert _read(target) == NEW
