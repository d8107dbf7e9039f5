"""Opening the file of a p-table that another tool has written.

`mechanisms.table_builder.reading` knows the two forms. An error names the file, the line, the field, the rule and the
count.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from mechanisms.refusal import RefusedError
from mechanisms.table_builder.p_table import PTable
from mechanisms.table_builder.reading import PTableError, read_ons, read_sdctools

FORMS: Mapping[str, Callable[[str], PTable]] = {"sdctools": read_sdctools, "ons": read_ons}
"""By name: the export of sdcTools' `ptable`, and the CSV of the Office for National Statistics."""

LARGEST = 1 << 28
"""The greatest size of a file in bytes: a hundred times that of the p-table that ONS publishes."""


class PTableFileError(RefusedError):
    """The file of a p-table is missing, cannot be read, or holds none."""


def load_p_table(path: Path, form: str) -> PTable:
    """The p-table in a file.

    Args:
        form: a name in `FORMS`.

    Raises:
        PTableFileError: if the file cannot be read or is not of this form; the message names the file, the line, the
            field and the rule.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise PTableFileError(f"{path}: the file of a p-table has at most {LARGEST:,} bytes")
        return FORMS[form](path.read_text("utf-8-sig"))
    except OSError as error:
        raise PTableFileError(f"{path}: the p-table cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise PTableFileError(f"{path}: the p-table is not UTF-8 text") from None
    except PTableError as error:
        raise PTableFileError(f"{path}: {error}") from None
