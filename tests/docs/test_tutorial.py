"""The tutorial, command by command, in a copy of the project, on the page's own file and with its numbers."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.pictures.__main__ import FOLDER
from orchestration.cli import UNAUTHORIZED

ROOT = FOLDER.parents[1]
PAGE = ROOT / "docs" / "tutorial" / "own-data.md"
PARTS = (
    "assets",
    "mechanisms",
    "orchestration",
    "resources",
    "sql",
    "dagster.yaml",
    "pyproject.toml",
    "workspace.yaml",
)

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
DRAW = re.compile(r"\b[0-9a-f]{12,}\b")


def blocks() -> list[tuple[str, str]]:
    """The blocks of the page in their order: sh, yaml or text, each with its content."""
    return BLOCK.findall(PAGE.read_text("utf-8"))


def commands(block: str) -> Iterator[str]:
    """The commands of a block: its lines, except that a document in it belongs to its command."""
    lines = iter(block.splitlines())
    for line in lines:
        if "<<'END'" in line:
            line = "\n".join([line, *iter(lambda: next(lines), "END"), "END"])
        yield line


def shape(line: str) -> str:
    """A line of output without its alignment, and without the draw, which depends on the deployment's key."""
    return DRAW.sub("#", " ".join(line.split()))


class Reader:
    """Someone who follows the page in a copy of the project."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        for part in PARTS:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
            copy(ROOT / part, self.project / part)
        # The installed script would do the same for the installed project.
        shim = folder / "bin" / "stirred"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orchestration.cli "$@"\n')
        shim.chmod(0o755)
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("STIRRED_", "DAGSTER_"))}
        path = f"{shim.parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = ours | {"PATH": path, "PYTHONPATH": str(self.project)}
        self.said = ""
        self.refusal = ""
        self.proposed: dict[str, Any] = {}
        self.tried = Counter[str]()

    def reads(self, language: str, block: str) -> None:
        """Do what a block of the page says: run its commands, correct a file, or compare what was printed."""
        if language == "sh":
            self.said = ""
            for command in commands(block):
                self.types(command)
        elif language == "yaml":
            path = self.project / block.splitlines()[0].removeprefix("# ")
            proposed = self.proposed[path.parent.name] = yaml.safe_load(path.read_text("utf-8"))["attributes"]
            assert proposed.keys() >= yaml.safe_load(block)["attributes"].keys()
            path.write_text(block, "utf-8")
        else:
            shapes = {shape(line) for line in self.said.splitlines()}
            assert [line for line in block.splitlines() if shape(line) not in shapes] == [], self.said

    def types(self, command: str) -> None:
        """Run a command of the page, as a reader would: with the draw and the name that are meant."""
        if command.startswith(("make ", "source ")):
            # Continuous integration runs the first. The second finds what is in the path of this test.
            return
        if "--authorize" in command:
            given = next(line for line in self.refusal.splitlines() if "--authorize" in line)
            assert shape(given) == shape(command)
            command = given
        refused = command == "stirred launch town/tenure" and not self.tried["launch"]
        done = subprocess.run(
            ["bash", "-c", command.replace("<your name>", "Ada Lovelace")],
            cwd=self.project, env=self.environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == (UNAUTHORIZED if refused else 0), done.stdout
        self.said += done.stdout
        self.refusal = done.stdout if refused else self.refusal
        words = command.split()
        self.tried[words[1] if words[0] == "stirred" else words[0]] += 1

    def published(self) -> bool:
        """Whether there is a certificate."""
        return (self.project / "published" / "town" / "tenure" / "certificate.html").exists()


def test_the_installed_command_is_the_one_that_is_tried() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"stirred": "orchestration.cli:main"}


@pytest.mark.deep
def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for language, block in blocks():
        reader.reads(language, block)
        assert reader.published() == (reader.tried["launch"] >= 2 and not reader.tried["withdraw"])
    assert (reader.proposed["tenure"]["match"], reader.proposed["tenure"]["swap"]) == (["size"], ["district"])
    tried = {"new": 2, "check": 1, "plan": 1, "preflight": 1, "launch": 3, "verify": 1, "budget": 1, "withdraw": 1}
    assert reader.tried == Counter(tried | {"mkdir": 1, "python3": 1, "ls": 1, "cat": 1, "rm": 1})
    assert not (reader.project / "orchestration" / "defs" / "town").exists()
