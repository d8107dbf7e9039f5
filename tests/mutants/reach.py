"""The tests that reach each mutant: a statement at the start of each mutated function notes the running test.

A compiled kernel cannot take notes, so the functions that name it do, and so do functions that name a kernel that names
it. The note goes to a file, because many tests run the function in a process of their own.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.mutants.operators import Mutant, functions

SHIPPED = ("mechanisms", "assets", "resources", "orchestration")

NOTE = """
import os
_noted = set()
def note(*mutants):
    folder = os.environ.get("STIRRED_MUTANTS_REACHED")
    test = os.environ.get("PYTEST_CURRENT_TEST", "import")
    if folder and (mutants, test) not in _noted:
        _noted.add((mutants, test))
        with open(os.path.join(folder, str(os.getpid())), "a") as file:
            file.writelines(f"{mutant}\\t{test}\\n" for mutant in mutants)
"""


def instrument(root: Path, mutants: Sequence[Mutant]) -> Path:
    """Make the functions of a checkout take notes. Returns the folder that must be on `PYTHONPATH` then."""
    noting = defaultdict(set)
    for number, mutant in enumerate(mutants):
        for function in _noting_functions(root, mutant):
            noting[function].add(number)
    for path in sorted({path for path, _ in noting}):
        source = (root / path).read_text()
        lines = source.splitlines(keepends=True)
        for name, function in reversed(list(functions(ast.parse(source)))):
            if numbers := noting.get((path, name)):
                _insert(lines, function, f'__import__("mutants_reached").note({", ".join(map(str, sorted(numbers)))})')
        (root / path).write_text("".join(lines))
    folder = root / "build" / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mutants_reached.py").write_text(NOTE)
    return folder


def _noting_functions(root: Path, mutant: Mutant) -> set[tuple[str, str]]:
    """The mutated function itself; of a kernel, all functions that lead to it by name."""
    source = (root / mutant.path).read_text()
    found = dict(functions(ast.parse(source)))[mutant.function]
    if not _is_kernel(found):
        return {(mutant.path, mutant.function)}
    kernels, callers = {mutant.function}, set()
    while True:
        before = len(kernels)
        for path, name, function in _all_functions(root):
            if _names(function) & kernels:
                if _is_kernel(function):
                    kernels.add(name)
                else:
                    callers.add((path, name))
        if len(kernels) == before:
            return callers


def _all_functions(root: Path) -> Iterator[tuple[str, str, ast.AST]]:
    for package in SHIPPED:
        for file in sorted((root / package).rglob("*.py")):
            for name, function in functions(ast.parse(file.read_text())):
                yield str(file.relative_to(root)), name, function


def _is_kernel(function: ast.AST) -> bool:
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    return any({"njit", "vectorize"} & _names(decorator) for decorator in function.decorator_list)


def _names(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)} | {
        found.attr for found in ast.walk(node) if isinstance(found, ast.Attribute)
    }


def _insert(lines: list[str], function: ast.AST, statement: str) -> None:
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    first = function.body[1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0]
    line, column = first.lineno - 1, first.col_offset
    if isinstance(first, ast.With | ast.FunctionDef) and getattr(first, "decorator_list", None):
        line = first.decorator_list[0].lineno - 1
    start = lines[line].encode()[:column].decode()
    if start.strip():
        lines[line] = start + statement + "; " + lines[line].encode()[column:].decode()
    else:
        lines.insert(line, f"{start}{statement}\n")


def read_notes(folder: Path, tests: Iterable[str]) -> dict[int, set[str]]:
    """The tests that reach each mutant. The set-up of a test may be shared, so code that it runs counts for the whole
    file."""
    by_file = defaultdict(set)
    for test in tests:
        by_file[test.split("::")[0]].add(test)
    reached: dict[int, set[str]] = defaultdict(set)
    for notes in folder.iterdir():
        for line in notes.read_text().splitlines():
            number, _, told = line.partition("\t")
            test, _, phase = told.rpartition(" ")
            if phase == "(setup)":
                reached[int(number)] |= by_file[test.split("::")[0]]
            elif phase:
                reached[int(number)].add(test)
            else:
                reached[int(number)].add("import")
    return reached
