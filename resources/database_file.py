"""A zone kept in a DuckDB file, which one process at a time can write.

This module creates, attaches and rewrites such files. Only their owner can access them.
"""

import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from secrets import token_hex

import duckdb

from resources.keyfiles import flush_folder
from resources.statements import SQL, Zone, quote, quote_literal, render
from resources.storage import ATTACH, DETACH, NothingWrittenError, OpenSession, Removal, WarehouseError, refuse_exposed

_CHECKPOINT = SQL("warehouse/checkpoint", "CHECKPOINT {{ zone }}")

_REMEDY = "Nothing was changed. If the file is damaged, restore it (docs/how-to/back-up.md)"


@dataclass(frozen=True)
class DatabaseFile:
    """The file of one zone.

    Attributes:
        patience: the number of seconds to wait for a file in use by another process.
    """

    zone: Zone
    path: Path
    patience: float

    extensions: Collection[str] = ()
    folders: Collection[str] = ()
    on_network: bool = False
    shared: bool = False

    @property
    def name(self) -> str:
        return self.path.name

    def holds(self, session: OpenSession) -> bool:
        return self.path.exists()

    def attach(self, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        """Attach the file, and create it first if it is to be written. Waits for a process that holds it.

        Raises:
            WarehouseError: if it is missing or cannot be read or created; if users other than its owner have any access
                to it; or if another process holds it for longer than `patience`.
        """
        if not read_only:
            self.create()
        path = self.path
        if read_only and not path.exists():
            raise NothingWrittenError(
                f"nothing has been written to the {self.zone.value} zone yet ({path.name} is missing)"
            )
        for file in (path, path.with_name(f"{path.name}.wal")):
            with suppress(FileNotFoundError):
                refuse_exposed("database file", file, "chmod 600")
        alias = quote(self.zone.value)
        text = render(ATTACH, {"path": quote_literal(path), "alias": alias, "read_only": read_only})
        deadline = time.monotonic() + self.patience
        while True:
            try:
                before = path.stat().st_ino
                connection.execute(text)
                if path.stat().st_ino == before:
                    return
                # `compact` replaced the file after it was opened here.
                connection.execute(render(DETACH, {"alias": alias}))
            except duckdb.Error as error:
                held = "lock on file" in str(error) or "Unique file handle conflict" in str(error)
                if not held or time.monotonic() > deadline:
                    reason = (
                        f"another process holds it for over {self.patience:g} s"
                        if held
                        else f"{str(error).splitlines()[0]}. {_REMEDY}"
                    )
                    raise WarehouseError(f"cannot open {path.name}: {reason}") from None
            time.sleep(0.05)

    def create(self) -> None:
        """Create the file atomically: DuckDB cannot open a file whose creation was interrupted.

        Afterwards no temporary file is left, not even one of a process that was killed or found the disk full.
        """
        path = self.path
        try:
            if not path.exists():
                fresh = path.with_name(f".{path.name}.{token_hex(8)}")
                duckdb.connect(str(fresh)).close()
                # Not found: the process that was first has removed it already.
                with suppress(FileExistsError, FileNotFoundError):
                    path.hardlink_to(fresh)
            for left in path.parent.glob(f".{path.name}.*"):
                left.unlink(missing_ok=True)
        except (duckdb.Error, OSError) as error:
            raise WarehouseError(f"{path} cannot be created: {error}") from None

    def compact(self, session: OpenSession, age: timedelta) -> Removal:
        """Rewrite the file, so that nothing is left in it, or in its log, of what was deleted, however long ago.

        The new file takes the place of the old one in one step. Whoever reads the old one may go on; writers wait. If
        the process is killed, either file is in place, and a copy may be left that the next call overwrites. A file
        system may keep blocks of a deleted file; only an encrypted or overwritten disk does not.
        """
        path = self.path
        # Not like the temporary files of `create`, which removes those of others.
        fresh = path.with_name(f".compacted-{path.name}")
        while True:
            with session(writes=self.zone) as writing:
                writing.run(_CHECKPOINT, zone=quote(self.zone.value))
            with session(reads=[self.zone], folder=path.parent) as reading:
                if path.with_name(f"{path.name}.wal").exists():
                    # Another process wrote in between, and was killed. Its log does not belong to the new file.
                    continue
                fresh.unlink(missing_ok=True)
                reading.copy_zone(self.zone, fresh)
                freed = path.stat().st_size - fresh.stat().st_size
                fresh.replace(path)
                flush_folder(path.parent)
                return Removal(1, max(0, freed))
