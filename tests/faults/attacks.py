"""Whoever can write the public zone and the published folders, but has no key: generated alterations.

Of the zone, a value of any table is altered, something is added of what a DuckDB file can carry (`tests.additions`),
and hashes that need no key are made to fit; or its file is exchanged. Of the folders, any file is rewritten, moved,
linked, or gets company. The release is then verified with its public key and audited, and its publication asked for.

A try costs half a CPU second: the release is published once, and each alteration is made to a copy, by a process that
is forked from one with all definitions. It goes the way of a launch all the same. `publish` is what the step
`publication` calls, with which every launch ends and which alone writes the published folder. It evaluates every gate
on the stored tables itself, and rests on no check before it, but for kept verdicts: in every second try, all gates have
kept theirs before the alteration, however quick they are. `verify` and `audit` are what the commands call. One try in
60 launches the whole job through Dagster instead, with every step and blocking check.
"""

import os
import random
import shutil
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from assets.publication.signature import CERTIFICATE, CHECKSUMS, EDITIONS, SIGNATURE, checksums, public_key, verify
from assets.release import gate
from assets.release.gate import find_verdicts
from resources.instances import close_waiting
from tests.additions import ADDITIONS, LIES, Place
from tests.deployments import Deployment
from tests.faults.releases import (
    Ended,
    ask_for_publication,
    deployment,
    in_child,
    launch,
    names,
    prepared,
    run_job,
    tables,
)
from tests.faults.tampering import UNNAMED, Published, audited, opened, plain_version, relabel
from tests.forging import seal_blocks
from tests.gates import failing, keep_verdicts

ZONE = Path("warehouse") / "public.duckdb"


Ask = Callable[[Deployment[Any]], None]


class NotMadeError(Exception):
    """An alteration that cannot be made, or that changes nothing."""


@cache
def published(folder: Path, name: str) -> Published:
    """A release with an earlier edition, of another record, whose public zone is kept beside it. What it reads is
    published with it, so that no later edition of that is there either."""
    root = prepared(folder, name).with_name("attacked")
    for place, changes in ((_earlier(root), {"guess": 1}), (None, {})):
        ended = in_child(lambda changes=changes: launch(deployment(root, name, **changes)))  # type: ignore[misc]
        if ended.status:
            raise RuntimeError(f"{name} is not published as it should be: {ended.error}")
        if place:
            shutil.copy(root / ZONE, place)
    ended = in_child(lambda: [*failing(deployment(root, name)), *audited(deployment(root, name), repeats=False)])
    if ended.status or ended.answer:
        raise RuntimeError(f"{name} is not published as it should be: {ended.error or ended.answer}")
    return Published(name, root, {})


def _earlier(root: Path) -> Path:
    return root.with_name("earlier.duckdb")


def attacked(release: Published, seed: int, addition: str = "") -> tuple[str, list[str]]:
    """The first alteration of a seed, or with an addition, that can be made. Returns its words, and what was wrong; no
    words if 100 could not be made."""
    for attempt in range(100):
        # Once for each process, before it forks.
        _original(release.root)
        root, rng = release.copy(), random.Random(f"{release.name} {addition or seed} {attempt}")
        ended = in_child(lambda root=root, rng=rng: _attack(release, root, rng, seed, addition))  # type: ignore[misc]
        if NotMadeError.__name__ not in ended.error:
            return told(ended)
    return "", []


def told(ended: Ended) -> tuple[str, list[str]]:
    """What a process says that judged an alteration; one that did not end by itself counts as wrong."""
    words, wrong = ended.answer or ("something", [f"it ended with {ended.status}: {ended.error}"])
    return words, wrong


def _attack(release: Published, root: Path, rng: random.Random, seed: int, addition: str) -> tuple[str, list[str]]:
    here, ask = deployment(root, release.name), ask_by_launch if seed % 60 == 0 else ask_for_publication
    if seed % 2:
        here.context = replace(here.context, verdicts=find_verdicts(here.context.method, here.context.custody))
        keep_verdicts(here, every=True)
        gate.SHORTEST_KEPT = 0
        close_waiting()
    alter: Alter = partial(_alter_zone, addition=addition)
    if not addition:
        alter = rng.choices([_alter_zone, _exchange_tables, _exchange_zone, _alter_folder], [12, 2, 1, 5])[0]
    return judge(
        here, lambda: alter(release, root, rng, read_by(here)), lambda: _content(root), _original(release.root), ask
    )


def ask_by_launch(here: Deployment[Any]) -> None:
    """Run the whole job as a launch does."""
    run_job(here)


def read_by(here: Deployment[Any]) -> set[str]:
    """The schemas of the releases that this one reads."""
    return {each.schema for each in here.context.method.reads_publications_of}


def judge(
    here: Deployment[Any],
    alter: Callable[[], str],
    read_content: Callable[[], Mapping[str, str]],
    original: tuple[Mapping[str, str], Mapping[str, str]],
    ask: Ask,
) -> tuple[str, list[str]]:
    """Alter something, verify, audit, and ask for the publication. Returns the words of `alter`, and what was wrong.

    Args:
        read_content: lists the tables of the public zone, with a hash of each.
        original: the published files, and the tables, before.
        ask: asks for the publication, and raises if it is refused.
    """
    words = alter()
    (published, content), folder, root = original, here.release.folder, here.root
    left = entries(root / "published")
    wrong = []
    if left != published and not (verify(folder, public_key(here.context.custody))[1] or audited(here, repeats=False)):
        wrong.append("FORGED: neither verification nor the audit names it")
    refusal = ""
    try:
        ask(here)
    except Exception as error:
        refusal = f"{type(error).__name__}: {error.description if isinstance(error, dg.Failure) else error}"
    now, expected = entries(root / "published"), left if refusal else published
    own = folder.relative_to(root / "published").as_posix()
    if any(
        now.get(name) != expected.get(name)
        for name in now.keys() | expected.keys()
        if name.startswith(f"{own}/") and not name.startswith(f"{own}/{EDITIONS}")
    ):
        wrong.append("FORGED: another publication is made from it")
    is_same = refusal or (now == published and read_content().items() >= content.items())
    if not (is_same or failing(here) or audited(here, repeats=False)):
        wrong.append(UNNAMED)
    return words, [f"{words}: {problem} ({refusal})" for problem in wrong]


def entries(folder: Path) -> dict[str, str]:
    """Everything below a folder, whatever it is, but folders."""
    return {
        path.relative_to(folder).as_posix(): f"to {path.readlink()}"
        if path.is_symlink()
        else sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "other"
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }


@cache
def _original(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What was published, and the tables of the public zone."""
    published, content = in_child(lambda: (entries(root / "published"), _content(root))).answer
    return published, content


def _content(root: Path) -> dict[str, str]:
    """The tables and views of the public zone with their columns and rows; none if they cannot be read."""
    try:
        # DuckDB does not tell names in another case apart.
        return {name.lower(): content for name, content in tables(root, "public", views=True).items()}
    except duckdb.Error:
        return {}


Alter = Callable[[Published, Path, random.Random, set[str]], str]


def _alter_zone(release: Published, root: Path, rng: random.Random, read: set[str], addition: str = "") -> str:
    """Something is added to the public zone, and a value is altered."""
    with opened(root, "public") as connection:
        words = alter_rows(connection, rng, read, addition)
    if words.startswith("nothing") and _content(root) == _original(release.root)[1]:
        raise NotMadeError
    return words


def alter_rows(connection: duckdb.DuckDBPyConnection, rng: random.Random, read: set[str], addition: str = "") -> str:
    """Alter a value of the public zone, make an addition, and in half of the cases make hashes fit."""
    schema, table = rng.choice([place for place in names(connection) if place[0] not in read])
    at, addition = Place.choose(connection, rng, schema, table), addition or rng.choice(list(ADDITIONS))
    lie = rng.choice(list(LIES))
    before, is_relabelled = plain_version(connection, schema, table), rng.random() < 0.5
    if (addition, lie) == ("nothing", "none") or not at.alter(addition, lie):
        raise NotMadeError
    if is_relabelled:
        try:
            relabel(connection, before, plain_version(connection, schema, table))
        except Exception:
            is_relabelled = False
    return f"{addition} and {lie} in {schema}.{table}.{at.column}{', labels made to fit' if is_relabelled else ''}"


def _exchange_tables(release: Published, root: Path, rng: random.Random, read: set[str]) -> str:
    """Some tables of the public zone become those of the earlier edition, which Stirred wrote itself."""
    with opened(root, "public") as connection:
        places = [f'"{schema}"."{table}"' for schema, table in names(connection) if schema not in read]
        chosen = rng.sample(places, min(rng.choice([1, 1, 2, 3, len(places) - 1]), len(places)))
        connection.execute(f"ATTACH '{_earlier(release.root)}' AS earlier (READ_ONLY)")
        for place in chosen:
            connection.execute(f"DELETE FROM public.{place}; INSERT INTO public.{place} FROM earlier.{place}")
    if _content(root) == _original(release.root)[1]:
        raise NotMadeError
    return f"{', '.join(chosen)} of the earlier edition"


def _copy_zone(path: Path, options: str) -> None:
    """Write the whole zone again with other options of its file."""
    with duckdb.connect() as connection:
        connection.execute("SET force_mbedtls_unsafe = 'true'")
        connection.execute(f"ATTACH '{path}' AS old; ATTACH '{path}.new' AS new ({options})")
        connection.execute("COPY FROM DATABASE old TO new")
    path.with_name(path.name + ".new").replace(path)


def _move(path: Path, to: Path) -> Path:
    """Leave a link where something was."""
    path.rename(to)
    path.symlink_to(to)
    return to


def _flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(3 * 4096 + 8, len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(seal_blocks(content))


EXCHANGES: Mapping[str, Callable[[Path, random.Random, Published], object]] = {
    "a link to the file elsewhere": lambda path, rng, release: _move(path, path.parent.parent / "elsewhere.duckdb"),
    "a second name of the file": lambda path, rng, release: os.link(path, path.parent.parent / "elsewhere.duckdb"),
    "a file that others can write": lambda path, rng, release: path.chmod(rng.choice([0o622, 0o644, 0o666])),
    "a bit with its checksum": lambda path, rng, release: _flip(path, rng),
    "a file with more bytes": lambda path, rng, release: path.write_bytes(path.read_bytes() + rng.randbytes(9)),
    "an encrypted file": lambda path, rng, release: _copy_zone(path, "ENCRYPTION_KEY 'his own'"),
    "another version of storage": lambda path, rng, release: _copy_zone(path, "STORAGE_VERSION 'v1.5.0'"),
    "smaller blocks": lambda path, rng, release: _copy_zone(path, "BLOCK_SIZE 16384"),
    "a log beside the file": lambda path, rng, release: path.with_name(path.name + ".wal").write_bytes(
        rng.randbytes(99)
    ),
    "its state before the charge": lambda path, rng, release: shutil.copy(release.root.parent / "start" / ZONE, path),
    "its state at the earlier edition": lambda path, rng, release: shutil.copy(_earlier(release.root), path),
    "an empty file": lambda path, rng, release: path.write_bytes(b""),
    "no file": lambda path, rng, release: path.unlink(),
}
"""What is done to the file of the public zone."""


def _exchange_zone(release: Published, root: Path, rng: random.Random, read: set[str]) -> str:
    words = rng.choice(list(EXCHANGES))
    EXCHANGES[words](root / ZONE, rng, release)
    return words


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


ODD_NAMES = (
    *(".more", "more.csv", "more\n", "more ", "..more", f"{CHECKSUMS}.bak", "\u202emore", "x" * 200),
    os.fsdecode(b"more\xff"),
)


def _encrypt(path: Path, rng: random.Random) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET force_mbedtls_unsafe = 'true'")
        connection.execute("PRAGMA add_parquet_key('k', '0123456789112345')")
        rows = f"FROM read_parquet('{path}')"
        connection.execute(f"COPY ({rows}) TO '{path}.new' (FORMAT parquet, ENCRYPTION_CONFIG {{footer_key: 'k'}})")
    Path(f"{path}.new").replace(path)


def _exchange(path: Path, rng: random.Random) -> None:
    other = rng.choice([each for each in sorted(path.parent.iterdir()) if each.is_file()])
    mine, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(mine)


def _plant_edition(path: Path, rng: random.Random) -> None:
    """The signed folder once more, as another edition of itself. Under its own number it could be there: records that
    come back make their edition the current one again."""
    shutil.copytree(path.parent, path.parent / EDITIONS / rng.choice(["0", "3", "01", "02", "٢", "2 "]))


def _return(path: Path, rng: random.Random) -> None:
    """The earlier edition in the place of the current one."""
    (path.parent / EDITIONS / "1").rename(kept := path.parent.with_name("kept"))
    shutil.rmtree(path.parent)
    kept.rename(path.parent)


def _into(path: Path, rng: random.Random) -> None:
    """A folder of the name of a file, with the file in it."""
    path.rename(kept := path.with_name("kept"))
    path.mkdir()
    kept.rename(path / path.name)


def _texts(path: Path, change: Callable[[str], str]) -> None:
    path.write_bytes(change(path.read_bytes().decode()).encode())


FILES: Mapping[str, Callable[[Path, random.Random], object]] = {
    "a bit": lambda path, rng: path.write_bytes(
        (content := path.read_bytes())[: (at := rng.randrange(len(content)))]
        + bytes([content[at] ^ 1 << rng.randrange(8)])
        + content[at + 1 :]
    ),
    "cut": lambda path, rng: path.write_bytes((content := path.read_bytes())[: rng.randrange(len(content))]),
    "more bytes": lambda path, rng: path.write_bytes(path.read_bytes() + rng.choice([b"\n", b"\0", b" ", b"\x1a"])),
    "a byte order mark": lambda path, rng: path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes()),
    "other ends of lines": lambda path, rng: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")),
    "letters of another form": lambda path, rng: _texts(path, lambda text: unicodedata.normalize("NFKD", text)),
    "letters of another case": lambda path, rng: _texts(path, str.swapcase),
    "lines in another order": lambda path, rng: _texts(path, lambda text: "".join(sorted(text.splitlines(True)))),
    "numbers of another form": lambda path, rng: _texts(path, lambda text: text.replace("1", "01", 1)),
    "a Parquet file written again": _rewrite,
    "an encrypted Parquet file": _encrypt,
    "deleted": lambda path, rng: path.unlink(),
    "exchanged": _exchange,
    "a link to the file elsewhere": lambda path, rng: _move(path, path.parent.parent.parent / "elsewhere"),
    "a link to the folder elsewhere": lambda path, rng: _move(path.parent, path.parent.parent.parent / "elsewhere"),
    "a second name elsewhere": lambda path, rng: os.link(path, path.parent.parent.parent.parent / "elsewhere"),
    "a second name beside": lambda path, rng: os.link(path, path.with_name("second")),
    "rights": lambda path, rng: path.chmod(rng.choice([0o000, 0o600, 0o666, 0o777])),
    "times": lambda path, rng: os.utime(path, (rng.randrange(2**31), rng.randrange(2**31))),
    "a file more": lambda path, rng: path.with_name(rng.choice(ODD_NAMES)).write_bytes(b"more"),
    "a name in another case": lambda path, rng: shutil.copy(path, path.with_name(path.name.swapcase())),
    "another form of a name": lambda path, rng: path.with_name("e\u0301" + path.name).write_bytes(b"more"),
    "a name in another case instead": lambda path, rng: path.rename(path.with_name(path.name.swapcase())),
    "a folder instead of a file": _into,
    "a pipe more": lambda path, rng: os.mkfifo(path.with_name("more")),
    "a pipe instead of a file": lambda path, rng: (path.unlink(), os.mkfifo(path)),
    "a link more": lambda path, rng: path.with_name("more").symlink_to(rng.choice(["nowhere", path.name, ".", "/etc"])),
    "an edition more": _plant_edition,
    "the earlier edition instead": _return,
    "a file of the earlier edition": lambda path, rng: shutil.copy(path.parent / EDITIONS / "1" / path.name, path),
    "no earlier edition": lambda path, rng: shutil.rmtree(path.parent / EDITIONS),
    "another number of the earlier edition": lambda path, rng: (path.parent / EDITIONS / "1").rename(
        path.parent / EDITIONS / rng.choice(["0", "2", "3", "01"])
    ),
    "no folder": lambda path, rng: shutil.rmtree(path.parent),
    "the folder under another name": lambda path, rng: path.parent.rename(path.parent.with_name("other")),
    "the folder twice": lambda path, rng: shutil.copytree(path.parent, path.parent.with_name("other")),
    "a longer signature": lambda path, rng: (path.parent / SIGNATURE).write_bytes(
        (path.parent / SIGNATURE).read_bytes() + bytes(rng.randrange(1, 9))
    ),
    "no certificate": lambda path, rng: (path.parent / CERTIFICATE).unlink(),
}
"""What is done to a published file, or to the folder that it is in."""


def _alter_folder(release: Published, root: Path, rng: random.Random, read: set[str]) -> str:
    """A published file or its folder is altered, and in half of the cases the checksums are made to fit."""
    files = [path for path in sorted((root / "published").rglob("*")) if path.is_file()]
    path, words, is_refitted = rng.choice(files), rng.choice(list(FILES)), rng.random() < 0.5
    before = entries(root / "published")
    try:
        FILES[words](path, rng)
        if is_refitted and (path.parent / CHECKSUMS).exists():
            (path.parent / CHECKSUMS).write_bytes(checksums(path.parent))
    except Exception as error:
        raise NotMadeError from error
    if words not in ("rights", "times", "a second name elsewhere") and entries(root / "published") == before:
        raise NotMadeError
    return f"{words} of {path.relative_to(root)}{', checksums made to fit' if is_refitted else ''}"
