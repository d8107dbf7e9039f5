"""The folder of the code, and the folder of the deployment with its declarations and, unless the environment sets other
folders, its databases, keys and publications. In a checkout, both are the checkout. This module imports only light
modules."""

import os
import pwd
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CODE = Path(__file__).resolve().parents[1]
"""The folder of the layers: the checkout, or `stirred` among the installed packages."""

INSTALLED = __name__ != "resources.project"
"""Whether the layers are parts of the installed package `stirred` (`deploy/wheel_layout.py`)."""

IMPORTED_FROM = CODE.parent if INSTALLED else CODE
"""The entry of Python's path from which the layers are imported."""

PROJECT = Path(os.environ.get("STIRRED_PROJECT") or (Path.cwd() if INSTALLED else CODE)).absolute()
"""The deployment's folder: `STIRRED_PROJECT`, or the checkout, or without a checkout the current folder."""

DECLARATIONS = PROJECT / "orchestration" / "defs"
"""The folder of the deployment's declarations."""

NAMES = ("defs.yaml", "defs.yml", "component.yaml")
"""The names of the files that Dagster reads declarations from."""

OF_SECRETS = re.compile(
    "(STIRRED|AWS|PG|DAGSTER)[A-Z_0-9]*|.*(KEY|SECRET|TOKEN|PASSWORD|PASSPHRASE|CREDENTIAL).*", re.I
)
"""Variables with such names have keys and passwords, or the paths of files with them."""

_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/run/secrets")


def deployment_folders(project: Path = PROJECT) -> tuple[Path, Path]:
    """The folder of databases and keys, and the folder of publications; by default, in the folder of the project."""
    home = os.environ.get("STIRRED_HOME", project / "var")
    published = os.environ.get("STIRRED_PUBLISHED", project / "published")
    return Path(home).absolute(), Path(published).absolute()


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can access. Whatever the umask, nobody else can write to missing folders above
    it, which are made too, such as `var`: they could put another folder in its place."""
    for above in reversed(folder.absolute().parents):
        above.mkdir(exist_ok=True, mode=0o755)
    folder.mkdir(exist_ok=True, mode=0o700)


def list_files(folder: Path, names: Sequence[str] = NAMES) -> list[Path]:
    """The files with certain names in and below a folder, also through symbolic links, as Dagster reads them."""
    found = (Path(top, file) for top, _, files in os.walk(folder, followlinks=True) for file in files)
    return sorted(path for path in found if any(path.match(name) for name in names))


def leads_to_secrets(path: Path) -> bool:
    """Whether a path leads, also through links, to a file that no declaration may name: keys and databases of the
    deployment, Dagster's settings and logs, a file that a variable of secrets names, the system's files about its
    processes and settings, or a hidden file of the user, such as `~/.pgpass`.

    A source is compared with its declaration, and the number of values that do not fit is shown. With a key file as the
    source, a few declarations would reveal the key.
    """
    real, (home, _) = Path(os.path.realpath(path)), deployment_folders()
    dagster = Path(os.environ.get("DAGSTER_HOME") or home / "dagster")
    own = [home / "custody", home / "warehouse", *(dagster / name for name in ("dagster.yaml", "history", "storage"))]
    lakes = [os.environ.get(name) for name in ("STIRRED_LAKE_CONFIDENTIAL", "STIRRED_LAKE_PUBLIC")]
    if any(real.is_relative_to(Path(folder).resolve()) for folder in (*own, *lakes, *_SYSTEM) if folder):
        return True
    named = (value for name, value in os.environ.items() if value and OF_SECRETS.fullmatch(name))
    if any(_is_same_file(real, Path(value)) for value in named):
        return True
    inside = [str(real.relative_to(user)) for user in _list_homes() if real.is_relative_to(user) and real != user]
    hidden = any(name.startswith(".") for name in inside)
    return hidden and not real.is_relative_to(PROJECT)


def _list_homes() -> list[Path]:
    """The user's home by the environment, which has none for some services, and by the system."""
    homes = [os.environ.get("HOME", "")]
    with suppress(KeyError):
        homes.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return [Path(home).resolve() for home in homes if home]


def _is_same_file(path: Path, other: Path) -> bool:
    try:
        return other.is_file() and other.samefile(path)
    except OSError:
        # One of the files is missing, or the variable has a key, not a path.
        return False
