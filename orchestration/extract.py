"""The files given to `stirred new dataset`, in the form in which they are declared: a codebook and its data file are
found beside each other, and a hierarchical extract has two tables in one file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assets.cef.extracts import HOUSEHOLD, Codebook, LinesOfText, Variable, read_codebook
from assets.cef.profile import Profile
from assets.cef.readers import FOLDER, SUFFIXES, DescribedFile, describe_file
from assets.cef.validation import Finding, SourceError
from assets.release.dataset import Reader

_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True)
class DeclaredFile:
    """A file of one table.

    Attributes:
        described: how the file is read, from the file or its codebook; None for CSV and Parquet.
        variables: known properties of its columns.
        codebook: the codebook that describes it; None for all files but fixed-width text.
    """

    path: Path
    reader: Reader
    described: DescribedFile | None
    variables: Mapping[str, Variable]
    codebook: Path | None = None
    record_type: str = ""


def find_files(given: Path) -> Sequence[DeclaredFile]:
    """The tables of a file: one, or units and persons of a hierarchical extract.

    Args:
        given: a data file, or the codebook beside it.

    Raises SourceError if a file is missing or unknown, or the codebook of another extract describes it.
    """
    if given.is_dir():
        raise SourceError([Finding(given.name, f"{FOLDER}, or name one part and then declare partitions")])
    path, codebook = given, given.with_name(f"{_find_stem(given)}.xml")
    if given.suffix == ".xml":
        codebook, path = given, _find_data(given, read_codebook(given))
    try:
        book = read_codebook(codebook) if codebook.is_file() else None
    except SourceError:
        # Beside a file that needs no codebook, it may be any XML file.
        if given == codebook or _find_suffix(path) == ".dat":
            raise
        book = None
    if book is not None and book.data_file.split(".")[0] != _find_stem(path):
        raise SourceError([Finding(codebook.name, f"describes another extract than {path.name}")])
    if _find_suffix(path) != ".dat":
        reader = SUFFIXES.get(_find_suffix(path))
        if reader is None:
            rule = (
                f"its suffix is not one of .xml, .dat, {', '.join(SUFFIXES)}; unpack an archive, save a spreadsheet's "
                "sheet as CSV, and write other formats as Parquet or CSV"
            )
            raise SourceError([Finding(path.name, rule)])
        described = describe_file(reader, path)
        variables = {**(described.variables if described else {}), **(book.fields if book else {})}
        return [DeclaredFile(path, reader, described, variables)]
    if book is None:
        raise SourceError([Finding(path.name, f"fixed-width text needs its codebook: there is no {codebook.name}")])
    types = book.tables if book.type_field else book.record_types
    if not types:
        raise SourceError([Finding(codebook.name, "has no type of records for households or persons")])
    files = []
    for record_type in types:
        described = describe_file(Reader.DDI, path, codebook, record_type)
        files.append(DeclaredFile(path, Reader.DDI, described, book.fields, codebook, record_type))
    return files


def select_columns(file: DeclaredFile, contents: Profile) -> Profile:
    """The columns of a table of a hierarchical extract, without the record type and the codebook's household key for
    households, and without the shared columns for persons."""
    lines = file.described
    if not isinstance(lines, LinesOfText) or HOUSEHOLD not in lines.variables:
        return contents
    of_units = file.record_type == lines.book.tables[0]
    out = (lines.book.type_field, lines.book.key) if of_units else lines.book.shared
    return replace(contents, columns=[column for column in contents.columns if column.name not in out])


def _find_data(codebook: Path, book: Codebook) -> Path:
    stem = book.data_file.split(".")[0]
    known = (".dat", *SUFFIXES)
    found = sorted(
        path for path in codebook.parent.iterdir() if _find_stem(path) == stem and _find_suffix(path) in known
    )
    if not found:
        raise SourceError(
            [Finding(codebook.name, f"there is no data file {stem}.dat.gz, .dat, .csv or the like beside it")]
        )
    if len(found) > 1:
        rule = f"more than one data file beside it: {', '.join(path.name for path in found)}; name one of them instead"
        raise SourceError([Finding(codebook.name, rule)])
    return found[0]


def _find_stem(path: Path) -> str:
    return _without_compression(path).stem


def _find_suffix(path: Path) -> str:
    return _without_compression(path).suffix.lower()


def _without_compression(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in _COMPRESSED else path
