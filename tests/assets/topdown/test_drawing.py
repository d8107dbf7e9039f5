"""How measurements are drawn, stored and read: in parts and threads, and always the same."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from assets.charge import drawing
from assets.gates.shared import all_gates
from assets.release.draw import StaleInputError
from assets.release.gate import Gate, ReleaseContext, find_verdicts
from assets.release.verdicts import VERDICTS, Verdicts, hash_code
from assets.topdown import method
from assets.topdown.drawing import Drawing
from assets.topdown.measurements import compute_stored_version, group_parts, read_streams
from assets.topdown.method import TopDownMethod
from assets.topdown.release import TopDownRelease
from resources.chain import canonicalize
from resources.custody import Custody, compute_commitment
from resources.parts import open_part
from resources.statements import Zone
from resources.warehouse import WarehouseError
from tests.assets.topdown.products import LISTS
from tests.deployments import Deployment
from tests.depth import deep_cases, quick_cases
from tests.gates import keep, put_back
from tests.topdown_deployments import TO_CHARGE, TO_DRAW, TWO_LEVELS, redeclared, topdown_deployment

TopDownDeployment = Deployment[TopDownRelease]

STORED = "SELECT * FROM noisy_measurements"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopDownDeployment]:
    """A release with several states, drawn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", "3c" * 32)
        deployment = topdown_deployment(tmp_path_factory.mktemp("drawn") / "deployment")
        deployment.run(*TO_DRAW)
        keep(deployment)
        yield deployment


@pytest.fixture
def drawn(kept: TopDownDeployment) -> Iterator[TopDownDeployment]:
    """The release without kept verdicts, restored after each test."""
    record_of(kept).unlink(missing_ok=True)
    yield kept
    put_back(kept)


def stored(deployment: TopDownDeployment) -> list[Any]:
    with deployment.opened() as connection:
        return connection.execute(STORED).fetchall()


def executed(deployment: TopDownDeployment, *statements: str) -> None:
    with deployment.opened() as connection:
        for statement in statements:
            connection.execute(statement)


def method_of(deployment: TopDownDeployment, **changes: Any) -> TopDownMethod:
    return TopDownMethod(redeclared(deployment.release, **changes))


def made_again(deployment: TopDownDeployment, **changes: Any) -> str:
    """Draw again after the label was lost."""
    context = deployment.context
    executed(deployment, "DROP TABLE draw")
    return drawing.make_draw(method_of(deployment, **changes), context.warehouse, context.custody, context.ledger)[2]


def problems(deployment: TopDownDeployment, name: str, verdicts: Verdicts | None = None) -> list[str]:
    return problems_in(deployment.context, name, verdicts)


def problems_in(context: ReleaseContext[Any], name: str, verdicts: Verdicts | None) -> list[str]:
    (gate,) = (gate for gate in all_gates(context.method) if gate.name == name)
    return gate.evaluate(replace(context, verdicts=verdicts))


def verdicts_of(deployment: TopDownDeployment) -> Verdicts:
    return find_verdicts(deployment.context.method, deployment.context.custody)


def record_of(deployment: TopDownDeployment) -> Path:
    return Path(deployment.context.custody.folder) / VERDICTS / deployment.release.schema


@pytest.mark.prove
def test_the_measurements_are_the_same_for_every_number_of_threads(drawn: TopDownDeployment) -> None:
    """The rows, in their order too; `test_release` draws them again independently, one stream after the other."""
    before, settled = stored(drawn), drawn.ledger[-1].output_version
    with drawn.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        parts = group_parts(read_streams(session, drawn.release))
    assert len({part.streams[0].state for part in parts}) > 2, "parts of several states"
    for threads in (1, 2, 3):
        assert made_again(drawn, processes=threads) == settled
        assert stored(drawn) == before
        with drawn.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            assert compute_stored_version(session, method_of(drawn, processes=threads).release) == settled


@pytest.mark.deep
def test_measurements_in_another_order_have_the_same_version(drawn: TopDownDeployment) -> None:
    executed(
        drawn, "CREATE OR REPLACE TABLE noisy_measurements AS FROM noisy_measurements ORDER BY md5(number || query)"
    )
    for name in ("settled", "measured_once", "noise_as_declared"):
        assert problems(drawn, name) == []


@quick_cases(3)
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM noisy_measurements WHERE rowid = 7",
        "INSERT INTO noisy_measurements FROM noisy_measurements LIMIT 1",
        "INSERT INTO noisy_measurements SELECT histogram, level, 'another', number, geoid, answers FROM "
        "noisy_measurements LIMIT 1",
        "INSERT INTO noisy_measurements SELECT histogram, level, query, 99999, geoid, answers FROM noisy_measurements "
        "LIMIT 1",
        "UPDATE noisy_measurements SET number = NULL WHERE rowid = 7",
        "UPDATE noisy_measurements SET answers = NULL WHERE rowid = 7",
        "UPDATE noisy_measurements SET answers = packed(unpacked(answers)[2:]) WHERE rowid = 7",
        "UPDATE noisy_measurements SET answers = packed(list_append(unpacked(answers), 0)) WHERE rowid = 7",
        "UPDATE noisy_measurements SET answers = '\\x03' || answers[2:] WHERE rowid = 7",
        "UPDATE noisy_measurements SET answers = '' WHERE rowid = 7",
        "UPDATE noisy_measurements SET geoid = geoid || '0' WHERE rowid = 7",
        "DELETE FROM noisy_measurements",
    ],
)
def test_what_is_not_measured_once_is_counted_by_sql(drawn: TopDownDeployment, statement: str) -> None:
    executed(drawn, statement)
    assert problems(drawn, "measured_once") != []


def test_lists_of_an_earlier_version_are_measured_once_without_null(drawn: TopDownDeployment) -> None:
    """Wrong program: NULL counts as an answer."""
    executed(drawn, f"CREATE OR REPLACE TABLE noisy_measurements AS {LISTS.format('noisy_measurements')}")
    assert problems(drawn, "measured_once") == []
    executed(drawn, "UPDATE noisy_measurements SET answers = list_append(answers[2:], NULL) WHERE rowid = 7")
    assert problems(drawn, "measured_once") != []


READ = """
import sys
from resources.statements import Zone
from resources.warehouse import WarehouseError
from resources.warehouse import Warehouse
with Warehouse(folder=sys.argv[1], patience=0.0).session(reads=[Zone.PUBLIC]) as session:
    assert session.schemas(Zone.PUBLIC)
"""


@pytest.mark.prove
def test_others_can_read_the_public_zone_while_measurements_are_drawn(
    drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, read = Drawing.in_parts, []

    def in_parts(self: Drawing, draw_id: str, folder: Path, custody: Custody, *taken: Any) -> Drawing:
        read.append(subprocess.run([sys.executable, "-c", READ, drawn.context.warehouse.folder], check=True))
        return right(self, draw_id, folder, custody, *taken)

    monkeypatch.setattr(Drawing, "in_parts", in_parts)
    made_again(drawn)
    assert len(read) == 1


@pytest.mark.deep
def test_nothing_is_stored_if_the_inputs_are_replaced_while_measurements_are_drawn(
    drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second description is that of the session that stores."""
    right, described = TopDownMethod.describe, []

    def describe(self: TopDownMethod, session: Any, custody: Any) -> Any:
        found = right(self, session, custody)
        described.append(found)
        return found if len(described) < 2 else replace(found, draw_id="0" * 64)

    executed(drawn, "DELETE FROM noisy_measurements WHERE level = 'Block'")
    before = stored(drawn)
    monkeypatch.setattr(TopDownMethod, "describe", describe)
    with pytest.raises(StaleInputError, match="replaced during the draw"):
        made_again(drawn)
    assert stored(drawn) == before


@pytest.mark.prove
def test_no_part_is_left_and_none_is_seen_by_others(drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    right, found = Drawing.in_parts, []

    def in_parts(self: Drawing, draw_id: str, folder: Path, custody: Custody, *taken: Any) -> Drawing:
        made = right(self, draw_id, folder, custody, *taken)
        found.extend((folder.stat().st_mode & 0o777, path.stat().st_mode & 0o077) for path in made.files)
        found.append(folder)
        return made

    monkeypatch.setattr(Drawing, "in_parts", in_parts)
    made_again(drawn)
    *modes, folder = found
    assert set(modes) == {(0o700, 0)}
    assert not folder.exists()


@pytest.mark.prove
def test_sums_are_stored_with_the_draw_or_neither_is(drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """With full estimation alone. The run ends while sums are stored. Wrong programs: sums in a transaction of their
    own, sums of some places, sums that stay when the draw is made again without them."""
    release, context = drawn.release, drawn.context
    full = TopDownMethod(
        replace(release, design=replace(release.design, total_first=(), types_first=release.levels[0]))
    )

    def make() -> set[str]:
        executed(drawn, "DROP TABLE draw")
        drawing.make_draw(full, context.warehouse, context.custody, context.ledger)
        return tables()

    def tables() -> set[str]:
        with drawn.opened() as connection:
            return {name for (name,) in connection.execute("SHOW TABLES").fetchall()}

    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    before, sums = stored(drawn), "noisy_measurements_sums"
    with monkeypatch.context() as patch:
        patch.setattr(method, "store_sums", end)
        with pytest.raises(KeyboardInterrupt):
            make()
    assert tables().isdisjoint({"draw", sums})
    executed(drawn, "CREATE TABLE draw AS SELECT 'none' AS draw_id")
    assert make() >= {"draw", sums}
    assert stored(drawn) == before
    with drawn.opened() as connection:
        added = connection.execute(
            f"SELECT histogram, parent, sum(list_sum(sums)) FROM {sums} GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        due = connection.execute(
            "SELECT histogram, parent, sum(list_sum(unpacked(answers))) FROM noisy_measurements "
            "JOIN spine USING (level, number) WHERE level = $1 GROUP BY ALL ORDER BY ALL",
            [release.finest],
        ).fetchall()
    assert added == due
    made_again(drawn)
    assert sums not in tables()


def test_no_text_of_a_draw_shows_its_key() -> None:
    nothing: Any = None
    key = bytes(range(32))
    shown = repr(Drawing(nothing, nothing, key))
    assert repr(key) not in shown
    assert "key" not in shown


@pytest.mark.deep
def test_a_part_altered_before_it_is_stored_is_refused_while_the_key_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the key is gone, the draw cannot be repeated and its noise is lost."""
    deployment = topdown_deployment(tmp_path / "town", custody="ephemeral", **TWO_LEVELS)
    deployment.run(*TO_CHARGE)
    right, list_keys = Drawing.in_parts, deployment.context.custody.list_keys
    draw_id = deployment.ledger[0].draw_id

    def in_parts(self: Drawing, draw_id: str, folder: Path, custody: Custody, *taken: Any) -> Drawing:
        made = right(self, draw_id, folder, custody, *taken)
        table = pa.ipc.open_file(made.files[0]).read_all()
        answers = table["answers"].to_pylist()
        answers[0] = answers[0][:-1] + bytes([answers[0][-1] ^ 1])
        with open_part(made.files[0], table.schema) as writer:
            writer.write_table(table.set_column(5, "answers", pa.array(answers, table["answers"].type)))
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Drawing, "in_parts", in_parts)
        assert "the stored output differs from the draw" in deployment.refusal("noisy_measurements")
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]
    assert list_keys() == {draw_id}
    assert problems(deployment, "settled") != []
    deployment.run("noisy_measurements")
    assert [(entry.kind, entry.draw_id) for entry in deployment.ledger] == [("reserve", draw_id), ("settle", draw_id)]
    assert list_keys() == set()
    assert problems(deployment, "settled") == problems(deployment, "noise_as_declared") == []


# Verdicts


def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the costly evaluations, noted from now on."""
    found: list[str] = []
    again, noise = Drawing.compute_version, TopDownMethod.check_noise
    monkeypatch.setattr(Drawing, "compute_version", lambda self, *known: found.append("replay") or again(self, *known))
    monkeypatch.setattr(
        TopDownMethod, "check_noise", lambda self, session: found.append("noise_as_declared") or noise(self, session)
    )
    return found


COSTLY = ["replay", "noise_as_declared"]


@pytest.mark.prove
def test_no_run_evaluates_costly_gates_again_and_an_audit_does(
    drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = evaluated(monkeypatch)
    for _ in range(2):
        assert [problems(drawn, name, verdicts_of(drawn)) for name in COSTLY] == [[], []]
    assert found == COSTLY
    for _ in range(2):
        assert [problems(drawn, name) for name in COSTLY] == [[], []]
    assert found == 3 * COSTLY


ALL_MORE = "UPDATE noisy_measurements SET answers = packed(list_transform(unpacked(answers), x -> x + 1))"
FIRST_MORE = "packed(list_prepend(unpacked(answers)[1] + 1, unpacked(answers)[2:]))"
ONE_MORE = f"UPDATE noisy_measurements SET answers = {FIRST_MORE} WHERE rowid = 7"


def test_measurements_altered_after_the_check_are_found_by_a_gate_that_keeps_no_verdict(
    drawn: TopDownDeployment,
) -> None:
    run = verdicts_of(drawn)
    assert [problems(drawn, name, run) for name in COSTLY] == [[], []]
    executed(drawn, f"{ALL_MORE} WHERE level = 'US'")
    assert problems(drawn, "settled", run) != []


def test_counts_replaced_after_the_check_are_found_by_a_gate_that_keeps_no_verdict(drawn: TopDownDeployment) -> None:
    run = verdicts_of(drawn)
    assert [problems(drawn, name, run) for name in COSTLY] == [[], []]
    with drawn.opened("confidential") as connection:
        connection.execute(f"UPDATE confidential.{drawn.release.schema}.histograms SET count = count + 1")
    assert problems(drawn, "counts_as_charged", run) != []


@pytest.mark.deep
def test_no_verdict_is_kept_of_measurements_that_were_altered_only_during_the_check(
    drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, run = evaluated(monkeypatch), verdicts_of(drawn)
    executed(drawn, "CREATE TABLE aside AS FROM noisy_measurements", ONE_MORE)
    assert problems(drawn, "noise_as_declared", run) == [], "one answer shows in no test"
    executed(drawn, "CREATE OR REPLACE TABLE noisy_measurements AS FROM aside")
    assert problems(drawn, "noise_as_declared", run) == []
    assert found == 2 * ["noise_as_declared"]


@pytest.mark.deep
def test_no_verdict_on_noise_is_kept_of_counts_that_are_not_those_of_the_charge(
    drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, run = evaluated(monkeypatch), verdicts_of(drawn)
    with drawn.opened("confidential") as connection:
        counts = f"confidential.{drawn.release.schema}.histograms"
        connection.execute(f"UPDATE {counts} SET count = count + 1 WHERE rowid = 0")
    for _ in range(2):
        assert problems(drawn, "noise_as_declared", run) == []
    assert found == 2 * ["noise_as_declared"]


@pytest.mark.deep
def test_a_key_that_was_replaced_after_the_check_has_no_verdict(drawn: TopDownDeployment, monkeypatch: Any) -> None:
    run = verdicts_of(drawn)
    assert problems(drawn, "replay", run) == []
    monkeypatch.setattr(type(drawn.context.custody), "_derive_draw_key", lambda self, draw_id: bytes(32))
    assert compute_commitment(bytes(32)) != drawn.ledger[0].commitment
    (problem,) = problems(drawn, "replay", run)
    assert "not the one that its charge committed to" in problem


@pytest.mark.prove
def test_another_draw_has_no_verdict(drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same release in another deployment, whose custody gives another draw id."""
    found, run = evaluated(monkeypatch), verdicts_of(drawn)
    assert [problems(drawn, name, run) for name in COSTLY] == [[], []]
    with drawn.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        draw = drawn.context.method.describe(session, drawn.context.custody)
    settled = drawn.ledger[-1].output_version
    assert run.holds("noise", draw.draw_id, settled)
    assert not run.holds("noise", "0" * 64, settled)
    assert not run.holds("noise", draw.draw_id, None)
    assert not run.holds("noise", draw.draw_id, "0" * 64)
    assert not run.holds("replay", draw.draw_id, settled)
    assert found == COSTLY


READING = ["noise_as_declared", "settled", "replay"]
"""Gates of one step that need all measurements."""


@pytest.mark.prove
def test_gates_of_a_step_read_all_measurements_once(drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    found, read = evaluated(monkeypatch), TopDownMethod.read_version
    monkeypatch.setattr(
        TopDownMethod, "read_version", lambda self, session, draw: found.append("read") or read(self, session, draw)
    )
    assert [problems(drawn, name, verdicts_of(drawn)) for name in READING] == [[], [], []]
    assert found == ["noise_as_declared", "read", "replay", "read"]
    found.clear()
    record_of(drawn).unlink()
    with drawn.context.snapshot() as held:
        assert [problems_in(held, name, verdicts_of(drawn)) for name in READING] == [[], [], []]
    assert found == ["noise_as_declared", "replay"]


@pytest.mark.prove
def test_a_version_that_another_gate_has_read_is_that_of_the_stored_measurements(drawn: TopDownDeployment) -> None:
    """Wrong programs: take the version from the ledger's settlement, or from an earlier step."""
    run = verdicts_of(drawn)
    with drawn.context.snapshot() as held:
        assert problems_in(held, "noise_as_declared", run) == problems_in(held, "settled", run) == []
    executed(drawn, ONE_MORE)
    with drawn.context.snapshot() as held:
        assert problems_in(held, "noise_as_declared", run) == [], "it has a verdict on what was settled"
        assert problems_in(held, "settled", run) != []
    with drawn.context.snapshot() as held:
        record_of(drawn).unlink()
        assert problems_in(held, "noise_as_declared", run) == [], "one answer shows in no test"
        assert problems_in(held, "settled", run) != []
        assert problems_in(held, "replay", run) != []


QUICK = "charge_as_allocated"


def kept_quick(deployment: TopDownDeployment, names: Sequence[str] = (QUICK,)) -> dict[str, Any]:
    """The record of verdicts after gates were evaluated in one step. No gate is too quick for a verdict."""
    with patch("assets.release.gate.SHORTEST_KEPT", 0), deployment.context.snapshot() as held:
        assert [problems_in(held, name, verdicts_of(deployment)) for name in names] == [[] for _ in names]
    return json.loads(record_of(deployment).read_bytes())  # type: ignore[no-any-return]


def is_asked(deployment: TopDownDeployment, verdicts: Verdicts | None = None) -> bool:
    """Whether a gate named `QUICK` is asked."""
    asked: list[None] = []
    gate = Gate[Any](QUICK, "charge", "", lambda context: asked.append(None) or ["asked"])
    with deployment.context.snapshot() as held:
        gate.evaluate(replace(held, verdicts=verdicts or verdicts_of(deployment)))
    return bool(asked)


def test_a_verdict_rests_on_what_another_gate_read_for_it(drawn: TopDownDeployment) -> None:
    """Wrong program: notes only the reads of the gate's own statements. The draw was described for an earlier gate."""
    record = kept_quick(drawn, ["counts_as_charged", "charge_as_allocated"])
    reads = record["charge: charge_as_allocated"]["reads"]
    for table in ("spine", "invariants", "invariants_seal", "histograms_version", "histograms_seal"):
        assert ["table", "public", drawn.release.schema, table] in reads
    assert ["ledger"] in reads


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("seconds", [0, 3600])
def test_quick_gates_and_those_that_rest_on_lists_keys_or_other_releases_are_always_asked(
    drawn: TopDownDeployment, seconds: int
) -> None:
    names = ["measured_once", "feasible", "replay"]
    with patch("assets.release.gate.SHORTEST_KEPT", seconds), drawn.context.snapshot() as held:
        assert [problems_in(held, name, verdicts_of(drawn)) for name in names] == [[], [], []]
        problems_in(held, "confidentiality", verdicts_of(drawn))
        problems_in(drawn.context, QUICK, verdicts_of(drawn))
    record = json.loads(record_of(drawn).read_bytes())
    assert set(record) == {"replay", *([] if seconds else ["charge: feasible"])}


@pytest.mark.prove
def test_a_withdrawal_after_the_check_is_found(drawn: TopDownDeployment) -> None:
    kept_quick(drawn, ["charge_present", QUICK])
    drawn.context.ledger.withdraw(drawn.release.dataset.name, drawn.release.name, "Ann")
    (problem,) = problems(drawn, "charge_present", verdicts_of(drawn))
    assert "withdrawn" in problem
    assert is_asked(drawn)


def with_entries(**changes: Any) -> Callable[[Any], str]:
    return lambda record: json.dumps({name: {**kept, **changes} for name, kept in record.items()})


DAMAGES: Mapping[str, Callable[[Any], str]] = {
    "empty": lambda record: "",
    "cut": lambda record: json.dumps(record)[:99],
    "deep": lambda record: "[" * 100_000,
    "a list": lambda record: "[[]]",
    "numbers": lambda record: json.dumps(dict.fromkeys(record, 5)),
    "reads of no list": with_entries(reads=5),
    "reads of no address": with_entries(reads=[[1], ["table"], ["table", "nowhere", "a", "b"]]),
    "reads of no text": with_entries(reads=[["table", "public", chr(0xD800), "a"]]),
    "no verdict": with_entries(verdict=None),
    "a verdict of no text": with_entries(verdict=chr(0xD800)),
    "numbers that are not written": with_entries(reads=0.5),
    "resting on nothing": with_entries(reads=[]),
    "resting on less": lambda record: json.dumps(
        {name: {**kept, "reads": kept["reads"][1:]} for name, kept in record.items()}
    ),
    "of another gate": lambda record: json.dumps(dict(zip(record, reversed(record.values()), strict=True))),
}


@pytest.mark.prove
def test_a_damaged_or_missing_record_only_costs_time(drawn: TopDownDeployment) -> None:
    record = kept_quick(drawn, [QUICK, "feasible"])
    for damage in DAMAGES.values():
        record_of(drawn).write_text(json.dumps(record))
        assert not is_asked(drawn)
        record_of(drawn).write_text(damage(record))
        assert is_asked(drawn), damage(record)[:200]
        verdicts_of(drawn).keep("replay", "draw")
        assert verdicts_of(drawn).holds("replay", "draw"), "another verdict is kept beside"
    record_of(drawn).unlink()
    assert is_asked(drawn)
    kept_quick(drawn)
    assert not is_asked(drawn)


@pytest.mark.deep
def test_a_verdict_is_of_one_key_code_and_declaration(drawn: TopDownDeployment) -> None:
    kept_quick(drawn)
    method, custody, schema = drawn.context.method, drawn.context.custody, drawn.release.schema
    declared, code = find_verdicts(method, custody)._follows_from or [], hash_code(type(method).__module__)
    declared = declared[:-1]
    assert not is_asked(drawn, Verdicts(custody, schema, declared, code))
    assert is_asked(drawn, Verdicts(custody, schema, declared, "other code"))
    assert is_asked(drawn, Verdicts(custody, schema, declared, None))
    record = record_of(drawn).read_bytes()
    Verdicts(custody, schema, declared, None).keep("replay", "draw")
    verdicts_of(drawn).keep("replay", None)
    assert record_of(drawn).read_bytes() == record, "nothing is kept without code or value"
    assert is_asked(drawn, find_verdicts(method_of(drawn, title="Another title"), custody))
    with patch.object(type(custody), "seal", lambda self, facts: sha256(canonicalize(dict(facts))).hexdigest()):
        assert is_asked(drawn, Verdicts(custody, schema, declared, code))
    for library in ("cryptography", "highspy"):
        with patch(
            "assets.release.verdicts.version", lambda name, other=library: "0" if name == other else version(name)
        ):
            assert hash_code.__wrapped__() != code, f"{library} makes draws and replicates again"
    assert [hash_code("json"), hash_code(__name__)] == [None, None], "a method of other code than the layers"


def test_no_verdict_follows_from_code_that_was_exchanged_after_the_process_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong program: goes by the time of its last change, which `rsync -a`, `cp -p` and `tar` preserve."""
    monkeypatch.setattr("assets.release.verdicts.CODE", tmp_path)
    (tmp_path / "sql").mkdir()
    path = tmp_path / "sql" / "exchanged.sql"
    path.write_text("SELECT 1")
    os.utime(path, (0, 0))
    assert hash_code.__wrapped__() is None
    monkeypatch.setattr("assets.release.verdicts._STARTED", time.time() + 1)
    assert hash_code.__wrapped__()


def test_a_record_that_cannot_be_written_stops_nothing(drawn: TopDownDeployment) -> None:
    folder = record_of(drawn).parent
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("no folder")
    with patch("assets.release.gate.SHORTEST_KEPT", 0), drawn.context.snapshot() as held:
        assert problems_in(held, QUICK, verdicts_of(drawn)) == []


def test_a_full_disk_is_said_in_a_sentence_and_leaves_what_was_stored(
    drawn: TopDownDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_table(self: Any, table: Any) -> None:
        raise OSError(28, "No space left on device")

    before = stored(drawn)
    monkeypatch.setattr(pa.RecordBatchFileWriter, "write_table", write_table)
    with pytest.raises(WarehouseError, match=r"cannot be written \(No space left on device\); nothing was stored"):
        made_again(drawn)
    assert stored(drawn) == before
