"""The page on Python, run as it is written: what a block prints is the text below it."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\s+```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


def run(code: str, namespace: dict[str, Any]) -> str:
    """What a piece of code prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def test_the_page_on_python_prints_what_it_shows() -> None:
    namespace: dict[str, Any] = {}
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / "python.md").read_text("utf-8"))
    assert len(blocks) >= 4
    for code, shown in blocks:
        assert run(code, namespace) == shown, code
