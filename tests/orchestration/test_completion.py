"""Completion in the shell: commands, options, and the names of releases and datasets as the files declare them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.cli import releases
from resources.project import PROJECT


def completions(*words: str) -> list[str]:
    """The completions that bash would offer for the last word."""
    environment = {
        "_STIRRED_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "from orchestration.cli import main; main(prog_name='stirred')"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.partition(",")[2] for line in ended.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("stirred", "pre"), ["preflight"]),
        (("stirred", "table", "--j"), ["--json"]),
        (("stirred", "launch", "ma1940/"), ["ma1940/tenure_by_county"]),
        (("stirred", "new", "release", "ma"), ["ma1940"]),
    ],
)
def test_commands_options_and_names_are_completed(words: tuple[str, ...], offered: list[str]) -> None:
    assert completions(*words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_the_command(shell: str) -> None:
    command = [sys.executable, "-m", "orchestration.cli", "completion", shell]
    script = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert f"_STIRRED_COMPLETE={shell}_complete" in script


def test_files_that_are_no_declarations_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linked folders are read. Wrong program: pathlib's `rglob`, which does not follow links."""
    texts = [
        "a: [",
        "- 1",
        "attributes: {name: town}",
        "attributes: {name: swapped, dataset: town}",
        "attributes: 3",
        "\0",
    ]
    (tmp_path / "elsewhere").mkdir()
    for number, text in enumerate(texts):
        folder = tmp_path / ("elsewhere" if number == 3 else "defs") / str(number)
        folder.mkdir(parents=True)
        (folder / "defs.yaml").write_text(text)
    (tmp_path / "defs" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "defs" / "component.yaml").write_bytes(b"\xff")
    (tmp_path / "defs" / "other.yaml").write_text(texts[2])
    monkeypatch.setattr(releases, "DECLARATIONS", tmp_path / "defs")
    assert list(releases.list_declared_names()) == ["town", "town/swapped"]
