"""Generated alterations by an attacker who can write the public zone and the published folders, but has no key.

In the zone, a value of any table is altered, an object that a DuckDB file can have is added (`tests.additions`), and
hashes that need no key are made to fit; or the file is replaced. In the folders, any file is rewritten, moved, linked,
or joined by another. The release is then verified with its public key and audited, and its publication requested.

A try costs half a CPU second: the release is published once, and a process forked from one with all definitions makes
each alteration to a copy. Still, a try takes the path of a launch. The step `publication`, which ends every launch and
alone writes the published folder, calls `publish`. `publish` evaluates every gate on the stored tables itself, and
relies on no earlier check except stored verdicts: in every second try, all gates, even quick ones, have stored their
verdicts before the alteration. The commands call `verify` and `audit`. One try in 60 launches the whole job through
Dagster instead, with every step and blocking check.
"""

import os
import random
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import numpy as np

from assets.ledger.asset import COMPOSITION, LEDGER_KEY
from assets.release import gate
from assets.release.gate import find_verdicts
from assets.release.signature import CHECKSUMS, EDITIONS, checksums, public_key, verify
from assets.release.verdicts import VERDICTS
from tests.additions import ADDITIONS, LIES, Place
from tests.deployments import Deployment
from tests.faults.files import FILES, UNSEEN, move
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
from tests.faults.tampering import UNNAMED, Published, audited, charging, opened, plain_version, relabel
from tests.forging import BLOCK, HEADER_NUMBERS, HEADERS, bound_texts, seal_blocks
from tests.gates import failing, keep_verdicts

ZONE = Path("warehouse") / "public.duckdb"


Ask = Callable[[Deployment[Any]], None]


CRASHES = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT)
"""The signals with which DuckDB ends a process that reads a file with correct checksums whose blocks do not fit
together. The launch or audit then fails without publishing."""


class NotMadeError(Exception):
    """An alteration that cannot be made, or that has no effect."""


@cache
def published(folder: Path, name: str) -> Published:
    """A release with an earlier edition, of another record, whose public zone is kept beside it. The releases that it
    reads are published with it, so that they have no later edition either."""
    root = prepared(folder, name).with_name("attacked")
    for place, changes in ((_earlier(root), {"guess": 1}), (None, {})):
        ended = in_child(lambda changes=changes: _launch_and_show(deployment(root, name, **changes)))  # type: ignore[misc]
        if ended.status:
            raise RuntimeError(f"{name} is not published as it should be: {ended.error}")
        if place:
            shutil.copy(root / ZONE, place)
    ended = in_child(lambda: [*failing(deployment(root, name)), *audited(deployment(root, name), repeats=False)])
    if ended.status or ended.answer:
        raise RuntimeError(f"{name} is not published as it should be: {ended.error or ended.answer}")
    return Published(name, root, {})


def _launch_and_show(here: Deployment[Any]) -> None:
    """Publish the release, and bring the tables that show the ledger up to date, as a sensor does."""
    launch(here)
    here.run_assets(LEDGER_KEY, dg.AssetKey([charging(here).release.dataset.population, COMPOSITION]))


def _earlier(root: Path) -> Path:
    return root.with_name("earlier.duckdb")


def attacked(release: Published, seed: int, chosen: str = "") -> tuple[str, list[str]]:
    """The first alteration of a seed that can be made, or the first of a chosen kind: an addition, an exchange of the
    zone, or an alteration of files. Returns its words, and the errors; no words if 100 could not be made."""
    for attempt in range(100):
        # Once for each process, before it forks.
        _original(release.root)
        _kept_verdicts(release)
        root, rng = release.copy(), random.Random(f"{release.name} {chosen or seed} {attempt}")
        ended = in_child(lambda root=root, rng=rng: _attack(release, root, rng, seed, chosen))  # type: ignore[misc]
        if ended.status in CRASHES and entries(root / "published") == _original(release.root)[0]:
            return f"{chosen or seed}: DuckDB crashed on it", []
        if NotMadeError.__name__ not in ended.error:
            return told(ended)
    return "", []


def told(ended: Ended) -> tuple[str, list[str]]:
    """The judgment of a process on an alteration; a process that did not end by itself counts as wrong."""
    words, wrong = ended.answer or ("something", [f"it ended with {ended.status}: {ended.error}"])
    return words, wrong


def _attack(release: Published, root: Path, rng: random.Random, seed: int, chosen: str) -> tuple[str, list[str]]:
    here, ask = deployment(root, release.name), ask_by_launch if seed % 60 == 0 else ask_for_publication
    if seed % 2:
        here.context = replace(here.context, verdicts=find_verdicts(here.context.method, here.context.custody))
        shutil.copytree(_kept_verdicts(release), root / "custody" / VERDICTS, dirs_exist_ok=True)
        gate.SHORTEST_KEPT = 0
    alter: Alter
    if chosen:
        alter = partial(_OF_KIND[chosen], words=chosen)
    else:
        every = [_alter_zone, _exchange_tables, _exchange_zone, _alter_folder, _alter_both]
        alter = rng.choices(every, [9, 2, 2, 5, 2])[0]
    read, (published, content) = read_by(here), _original(release.root)
    # Gates and audit of this release read no table of a release that it reads.
    own = {name: digest for name, digest in content.items() if name.split(".")[1] not in read}
    return judge(here, lambda: alter(release, root, rng, read), lambda: _content(root), (published, own), ask)


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
    """Make an alteration, verify, audit, and request the publication. Returns the words of `alter`, and the errors.

    Args:
        read_content: lists the tables of the public zone, with a hash of each.
        original: the published files, and the tables, before.
        ask: requests the publication, and raises if it is refused.
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
    is_same = refusal or (_without_copies(now, own) == published and read_content().items() >= content.items())
    if not (is_same or failing(here) or audited(here, repeats=False)):
        wrong.append(UNNAMED)
    return words, [f"{words}: {problem} ({refusal})" for problem in wrong]


def _without_copies(found: Mapping[str, str], own: str) -> dict[str, str]:
    """Published files without earlier editions that are the current one again: records that come back make their
    edition the current one, and it may have been kept before."""
    editions: dict[str, dict[str, str]] = {}
    for name, content in found.items():
        if name.startswith(f"{own}/"):
            within = name.removeprefix(f"{own}/").split("/", 2)
            place, rest = ("/".join(within[:2]), within[2:]) if within[0] == EDITIONS else ("", within)
            editions.setdefault(place, {})["/".join(rest)] = content
    current = editions.pop("", {})
    copies = tuple(f"{own}/{place}/" for place, files in editions.items() if files == current)
    return {name: content for name, content in found.items() if not name.startswith(copies)}


def entries(folder: Path) -> dict[str, str]:
    """All files of any type and all empty folders below a folder."""
    return {
        path.relative_to(folder).as_posix(): f"to {path.readlink()}"
        if path.is_symlink()
        else sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "other"
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
    }


@cache
def _original(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The published files, and the tables of the public zone."""
    published, content = in_child(lambda: (entries(root / "published"), _content(root))).answer
    return published, content


@cache
def _kept_verdicts(release: Published) -> Path:
    """A folder of the verdicts of all gates, even quick ones, as stored in a copy of the release."""
    root, kept = release.copy(), release.root.with_name(f"verdicts-{os.getpid()}")
    here = deployment(root, release.name)
    find_verdicts(here.context.method, here.context.custody)
    in_child(lambda: keep_verdicts(here, every=True))
    # Some methods keep none.
    (root / "custody" / VERDICTS).mkdir(mode=0o700, exist_ok=True)
    return Path(shutil.copytree(root / "custody" / VERDICTS, kept))


def _content(root: Path) -> dict[str, str]:
    """The tables and views of the public zone with their columns and rows; none if they cannot be read."""
    try:
        # DuckDB does not tell names in another case apart.
        return {name.lower(): content for name, content in tables(root, "public", views=True).items()}
    except duckdb.Error:
        return {}


Alter = Callable[[Published, Path, random.Random, set[str]], str]


def _alter_zone(release: Published, root: Path, rng: random.Random, read: set[str], words: str = "") -> str:
    """An object is added to the public zone, and a value is altered."""
    with opened(root, "public") as connection:
        words = alter_rows(connection, rng, read, words)
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
    """The earlier edition's tables, which Stirred itself wrote, replace some tables of the public zone."""
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


def _flip(path: Path, rng: random.Random, start: int, end: int) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(start, min(end, len(content)))] ^= 1 << rng.randrange(8)
    path.write_bytes(seal_blocks(content))


def _roll_back(path: Path, rng: random.Random) -> None:
    """Of the two headers of a DuckDB file, the older one becomes the last: an earlier state of the file, some of whose
    blocks may have been overwritten."""
    content = bytearray(path.read_bytes())
    numbers = [int.from_bytes(content[at : at + 8], "little") for at in HEADER_NUMBERS]
    at = HEADER_NUMBERS[int(np.argmin(numbers))]
    content[at : at + 8] = (max(numbers) + 1).to_bytes(8, "little")
    path.write_bytes(seal_blocks(content))


def _mix(path: Path, rng: random.Random, release: Published) -> None:
    """Blocks of the earlier edition's file, with correct checksums, replace some blocks."""
    content, earlier = bytearray(path.read_bytes()), _earlier(release.root).read_bytes()
    starts = range(HEADERS, min(len(content), len(earlier)), BLOCK)
    for start in rng.sample(starts, rng.randint(1, len(starts))):
        content[start : start + BLOCK] = earlier[start : start + BLOCK]
    path.write_bytes(content)


def _forge_bounds(path: Path, rng: random.Random) -> None:
    """Other bounds of a column's texts, by which DuckDB would leave out rows."""
    content = bytearray(path.read_bytes())
    at = rng.choice(list(bound_texts(content)))
    content[at : at + 8] = rng.choice([b"\0", b"~"]) * 8
    path.write_bytes(seal_blocks(content))


def _plant_log(path: Path, rng: random.Random) -> None:
    """A log as DuckDB writes it, beside the file, under one of DuckDB's names for logs."""
    shutil.copy(path, copy := path.with_name("copy.duckdb"))
    with duckdb.connect(str(copy)) as connection:
        schema, table = rng.choice(names(connection))
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute(f'INSERT INTO "{schema}"."{table}" FROM "{schema}"."{table}" LIMIT 1')
    copy.unlink()
    copy.with_name("copy.duckdb.wal").rename(f"{path}.wal{rng.choice(['', '.checkpoint', '.recovery'])}")


VERSIONS = ("v0.10.2", "v1.0.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0", "latest")

EXCHANGES: Mapping[str, Callable[[Path, random.Random, Published], object]] = {
    "a link to the zone elsewhere": lambda path, rng, release: move(path, path.parent.parent / "elsewhere.duckdb"),
    "a second name of the file": lambda path, rng, release: os.link(path, path.parent.parent / "elsewhere.duckdb"),
    "a file that others can write": lambda path, rng, release: path.chmod(rng.choice([0o622, 0o644, 0o666])),
    "a bit with its checksum": lambda path, rng, release: _flip(path, rng, HEADERS + 8, 2**62),
    "a bit of a header with its checksum": lambda path, rng, release: _flip(path, rng, 8, HEADERS),
    "the header before the last": lambda path, rng, release: _roll_back(path, rng),
    "blocks of the earlier edition": _mix,
    "bounds of texts": lambda path, rng, release: _forge_bounds(path, rng),
    "a log of DuckDB's beside the file": lambda path, rng, release: _plant_log(path, rng),
    "a file with more bytes": lambda path, rng, release: path.write_bytes(path.read_bytes() + rng.randbytes(9)),
    "an encrypted file": lambda path, rng, release: _copy_zone(path, "ENCRYPTION_KEY 'his own'"),
    "another version of storage": lambda path, rng, release: _copy_zone(
        path, f"STORAGE_VERSION '{rng.choice(VERSIONS)}'"
    ),
    "smaller blocks": lambda path, rng, release: _copy_zone(path, "BLOCK_SIZE 16384"),
    "a log beside the file": lambda path, rng, release: path.with_name(path.name + ".wal").write_bytes(
        rng.randbytes(99)
    ),
    "its state before the charge": lambda path, rng, release: shutil.copy(release.root.parent / "start" / ZONE, path),
    "its state at the earlier edition": lambda path, rng, release: shutil.copy(_earlier(release.root), path),
    "an empty file": lambda path, rng, release: path.write_bytes(b""),
    "no file": lambda path, rng, release: path.unlink(),
    "a folder instead of the file": lambda path, rng, release: (path.unlink(), path.mkdir()),
    "a pipe instead of the file": lambda path, rng, release: (path.unlink(), os.mkfifo(path)),
}
"""The alterations of the public zone's file."""


def _exchange_zone(release: Published, root: Path, rng: random.Random, read: set[str], words: str = "") -> str:
    words = words or rng.choice(list(EXCHANGES))
    try:
        EXCHANGES[words](root / ZONE, rng, release)
    except Exception as error:
        raise NotMadeError from error
    return words


def _alter_folder(release: Published, root: Path, rng: random.Random, read: set[str], words: str = "") -> str:
    """A published file or its folder is altered, and in half of the cases the checksums are made to fit."""
    files = [path for path in sorted((root / "published").rglob("*")) if path.is_file()]
    path, words, is_refitted = rng.choice(files), words or rng.choice(list(FILES)), rng.random() < 0.5
    before = entries(root / "published")
    try:
        FILES[words](path, rng)
        if is_refitted and (path.parent / CHECKSUMS).exists():
            (path.parent / CHECKSUMS).write_bytes(checksums(path.parent))
    except Exception as error:
        raise NotMadeError from error
    if words not in UNSEEN and entries(root / "published") == before:
        raise NotMadeError
    return f"{words} of {path.relative_to(root)}{', checksums made to fit' if is_refitted else ''}"


def _alter_both(release: Published, root: Path, rng: random.Random, read: set[str]) -> str:
    """An altered zone, whose publication is missing or altered too, so that it is made again."""
    words = rng.choice([_alter_zone, _exchange_tables])(release, root, rng, read)
    if rng.random() < 0.5:
        shutil.rmtree(deployment(root, release.name).release.folder)
        return f"{words}, and no publication"
    return f"{words}, and {_alter_folder(release, root, rng, read)}"


_OF_KIND: Mapping[str, Any] = (
    dict.fromkeys(ADDITIONS, _alter_zone)
    | dict.fromkeys(EXCHANGES, _exchange_zone)
    | dict.fromkeys(FILES, _alter_folder)
)
KINDS = tuple(_OF_KIND)
"""The kinds of alterations, each of which is chosen once for every release."""
