"""The gates of a redistricting release stop alterations by hand and draws by a wrong mechanism.

A release of two levels is published once. A test alters its stored tables with DuckDB itself, past every safeguard, and
evaluates every gate, or publishes again. Then it restores the deployment's files. Tests of wrong mechanisms patch the
right one and run a new release.

CI has a case for every gate; `make prove` has all of them.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from assets.gates.shared import all_gates
from assets.topdown.release import TopDownRelease
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.stream import WordSource
from resources.custody import CustodyMode
from resources.project import CODE
from tests.deployments import SHOWN, Deployment, refuses_to_publish
from tests.depth import deep_cases, quick_cases
from tests.gates import Tampering, executes, failing, in_confidence, keep, put_back
from tests.phsafe_deployments import census, changed
from tests.topdown_deployments import TWO_LEVELS, TWO_LEVELS_TO_PUBLICATION, topdown_deployment, with_quarters

TopDownDeployment = Deployment[TopDownRelease]

CONFIDENTIAL = "confidential.town__redistricting"


@pytest.fixture(scope="module", autouse=True)
def same_draws_in_every_run() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
        yield


def kept(root: Path, **changes: Any) -> TopDownDeployment:
    deployment = topdown_deployment(root / "deployment", **(TWO_LEVELS | {"products": FEWER_PRODUCTS} | changes))
    deployment.reach(*TWO_LEVELS_TO_PUBLICATION, *SHOWN)
    keep(deployment)
    return deployment


@pytest.fixture(scope="module")
def kept_escrowed(tmp_path_factory: pytest.TempPathFactory) -> TopDownDeployment:
    return kept(tmp_path_factory.mktemp("escrowed"))


@pytest.fixture(scope="module")
def kept_ephemeral(tmp_path_factory: pytest.TempPathFactory) -> TopDownDeployment:
    return kept(tmp_path_factory.mktemp("ephemeral"), custody="ephemeral")


@pytest.fixture
def escrowed(kept_escrowed: TopDownDeployment) -> Iterator[TopDownDeployment]:
    yield kept_escrowed
    put_back(kept_escrowed)


@pytest.fixture
def ephemeral(kept_ephemeral: TopDownDeployment) -> Iterator[TopDownDeployment]:
    yield kept_ephemeral
    put_back(kept_ephemeral)


DRAW = {"settled", "replay"}
PLACES = {"charge_present", "charge_as_allocated", *DRAW}
"""Gates that rest on the draw's name, which depends on spine and invariants."""

ALTERED_PLACES = {*PLACES, "counts_as_charged"}
"""Gates that need the draw's name. If the seal of spine and invariants is broken, the draw has no name."""


@dataclass(frozen=True)
class Broken:
    """An alteration, and exactly the gates that fail because of it."""

    name: str
    alter: Tampering
    gates: set[str]
    says: str = ""


EXCHANGED = """
    WITH place AS (SELECT min(record) AS a, max(record) AS b FROM persons GROUP BY geoid ORDER BY geoid LIMIT 1)
    UPDATE persons SET record = (SELECT a + b FROM place) - record
    WHERE record IN (SELECT unnest([a, b]) FROM place)
"""

MOVED = """
    UPDATE level_block SET number = (
        SELECT min(number) FROM level_block WHERE histogram = 'units' AND number NOT IN (
            SELECT number FROM level_block WHERE histogram = 'persons' AND cell = 126
        )
    )
    WHERE rowid = (SELECT min(rowid) FROM level_block WHERE histogram = 'persons' AND cell = 126)
"""
"""White adults in households, to a block that has housing units and none of them."""

FEWER_PRODUCTS = [
    "P1",
    "P5",
    "H1",
    "persons",
    "units",
    "noisy_measurements",
    "population",
    "housing_units",
    "group_quarters",
]
BROKEN = [
    Broken(
        "a code lost in the CEF",
        in_confidence("UPDATE confidential.town.persons SET CENRACE = NULL WHERE rowid = 3"),
        {"schema_and_keys", "as_read", "counts_exact"},
    ),
    Broken(
        "a person of the CEF made older",
        in_confidence("UPDATE confidential.town.persons SET QAGE = 60 WHERE QAGE < 18 AND RELSHIP = '25'"),
        {"structure", "as_read", "counts_exact"},
    ),
    Broken(
        "a unit of the CEF moved to a block of its own",
        in_confidence("UPDATE confidential.town.units SET TABBLK = TABBLKGRPCE || '999' WHERE rowid = 0"),
        {"as_read", "spine_of_the_cef", "counts_exact", "invariants_of_the_cef"},
    ),
    Broken(
        "a histogram",
        in_confidence(f"UPDATE {CONFIDENTIAL}.histograms SET count = count + 1 WHERE rowid = 0"),
        {"counts_exact", "counts_as_charged", "invariants_of_the_cef", "replay"},
    ),
    Broken(
        "minors in a nursing facility",
        in_confidence(f"INSERT INTO {CONFIDENTIAL}.histograms VALUES ('persons', 0, 756, 3)"),
        {"counts_exact", "no_impossible_records", "invariants_of_the_cef", "counts_as_charged", "replay"},
    ),
    Broken(
        "an invariant",
        executes("UPDATE invariants SET count = count + 1 WHERE invariant = 'population'"),
        {"invariants_of_the_cef", *ALTERED_PLACES, "estimates_as_made", "tables_as_made", "invariants_exact"},
    ),
    Broken(
        "an invariant that is not declared",
        executes(
            "INSERT INTO invariants SELECT 'population', 'Block', number, geoid, 0, 17 FROM spine WHERE level = 'Block'"
        ),
        {
            "invariants_of_the_cef",
            "invariants_declared",
            *ALTERED_PLACES,
            "estimates_as_made",
            "tables_as_made",
            "invariants_exact",
        },
    ),
    Broken(
        "an invariant of one place left out",
        executes("DELETE FROM invariants WHERE invariant = 'housing_units' AND number = 3"),
        {
            "invariants_of_the_cef",
            "invariants_declared",
            *ALTERED_PLACES,
            "estimates_as_made",
            "tables_as_made",
            "feasible",
            "invariants_exact",
            "structural_zeros",
        },
    ),
    Broken(
        "a facility where the population is nobody",
        executes("UPDATE invariants SET count = 0 WHERE invariant = 'population'"),
        {
            "invariants_of_the_cef",
            *ALTERED_PLACES,
            "estimates_as_made",
            "tables_as_made",
            "feasible",
            "invariants_exact",
        },
    ),
    Broken(
        "a place of the spine renamed",
        executes("UPDATE spine SET geoid = 'elsewhere' WHERE level = 'Block' AND number = 3"),
        {
            "spine_of_the_cef",
            *ALTERED_PLACES,
            "estimates_as_made",
            "measured_once",
            "microdata_of_estimates",
            "tables_as_made",
            "tables_agree",
        },
    ),
    Broken(
        "the version of the histograms",
        executes("UPDATE histograms_version SET version = repeat('cd', 32)"),
        {*ALTERED_PLACES, "estimates_as_made"},
    ),
    Broken(
        "a measurement",
        executes(
            "UPDATE noisy_measurements SET answers = packed(list_transform(unpacked(answers), "
            "lambda x: x + 1)) WHERE query = 'total' AND number = 3"
        ),
        DRAW,
    ),
    Broken(
        "measurements without noise",
        executes(
            "UPDATE noisy_measurements SET answers = packed(list_transform(unpacked(answers), "
            "lambda x: 0)) WHERE query = 'detailed'"
        ),
        {*DRAW, "noise_as_declared"},
    ),
    Broken(
        "a measurement left out",
        executes("DELETE FROM noisy_measurements WHERE query = 'total' AND number = 3"),
        {*DRAW, "measured_once", "noise_as_declared"},
    ),
    Broken(
        "a measurement with a cell too few",
        executes(
            "UPDATE noisy_measurements SET answers = packed(unpacked(answers)[2:]) "
            "WHERE query = 'detailed' AND number = 3"
        ),
        {*DRAW, "measured_once", "noise_as_declared"},
    ),
    Broken(
        "a measurement twice",
        executes("INSERT INTO noisy_measurements FROM noisy_measurements WHERE query = 'total' AND number = 3"),
        {*DRAW, "measured_once", "noise_as_declared"},
    ),
    Broken(
        "a measurement of a query that is not declared",
        executes(
            "INSERT INTO noisy_measurements "
            "SELECT histogram, level, 'hhgq', number, geoid, packed(unpacked(answers)[:8]) "
            "FROM noisy_measurements WHERE query = 'detailed' AND histogram = 'persons'"
        ),
        {*DRAW, "measured_once", "noise_as_declared"},
    ),
    Broken(
        "a measurement under another place's code",
        executes("UPDATE noisy_measurements SET geoid = '100010000011001' WHERE number = 7 AND level = 'Block'"),
        {"measured_once"},
    ),
    Broken(
        "the label of another draw",
        executes("UPDATE draw SET draw_id = repeat('ab', 32)"),
        {*DRAW, "estimates_as_made"},
    ),
    Broken(
        "persons moved to another block",
        executes(MOVED),
        {"estimates_as_made", "microdata_of_estimates", "tables_as_made"},
    ),
    Broken(
        "a person more in one block",
        executes("UPDATE level_block SET count = count + 1 WHERE histogram = 'persons' AND rowid = 20"),
        {"estimates_as_made", "children_add_up", "microdata_of_estimates", "tables_as_made"},
    ),
    Broken(
        "a negative estimate",
        executes("UPDATE level_block SET count = -count WHERE histogram = 'persons' AND rowid = 20"),
        {"estimates_as_made", "children_add_up", "whole_numbers", "microdata_of_estimates", "tables_as_made"},
    ),
    Broken(
        "a housing unit moved to another block",
        executes("UPDATE level_block SET number = number + 1 WHERE histogram = 'units' AND number = 3"),
        {"estimates_as_made", "invariants_exact", "whole_numbers", "microdata_of_estimates", "tables_as_made"},
    ),
    Broken(
        "minors moved to nursing facilities",
        executes("UPDATE level_block SET cell = 756 + cell % 252 WHERE histogram = 'persons' AND cell < 126"),
        {"estimates_as_made", "children_add_up", "structural_zeros", "microdata_of_estimates", "tables_as_made"},
    ),
    Broken(
        "group quarters emptied",
        executes("UPDATE level_block SET cell = 0 WHERE histogram = 'persons' AND cell >= 252"),
        {
            "estimates_as_made",
            "children_add_up",
            "whole_numbers",
            "inequalities",
            "microdata_of_estimates",
            "tables_as_made",
        },
    ),
    Broken(
        "a record of another race",
        executes("UPDATE persons SET cenrace = CASE cenrace WHEN '01' THEN '02' ELSE '01' END WHERE record = 7"),
        {"microdata_of_estimates"},
    ),
    Broken(
        "two records of one place in another order",
        executes(EXCHANGED),
        {"microdata_of_estimates"},
    ),
    Broken(
        "a cell of a table",
        executes("UPDATE p1 SET P0010003 = P0010003 + 1 WHERE level = 'Nation'"),
        {"tables_as_made", "tables_agree"},
    ),
    Broken(
        "a charge made smaller",
        executes(
            "UPDATE ledger.entries SET specification = replace(specification, '11/5', '1/5')",
            zone="ledger",
        ),
        {"charge_present", "charge_as_allocated", *DRAW, "estimates_as_made", "within_cap", "ledger_intact"},
        says="the ledger is not intact",
    ),
]


A_CASE_FOR_EVERY_GATE = {
    "a code lost in the CEF",
    "a person of the CEF made older",
    "a unit of the CEF moved to a block of its own",
    "minors in a nursing facility",
    "an invariant of one place left out",
    "a measurement left out",
    "group quarters emptied",
    "a cell of a table",
    "a charge made smaller",
}

ONE_OF_EVERY_STAGE = {
    "a unit of the CEF moved to a block of its own",
    "a histogram",
    "an invariant that is not declared",
    "a measurement",
    "minors moved to nursing facilities",
    "a record of another race",
    "a cell of a table",
    "a charge made smaller",
}


def cases(names: set[str], chosen: set[str], others: pytest.MarkDecorator) -> list[Any]:
    """Cases by name; all but the chosen ones have a mark."""
    return [
        pytest.param(case, id=case.name, marks=[] if case.name in chosen else others)
        for case in BROKEN
        if case.name in names
    ]


@deep_cases(3)
@quick_cases(2)
@pytest.mark.parametrize("case", cases({case.name for case in BROKEN}, A_CASE_FOR_EVERY_GATE, pytest.mark.prove))
def test_what_is_altered_by_hand_fails_its_gates_and_no_others(escrowed: TopDownDeployment, case: Broken) -> None:
    case.alter(escrowed)
    assert failing(escrowed) == case.gates


@quick_cases(1)
@deep_cases(0)
@pytest.mark.parametrize("case", cases(ONE_OF_EVERY_STAGE, {"a histogram", "a charge made smaller"}, pytest.mark.deep))
def test_what_fails_a_gate_is_not_published(escrowed: TopDownDeployment, case: Broken) -> None:
    case.alter(escrowed)
    refuses_to_publish(escrowed, case.gates, case.says)


@pytest.mark.deep
def test_every_gate_is_a_blocking_check_that_one_of_these_cases_fails(escrowed: TopDownDeployment) -> None:
    """`confidentiality` has a module of its own."""
    graph, names = escrowed.definitions.resolve_asset_graph(), set()
    for gate in all_gates(escrowed.context.method):
        found = {key.asset_key.path[-1]: key for key in graph.asset_check_keys if key.name == gate.name}
        # The ledger's own page has the check on the ledger, too.
        assert set(found) - {"ledger"} == {gate.stage}
        assert graph.get(found[gate.stage]).blocking
        names.add(gate.name)
    chosen = [case.gates for case in BROKEN if case.name in A_CASE_FOR_EVERY_GATE]
    assert names - {"confidentiality"} == set().union(*chosen)
    assert escrowed.failed_checks() == set()


MORE = "UPDATE noisy_measurements SET answers = packed(list_transform(unpacked(answers), x -> x + 1)) WHERE number = 3"


@pytest.mark.prove
def test_products_made_anew_from_altered_measurements_do_not_pass(escrowed: TopDownDeployment) -> None:
    """All tables agree with each other: only the ledger and the draw made again can tell. Wrong program: keeps
    estimates, because they are of the same draw."""
    executes(MORE)(escrowed)
    escrowed.run("level_nation", "level_block", "microdata", "tables")
    assert failing(escrowed) == {*DRAW, "estimates_as_made"}
    refuses_to_publish(escrowed, DRAW, "")


@pytest.mark.prove
def test_without_a_replay_altered_measurements_are_told_all_the_same(ephemeral: TopDownDeployment) -> None:
    executes(MORE)(ephemeral)
    # The key is random: where the noise is small, its distribution may show the change too. A publication does not look
    # again at the distribution, of which the draw keeps a verdict.
    assert {"settled"} <= failing(ephemeral) <= {"settled", "noise_as_declared"}
    refuses_to_publish(ephemeral, {"settled"}, "")


@pytest.mark.prove
def test_a_key_that_was_to_be_thrown_away_and_was_not_stops_the_publication(ephemeral: TopDownDeployment) -> None:
    ephemeral.context.custody.commit(ephemeral.ledger[0].draw_id, CustodyMode.EPHEMERAL)
    assert failing(ephemeral) == {"key_gone"}
    refuses_to_publish(ephemeral, {"key_gone"}, "")


FEWER = {"population": "Nation", "housing_units": "Block"}
LESS = TWO_LEVELS["persons"] | {"rho": 1}


@pytest.mark.prove
@deep_cases(1)
@pytest.mark.parametrize(
    ("changes", "gates"),
    [
        pytest.param({"dataset": {"cap": {"rho": 1}}}, {"within_cap"}, id="cap", marks=pytest.mark.deep),
        pytest.param(
            {"persons": LESS},
            {*PLACES, "estimates_as_made", "noise_as_declared", "tables_as_made"},
            id="budget",
            marks=pytest.mark.deep,
        ),
        pytest.param(
            {"invariants": FEWER, "products": FEWER_PRODUCTS[:-1]},
            {"invariants_of_the_cef", "invariants_declared", "counts_as_charged", *PLACES, "estimates_as_made"},
            id="an invariant fewer",
        ),
    ],
)
def test_what_is_declared_afterwards_is_not_what_was_published(
    escrowed: TopDownDeployment, changes: dict[str, Any], gates: set[str]
) -> None:
    deployment = topdown_deployment(escrowed.root, **(TWO_LEVELS | {"products": FEWER_PRODUCTS} | changes))
    assert failing(deployment) == gates
    refuses_to_publish(deployment, gates, "")


OPENED: list[list[str]] = []


@pytest.mark.deep
def test_gates_read_nothing_besides_code_and_what_verdicts_rest_on(kept_escrowed: TopDownDeployment) -> None:
    """Wrong program: reads a file that a declaration names, whose content could change under a kept verdict."""
    opened: list[str] = []
    OPENED.append(opened)
    sys.addaudithook(
        lambda event, values: opened.append(str(values[0])) if event == "open" and OPENED[-1] is opened else None
    )
    with kept_escrowed.context.snapshot() as context:
        assert [gate.name for gate in all_gates(context.method) if gate.evaluate(context)] == []
    OPENED.append([])
    code = (str(CODE), *(path for path in sys.path if path), str(kept_escrowed.root), "/proc/", "/sys/")
    assert [path for path in opened if not path.startswith(code) and not path.isdigit()] == []


@pytest.mark.prove
def test_a_deployment_with_a_leak_in_it_does_not_publish(escrowed: TopDownDeployment) -> None:
    """Exact histograms as a further parent of the tables, as a careless hand would add them."""
    careless = escrowed.definitions.map_resolved_asset_specs(
        func=lambda spec: (
            spec.merge_attributes(deps=[escrowed.key("histograms")]) if spec.key == escrowed.key("tables") else spec
        )
    )
    refuses_to_publish(replace(escrowed, definitions=careless), {"confidentiality"}, "")


@pytest.mark.prove
def test_a_whole_run_puts_right_what_was_altered(escrowed: TopDownDeployment) -> None:
    """The stages are made again from the source: alterations by hand do not survive, and the run charges nothing."""
    before, ledger = escrowed.published(), escrowed.ledger
    for case in BROKEN:
        if case.name in {"a histogram", "an invariant", "a measurement", "a person more in one block"}:
            case.alter(escrowed)
    escrowed.run(*TWO_LEVELS_TO_PUBLICATION)
    assert escrowed.failed_checks() == set()
    assert escrowed.published() == before
    assert escrowed.ledger == ledger


# Wrong mechanisms

right_sample = DiscreteGaussian.sample


def no_noise(noise: DiscreteGaussian, count: int, stream: WordSource) -> NDArray[np.int64]:
    return np.zeros(count, np.int64)


def noise_twice_as_wide(noise: DiscreteGaussian, count: int, stream: WordSource) -> NDArray[np.int64]:
    return right_sample(DiscreteGaussian(4 * noise.variance), count, stream)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize("wrong", [no_noise, noise_twice_as_wide])
def test_a_wrong_sampler_is_stopped_by_the_distribution_of_its_noise(
    wrong: Callable[[DiscreteGaussian, int, WordSource], NDArray[np.int64]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gate draws again with the same sampler, so that only chi-square can tell."""
    monkeypatch.setattr(DiscreteGaussian, "sample", wrong)
    stopped(topdown_deployment(tmp_path, **TWO_LEVELS), "noisy_measurements", {"noise_as_declared"})


@pytest.mark.prove
def test_one_query_left_out_of_the_noise_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay makes the same mistake."""
    deployment = topdown_deployment(tmp_path, **TWO_LEVELS)
    queries = {measured.label: measured.variance for measured in deployment.release.design.measured}
    (left_out,) = [label for label, variance in queries.items() if variance == queries[LEFT_OUT]]

    def careless(noise: DiscreteGaussian, count: int, stream: WordSource) -> NDArray[np.int64]:
        return (
            no_noise(noise, count, stream)
            if noise.variance == queries[left_out]
            else right_sample(noise, count, stream)
        )

    monkeypatch.setattr(DiscreteGaussian, "sample", careless)
    stopped(deployment, "noisy_measurements", {"noise_as_declared"})


LEFT_OUT = "persons Block hispanic * cenrace"


def stopped(deployment: TopDownDeployment, at: str, gates: set[str]) -> None:
    """The run fails at the checks of a stage: it makes none of the later stages, and publishes nothing."""
    stages = TWO_LEVELS_TO_PUBLICATION
    result = deployment.run(*stages, raise_on_error=False)
    assert not result.success
    assert {check.check_name for check in result.get_asset_check_evaluations() if not check.passed} == gates
    assert not deployment.executed(result) & set(stages[stages.index(at) + 1 :]) - {"invariants"}
    assert deployment.published() == {}


@pytest.mark.deep
def test_what_cannot_be_met_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    """A facility in a block whose population is held at 0, because two invariants contradict each other."""
    deployment = topdown_deployment(tmp_path, **TWO_LEVELS)
    deployment.reach("cef", "spine", "histograms", "invariants")
    executes("UPDATE invariants SET count = 3 WHERE invariant = 'population'")(deployment)
    said = deployment.refusal("charge")
    assert "persons" in said
    assert "Nation" in said
    assert deployment.ledger == ()
    assert deployment.published() == {}


def test_minors_in_a_nursing_facility_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    def younger(rows: list[dict[str, str]]) -> None:
        for row in rows:
            if row["RELSHIP"] == "37" and row["QAGE"] == "80":
                row["QAGE"] = "17"

    deployment = topdown_deployment(tmp_path, files=changed(with_quarters(census()), persons=younger), **TWO_LEVELS)
    result = deployment.run(*TWO_LEVELS_TO_PUBLICATION, raise_on_error=False)
    assert not result.success
    assert deployment.ledger == ()
