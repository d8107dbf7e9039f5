"""The rules of the architecture: imports point one way, mechanisms touch only numbers, and SQL is in files or one line.

Shipped code also uses no private part of a dependency, which the next version may move. Modules are parsed and not
imported, so imports inside functions count too. Each rule is also tested on a module that breaks it.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("stirred", "orchestration", "assets", "resources", "mechanisms")
MATHEMATICS = {
    *(
        "abc",
        "collections",
        "dataclasses",
        "decimal",
        "enum",
        "bisect",
        "fractions",
        "functools",
        "itertools",
        "math",
        "numbers",
        "operator",
        "re",
        "typing",
    ),
    *("cryptography", "highspy", "numba", "numpy"),
    "mechanisms",
}
"""The imports that mechanisms may use. None can open a file or a connection or read a clock, except the names below."""
REACHES_OUT = {"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "save", "savez", "savetxt", "tofile", "random"}
SQL = re.compile(
    r"\b(SELECT|INSERT\s+INTO|DELETE\s+FROM|UPDATE\s+\w+\s+SET|CREATE|DROP|ALTER|ATTACH|COPY|PRAGMA|WITH\s+\w+\s+AS)\s"
)
RUNS_SQL = tuple(map(Path, ("resources/warehouse.py", "resources/ledger_server.py", "orchestration/run_history.py")))
"""The modules that run SQL: in DuckDB, in the PostgreSQL server of a ledger, and on how SQLite keeps a history."""
OPENS_ZONES = {Path(f"resources/{name}.py") for name in ("storage", "instances", "lake")}
"""The modules that run SQL of files to open a zone for the warehouse."""
COMPARES_SQL = Path("resources/additions.py")
"""The module that compares the definitions in a catalog with patterns, and runs none."""
SHIPPED = (*LAYERS, "benchmarks")
PRIVATE = re.compile(r"(^|\.)_(?!_|exit$)")
"""A leading underscore in a dotted name, except in names like `__name__` and the documented `os._exit`."""

MECHANISMS = {path.name for path in (ROOT / "mechanisms").iterdir() if (path / "__init__.py").exists()} - {
    "accounting",
    "risk",
    "sampling",
}
"""The mechanisms. Each has a package of its name in `mechanisms` and in `assets`, and a component."""

LISTS_MECHANISMS = {
    Path(name)
    for name in ("mechanisms/compilation.py", "stirred/__init__.py", "orchestration/components/laboratory.py")
}
"""The modules that name mechanisms: the set-up, which compiles them, the public package, and the laboratory, which
compares them."""

OF_MECHANISM = {
    Path(name): {"topdown"}
    for name in (
        *("stirred/dhc.py", "assets/cef/dhc.py", "orchestration/components/dhc.py"),
        "orchestration/components/reestimation.py",
    )
}
"""Modules that belong to a mechanism of another name: codes come from the census layout if its columns are there."""

READS_ENVIRONMENT = {
    Path(name)
    for name in (
        *("orchestration/environment.py", "orchestration/launch.py", "orchestration/backup.py"),
        *("orchestration/queue.py", "orchestration/ui.py"),
        *(f"orchestration/explorer/{module}.py" for module in ("launcher", "process", "settings")),
        "resources/custody.py",
        "resources/processes.py",
        "resources/project.py",
        "stirred/deployment.py",
    )
}
"""The modules that read variables. `test_quoted_by_nobody` lists the variables and the parts of each that may be
shown."""

OF_KEYS = {"resources.custody", "resources.keyfiles"}
NEED_KEYS = {"Ledger", "Custody", "Anchor", "unseal", "deployment_resources", "public_key"}
"""Modules of keys, and the names whose users need these modules."""

Rule = Callable[[Path, ast.Module], Iterator[str]]


def modules(root: Path, folders: Sequence[str] = LAYERS) -> Iterator[Path]:
    for folder in folders:
        yield from (path.relative_to(root) for path in sorted((root / folder).rglob("*.py")))


def broken(rule: Rule, root: Path = ROOT) -> list[str]:
    """Every violation of a rule under `root`."""
    return [f"{path}: {what}" for path in modules(root, RULES[rule]) for what in rule(path, parsed(root / path))]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module, walked once for all rules."""
    return tuple(ast.walk(tree))


def imported(tree: ast.Module) -> Iterator[str]:
    """Names of the modules that a module imports. A relative import stays within the package."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def imported_packages(tree: ast.Module) -> Iterator[str]:
    """Packages that a module imports from a layer by name, such as `from assets import swapping`."""
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module in LAYERS:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_point_one_way(path: Path, tree: ast.Module) -> Iterator[str]:
    above = LAYERS[: LAYERS.index(path.parts[0])]
    yield from (f"imports {name}" for name in imported(tree) if name.split(".")[0] in above)


def packages_of_assets_know_only_what_is_below(path: Path, tree: ast.Module) -> Iterator[str]:
    """Mechanisms import shared stages, these `assets.release`, and that only modules of `assets` itself."""
    if path.parts[0] != "assets":
        return
    own = path.parts[1] if len(path.parts) > 2 else ""
    for name in [*imported(tree), *imported_packages(tree)]:
        layer, _, rest = name.partition(".")
        if layer == "assets" and _level(rest.split(".")[0]) > _level(own):
            yield f"imports {name}"


def mechanisms_stay_apart(path: Path, tree: ast.Module) -> Iterator[str]:
    """A module of one mechanism imports no other mechanism, and a shared module imports none."""
    if path in LISTS_MECHANISMS or path.parts[0] not in LAYERS:
        return
    own = _mechanisms_named(path.with_suffix("").parts) | OF_MECHANISM.get(path, set())
    for name in [*imported(tree), *imported_packages(tree)]:
        if _mechanisms_named(name.split(".")) - own:
            yield f"imports {name}"


def _mechanisms_named(parts: Iterable[str]) -> set[str]:
    """The mechanisms that parts of a module's name are about, such as `phsafe` or `phsafe_declaration`."""
    return {name for part in parts for name in MECHANISMS if part == name or part.startswith(f"{name}_")}


def _level(package: str) -> int:
    """0 for modules of `assets` itself, 1 for `assets.release`, 2 for shared stages, 3 for mechanisms' packages."""
    if package in MECHANISMS:
        return 3
    if package == "release":
        return 1
    return 2 if package and not (ROOT / "assets" / f"{package}.py").exists() else 0


def mechanisms_touch_only_numbers(path: Path, tree: ast.Module) -> Iterator[str]:
    if path.parts[0] != "mechanisms":
        return
    allowed = MATHEMATICS | ({"concurrent"} if path.name == "compilation.py" else set())
    yield from (f"imports {name}" for name in imported(tree) if name.split(".")[0] not in allowed)
    for node in nodes(tree):
        if isinstance(node, ast.Name) and node.id in {"open", "print", "input", "eval", "exec", "__import__"}:
            yield f"uses {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in REACHES_OUT:
            yield f"uses .{node.attr}"


def modules_open_with_a_docstring(path: Path, tree: ast.Module) -> Iterator[str]:
    if not ast.get_docstring(tree):
        yield "has no docstring"


def docstrings(tree: ast.Module) -> set[int]:
    """String literals that are statements: they only describe, and cannot be executed as SQL."""
    return {
        id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def inline_statements(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls of `SQL`, also where it is imported under another name."""
    names = {"SQL"}
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "resources.statements":
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "SQL"}
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in names:
                yield node


def sql_in_python_is_a_literal_of_one_line(path: Path, tree: ast.Module) -> Iterator[str]:
    """`SQL` is called with a name and a short text, each written as one literal without insertions."""
    for call in inline_statements(tree):
        literal = len(call.args) == 2 and not call.keywords and all(map(_is_text, call.args))
        lines = [(node.lineno, node.end_lineno) for node in call.args]
        if not literal or any(first != last for first, last in lines) or "\n" in call.args[1].value:  # type: ignore[attr-defined]
            yield f"line {call.lineno} makes SQL of other things than a literal of one line"


def other_sql_lies_in_its_own_files(path: Path, tree: ast.Module) -> Iterator[str]:
    if path in RUNS_SQL:
        return
    described = docstrings(tree) | {id(argument) for call in inline_statements(tree) for argument in call.args}
    for node in nodes(tree):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described
        if text and path != COMPARES_SQL and SQL.search(f"{node.value} "):  # type: ignore[attr-defined]
            yield f"line {node.lineno} holds SQL"  # type: ignore[attr-defined]
        runs = isinstance(node, ast.Attribute) and node.attr in {"execute", "executemany"}
        if runs and path not in OPENS_ZONES:
            yield f"line {node.lineno} runs SQL past the warehouse"


def private_parts_stay_private(path: Path, tree: ast.Module) -> Iterator[str]:
    """No name with a leading underscore is imported, read from another object, or part of a module's name in a text."""
    for node in nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in {"self", "cls"}:
            names = [node.attr]
        elif isinstance(node, ast.Constant) and re.fullmatch(r"\w+(\.\w+)+", str(node.value)):
            names = [str(node.value)]
        yield from (f"line {node.lineno} uses {name}" for name in names if PRIVATE.search(name))  # type: ignore[attr-defined]


def the_explorer_asks_for_no_key(path: Path, tree: ast.Module) -> Iterator[str]:
    """Its pages have neither a custody nor a ledger, which needs one. The process could not open the keys anyway."""
    if path.parts[:2] != ("orchestration", "explorer"):
        return
    yield from (f"imports {name}" for name in imported(tree) if name in OF_KEYS)
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"imports {alias.name}" for alias in node.names if alias.name in NEED_KEYS)


def the_environment_is_read_at_few_places(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in nodes(tree):
        name = getattr(node, "attr", getattr(node, "id", ""))
        if name in ("environ", "environb", "getenv") and path not in READS_ENVIRONMENT:
            yield f"line {node.lineno} reads the environment"  # type: ignore[attr-defined]


def keys_are_in_no_representation(path: Path, tree: ast.Module) -> Iterator[str]:
    """A log of a cluster's worker, or an error, may show a value as Python represents it."""
    for node in nodes(tree):
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            text = ast.unparse(part) if isinstance(part, ast.AnnAssign) else ""
            if re.match(r"\w+: [^=]*\bbytes\b", text) and "repr=False" not in text:
                yield f"line {part.lineno} shows bytes, which may be a key"


def messages_of_libraries_go_nowhere(path: Path, tree: ast.Module) -> Iterator[str]:
    """No error has that of a library as its cause, and no trace is printed but a concealed one.

    Dagster stores the whole chain of an error, and a terminal shows it. Ruff asks for a cause in every handler.
    """
    for node in nodes(tree):
        if isinstance(node, ast.Raise) and isinstance(node.cause, ast.Name):
            yield f"line {node.lineno} raises from {node.cause.id}"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            concealed = [ast.unparse(argument)[:8] for argument in node.args] == ["conceal("]
            traced = called.startswith("traceback.") and not concealed
            if traced or called.endswith(".exception") or any(each.arg == "exc_info" for each in node.keywords):
                yield f"line {node.lineno} shows the message of an error"


RULES: dict[Rule, Sequence[str]] = {
    imports_point_one_way: LAYERS,
    packages_of_assets_know_only_what_is_below: LAYERS,
    mechanisms_stay_apart: LAYERS,
    mechanisms_touch_only_numbers: LAYERS,
    modules_open_with_a_docstring: LAYERS,
    sql_in_python_is_a_literal_of_one_line: SHIPPED,
    other_sql_lies_in_its_own_files: LAYERS,
    private_parts_stay_private: SHIPPED,
    the_explorer_asks_for_no_key: LAYERS,
    the_environment_is_read_at_few_places: LAYERS,
    keys_are_in_no_representation: LAYERS,
    messages_of_libraries_go_nowhere: LAYERS,
}
"""The folders to which each rule applies."""


@pytest.mark.parametrize("rule", RULES)
def test_the_project_keeps_the_rule(rule: Rule) -> None:
    assert broken(rule) == []


def test_every_mechanism_has_its_package_component_page_and_kind() -> None:
    assert len(MECHANISMS) >= 6
    kinds = (ROOT / "tests/contract/kinds.py").read_text("utf-8")
    for name in MECHANISMS:
        assert f'"{name.replace("_", " ")}": Kind(' in kinds, name
        for place in (
            *(f"assets/{name}/{module}.py" for module in ("declaration", "release", "method")),
            *(f"sql/{name}", f"orchestration/components/{name}.py", f"docs/mechanisms/{name}.md"),
            *(f"tests/assets/{name}", f"tests/mechanisms/{name}", f"docs/pictures/{name}-lineage.png"),
        ):
            assert (ROOT / place).exists(), place


def test_no_two_packages_of_assets_import_each_other() -> None:
    arrows: dict[str, set[str]] = {}
    for path in modules(ROOT, ["assets"]):
        own = path.parts[1] if len(path.parts) > 2 else path.stem
        for name in imported(parsed(ROOT / path)):
            layer, _, rest = name.partition(".")
            if layer == "assets" and rest:
                arrows.setdefault(own, set()).add(rest.split(".")[0])
    for package, below in arrows.items():
        reached, new = set(), below - {package}
        while new:
            reached |= new
            new = set().union(*(arrows.get(each, set()) for each in new)) - reached
        assert package not in reached, f"{package} imports itself by way of others"


def test_there_are_modules_in_every_layer() -> None:
    assert {path.parts[0] for path in modules(ROOT)} == set(LAYERS)


@pytest.mark.parametrize(
    ("rule", "module", "text"),
    [
        (imports_point_one_way, "mechanisms/a.py", "from resources import ledger"),
        (imports_point_one_way, "mechanisms/deep/a.py", "import orchestration.definitions"),
        (imports_point_one_way, "resources/a.py", "import math, assets.release.draw as draw"),
        (imports_point_one_way, "assets/a.py", "def late():\n    from orchestration.definitions import defs"),
        (packages_of_assets_know_only_what_is_below, "assets/charge/a.py", "from assets.swapping.draw import SWAPPED"),
        (packages_of_assets_know_only_what_is_below, "assets/measurement/a.py", "import assets.phsafe.counts"),
        (mechanisms_stay_apart, "assets/gates/a.py", "from mechanisms.topdown import design"),
        (mechanisms_stay_apart, "assets/swapping/a.py", "from assets.phsafe.counts import list_cells"),
        (mechanisms_stay_apart, "assets/phsafe/a.py", "from mechanisms.topdown import design"),
        (packages_of_assets_know_only_what_is_below, "assets/release/a.py", "from assets.cef.asset import build_cef"),
        (packages_of_assets_know_only_what_is_below, "assets/release/a.py", "from assets import charge"),
        (packages_of_assets_know_only_what_is_below, "assets/conventions.py", "from assets.release import columns"),
        (mechanisms_stay_apart, "orchestration/components/release.py", "import assets.swapping.method"),
        (
            mechanisms_stay_apart,
            "orchestration/components/phsafe.py",
            "from assets.topdown.method import TopDownMethod",
        ),
        (mechanisms_stay_apart, "orchestration/automation.py", "from mechanisms.phsafe import runs"),
        (mechanisms_stay_apart, "mechanisms/sampling/a.py", "from mechanisms.swapping import loss"),
        (mechanisms_stay_apart, "mechanisms/phsafe/a.py", "from mechanisms import topdown"),
        (mechanisms_stay_apart, "mechanisms/phsafe/a.py", "from mechanisms.table_builder import keys"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import duckdb"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "def late():\n    import pandas as pd"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "from dagster import asset"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "from pathlib import Path"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import time"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import random"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "key = open('key').read()"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import numpy as np\nnp.fromfile('x')"),
        (mechanisms_touch_only_numbers, "mechanisms/a.py", "import numpy as np\nnp.random.default_rng()"),
        (the_environment_is_read_at_few_places, "assets/a.py", "import os\nkey = os.environ['KEY']"),
        (the_environment_is_read_at_few_places, "resources/a.py", "from os import getenv\nkey = getenv('KEY')"),
        (messages_of_libraries_go_nowhere, "assets/a.py", "try: f()\nexcept OSError as error: raise A() from error"),
        (messages_of_libraries_go_nowhere, "assets/a.py", "traceback.print_exc()"),
        (keys_are_in_no_representation, "assets/a.py", "@dataclass\nclass A:\n    key: bytes | None = None"),
        (messages_of_libraries_go_nowhere, "assets/a.py", "traceback.print_exception(error)"),
        (messages_of_libraries_go_nowhere, "assets/a.py", "log.error('failed', exc_info=True)"),
        (messages_of_libraries_go_nowhere, "assets/a.py", "logging.exception('failed')"),
        (modules_open_with_a_docstring, "assets/a.py", "x = 1"),
        (modules_open_with_a_docstring, "orchestration/__init__.py", ""),
        (other_sql_lies_in_its_own_files, "assets/a.py", "q = 'SELECT * FROM t'"),
        (other_sql_lies_in_its_own_files, "assets/a.py", "q = f'SELECT {x} FROM t'"),
        (other_sql_lies_in_its_own_files, "assets/a.py", "q = 'SELECT ' + x"),
        (other_sql_lies_in_its_own_files, "assets/a.py", "q = 'CREATE TABLE {}'.format(x)"),
        (other_sql_lies_in_its_own_files, "resources/ledger.py", "q = 'INSERT  INTO t VALUES (1)'"),
        (other_sql_lies_in_its_own_files, "orchestration/a.py", "connection.execute(text)"),
        (other_sql_lies_in_its_own_files, "assets/a.py", "a, b = SQL('a/b', 'SELECT 1'), 'SELECT ' + x"),
        (sql_in_python_is_a_literal_of_one_line, "assets/a.py", "q = SQL('a/b', f'SELECT {x}')"),
        (sql_in_python_is_a_literal_of_one_line, "assets/a.py", "q = SQL('a/b', 'SELECT ' + x)"),
        (sql_in_python_is_a_literal_of_one_line, "assets/a.py", "q = SQL('a/b', text)"),
        (sql_in_python_is_a_literal_of_one_line, "assets/a.py", "q = SQL('a/b', text='SELECT 1')"),
        (sql_in_python_is_a_literal_of_one_line, "assets/a.py", "q = SQL('a/b', 'SELECT 1 '\n'FROM t')"),
        (sql_in_python_is_a_literal_of_one_line, "assets/a.py", "q = SQL('a/b', 'SELECT 1\\nFROM t')"),
        (sql_in_python_is_a_literal_of_one_line, "resources/warehouse.py", "q = statements.SQL('a/b', 'DROP ' + x)"),
        (
            sql_in_python_is_a_literal_of_one_line,
            "benchmarks/a.py",
            "from resources.statements import SQL as S\nq = S('a/b', 'DROP ' + x)",
        ),
        (the_explorer_asks_for_no_key, "orchestration/explorer/a.py", "from resources.custody import MASTER"),
        (the_explorer_asks_for_no_key, "orchestration/explorer/a.py", "def late():\n    import resources.keyfiles"),
        (the_explorer_asks_for_no_key, "orchestration/explorer/a.py", "from resources.ledger import Ledger, remaining"),
        (private_parts_stay_private, "assets/a.py", "from dagster._core.events import DagsterEvent"),
        (private_parts_stay_private, "orchestration/a.py", "import dagster._check as check"),
        (private_parts_stay_private, "resources/a.py", "def late():\n    from dagster import _utils"),
        (private_parts_stay_private, "mechanisms/a.py", "from numpy._core import multiarray"),
        (private_parts_stay_private, "benchmarks/a.py", "import dagster as dg\nlayer = dg._core"),
        (private_parts_stay_private, "assets/a.py", "def f(context):\n    return context.job_def._graph_def"),
        (private_parts_stay_private, "benchmarks/a.py", "patch('dagster._core.definitions.job_base.InMemoryJob')"),
    ],
)
def test_a_module_that_breaks_the_rule_is_found(rule: Rule, module: str, text: str, tmp_path: Path) -> None:
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text(text, "utf-8")
    assert len(broken(rule, tmp_path)) == 1
    assert broken(rule, tmp_path)[0].startswith(module)


@pytest.mark.deep
def test_only_one_module_of_the_tests_imports_a_private_part() -> None:
    """That module lists and explains its imports; `test_whole_repository` tests that the import works as used."""
    importing = {
        path for path in modules(ROOT, ["tests"]) if any(PRIVATE.search(name) for name in imported(parsed(ROOT / path)))
    }
    assert importing == {Path("tests/whole_repository.py")}


@pytest.mark.parametrize("rule", RULES)
def test_modules_that_keep_the_rules_are_accepted(rule: Rule, tmp_path: Path) -> None:
    for module, text in {
        "orchestration/a.py": '"""A shell."""\nfrom assets import x\nfrom mechanisms.accounting import loss',
        "resources/a.py": '"""CREATE and SELECT are spoken of here only."""\nimport duckdb\nfrom mechanisms import x',
        "resources/b.py": '"""A process."""\nimport os\nclass A:\n    def end(self): os._exit(self._status)',
        "assets/a.py": '"""SQL."""\nfrom resources.statements import SQL\nA = SQL("a/b", "SELECT 1")',
        "mechanisms/a.py": '"""Numbers."""\nimport math\nimport numpy as np\nfrom mechanisms.sampling import x',
    }.items():
        (tmp_path / module).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / module).write_text(text, "utf-8")
    assert broken(rule, tmp_path) == []
