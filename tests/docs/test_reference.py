"""The reference pages agree with the code: fields, commands, exit codes, the spine, the gates' false alarms."""

import re
import shlex
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from typing import Any

import click
import pytest

from assets.topdown.declaration import PRODUCTION_SPINE
from docs.generator.fields import make_component_page, make_components_list
from docs.generator.parts import PARTS, PLACE, make_commands_page, on_page_markdown
from docs.pictures.__main__ import FOLDER
from mechanisms.sampling.goodness import FALSE_ALARM
from orchestration import cli, components
from tests.docs.warehouse import undescribed

REFERENCE = FOLDER.parent / "reference"


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


def sections(text: str, level: int) -> dict[str, str]:
    """The text below each heading of a level, by heading."""
    _, *parts = re.split(rf"^{'#' * level} (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def first_cells(text: str) -> list[str]:
    """The first cells of the rows of tables, without their heads."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def objects(schema: Any) -> list[Any]:
    """All parts of a JSON schema that are models."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else []
    own = [schema] if isinstance(schema, dict) and schema.get("type") == "object" and "properties" in schema else []
    return own + [found for each in inner for found in objects(each)]


@pytest.mark.parametrize("name", components.__all__)
def test_every_field_that_a_declaration_may_have_is_listed(name: str) -> None:
    """The reverse comparison: the fields come from the JSON schema by which editors complete YAML."""
    shown = make_component_page(name)
    tables = [first_cells(text) for text in [shown.split("\n## ")[0], *sections(shown, 2).values()]]
    declared = [list(each["properties"]) for each in objects(getattr(components, name).model().model_json_schema())]
    assert sorted(tables) == sorted(declared)


def test_a_field_says_what_it_takes_and_whether_it_is_required() -> None:
    rows = "".join(map(make_component_page, components.__all__)).splitlines()
    assert "| `swap_rate` | number or fraction, above 0 and below 1; **required** |" in "\n".join(
        row.rsplit("|", 2)[0] + "|" for row in rows if row.startswith("| `swap_rate`")
    )
    assert any(row.startswith("| `custody` | `escrowed` or `ephemeral`; by default `escrowed` |") for row in rows)
    assert any("; by default `[1/4, 1/2, 3/4]` |" in row for row in rows)
    assert any(
        "number or fraction, at least 0 and at most 1, or `accepted`; by default `1/100` |" in row for row in rows
    )
    assert any(row.startswith("| `geographies` | mapping to text or list of text; **required** |") for row in rows)
    assert any("; by default `{sampling_rate: 1/1500, response_rate: 7/10, " in row for row in rows)
    assert any(row.startswith("| `processes` | integer, at least 0 and at most 256; by default `0` |") for row in rows)


def test_every_link_within_the_fields_leads_to_a_heading() -> None:
    for name in components.__all__:
        text = make_component_page(name)
        headings = {heading.lower().replace(" ", "-") for heading in [*sections(text, 1), *sections(text, 2)]}
        assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


def test_every_component_has_a_page_in_the_list() -> None:
    assert list(sections(make_components_list(), 2)) == components.__all__


def test_every_command_and_option_is_listed() -> None:
    shown = sections(make_commands_page(), 3)

    def look(command: click.Command, name: str) -> int:
        if isinstance(command, click.Group):
            children = map(partial(command.get_command, context), command.list_commands(context))
            return sum(look(child, f"{name} {child.name}") for child in children if child)
        for parameter in command.params:
            named = parameter.opts if isinstance(parameter, click.Option) else [parameter.make_metavar(context)]
            assert [each for each in named if each not in shown[name]] == []
        return 1

    context = click.Context(cli.main)
    assert look(cli.main, "stirred") == len(shown)
    # Markdown shows a character's entity in code literally.
    assert "`source <(stirred completion bash)`" in shown["stirred completion"]


def shown_commands(text: str) -> Iterator[list[str]]:
    """The commands in the blocks of a page, up to the first redirection or further command of their lines."""
    for block in re.findall(r"^ *```(?:sh|text)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        for line in re.findall(r"^ *(?:\$ )?((?:stirred|make|python -m) .*)", block, re.MULTILINE):
            words = shlex.shlex(line, posix=True, punctuation_chars=True)
            words.whitespace_split = True
            yield list(takewhile(lambda word: word[0] not in "|&>", words))


def refusal(words: list[str]) -> str:
    """The reason why a command is invalid: there is no such command, option, target or module."""
    root, (program, *rest) = FOLDER.parents[1], words
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (root / "Makefile").read_text("utf-8"), re.MULTILINE)
        return "" if {*rest} <= {*targets, ".venv/.ready"} else "no target"
    if program == "python":
        module = root.joinpath(*rest[1].split("."))
        return "" if module.is_dir() or module.with_suffix(".py").exists() else "no module"
    command: click.Command | None = cli.main
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), rest.pop(0))
    if command is None:
        return "no command"
    try:
        command.make_parser(click.Context(command)).parse_args(rest)
    except click.UsageError as error:
        return error.message
    return ""


def test_every_command_that_a_page_shows_can_be_given() -> None:
    """Wrong page: one with an option of another command, which a reader finds out after the refusal."""
    pages = [*FOLDER.parent.rglob("*.md"), *(FOLDER.parents[1] / name for name in ("README.md", "CONTRIBUTING.md"))]
    shown = [words for path in pages for words in shown_commands(path.read_text("utf-8"))]
    assert len(shown) > 80
    assert [(words, refusal(words)) for words in shown if refusal(words)] == []
    wrong = "```sh\nstirred preflight a/b --try x\nstirred lunch\nmake all\npython -m tests.none  # a comment\n```\n"
    assert list(map(refusal, shown_commands(wrong))) == [
        "No such option '--try'.",
        "no command",
        "no target",
        "no module",
    ]


def test_every_generated_part_has_one_place() -> None:
    places = [place for path in FOLDER.parent.rglob("*.md") for place in PLACE.findall(path.read_text("utf-8"))]
    assert sorted(places) == sorted(PARTS)
    assert (
        on_page_markdown("{{ made: commands }}\n{{ env.CEF_FOLDER }}")
        == f"{make_commands_page()}\n{{{{ env.CEF_FOLDER }}}}"
    )


def test_the_exit_codes_are_those_of_the_command() -> None:
    codes = re.findall(r"^\| (\d) \| (.+) \|$", page("command"), re.MULTILINE)
    assert [int(code) for code, _ in codes] == [0, cli.REFUSED, click.UsageError.exit_code, cli.UNAUTHORIZED]


def test_every_setting_of_a_deployment_is_listed() -> None:
    root = FOLDER.parents[1]
    modules = [path for layer in ("assets", "orchestration", "resources") for path in (root / layer).rglob("*.py")]
    settings = {found for path in modules for found in re.findall(r"\bSTIRRED_[A-Z_]+", path.read_text("utf-8"))}
    assert "STIRRED_HOME" in settings
    assert {setting for setting in settings if f"`{setting}`" not in page("deployment")} == set()


def test_the_columns_of_the_production_spine_are_listed() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| \d+ \|$", page("census-layout"), re.MULTILINE)
    shown = {level: tuple(re.findall(r"[A-Z]{5,}", columns)) for level, columns in rows}
    assert shown == {level: code.columns for level, code in PRODUCTION_SPINE.items()}


def test_the_false_alarm_level_is_that_of_the_gate() -> None:
    assert FALSE_ALARM == 1e-9
    assert "probability of at most about 10⁻⁹" in " ".join(page("gates").split())
    assert "10⁻⁹" in (FOLDER.parents[1] / "README.md").read_text("utf-8")


def test_a_table_or_column_that_the_page_of_the_warehouse_lacks_is_noticed() -> None:
    known = {"public.town.cef_seal": ["seal"], "public.town__tenure.charge": ["draw_id", "commitment"]}
    known["public.town__tenure.charge"] += ["ledger_entry", "ledger_hash", "epsilon"]
    assert undescribed(known, "swapping") == []
    other = {
        "public.town__tenure.keys": ["key"],
        "confidential.town__tenure.swapped_cells": ["holding_code", "swap_code", "count"],
        "public.town__tenure.swapped_cells": ["holding_code", "swap_code", "count", "true_count"],
        "public.town__tenure.draw": [],
        "public.town__tenure.level_block": ["histogram", "number", "cell", "count"],
    }
    assert undescribed(other, "swapping") == [f"{name}: {', '.join(columns)}" for name, columns in other.items()]
