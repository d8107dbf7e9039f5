"""Texts written by people are shown unchanged: they become no entry, link or picture of ours, and no terminal code."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import ValidationError

from assets.conventions import escape_markdown, markdown_table, preview
from assets.ledger.page import describe_invariants, describe_ledger, describe_releases, describe_totals
from assets.ledger.population import Population
from assets.ledger.view import find_budget, list_entry_records
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Declaration
from assets.release.prose import load_template
from assets.texts import (
    LONGEST_LINE,
    LONGEST_TEXT,
    find_unfit_name,
    find_unseen,
    fold_line,
    show_line,
    show_lines,
    unescape_markdown,
)
from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Flavor, Line, Specification
from orchestration import cli, components
from orchestration.cli import printing
from orchestration.components.scaffolding import fill_in_example
from orchestration.explorer.words import escape
from resources.chain import Details, Entry, make_reservation, make_settlement, make_withdrawal
from resources.ledger import Reading
from tests.contract.kinds import KINDS
from tests.deployments import UNITS, households, small_dataset, small_deployment
from tests.depth import deep_but, deep_cases

UNSEEN = ("\n", "\r", "\t", "\x00", "\x1b", "\x7f", "\x85", "\x9b", "\u061c", "\u200b", "\u202e", "\u2028", "\u2029",
          "\u2066", "\ufeff", "\u3164", "\u2800", "\U000e0041")  # fmt: skip
"""Line breaks, codes of terminals, marks of direction, and other characters that cannot be seen."""
MARKS = "![p](http://forged.example/p) <img src=http://forged.example/> [l](//forged.example) **b** | $c`"
BREAK = "\n\n**Entry 2: village / forged, edition 1**\n\n- authorized by: The Director\n\n| a | b |\n|---|---|\n\n# Big"
TERMINAL = "\x1b[2J\x1b[31m\x9b31m\x07"
HOSTILE = f"Ada {MARKS}{BREAK}\u202e{TERMINAL}{'x' * 2000}"
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])

texts = st.text(st.one_of(st.sampled_from("\n\r\t\x1b\x85\u2028\u202e\u200d |*_[]()!<>#&$`~+-=.)1a "), st.characters()))


def list_tokens(markdown: str) -> list[Any]:
    return [each for token in MARKDOWN.parse(markdown) for each in (token, *(token.children or ()))]


def read_text(markdown: str) -> str:
    return "".join(token.content for token in list_tokens(markdown) if token.type in ("text", "text_special"))


def require_plain(shown: Iterable[tuple[str, object]]) -> None:
    """Assert that no mark of a hostile text has become more than text, in metadata or descriptions by their names."""
    forged = {"html_inline", "html_block", "image", "link_open", "s_open", "heading_open"}
    for name, value in shown:
        if isinstance(value, dg.TableMetadataValue):
            cells = [str(cell) for record in value.records for cell in record.data.values()]
            assert not [cell for cell in cells if find_unseen(cell)], name
        elif isinstance(value, dg.TableSchemaMetadataValue):
            require_plain((f"{name}.{column.name}", column.description or "") for column in value.schema.columns)
        else:
            text = str(getattr(value, "value", value))
            assert not find_unseen(text, "\n"), f"{name}: {text!r}"
            if isinstance(value, str | dg.MarkdownMetadataValue):
                found = [token for token in list_tokens(text) if token.type in forged]
                assert not [token for token in found if "data:image/png" not in str(token.attrs)], f"{name}: {text!r}"


@given(texts)
def test_escaped_text_is_nothing_but_text_in_markdown(text: str) -> None:
    """By a parser of Markdown: alone, as an item of a list, and in a table. It fails if one mark is not escaped."""
    shown = " ".join(show_line(text).split())
    for around in ("{}", "- fact: {}", "**{}**" if shown and not text[0].isspace() else "{}"):
        tokens = list_tokens(around.format(escape_markdown(text.strip() if "**" in around else text)))
        kinds = {token.type for token in tokens} - {
            "inline",
            "text",
            "text_special",
            "paragraph_open",
            "paragraph_close",
        }
        allowed = (
            {"bullet_list_open", "list_item_open", "bullet_list_close", "list_item_close"} if "-" in around else set()
        )
        assert kinds <= allowed | ({"strong_open", "strong_close"} if "**" in around else set())
    assert " ".join(read_text(escape_markdown(text)).split()) == shown
    assert unescape_markdown(escape_markdown(text)) == show_line(text)
    table = [
        token
        for token in list_tokens(markdown_table(["a", "b"], [[escape_markdown(text), "c"]]))
        if token.type == "td_open"
    ]
    assert len(table) == 2


@given(texts)
def test_a_shown_text_has_only_what_can_be_seen(text: str) -> None:
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    for shown, besides in ((show_line(text), "\u200c\u200d"), (show_lines(text), "\u200c\u200d\n\t")):
        assert not [letter for letter in shown if unicodedata.category(letter) in kinds and letter not in besides]
        assert len(shown) == len(text)
        assert all(one == other for one, other in zip(shown, text, strict=True) if not find_unseen(other))
    assert escape(text) == escape(show_line(text)), "the explorer too"


def test_scripts_that_need_joiners_can_be_written() -> None:
    for text in ("می\u200cخواهم", "ശ്രീ\u200dമതി", "Conseil d’État – n°\u00a01", "國勢調査"):
        assert not find_unseen(text)
        assert show_line(text) == text


ATTRIBUTES = {
    name: yaml.safe_load(fill_in_example(f"orchestration.components.{name}", "town", "tenure"))["attributes"]
    for name in components.__all__
}


def plant(given_: Any, text: str, fields: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A declaration with a text in the place of each value and each key, with the fields that lead there."""
    if isinstance(given_, dict):
        for key, value in given_.items():
            if fields:
                yield (*fields, key), {**given_, text: value}
            for below, changed in plant(value, text, (*fields, str(key))):
                yield below, {**given_, key: changed}
    elif isinstance(given_, list):
        for place, value in enumerate(given_):
            for below, changed in plant(value, text, (*fields, str(place))):
                yield below, [*given_[:place], changed, *given_[place + 1 :]]
    else:
        yield fields, text


@pytest.mark.parametrize("name", components.__all__)
def test_every_text_of_a_declaration_is_one_line_that_can_be_seen(name: str) -> None:
    """Each field of the model, also those that its example leaves out. It fails for a model that is not checked."""
    declared_by = getattr(components, name).declared_by
    assert issubclass(declared_by, Declaration)
    whole = dict.fromkeys(declared_by.model_fields) | ATTRIBUTES[name]
    planted = [list(plant(whole, f"a{letter}b")) for letter in UNSEEN]
    assert {fields[0] for fields, _ in planted[0]} == set(whole)
    for number, (fields, _) in enumerate(planted[0]):
        # A description may have line breaks and tabs, the first three.
        which = 3 + number % (len(UNSEEN) - 3) if fields[-1] == "description" else number % len(UNSEEN)
        said = refuse(declared_by, planted[which][number][1])
        assert f"U+{ord(UNSEEN[which]):04X}" in said
        assert fields[0] in said
    assert f"has over {LONGEST_TEXT:,} letters" in refuse(
        declared_by, whole | {"description": "x" * (LONGEST_TEXT + 1)}
    )


def refuse(declared_by: type[Declaration], attributes: Mapping[str, Any]) -> str:
    with pytest.raises(ValidationError) as refused:
        declared_by.model_validate({name: value for name, value in attributes.items() if value is not None})
    (error,) = refused.value.errors(include_url=False)
    assert not find_unseen(error["msg"])
    return str(error["msg"])


def test_a_description_may_have_several_lines_and_nothing_else(tmp_path: Path) -> None:
    assert small_dataset(tmp_path, description="One line,\nand\tanother.\n").description.count("\n") == 2
    for field in ("title", "record_name"):
        with pytest.raises(
            ValidationError, match=rf"dataset village: {field}: 'Two..?nlines' contains the character U\+000A"
        ):
            DatasetDeclaration.model_validate({"name": "village", field: "Two\nlines"})
    with pytest.raises(ValidationError, match=r"record_name: .* is not letters, digits, spaces"):
        small_dataset(tmp_path, record_name="![house](http://forged.example)hold")


def test_a_name_in_the_ledger_is_one_plain_line() -> None:
    assert find_unfit_name(" Ada Ruiz, Director ") == ""
    assert find_unfit_name("\u200d") == find_unfit_name("–") == "has no letter"
    for joined in ("\u200d", "\u034f", "\ufe0f", "\u0301"):
        assert fold_line(f"Auto{joined}matic\u00a0 ") == "automatic", "nobody has the name of no person"
    assert "has at most 300 letters" in find_unfit_name("x" * (LONGEST_LINE + 1))
    for unseen in UNSEEN:
        assert f"U+{ord(unseen):04X}" in find_unfit_name(f"Ada{unseen}Ruiz")


@pytest.fixture(scope="module")
def forged() -> list[Entry]:
    """A ledger of another version, in whose entries every text is hostile."""
    flavor = Flavor(HOSTILE, (HOSTILE,), HOSTILE, 1)
    specification = Specification(flavor, PureLoss(Fraction(1)), (Line(HOSTILE, PureLoss(Fraction(1))),))
    details = Details("people", (HOSTILE,), {"parameters": {"custody": HOSTILE}}, {"by": HOSTILE, "run": HOSTILE})
    chain: list[Entry] = []
    for number in range(2):
        draw_id, commitment = f"{number}{HOSTILE}", HOSTILE
        charged = make_reservation(chain, HOSTILE, HOSTILE, draw_id, specification, commitment, details)
        chain.append(charged)
        chain.append(make_settlement(chain, charged, HOSTILE))
    chain.append(make_withdrawal(chain, charged, HOSTILE, HOSTILE))
    return chain


def test_no_text_of_an_entry_forges_another_on_the_page_of_the_ledger(forged: list[Entry], tmp_path: Path) -> None:
    dataset = small_dataset(tmp_path, population="people")
    population = Population("people", (dataset,))
    shown = describe_ledger(forged, [population], {forged[0].draw_id: HOSTILE})
    require_plain(shown.items())
    whole = getattr(shown["in full"], "value", "")
    assert [
        token.content[:9] for token in list_tokens(whole) if token.type == "inline" and "Entry" in token.content[:9]
    ] == [
        "**Entry 3",
        "**Entry 1",
    ]
    assert len([token for token in list_tokens(whole) if token.type == "list_item_open"]) == 2 * 7
    comparison = find_budget(dataset, Reading(tuple(forged), ())).comparison
    require_plain([*describe_totals(comparison).items(), *describe_releases(comparison).items()])
    require_plain([("invariants", describe_invariants(comparison))])


def test_a_long_table_has_a_row_for_each_fact_whatever_the_texts() -> None:
    shown = preview(["a", "b"], [[HOSTILE, "1"]] * 50)
    rows = [token for token in list_tokens(str(shown.value)) if token.type == "tr_open"]
    assert len(rows) == 1 + 50
    require_plain([("", shown)])


def test_the_terminal_shows_no_codes_and_scripts_get_the_texts_unchanged(forged: list[Entry]) -> None:
    records = list_entry_records(forged)

    @click.command()
    def show() -> None:
        printing.print_table(HOSTILE, [HOSTILE], [[str(cell)] for record in records for cell in record.values()])
        printing.echo(HOSTILE)
        printing.echo(HOSTILE, err=True)

    assert not find_unseen(CliRunner().invoke(show).output, "\n")
    as_json = CliRunner().invoke(click.Command("j", callback=lambda: printing.print_json(records))).output
    assert not find_unseen(as_json, "\n")
    assert json.loads(as_json) == records


@pytest.mark.parametrize(
    "error", [click.ClickException(HOSTILE), OSError(2, HOSTILE, HOSTILE), click.UsageError(HOSTILE)]
)
def test_the_terminal_shows_no_codes_in_a_refusal(error: Exception) -> None:
    def fail() -> None:
        raise error

    group = cli.PlainGroup("main", commands={"fail": click.Command("fail", callback=fail)})
    found = CliRunner().invoke(group, ["fail"])
    assert "Ada" in found.output
    assert not find_unseen(found.output, "\n")


def test_commands_print_only_by_what_leaves_out_codes() -> None:
    """The test fails for a new command that prints with click itself."""
    folder = Path(cli.__file__).parent
    printing_modules = {
        path.stem for path in folder.glob("*.py") if re.search(r"click\.s?echo\(|(?<!\.)\bprint\(", path.read_text())
    }
    assert printing_modules == {"printing", "releases"}, "and the script of completion, which is ours"


def test_templates_show_no_unseen_characters(tmp_path: Path) -> None:
    """Pages of certificates and of the audit, and README.txt, also of texts that were charged by earlier versions."""
    (tmp_path / "page").write_text("{% macro cell(text) %}<b>{{ text }}</b>{% endmacro %}{{ cell(text) }} {{ text }}")
    page = load_template(tmp_path / "page", escape=True).render(text=HOSTILE)
    assert not find_unseen(page, "\n")
    assert page.count("<") == 2
    assert not find_unseen(load_template(tmp_path / "page", escape=False).render(text=HOSTILE), "\n")


def list_descriptions(definitions: dg.Definitions) -> Iterator[tuple[str, str]]:
    for spec in definitions.resolve_all_asset_specs():
        yield spec.key.to_user_string(), spec.description or ""
        schema = spec.metadata.get("dagster/column_schema")
        for column in getattr(schema, "columns", ()):
            yield f"{spec.key.to_user_string()}.column", column.description or ""
    for key in definitions.resolve_asset_graph().asset_check_keys:
        yield str(key), definitions.resolve_asset_graph().get_check_spec(key).description or ""
    for job in definitions.resolve_all_job_defs():
        yield job.name, job.description or ""


@deep_cases(1)
@pytest.mark.parametrize("name", deep_but(["laplace tables"], KINDS))
def test_no_declared_text_becomes_markup_on_the_pages_of_assets_and_jobs(name: str, tmp_path: Path) -> None:
    """The test fails for a description of an asset, a column or a job that takes over a declared text unchanged."""
    words = {"title": MARKS, "description": f"{MARKS}\n\n- {MARKS}"}
    deployment = KINDS[name].build(tmp_path / "a", dataset=words, **words)
    require_plain(list_descriptions(deployment.definitions))


def hostile_deployment(root: Path) -> Any:
    """A release by swapping, in whose declaration every text is hostile, names of columns too."""
    words: dict[str, Any] = {"title": MARKS, "description": MARKS}
    columns: dict[str, Any] = {}
    for name, column in UNITS.items():
        columns[name if name == "serial" else f"{MARKS} {name}"] = {**column, **words}  # type: ignore[dict-item]
    columns[f"{MARKS} tenure"]["values"] = {"own": MARKS, "rent": f"rent {MARKS}"}
    rows = [
        {name if name == "serial" else f"{MARKS} {name}": value for name, value in row.items()} for row in households()
    ]
    products = [{"name": "t", "geography": [f"{MARKS} county"], "dimensions": [f"{MARKS} tenure"], **words}]
    return small_deployment(
        root,
        units=rows,
        dataset={**words, "units": {"path": str(root / "units.csv"), "columns": columns}},
        **words,
        match=[f"{MARKS} region", f"{MARKS} size"],
        swap=[f"{MARKS} county"],
        products=products,
    )


def test_no_name_of_a_column_becomes_markup_on_the_pages_of_assets(tmp_path: Path) -> None:
    require_plain(list_descriptions(hostile_deployment(tmp_path / "a").definitions))


@pytest.mark.prove
def test_no_declared_text_becomes_markup_in_what_a_run_shows_and_publishes(tmp_path: Path) -> None:
    deployment = hostile_deployment(tmp_path / "a")
    result = deployment.run()
    for event in result.get_asset_materialization_events():
        require_plain(event.materialization.metadata.items())
    files = deployment.published()
    page = files["certificate.html"].decode()
    assert "forged.example" in page
    assert not re.search(r"<img|<[^>]*forged", page)
    readme = files["README.txt"].decode()
    assert not find_unseen(readme, "\n")
    assert json.loads(files["datapackage.json"])["title"] == MARKS
