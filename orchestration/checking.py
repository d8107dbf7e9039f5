"""All declarations of a deployment, each checked on its own, so that a broken one does not hide the others.

Loading the definitions, as Dagster does, stops at the first declaration that is refused. Here every file is read, every
field is checked as on loading, and every release is put together with its dataset.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from pydantic import ValidationError

from assets.ledger.population import populations
from assets.release.release import DeclarationError
from orchestration import components
from orchestration.components.dataset import Dataset
from orchestration.components.release import ReleaseComponent, dataset_of, release_definitions
from orchestration.defs_files import NAMES, require_unambiguous_text


@dataclass(frozen=True)
class Problem:
    """What is wrong with a declaration.

    Attributes:
        file: the file, relative to the folder of declarations; empty for what concerns several.
        line: the line of the field, from 1; 0 if there is none.
        text: the dataset or release, the field and the rule, in one sentence.
    """

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.file else self.text


@dataclass(frozen=True)
class _Declared:
    """One document of a file: the node of its attributes, and the component that they declare."""

    file: str
    node: yaml.Node | None
    component: dg.Component


def declaration_problems(tree: dg.ComponentTree, published: Path) -> list[Problem]:
    """The problems of all declarations below `defs/`, in the order of the files; empty if all can be loaded.

    Args:
        tree: the component tree, of which nothing needs to be loadable.
        published: the folder of publications.
    """
    folder = tree.defs_module_path
    files = {
        path.relative_to(folder).as_posix(): list[yaml.Node | None]() for name in NAMES for path in folder.rglob(name)
    }
    files = dict(sorted(files.items()))
    problems = [problem for file, nodes in files.items() for problem in _read(folder / file, file, nodes)]
    if problems:
        # Dagster loads none, and a release whose dataset cannot be read would be refused for what is not its fault.
        return problems
    declared: list[_Declared] = []
    for file, nodes in files.items():
        try:
            loaded = tree.load_component((folder / file).parent)
        except Exception as error:
            cause = cause_of(error)
            problems.append(Problem(file, _line(nodes[0], _fields(str(cause))), str(cause)))
            continue
        parts = getattr(loaded, "components", None) or [loaded]
        declared += [_Declared(file, node, part) for node, part in zip(nodes, parts, strict=False)]
    if problems:
        return problems
    named: dict[str, str] = {}
    datasets = {}
    for each in declared:
        if isinstance(each.component, Dataset):
            datasets[each.component.declaration.name] = each.component.declaration
            name = f"dataset {each.component.declaration.name}"
        elif isinstance(each.component, ReleaseComponent):
            name = f"release {each.component.declaration.dataset}/{each.component.declaration.name}"
        else:
            continue
        if name in named:
            problems.append(
                Problem(each.file, _line(each.node, ["name"]), f"{name}: it is declared in {named[name]} too")
            )
        named.setdefault(name, each.file)
    for each in declared:
        if isinstance(each.component, ReleaseComponent):
            try:
                dataset = dataset_of(each.component.declaration, datasets)
                release_definitions(each.component.method(each.component.release(dataset, published)))
            except DeclarationError as error:
                problems.append(Problem(each.file, _line(each.node, _fields(str(error))), str(error)))
    try:
        populations(datasets.values())
    except DeclarationError as error:
        problems.append(Problem("", 0, str(error)))
    return problems


def _read(path: Path, file: str, nodes: list[yaml.Node | None]) -> Iterator[Problem]:
    """Tell the problems of one file, and note the nodes of the attributes of its documents."""
    try:
        text = path.read_text(encoding="utf-8")
        require_unambiguous_text(text, file)
    except (OSError, UnicodeError) as error:
        yield Problem(file, 1, f"it cannot be read as UTF-8 ({type(error).__name__})")
        return
    except DeclarationError as error:
        place, _, said = str(error).partition(": ")
        line = place.removeprefix(file).removeprefix(":")
        yield Problem(file, int(line) if line.isdigit() else 1, said)
        return
    for node, document in zip(yaml.compose_all(text, yaml.SafeLoader), yaml.safe_load_all(text), strict=True):
        nodes.append(_below(node, "attributes"))
        yield from _of_document(file, node, nodes[-1], document)


def _of_document(file: str, node: yaml.Node, attributes: yaml.Node | None, document: Any) -> Iterator[Problem]:
    kind = document.get("type") if isinstance(document, Mapping) else None
    name = str(kind).removeprefix(f"{components.__name__}.")
    known: Any = getattr(components, name, None) if name in components.__all__ else None
    if known is None:
        if kind is None or str(kind).startswith(components.__name__):
            kinds = ", ".join(components.__all__)
            yield Problem(file, _line(node, ["type"]), f"type: {kind} is no component; there are {kinds}")
        return
    try:
        known.model().model_validate(document.get("attributes") or {})
    except ValidationError as error:
        for each in error.errors(include_url=False):
            yield Problem(file, _line(attributes, each["loc"]), each["msg"].removeprefix("Value error, "))
    except DeclarationError as error:
        yield Problem(file, _line(attributes, _fields(str(error))), str(error))


def cause_of(error: BaseException) -> BaseException:
    """The refusal in a chain of errors, or the first error of the chain."""
    while not isinstance(error, DeclarationError | ValidationError) and (error.__cause__ or error.__context__):
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def _fields(message: str) -> list[str]:
    """The fields that a message names after what is declared: `release town/tenure: swap: …`."""
    parts = message.split(": ")
    return parts[1].split(".") if len(parts) > 2 else []


def _below(node: yaml.Node | None, field: object) -> yaml.Node | None:
    """The node of a field of a mapping, or of an element of a list."""
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == str(field)), None)
    if isinstance(node, yaml.SequenceNode) and str(field).isdigit() and int(str(field)) < len(node.value):
        return node.value[int(str(field))]
    return None


def _line(node: yaml.Node | None, fields: Any) -> int:
    """The line of the innermost of these fields that is there, from 1."""
    if node is None:
        return 1
    line = node.start_mark.line + 1
    for field in fields:
        if isinstance(node, yaml.MappingNode):
            line = next((key.start_mark.line + 1 for key, _ in node.value if key.value == str(field)), line)
        node = _below(node, field)
        if node is None:
            break
        if not isinstance(node, yaml.MappingNode | yaml.SequenceNode):
            line = node.start_mark.line + 1
    return line
