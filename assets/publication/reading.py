"""`README.txt` of a publication: what the files are, and lines that read them and keep codes as text.

Codes such as `01` are text. Whatever guesses types reads them as numbers and loses the zero, and some read the code
`NA` as missing. The lines say the type of every text column, and which text marks a missing value.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from assets.publication.package import DataFile
from assets.publication.signature import CHECKSUMS, PUBLIC_KEY, SIGNATURE
from assets.release.published import PublishedTable

README = "README.txt"

_WIDTH = 100


def readme(title: str, description: str, tables: Sequence[PublishedTable], files: Sequence[DataFile]) -> bytes:
    """The text of `README.txt`, in UTF-8.

    Args:
        description: what readers should know about it.
        files: the tables' files, as `write_data_files` returns them.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).resolve().parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "filled": lambda text: fill(text, _WIDTH),
        "python": repr,
        "sql": _sql,
        "r": _r,
        "r_name": _r_name,
    }
    text = environment.get_template("readme.txt").render(
        title=title,
        description=description,
        readable=list(_readable(tables, files)),
        checksums=CHECKSUMS,
        signature=SIGNATURE,
        public_key=PUBLIC_KEY,
    )
    return text.encode()


def _readable(
    tables: Sequence[PublishedTable], files: Sequence[DataFile]
) -> Iterator[tuple[PublishedTable, DataFile, list[str], dict[str, str]]]:
    """Each table with its file to read, its text columns, and the types that pandas must be told."""
    by_name = {table.name: table for table in tables}
    for file in files:
        table = by_name[file.product]
        if file.format == "csv" or table.has_lists:
            texts = [column.name for column in table.columns if column.type == "string"]
            numbers = [column.name for column in table.columns if column.type == "integer" and not column.required]
            yield table, file, texts, dict.fromkeys(texts, "str") | dict.fromkeys(numbers, "Int64")


def _sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _r(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _r_name(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
