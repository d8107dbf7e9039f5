"""`README.txt` of a publication: what the files are, and lines that read them and keep codes as text.

Codes such as `01` are text. Whatever guesses types reads them as numbers and loses the zero, and some read the code
`NA` as missing. The lines say the type of every text column, and which text marks a missing value.
"""

from collections.abc import Sequence
from textwrap import fill

from assets.publication.package import DataFile
from assets.publication.signature import CHECKSUMS, PUBLIC_KEY, SIGNATURE
from assets.release.published import PublishedTable

README = "README.txt"

_WIDTH = 100


def readme(title: str, description: str, tables: Sequence[PublishedTable], files: Sequence[DataFile]) -> bytes:
    """The text of `README.txt`, in UTF-8.

    Args:
        title: the title of the publication.
        description: what readers should know about it.
        tables: the published tables.
        files: their files, as `write_data_files` returns them.
    """
    parts = [title, "=" * len(title), "", *([fill(description, _WIDTH), ""] if description else [])]
    parts += [
        fill(
            "certificate.html says how the records behind these files were protected, what that guarantees and how "
            "accurate the files are. datapackage.json describes every column and every code. Every table is there as "
            "CSV and as Parquet; Parquet keeps the types, so that it needs no further words. In CSV, say which columns "
            "are text, as below: codes such as 01 lose their zero otherwise.",
            _WIDTH,
        ),
        "",
        "Check that nothing was altered, with the public key of the office:",
        f"  sha256sum -c {CHECKSUMS}",
        f"  openssl pkeyutl -verify -rawin -pubin -inkey ../../{PUBLIC_KEY} -sigfile {SIGNATURE} -in {CHECKSUMS}",
        "",
    ]
    by_name = {table.name: table for table in tables}
    for file in files:
        table = by_name[file.product]
        if file.format == "csv":
            parts += [*_heading(table), *_lines(table, file)]
        elif table.has_lists:
            parts += [*_heading(table), *_lines_of_parquet(file)]
    return ("\n".join(parts).rstrip() + "\n").encode()


def _heading(table: PublishedTable) -> list[str]:
    words = [fill(table.description, _WIDTH)] if table.description else []
    return [table.title, "-" * len(table.title), *words, ""]


def _lines(table: PublishedTable, file: DataFile) -> list[str]:
    texts = [column.name for column in table.columns if column.type == "string"]
    missing = file.missing or ""
    separator = "" if table.delimiter == "," else f", sep={_python(table.delimiter)}"
    kinds = dict.fromkeys(texts, "str") | {
        column.name: "Int64" for column in table.columns if column.type == "integer" and not column.required
    }
    types = "{" + ", ".join(f"{_python(name)}: '{kind}'" for name, kind in kinds.items()) + "}"
    duckdb = ", ".join(f"{_sql(name)}: 'VARCHAR'" for name in texts)
    classes = ", ".join(f"{_r(name)} = 'character'" for name in texts)
    return [
        "pandas:",
        f"  pandas.read_csv({_python(file.path)}{separator}, dtype={types}, keep_default_na=False, "
        f"na_values=[{_python(missing)}])",
        "DuckDB:",
        f"  SELECT * FROM read_csv({_sql(file.path)}, delim={_sql(table.delimiter)}, quote='\"', "
        f"escape='\"', header=true, "
        f"nullstr={_sql(missing)}{f', types={{{duckdb}}}' if texts else ''})",
        "R:",
        f"  read.csv({_r_text(file.path)}, sep = {_r_text(table.delimiter)}, check.names = FALSE, "
        f"na.strings = {_r_text(missing)}{f', colClasses = c({classes})' if texts else ''})",
        "",
    ]


def _lines_of_parquet(file: DataFile) -> list[str]:
    return [
        "pandas:",
        f"  pandas.read_parquet({_python(file.path)})",
        "DuckDB:",
        f"  SELECT * FROM {_sql(file.path)}",
        "R (package arrow):",
        f"  arrow::read_parquet({_r_text(file.path)})",
        "",
    ]


def _python(text: str) -> str:
    return repr(text)


def _sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _r(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _r_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
