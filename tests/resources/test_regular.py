"""Files that declarations name or that other users can replace: a reader would wait forever for a named pipe."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Timer

import pytest

from assets.release.codes import read_codes
from assets.safetab.lists import read_lists, read_totals
from assets.table_builder.declaration import load_p_table
from mechanisms.refusal import RefusedError
from mechanisms.safetab.lists import CODES_FILE
from orchestration.checking import _read
from orchestration.defs_files import require_unambiguous
from resources.regular import read_regular


def _check(path: Path) -> None:
    """Like `stirred check`, which collects problems."""
    (problem,) = _read(path, path.name, [])
    raise RefusedError(problem.text)


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "codes": ("places.csv", lambda path: read_codes(path, 1)),
    "lists of SafeTab": (CODES_FILE, lambda path: read_lists(path.parent)),
    "totals of SafeTab": ("pop-group-totals.txt", read_totals),
    "a p-table": ("p_table.csv", lambda path: load_p_table(path, "ons")),
    "declarations": ("defs.yaml", lambda path: require_unambiguous(path.parent)),
    "checked declarations": ("defs.yaml", _check),
}


@pytest.mark.parametrize(("name", "read"), READERS.values(), ids=READERS)
def test_nobody_waits_for_a_pipe_in_place_of_a_file(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    os.mkfifo(path := tmp_path / name)
    # A reader that waits is let go, and then finds an empty file.
    waker = Timer(5, lambda: os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK)))
    waker.start()
    try:
        with pytest.raises(RefusedError, match=r"it is no regular file|cannot be read as UTF-8 \(OSError\)"):
            read(path)
    finally:
        waker.cancel()


def test_a_file_without_an_end_and_a_link_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it is no regular file"):
        read_regular(Path("/dev/zero"))
    (file := tmp_path / "file").write_bytes(b"four")
    (link := tmp_path / "link").symlink_to(file)
    assert read_regular(link, 4) == b"four"
    with pytest.raises(OSError, match="it has more than 3 bytes"):
        read_regular(file, 3)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        read_regular(link, through_links=False)
