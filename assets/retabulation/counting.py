"""Counting the published records of a release again: their edition, its files, and its blocks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from assets.cef.census import find_place_names
from assets.publication.asset import open_publication
from assets.release import signature
from assets.release.codes import CodesError, read_codes, require_own_codes
from assets.release.signature import CERTIFICATE, Identity, SignedFolder
from assets.release.stage import Recipes, store_rows
from assets.retabulation.declaration import BLOCKS, Retabulation, RetabulationError
from resources.custody import Custody
from resources.ledger import Ledger
from resources.statements import SQL, Fragment
from resources.warehouse import Recipe, Session

GEOGRAPHY, SOURCE = "geography", "source"

_STRADDLING = SQL("retabulation/straddling", "SELECT count(*) - count(DISTINCT (level, block)) FROM {{ geography }}")
_UNPLACED = SQL(
    "retabulation/unplaced",
    "SELECT count(*) FROM {{ blocks }} ANTI JOIN (FROM {{ placed }} WHERE level = $level) USING (block)",
)

_LISTED = pa.schema(dict.fromkeys(("level", "geoid", "block"), pa.string()))


@dataclass(frozen=True)
class SourceEdition:
    """The published edition that is counted: its files as they were signed, and the record of its certificate."""

    files: SignedFolder
    identity: Identity
    record: Mapping[str, Any]

    def read(self, name: str, columns: Sequence[str]) -> pa.RecordBatchReader:
        """A published table, readable once. Raises RetabulationError unless it exists as it was signed, with these
        columns."""
        try:
            file = pq.ParquetFile(pa.BufferReader(self.files.read(f"{name}.parquet")))
            schema = pa.schema([file.schema_arrow.field(column) for column in columns])
        except signature.VerificationError as error:
            raise RetabulationError(f"{self.identity}: {error}") from None
        except KeyError:
            raise RetabulationError(f"{self.identity}: {name}.parquet lacks a column") from None
        return pa.RecordBatchReader.from_batches(schema, file.iter_batches(columns=list(columns)))


def find_source_problems(release: Retabulation, custody: Custody, ledger: Ledger) -> list[str]:
    """Why the published files of the release cannot be counted: they are unsigned or altered, or their draw is not
    settled or was withdrawn. Empty if they can be counted.

    A broken ledger is a problem too, because the state of the draw cannot be known.
    """
    try:
        open_publication(release.source, custody, ledger)
    except signature.VerificationError as error:
        return [str(error)]
    return []


def read_source(release: Retabulation, custody: Custody, ledger: Ledger) -> SourceEdition:
    """The release's current edition. Raises RetabulationError if it has a problem by `find_source_problems`."""
    try:
        signed = open_publication(release.source, custody, ledger)
        return SourceEdition(signed, signed.identity(), json.loads(signed.read(CERTIFICATE)))
    except signature.VerificationError as error:
        raise RetabulationError(
            f"{release.schema}: the publication that it rests on cannot be counted: {error}"
        ) from None


def geography_recipe(session: Session, release: Retabulation) -> Recipe:
    """The recipe of the table `geography`, from the units and the declared files. Raises RetabulationError if two
    places have the same code."""
    rows = [row for name, path in release.listed.items() for row in _read_places(name, path)]
    listed = pa.Table.from_pylist(rows, schema=_LISTED)
    units, _ = release.dataset.cef_tables()
    for name, columns in release.joined.items():
        try:
            require_own_codes(session, units, columns, release.dataset)
        except CodesError as error:
            raise RetabulationError(f"{release.schema}: geographies: {name}: {error}") from None
    values = {f"level_{number}": name for number, name in enumerate(release.joined)}
    names = {
        "listed": session.register("listed", listed),
        "joined": list(release.joined.values()),
        "block": release.microdata.block,
        "units": units,
    }
    return "retabulation/geography", values, names


def _read_places(level: str, path: Path) -> Iterator[dict[str, str]]:
    """The blocks of a file and their places. Raises RetabulationError unless every line has these two codes."""
    try:
        rows = read_codes(path, 2)
    except CodesError as error:
        raise RetabulationError(f"geographies: {level}: {error}") from None
    return ({"level": level, "block": block, "geoid": place} for block, place in rows)


def require_one_place(session: Session, release: Retabulation) -> None:
    (straddling,) = session.row(_STRADDLING, geography=release.public(GEOGRAPHY))
    if straddling:
        raise RetabulationError(
            f"{release.schema}: geographies: {straddling:,} times a block lies in a further place of the same geography"
        )


def stage_places(session: Session, release: Retabulation, source: SourceEdition) -> Fragment:
    """Stage the blocks of the publication with the numbers of their places. Raises RetabulationError if a block has no
    place in a geography that is joined from columns, because the dataset's units have changed, or if codes in a file
    are not codes of published blocks."""
    spine = source.read("spine", ["level", "geoid"]).read_all()
    blocks = spine.filter(pa.compute.equal(spine["level"], release.microdata.level)).select(["geoid"])
    published = session.register("published", blocks.rename_columns(["block"]))
    placed = session.stage("placed", "retabulation/placed", geography=release.public(GEOGRAPHY), blocks=published)
    for level, strange, known in session.rows(
        "retabulation/strange_codes", geography=release.public(GEOGRAPHY), blocks=published
    ):
        where = f"{release.schema}: geographies: {level}"
        if strange:
            raise RetabulationError(
                f"{where}: {strange:,} codes are longer or shorter than those of published blocks, whose zeros at the "
                "beginning count"
            )
        if not known:
            raise RetabulationError(f"{where}: none of the codes is that of a published block")
    for level in release.joined:
        (unplaced,) = session.row(_UNPLACED, {"level": level}, blocks=published, placed=placed)
        if unplaced:
            raise RetabulationError(
                f"{release.schema}: geographies: {level}: {unplaced:,} published blocks have no unit in the dataset"
            )
    return placed


def tables_recipes(session: Session, release: Retabulation, source: SourceEdition) -> Recipes:
    """The recipes of all tables, from the published files and the table `geography`, and of the table that identifies
    their edition."""
    placed = stage_places(session, release, source)
    places = session.arrow(_PLACES, placed=placed)
    place_names = find_place_names(release.dataset)
    names = [place_names.get(code) for code in places["geoid"].to_pylist()]
    made: dict[Any, Recipe] = {}
    counts: dict[tuple[str, tuple[str, ...]], pa.Table] = {}
    for name in release.counted:
        rows = pa.table({**{part: places[part] for part in ("level", "geoid")}, "name": pa.array(names, pa.string())})
        for part in release.microdata.tables[name].parts:
            key = part.records, part.attributes
            if key not in counts:
                records = session.register("records", source.read(part.records, [*part.block, *part.attributes]))
                recipe = {"attributes": list(part.attributes), "columns": part.block, "placed": placed}
                counts[key] = session.arrow("retabulation/counts", records=records, **recipe)
            for cell, figures in part.count(counts[key], len(places)).items():
                rows = rows.append_column(cell, figures if isinstance(figures, pa.Array) else pa.array(figures))
        made[release.products[name].table] = store_rows(session, f"made_{name}", rows)
    made[release.products[BLOCKS].table] = (_BLOCKS, {}, {"placed": placed})
    made[release.public(SOURCE)] = store_rows(session, "made_source", pa.table({"checksums": [source.files.checksums]}))
    return made


_PLACES = SQL("retabulation/places", "SELECT DISTINCT level, geoid, number FROM {{ placed }} ORDER BY number")
_BLOCKS = SQL("retabulation/blocks", "SELECT level, geoid, block FROM {{ placed }}")
