"""The page on Python and the notebooks, run as they are written: a block or cell prints the output shown below it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.depth import quick_cases
from tests.stirred.notebooks import EXAMPLES, NOTEBOOKS, run, run_cells

PAGE = EXAMPLES.parent / "docs" / "how-to" / "python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\s+```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


def test_the_page_on_python_prints_what_it_shows() -> None:
    namespace: dict[str, Any] = {}
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) >= 4
    for code, shown in blocks:
        assert run(code, namespace) == shown, code


@quick_cases(0)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(notebook: Path) -> None:
    """For a figure, only its presence is checked: its pixels depend on the version of the library."""
    book = json.loads(notebook.read_text("utf-8"))
    for cell, outputs in run_cells(book):
        printed, stored = (["".join(each.get("text", "")) for each in shown] for shown in (outputs, cell["outputs"]))
        assert printed == stored, "python -m tests.stirred.notebooks stores the outputs anew"


def test_there_are_two_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["massachusetts-1940", "survey"]
