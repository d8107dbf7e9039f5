"""The build backend: setuptools, but a wheel has everything inside the package `stirred`.

In a checkout the layers are packages of their own, as Dagster's declarations and commands name them. Installed so, they
would claim names such as `assets`, which other projects have too. A wheel is therefore built from a copy in which the
layers lie in `stirred`, and their absolute imports are written so: `from assets.texts import show_lines` becomes
`from stirred.assets.texts import show_lines`. Nothing else is rewritten. What names a module in another way starts from
the name of its own package, and `resources.project` knows whether it is installed.
"""

import ast
import shutil
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import build_meta

LAYERS = ("orchestration", "assets", "resources", "mechanisms", "sql")
SETTINGS = ("dagster.yaml", "deploy/dagster.yaml")
"""What the code reads beside the layers."""

# An installation that can be edited is the checkout itself.
build_editable, build_sdist = build_meta.build_editable, build_meta.build_sdist
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the wheel into a folder, and return its name. Metadata are made anew for the copy."""
    to = str(Path(wheel_directory).absolute())
    with TemporaryDirectory() as folder:
        lay_out(Path.cwd(), Path(folder))
        with chdir(folder):
            return build_meta.build_wheel(to, config_settings)


def lay_out(project: Path, folder: Path) -> None:
    """Copy a project's packages, settings and metadata into an empty folder, as a wheel has them."""
    compiled = shutil.ignore_patterns("__pycache__", "*.pyc")
    package = folder / "stirred"
    shutil.copytree(project / "stirred", package, ignore=compiled)
    for layer in LAYERS:
        shutil.copytree(project / layer, package / layer, ignore=compiled)
    for name in SETTINGS:
        (package / name).parent.mkdir(exist_ok=True)
        shutil.copy2(project / name, package / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(project / name, folder / name)
    for path in package.rglob("*.py"):
        path.write_text(rewrite_imports(path.read_text("utf-8")), "utf-8")


def rewrite_imports(source: str) -> str:
    """A module whose imports from the layers are from `stirred`. Lines keep their numbers.

    Raises ValueError for `import assets.texts`, which would bind the name of a layer.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and str(node.module).partition(".")[0] in LAYERS:
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line.replace(f"from {node.module}", f"from stirred.{node.module}", 1)
        if isinstance(node, ast.Import) and any(alias.name.partition(".")[0] in LAYERS for alias in node.names):
            raise ValueError(f"line {node.lineno}: import names from a layer, and no layer")
    return "".join(lines)
