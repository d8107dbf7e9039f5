"""Deployments that tests share: the files of a first run are made once for all test processes, and copied.

Only results of source files, declarations and stages are shared: a test that patches code, or needs the events of a
run, runs the stages itself.
"""

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from os import environ
from pathlib import Path
from tempfile import mkdtemp

VARIABLE = "STIRRED_TEST_TEMPLATES"
"""The environment variable with the folder of the templates, for all processes of a session."""

MASTER_KEY = "STIRRED_TEST_MASTER_KEY"
"""The environment variable with the master key of test deployments, if a test sets one."""


@contextmanager
def template_folder() -> Iterator[None]:
    """Keep templates as long as this context; processes that start within it share them."""
    environ[VARIABLE] = mkdtemp(prefix="stirred-templates-")
    try:
        yield
    finally:
        shutil.rmtree(environ.pop(VARIABLE), ignore_errors=True)


def reuse(root: Path, declared: str, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Copy the files of `make` into a folder that has only source files, and return its result, if it ran before.

    Args:
        root: the folder; all files that `make` writes are below it.
        declared: the other inputs of the outcome besides the files and a given master key; it may name the folder.
        make: runs if no process of this session ran it with the same files and declarations.
    """
    if VARIABLE not in environ:
        return make()
    template = Path(environ[VARIABLE]) / _name(root, declared)
    with _lock(template.with_suffix(".lock")):
        returned = template / "returned.json"
        if not returned.exists():
            made = make()
            shutil.copytree(root, template / "root", symlinks=True)
            returned.write_text(json.dumps(made))
            return made
    shutil.copytree(template / "root", root, symlinks=True, dirs_exist_ok=True)
    found: dict[str, str] = json.loads(returned.read_text())
    return found


def _name(root: Path, declared: str) -> str:
    digest = sha256(declared.replace(str(root), "").encode())
    # A custody that was made with another master key would not open.
    digest.update(environ.get(MASTER_KEY, "").encode())
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        digest.update(f"\n{path.relative_to(root)}\n".encode() + sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
