"""The intake of published measurements: opening them, with the hashes of their files, storing them as tables, and
reading them back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from assets.measurement.method import MEASUREMENTS
from assets.publication.asset import open_publication
from assets.publication.tables import PublishedTables
from assets.release import signature
from assets.release.signature import CERTIFICATE, SignedFolder
from assets.release.stage import Recipes, store_tables
from assets.topdown.anew import Source
from assets.topdown.asking import Measured, read_answers, read_measured, read_tree
from assets.topdown.bureau import list_files
from assets.topdown.reestimation.declaration import SOURCES, Reestimation, ReestimationError
from assets.topdown.reestimation.given import GivenCertificate
from assets.topdown.release import QUERIES, SPINE
from mechanisms.topdown.design import SCHEMAS
from mechanisms.topdown.feasibility import FREE, propagate
from resources.arrays import read_lists, to_lists
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import SQL
from resources.warehouse import Session

BOUNDS = "bounds"
"""The table of exact statistics: the total of every place, if fixed, and the bounds of its groups."""

_ANSWERS = SQL(
    "reestimation/answers",
    "FROM {{ table }} WHERE histogram = $histogram AND level = $level AND query = $query",
)
_OF_LEVEL = SQL(
    "reestimation/of_level", "FROM {{ table }} WHERE histogram = $histogram AND level = $level ORDER BY number"
)


@dataclass(frozen=True)
class Opened:
    """Published measurements that match the declaration.

    Attributes:
        digests: the SHA-256 of every file, by name.
        checksums: the SHA-256 for all files: of the `SHA256SUMS` of a publication, or otherwise of the lines that it
            would have.
        signed: the signed publication; None for the Census Bureau's files.
        certificate: the certificate of the publication.
    """

    digests: Mapping[str, str]
    checksums: str
    signed: SignedFolder | None = None
    certificate: GivenCertificate | None = None


def open_measurements(release: Reestimation, custody: Custody, ledger: Ledger) -> Opened:
    """Raises ReestimationError if the files are missing, altered, or differ from the declaration; and PlacesError."""
    declared = release.declaration
    try:
        if release.of:
            opened = _as_signed(open_publication(release.of, custody, ledger))
        elif declared.key:
            source = Source(release.folder_of_source, {}, release.root / declared.key)
            opened = _as_signed(source.verify(release.root / declared.key))
        else:
            opened = _hash_files(release)
    except signature.VerificationError as error:
        raise ReestimationError(f"{release.schema}: the measurements cannot be taken in: {error}") from None
    if declared.sha256 and declared.sha256 != opened.checksums:
        raise ReestimationError(
            f"{release.schema}: sha256: the files in {declared.folder} have {opened.checksums}, not {declared.sha256}"
        )
    return opened


def _as_signed(signed: SignedFolder) -> Opened:
    try:
        certificate = GivenCertificate.model_validate_json(signed.read(CERTIFICATE))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ReestimationError(f"{signed.folder}: {CERTIFICATE}: {field}: {first['msg']}") from None
    return Opened(signed.digests, signed.checksums, signed, certificate)


def _hash_files(release: Reestimation) -> Opened:
    folder = release.folder_of_source
    if not folder.is_dir():
        raise ReestimationError(f"{release.schema}: folder: there is no folder {release.declaration.folder}")
    if (folder / f"{SPINE}.parquet").exists():
        raise ReestimationError(
            f"{release.schema}: key: {release.declaration.folder} is a publication; declare the public key that "
            "verifies it"
        )
    files = [(path.relative_to(folder).as_posix(), signature.file_sha256(path)) for path in list_files(folder)]
    lines = "".join(f"{digest}  {name}\n" for name, digest in files)
    return Opened(dict(files), sha256(lines.encode()).hexdigest())


def read_published(
    release: Reestimation, tables: PublishedTables, custody: Custody, ledger: Ledger
) -> dict[str, Measured]:
    """The measurements behind the published estimates. Raises ReestimationError if the measurements have changed since,
    and errors as `open_measurements` and `read_opened`."""
    opened = open_measurements(release, custody, ledger)
    rows = tables.read(SOURCES)
    if dict(zip(rows["file"].to_pylist(), rows["sha256"].to_pylist(), strict=True)) != dict(opened.digests):
        raise ReestimationError(
            f"{release.schema}: it is published from other measurements than there are now; launch the job "
            f"{release.schema} again"
        )
    return read_opened(release, opened)


def read_opened(release: Reestimation, opened: Opened) -> dict[str, Measured]:
    """Raises PlacesError, FilesError and InfeasibleError, which name file or level; and ReestimationError, also if the
    files without a signature no longer have the hashes that were taken before they were read."""
    try:
        if opened.signed:
            return read_measured(PublishedTables.of(opened.signed))
        measured = Source(release.folder_of_source, release.declaration.populations).read()
    except signature.VerificationError as error:
        raise ReestimationError(f"{release.schema}: the measurements cannot be taken in: {error}") from None
    if _hash_files(release).digests != opened.digests:
        raise ReestimationError(
            f"{release.schema}: the files in {release.declaration.folder} changed while they were read; launch again"
        )
    return measured


def make_recipes(session: Session, release: Reestimation, opened: Opened, measured: Mapping[str, Measured]) -> Recipes:
    """The recipes of all tables of the stage `measurements`."""
    named = {
        SOURCES: pa.table({"file": list(opened.digests), "sha256": list(opened.digests.values())}),
        SPINE: _list_places(next(iter(measured.values()))),
        QUERIES: _list_queries(measured),
        MEASUREMENTS: pa.concat_tables(_list_answers(measured)),
        BOUNDS: pa.concat_tables(_list_bounds(measured)),
    }
    return store_tables(session, {release.public(name): table for name, table in named.items()})


def _list_places(measured: Measured) -> pa.Table:
    parts = []
    for depth, (level, parents) in enumerate(measured.tree.items()):
        places = len(parents)
        above = pa.array(parents, pa.int64()) if depth else pa.nulls(1, pa.int64())
        named = {"depth": pa.repeat(depth, places).cast(pa.int64()), "level": pa.repeat(level, places)}
        numbered = {"number": pa.array(np.arange(places)), "geoid": pa.array(measured.codes[level], pa.string())}
        parts.append(pa.table({**named, **numbered, "parent": above}))
    return pa.concat_tables(parts)


def _list_queries(measured: Mapping[str, Measured]) -> pa.Table:
    rows = [
        {"histogram": name, "level": level, "query": each.query, "parameter": str(each.variance)}
        for name, own in measured.items()
        for level, answers in own.measurements.items()
        for each in answers
    ]
    return pa.Table.from_pylist(rows)


def _name_rows(names: Mapping[str, str], codes: Sequence[str]) -> dict[str, Any]:
    named = {column: pa.repeat(value, len(codes)) for column, value in names.items()}
    return named | {"number": pa.array(np.arange(len(codes))), "geoid": pa.array(codes, pa.string())}


def _list_answers(measured: Mapping[str, Measured]) -> list[pa.Table]:
    return [
        pa.table(
            _name_rows({"histogram": name, "level": level, "query": each.query}, own.codes[level])
            | {"answers": to_lists(each.answers.astype(np.int64))}
        )
        for name, own in measured.items()
        for level, answers in own.measurements.items()
        for each in answers
    ]


def _list_bounds(measured: Mapping[str, Measured]) -> list[pa.Table]:
    return [
        pa.table(
            _name_rows({"histogram": name, "level": level}, own.codes[level])
            | {
                "total": pa.array(limits.totals, mask=limits.totals == FREE),
                "lower": to_lists(limits.lower),
                "upper": to_lists(limits.upper),
            }
        )
        for name, own in measured.items()
        for level, limits in zip(own.tree, own.limits, strict=True)
    ]


def read_stored(session: Session, release: Reestimation) -> dict[str, Measured]:
    """The stored measurements. Raises PlacesError, ReestimationError and InfeasibleError if the tables contradict
    each other."""

    def read(name: str, filters: Sequence[tuple[str, str, str]] = ()) -> pa.Table:
        values = {column: value for column, _, value in filters}
        statement = _ANSWERS if values else "warehouse/all"
        table = release.public(name)
        return session.arrow(statement, values, **({"table": table} if values else {"source": table}))

    tree, codes = read_tree(read)
    parents = [np.array(places, dtype=np.int64) for places in list(tree.values())[1:]]
    limits = {}
    for name, schema in SCHEMAS.items():
        totals = []
        for level, own in codes.items():
            table = release.public(BOUNDS)
            rows = session.arrow(_OF_LEVEL, {"histogram": name, "level": level}, table=table)
            if rows["geoid"].to_pylist() != list(own):
                raise ReestimationError(f"{release.schema}: {BOUNDS}: {name} {level}: not every place is there once")
            totals.append(rows["total"].fill_null(FREE).to_numpy())
        lower, upper = (_stack(release, rows[end], schema.groups.size) for end in ("lower", "upper"))
        limits[name] = propagate(list(tree), parents, lower, upper, totals)
    return read_answers(read, tree, codes, limits)


def _stack(release: Reestimation, lists: pa.ChunkedArray, size: int) -> Any:
    try:
        return read_lists(lists, size)
    except ValueError as error:
        raise ReestimationError(f"{release.schema}: {BOUNDS}: {error}") from None
