"""Where the code lies, and the folder of the deployment: its declarations, and unless the environment says otherwise
its databases, keys and publications. In a checkout, both are the checkout. Nothing heavy is imported here."""

import os
from collections.abc import Sequence
from pathlib import Path

CODE = Path(__file__).resolve().parents[1]
"""The folder of the layers: the checkout, or `stirred` among the installed packages."""

INSTALLED = __name__ != "resources.project"
"""Whether the layers are parts of the installed package `stirred` (`deploy/wheel_layout.py`)."""

IMPORTED_FROM = CODE.parent if INSTALLED else CODE
"""The entry of Python's path from which the layers are imported."""

PROJECT = Path(os.environ.get("STIRRED_PROJECT") or (Path.cwd() if INSTALLED else CODE)).absolute()
"""The deployment's folder: what `STIRRED_PROJECT` names, or the checkout, or without one the current folder."""

DECLARATIONS = PROJECT / "orchestration" / "defs"
"""The folder of the deployment's declarations."""

NAMES = ("defs.yaml", "defs.yml", "component.yaml")
"""The names of the files that Dagster reads declarations from."""


def deployment_folders(project: Path = PROJECT) -> tuple[Path, Path]:
    """The folder of databases and keys, and the folder of publications; by default, in the folder of the project."""
    home = os.environ.get("STIRRED_HOME", project / "var")
    published = os.environ.get("STIRRED_PUBLISHED", project / "published")
    return Path(home).absolute(), Path(published).absolute()


def list_files(folder: Path, names: Sequence[str] = NAMES) -> list[Path]:
    """The files of some names in a folder and below it, through symbolic links too, as Dagster reads them."""
    found = (Path(top, file) for top, _, files in os.walk(folder, followlinks=True) for file in files)
    return sorted(path for path in found if any(path.match(name) for name in names))
