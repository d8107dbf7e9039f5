"""Every message that the page of troubleshooting quotes is a text of the code."""

import ast
import re
from collections.abc import Iterator

from docs.pictures.__main__ import FOLDER

ROOT = FOLDER.parents[1]
PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
QUOTE = re.compile(r"^\| (`+)(.+?)\1 \|", re.MULTILINE)
LAYERS = ("orchestration", "assets", "resources", "mechanisms")


def texts(source: str) -> Iterator[str]:
    """The texts of a module, with … for what is filled in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def missing(page: str, known: str) -> list[str]:
    """The messages that a page quotes with a part that is not among the known texts in its order."""
    return [
        quoted
        for _, quoted in QUOTE.findall(page)
        if not re.search(".*".join(re.escape(part.strip()) for part in quoted.split("…")), known)
    ]


def test_every_message_that_is_quoted_is_in_the_code() -> None:
    """Wrong program: one whose refusal was reworded, so that a reader who searches for it finds nothing."""
    modules = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    known = "\n".join(text.replace("\n", " ") for path in modules for text in texts(path.read_text("utf-8")))
    page = PAGE.read_text("utf-8")
    assert len(QUOTE.findall(page)) > 20
    assert missing(page, known) == []
    assert missing(page.replace("outside its domain", "beyond its domain"), known) == ["value beyond its domain …"]
