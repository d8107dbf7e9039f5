"""The explorer's process, `python -m orchestration.explorer.process`: confine it, then serve the pages with Streamlit.

Before the process is confined, it imports only the standard library and modules without threads. Streamlit looks for
its settings files in the temporary folder, which has none, so that no user's settings can weaken the confinement.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from orchestration.explorer.settings import VARIABLE, Settings, read_settings
from resources.confinement import SYSTEM, confine, end_with_parent, exclude
from resources.project import CODE, DECLARATIONS

APP, SERVER = (Path(__file__).with_name(name) for name in ("app.py", "server.py"))
DOCUMENTATION = CODE / "docs"
COLORS = {
    "light": ("#1f5a8c", "#b35900", "#2e7d32", "#7b3f99", "#a61b3c", "#5c5c5c", "#00838f", "#8d6e00"),
    "dark": ("#6cb0e8", "#f0a04b", "#7cc785", "#c89be0", "#f28ba2", "#b4b4b4", "#4fc3cf", "#d4b548"),
}
"""The colors of charts by theme, from which the browser chooses. Each is legible as a label."""
PROGRAMS = [
    *(CODE / name for name in ("orchestration", "assets", "mechanisms", "resources", "sql", "docs", "pyproject.toml")),
    DECLARATIONS,
]


def main() -> None:
    """Confine this process and serve the pages until it is ended."""
    end_with_parent()
    settings = read_settings()
    left_out = [Path(path) for path in settings.left_out]
    confinement = confine(list_readable(settings), [Path(settings.temporary)], left_out, settings.port)
    os.environ[VARIABLE] = replace(settings, confinement=confinement).as_text()
    # Imported only now, because it starts threads.
    from streamlit.web.cli import main as streamlit

    streamlit(["run", str(SERVER), *list_flags(settings)], standalone_mode=True)


def list_readable(settings: Settings) -> Sequence[Path]:
    boundaries = [settings.boundaries] if settings.boundaries else []
    others = [Path(path) for path in (*SYSTEM, sys.prefix, sys.base_prefix, *boundaries)]
    logs = [database.with_name(f"{database.name}.wal") for database in settings.databases]
    allowed = exclude([*others, *PROGRAMS], [Path(path) for path in settings.left_out])
    return [*allowed, Path(settings.published), settings.laboratory, *settings.databases, *logs]


def list_flags(settings: Settings) -> list[str]:
    """Streamlit's settings: this machine's own address, no way to deploy, and no fetching, watching or reporting."""
    flags = {
        "server.address": "127.0.0.1",
        "server.port": str(settings.port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "server.runOnSave": "false",
        "server.enableStaticServing": "false",
        "server.enableAgentApi": "false",
        "server.enableCORS": "true",
        "server.enableXsrfProtection": "true",
        "server.showEmailPrompt": "false",
        "browser.gatherUsageStats": "false",
        "browser.serverAddress": "127.0.0.1",
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "client.showErrorLinks": "false",
        "client.showSidebarNavigation": "true",
        "runner.magicEnabled": "false",
        "global.developmentMode": "false",
        "logger.level": "warning",
        "theme.light.primaryColor": COLORS["light"][0],
        "theme.dark.primaryColor": COLORS["dark"][0],
        # Streamlit draws the headings of tables in a paler shade of this color; with a lighter one, they would be hard
        # to read.
        "theme.light.textColor": "#000000",
    }
    flags |= {f"theme.{theme}.chartCategoricalColors": json.dumps(colors) for theme, colors in COLORS.items()}
    hosts = [part for host in settings.hosts for part in ("--server.allowedHosts", host)]
    return [*(part for name, value in flags.items() for part in (f"--{name}", value)), *hosts]


if __name__ == "__main__":
    main()
