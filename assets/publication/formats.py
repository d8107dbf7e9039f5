"""The files of a publication in the formats that a release declares besides CSV and Parquet."""

from collections.abc import Sequence
from pathlib import Path

from assets.publication.cube import Cube, Heading, UnfitTableError, make_cube
from assets.publication.json_stat import write_json_stat
from assets.publication.package import DataFile, describe_file
from assets.publication.px import write_px
from assets.publication.sdmx import write_sdmx
from assets.release.published import PublishedTable
from assets.release.release import Format
from resources.warehouse import Session

WORDS = {Format.SDMX: "SDMX", Format.PX: "PX", Format.JSON_STAT: "JSON-stat"}


def write_cubes(
    session: Session, folder: Path, tables: Sequence[PublishedTable], heading: Heading
) -> tuple[tuple[DataFile, ...], tuple[str, ...]]:
    """Write each table with figures in the formats of the release, and read the files back.

    Returns:
        The files, and a sentence for each file left out because it would be too large, or have no cells.

    Raises:
        ValueError: if the dimensions of a table do not identify its rows, or a file does not read back as written.
        WarehouseError: if a statement fails.
    """
    files: list[DataFile] = []
    left_out: list[str] = []
    for table in tables:
        if not table.is_cube:
            continue
        cube: Cube | UnfitTableError
        try:
            cube = make_cube(session, table)
        except UnfitTableError as error:
            cube = error
        for format_ in heading.release.formats:
            try:
                if isinstance(cube, UnfitTableError):
                    raise cube
                paths = _write(session, folder, cube, heading, format_)
                files += [describe_file(table, path, cube.rows, None) for path in paths]
            except UnfitTableError as error:
                left_out.append(f"{table.name} is not there as {WORDS[format_]}: {error}.")
    return tuple(files), tuple(left_out)


def _write(session: Session, folder: Path, cube: Cube, heading: Heading, format_: Format) -> list[Path]:
    if format_ is Format.SDMX:
        return write_sdmx(session, folder, cube, heading)
    return [(write_px if format_ is Format.PX else write_json_stat)(session, folder, cube, heading)]
