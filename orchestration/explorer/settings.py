"""The settings that the launcher gives the explorer's process and its pages: folders, port and confinement."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from resources.statements import Zone

VARIABLE = "EXPLORER_SETTINGS"
"""The environment variable with the settings, as JSON."""
REPLAYS = "replays.json"
"""The file in the temporary folder with the replays that Dagster recorded."""


@dataclass(frozen=True)
class Settings:
    """The settings of one explorer: the deployment's folder, of which only `databases` and `laboratory` can be opened;
    a temporary folder, the only one that it writes to; a folder with GeoJSON files, or ""; folders and files that must
    not be opened, even within allowed ones; names, besides this machine's, under which a proxy serves it; the
    confinement of the process in words, once it holds; and the fingerprint of the deployment's public key, or "" if the
    launcher cannot read the custody. Anyone who can write publications can also exchange the key that lies beside
    them."""

    home: str
    published: str
    temporary: str
    boundaries: str
    left_out: tuple[str, ...]
    port: int
    further_hosts: tuple[str, ...] = ()
    confinement: str = ""
    public_key: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names that requests may use."""
        return ("127.0.0.1", "localhost", *self.further_hosts)

    @property
    def databases(self) -> tuple[Path, ...]:
        """The files of the databases that the explorer reads: the public one and the ledger's."""
        return tuple(Path(self.home) / "warehouse" / zone.database for zone in (Zone.PUBLIC, Zone.LEDGER))

    @property
    def laboratory(self) -> Path:
        """The folder with the results of laboratories, which concern synthetic records."""
        return Path(self.home) / "laboratory"

    def as_text(self) -> str:
        return json.dumps(asdict(self))


def read_settings() -> Settings:
    """The settings of this process. Raises KeyError if the launcher did not start it."""
    settings = json.loads(os.environ[VARIABLE])
    return Settings(**(settings | {field: tuple(settings[field]) for field in ("left_out", "further_hosts")}))
