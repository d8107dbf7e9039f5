"""A kept verdict is valid only for the data its gate read: for each kind of release that keeps verdicts.

Each test evaluates all gates of a published release, however quick they are, and keeps their verdicts. Then it makes a
change and observes which gates run again.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from assets.gates.shared import all_gates
from assets.release import gate as gates
from assets.release.gate import ReleaseContext, find_verdicts
from assets.release.verdicts import VERDICTS, Verdicts, describe
from mechanisms.safetab.lists import RACE_FILE
from resources import warehouse
from resources.project import CODE
from tests.assets.safetab.examples import TOY
from tests.contract.kinds import KINDS, Build, to_publication
from tests.deployments import Deployment
from tests.gates import executes, keep_verdicts
from tests.safetab_deployments import safetab_deployment
from tests.table_builder_deployments import after_swap_deployment

ADDRESS = re.compile(r'"(confidential|public)"\."([^"]+)"\."([^"]+)"')
OF_FILES = re.compile(r"\bread_\w+\(|\bglob\(|\bgetenv\(|\bcurrent_(date|time)|\bnow\(|\brandom\(", re.IGNORECASE)

TITLE = {"title": "Another title"}

COUNTS = [("public", "noisy_measurements"), ("confidential", "counts")]
"""Tables of a release of households, by zone."""


def _households(root: Path, **changes: Any) -> Deployment[Any]:
    """Households of the groups that a release of persons published."""
    persons = safetab_deployment(root, size=150)
    if not (root / "published").exists():
        persons.reach(*to_publication(persons.context.method))
    return safetab_deployment(root, size=150, releases="h", households=changes)


KEEPING: Mapping[str, Build] = {
    **{
        name: KINDS[name].build
        for name in ("swapping", "phsafe", "safetab", "pair swapping", "topdown", "table builder", "moments")
    },
    "households": _households,
}
"""The kinds that keep verdicts of slow gates."""

IN_CI = ("safetab",)
"""CI alters the tables of the others in tests of their own gates, with kept verdicts too."""


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[] if name in IN_CI else [pytest.mark.prove]) for name in KEEPING]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def build(kind: str) -> Build:
    return KEEPING[kind]


@pytest.fixture(scope="module")
def kept(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Deployment[Any]:
    """A published release with a verdict of every gate that passes."""
    made = build(tmp_path_factory.mktemp("kept") / "release")
    made.reach(*to_publication(made.context.method))
    keep_verdicts(made, every=True)
    return made


@pytest.fixture
def restored(kept: Deployment[Any]) -> Iterator[Deployment[Any]]:
    """The same, which a test may alter."""
    copied = kept.root.parent / "kept"
    shutil.copytree(kept.root, copied, dirs_exist_ok=True)
    yield kept
    shutil.rmtree(kept.root)
    shutil.copytree(copied, kept.root)


def record_of(deployment: Deployment[Any]) -> Path:
    return Path(deployment.context.custody.folder) / VERDICTS / deployment.release.schema


def reads_of(deployment: Deployment[Any]) -> dict[str, list[list[str]]]:
    """The data that each kept verdict depends on, by gate."""
    record = json.loads(record_of(deployment).read_bytes())
    return {name: each["reads"] for name, each in record.items() if each["reads"]}


def asked(deployment: Deployment[Any], verdicts: Verdicts | None = None, *, anew: bool = False) -> set[str]:
    """The gates that run, with the release's verdicts, with others, or with none, as in an audit."""
    found: list[str] = []
    with deployment.context.snapshot() as held:
        kept = None if anew else verdicts or find_verdicts(held.method, held.custody)
        for gate in all_gates(held.method):
            name = f"{gate.stage}: {gate.name}"
            replace(gate, problems=lambda context, name=name: found.append(name) or ["asked"], by_part=None).evaluate(
                replace(held, verdicts=kept)
            )
    return set(found)


def all_of(deployment: Deployment[Any]) -> set[str]:
    return {f"{gate.stage}: {gate.name}" for gate in all_gates(deployment.context.method)}


@pytest.mark.parametrize("build", [*(kind.build for kind in KINDS.values()), after_swap_deployment])
def test_every_release_is_described_or_keeps_no_verdicts(tmp_path: Path, build: Build) -> None:
    """Wrong program: fails at data it cannot describe, so that no check and no publication of the release can run."""
    context = build(tmp_path / "release").context
    find_verdicts(context.method, context.custody)


def test_gates_are_asked_again_that_read_a_table_that_was_altered_and_no_others(restored: Deployment[Any]) -> None:
    """Each table in turn, of either zone: a row twice, which no version over distinct rows would notice."""
    reads = reads_of(restored)
    assert asked(restored) == all_of(restored) - set(reads)
    tables = {tuple(read[1:]) for of_gate in reads.values() for read in of_gate if read[0] == "table"}
    assert {zone for zone, *_ in tables} == {"confidential", "public"}
    altered = 0
    for zone, schema, name in sorted(tables):
        with restored.opened(zone) as connection:
            address = f'"{zone}"."{schema}"."{name}"'
            if not connection.execute(
                "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?",
                [zone, schema, name],
            ).fetchall():
                continue
            connection.execute(f"CREATE TEMP TABLE aside AS FROM {address}")
            if not connection.execute(f"INSERT INTO {address} FROM aside LIMIT 1").fetchall()[0][0]:
                continue
        altered += 1
        found = asked(restored)
        with restored.opened(zone) as connection:
            connection.execute(f"DELETE FROM {address} WHERE rowid = (SELECT max(rowid) FROM {address})")
        assert found >= {gate for gate, of_gate in reads.items() if ["table", zone, schema, name] in of_gate}, name
        assert found != all_of(restored), name
    assert altered > 3
    assert asked(restored) == all_of(restored) - set(reads), "the tables are as they were"


def test_a_verdict_is_of_one_gate_release_key_code_and_declaration(restored: Deployment[Any], build: Build) -> None:
    everything, custody = all_of(restored), restored.context.custody
    verdicts = find_verdicts(restored.context.method, custody)
    rests, schema, declared = set(reads_of(restored)), restored.release.schema, verdicts._declared
    assert rests
    assert asked(restored, Verdicts(custody, schema, declared, verdicts._code)) == everything - rests
    assert asked(restored, anew=True) == everything, "an audit"
    assert asked(restored, Verdicts(custody, schema, declared, "other code")) == everything
    assert asked(restored, Verdicts(custody, schema, declared, None)) == everything
    assert asked(build(restored.root, **TITLE)) == everything
    with patch.object(type(custody), "seal", lambda self, facts: "0" * 64):
        assert asked(restored) == everything, "another key"
    record = json.loads(record_of(restored).read_bytes())
    other = record_of(restored).with_name("other")
    other.write_text(json.dumps(record))
    assert asked(restored, Verdicts(custody, "other", declared, verdicts._code)) == everything, "of another release"
    for forged in (
        dict(zip(record, [*list(record.values())[1:], record[next(iter(record))]], strict=True)),
        {name: {**each, "reads": each["reads"][1:]} for name, each in record.items()},
        {name: {**each, "verdict": "0" * 64} for name, each in record.items()},
    ):
        record_of(restored).write_text(json.dumps(forged))
        assert asked(restored) == everything, forged


def outcomes(deployment: Deployment[Any], *, anew: bool) -> dict[str, str]:
    """By gate, its problems, or the error that it raises; with the release's verdicts, or without any."""
    found = dict[str, str]()
    with deployment.context.snapshot() as held:
        kept = None if anew else find_verdicts(held.method, held.custody)
        for gate in all_gates(held.method):
            try:
                found[gate.name] = "; ".join(gate.evaluate(replace(held, verdicts=kept)))
            except Exception as error:
                found[gate.name] = str(error)
    return found


@pytest.mark.parametrize("zone", ["public", "confidential"])
def test_a_gate_with_a_verdict_finds_what_it_finds_when_it_is_asked_anew(
    restored: Deployment[Any], kind: str, zone: str
) -> None:
    statements = {
        zone: f"UPDATE {zone}.{restored.release.schema}.{table} SET count = count + 1" for zone, table in COUNTS
    }
    if kind in KINDS:
        statements = {"public": KINDS[kind].tampering, "confidential": KINDS[kind].later_change}
    executes(statements[zone], zone=zone)(restored)
    found = outcomes(restored, anew=True)
    assert any(found.values())
    # Their own verdicts are about the draw and the ledger's settlement; other gates compare both with the tables.
    by_draw = {"replay", "noise_as_declared"}
    with_verdicts = outcomes(restored, anew=False)
    assert {name: with_verdicts[name] for name in found.keys() - by_draw} == {
        name: found[name] for name in found.keys() - by_draw
    }


@pytest.mark.prove
def test_no_gate_passes_by_its_verdict_without_the_custody_that_fails_when_it_is_asked_anew(
    restored: Deployment[Any],
) -> None:
    (Path(restored.context.custody.folder) / "ledger.anchor").unlink()
    found, with_verdicts = outcomes(restored, anew=True), outcomes(restored, anew=False)
    assert "anchor" in found["ledger_intact"]
    for name in reads_of(restored):
        gate = name.split(": ")[1]
        assert with_verdicts[gate] == found[gate], "the verdict is not read without its custody"
    assert {name for name in found if found[name]} <= {name for name in found if with_verdicts[name]}


def test_a_gate_that_keeps_a_verdict_reads_tables_that_the_session_notes_and_nothing_else(
    kept: Deployment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only files read are the code, which is hashed, and the files that identify the custody as the right one."""
    texts, opened, watching, render = list[str](), set[str](), [False], warehouse.render

    def listen(event: str, arguments: Any) -> None:
        if watching[0] and event in ("open", "os.listdir", "os.scandir", "socket.connect", "subprocess.Popen"):
            opened.add(str(arguments[0]))

    def noting(name: Any, *names: Mapping[str, Any]) -> str:
        texts.append(render(name, *names))
        return texts[-1]

    sys.addaudithook(listen)
    monkeypatch.setattr(warehouse, "render", noting)
    custody = [Path(kept.context.custody.folder), kept.root / "warehouse" / "custody.fingerprint"]
    known = [CODE, *map(Path, (sys.prefix, sys.base_prefix, "/proc/self", "/sys/fs/cgroup")), *custody]
    found = list[str]()
    with kept.context.snapshot() as held:
        for gate in all_gates(held.method):
            reads = set[gates.Read]()
            context: ReleaseContext[Any] = gates._note(
                replace(held, verdicts=find_verdicts(held.method, held.custody)), reads
            )
            texts.clear()
            opened.clear()
            watching[0] = True
            try:
                problems = gate.problems(context)
            finally:
                watching[0] = False
            if problems or gates._OTHER in reads:
                continue
            found.append(gate.name)
            text = "\n".join(texts)
            assert {("table", *address) for address in ADDRESS.findall(text)} <= reads, gate.name
            assert not OF_FILES.search(text), gate.name
            assert not [path for path in opened if not any(Path(path).is_relative_to(each) for each in known)]
    assert "tables_as_made" in found


def test_a_declaration_with_an_object_whose_text_may_be_that_of_another_keeps_no_verdict(kept: Deployment[Any]) -> None:
    release, modules = kept.release, set[str]()
    assert describe(release, modules) == describe(release, set())
    for value in (lambda: 1, object(), bytearray(b"1"), iter(()), ReleaseContext):
        with pytest.raises(TypeError):
            describe(replace(release, address={"": [value]}), modules)
        verdicts = find_verdicts(replace_release(kept, value), kept.context.custody)
        assert asked(kept, verdicts) == all_of(kept)


def replace_release(deployment: Deployment[Any], value: Any) -> Any:
    method = type(deployment.context.method)
    return method(replace(deployment.release, address=value))


def test_the_content_of_a_file_that_a_declaration_names_is_in_every_verdict(tmp_path: Path) -> None:
    """Wrong program: the path of the file, with which it was declared."""
    lists = shutil.copytree(TOY, tmp_path / "lists")
    before, again = (safetab_deployment(tmp_path, {"lists": str(lists)}).release for _ in range(2))
    path = lists / RACE_FILE
    path.write_text(path.read_text(encoding="utf-8").replace("|2|True|", " too|2|True|", 1), encoding="utf-8")
    after = safetab_deployment(tmp_path, {"lists": str(lists)}).release
    texts = [describe(release, set()) for release in (before, again, after)]
    assert texts[0] == texts[1] != texts[2]
    assert before.declaration == after.declaration


def test_different_values_are_described_differently() -> None:
    values = [
        None,
        0,
        False,
        "0",
        0.0,
        b"0",
        (),
        [],
        {},
        set(),
        ("",),
        [""],
        {"": ""},
        {0: ""},
        {"0": ""},
        {""},
        Path(),
    ]
    texts = [json.dumps(describe(value, set())) for value in values]
    assert len(set(texts)) == len(values)
