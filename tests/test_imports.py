"""The deployment holds: imports point one way, mechanisms touch nothing but numbers, and SQL lies in `sql/` alone.

Modules are parsed, not imported, so that an import inside a function counts too. Every rule is also shown to
catch a module that breaks it.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("orchestration", "assets", "resources", "mechanisms")
MATHEMATICS = {
    *(
        "collections",
        "dataclasses",
        "decimal",
        "enum",
        "bisect",
        "fractions",
        "functools",
        "itertools",
        "math",
        "operator",
        "typing",
    ),
    *("cryptography", "highspy", "numba", "numpy"),
    "mechanisms",
}
"""What mechanisms may import: nothing in it can open a file or a connection, or read a clock, save what follows."""
REACHES_OUT = {"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "save", "savez", "savetxt", "tofile", "random"}
SQL = re.compile(
    r"\b(SELECT|INSERT\s+INTO|DELETE\s+FROM|UPDATE\s+\w+\s+SET|CREATE|DROP|ALTER|ATTACH|COPY|PRAGMA|WITH\s+\w+\s+AS)\s"
)
RUNS_SQL = Path("resources/warehouse.py")

Rule = Callable[[Path, ast.Module], Iterator[str]]


def modules(root: Path) -> Iterator[Path]:
    for layer in LAYERS:
        yield from (path.relative_to(root) for path in sorted((root / layer).rglob("*.py")))


def broken(rule: Rule, root: Path = ROOT) -> list[str]:
    """Every place under `root` that breaks a rule."""
    return [
        f"{path}: {what}" for path in modules(root) for what in rule(path, ast.parse((root / path).read_text("utf-8")))
    ]


def imported(tree: ast.Module) -> Iterator[str]:
    """Names of the modules that a module imports; a relative import stays within its own package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def imports_point_one_way(path: Path, tree: ast.Module) -> Iterator[str]:
    above = LAYERS[: LAYERS.index(path.parts[0])]
    yield from (f"imports {name}" for name in imported(tree) if name.split(".")[0] in above)


def mechanisms_touch_only_numbers(path: Path, tree: ast.Module) -> Iterator[str]:
    if path.parts[0] != "mechanisms":
        return
    yield from (f"imports {name}" for name in imported(tree) if name.split(".")[0] not in MATHEMATICS)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in {"open", "print", "input", "eval", "exec", "__import__"}:
            yield f"uses {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in REACHES_OUT:
            yield f"uses .{node.attr}"


def modules_open_with_a_docstring(path: Path, tree: ast.Module) -> Iterator[str]:
    if not ast.get_docstring(tree):
        yield "has no docstring"


def docstrings(tree: ast.Module) -> set[int]:
    """Texts that stand alone as statements: they describe, and go nowhere."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def sql_lies_in_its_own_files(path: Path, tree: ast.Module) -> Iterator[str]:
    if path == RUNS_SQL:
        return
    described = docstrings(tree)
    for node in ast.walk(tree):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described
        if text and SQL.search(f"{node.value} "):  # type: ignore[attr-defined]
            yield f"line {node.lineno} holds SQL"  # type: ignore[attr-defined]
        if isinstance(node, ast.Attribute) and node.attr in {"execute", "executemany"}:
            yield f"line {node.lineno} runs SQL past the warehouse"


RULES = [
    imports_point_one_way,
    mechanisms_touch_only_numbers,
    modules_open_with_a_docstring,
    sql_lies_in_its_own_files,
]


@pytest.mark.parametrize("rule", RULES)
def test_the_deployment_keeps_the_rule(rule: Rule) -> None:
    assert broken(rule) == []


def test_there_are_modules_in_every_layer() -> None:
    assert {path.parts[0] for path in modules(ROOT)} == set(LAYERS)


@pytest.mark.parametrize(
    ("rule", "module", "text"),
    [
        (imports_point_one_way, "mechanisms/a.py", "from resources import ledger"),
        (imports_point_one_way, "mechanisms/deep/a.py", "import orchestration.definitions"),
        (imports_point_one_way, "resources/a.py", "import math, assets.release.draw as draw"),
        (imports_point_one_way, "assets/a.py", "def late():\n    from orchestration.definitions import defs"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import duckdb"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "def late():\n    import pandas as pd"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "from dagster import asset"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "from pathlib import Path"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import time"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import random"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "key = open('key').read()"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import numpy as np\nnp.fromfile('x')"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import numpy as np\nnp.random.default_rng()"),
        (modules_open_with_a_docstring, "assets/a.py", "x = 1"),
        (modules_open_with_a_docstring, "orchestration/__init__.py", ""),
        (sql_lies_in_its_own_files, "assets/a.py", "q = 'SELECT * FROM t'"),
        (sql_lies_in_its_own_files, "assets/a.py", "q = f'SELECT {x} FROM t'"),
        (sql_lies_in_its_own_files, "assets/a.py", "q = 'SELECT ' + x"),
        (sql_lies_in_its_own_files, "assets/a.py", "q = 'CREATE TABLE {}'.format(x)"),
        (sql_lies_in_its_own_files, "resources/ledger.py", "q = 'INSERT  INTO t VALUES (1)'"),
        (sql_lies_in_its_own_files, "orchestration/a.py", "connection.execute(text)"),
    ],
)
def test_a_module_that_breaks_the_rule_is_found(rule: Rule, module: str, text: str, tmp_path: Path) -> None:
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text(text, "utf-8")
    assert len(broken(rule, tmp_path)) == 1
    assert broken(rule, tmp_path)[0].startswith(module)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("orchestration/a.py", '"""A shell."""\nfrom assets import x\nfrom mechanisms.swapping import loss'),
        ("resources/a.py", '"""CREATE and SELECT are spoken of here only."""\nimport duckdb\nfrom mechanisms import x'),
        ("mechanisms/a.py", '"""Numbers."""\nimport math\nimport numpy as np\nfrom mechanisms.sampling import x'),
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_a_module_that_keeps_the_rules_is_let_be(rule: Rule, module: str, text: str, tmp_path: Path) -> None:
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text(text, "utf-8")
    assert broken(rule, tmp_path) == []
