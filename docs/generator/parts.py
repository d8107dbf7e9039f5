"""The generated parts of pages, and the MkDocs hooks that insert them during a build.

A line with only `{{ made: NAME }}` stands for a part. This module makes the section of each command of `stirred` from
the command itself, and the gates of a mechanism from the definitions. Each component has a generated page.
`CONTRIBUTING.md` and `CHANGELOG.md` are pages too.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import click

from docs.generator.fields import format_cell, format_section, format_table, make_component_page, make_components_list
from docs.generator.gates import SHOWN, make_gates
from orchestration import components
from orchestration.cli import main


def make_commands_page() -> str:
    """A section for each command, in the order in which `stirred --help` lists them."""
    return "\n".join(_section(name, command) for name, command in list_commands(main, "stirred"))


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": make_commands_page,
    "components": make_components_list,
    **{mechanism: partial(make_gates, mechanism) for mechanism in SHOWN},
}
PLACE = re.compile(r"^\{\{ made: ([\w-]+) \}\}$", re.MULTILINE)
"""The line that stands for a part."""
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.+?)\\[)\]]</\1>', re.DOTALL)
"""A formula in TeX, as `pymdownx.arithmatex` leaves it."""
ADDED_PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site that are files in the project's folder."""
COMPONENTS = "reference/components"
PICTURES = Path(__file__).resolve().parents[1] / "pictures"
PICTURE = re.compile(r'<img [^>]*?src="([^"]*pictures/)([^"/]+)"[^>]*>')


def on_config(config: Any) -> Any:
    """List the page of each component below the page that lists the components."""
    entries = [entry for part in config.nav for entry in next(iter(part.values())) if isinstance(entry, dict)]
    (entry,) = (entry for entry in entries if f"{COMPONENTS}.md" in entry.values())
    pages = [{name: f"{COMPONENTS}/{name}.md"} for name in components.__all__]
    entry[next(iter(entry))] = [f"{COMPONENTS}.md", *pages]
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages of components and of the project's folder, whose links to `docs/` become links within the site."""
    from mkdocs.structure.files import File

    root = Path(config.docs_dir).parent
    for page, name in ADDED_PAGES.items():
        text = (root / name).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for name in components.__all__:
        files.append(File.generated(config, f"{COMPONENTS}/{name}.md", content=make_component_page(name)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """A page with its generated parts. Raises KeyError if the page names an unknown part."""
    return PLACE.sub(lambda place: PARTS[place[1]](), markdown)


def on_page_content(html: str, **_: object) -> str:
    """A page whose formulas are MathML, which browsers show without a script, and whose pictures open at full size.

    A picture in `docs/pictures/dark` takes the place of its namesake on a dark page; `site.css` inverts all others.
    """
    # Only the site's environment has it.
    from latex2mathml.converter import convert

    def make_mathml(formula: re.Match[str]) -> str:
        if formula[1] == "span":
            return str(convert(unescape(formula[2])))
        return f'<div class="formula">{convert(unescape(formula[2]), display="block")}</div>'

    def make_link(image: re.Match[str]) -> str:
        tag, (folder, name) = image[0], image.groups()
        if not (PICTURES / "dark" / name).exists():
            return f'<a class="picture" href="{folder}{name}">{tag}</a>'
        dark = tag.replace(f"{folder}{name}", f"{folder}dark/{name}#only-dark")
        light = tag.replace(f"{folder}{name}", f"{folder}{name}#only-light")
        return f'<a href="{folder}{name}">{light}</a><a href="{folder}dark/{name}">{dark}</a>'

    return PICTURE.sub(make_link, FORMULA.sub(make_mathml, html))


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
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    records = [option.get_help_record(context) for option in command.params if isinstance(option, click.Option)]
    options = [(f"`{record[0]}`", format_cell(record[1])) for record in records if record]
    table = format_table(("option", "meaning"), options) if options else ""
    return format_section(3, name, f"```sh\n{name} {usage}\n```\n\n{text}\n\n{table}")
