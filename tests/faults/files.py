"""Alterations of published files and their folders by an attacker who can write them, but has no key.

Each alteration has a name in words, and alters a given file, its folder, or all publications. It raises any error if it
cannot be made there.
"""

import json
import os
import random
import shutil
import stat
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from assets.publication.placement import ARRIVING, LEAVING
from assets.release.signature import CERTIFICATE, CHECKSUMS, EDITIONS, PUBLIC_KEY, SIGNATURE, checksums, pem

UNSEEN = ("rights", "times", "an attribute", "a second name elsewhere")
"""The alterations that change no byte and no name of a publication, so that no error needs to name them."""

_ORDER = 2**252 + 27742317777372353535851937790883648493
"""The order of the group of Ed25519 (RFC 8032, section 5.1): a number in a signature may have been increased by it."""


def move(path: Path, to: Path) -> None:
    """Replace a file or folder by a link."""
    path.rename(to)
    path.symlink_to(to)


def _rewrite(path: Path, rng: random.Random) -> None:
    """Write a Parquet file again: with the same rows, or types, in another way."""
    table, options = pq.read_table(path), dict[str, object]()
    match rng.randrange(7):
        case 0:
            table = table.replace_schema_metadata({"author": "somebody", "ARROW:schema": "x"})
        case 1:
            table = table.cast(
                pa.schema(
                    [(each.name, pa.binary() if each.type == pa.string() else each.type) for each in table.schema]
                )
            )
        case 2:
            table = table.take(rng.sample(range(len(table)), len(table)))
        case 3:
            table = table.rename_columns([name.swapcase() for name in table.column_names])
        case 4:
            options = {"write_statistics": False, "use_dictionary": False}
        case 5:
            options = {"compression": rng.choice(["none", "gzip", "brotli"]), "row_group_size": 2}
        case 6:
            options = {"version": "1.0", "store_schema": False}
    pq.write_table(table, path, **options)


def _hide_in_parquet(path: Path, rng: random.Random) -> None:
    """Bytes before the footer of a Parquet file, without references in the file."""
    content = path.read_bytes()
    if content[-4:] != b"PAR1":
        raise ValueError(path)
    at = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:at] + rng.randbytes(9) + content[at:])


def _encrypt(path: Path, rng: random.Random) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET force_mbedtls_unsafe = 'true'")
        connection.execute("PRAGMA add_parquet_key('k', '0123456789112345')")
        rows = f"FROM read_parquet('{path}')"
        connection.execute(f"COPY ({rows}) TO '{path}.new' (FORMAT parquet, ENCRYPTION_CONFIG {{footer_key: 'k'}})")
    Path(f"{path}.new").replace(path)


def _flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _texts(path: Path, change: Callable[[str], str]) -> None:
    path.write_bytes(change(path.read_bytes().decode()).encode())


def _repeat_key(path: Path, rng: random.Random) -> None:
    """The first key of a JSON object twice, of which readers take one or the other."""
    key, *_ = json.loads(path.read_bytes())
    _texts(path, lambda text: text.replace("{", f"{{{json.dumps(key)}: 5, ", 1))


def _repeat_column(text: str) -> str:
    """The first column of a CSV twice."""
    return "".join(f"{line.split(',')[0]},{line}" for line in text.splitlines(keepends=True))


def _exchange(path: Path, other: Path) -> None:
    path.rename(kept := path.parent.with_name("kept"))
    other.rename(path)
    kept.rename(other)


def _exchange_files(path: Path, rng: random.Random) -> None:
    _exchange(path, rng.choice([each for each in sorted(path.parent.iterdir()) if each.is_file()]))


def _all(path: Path) -> Path:
    """The folder of all publications."""
    return next(folder for folder in path.parents if (folder / PUBLIC_KEY).exists())


def _exchange_releases(path: Path, rng: random.Random) -> None:
    """The signed folders of this and another release exchanged."""
    if path.parents[2] != _all(path):
        raise ValueError(path)
    others = [each for each in sorted(path.parent.parent.iterdir()) if each.is_dir() and each != path.parent]
    _exchange(path.parent, rng.choice(others))


def _plant_edition(path: Path, rng: random.Random) -> None:
    """The signed folder once more, as another edition of itself."""
    shutil.copytree(path.parent, path.parent / EDITIONS / rng.choice(["0", "2", "3", "01", "02", "٢", "2 "]))


def _return(path: Path, rng: random.Random) -> None:
    """The earlier edition in place of the current one."""
    (path.parent / EDITIONS / "1").rename(kept := path.parent.with_name("kept"))
    shutil.rmtree(path.parent)
    kept.rename(path.parent)


def _exchange_editions(path: Path, rng: random.Random) -> None:
    """The current edition as an earlier one, under its own number, and the earlier one in its place."""
    folder, kept = path.parent, path.parent.with_name("kept")
    (folder / EDITIONS / "1").rename(kept)
    (folder / EDITIONS).rmdir()
    (kept / EDITIONS).mkdir()
    folder.rename(kept / EDITIONS / "2")
    kept.rename(folder)


def _seal_as_earlier(path: Path, rng: random.Random) -> None:
    """The signed checksums of the earlier edition, in half of the cases with all its other files."""
    earlier = path.parent / EDITIONS / "1"
    for each in sorted(earlier.iterdir()) if rng.random() < 0.5 else [earlier / CHECKSUMS, earlier / SIGNATURE]:
        shutil.copy(each, path.parent)


def _into(path: Path, rng: random.Random) -> None:
    """A folder of the name of a file, with the file in it."""
    path.rename(kept := path.with_name("kept"))
    path.mkdir()
    kept.rename(path / path.name)


def _arrive(path: Path, rng: random.Random) -> None:
    """A file, or a copy of the folder, under a name as if it were being moved into or out of its place."""
    folder = rng.choice([each for each in path.parents if each.is_relative_to(_all(path))])
    name = rng.choice(["more", path.name, path.parent.name]) + rng.choice([ARRIVING, LEAVING])
    place = folder / (rng.choice(["", ".", "."]) + name)
    if rng.random() < 0.5:
        place.write_bytes(b"more")
    else:
        shutil.copytree(path.parent, place)
        (place / path.name).write_bytes(b"more")


def _sign_again(path: Path, rng: random.Random) -> None:
    """All publications are signed with the attacker's key, which in half of the cases is put beside them."""
    own, place = Ed25519PrivateKey.from_private_bytes(rng.randbytes(32)), _all(path)
    if path.parent != place and rng.random() < 0.5:
        _flip(path, rng)
    for sums in place.rglob(CHECKSUMS):
        sums.write_bytes(text := checksums(sums.parent))
        sums.with_name(SIGNATURE).write_bytes(own.sign(text))
    if rng.random() < 0.5:
        (place / PUBLIC_KEY).write_bytes(pem(own.public_key()))


def _malleate(path: Path, rng: random.Random) -> None:
    """Another signature, which a careless verification accepts for the same text."""
    signature = (path.parent / SIGNATURE).read_bytes()
    number = int.from_bytes(signature[32:], "little") + _ORDER
    (path.parent / SIGNATURE).write_bytes(signature[:32] + number.to_bytes(32, "little"))


def _look_alike(name: str) -> str:
    """A name that looks the same: its first letter that has a Cyrillic twin."""
    at, letter = next((at, letter) for at, letter in enumerate(name) if letter in "aceopxy")
    return name[:at] + dict(zip("aceopxy", "асеорху", strict=True))[letter] + name[at + 1 :]


ODD_NAMES = (
    *(".more", "more.csv", "more\n", "more ", "..more", f"{CHECKSUMS}.bak", "\u202emore", "x" * 200, "=1+1", "more."),
    *("a\\b", "COM1", "more:stream", "`more`", "<script>"),
    os.fsdecode(b"more\xff"),
)

FILES: Mapping[str, Callable[[Path, random.Random], object]] = {
    "a bit": _flip,
    "cut": lambda path, rng: path.write_bytes((content := path.read_bytes())[: rng.randrange(len(content))]),
    "more bytes": lambda path, rng: path.write_bytes(path.read_bytes() + rng.choice([b"\n", b"\0", b" ", b"\x1a"])),
    "nothing but zeros more": lambda path, rng: os.truncate(path, path.stat().st_size + 4096),
    "a byte order mark": lambda path, rng: path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes()),
    "other ends of lines": lambda path, rng: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")),
    "letters of another form": lambda path, rng: _texts(path, lambda text: unicodedata.normalize("NFKD", text)),
    "letters of another case": lambda path, rng: _texts(path, str.swapcase),
    "lines in another order": lambda path, rng: _texts(path, lambda text: "".join(sorted(text.splitlines(True)))),
    "numbers of another form": lambda path, rng: _texts(path, lambda text: text.replace("1", "01", 1)),
    "a column twice": lambda path, rng: _texts(path, _repeat_column),
    "a key of JSON twice": _repeat_key,
    "a Parquet file written again": _rewrite,
    "bytes hidden in a Parquet file": _hide_in_parquet,
    "an encrypted Parquet file": _encrypt,
    "deleted": lambda path, rng: path.unlink(),
    "exchanged": _exchange_files,
    "a link to the file elsewhere": lambda path, rng: move(path, path.parent.parent.parent / "elsewhere"),
    "a link to the folder elsewhere": lambda path, rng: move(path.parent, path.parent.parent.parent / "elsewhere"),
    "a second name elsewhere": lambda path, rng: os.link(path, path.parent.parent.parent.parent / "elsewhere"),
    "a second name beside": lambda path, rng: os.link(path, path.with_name("second")),
    "rights": lambda path, rng: path.chmod(rng.choice([0o000, 0o600, 0o666, 0o777])),
    "times": lambda path, rng: os.utime(path, (rng.randrange(2**31), rng.randrange(2**31))),
    "an attribute": lambda path, rng: os.setxattr(rng.choice([path, path.parent]), "user.more", b"5"),
    "a file more": lambda path, rng: path.with_name(rng.choice(ODD_NAMES)).write_bytes(b"more"),
    "a name in another case": lambda path, rng: shutil.copy(path, path.with_name(path.name.swapcase())),
    "another form of a name": lambda path, rng: path.with_name("e\u0301" + path.name).write_bytes(b"more"),
    "a name that looks alike": lambda path, rng: path.with_name(_look_alike(path.name)).write_bytes(b"more"),
    "a name in another case instead": lambda path, rng: path.rename(path.with_name(path.name.swapcase())),
    "a file like one that is moved": _arrive,
    "a folder instead of a file": _into,
    "an empty folder more": lambda path, rng: path.with_name(rng.choice(ODD_NAMES)).mkdir(),
    "folders in each other": lambda path, rng: (path.with_name("more") / "more" / EDITIONS).mkdir(parents=True),
    "a pipe more": lambda path, rng: os.mkfifo(path.with_name("more")),
    "a pipe instead of a file": lambda path, rng: (path.unlink(), os.mkfifo(path)),
    "a socket more": lambda path, rng: os.mknod(path.with_name("more"), stat.S_IFSOCK | 0o600),
    "a link more": lambda path, rng: path.with_name("more").symlink_to(rng.choice(["nowhere", path.name, ".", "/etc"])),
    "an edition more": _plant_edition,
    "the earlier edition instead": _return,
    "editions exchanged": _exchange_editions,
    "a file of the earlier edition": lambda path, rng: shutil.copy(path.parent / EDITIONS / "1" / path.name, path),
    "the checksums of the earlier edition": _seal_as_earlier,
    "no earlier edition": lambda path, rng: shutil.rmtree(path.parent / EDITIONS),
    "another number of the earlier edition": lambda path, rng: (path.parent / EDITIONS / "1").rename(
        path.parent / EDITIONS / rng.choice(["0", "2", "3", "01"])
    ),
    "a file among the editions": lambda path, rng: (path.parent / EDITIONS / rng.choice(["3", ".more"])).write_bytes(
        b"more"
    ),
    "editions in another case": lambda path, rng: (path.parent / EDITIONS).rename(path.parent / EDITIONS.upper()),
    "a file instead of editions": lambda path, rng: (
        shutil.rmtree(path.parent / EDITIONS),
        (path.parent / EDITIONS).write_bytes(b"more"),
    ),
    "no folder": lambda path, rng: shutil.rmtree(path.parent),
    "the folder under another name": lambda path, rng: path.parent.rename(path.parent.with_name("other")),
    "the folder twice": lambda path, rng: shutil.copytree(
        path.parent, path.parent.with_name(rng.choice(["other", _look_alike(path.parent.name)]))
    ),
    "the folder of another release": _exchange_releases,
    "a longer signature": lambda path, rng: (path.parent / SIGNATURE).write_bytes(
        (path.parent / SIGNATURE).read_bytes() + bytes(rng.randrange(1, 9))
    ),
    "another signature of the same text": _malleate,
    "a signature with another key": _sign_again,
    "no certificate": lambda path, rng: (path.parent / CERTIFICATE).unlink(),
}
"""The alterations of a published file, of its folder, or of all publications."""
