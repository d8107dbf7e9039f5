"""Prose of certificates and pages: Markdown files of texts, each below a heading, whose values are filled in.

The texts of a mechanism are in `statement.md` beside its module `statement`, as Jinja templates. A line break is a
space, so that sentences may be wrapped anywhere; an empty line separates paragraphs. In a text for an asset's page,
which is Markdown, the filter `plain` escapes text that a person wrote. The page of a certificate, which escapes these
texts, is `certificate.html` in `assets.publication`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, FileSystemLoader, StrictUndefined, Template

from assets.conventions import escape_markdown, join_names
from assets.texts import show_lines
from resources.templates import keep_compiled

_HEADING = "## "


class Prose:
    """The texts of a Markdown file, given by its path or by the path of the module with the same stem beside it."""

    def __init__(self, path: str | Path) -> None:
        _, *sections = f"\n{Path(path).with_suffix('.md').read_text('utf-8')}".split(f"\n{_HEADING}")
        texts = {}
        for heading, _, text in (section.partition("\n") for section in sections):
            paragraphs = (" ".join(paragraph.split("\n")) for paragraph in text.strip().split("\n\n"))
            texts[heading.strip()] = "\n\n".join(paragraphs)
        compiled = keep_compiled(Path(__file__), *texts.values())
        self._environment = Environment(loader=DictLoader(texts), undefined=StrictUndefined, bytecode_cache=compiled)
        self._environment.filters |= {
            "conjoin": join_names,
            "plain": escape_markdown,
            "general": lambda number: f"{float(number):g}",
            "sentence": lambda text: f"{text[:1].upper()}{text[1:]}",
            "thousands": "{:,}".format,
        }

    def __call__(self, heading: str, **values: Any) -> str:
        """The text below a heading, with values filled in. Raises errors of jinja2 if the heading or values are
        missing."""
        return self._environment.get_template(heading).render(values)


def load_template(path: Path, *, escape: bool, **filters: Callable[..., object]) -> Template:
    """The template of a file whose lines are kept, such as a page; with `escape`, values are escaped."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=escape,
        undefined=StrictUndefined,
        finalize=lambda value: show_lines(value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=keep_compiled(Path(__file__)),
    )
    environment.filters |= filters
    return environment.get_template(path.name)
