"""The generated parts of pages, and the hooks by which MkDocs fills them in while it builds the site.

A line that holds nothing but `{{ made: NAME }}` stands for a part. The section of each command of `stirred` is made
here from the command itself. `CONTRIBUTING.md` and `CHANGELOG.md` become pages of the site too.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import click

from docs.generator.fields import format_cell, format_section, format_table, make_components_page
from orchestration.cli import main


def make_commands_page() -> str:
    """A section for each command, in the order in which `stirred --help` lists them."""
    return "\n".join(_section(name, command) for name, command in list_commands(main, "stirred"))


PARTS: Mapping[str, Callable[[], str]] = {"commands": make_commands_page, "components": make_components_page}
PLACE = re.compile(r"^\{\{ made: (\w+) \}\}$", re.MULTILINE)
"""The line that stands for a part."""
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.+?)\\[)\]]</\1>', re.DOTALL)
"""A formula in TeX, as `pymdownx.arithmatex` leaves it."""
ADDED_PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site that are files in the project's folder."""


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that lie in the project's folder; their links to `docs/` become links within the site."""
    from mkdocs.structure.files import File

    root = Path(config.docs_dir).parent
    for page, name in ADDED_PAGES.items():
        text = (root / name).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """A page with its generated parts. Raises KeyError if the page names a part that there is not."""
    return PLACE.sub(lambda place: PARTS[place[1]](), markdown)


def on_page_content(html: str, **_: object) -> str:
    """A page whose formulas are MathML, which browsers show without a script."""
    # Only the site's environment has it.
    from latex2mathml.converter import convert

    def make_mathml(formula: re.Match[str]) -> str:
        return str(convert(unescape(formula[2]), display="block" if formula[1] == "div" else "inline"))

    return FORMULA.sub(make_mathml, html)


def list_commands(group: click.Group, above: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from list_commands(command, f"{above} {name}")
        else:
            yield f"{above} {name}", command


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    paragraphs = (command.help or "").replace("\b", "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()).replace("<", "&lt;") for paragraph in paragraphs)
    options = [
        (f"`{option.get_help_record(context)[0]}`", format_cell(option.help or ""))  # type: ignore[index]
        for option in command.params
        if isinstance(option, click.Option)
    ]
    table = format_table(("option", "meaning"), options) if options else ""
    return format_section(3, name, f"```sh\n{name} {usage}\n```\n\n{text}\n\n{table}")
