"""Messages that a page quotes are texts of the code, and the plans that a page shows can be made."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from assets.remedies import OF_ANY_OTHER, OF_CHECKS
from docs.pictures.__main__ import FOLDER
from orchestration.cli import main

ROOT = FOLDER.parents[1]
MESSAGES = ROOT / "docs" / "how-to" / "troubleshooting.md"
CHOICES = ROOT / "docs" / "explanation" / "choosing.md"
QUOTE = re.compile(r"^- (`+)(.+?)\1<br>$", re.MULTILINE)
LAYERS = ("orchestration", "assets", "resources", "mechanisms")


def texts(source: str) -> Iterator[str]:
    """The texts of a module, with … for the inserted values."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def missing(page: str, known: str) -> list[str]:
    """The messages that a page quotes and that no known text has, part by part in this order."""
    return [
        quoted
        for _, quoted in QUOTE.findall(page)
        if not re.search(".*".join(re.escape(part.strip()) for part in quoted.split("…")), known)
    ]


@pytest.mark.deep
def test_every_message_that_is_quoted_is_in_the_code() -> None:
    """Wrong program: one whose refusal was reworded, so that a reader's search for it fails."""
    modules = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    known = "\n".join(text.replace("\n", " ") for path in modules for text in texts(path.read_text("utf-8")))
    page = MESSAGES.read_text("utf-8")
    assert len(QUOTE.findall(page)) == page.count("<br>") > 20
    assert missing(page, known) == []
    assert missing(page.replace("outside its domain", "beyond its domain"), known) == ["value beyond its domain …"]


@pytest.mark.prove
def test_the_plans_of_the_page_on_choices_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong page: one whose table of risks states another loss than the search finds."""
    page = CHOICES.read_text("utf-8")
    commands = re.findall(
        r"stirred (plan .*)", "".join(re.findall(r"^ *```sh\n(.*?)```", page, re.DOTALL | re.MULTILINE))
    )
    monkeypatch.setenv("STIRRED_HOME", str(tmp_path))
    printed = [CliRunner().invoke(main, shlex.split(command), catch_exceptions=False).stdout for command in commands]
    assert len(printed) == 3
    assert "| 0.75 | ρ = 0.9070 |" in page
    assert "Total: ρ = 0.9070" in printed[1]
    assert "17.0801" in printed[2]


def test_the_page_says_what_to_do_about_every_check() -> None:
    """Wrong page: one whose words differ from the UI and the command, or are the words of a renamed check."""
    section = MESSAGES.read_text("utf-8").partition("## Checks\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| ([^|]+\.) \|$", section, re.MULTILINE)
    told = {check: remedy for checks, remedy in rows for check in checks.split(", ")}
    assert told == {f"`{check}`": remedy for check, remedy in OF_CHECKS.items()} | {"any other check": OF_ANY_OTHER}
    code = "".join(path.read_text("utf-8") for path in (ROOT / "assets").rglob("*.py") if path.name != "remedies.py")
    assert [check for check in OF_CHECKS if not re.search(rf'["_]{check}\b', code)] == []
