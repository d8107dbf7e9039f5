"""The names that a deployment gives to datasets, releases, products, columns and source files.

Names become parts of asset keys, of schemas in the databases, and of files and folders. A name that one of these could
not hold, or that Stirred uses itself, is refused when the declaration is loaded.
"""

import os
import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

from assets.release.numbers import shown
from resources.project import PROJECT, leads_to_secrets

LONGEST_NAME = 60
"""The most letters of a name. File systems allow 255 in a file name, and suffixes of Stirred and DuckDB take some."""

LONGEST_COLUMN = 120
"""The most letters of the name of a column, which comes from a file of the user."""

LONGEST_PATH = 4000
LONGEST_FILE = 255
"""The most bytes of a path and of each of its parts, as Linux allows them."""

NO_SOURCE = (
    "the path leads to keys, databases or settings of the deployment or the system, or to hidden files of the user"
)
"""The reason for refusing a path (`leads_to_secrets`)."""

OURS = frozenset({"certificate", "datapackage", "sha256sums", "editions", "readme"})
"""The stems of the files and folders of a publication that are not products, in lowercase."""

COLUMNS_OF_SWAPPED = frozenset(
    {
        *("count", "stratum", "holding_code", "swap_code", "composition", "persons", "unit_key", "household_type"),
        *("estimate", "standard_error", "lower", "upper", "greatest_bias", "cell_number", "count_of_squares"),
        *("sum_held", "sum_of_squares", "greatest_held", "sum_swapped_in", "draw_number"),
    }
)
COLUMNS_OF_COUNTS = frozenset({"draw_order", "table_name", "cell", "count"})
COLUMNS_OF_HYPERCUBES = COLUMNS_OF_COUNTS | {
    *("measured", "estimate", "standard_error", "lower", "upper", "suppressed")
}
"""The names of Stirred's own columns, in lowercase because DuckDB ignores case: in the tables of swapped records, of
counts, and of hypercubes. A release with such tables refuses a dataset's column with one of these names."""

_RESERVED_SCHEMAS = frozenset(
    {
        *("information_schema", "pg_catalog", "main", "temp", "system"),
        *("confidential", "public", "ledger", "preflight", "cef"),
    }
)

_KEY = re.compile(r"[A-Za-z0-9]+")

N = TypeVar("N", bound=str)


def find_repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def can_end_names(keys: Sequence[str]) -> bool:
    """Whether keys of partitions can end the names of tables: ASCII letters and digits that differ in more than case,
    which DuckDB ignores."""
    return all(_KEY.fullmatch(key) for key in keys) and len({key.lower() for key in keys}) == len(keys)


def require_distinct_products(products: list[N]) -> list[N]:
    """The products, unless one is named twice (ValueError)."""
    if repeated := find_repeated(products):
        raise ValueError(f"{', '.join(repeated)}: a product is declared once")
    return products


def is_too_long(path: str) -> bool:
    """Whether a path, or one of its parts, has more bytes than Linux allows."""
    encoded = os.fsencode(path)
    return len(encoded) > LONGEST_PATH or max(map(len, encoded.split(b"/"))) > LONGEST_FILE


def _not_reserved(name: str) -> str:
    if name in _RESERVED_SCHEMAS:
        raise ValueError(f"{name} is a name that the databases, assets or jobs use themselves; choose another one")
    return name


def _not_ours(name: str) -> str:
    if name in OURS:
        raise ValueError(f"{name} is the name of a file or folder that every publication has; choose another one")
    return name


def _possible_path(path: str) -> str:
    if is_too_long(path):
        raise ValueError(f"a path has at most {LONGEST_PATH} bytes, and each part of it {LONGEST_FILE}")
    if leads_to_secrets(PROJECT / path):
        raise ValueError(NO_SOURCE)
    return path


def _possible_column(name: str) -> str:
    if not name:
        raise ValueError("a column's name is not empty")
    if len(name) > LONGEST_COLUMN:
        raise ValueError(f"a column's name has at most {LONGEST_COLUMN} letters, and {shown(name)} has {len(name)}")
    return name


_NAME, _NOUN = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", r"^\w[\w '’.-]*$"
IN_WORDS = {
    _NAME: "lowercase letters, digits and single underscores, starting with a letter",
    r"^[0-9]{2}$": "two digits, such as 06",
    _NOUN: "letters, digits, spaces, apostrophes, points and hyphens, starting with a letter or digit",
}
"""By pattern, how a name is written, for messages."""

Name = Annotated[str, Field(pattern=_NAME, max_length=LONGEST_NAME)]
"""Lowercase letters, digits and single underscores, starting with a letter; so two underscores separate names."""

DatasetName = Annotated[
    Name,
    AfterValidator(_not_reserved),
    Field(description="The dataset's name: lowercase letters, digits and single underscores, starting with a letter."),
]

ReleaseName = Annotated[
    Name,
    AfterValidator(_not_ours),
    Field(description="The release's name: lowercase letters, digits and single underscores, starting with a letter."),
]

ProductName = Annotated[
    Name,
    AfterValidator(_not_ours),
    Field(description="The product's name, which is part of its file names."),
]

Noun = Annotated[str, Field(pattern=_NOUN, max_length=LONGEST_NAME)]
"""The word for records in the middle of sentences: letters and digits, with spaces, hyphens and the like."""

ColumnName = Annotated[str, AfterValidator(_possible_column)]

SourcePath = Annotated[str, Field(min_length=1), AfterValidator(_possible_path)]
"""The path of a source file, before its template variables are filled in."""
