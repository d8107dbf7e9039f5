"""A DHC release through Dagster: its invariants, its charge, and the faults that its gates stop."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import dagster as dg
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.gates.shared import all_gates
from assets.measurement.method import COUNTS, GridError
from assets.publication import asset
from assets.publication.withdrawal import withdraw
from assets.release.draw import Inputs
from assets.release.microdata import CountedTable
from assets.topdown import histograms
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.dhc import gates, levels, regeneration
from assets.topdown.dhc.declaration import DHCDeclaration
from assets.topdown.dhc.intervals import read_told
from assets.topdown.dhc.levels import plan_histograms
from assets.topdown.dhc.measurements import Batch, list_measured, read_answers
from assets.topdown.dhc.products import table_names
from assets.topdown.dhc.published import published_tables
from assets.topdown.dhc.recount import list_microdata
from assets.topdown.dhc.regeneration import UnansweredError, regenerate
from assets.topdown.dhc.release import DHCRelease
from assets.topdown.dhc.statement import ATTRIBUTE_WORDS, dhc_statement
from assets.topdown.release import PLACES, SpineError
from assets.topdown.spine import read_tree
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.refusal import RefusedError
from mechanisms.sampling.noise import DiscreteGaussian, NumberedNoise
from mechanisms.topdown.dhc.design import SCHEMAS
from mechanisms.topdown.dhc.quarters import GROUPS
from mechanisms.topdown.dhc.records import PLACE
from orchestration import deployment
from orchestration.cli import main
from orchestration.components import DHC, Retabulation, TopDown
from orchestration.components.dataset import Dataset
from resources.project import PROJECT
from resources.statements import Zone
from tests.depth import deep_cases
from tests.dhc_deployments import (
    BUDGETS,
    CHARGED,
    ERRORS,
    LEVELS,
    OWN_QUERIES,
    PERSON_QUERIES,
    TO_CHARGE,
    TO_PUBLICATION,
    DHCDeployment,
    dhc_deployment,
)
from tests.gates import executes, failing, in_confidence, keep, put_back

pytestmark = pytest.mark.deep


@dataclass(frozen=True)
class Killed:
    """The remains of a run that was killed after the root: its level; the refusal to make answers again before all
    levels are estimated; the next level's refusal after an alteration of the root; the draw's refusal after an
    alteration of the county; the number of levels estimated again after it; and the log of the county and the
    blocks."""

    deployment: DHCDeployment
    level: list[tuple[Any, ...]]
    unsettled: str
    refusal: str
    undrawn: str
    again: int
    log: list[str]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    deployment = dhc_deployment(tmp_path_factory.mktemp("dhc") / "town")
    deployment.run(*TO_CHARGE, "level_state")
    with deployment.opened() as connection:
        level = connection.execute("FROM level_state ORDER BY ALL").fetchall()
        connection.execute("UPDATE level_state SET count = count + 1 WHERE histogram = 'units'")
    with pytest.raises(UnansweredError) as unsettled:
        regenerate_units(deployment)
    refusal = deployment.refusal("level_county")
    with deployment.opened() as connection:
        connection.execute("UPDATE level_state SET count = count - 1 WHERE histogram = 'units'")
    # Other numbers of counts and places in memory than those of the draw and of the gates.
    few, every = patch.object(histograms, "CELLS_AT_A_TIME", 100), patch.object(levels, "SECONDS_BETWEEN_REPORTS", 0)
    with few, every, patch.object(levels, "_PLACES_AT_A_TIME", 7):
        run = deployment.run("level_county", "level_block")
    log = [event.user_message for event in deployment.instance.all_logs(run.run_id) if not event.is_dagster_event]
    with deployment.opened() as connection:
        connection.execute("UPDATE level_county SET cell = cell + 1 WHERE histogram = 'persons'")
    undrawn = deployment.refusal("noisy_measurements")
    counting = patch.object(levels, "_estimate", wraps=levels._estimate)
    with counting as estimate, patch.object(histograms, "CELLS_AT_A_TIME", 1000):
        deployment.run(*TO_PUBLICATION[:-1])
    deployment.run("publication")
    return Killed(deployment, level, str(unsettled.value), refusal, undrawn, estimate.call_count, log)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> DHCDeployment:
    deployment = dhc_deployment(tmp_path_factory.mktemp("dhc") / "town")
    deployment.reach(*TO_PUBLICATION)
    keep(deployment)
    return deployment


@pytest.fixture
def altered(published: DHCDeployment) -> Iterator[DHCDeployment]:
    """The published release, which a test may alter."""
    yield published
    put_back(published)


def regenerate_units(deployment: DHCDeployment) -> pd.DataFrame:
    """All answers about the units of the state."""
    context = deployment.context
    return regenerate(context.method, context.ledger, "units", "State", "detailed", ["State"]).to_pandas()


def read(deployment: DHCDeployment, name: str, release: str = "dhc", sep: str = ",") -> pd.DataFrame:
    return pd.read_csv(deployment.release.folder.with_name(release) / f"{name}.csv", sep=sep, dtype={"geoid": str})


def test_a_release_is_charged_for_units_twice_and_for_households_four_times(published: DHCDeployment) -> None:
    """Wrong programs: count each once, as Theorem 2 does, or both twice."""
    (charge, settled) = published.ledger
    assert str(charge.parse_specification().charge) == CHARGED
    assert settled.kind == "settle"


def test_the_redistricting_data_hold_in_every_place_of_every_level(published: DHCDeployment) -> None:
    """Wrong programs: hold them at the root or the county only; make tables of the levels' own estimates; put persons
    into a type of group quarters that only another block has. The published microdata of both releases are counted
    again."""
    persons, before = read(published, "persons", sep="|"), read(published, "persons", "redistricting")
    block = persons[["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]].apply(
        lambda row: "".join(f"{code:0{width}}" for code, width in zip(row, (2, 3, 6, 4), strict=True)), axis=1
    )
    major = persons.GQTYPE.map(lambda code: min(code // 100, 7) if code < 900 else 7)
    counted = pd.DataFrame(
        {
            "geoid": block,
            "hhgq": np.select([major == 8], [7], major),
            "votingage": persons.QAGE >= 18,
            "hispanic": persons.CENHISP,
            "cenrace": persons.CENRACE,
        }
    )
    due = before.assign(votingage=before.votingage == 1)[counted.columns.tolist()]
    assert counted.value_counts().to_dict() == due.value_counts().to_dict()
    p1, p8 = read(published, "p1"), read(published, "p8")
    assert (p1.P1_001N == p8.P8_001N).all()
    assert p1.set_index("level").P1_001N.groupby("level").sum().nunique() == 1, "every level adds up to the whole"
    units, of_units = read(published, "units", sep="|"), read(published, "units", "redistricting")
    assert (units.RTYPE == 2).sum() == len(of_units)
    due = of_units.groupby("geoid").occupancy.agg(["size", lambda vacant: (vacant == 0).sum()])
    h3, p16 = read(published, "h3").set_index(["level", "geoid"]), read(published, "p16").set_index(["level", "geoid"])
    assert h3.loc["Block", ["H3_001N", "H3_002N"]].reindex(due.index).to_numpy().tolist() == due.to_numpy().tolist()
    sums = h3.filter(like="H3_").groupby("level").sum()
    assert (sums == sums.loc["State"]).all(axis=None), "blocks without units have none"
    assert (h3.H3_002N == p16.P16_001N).all(), "in every place"
    # No constraint ties persons to households: each block has other householders than occupied units.
    householders = block[persons.RELSHIP == 20].value_counts()
    of_blocks = h3.loc["Block"].H3_002N
    assert (householders.reindex(of_blocks.index, fill_value=0) != of_blocks).any()
    facilities = read(published, "facilities")
    assert sorted(units.GQTYPE[units.RTYPE == 4]) == sorted(np.repeat(facilities.type, facilities["count"]))
    lived_in = set(zip(block[persons.RTYPE == 5], persons.GQTYPE[persons.RTYPE == 5], strict=True))
    assert lived_in
    assert lived_in <= set(zip(facilities.geoid, facilities.type, strict=True))


def test_the_published_answers_are_those_of_a_complete_draw_cell_by_cell(published: DHCDeployment) -> None:
    """Wrong programs: take noise by position in a file, which depends on the other rows read; or take the noise of an
    only child's parent without the child's budget. The county is the state's only child, so the state has both
    budgets."""
    with published.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = published.context.method.describe(session, published.context.custody)
        commitment = published.context.ledger.read().find_reservation(draw.draw_id).commitment  # type: ignore[union-attr]
        key = published.context.custody.open_key(draw.draw_id, published.release.custody, commitment)
        measured = {}
        levels_and_histograms = product(published.release.levels, SCHEMAS)
        for batch in chain.from_iterable(
            list_measured(session, published.release, *each) for each in levels_and_histograms
        ):
            stored = list(read_answers(session, published.release, batch))
            measured[batch.label] = len(stored)
            small = [each for each in stored if count_cells(batch, each[0].query) < MANY_CELLS]
            assert small or not stored
            for asked, answers in small[:2]:
                complete = draw_completely(batch, asked.query, key)
                whole = complete + batch.exact.answer(batch.schema.marginal(asked.query), 0, len(complete))
                for first, last, cells, own in asked.list_families():
                    assert np.array_equal(whole[first:last, cells], answers[own].reshape(last - first, -1))
        assert not any(measured[histogram, "County"] for histogram in SCHEMAS), "an only child is not measured"
        assert all(measured[histogram, level] for histogram in SCHEMAS for level in ("State", "Block"))


def test_answers_in_memory_together_are_few_or_of_one_family(published: DHCDeployment) -> None:
    """Wrong programs: take together the families whose parents' counts are few, which have as many answers as they have
    children; or leave places out between two batches."""
    release, most = published.release, 200
    with (
        patch.object(histograms, "CELLS_AT_A_TIME", most),
        published.context.warehouse.session(reads=[Zone.PUBLIC]) as session,
    ):
        tree = read_tree(session, release)
        for level, histogram in product(("State", "Block"), SCHEMAS):
            batches = list(list_measured(session, release, level, histogram))
            assert sum(len(batch.level.runs) for batch in batches) == tree.places(level)
            for batch in batches:
                detailed = [asked for asked in batch.list_measured() if asked.query == "detailed"]
                families = [own.stop - own.start for asked in detailed for *_, own in asked.list_families()]
                assert sum(families) - max(families, default=0) < most
                assert list(read_answers(session, release, batch)) or not families


def draw_completely(batch: Batch, query: str, key: bytes) -> np.ndarray:
    """The noise of all cells of all places, in one go."""
    schema, level = batch.schema, batch.level
    places = len(level.runs)
    times = 2 if level.name == "State" else 1
    noise = {name: DiscreteGaussian(variance / times) for name, variance in level.variances.items()}
    drawn = NumberedNoise(f"DHC {schema.name} {level.name}", noise, key)
    return drawn.at(query, np.arange(count_cells(batch, query))).reshape(places, -1)


def count_cells(batch: Batch, query: str) -> int:
    """The cells of a query in all places of a level."""
    return len(batch.level.runs) * batch.schema.marginal(query).size


def test_a_custodian_makes_any_part_of_the_complete_draw(published: DHCDeployment, tmp_path: Path) -> None:
    """Wrong programs: make a new draw, which could be averaged with the published one; put zeros where the estimation
    did not read; give answers for a place without drawn noise."""
    method, ledger, charged = published.context.method, published.context.ledger, published.ledger
    file = published.release.folder / "noisy_measurements.parquet"
    with published.opened() as connection:
        own = connection.execute(
            "SELECT * FROM read_parquet($file) JOIN spine USING (level, number) "
            "WHERE histogram = 'households' AND level = 'Block' AND len(cells) > 0 ORDER BY number",
            {"file": str(file)},
        ).df()
    unread = 0
    for row in own.groupby("query").head(1).itertuples():
        made = regenerate(method, ledger, "households", "Block", row.query, [row.geoid]).to_pandas()
        assert made["answer"][row.cells].to_list() == row.answers.tolist()
        assert made["cell"].to_list() == list(range(SCHEMAS["households"].marginal(row.query).size))
        unread += int((made["answer"].drop(row.cells) != 0).sum())
    assert unread > 100, "what was not read has noise too"
    assert published.ledger == charged
    component = DHC(published.release.declaration)
    deployed = SimpleNamespace(releases=lambda _: [component], find_method=lambda _: method, ledger=ledger)
    file = tmp_path / "part.csv"
    given = ["regenerate", "town/dhc", "households", "Block", row.query]
    with patch.object(deployment, "Deployment", return_value=deployed):
        refused, printed, second = (
            CliRunner().invoke(main, [*given, place, "--to", str(file)]) for place in ("1", row.geoid, row.geoid)
        )
    assert "1 unknown places" in str(refused.output)
    assert printed.output == f"{len(made):,} answers written to {file}\n"
    assert second.output == f"Error: {file}: File exists\n"
    assert file.stat().st_mode & 0o777 == 0o600
    as_written = pd.read_csv(file, dtype={"geoid": str})
    pd.testing.assert_frame_equal(as_written, made, check_dtype=False, check_categorical=False)
    blocks = own["geoid"].unique()[:2].tolist()
    county = blocks[0][:5]
    for asked, refusal in {
        ("households", "Block", "detailed", "1"): r"1 unknown places, such as '1'",
        ("households", "Block", "age", blocks[0]): r"query: 'age' is none of",
        ("households", "Tract", "detailed", blocks[0]): r"level: 'Tract' is none of",
        ("people", "Block", "detailed", blocks[0]): r"histogram: 'people' is none of persons, units, households",
        ("households", "County", "detailed", county): r"1 of the places are the only ones in the next larger place",
    }.items():
        *what, place = asked
        with pytest.raises(UnansweredError, match=refusal):
            regenerate(method, ledger, *what, [place])  # type: ignore[arg-type]
    with patch.object(regeneration, "MOST_ANSWERS", 100), pytest.raises(UnansweredError, match="at most 100 at a time"):
        regenerate(method, ledger, "households", "Block", "detailed", blocks)


def withdraws_all(deployment: DHCDeployment) -> None:
    withdraw(deployment.context.ledger, deployment.release.published, "town", "dhc", "Ann")


UNMADE: dict[str, tuple[Callable[[DHCDeployment], Any], str]] = {
    "withdrawn in the ledger": (
        lambda deployment: deployment.context.ledger.withdraw("town", "dhc", "Ann"),
        r"the release was withdrawn in ledger entry \d+; its draw is never made again",
    ),
    "withdrawn with its tables": (withdraws_all, r"the release was withdrawn in ledger entry \d+"),
    "of other counts": (in_confidence("UPDATE town__dhc.histograms SET count = count + 1"), "the exact counts have"),
    "within other facilities": (executes("UPDATE facilities SET count = count + 1"), "facilities"),
    "under a lost key": (lambda deployment: (deployment.root / "custody" / "master.key").unlink(), "key"),
    "with another answer": (
        executes("UPDATE noisy_measurements SET answers = list_transform(answers, lambda x: x + 1)"),
        "units State detailed: answers that are stored are made otherwise now",
    ),
}
"""Alterations of a settled draw, and the refusal of its answers after each."""


@pytest.mark.parametrize("name", UNMADE)
def test_answers_are_made_again_only_of_a_settled_draw_as_it_was(altered: DHCDeployment, name: str) -> None:
    """Wrong programs: put the noise of a draw on other counts, or other noise on the same counts. The difference of
    both answers would be the difference of the counts, or their mean would be more exact than the charge allows."""
    alter, words = UNMADE[name]
    alter(altered)
    with pytest.raises(RefusedError, match=words):
        regenerate_units(altered)


@pytest.mark.prove
def test_a_declaration_that_was_not_drawn_answers_nothing(altered: DHCDeployment, killed: Killed) -> None:
    (charge, _) = killed.deployment.ledger
    assert killed.unsettled == f"town__dhc: draw {charge.draw_id} is not settled; launch the release first"
    persons = BUDGETS["persons"] | {"rho": 2}
    for changes, words in (({"persons": persons}, "holds no charge"), ({"custody": "ephemeral"}, "was ephemeral")):
        with pytest.raises(RefusedError, match=words):
            regenerate_units(dhc_deployment(altered.root, **changes))


MANY_CELLS = 1_000_000

TAMPERINGS = {
    "an estimate of a level": (
        "UPDATE level_county SET count = count + 1 WHERE histogram = 'persons'",
        {"estimates_as_made"},
    ),
    "the account of a level": ("UPDATE level_block_made SET gap = 0.5", {"estimates_as_made"}),
    "a finished estimate": (
        "UPDATE estimates SET count = count + 1 WHERE level = 'State' AND histogram = 'households'",
        {"estimates_filled", "children_add_up", "redistricting_held", "tables_as_made"},
    ),
    "a cell that nobody is in": (
        "INSERT INTO noisy_measurements SELECT histogram, level, query, number, list_append(cells, 0), "
        "list_append(answers, 7) FROM noisy_measurements LIMIT 1",
        {"measured_once", "noise_as_declared", "settled", "replay"},
    ),
    "a measurement left out": (
        "DELETE FROM noisy_measurements WHERE level = 'Block' AND query = 'detailed'",
        {"measured_once", "noise_as_declared", "settled", "replay"},
    ),
    "an answer": (
        "UPDATE noisy_measurements SET answers = list_transform(answers, lambda x: x + 1) WHERE level = 'State'",
        {"settled", "replay"},
    ),
    "a person's record": ("UPDATE persons SET QAGE = QAGE + 1 WHERE EPNUM = 1", {"microdata_as_made"}),
    "a table": ('UPDATE table_p12 SET "P12_001N" = 1 WHERE depth = 0', {"tables_as_made"}),
}


@deep_cases(2)
@pytest.mark.parametrize("name", TAMPERINGS)
def test_what_is_altered_fails_its_gates(altered: DHCDeployment, name: str) -> None:
    statement, expected = TAMPERINGS[name]
    executes(statement)(altered)
    with altered.context.snapshot() as context:
        gates = [gate for gate in all_gates(context.method) if gate.name in expected]
        assert {gate.name for gate in gates} == expected
        assert [gate.name for gate in gates if not gate.evaluate(context)] == []


def test_records_are_not_made_again_of_counts_whose_sum_alone_is_kept(altered: DHCDeployment) -> None:
    """Wrong program: compares only the sum of all counts, which equals the number of stored records although one count
    and its opposite were added."""
    counts = "(0, -1000000), (1, 1000000)"
    executes(f"INSERT INTO estimates SELECT 'Block', 'households', 0, * FROM (VALUES {counts})")(altered)
    with altered.context.snapshot() as context:
        (gate,) = (gate for gate in all_gates(context.method) if gate.name == "microdata_as_made")
        (problem,) = gate.evaluate(context)
    assert re.search(r"units: \d+ records, where the estimates have 1,000,\d{3}$", problem)


FORGED = {"negative": -1, "too large": 10**9, "missing": "NULL", "greatest": 2**63 - 1}
NUMBERS = [
    *(("redistricting", column) for column in ("cell", "number", "count")),
    *(("facilities", column) for column in ("type", "number", "count")),
    *(("spine", column) for column in ("depth", "number", "parent")),
    *((table, column) for table in ("estimates", "level_block") for column in ("cell", "number", "count")),
    *((table, column) for table in ("level_state", "level_county") for column in ("cell", "count")),
    ("noisy_measurements", "number"),
]


@deep_cases(1)
@pytest.mark.parametrize("value", FORGED)
@pytest.mark.parametrize(("table", "column"), NUMBERS)
def test_a_forged_number_is_named_by_every_gate_that_reads_it(
    altered: DHCDeployment, table: str, column: str, value: str
) -> None:
    """Wrong program: a gate that takes the number for a position in an array."""
    one = f"{table} SET {column} = {FORGED[value]} WHERE rowid = (SELECT max(rowid) FROM {table})"
    executes(f"UPDATE {one}")(altered)
    with altered.context.snapshot() as context:
        found = {gate.name: gate.evaluate(context) for gate in all_gates(context.method)}
    assert any(found.values())
    if (table, column) == ("redistricting", "cell"):
        reason = "redistricting: 1 counts of unknown cells"
        assert all(reason in found[name][0] for name in ("feasible", "measured_once", "noise_as_declared"))


@deep_cases(2)
@pytest.mark.parametrize("table", ["facilities", "redistricting"])
def test_what_holds_cannot_be_altered_after_the_charge(altered: DHCDeployment, table: str) -> None:
    executes(f"UPDATE {table} SET count = count + 1")(altered)
    assert "not those that the stage wrote from the current records" in altered.refusal("noisy_measurements")


def test_blocks_that_cannot_be_completed_are_counted_however_many_are_read_at_a_time(altered: DHCDeployment) -> None:
    """Wrong program: reports the count of one piece."""
    households, others = GROUPS // 8, 7 * GROUPS // 8
    moved = f"UPDATE redistricting SET cell = cell + {others} WHERE histogram = 'persons' AND cell < {households}"
    executes("DELETE FROM facilities", moved)(altered)
    (gate,) = (gate for gate in all_gates(altered.context.method) if gate.name == "feasible")
    with altered.opened() as connection:
        living = "FROM redistricting WHERE histogram = 'persons'"
        ((blocks,),) = connection.execute(f"SELECT count(DISTINCT number) {living}").fetchall()
    assert blocks > 1
    for cells in (1, 2**20):
        with patch.object(histograms, "CELLS_AT_A_TIME", cells):
            (problem,) = gate.evaluate(altered.context)
        assert problem == f"{blocks} blocks have persons in a type of group quarters without a facility"


@pytest.mark.prove
def test_nothing_is_settled_that_the_levels_were_not_estimated_from(killed: Killed) -> None:
    """Wrong program: settles answers for the cells of estimates that were altered after the last level. These answers
    would never match the right estimates."""
    assert "the estimates of County are missing, altered, or not of this draw" in killed.undrawn
    assert killed.deployment.published(), "all gates pass once the levels are those that were drawn"


@pytest.mark.prove
def test_a_new_run_continues_at_the_level_where_a_killed_run_stopped(killed: Killed) -> None:
    """Wrong programs: draw levels again, or use estimates that were altered between two runs."""
    assert "missing, altered, or not of this draw" in killed.refusal
    assert killed.again == 1, "the county alone"
    with killed.deployment.opened() as connection:
        account = [name for name, *_ in connection.execute("DESCRIBE level_state_made").fetchall()]
        assert account == ["draw_id", "above", "answers", "content", "places", "gap", "violation"], (
            "no time: of exact counts"
        )
        assert connection.execute("FROM level_state ORDER BY ALL").fetchall() == killed.level
    assert len(killed.deployment.ledger) == 2


@pytest.mark.prove
def test_a_level_says_how_many_of_its_families_are_estimated(killed: Killed) -> None:
    """Wrong programs: report the families of one span, of which there are several; or those of all histograms
    together."""
    with killed.deployment.opened() as connection:
        ((counties,),) = connection.execute("SELECT count(*) FROM spine WHERE level = 'County'").fetchall()
    due = [(str(done), str(counties)) for done in range(1, counties + 1)]
    for histogram in SCHEMAS:
        said = [re.fullmatch(rf"block: {histogram}: (\d+) of (\d+) counties", each) for each in killed.log]
        assert [each.groups() for each in said if each] == due


def test_without_the_publication_of_redistricting_data_nothing_is_charged(tmp_path: Path) -> None:
    """Wrong programs: verify the files, and then read files exchanged after the verification; or an audit reports only
    that it could not evaluate a gate."""
    deployment = dhc_deployment(tmp_path / "town")
    deployment.run("cef", "spine", "facilities", "histograms")
    path, verify = deployment.release.redistricting.folder / "persons.parquet", asset.publication_problems

    def exchange(*given: Any) -> list[str]:
        problems = verify(*given)
        pq.write_table(pq.read_table(path).slice(1), path)
        return problems

    with patch.object(asset, "publication_problems", exchange):
        assert "persons.parquet is missing or was altered" in deployment.refusal("redistricting")
    shutil.rmtree(deployment.release.redistricting.folder)
    reason = "town/redistricting is not published yet"
    assert reason in deployment.refusal("redistricting")
    (gate,) = (each for each in all_gates(deployment.context.method) if each.name == "redistricting_as_published")
    (said,) = gate.problems(deployment.context)
    assert reason in said
    assert deployment.ledger == ()


WRONG = {
    "a query without a share": (
        {"persons": BUDGETS["persons"] | {"queries": {level: {"detailed": 1} for level in LEVELS}}},
        f"the query {PERSON_QUERIES[8]}, with which a pass ends, has no share",
    ),
    "a share that is missing": (
        {"persons": BUDGETS["persons"] | {"queries": {"State": {"detailed": 1}, "County": {"detailed": 1}}}},
        "levels have shares in one map only: ['Block']",
    ),
    "shares that add up to less": (
        {"units": BUDGETS["units"] | {"queries": {level: {"detailed": "9/10"} for level in LEVELS}}},
        "units: queries of State: the shares add up to 9/10, not to 1",
    ),
    "passes of a histogram that there is not": (
        {"passes": {"homes": [["detailed"]]}},
        "passes.homes: it must be 'persons', 'units' or 'households'",
    ),
    "intervals that nothing follows from": (
        {"intervals": True, "products": ["P1", "persons"], **OWN_QUERIES},
        "intervals: no query of persons with up to 1,000 answers",
    ),
    "a product that there is not": ({"products": ["P99"]}, "there is no product P99"),
    "replicates of medians alone": (
        {"products": ["P13", "persons"], "replicates": 2},
        "the errors of tables of counts",
    ),
    "householders among persons of data that do not agree": (
        {"householders_among_persons": True},
        "redistricting has estimation: own_levels",
    ),
    "intervals without the noisy measurements of the redistricting data": (
        {"intervals": True},
        "redistricting does not publish noisy_measurements",
    ),
    "intervals of no table": (
        {"intervals": True, "products": ["P12A", "P13", "persons"]},
        "they are those of tables of counts, none of which",
    ),
    "more replicates than the redistricting data have": ({"replicates": 2}, "redistricting, which declares 0"),
    "another finest level": (
        {
            "spine": {"State": [], "County": ["TABBLKST"], "Block": ["TABBLKST", "TABBLKCOU"]},
        },
        "its places are not those of Block",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_declaration_that_cannot_be_carried_out_is_refused(published: DHCDeployment, name: str) -> None:
    fields, says = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(says)):
        dhc_deployment(published.root, **fields)


@pytest.mark.prove
def test_own_queries_are_those_of_the_whole_release(tmp_path: Path) -> None:
    """Every level asks other queries, in passes of its own; the county is the state's only child, which is measured at
    the state. Wrong programs: production's queries, or every query at every level, in the measurements, the ledger or
    the certificate; and gates of production's queries alone."""
    changes = OWN_QUERIES | {"products": ["P1", "persons", "units", "noisy_measurements"]}
    deployment = dhc_deployment(tmp_path / "town", **changes)
    deployment.reach(*TO_PUBLICATION)
    declared = {
        (histogram, level, query)
        for histogram in SCHEMAS
        for level, shares in OWN_QUERIES[histogram]["queries"].items()
        for query in shares
    }
    charge, _ = deployment.ledger
    lines = {line.label.split(" (")[0] for line in charge.parse_specification().lines}
    assert lines == {" ".join(each) for each in declared}
    with deployment.opened() as connection:
        rows = connection.execute("SELECT DISTINCT histogram, level, query FROM noisy_measurements").fetchall()
    assert set(rows) == {each for each in declared if each[1] != "County"}
    certificate = (deployment.release.folder / "certificate.json").read_text()
    assert all(line in certificate for line in lines)
    assert "Passes of persons" in certificate


def count_contradictions(deployment: DHCDeployment) -> int:
    """In the published records: blocks, origins and races with more householders than persons in households."""
    block = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
    persons, units = read(deployment, "persons", sep="|"), read(deployment, "units", sep="|")
    persons, units = persons[persons.RTYPE == 3], units[units.TEN > 0]
    living = persons.groupby([*block, persons.CENHISP.rename("origin"), persons.CENRACE.clip(upper=7).rename("race")])
    homes = units.groupby([*block, units.THHSPAN.rename("origin"), units.THHRACE.rename("race")]).size()
    return int((homes > living.size().reindex(homes.index).fillna(0)).sum())


def test_householders_beyond_persons_are_found_in_the_published_records(published: DHCDeployment) -> None:
    """A release without `householders_among_persons` is the wrong program, which the gate of one with it finds."""
    wrong = count_contradictions(published)
    assert wrong > 0
    with published.context.snapshot() as context, context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        (problem,) = gates._check_householders(session, context)
    assert problem == f"origins and races of Block with more householders than persons: {wrong}"


def test_a_spine_that_begins_with_the_state_is_of_one_state(altered: DHCDeployment) -> None:
    """Wrong program: a root named State that has all of them."""
    production = dict.fromkeys(("persons", "units", "households"), "production")
    release = dhc_deployment(altered.root, spine="puerto_rico", **production).release
    with altered.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        release.stage_units(session)
    executes("UPDATE town.units SET TABBLKST = '72' WHERE TABBLK = '1000'", zone="confidential")(altered)
    with (
        altered.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session,
        pytest.raises(SpineError, match="puerto_rico begins with the state, and town has 2"),
    ):
        release.stage_units(session)


@pytest.mark.prove
def test_puerto_rico_has_the_levels_and_the_budgets_of_2020(tmp_path: Path) -> None:
    """Wrong programs: a nation above it, and the budgets of the United States, of which 37.622 is charged."""
    production = dict.fromkeys(("persons", "units", "households"), "production")
    town = {"states": ("72",), "homes": 60, "products": ["P1", "P8", "H3", "persons", "units", "noisy_measurements"]}
    deployment = dhc_deployment(tmp_path / "town", spine="puerto_rico", **production, **town)
    levels = deployment.release.levels
    assert levels == ("State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
    stages = [deployment.release.estimates(level) for level in levels]
    deployment.run(*TO_CHARGE, *stages, *TO_PUBLICATION[len(TO_CHARGE) + len(LEVELS) :])
    assert failing(deployment) == set()
    assert deployment.ledger[0].parse_specification().charge.rho == Fraction("37.5768")
    p1 = read(deployment, "p1")
    assert p1.level.unique().tolist() == list(levels)
    assert p1.groupby("level").P1_001N.sum().nunique() == 1
    assert p1.level.value_counts()["Block_Group"] > 1


def test_the_certificate_names_what_it_rests_on(published: DHCDeployment) -> None:
    certificate = json.loads(published.published()["certificate.json"])
    named = {each["label"]: each["value"] for each in certificate["mechanism"]["parameters"]}
    assert named["Consistent with"] == "town/redistricting: Redistricting data"
    counted = ["persons: 1, or 3 if householders who live alone are told apart", "units: 2", "households: 4"]
    assert named["Counted"] == counted


@pytest.fixture
def of_production(tmp_path: Path) -> DHCRelease:
    """The release of all products with the budgets of 2020, before any run."""
    dataset = synthetic_census(SyntheticPopulation(households=9, states=["10"], dhc=True), name="town", cap={"rho": 50})
    named = {"name": "redistricting", "dataset": "town", "title": "Redistricting data"}
    before = TopDown(TopDownDeclaration.model_validate(named))
    declared = DHCDeclaration.model_validate(named | {"name": "dhc", "consistent_with": "redistricting"})
    return DHC(declared, before).release(dataset, tmp_path)


def test_the_certificate_of_production_has_the_losses_of_2020_beside_what_is_charged(of_production: DHCRelease) -> None:
    """Wrong programs: units and households counted twice or more where the 2020 Census counts them once, and
    redistricting data whose units count twice there."""
    versions = dict.fromkeys((COUNTS, PLACES), "")
    losses = [each.loss for each in dhc_statement(of_production, Inputs(versions), "").equivalents]
    rho = [round(float(loss.rho), 4) for loss in losses if isinstance(loss, ConcentratedLoss)]
    assert rho[:5] == [37.622, 4.9622, 0.8833, 6.8172, 12.6627]
    assert [round(each, 2) for each in rho[5:]] == [40.33, 15.29]


def test_every_query_that_can_be_declared_has_words() -> None:
    """Wrong program: the certificate cannot name a recode that only an office's own queries use."""
    names = [each.name for schema in SCHEMAS.values() for each in (*schema.attributes, *schema.recodes)]
    assert [name for name in names if name not in ATTRIBUTE_WORDS] == []


def test_tables_whose_rows_may_differ_from_the_published_ones_say_so(of_production: DHCRelease) -> None:
    """In the data dictionary, and on the page of the DHC, which lists them."""
    described = {each.name.upper(): each.description for each in published_tables(of_production)}
    found = {name for name, description in described.items() if "its shell was not at hand" in description}
    page = (PROJECT / "docs/mechanisms/topdown-dhc.md").read_text("utf-8")
    (listed,) = re.findall(r"(\w+) tables may differ from the Bureau's: ([^.]*)\.", page)
    assert found == set(re.findall(r"[A-Z]+\d+", listed[1]))
    assert (listed[0], len(found)) == ("eight", 8)


def test_records_have_no_block_group_that_their_block_does_not_imply(of_production: DHCRelease) -> None:
    """Wrong program: writes the first digit of the block where block groups are taken as given."""
    dataset = of_production.dataset.model_copy(update={"block_group": "as_given"})
    for release, layout in (
        (of_production, PLACE),
        (replace(of_production, dataset=dataset), set(PLACE) - {"TABBLKGRPCE"}),
    ):
        records = [table for table in published_tables(release) if table.name in ("persons", "units")]
        assert [{column.name for column in table.columns} & set(PLACE) for table in records] == [set(layout)] * 2


def test_the_published_records_have_the_figures_of_every_published_table(published: DHCDeployment) -> None:
    """As a retabulation counts them, here for the state as a whole. The Demographic Profile, which a release does not
    publish, repeats some of them."""
    folder, names, known = published.release.folder, table_names(published.release), dict[str, Any]()
    assert {"P12", "P13", "P16", "H3"} <= set(names)
    tables = list_microdata(published.release).tables
    for name, table in tables.items():
        found = count_records(folder, table)
        if name in names:
            (state,) = pq.read_table(folder / f"{name.lower()}.parquet", filters=[("level", "=", "State")]).to_pylist()
            assert {cell: pytest.approx(state[cell]) for cell in found} == {
                cell: None if figure is None else float(figure) for cell, figure in found.items()
            }, name
        known |= found
    columns = [column.name for column in tables["DP1"].published.columns if column.has_figures]
    assert [name for name in known if name.startswith("DP1_")] == columns
    repeated = {"0001C": "P12_001N", "0049C": "P12_026N", "0073C": "P13_001N", "0132C": "P16_001N", "0149C": "H3_003N"}
    assert {row: known[f"DP1_{row}"] for row in repeated} == {row: known[cell] for row, cell in repeated.items()}


def count_records(folder: Path, table: CountedTable) -> dict[str, Any]:
    """The cells of a table, from all published records."""
    found = dict[str, Any]()
    for part in table.parts:
        records = pq.read_table(folder / f"{part.records}.parquet", columns=list(part.attributes))
        rows = len(records)
        for column, numbers in (("number", np.zeros(rows, np.int64)), ("count", np.ones(rows, np.int64))):
            records = records.append_column(column, pa.array(numbers))
        found |= {cell: figures[0].as_py() for cell, figures in part.count(records, 1).items()}
    return found


@pytest.mark.prove
def test_an_ephemeral_key_is_gone_after_the_draw_and_what_is_altered_then_cannot_be_made_again(tmp_path: Path) -> None:
    """And with householders among persons, no block contradicts itself, and the certificate says so."""
    deployment = dhc_deployment(tmp_path / "town", full=True, custody="ephemeral", householders_among_persons=True)
    deployment.run(*TO_CHARGE)
    assert "materialize level_state again" in deployment.refusal("noisy_measurements")
    deployment.run(*TO_PUBLICATION)
    assert deployment.context.custody.list_keys() == set()
    assert failing(deployment) == set()
    assert count_contradictions(deployment) == 0
    certificate = json.loads(deployment.published()["certificate.json"])
    assert "householders_among_persons" in {gate["name"] for gate in certificate["checks"]}
    (constraints,) = [
        each["value"] for each in certificate["mechanism"]["parameters"] if each["label"] == "Constraints"
    ]
    assert any("origin and race of the householder" in each for each in constraints)
    deployment.run(*TO_PUBLICATION)
    executes("UPDATE level_block SET count = count + 1")(deployment)
    assert "key" in deployment.refusal("level_block")


@pytest.mark.prove
def test_further_places_are_counted_from_the_published_records(altered: DHCDeployment) -> None:
    release = altered.release
    components = [Dataset(release.dataset), TopDown(release.redistricting.declaration), DHC(release.declaration)]
    tree = SimpleNamespace(get_all_components=lambda kind: [each for each in components if isinstance(each, kind)])
    context = cast(dg.ComponentLoadContext, SimpleNamespace(project_root=altered.root, component_tree=tree))
    p12 = read(altered, "p12")
    blocks = p12[p12.level == "Block"].set_index("geoid")
    groups = pd.Series([("east", "west")[number % 3 > 1] for number in range(len(blocks))], blocks.index, name="group")
    groups.to_csv(altered.root / "groups.csv", index_label="block")
    tables = ["P12", "P13", "P16", "DP1"]
    declared = {"name": "places", "dataset": "town", "of": "dhc", "title": "Places", "tables": tables}
    component = Retabulation.resolve_from_yaml(yaml.safe_dump({**declared, "geographies": {"group": "groups.csv"}}))
    definitions = dg.Definitions.merge(altered.definitions, component.build_defs(context))
    stages = ("geography", "tables", "publication")
    replace(altered, definitions=definitions).run_assets(*(dg.AssetKey(["town", "places", stage]) for stage in stages))
    of_places = read(altered, "p12", "places").set_index("geoid")
    cells = [cell for cell in blocks if cell.startswith("P12_")]
    due = blocks[cells].groupby(groups).sum()
    assert due.equals(of_places[cells].loc[due.index])
    assert len(due) > 1
    assert read(altered, "p16", "places").P16_001N.sum() == read(altered, "p16").P16_001N[0]
    profile = read(altered, "dp1", "places").set_index("geoid")
    assert profile.DP1_0049C.to_dict() == of_places.P12_026N.to_dict()
    assert profile.DP1_0073C.to_dict() == read(altered, "p13", "places").set_index("geoid").P13_001N.to_dict()


REPLICATES = 2


@pytest.mark.prove
def test_errors_are_those_of_the_replicates_and_contain_those_of_the_redistricting_data(tmp_path: Path) -> None:
    """Wrong programs: replicates stay within the published redistricting data, so that the number of persons has no
    error; errors are those of the levels' own estimates; a draw with replicates is a new draw; the certificate has no
    errors; or a withdrawal omits the release made within its counts."""
    deployment = dhc_deployment(tmp_path / "town", repeated=REPLICATES, replicates=REPLICATES)
    deployment.run(*TO_PUBLICATION[:-1], *ERRORS, "accuracy", "publication")
    assert failing(deployment) == set()
    (as_made,) = (gate for gate in all_gates(deployment.context.method) if gate.name == "uncertainty_as_made")
    with patch.object(histograms, "CELLS_AT_A_TIME", 1000):
        assert as_made.evaluate(deployment.context) == [], "however many places are read at a time"
    own, before = read(deployment, "p1_uncertainty"), read(deployment, "p1_uncertainty", "redistricting")
    both = own.merge(before[before.cell == "P0010001"], on=["level", "geoid"])
    blocks = both[both.level == "Block"]
    assert (blocks.standard_error_x == blocks.standard_error_y).all()
    assert (blocks.standard_error_x > 0).any()
    with deployment.opened() as connection:
        persons = connection.execute(
            "SELECT replicate, number, sum(count)::INT AS count FROM replicates "
            "WHERE histogram = 'persons' AND (cell // (116 * 2 * 63)) % 2 = 0 GROUP BY ALL"
        ).df()
        spine = connection.execute("SELECT number, geoid FROM spine WHERE level = 'Block'").df()
    p12, errors = read(deployment, "p12"), read(deployment, "p12_uncertainty")
    men = p12[p12.level == "Block"].set_index("geoid").P12_002N
    counted = persons.merge(spine).pivot_table("count", "geoid", "replicate").reindex(men.index).fillna(0)
    due = np.sqrt(((counted.sub(men, axis=0)) ** 2).sum(axis=1) / REPLICATES).round(2)
    found = errors[(errors.level == "Block") & (errors.cell == "P12_002N")].set_index("geoid")
    assert found.standard_error.reindex(due.index).fillna(0).sub(due).abs().max() < 0.006
    assert (found.estimate == men.reindex(found.index)).all()
    medians = read(deployment, "p13_uncertainty")
    assert ((medians.lower <= medians.estimate) & (medians.estimate <= medians.upper)).all()
    with deployment.opened("confidential") as connection:
        figures = connection.execute(
            "SELECT metric, source, value FROM town__dhc.accuracy WHERE level = 'Block'"
        ).fetchall()
        units = connection.execute(
            "SELECT number, sum(count) FROM town__dhc.histograms WHERE histogram = 'persons' GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    values = {(metric, source): value for metric, source, value in figures}
    shown = json.loads(deployment.published()["certificate.json"])["errors"]["rows"]
    summary = read(deployment, "uncertainty_summary")
    assert {row[0] for row in shown} == {"P1", "P16", "H3"}
    assert len(shown) == summary.table_name.isin(["P1", "P16", "H3"]).sum()
    blocks_of_p1 = read(deployment, "p1").query("level == 'Block'").P1_001N.to_numpy()
    truth = np.zeros(len(blocks_of_p1))
    truth[[number for number, _ in units]] = [int(count) for _, count in units]
    assert values["P1", "post-processed"] == pytest.approx(np.abs(blocks_of_p1 - truth).mean())
    assert values["age_38_groups * sex", "raw"] > values["age_38_groups * sex", "post-processed"] > 0
    files, plain = deployment.published(), dhc_deployment(deployment.root, repeated=REPLICATES)
    plain.run("publication")
    tables = {name: content for name, content in plain.published().items() if name.endswith((".csv", ".parquet"))}
    assert tables.items() < files.items(), "replicates change no other file"
    assert len(plain.ledger) == 2, "nor the draw"
    keep(deployment)
    executes("UPDATE replicates SET count = count + 1 WHERE replicate = 1")(deployment)
    assert {"replicates_as_made", "uncertainty_as_made"} <= failing(deployment)
    put_back(deployment)
    removed = withdraw(deployment.context.ledger, deployment.release.published, "town", "redistricting", "Ann")
    assert "Still published, and made within its counts: town/dhc" in str(removed)
    assert "town/redistricting was withdrawn in ledger entry" in deployment.refusal("redistricting")
    assert "the estimates of Block are missing or were altered" in deployment.refusal("replicates")
    assert "redistricting_as_published" in failing(deployment)


FORGED_SUMS = {
    "not every place has 28 sums once": (
        "estimate = list_append(estimate, 1.0) WHERE level = 'State'",
        "estimate = estimate[2:] WHERE level = 'Block' AND number = 1",
        "estimate = NULL WHERE level = 'Block' AND number = 1",
        "estimate = list_transform(estimate, each -> NULL::DOUBLE) WHERE level = 'County'",
        "variance = variance[2:] WHERE level = 'Block' AND number = 1",
        "covariance = list_append(covariance, 1.0) WHERE level = 'Block'",
        "covariance = covariance[2:] WHERE level = 'Block' AND number < 2",
        "number = number + 1 WHERE level = 'Block' AND number = 1",
        "number = NULL WHERE level = 'Block' AND number = 1",
    ),
    "not finite": (
        "covariance = list_append(covariance[2:], 'NaN'::DOUBLE) WHERE level = 'County'",
        "estimate = list_append(estimate[2:], 'inf'::DOUBLE) WHERE level = 'State'",
    ),
}
"""Alterations of the redistricting data's stored measurements, by the words of their refusal."""


@pytest.mark.prove
def test_intervals_follow_from_the_measurements_of_both_releases(tmp_path: Path) -> None:
    """All tables of both releases also agree. Wrong programs: draw answers only where the parent is inhabited; leave
    the redistricting measurements out of the intervals, so that the population is not exact in the state, or in the
    county, which only the DHC has; take other races than the redistricting data's, or races without covariance with the
    population; do not name a draw."""
    deployment = dhc_deployment(tmp_path / "town", measured=True, intervals=True, products=[])
    deployment.run(*TO_PUBLICATION[:-1], "intervals", "publication")
    assert failing(deployment) == set()
    p12, intervals = read(deployment, "p12"), read(deployment, "p12_intervals")
    assert "P12_007N_linear_estimate" in intervals
    assert "P12_008N_linear_estimate" not in intervals, "single years above 17 are in larger queries alone"
    (population,) = p12[p12.level == "State"].P12_001N
    for place in intervals[intervals.level != "Block"].to_dict("records"):
        assert place["P12_001N_linear_lower"] == place["P12_001N_linear_upper"] == population, "an invariant"
    with deployment.opened() as connection:
        (answers,) = connection.execute(
            "SELECT DISTINCT len(answers) FROM noisy_measurements WHERE query = 'age_38_groups * sex'"
        ).fetchall()
        shared = connection.execute("SELECT DISTINCT level FROM redistricting_linear ORDER BY ALL").fetchall()
    assert answers == (76,)
    require_same_tables(deployment)
    assert {level for (level,) in shared} == set(LEVELS), "what the redistricting data tell about every place"
    assert (
        "Around linear estimates from the measurements of both releases"
        in deployment.published()["certificate.json"].decode()
    )
    with deployment.opened("confidential") as connection:
        truth = connection.execute(
            "SELECT number, sum(count)::INT FROM town__dhc.histograms WHERE histogram = 'persons' "
            "AND (cell // (116 * 2 * 63)) % 2 = 0 GROUP BY ALL"
        ).fetchall()
    blocks = intervals.loc[intervals.level == "Block", ["P12_002N_linear_lower", "P12_002N_linear_upper"]]
    men = dict(truth)
    inside = [lower <= men.get(number, 0) <= upper for number, (lower, upper) in enumerate(blocks.to_numpy())]
    assert len(inside) >= 25
    assert np.mean(inside) > 0.5, "if 90% are covered, in all but one of a million draws of 25 blocks"
    p3, p5 = read(deployment, "p3_intervals"), read(deployment, "p5_intervals")
    for table, name, parts in ((p3, "P3", range(2, 9)), (p5, "P5", (*range(3, 10), *range(11, 18)))):
        total = sum(table[f"{name}_{number:03}N_linear_estimate"] for number in parts)
        assert np.allclose(total, table[f"{name}_001N_linear_estimate"], rtol=0, atol=0.08), "rounded, but else equal"
    with deployment.opened() as connection:
        before = connection.execute(
            "SELECT estimate[8], sqrt(variance[8]) FROM redistricting_linear WHERE level = 'Block' "
            "AND histogram = 'persons' ORDER BY number"
        ).fetchnumpy()
    own = p3[p3.level == "Block"].filter(regex="P3_002N_linear_(estimate|standard_error)").to_numpy()
    estimates, errors = before.values()
    moved = np.abs(own[:, 0] - estimates)
    assert moved.max() > 0, "the DHC's answers tell a little about races"
    assert (moved < 3 * errors).all()
    assert (own[:, 1] < errors + 0.006).all()
    assert (p3.P3_002N_linear_standard_error > 0).all()
    assert (intervals.P12_001N_linear_standard_error[intervals.level != "Block"] == 0).all()
    both = [deployment.release.public(name) for name in ("redistricting", "redistricting_linear")]
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        version = deployment.versions()[deployment.key("redistricting").to_user_string()]
        assert version == session.content_version(both), "so that Dagster sees a change"
    keep(deployment)
    for column in ("linear_estimate", "linear_standard_error", "linear_lower", "linear_upper"):
        executes(f"UPDATE p5_intervals SET P5_012N_{column} = P5_012N_{column} + 1")(deployment)
        assert "intervals_as_made" in failing(deployment), column
        put_back(deployment)
    executes("UPDATE redistricting_linear SET level = 'County' WHERE level = 'State'")(deployment)
    assert {"redistricting_as_published", "intervals_as_made"} <= failing(deployment)
    for rule, forged in ((rule, each) for rule, several in FORGED_SUMS.items() for each in several):
        put_back(deployment)
        executes(f"UPDATE redistricting_linear SET {forged}")(deployment)
        with pytest.raises(GridError, match=rule):
            read_all_told(deployment)
    assert "intervals_as_made" in failing(deployment), "a sum that is not finite"


def require_same_tables(deployment: DHCDeployment) -> None:
    """P8 to P11 of every block are P1 to P4 of the redistricting data, and every place has as many occupied units by
    vacancy as by tenure."""
    for name, other in (("p8", "p1"), ("p9", "p2"), ("p10", "p3"), ("p11", "p4")):
        own, theirs = (
            table[table.level == "Block"].set_index("geoid").filter(regex=r"^P\d")
            for table in (read(deployment, name), read(deployment, other, "redistricting"))
        )
        assert len(own) >= 25
        assert (own == theirs.loc[own.index].to_numpy()).all(axis=None), name
    assert (read(deployment, "h3").H3_002N == read(deployment, "h4").H4_001N).all()


def read_all_told(deployment: DHCDeployment) -> None:
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        tree = read_tree(session, deployment.release)
        for level in LEVELS:
            read_told(session, deployment.release, "persons", level, (tree.places(level), 28, 7))


@pytest.mark.prove
def test_records_that_changed_after_the_charge_are_not_measured(tmp_path: Path) -> None:
    """Wrong program: measures counts that another run, of another declaration, replaces after the comparison and before
    it publishes their version. Estimated again from the right counts, the noise would be the same."""
    deployment = dhc_deployment(tmp_path / "town")
    deployment.run(*TO_CHARGE)
    add_one = "UPDATE confidential.town__dhc.histograms SET count = count + 1"
    executes(add_one, zone="confidential")(deployment)
    assert "changed since the charge" in deployment.refusal("level_state")
    executes(add_one.replace("+", "-"), zone="confidential")(deployment)

    def replace_counts(*planned: Any) -> Any:
        executes(add_one, zone="confidential")(deployment)
        return plan_histograms(*planned)

    with patch.object(levels, "plan_histograms", replace_counts):
        assert "changed since the charge" in deployment.refusal("level_state")
    with deployment.opened() as connection:
        assert ("level_state",) not in connection.execute("SHOW TABLES").fetchall()
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]
