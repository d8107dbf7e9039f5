"""Dagster's UI on this machine: `dg dev` with the webserver of `webserver`, in a checkout."""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from filecmp import cmp
from pathlib import Path
from typing import Any

from dagster_shared import ipc

from resources.faults import forbid_core_files

DAGSTERS = "dagster_webserver"
"""The module that Dagster's command runs as its webserver."""
SETTINGS = "dagster.yaml"


def main() -> None:
    # The variable with the master key, if set, is also in the memory of webserver and daemon.
    forbid_core_files()
    # A shell has commands in the background ignore interrupts, and Dagster treats SIGTERM as an interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _prevent_wrong_warnings()
    open_process = ipc.open_ipc_subprocess

    def open_own(command: Sequence[str], **options: Any) -> Any:
        own = [f"{__package__}.webserver" if part == DAGSTERS else part for part in command]
        return open_process(own, **options)

    ipc.open_ipc_subprocess = open_own  # type: ignore[assignment]
    # Imported only now, because Dagster's command imports that function by name.
    from dagster_dg_cli.cli import main as dg

    sys.argv = ["dg", "dev", *sys.argv[1:]]
    dg()


def _prevent_wrong_warnings() -> None:
    """Prevent two wrong warnings of Dagster's command: that the environment is not activated, although the command runs
    in it, and that the settings in the current folder are not used, although the instance's are a copy of them."""
    if sys.prefix != sys.base_prefix:
        os.environ["VIRTUAL_ENV"] = sys.prefix
    own, used = Path(SETTINGS), Path(os.environ.get("DAGSTER_HOME", ""), SETTINGS)
    if own.exists() and used.exists() and cmp(own, used, shallow=False):
        logging.getLogger("dagster").addFilter(
            lambda record: not record.getMessage().startswith("Found a dagster instance configuration")
        )


if __name__ == "__main__":
    main()
