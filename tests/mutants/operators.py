"""Small wrong programs: one place in a function changed, such as `<` to `<=` or a call left out.

Drawing mutants belongs here; which tests reach and kill them is found by `__main__`.
"""

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "mechanisms",
    "assets/gates",
    "assets/charge",
    "assets/release",
    "assets/measurement",
    "assets/publication",
    "resources",
)

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A replacement in one function: the `occurrence`-th place at which its source has `old` becomes `new`."""

    path: str
    function: str
    old: str
    new: str
    occurrence: int

    def apply(self, root: Path) -> None:
        """Write the mutant to the checkout at `root`. Raises LookupError as `mutate`."""
        file = root / self.path
        file.write_text(self.mutate(file.read_text()))

    def mutate(self, source: str) -> str:
        """The source of the file with the mutant in it.

        Raises:
            LookupError: if the function or the place does not exist, for instance because the code was moved.
        """
        function = dict(functions(ast.parse(source))).get(self.function)
        if function is None:
            raise LookupError(f"{self.path} has no function {self.function}")
        places = [node for node in places_in(function) if ast.get_source_segment(source, node) == self.old]
        if len(places) <= self.occurrence:
            raise LookupError(f"{self.path}: {self.function} has no {self.old!r}, occurrence {self.occurrence}")
        return replaced(source, places[self.occurrence], self.new)


def draw(root: Path, count: int, seed: int) -> list[Mutant]:
    """Mutants at places chosen uniformly, without replacement, from those in functions of `PACKAGES`."""
    everywhere = []
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            source = file.read_text()
            for name, function in functions(ast.parse(source)):
                seen: dict[str, int] = {}
                for node in places_in(function):
                    old, new = ast.get_source_segment(source, node), mutation(node)
                    assert old is not None
                    assert new is not None
                    occurrence = seen[old] = seen.get(old, -1) + 1
                    everywhere.append(Mutant(str(file.relative_to(root)), name, old, new, occurrence))
    return random.Random(seed).sample(everywhere, count)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Functions and methods by qualified name. An inner function is part of the one around it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def places_in(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function's body that have a mutation, in order; none in annotations, decorators, defaults or texts."""
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        if mutation(node) is not None:
            yield node
        children: Sequence[ast.AST] = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.AnnAssign):
            children = [node.value] if node.value else []
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            children = node.body
        elif isinstance(node, ast.JoinedStr):
            children = []
        stack.extend(reversed(children))


def mutation(node: ast.AST) -> str | None:
    """The source that replaces a node; None if it has no mutation."""
    match node:
        case ast.Compare(left, [operator], [right]):
            return f"({ast.unparse(ast.Compare(left, [COMPARISONS[type(operator)]()], [right]))})"
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC and not (_text(left) or _text(right)):
            return f"({ast.unparse(ast.BinOp(left, ARITHMETIC[type(operator)](), right))})"
        case ast.BoolOp(operator, values):
            return f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values))})"
        case ast.UnaryOp(ast.Not(), operand):
            return f"({ast.unparse(operand)})"
        case ast.Constant(bool() as value):
            return str(not value)
        case ast.Constant(int() as value):
            return str(value + 1)
        case ast.Expr(ast.Call()):
            return "pass"
        case ast.Name(name, ast.Load()) if name in CALLS:
            return CALLS[name]
    return None


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def replaced(source: str, node: ast.AST, new: str) -> str:
    """The source with a node's text replaced."""
    lines = source.encode().splitlines(keepends=True)
    assert isinstance(node, ast.expr | ast.stmt)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + new.encode() + after).decode()
