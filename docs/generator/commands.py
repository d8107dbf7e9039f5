"""Every command of `stirred` with its arguments and options, in Markdown: made from the command itself."""

from collections.abc import Iterator

import click

from docs.generator.markdown import cell, section, table
from orchestration.cli import main


def commands_page() -> str:
    """A section for each command, in the order in which `stirred --help` lists them."""
    return "\n".join(_section(name, command) for name, command in commands_of(main, "stirred"))


def commands_of(group: click.Group, above: str) -> Iterator[tuple[str, click.Command]]:
    """All commands below a group, with their full names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{above} {name}")
        else:
            yield f"{above} {name}", command


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    paragraphs = (command.help or "").replace("\b", "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()).replace("<", "&lt;") for paragraph in paragraphs)
    options = [
        (f"`{option.get_help_record(context)[0]}`", cell(option.help or ""))  # type: ignore[index]
        for option in command.params
        if isinstance(option, click.Option)
    ]
    shown = table(("option", "meaning"), options) if options else ""
    return section(3, name, f"```sh\n{name} {usage}\n```\n\n{text}\n\n{shown}")
