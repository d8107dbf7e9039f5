"""Where the code lies, and the folder of the deployment: its declarations, and unless the environment says otherwise
its databases, keys and publications. In a checkout, both are the checkout. Nothing heavy is imported here."""

import os
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
