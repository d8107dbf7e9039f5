"""The fields of every component, in Markdown: made from the models that check a declaration when it is loaded."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from docs.generator.markdown import cell, section, table
from orchestration import components
from orchestration.components.scaffolding import filled_example

_TYPES = {"string": "text", "number": "number", "integer": "integer", "boolean": "`true` or `false`"}
_TYPES |= {"array": "list", "object": "mapping", "null": "`null`"}

_REFERENCE = "#/$defs/"

Schema = Mapping[str, Any]


def components_page() -> str:
    """A section for each component, and one for each kind of value that has fields of its own, after its component."""
    return "\n".join(section for name in components.__all__ for section in _sections(name))


def models_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """A model, and all models that its fields contain, by name."""
    found = {model.__name__: model}
    for field in model.model_fields.values():
        for inner in _models_in(field.annotation):
            if inner.__name__ not in found:
                found |= models_of(inner)
    return found


def _sections(name: str) -> Iterator[str]:
    component = getattr(components, name)
    model = component.model()
    schema = model.model_json_schema()
    yield section(2, name, _first_paragraph(component.__doc__))
    yield _fields_table(model, schema, schema.get("$defs", {}), name)
    yield _example(name)
    for inner_name, inner in models_of(model).items():
        if inner is not model:
            described = schema["$defs"][inner_name]
            yield section(3, _title(name, inner_name), _first_paragraph(inner.__doc__))
            yield _fields_table(inner, described, schema["$defs"], name)


def _example(component: str) -> str:
    """The declaration that `dg scaffold defs` writes, without the remark at its beginning."""
    lines = filled_example(f"{components.__name__}.{component}", "town", "tenure").splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(["```yaml", *lines[first:], "```", ""])


def _fields_table(model: type[BaseModel], schema: Schema, models: Schema, component: str) -> str:
    rows = []
    for name, field in model.model_fields.items():
        left_out = _if_left_out(field, name in schema.get("required", ()))
        kind = takes(schema["properties"][name], models, component)
        rows.append((f"`{name}`", f"{kind}{left_out}", cell(field.description or "")))
    return table(("field", "takes", "meaning"), rows)


def takes(schema: Schema, models: Schema, component: str) -> str:
    """What a field takes, in words.

    Args:
        schema: the JSON schema of the field.
        models: the schemas that it may refer to, by name.
        component: the component whose section the links lead to.
    """
    if reference := schema.get("$ref"):
        name = reference.removeprefix(_REFERENCE)
        if "enum" in models[name]:
            return takes(models[name], models, component)
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
            return f"number or fraction{_bounds(numbers[0])}"
        return " or ".join(takes(choice, models, component) for choice in choices)
    kinds = schema.get("type", ())
    if isinstance(kinds, list):
        return " or ".join(_TYPES[kind] for kind in kinds)
    if kinds == "array" and "items" in schema:
        return f"list of {takes(schema['items'], models, component)}"
    if kinds == "object":
        inner = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
        return f"mapping to {takes(inner, models, component)}" if inner else "mapping"
    return f"{_TYPES[kinds]}{_bounds(schema)}"


def _bounds(schema: Schema) -> str:
    words = [
        f"{words} {schema[bound]:,}"
        for bound, words in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "above"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "below"),
        )
        if bound in schema
    ]
    return f", {' and '.join(words)}" if words else ""


def _if_left_out(field: FieldInfo, required: bool) -> str:
    """What a field is if it is left out, as the end of a sentence."""
    if required:
        return "; **required**"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value in ("", [], {}):
        return ""
    return f"; by default `{_in_yaml(value)}`"


def _in_yaml(value: Any) -> str:
    """A default as it would be declared."""
    if isinstance(value, BaseModel):
        return f"{{{', '.join(f'{name}: {_in_yaml(inner)}' for name, inner in value)}}}"
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _title(component: str, model: str) -> str:
    """The heading of an inner model: the same model may occur in several components."""
    return f"{model.removesuffix('Declaration')} in {component}"


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type, such as a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)
