"""The gates of an S-DHC release: they find alterations by hand and draws by a wrong mechanism, and block them.

A release is published once. Every test alters its stored tables with DuckDB itself, past every safeguard, and evaluates
every gate; then it makes the publication alone again. Afterwards the deployment's files are put back. Other tests put a
wrong mechanism in place of the right one and run a new release.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray

from assets.charge import drawing
from assets.gates.shared import all_gates
from assets.measurement.grid import IN_ORDER, GridCounts
from assets.measurement.method import Batch
from assets.phsafe import counts
from assets.phsafe import method as phsafe_method
from assets.phsafe.method import PHSafeMethod
from assets.phsafe.release import PHSafeRelease
from assets.release.draw import Draw, Inputs
from mechanisms.sampling.noise import DiscreteGaussian, Distribution
from mechanisms.sampling.stream import RandomStream, WordSource
from resources import warehouse
from resources.custody import Custody, CustodyMode
from resources.instances import close_waiting
from resources.ledger import Ledger
from resources.statements import Table, Zone
from resources.warehouse import Recipe, Session
from tests.deployments import SHOWN, Deployment, refuses_to_publish
from tests.depth import deep_cases, quick_cases
from tests.forging import forge_file
from tests.gates import Tampering, executes, failing, in_confidence, keep, put_back
from tests.phsafe_deployments import FEW, TO_PUBLICATION, phsafe_deployment

PHSafeDeployment = Deployment[PHSafeRelease]

RUNS: dict[str, Any] = {
    "PH1_denom": {"budget": {"nation_*": "1/20"}},
    "PH2": {"truncation": 3, "budget": {"state_*": "1/10"}},
    "PH4": {"truncation": 4, "budget": {"state_*": "1/10", "nation_A-G": "1/10"}},
    "PH7": {"truncation": 4, "budget": {"state_*": "1/10"}},
    "PH8_denom": {"budget": {"state_*": "1/10"}},
}
"""Few runs, but both sources of a derived file."""

CONFIDENTIAL = "confidential.town__s_dhc"
AFTER_THE_CHARGE = ("noisy_measurements", "postprocessed", "tables", "publication")


@pytest.fixture(scope="module", autouse=True)
def same_draws_in_every_run() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIRRED_TEST_MASTER_KEY", "5a" * 32)
        yield


@pytest.fixture(scope="module")
def kept_escrowed(tmp_path_factory: pytest.TempPathFactory) -> PHSafeDeployment:
    deployment = phsafe_deployment(tmp_path_factory.mktemp("escrowed") / "deployment", runs=RUNS)
    deployment.reach(*TO_PUBLICATION, *SHOWN)
    keep(deployment)
    return deployment


@pytest.fixture(scope="module")
def kept_ephemeral(kept_escrowed: PHSafeDeployment, tmp_path_factory: pytest.TempPathFactory) -> PHSafeDeployment:
    """The same counts, charged and drawn again under the other custody."""
    root = tmp_path_factory.mktemp("ephemeral") / "deployment"
    shutil.copytree(kept_escrowed.root, root)
    deployment = phsafe_deployment(root, runs=RUNS, custody="ephemeral")
    deployment.run("charge", *AFTER_THE_CHARGE)
    keep(deployment)
    return deployment


@pytest.fixture
def escrowed(kept_escrowed: PHSafeDeployment) -> Iterator[PHSafeDeployment]:
    yield kept_escrowed
    put_back(kept_escrowed)


@pytest.fixture
def ephemeral(kept_ephemeral: PHSafeDeployment) -> Iterator[PHSafeDeployment]:
    yield kept_ephemeral
    put_back(kept_ephemeral)


DRAW = {"replay", "settled"}
TABLES = {"estimates_of_the_measurements", "tables_as_made"}


@dataclass(frozen=True)
class Broken:
    """An alteration, and exactly the gates that fail then.

    A further case fails only gates that the other cases fail together.
    """

    name: str
    alter: Tampering
    gates: set[str]
    says: str = ""
    further: bool = False


def each(cases: Iterable[Broken]) -> list[Any]:
    return [pytest.param(case, id=case.name, marks=[pytest.mark.prove] if case.further else []) for case in cases]


BROKEN = [
    Broken(
        "minors of the CEF made adults",
        in_confidence("UPDATE confidential.town.persons SET QAGE = 18 WHERE QAGE < 18"),
        {"as_read", "structure", "join_of_the_cef"},
    ),
    Broken(
        "a code lost in the CEF",
        in_confidence(
            "UPDATE confidential.town.persons SET CENRACE = NULL WHERE rowid = 3",
        ),
        {"as_read", "schema_and_keys"},
    ),
    Broken(
        "the truncated join",
        in_confidence(f"UPDATE {CONFIDENTIAL}.truncated_join SET count = count + 1 WHERE rowid = 0"),
        {"join_of_the_cef", "counts_exact"},
        further=True,
    ),
    Broken(
        "a count",
        in_confidence(f"UPDATE {CONFIDENTIAL}.counts SET count = count + 1 WHERE draw_order = 3"),
        {"counts_exact", "counts_as_charged", "replay"},
        further=True,
    ),
    Broken(
        "a cell not counted",
        in_confidence(f"DELETE FROM {CONFIDENTIAL}.counts WHERE draw_order = 40"),
        {"counts_exact", "grid_complete", "counts_as_charged", "noise_as_declared", "replay"},
    ),
    Broken(
        "the version of the counts",
        executes("UPDATE counts_version SET version = repeat('cd', 32)"),
        {"charge_present", "counts_as_charged", *DRAW},
        further=True,
    ),
    Broken(
        "a measurement",
        executes("UPDATE noisy_measurements SET count = count + 1 WHERE run = 'PH2' AND data_cell = 3"),
        {*DRAW, *TABLES},
    ),
    Broken(
        "a measurement left out",
        executes("DELETE FROM noisy_measurements WHERE run = 'PH2' AND data_cell = 13 AND region_id = '44'"),
        {"measured_once", "noise_as_declared", *DRAW, *TABLES},
    ),
    Broken(
        "a distribution",
        executes("UPDATE noisy_measurements SET noise_distribution = 'Discrete Laplace' WHERE run = 'PH1_denom'"),
        {"measured_once", "noise_as_declared", *DRAW, *TABLES},
        further=True,
    ),
    Broken("the label of another draw", executes("UPDATE draw SET draw_id = repeat('ab', 32)"), DRAW, further=True),
    Broken(
        "an estimate below its interval",
        executes("UPDATE estimates SET estimate = -1, lower = -2 WHERE table_name = 'PH4' AND cell = 1"),
        {*TABLES, "intervals_in_order"},
    ),
    Broken(
        "a negative finished table",
        executes("UPDATE finished_ph2 SET lower = -1 WHERE cell = 4"),
        {"tables_as_made", "finished_tables_plausible"},
    ),
    Broken(
        "a file of measurements",
        executes("UPDATE measured_ph2 SET COUNT = COUNT + 1 WHERE PH2_DATA_CELL = 3"),
        {"tables_as_made"},
        further=True,
    ),
    Broken(
        "the variance of a derived file",
        executes("UPDATE measured_ph8_num SET VARIANCE = VARIANCE / 2 WHERE PH8_NUM_DATA_CELL = 2"),
        {"tables_as_made", "derived_files"},
    ),
    Broken(
        "the parameters",
        executes("UPDATE parameters SET margin = margin / 2"),
        {"parameters_as_declared"},
    ),
    Broken(
        "a charge made smaller",
        executes("UPDATE ledger.entries SET specification = replace(specification, '11/10', '1/10')", zone="ledger"),
        {"charge_present", *DRAW, "within_cap", "ledger_intact"},
        says="the ledger is not intact",
    ),
]


@deep_cases(3)
@quick_cases(2)
@pytest.mark.parametrize("case", each(BROKEN))
def test_what_is_altered_by_hand_fails_its_gates_and_no_others(escrowed: PHSafeDeployment, case: Broken) -> None:
    case.alter(escrowed)
    assert failing(escrowed) == case.gates


ONE_OF_SOME_STAGES = {
    "the truncated join",
    "the version of the counts",
    "a measurement",
    "an estimate below its interval",
    "the variance of a derived file",
    "a charge made smaller",
}


@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize("case", each(case for case in BROKEN if case.name in ONE_OF_SOME_STAGES))
def test_what_fails_a_gate_is_not_published(escrowed: PHSafeDeployment, case: Broken) -> None:
    case.alter(escrowed)
    refuses_to_publish(escrowed, case.gates, case.says)


@pytest.mark.deep
def test_every_gate_is_a_blocking_check_that_one_of_these_fails(escrowed: PHSafeDeployment) -> None:
    """`confidentiality` has a module of its own."""
    graph, names = escrowed.definitions.resolve_asset_graph(), set()
    for gate in all_gates(escrowed.context.method):
        found = {key.asset_key.path[-1]: key for key in graph.asset_check_keys if key.name == gate.name}
        # The ledger's own page has the check on the ledger, too.
        assert set(found) - {"ledger"} == {gate.stage}
        assert graph.get(found[gate.stage]).blocking
        names.add(gate.name)
    assert names - {"confidentiality"} == set().union(*(case.gates for case in BROKEN if not case.further))
    assert escrowed.failed_checks() == set()


@pytest.mark.deep
def test_tables_that_agree_with_forged_statistics_of_their_sources_do_not_pass(escrowed: PHSafeDeployment) -> None:
    """Gates that trust these statistics (no table name above PH2) overlook the deleted rows, even in the audit."""
    executes(*(f"DELETE FROM finished_{name}" for name in ("ph4", "ph7", "ph8")))(escrowed)
    forge_file(escrowed.context.warehouse.path(Zone.PUBLIC), {("PH2", "PH8"): ("PH2", "PH2")})
    close_waiting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warehouse, "_WITHOUT_STATISTICS", {})
        assert failing(escrowed) == set(), "the forgery does what it is meant to"
        close_waiting()
    assert failing(escrowed) == {"tables_as_made"}
    refuses_to_publish(escrowed, {"tables_as_made"}, "")


@pytest.mark.prove
def test_tables_made_anew_from_altered_measurements_do_not_pass_either(escrowed: PHSafeDeployment) -> None:
    """All tables agree with each other: only the ledger and the draw's own noise can tell."""
    executes("UPDATE noisy_measurements SET count = count + 1 WHERE run = 'PH7'")(escrowed)
    refuses_to_publish(escrowed, DRAW, "", "postprocessed", "tables", "publication")


@pytest.mark.prove
def test_without_a_replay_altered_measurements_are_told_all_the_same(ephemeral: PHSafeDeployment) -> None:
    executes("UPDATE noisy_measurements SET count = count + 1 WHERE run = 'PH7'")(ephemeral)
    assert failing(ephemeral) == {"settled", *TABLES}
    refuses_to_publish(ephemeral, {"settled"}, "", "postprocessed", "tables", "publication")


@pytest.mark.prove
def test_without_a_replay_noise_that_was_left_out_is_told_by_its_distribution(ephemeral: PHSafeDeployment) -> None:
    """Exact counts in place of measurements: chi-square still shows it when no key is left to check against."""
    with ephemeral.opened() as connection:
        connection.execute(f"ATTACH '{ephemeral.root}/warehouse/confidential.duckdb' AS confidential (READ_ONLY)")
        connection.execute(
            f"""
            UPDATE noisy_measurements AS noisy SET count = exact.count
            FROM {CONFIDENTIAL}.counts AS exact WHERE noisy.draw_order = exact.draw_order
            """
        )
    found = failing(ephemeral)
    assert {"noise_as_declared", "settled"} <= found
    assert "measured_once" not in found


@pytest.mark.prove
def test_a_key_that_was_to_be_thrown_away_and_was_not_stops_the_publication(ephemeral: PHSafeDeployment) -> None:
    ephemeral.context.custody.commit(ephemeral.ledger[-1].draw_id, CustodyMode.EPHEMERAL)
    assert failing(ephemeral) == {"key_gone"}
    refuses_to_publish(ephemeral, {"key_gone"}, "")


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    ("changes", "gates"),
    [
        ({"dataset": {"cap": {"rho": 1}}}, {"within_cap"}),
        (
            {"runs": RUNS | {"PH2": {"truncation": 3, "budget": {"state_*": "1/20"}}}},
            {
                "charge_present",
                "measured_once",
                "noise_as_declared",
                *DRAW,
                "estimates_of_the_measurements",
                "parameters_as_declared",
            },
        ),
    ],
    ids=["cap", "budget"],
)
def test_what_is_declared_afterwards_is_not_what_was_published(
    escrowed: PHSafeDeployment, changes: dict[str, Any], gates: set[str]
) -> None:
    deployment = phsafe_deployment(escrowed.root, **({"runs": RUNS} | changes))
    assert failing(deployment) == gates
    refuses_to_publish(deployment, gates, "")


@pytest.mark.deep
def test_a_deployment_with_a_leak_in_it_does_not_publish(escrowed: PHSafeDeployment) -> None:
    """Exact counts as a further parent of the finished tables, as a careless change would add them."""
    careless = escrowed.definitions.map_resolved_asset_specs(
        func=lambda spec: (
            spec.merge_attributes(deps=[escrowed.key("counts")]) if spec.key == escrowed.key("tables") else spec
        )
    )
    refuses_to_publish(replace(escrowed, definitions=careless), {"confidentiality"}, "")


@pytest.mark.prove
def test_a_whole_run_puts_right_what_was_altered(escrowed: PHSafeDeployment) -> None:
    """The stages are made again from the source: no alteration survives, and nothing is charged."""
    before, ledger = escrowed.published(), escrowed.ledger
    for case in BROKEN:
        if case.name in {"a count", "the truncated join", "the version of the counts", "a measurement"}:
            case.alter(escrowed)
    path = escrowed.release.folder / "ph2.csv"
    path.write_bytes(path.read_bytes().replace(b"STATE", b"USA", 1))
    assert "files_as_published" in escrowed.failed_checks()
    escrowed.run(*TO_PUBLICATION)
    assert escrowed.failed_checks() == set()
    assert escrowed.published() == before
    assert escrowed.ledger == ledger


# Wrong mechanisms

Numbers = NDArray[np.int64]
right_sample = DiscreteGaussian.sample


def no_noise(noise: DiscreteGaussian, count: int, stream: WordSource) -> Numbers:
    return np.zeros(count, np.int64)


def noise_twice_as_wide(noise: DiscreteGaussian, count: int, stream: WordSource) -> Numbers:
    return right_sample(DiscreteGaussian(4 * noise.variance), count, stream)


@pytest.mark.prove
@pytest.mark.parametrize("wrong", [pytest.param(no_noise, marks=pytest.mark.deep), noise_twice_as_wide])
def test_a_wrong_sampler_is_stopped_by_the_distribution_of_its_noise(
    wrong: Callable[[DiscreteGaussian, int, WordSource], Numbers], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate draws again with the same sampler, so that only chi-square can tell; of production, 766 measurements."""
    monkeypatch.setattr(DiscreteGaussian, "sample", wrong)
    stopped(phsafe_deployment(tmp_path), "noisy_measurements", {"noise_as_declared"})


def noise_shared_by_levels(query: str, distribution: Distribution, count: int, key: bytes) -> Numbers:
    run, _ = query.split()
    return distribution.sample(count, RandomStream(key, f"PHSafe {run}"))


def rounded_continuous_noise(query: str, distribution: Distribution, count: int, key: bytes) -> Numbers:
    random = np.random.default_rng([*key, *query.encode()])
    return np.rint(random.normal(0, float(distribution.exact_variance) ** 0.5, count)).astype(np.int64)


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize("wrong", [noise_shared_by_levels, rounded_continuous_noise])
def test_noise_that_is_not_the_draws_is_stopped_by_drawing_again(
    wrong: Callable[[str, Distribution, int, bytes], Numbers],
    escrowed: PHSafeDeployment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No statistic of a single release could show either fault. The stage draws wrongly; the gate draws from the same
    key."""

    def make(
        method: PHSafeMethod, session: Session, draw: Draw[Inputs], custody: Custody, ledger: Ledger
    ) -> list[Batch]:
        committed = drawing.require_charge(method, draw, ledger.read()).commitment
        key, noise = custody.open_key(draw.draw_id, method.release.custody, committed), method.distributions()
        return [
            replace(exact, values=exact.values + wrong(exact.query, noise[exact.query], len(exact.values), key))
            for exact in method.exact(session)
        ]

    monkeypatch.setattr(drawing, "make_output", make)
    stopped_when_drawn_anew(escrowed, {"replay"})


right_store = GridCounts.store


def store_one_variance(method: PHSafeMethod, session: Session, batches: Iterator[Batch]) -> None:
    """All measurements state the variance of the first."""
    right_store(method, session, batches)
    table = session.arrow(IN_ORDER, table=method.measurements_table)
    place = table.schema.get_field_index("variance")
    table = table.set_column(place, "variance", pa.chunked_array([pa.repeat(table["variance"][0], len(table))]))
    session.create(method.measurements_table, "warehouse/all", source=session.register("wrong", table))


@pytest.mark.prove
def test_a_variance_that_is_not_the_noises_is_stopped(
    escrowed: PHSafeDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measurements that state another variance are not the declared ones."""
    monkeypatch.setattr(GridCounts, "store", store_one_variance)
    stopped_when_drawn_anew(escrowed, {"measured_once", "noise_as_declared", *DRAW})


@pytest.mark.prove
def test_a_region_left_out_is_stopped_before_it_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the gate makes the same counts again: the set of cells follows from the declaration."""
    right = phsafe_method.counts_recipe

    def without_a_region(session: Session, joined: Table, cells: pa.Table) -> Recipe:
        return right(session, joined, cells.filter(pc.not_equal(cells["region_id"], cells["region_id"][-1])))

    monkeypatch.setattr(phsafe_method, "counts_recipe", without_a_region)
    deployment = phsafe_deployment(tmp_path, runs=FEW)
    stopped(deployment, "counts", {"grid_complete"})
    assert deployment.ledger == ()


@pytest.mark.deep
def test_a_join_without_truncation_is_stopped_before_it_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage joins wrongly; the gate joins as it should."""
    right = counts.join_recipe

    def untruncated(session: Session, release: PHSafeRelease) -> Recipe:
        runs = {name: replace(run, truncation=run.truncation and 99_999) for name, run in release.design.runs.items()}
        return right(session, replace(release, design=replace(release.design, runs=runs)))

    monkeypatch.setattr(counts, "join_recipe", untruncated)
    deployment = phsafe_deployment(tmp_path, runs=FEW)
    stopped(deployment, "truncated_join", {"join_of_the_cef"})
    assert deployment.ledger == ()


def stopped_when_drawn_anew(escrowed: PHSafeDeployment, gates: set[str]) -> None:
    """With another budget the same counts are charged and drawn anew."""
    deployment = phsafe_deployment(escrowed.root, runs=RUNS | {"PH1_denom": {"budget": {"nation_*": "1/10"}}})
    stopped(deployment, "noisy_measurements", gates, ("charge", *AFTER_THE_CHARGE))


def stopped(deployment: PHSafeDeployment, at: str, gates: set[str], run: Sequence[str] = TO_PUBLICATION) -> None:
    """The run fails at the checks of a stage: no later stage is made, and nothing is published."""
    before = deployment.published()
    stages = [stage for stage in run if stage != "plan"]
    result = deployment.run(*stages, raise_on_error=False)
    assert not result.success
    assert {check.check_name for check in result.get_asset_check_evaluations() if not check.passed} == gates
    assert deployment.executed(result) == set(stages[: stages.index(at) + 1])
    assert deployment.published() == before
