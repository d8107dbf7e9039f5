"""The check of the files `defs.yaml` before they are loaded: it refuses text that YAML or Dagster would misread.

A YAML parser silently takes the last of two equal keys, so that it would ignore one of two caps, and it reads 010 as 8
and 1:30 as 90. The components see only the result.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from assets.release.numbers import shown
from assets.release.release import DeclarationError
from assets.texts import suggest
from orchestration import components
from orchestration.components.release import COMPONENTS
from resources.project import list_files
from resources.regular import read_regular

_MERGE = "tag:yaml.org,2002:merge"
_KEPT_AS_TEXT = {"tag:yaml.org,2002:timestamp", _MERGE}
"""The kinds of scalars that Dagster reads as text, or does not read."""

_QuickLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C parser, if PyYAML has it, which takes a tenth of the time."""

_DEEPEST = 50
"""The limit on nested lists and mappings; the functions that read them are recursive."""

_MOST_REPEATED = 100_000
"""The limit on the values that the aliases of a file stand for."""


def require_unambiguous(folder: Path) -> None:
    """Check all files of declarations in a folder and below it. Raises DeclarationError if a file declares nothing, a
    mapping has a key twice, a number is not decimal, lists and mappings are nested without end, a component is not one
    of `orchestration.components`, a component has a field other than its type and attributes, or a file cannot be read
    as YAML; the message names the file, the line and the key or the number. It also raises DeclarationError if Dagster
    would ignore a file because another one declares its folder or one above."""
    files = list_files(folder)
    declared = {path.parent: path for path in files}
    for path in files:
        if other := next((declared[above] for above in path.parents if declared.get(above, path) != path), None):
            raise DeclarationError(
                f"{path}: Dagster reads either this file or {other}, because one file declares a folder with all that "
                "is below it; move one of them to a folder beside the other, or put both into one file"
            )
        try:
            text = read_regular(path).decode("utf-8")
        except (OSError, UnicodeError) as error:
            raise DeclarationError(f"{path}: it cannot be read as UTF-8 ({type(error).__name__})") from None
        require_unambiguous_text(text, str(path))


def read_documents(folder: Path) -> Iterator[tuple[Path, Any]]:
    """Each file of declarations in a folder and below it, with each of its documents. They must have been checked."""
    for path in list_files(folder):
        text = path.read_text(encoding="utf-8")
        yield from ((path, document) for document in yaml.load_all(text, _choose_loader(text)))


def _choose_loader(text: str) -> type[yaml.SafeLoader]:
    """The quick loader, unless it could read the text differently from Dagster's parser: the quick one accepts tabs,
    which Dagster's refuses, and skips a byte order mark at the start of a line, so that a quote after it would hide
    lines."""
    return yaml.SafeLoader if "\t" in text or "\ufeff" in text else _QuickLoader


def require_unambiguous_text(text: str, file: str) -> None:
    """Check the text of one file, which contains one YAML document or several. Raises DeclarationError as
    `require_unambiguous`."""
    try:
        try:
            _require_unambiguous(text, file, _choose_loader(text))
        except yaml.YAMLError:
            # It refuses text that Dagster's parser reads, such as the code of half a character, and words its errors
            # differently.
            _require_unambiguous(text, file, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DeclarationError(f"{file}{line}: it is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise DeclarationError(f"{file}: it is not YAML: {' '.join(str(error).split())}") from None


def _require_unambiguous(text: str, file: str, loader_type: type[yaml.SafeLoader]) -> None:
    _require_bounded(text, file, loader_type)
    loader = loader_type(text)
    if not loader.check_node():
        raise DeclarationError(f"{file}: it has no declaration; remove the file, or declare a component in it")
    while loader.check_node():
        document = loader.get_node()
        for node in _nodes(document, set()):
            _check(loader, node, file)
        _require_ours(document, file)


def _require_ours(document: yaml.Node, file: str) -> None:
    """Refuse foreign components, and fields besides a component's type and attributes. With Dagster's own components,
    an editor of declarations could run any program, or have Dagster fill in a template and so show any variable;
    `post_processing` changes the metadata of assets, such as their zone. Dagster itself refuses a document without a
    type."""
    fields = document.value if isinstance(document, yaml.MappingNode) else []
    # A merge can also set the type.
    if not any(name.value == "type" or name.tag == _MERGE for name, _ in fields):
        return
    for name, field in fields:
        where = f"{file}:{name.start_mark.line + 1}: {name.value if name.value == 'type' else shown(name.value)}"
        if name.value == "type":
            # A name can also contain the module that defines the component.
            package, _, component = str(field.value).rpartition(".")
            if not (f"{package}.".startswith(f"{COMPONENTS}.") and component in components.__all__):
                kinds = ", ".join(components.__all__)
                close = suggest(component, components.__all__).replace("mean ", f"mean {COMPONENTS}.")
                raise DeclarationError(f"{where}: it names none of the components, which are {kinds}{close}")
        elif name.value != "attributes":
            close = suggest(str(name.value), ("type", "attributes"))
            raise DeclarationError(f"{where}: a declaration has only a type and attributes{close or '; remove it'}")


def _require_bounded(text: str, file: str, loader_type: type[yaml.SafeLoader]) -> None:
    """Refuse deeply nested values, and aliases that stand for too many: ten lines, each with ten aliases of the line
    before, are ten billion values."""
    opened: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    values = repeated = 0
    for event in yaml.parse(text, loader_type):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values))
            values += 1
            if len(opened) > _DEEPEST:
                raise DeclarationError(f"{file}:{line}: more than {_DEEPEST} lists and mappings contain one another")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = values - before
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            if any(event.anchor == anchor for anchor, _ in opened):
                raise DeclarationError(f"{file}:{line}: the alias *{event.anchor} refers to itself")
            values += sizes.get(event.anchor, 0)
            repeated += sizes.get(event.anchor, 0)
            if repeated > _MOST_REPEATED:
                raise DeclarationError(f"{file}:{line}: aliases such as *{event.anchor} stand for too many values")


def _nodes(node: yaml.Node, seen: set[int]) -> Iterator[yaml.Node]:
    if id(node) in seen:
        return
    seen.add(id(node))
    yield node
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            for part in pair:
                yield from _nodes(part, seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _nodes(item, seen)


def _check(loader: yaml.SafeLoader, node: yaml.Node, file: str) -> None:
    if isinstance(node, yaml.ScalarNode):
        _value(loader, node, file)
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[object, int] = {}
    before: yaml.Node | None = None
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if before is not None and _is_decimal_comma(before, key_node, value_node):
            written = f"{before.value},{key_node.value}"
            raise DeclarationError(
                f"{file}:{line}: {written} is not read as one number: a comma separates the fields of a mapping; write "
                f"{before.value}.{key_node.value}, with a decimal point"
            )
        before = value_node
        if not isinstance(key_node, yaml.ScalarNode):
            raise DeclarationError(f"{file}:{line}: a key is a single text or number")
        key = _value(loader, key_node, file)
        if key in lines:
            raise DeclarationError(
                f"{file}:{line}: {shown(key)} is declared twice, first in line {lines[key]}; only one would count"
            )
        lines[key] = line


def _is_decimal_comma(before: yaml.Node, key: yaml.Node, value: yaml.Node) -> bool:
    """Whether a field without a value, as in `{epsilon: 0,5}`, is the end of the number before it."""
    parts = (before, key)
    digits = all(isinstance(part, yaml.ScalarNode) and not part.style and part.value.isdecimal() for part in parts)
    return digits and value.value == "" and key.start_mark.index == before.end_mark.index + 1


def _value(loader: yaml.SafeLoader, node: yaml.ScalarNode, file: str) -> object:
    if node.tag in _KEPT_AS_TEXT:
        return node.value
    where = f"{file}:{node.start_mark.line + 1}"
    try:
        value = loader.construct_object(node)
    except (ValueError, OverflowError):
        # Python refuses to read a number of more than 4,300 digits.
        raise DeclarationError(f"{where}: {shown(node.value)} cannot be read") from None
    digits = node.value.lstrip("+-")
    if isinstance(value, int | float) and (":" in digits or (digits[:1] == "0" and digits[1:2] not in ("", "."))):
        raise DeclarationError(
            f"{where}: {shown(node.value)} would be read as {shown(value)}; write a number in decimal digits without "
            "leading zeros, and a code in quotes"
        )
    return value
