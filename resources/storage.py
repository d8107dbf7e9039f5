"""How a zone of the warehouse is kept: the interface that `warehouse` uses, and what both kinds of storage share.

`database_file` keeps a zone in a DuckDB file, and `lake` in Parquet files with a catalog in PostgreSQL. A stage does
not notice which it is: a session attaches either under the zone's name, and runs the same statements on it.
"""

import stat
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import duckdb

from mechanisms.refusal import RefusedError
from resources.statements import SQL, Fragment, Zone, quote_literal, render

ISOLATED: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
"""DuckDB loads no extension by itself. All come from `signed_extension`."""

LOAD = SQL("warehouse/load", "LOAD {{ extension }}")
ATTACH = SQL("warehouse/attach", "ATTACH {{ path }} AS {{ alias }}{% if read_only %} (READ_ONLY){% endif %}")
DETACH = SQL("warehouse/detach", "DETACH {{ alias }}")

OpenSession = Callable[..., AbstractContextManager[Any]]


class WarehouseError(RefusedError):
    """A statement or a file of the warehouse failed. The message never contains confidential data."""


class NothingWrittenError(WarehouseError):
    """A zone was to be read to which nothing has been written."""


@dataclass(frozen=True)
class Removal:
    """What a compaction removed for good.

    Attributes:
        size: what they occupied, in bytes, as far as it is known.
    """

    files: int
    size: int


class Storage(Protocol):
    """How one zone is kept."""

    @property
    def zone(self) -> Zone:
        """The zone."""

    @property
    def name(self) -> str:
        """How errors name the storage."""

    @property
    def extensions(self) -> Collection[str]:
        """The extensions of DuckDB that the storage needs, in the order of loading."""

    @property
    def folders(self) -> Collection[str]:
        """The folders that a session must reach after it attached the zone."""

    @property
    def on_network(self) -> bool:
        """Whether these folders are on a server."""

    @property
    def shared(self) -> bool:
        """Whether others can write the zone while a session that writes it is open."""

    def holds(self, session: OpenSession) -> bool:
        """Whether anything has been written to the zone."""

    def attach(self, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        """Attach the zone under its name. If it is written, it is created first, if need be.

        Raises:
            WarehouseError: if it cannot be opened or created, or is open to others than its owner.
        """

    def compact(self, session: OpenSession, age: timedelta) -> Removal:
        """Remove what was replaced or deleted longer than `age` ago."""


@cache
def signed_extension(name: str) -> Fragment:
    """The path of an extension that DuckDB has loaded from its wheel in this process, as a literal.

    DuckDB checks the extension's signature here, once per process. That takes 50 ms, because it reads the whole file.
    Sessions then find the library in memory and do not check it again.

    Args:
        name: such as `httpfs`.

    Raises:
        WarehouseError: if the extension is not installed for this version of DuckDB.
        duckdb.Error: if DuckDB refuses it.
    """
    try:
        folder = files(f"duckdb_extension_{name}") / "extensions" / f"v{duckdb.__version__}"
    except ModuleNotFoundError:
        raise WarehouseError(
            f"DuckDB's extension {name} is not installed. Install Stirred with its extra cluster: pip install "
            "'stirred[cluster]'"
        ) from None
    path = quote_literal(folder / f"{name}.duckdb_extension")
    with closing(duckdb.connect(config=ISOLATED)) as connection:
        connection.execute(render(LOAD, {"extension": path}))
    return path


def refuse_exposed(what: str, path: Path, remedy: str) -> None:
    """Refuse a folder or a file that others than its owner have any access to. Raises WarehouseError if so."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise WarehouseError(f"{what} {path} must be closed to all but its owner ({remedy}); its mode is {mode:04o}")
