"""The check of each declaration of a deployment on its own, so that a broken one does not hide problems of the others,
as it does when Dagster loads the definitions. Only the releases of a refused dataset and the other declarations in the
file of a refused one wait until it is corrected."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from pydantic import ValidationError

from assets.ledger.population import group_populations
from assets.release.numbers import shown
from assets.release.release import DeclarationError
from assets.texts import is_formula
from orchestration import components
from orchestration.components.dataset import Dataset
from orchestration.components.publisher import PublisherSettings
from orchestration.components.release import DeclaresReleases, dataset_of
from orchestration.components.scaffolding import JobComponent
from orchestration.defs_files import require_unambiguous_text
from orchestration.planning import find_charge_problem
from orchestration.release_definitions import define_stages
from resources.faults import name_error
from resources.project import list_files
from resources.regular import read_regular

_WITH_CELLS = ("units", "persons", "recoded_units", "recoded_persons", "place_names")
_NO_CELLS = frozenset({"path", "geography_path", "source", "pattern", "title", "description"})
_WITH_NAMES = frozenset({"columns", "values", "bands", "merge", *_WITH_CELLS[2:]})
"""The fields of a dataset whose texts become cells of CSV files, the fields within them whose texts do not, and the
fields whose keys are names or codes."""


@dataclass(frozen=True)
class Problem:
    """A problem of a declaration: the dataset or release, the field and the rule, in one sentence. The file is relative
    to the folder of declarations, and "" for a problem of several files; lines count from 1. A warning does not refuse
    the declaration."""

    file: str
    line: int
    text: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.file else self.text


@dataclass(frozen=True)
class _Document:
    """One document of a file: the node of its attributes, and the component that they declare."""

    file: str
    node: yaml.Node | None
    component: dg.Component


def declaration_problems(tree: dg.ComponentTree, published: Path) -> list[Problem]:
    """The problems of all declarations below `defs/`, in the order of the files. If all declarations can be loaded,
    these are only warnings of texts that spreadsheets would take for formulas."""
    folder = tree.defs_module_path
    files = sorted(path.relative_to(folder).as_posix() for path in list_files(folder))
    documents: list[_Document] = []
    problems = [problem for file in files for problem in _read(folder / file, file, documents)]
    all_loaded = not problems
    others = [document.component for document in documents if isinstance(document.component, DeclaresReleases)]
    first_files: dict[str, str] = {}
    datasets = {}
    for document in documents:
        component = document.component
        if isinstance(component, Dataset):
            datasets[component.declaration.name] = component.declaration
            names = [f"dataset {component.declaration.name}"]
        elif isinstance(component, DeclaresReleases):
            names = sorted({component.named, *(release.named for release in component.releases(others))})
            names = [f"release {name}" for name in names]
        elif isinstance(component, JobComponent):
            names = [f"release {component.named}"]
        elif isinstance(component, PublisherSettings):
            names = ["publisher of all releases"]
        else:
            continue
        for name in names:
            if name in first_files:
                line = _find_line(document.node, ["name"])
                problems.append(Problem(document.file, line, f"{name}: it is declared in {first_files[name]} too"))
            first_files.setdefault(name, document.file)
    for document in documents:
        # A missing dataset may be one of the refused ones, in which case the release is not at fault.
        component = document.component
        if isinstance(component, JobComponent) and (all_loaded or component.declaration.dataset in datasets):
            try:
                component.require(datasets, others)
            except DeclarationError as error:
                problems += _explain(document.file, document.node, error)
        for release in component.releases(others) if isinstance(component, DeclaresReleases) else ():
            if not (all_loaded or release.declaration.dataset in datasets):
                continue
            try:
                dataset = dataset_of(release.declaration, datasets)
                method = release.method(release.release(dataset, published))
                define_stages(release, method)
                if problem := find_charge_problem(method.release, method.release.declared_specification):
                    raise DeclarationError(problem)
            except (DeclarationError, ValidationError) as error:
                problems += _explain(document.file, document.node, error)
    try:
        group_populations(datasets.values())
    except DeclarationError as error:
        problems.append(Problem("", 0, str(error)))
    if problems:
        found = {(problem.file, problem.text) for problem in problems}
        # A release that reads another one repeats its problem, which is to be corrected in the other's file.
        owners = [(first_files.get(problem.text.partition(": ")[0], problem.file), problem) for problem in problems]
        problems = [each for file, each in owners if file == each.file or (file, each.text) not in found]
        return sorted(problems, key=lambda problem: (not problem.file, problem.file, problem.line))
    try:
        tree.load_component(folder)
    except Exception as error:
        # Dagster also refuses other things, such as errors in a Python file, without naming the file.
        return [Problem("", 0, explain_cause(find_cause(error)))]
    return [warning for document in documents for warning in _warn_of_formulas(document)]


def _warn_of_formulas(document: _Document) -> Iterator[Problem]:
    """Warnings about a dataset's column names, codes and labels, which become cells of published CSV files."""
    if not isinstance(document.component, Dataset):
        return
    for field in _WITH_CELLS:
        declared = _descend(document.node, field)
        # In some kinds of datasets, the field is the path of a file.
        texts = _list_texts(declared, field, field in _WITH_NAMES) if isinstance(declared, yaml.MappingNode) else ()
        for fields, node in texts:
            if is_formula(node.value):
                words = f"{fields}: {shown(node.value)} begins with {node.value[0]}, which a spreadsheet that opens a "
                words = f"warning: dataset {document.component.declaration.name}: {words}CSV file takes for a formula"
                yield Problem(document.file, node.start_mark.line + 1, words, warning=True)


def _list_texts(node: yaml.Node | None, fields: str, with_names: bool = False) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """The texts among the keys and values below a field, with the fields that lead to them.

    Args:
        with_names: whether the keys are names or codes rather than fields.
    """
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _list_texts(key, fields)
            if with_names or key.value not in _NO_CELLS:
                yield from _list_texts(value, f"{fields}.{key.value}", not with_names and key.value in _WITH_NAMES)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _list_texts(value, fields)
    elif isinstance(node, yaml.ScalarNode) and str(node.tag).endswith(":str"):
        yield fields, node


def _read(path: Path, file: str, documents: list[_Document]) -> Iterator[Problem]:
    """The problems of one file; adds its documents to `documents`. Each document is resolved by itself, because the
    tree would load all files and stop at the first broken one."""
    try:
        text = read_regular(path).decode("utf-8")
        require_unambiguous_text(text, file)
    except (OSError, UnicodeError) as error:
        yield Problem(file, 1, f"it cannot be read as UTF-8 ({type(error).__name__})")
        return
    except DeclarationError as error:
        place, _, reason = str(error).partition(": ")
        line = place.removeprefix(file).removeprefix(":")
        yield Problem(file, int(line) if line.isdigit() else 1, reason)
        return
    try:
        read = list(zip(yaml.compose_all(text, yaml.SafeLoader), yaml.safe_load_all(text), strict=True))
    except yaml.YAMLError as error:
        # The Python parser may refuse a file that the C parser has read.
        yield Problem(file, 1, f"it is not YAML: {' '.join(str(error).split())}")
        return
    for node, document in read:
        yield from _resolve(file, node, document, documents)


def _resolve(file: str, node: yaml.Node, document: Any, documents: list[_Document]) -> Iterator[Problem]:
    kind = document.get("type") if isinstance(document, Mapping) else None
    if kind is None:
        kinds = ", ".join(components.__all__)
        yield Problem(file, 1, f"type: it is missing; the components are {kinds}")
        return
    known: Any = getattr(components, kind.rpartition(".")[2])
    attributes = _descend(node, "attributes")
    try:
        model = known.model().model_validate(document.get("attributes") or {})
        component = known.resolve_from_model(dg.ResolutionContext.default(), model)
        documents.append(_Document(file, attributes, component))
    except (DeclarationError, ValidationError) as error:
        yield from _explain(file, attributes, error)


def _explain(file: str, attributes: yaml.Node | None, error: BaseException) -> Iterator[Problem]:
    if isinstance(error, ValidationError):
        for refusal in error.errors(include_url=False):
            text, location = refusal["msg"].removeprefix("Value error, "), refusal["loc"]
            yield Problem(file, _find_line(attributes, [*location, *_list_fields(text, len(location))]), text)
    else:
        yield Problem(file, _find_line(attributes, _list_fields(str(error))), str(error))


def explain_refusal(error: BaseException, tree: dg.ComponentTree, published: Path) -> str:
    """The problems of the declarations, if these caused the error; "" if it has another cause."""
    if not isinstance(find_cause(error), DeclarationError | ValidationError | yaml.YAMLError):
        return ""
    return "\n".join(str(problem) for problem in declaration_problems(tree, published) if not problem.warning)


def find_cause(error: BaseException) -> BaseException:
    """The refusal in a chain of errors, or the first error of the chain."""
    while not isinstance(error, DeclarationError | ValidationError) and (error.__cause__ or error.__context__):
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def explain_cause(cause: BaseException) -> str:
    """The problem in our own words or pydantic's, without the given value, which may come from a variable."""
    if isinstance(cause, ValidationError):
        problems = cause.errors(include_url=False, include_input=False, include_context=False)
        return "\n".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
    return str(cause) if isinstance(cause, DeclarationError | ImportError) else name_error(cause)


def _list_fields(message: str, known: int = 0) -> list[str]:
    """The fields that a message such as `release town/tenure: swap: …` names, without the first `known` ones."""
    fields = message.split(": ")[1:-1]
    return [field for part in fields[:1] for field in part.split(".")][known:] + fields[1:]


def _descend(node: yaml.Node | None, field: object) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == str(field)), None)
    if isinstance(node, yaml.SequenceNode) and str(field).isdigit() and int(str(field)) < len(node.value):
        return node.value[int(str(field))]
    return None


def _find_line(node: yaml.Node | None, fields: Any) -> int:
    """The line of the innermost of these fields that is there, from 1."""
    if node is None:
        return 1
    line = node.start_mark.line + 1
    for field in fields:
        if isinstance(node, yaml.MappingNode):
            line = next((key.start_mark.line + 1 for key, _ in node.value if key.value == str(field)), line)
        node = _descend(node, field)
        if node is None:
            break
        if not isinstance(node, yaml.MappingNode | yaml.SequenceNode):
            line = node.start_mark.line + 1
    return line
