"""The fields of every component, in Markdown, from the models that validate declarations."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import dropwhile
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from assets.conventions import markdown_table
from orchestration import components
from orchestration.components.scaffolding import fill_in_example

_TYPES = {"string": "text", "number": "number", "integer": "integer", "boolean": "`true` or `false`"}
_TYPES |= {"array": "list", "object": "mapping", "null": "`null`"}

_REFERENCE = "#/$defs/"

Schema = Mapping[str, Any]


def make_components_list() -> str:
    """A section for each component, with a link to its page."""
    return "\n".join(
        format_section(2, name, f"{_first_paragraph(_find(name).__doc__)} [All fields](components/{name}.md)")
        for name in components.__all__
    )


def make_component_page(name: str) -> str:
    """The page of a component, with a section for each kind of value with its own fields."""
    return "\n".join(_sections(name))


def _sections(name: str) -> Iterator[str]:
    model = _find(name).model()
    schema = model.model_json_schema()
    yield format_section(1, name, _first_paragraph(_find(name).__doc__))
    yield _fields_table(model, schema, schema.get("$defs", {}), name)
    # The declaration that `dg scaffold defs` writes, without the remark at its beginning.
    example = dropwhile(
        lambda line: line.startswith("#"),
        fill_in_example(f"{components.__name__}.{name}", "town", "example").splitlines(),
    )
    yield "\n".join(["```yaml", *example, "```", ""])
    for inner_name, inner in find_models(model).items():
        if inner is not model:
            yield format_section(2, _title(name, inner_name), _first_paragraph(inner.__doc__))
            yield _fields_table(inner, schema["$defs"][inner_name], schema["$defs"], name)


def _find(name: str) -> Any:
    return getattr(components, name)


def find_models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """A model, and all models that its fields contain, by name."""
    models = {model.__name__: model}
    for field in model.model_fields.values():
        for inner in _models_in(field.annotation):
            if inner.__name__ not in models:
                models |= find_models(inner)
    return models


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)


def _fields_table(model: type[BaseModel], schema: Schema, models: Schema, component: str) -> str:
    rows = []
    for name, field in model.model_fields.items():
        kind = describe_type(schema["properties"][name], models, component)
        default = _describe_default(field, name in schema.get("required", ()))
        rows.append((f"`{name}`", f"{kind}{default}", format_cell(field.description or "")))
    return format_table(("field", "takes", "meaning"), rows)


def describe_type(schema: Schema, models: Schema, component: str) -> str:
    """The values that a field takes by its JSON schema, in words; links lead to the section of the component."""
    if reference := schema.get("$ref"):
        name = reference.removeprefix(_REFERENCE)
        if "enum" in models[name]:
            return describe_type(models[name], models, component)
        title = _title(component, name)
        return f"[{title}](#{title.lower().replace(' ', '-')})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        codes = [f"`{code}`" for code in schema["enum"]]
        return " or ".join(codes) if len(codes) < 3 else f"one of {', '.join(codes)}"
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices:
        numbers = [choice for choice in choices if choice.get("type") == "number"]
        if numbers and len(choices) == 2:
            patterns = [pattern for choice in choices if (pattern := choice.get("pattern"))]
            words = [f", or `{word}`" for pattern in patterns for word in re.findall(r"\|\^([a-z]+)\$", pattern)]
            return f"number or fraction{_bounds(numbers[0])}{''.join(words)}"
        return _join_alternatives([describe_type(choice, models, component) for choice in choices])
    kinds = schema.get("type", ())
    if isinstance(kinds, list):
        return _join_alternatives([_TYPES[kind] for kind in kinds])
    if kinds == "array" and "items" in schema:
        longest = f", at most {schema['maxItems']:,} of them" if "maxItems" in schema else ""
        return f"list of {describe_type(schema['items'], models, component).replace('one of', 'any of')}{longest}"
    if kinds == "object":
        inner = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
        return f"mapping to {describe_type(inner, models, component)}" if inner else "mapping"
    return f"{_TYPES[kinds]}{_bounds(schema)}"


def _join_alternatives(alternatives: Sequence[str]) -> str:
    """Lists and mappings come last, because YAML would read a later line as one of their values."""
    ordered = sorted(alternatives, key=lambda each: each.startswith(("list", "mapping")))
    if any("," in each for each in ordered[:-1]):
        return ", or ".join(ordered)
    *words, last = [word for each in ordered for word in (each.split(" or ") if each in _TYPES.values() else [each])]
    return f"{', '.join(words)} or {last}" if words else last


def _bounds(schema: Schema) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    bounds = [f"{word} {schema[bound]:,}" for bound, word in words.items() if bound in schema]
    return f", {' and '.join(bounds)}" if bounds else ""


def _describe_default(field: FieldInfo, required: bool) -> str:
    """The end of a sentence on the field."""
    if required:
        return "; **required**"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value in ("", (), [], {}):
        return ""
    return f"; by default `{_in_yaml(value)}`"


def _in_yaml(value: Any) -> str:
    if isinstance(value, BaseModel):
        return f"{{{', '.join(f'{name}: {_in_yaml(inner)}' for name, inner in value)}}}"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_in_yaml, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _title(component: str, model: str) -> str:
    """The heading of an inner model: the same model may occur in several components."""
    return f"{model.removesuffix('Declaration').removesuffix('Attributes')} in {component}"


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def format_cell(text: str) -> str:
    """A text as a cell of a table: on one line, and without characters that would end the cell or begin an HTML tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return f"{markdown_table(columns, rows)}\n"


def format_section(level: int, title: str, text: str) -> str:
    return f"\n{'#' * level} {title}\n\n{text}\n"
