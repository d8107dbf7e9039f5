"""A claim about compiled templates: they are kept and used only for their own source."""

import sys
from pathlib import Path
from typing import Any

import pytest
from jinja2 import DictLoader, Environment

from resources import templates
from resources.templates import keep_compiled


def test_a_compiled_template_is_used_for_its_source_and_its_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong programs: Jinja's own cache, in which a text stays as the settings before made it, and an error where the
    folder cannot be written."""
    monkeypatch.setattr(templates, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text("")
    after.write_text("finalize")

    def fill_in(text: str, environment: Path = before, **settings: Any) -> str:
        loader, compiled = DictLoader({"name": text}), keep_compiled(environment, text)
        return Environment(loader=loader, bytecode_cache=compiled, **settings).get_template("name").render(value="x")

    def list_kept() -> list[Path]:
        return list(tmp_path.glob("*.cache"))

    assert (fill_in("{{ value }}"), list_kept()) == ("x", [])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert (fill_in("{{ value }}"), len(list_kept())) == ("x", 1)
    assert fill_in("{{ value }}", after, finalize=lambda value: f"<{value}>") == "<x>"
    assert fill_in("{{ value }}{{ value }}") == "xx"
    kept = list_kept()
    assert len(kept) == 3
    monkeypatch.setattr(Environment, "compile", None)
    assert (fill_in("{{ value }}"), list_kept()) == ("x", kept)
