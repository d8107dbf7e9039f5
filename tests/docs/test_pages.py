"""The pages of the documentation agree with each other and with the code."""

import re
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from docs.generator.gates import SHOWN, list_gates
from docs.generator.parts import on_page_markdown
from docs.pictures.__main__ import FOLDER, RELEASES
from docs.pictures.lineage import load_definitions
from orchestration import components

ROOT = FOLDER.parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
COMPONENTS = {f"orchestration.components.{name}": getattr(components, name) for name in components.__all__}
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:assets|benchmarks|docs|mechanisms|orchestration|resources|sql|tests)/[\w./]*)`")


def named(page: Path) -> str:
    """The path of a page in the project."""
    return page.relative_to(ROOT).as_posix()


def fenced(page: Path, language: str) -> list[str]:
    """The blocks of code in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them, including the generated parts."""
    headings = re.findall(r"^#+ (.+)$", on_page_markdown(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    """Broken links of a page."""
    for link in LINK.findall(page.read_text("utf-8")):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not link.startswith(("http://", "https://")) and (
            not target.exists() or (anchor and anchor not in anchors(target))
        ):
            yield link


@pytest.mark.deep
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


def test_the_first_page_lists_every_page() -> None:
    links = {link.partition("#")[0] for link in LINK.findall((DOCS / "index.md").read_text("utf-8"))}
    assert {page.relative_to(DOCS).as_posix() for page in PAGES[1:]} - {"index.md"} <= links


def unsafe(text: str) -> list[str]:
    """Commands and services that reach a PostgreSQL server without checking its certificate, and written passwords."""
    lines = re.sub(r"\\\n(?:--)?", "", text).splitlines()
    reaching = re.compile(r"\b(?:psql|pg_\w+|createdb|dropdb)\s+[-\"$]|\bPGHOST=")
    found = [line for line in lines if reaching.search(line) and "sslmode=verify-full" not in line.lower()]
    services = re.findall(r"^\[\w+\]\nhost=[^\[`]*", text, re.MULTILINE)
    found += [service for service in services if "sslmode=verify-full" not in service]
    return found + [line for line in lines if re.search("password '", line, re.IGNORECASE)]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "deploy" / "postgres" / "roles.sql"], ids=named)
def test_a_page_lets_nobody_talk_to_a_false_server_or_write_a_password_into_its_log(page: Path) -> None:
    assert unsafe(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "psql -h database.example \\\n    -f roles.sql postgres",
        'pg_dump "service=x" >x',
        "PGHOST=x stirred budget",
        "[x]\nhost=x\nuser=x\n",
        "CREATE ROLE x LOGIN PASSWORD '…';",
    ],
)
def test_an_unsafe_command_is_found(text: str) -> None:
    assert unsafe(text)
    assert not unsafe(text.replace("x", "x sslmode=verify-full")) or "PASSWORD" in text


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_path_that_a_page_names_is_there(page: Path) -> None:
    assert [path for path in PATH.findall(page.read_text("utf-8")) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_command_is_redirected_into_a_declaration(page: Path) -> None:
    """The shell would empty the file before the command reads it."""
    assert not re.search(r"stirred[^\n|&]*> *orchestration/defs/", page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_table_has_a_head_and_ends_at_a_blank_line(page: Path) -> None:
    """Wrong pages: a blank line among the rows, which ends the table; a paragraph that is shown as the last row."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    firsts = re.findall(r"(?:^|\n)[ \t]*\n([ \t]*\|.*)\n(.*)", text)
    assert [row for row, line in firsts if not re.fullmatch(r"\s*\|[-:| ]+\|", line)] == []
    assert re.findall(r"^[ \t]*\|.*\n([ \t]*[^|\s].*)", text, re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_paragraph_of_a_list_ends_at_a_blank_line(page: Path) -> None:
    """Wrong page: an item right after an indented paragraph, which shows the item as a part of the paragraph."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"\n[ \t]*\n {3,}[^\s|].*(?:\n {3,}.*)*\n((?:\d+\.|[-*]) .*)", text) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A head, line\n[a](page.md#a-head-line) [b](#a-head) [c](other.md) [d](https://example.org)", "utf-8"
    )
    assert list(broken(page)) == ["#a-head", "other.md"]


def test_every_page_is_reached_from_the_readme() -> None:
    reached, following = set(), {ROOT / "README.md"}
    while following:
        page = following.pop()
        reached.add(page)
        links = {(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text("utf-8"))}
        following |= {link for link in links if link in PAGES} - reached
    assert reached == set(PAGES)


def test_every_picture_is_shown() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in LINK.findall(page.read_text("utf-8"))}
    assert set(FOLDER.glob("*.png")) <= shown


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_declaration_can_be_made(page: Path) -> None:
    for block in fenced(page, "yaml"):
        for declared in yaml.safe_load_all(block):
            if "type" in declared:
                model = COMPONENTS[declared["type"]].get_model_cls()
                assert model is not None
                model.model_validate(declared["attributes"])


@pytest.fixture(scope="module")
def checks() -> dict[str, set[str]]:
    """The names of all checks by mechanism."""
    found: dict[str, set[str]] = {mechanism: set() for mechanism in SHOWN}
    for definition in load_definitions().asset_checks or ():
        assert isinstance(definition, dg.AssetsDefinition)
        for spec in definition.check_specs:
            for mechanism, releases in SHOWN.items():
                for dataset, release in releases:
                    if list(spec.asset_key.path[:-1]) in ([dataset, release], [dataset]):
                        found[mechanism].add(spec.name)
    return found


@pytest.mark.parametrize("mechanism", SHOWN)
def test_the_pages_name_every_gate(mechanism: str, checks: dict[str, set[str]]) -> None:
    """Wrong page: one whose table of gates is of another release, or leaves out a gate that no other page names."""
    pages = [(DOCS / page).read_text("utf-8") for page in ("reference/gates.md", f"mechanisms/{mechanism}.md")]
    assert checks[mechanism]
    assert {name for name in checks[mechanism] if f"`{name}`" not in "".join(map(on_page_markdown, pages))} == set()


def test_the_pages_name_no_gate_that_is_gone(checks: dict[str, set[str]]) -> None:
    modules = "".join(path.read_text("utf-8") for path in (ROOT / "assets").rglob("*.py"))
    named = list_gates((DOCS / "reference" / "gates.md").read_text("utf-8"))
    assert named
    assert {name for name in named.difference(*checks.values()) if f'"{name}"' not in modules} == set()


@pytest.mark.parametrize("mechanism", RELEASES)
def test_a_mechanism_has_one_name_everywhere(mechanism: str) -> None:
    places = [
        *(f"{folder}/{mechanism}" for folder in ("assets", "mechanisms", "sql", "tests/assets", "tests/mechanisms")),
        f"orchestration/components/{mechanism}.py",
        f"docs/mechanisms/{mechanism}.md",
    ]
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_every_mechanism_has_a_page() -> None:
    shared = {"release", "measurement", "unperturbed"}
    methods = {path.parent.name for path in (ROOT / "assets").glob("*/method.py")} - shared
    assert methods == set(RELEASES)
