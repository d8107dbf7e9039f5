"""Dagster's UI of this machine: `dg dev` with the webserver of `webserver`, in a checkout."""

import sys
from collections.abc import Sequence
from typing import Any

from dagster_shared import ipc

from resources.faults import forbid_core_files

DAGSTERS = "dagster_webserver"
"""The module that Dagster's command runs as its webserver."""


def main() -> None:
    # The variable with the master key, if there is one, is in the memory of webserver and daemon too.
    forbid_core_files()
    open_process = ipc.open_ipc_subprocess

    def open_own(command: Sequence[str], **options: Any) -> Any:
        own = [f"{__package__}.webserver" if part == DAGSTERS else part for part in command]
        return open_process(own, **options)

    ipc.open_ipc_subprocess = open_own  # type: ignore[assignment]
    # Only now: Dagster's command takes that function by its name.
    from dagster_dg_cli.cli import main as dg

    sys.argv = ["dg", "dev", *sys.argv[1:]]
    dg()


if __name__ == "__main__":
    main()
