"""An S-DHC release is charged before it is drawn and drawn once: every change is a draw and a charge of its own.

One release is counted once, and one is drawn once. A test copies the folder, changes one thing, and runs the stages
after it.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assets.charge import drawing
from assets.measurement import method as measuring
from assets.phsafe.release import PHSafeRelease
from assets.release.release import DeclarationError
from mechanisms.accounting.losses import ConcentratedLoss
from mechanisms.sampling.noise import DiscreteGaussian
from mechanisms.sampling.stream import RandomStream
from resources.chain import Entry
from resources.custody import CustodyError, CustodyMode
from resources.ledger import Ledger
from resources.statements import Zone
from tests.deployments import SHOWN, Deployment
from tests.depth import deep_cases, quick_cases
from tests.phsafe_deployments import FEW, TO_COUNTS, TO_DRAW, TO_PUBLICATION, Files, census, changed, phsafe_deployment

PHSafeDeployment = Deployment[PHSafeRelease]
TO_CHARGE = (*TO_COUNTS, "charge")
LINES = {
    "PH1_num nation_*": (10, Fraction(1, 50), 2),
    "PH1_num state_A-G": (10, Fraction(1, 10), 28),
    "PH1_denom nation_*": (2, Fraction(1, 20), 1),
    "PH2 state_*": (8, Fraction(1, 10), 16),
}
"""Of the runs FEW: Δ, ρ and number of cells, in the order in which noise is drawn."""

TOTAL = "27/50"
"""2 (1/50 + 1/10 + 1/20 + 1/10)."""


def copied(deployment: PHSafeDeployment, root: Path, **changes: Any) -> PHSafeDeployment:
    """A deployment's files in a new folder, continued with other records or another declaration."""
    shutil.copytree(deployment.root, root, dirs_exist_ok=True)
    return phsafe_deployment(root, **({"runs": FEW, "custody": deployment.release.custody.value} | changes))


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> PHSafeDeployment:
    """A release run up to the exact counts."""
    deployment = phsafe_deployment(tmp_path_factory.mktemp("counted"), runs=FEW)
    deployment.reach(*TO_COUNTS)
    return deployment


@dataclass(frozen=True)
class Drawn:
    """A drawn release and its results."""

    deployment: PHSafeDeployment
    versions: dict[str, str]
    ledger: tuple[Entry, ...]

    def taken_on(self, root: Path, **changes: Any) -> PHSafeDeployment:
        return copied(self.deployment, root, **changes)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    deployment = phsafe_deployment(tmp_path_factory.mktemp("drawn"), runs=FEW)
    deployment.reach(*TO_DRAW)
    return Drawn(deployment, deployment.versions(), deployment.ledger)


def tables(deployment: PHSafeDeployment) -> set[str]:
    with deployment.opened() as connection:
        return {name for (name,) in connection.execute("SHOW TABLES").fetchall()}


def noise(deployment: PHSafeDeployment) -> dict[str, np.ndarray]:
    """Measurements minus exact counts, by run and level, in order."""
    with deployment.opened("confidential") as connection:
        connection.execute(f"ATTACH '{deployment.context.warehouse.path(Zone.PUBLIC)}' AS public (READ_ONLY)")
        rows = connection.execute(
            """
            SELECT run || ' ' || level, list(noisy.count - exact.count ORDER BY draw_order)
            FROM confidential.town__s_dhc.counts AS exact
            JOIN public.town__s_dhc.noisy_measurements AS noisy USING (draw_order, run, level)
            GROUP BY ALL
            """
        ).fetchall()
    return {line: np.array(values) for line, values in rows}


def noise_of(key: bytes) -> dict[str, list[int]]:
    """The noise with which the runs FEW should be drawn."""
    return {
        line: DiscreteGaussian(stability**2 / (2 * rho)).sample(cells, RandomStream(key, f"PHSafe {line}")).tolist()
        for line, (stability, rho, cells) in LINES.items()
    }


# Charged before drawn


@pytest.mark.prove
def test_without_a_charge_nothing_is_drawn(counted: PHSafeDeployment, tmp_path: Path) -> None:
    deployment = copied(counted, tmp_path)
    refusal = deployment.refusal("noisy_measurements")
    assert "the ledger holds no charge for these inputs and parameters" in refusal
    assert tables(deployment) == {"counts_version", "counts_seal"}
    assert deployment.ledger == ()


@pytest.mark.deep
def test_a_charge_for_other_counts_or_another_budget_is_none(drawn: Drawn, tmp_path: Path) -> None:
    again = drawn.taken_on(tmp_path, files=another_race())
    assert "holds no charge" in again.refusal(*TO_COUNTS, "noisy_measurements")
    again = drawn.taken_on(tmp_path, runs=FEW | {"PH1_denom": {"budget": {"nation_*": "1/10"}}})
    assert "holds no charge" in again.refusal("noisy_measurements")


@pytest.mark.deep
def test_counts_with_another_threshold_are_not_charged(counted: PHSafeDeployment, tmp_path: Path) -> None:
    """A charge that looks at the records alone takes these counts for counts with the new threshold."""
    deployment = copied(counted, tmp_path, runs=FEW | {"PH2": FEW["PH2"] | {"truncation": 2}})
    assert "the stored tables of stage counts are not those" in deployment.refusal("charge")
    assert deployment.ledger == ()


def test_a_join_with_another_threshold_is_not_counted(counted: PHSafeDeployment, tmp_path: Path) -> None:
    """The counts are made without a new join before them. Wrong program: it charges and draws these counts with the
    noise for units of two persons, though up to three persons of a unit count."""
    deployment = copied(counted, tmp_path, runs=FEW | {"PH2": FEW["PH2"] | {"truncation": 2}})
    assert "the stored tables of stage truncated_join are not those" in deployment.refusal("counts", "charge")
    assert deployment.ledger == ()


@pytest.mark.deep
def test_counts_that_changed_since_the_charge_are_not_measured(counted: PHSafeDeployment, tmp_path: Path) -> None:
    """The charge was made for the published version; the counts have changed since."""
    deployment = copied(counted, tmp_path)
    deployment.reach("charge")
    with deployment.opened("confidential") as connection:
        connection.execute("UPDATE confidential.town__s_dhc.counts SET count = count + 1 WHERE draw_order = 5")
    refusal = deployment.refusal("noisy_measurements")
    assert "the exact counts have changed since the charge" in refusal
    assert [entry.kind for entry in deployment.ledger] == ["reserve"]
    assert "noisy_measurements" not in tables(deployment)


@pytest.mark.prove
@quick_cases(1)
@pytest.mark.parametrize(
    ("cap", "custody", "said"),
    [
        (
            {"rho": "0.539999"},
            "ephemeral",
            [
                "population town",
                "Release town/s_dhc",
                "would charge ρ = 0.54",
                "does not fit",
                "charged ρ = 0.0000 of its cap",
            ],
        ),
        (
            40,
            "ephemeral",
            ["would charge ρ = 0.54", "cannot be counted under the cap of ε = 40.00", "no ε holds without a δ"],
        ),
        pytest.param(
            {"epsilon": 7, "delta": "1/10000000000"},
            "escrowed",
            ["does not fit under the cap"],
            marks=pytest.mark.deep,
        ),
    ],
    ids=["ρ", "pure ε", "ε and δ"],
)
def test_over_the_cap_nothing_is_drawn_published_or_left(
    cap: Any, custody: str, said: list[str], counted: PHSafeDeployment, tmp_path: Path
) -> None:
    """In ρ, exactly; in (ε, δ) by conversion: 7.1338; and a cap in pure ε admits no release in zCDP, however great."""
    deployment = copied(counted, tmp_path, custody=custody, dataset={"cap": cap})
    refusal = deployment.refusal("charge", "noisy_measurements", "postprocessed", "tables", "publication")
    assert refusal.startswith("town__s_dhc__charge:")
    for words in said:
        assert words in refusal
    assert tables(deployment) == {"counts_version", "counts_seal"}
    assert deployment.ledger == ()
    assert deployment.published() == {}
    assert list(tmp_path.glob("custody/ephemeral/*")) == []


@pytest.mark.prove
@quick_cases(1)
@pytest.mark.parametrize("cap", [{"rho": TOTAL}, {"epsilon": "7.1338", "delta": "1/10000000000"}], ids=str)
def test_a_charge_that_meets_the_cap_exactly_fits(cap: Any, counted: PHSafeDeployment, tmp_path: Path) -> None:
    deployment = copied(counted, tmp_path, dataset={"cap": cap})
    deployment.reach("charge")
    (entry,) = deployment.ledger
    specification = entry.parse_specification()
    assert specification.loss == ConcentratedLoss(Fraction(TOTAL))
    assert {line.label: line.loss for line in specification.lines} == {
        line: ConcentratedLoss(2 * rho) for line, (_, rho, _) in LINES.items()
    }


# Drawn once


def renumbered() -> Files:
    """Other keys for the same units."""

    def renumber(rows: list[dict[str, str]]) -> None:
        for row in rows:
            row["MAFID"] = str(10**12 - int(row["MAFID"]))

    return changed(census(), persons=renumber, units=renumber, geo=renumber)


def a_year_older() -> Files:
    """A grown person's birthday, in a household that is not truncated, which changes no cell."""
    sizes = {row["MAFID"]: int(row["FINAL_POP"]) for row in census()["units"]}

    def birthday(rows: list[dict[str, str]]) -> None:
        grown = next(row for row in rows if int(row["QAGE"]) == 40 and sizes[row["MAFID"]] <= 3)
        grown["QAGE"] = "41"

    return changed(census(), persons=birthday)


@pytest.mark.deep
def test_a_changed_record_that_changes_no_count_is_the_same_draw(drawn: Drawn, tmp_path: Path) -> None:
    again = drawn.taken_on(tmp_path, files=a_year_older())
    again.run(*TO_DRAW)
    assert again.ledger == drawn.ledger
    assert {name for name, version in again.versions().items() if version != drawn.versions[name]} == {"town/cef"}


@pytest.mark.prove
def test_a_changed_record_that_changes_no_count_is_published_as_before(tmp_path: Path) -> None:
    deployment = phsafe_deployment(tmp_path, runs=FEW)
    deployment.reach(*TO_PUBLICATION)
    published, versions, ledger = deployment.published(), deployment.versions(), deployment.ledger
    again = phsafe_deployment(tmp_path, runs=FEW, files=a_year_older())
    again.run(*TO_PUBLICATION)
    assert again.published() == published != {}
    assert again.ledger == ledger
    assert {name for name, version in again.versions().items() if version != versions[name]} == {"town/cef"}


@pytest.mark.prove
def test_other_keys_for_the_same_units_change_counts_only_where_units_are_truncated(
    drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which persons of a crowded unit stay is decided by a digest of their records, MAFID included."""
    runs = {name: run | ({"truncation": 20} if "truncation" in run else {}) for name, run in FEW.items()}
    versions = []
    monkeypatch.setenv("STIRRED_TEST_MASTER_KEY", "ab" * 32)
    for number, files in enumerate((census(), renumbered())):
        deployment = phsafe_deployment(tmp_path / str(number), files=files, runs=runs)
        deployment.run(*TO_COUNTS)
        versions.append(deployment.versions())
    assert versions[0]["town/s_dhc/counts"] == versions[1]["town/s_dhc/counts"]
    assert versions[0]["town/cef"] != versions[1]["town/cef"]


def another_race() -> Files:
    """A householder who lives alone is of another race."""
    units = census()["units"]
    alone = next(row["MAFID"] for row in units if row["HHT"] in ("4", "6") and row["HHRACE"] == "01")

    def race(column: str) -> Callable[[list[dict[str, str]]], None]:
        def change(rows: list[dict[str, str]]) -> None:
            for row in rows:
                if row["MAFID"] == alone:
                    row[column] = "02"

        return change

    return changed(census(), persons=race("CENRACE"), units=race("HHRACE"))


@pytest.mark.prove
def test_one_record_changed_is_a_draw_and_a_charge_of_its_own(drawn: Drawn, tmp_path: Path) -> None:
    """If the noise were the same for both, the difference of two publications would be the change itself.

    The noise differs for every run and level, not only where the record counts: if one cell's noise stayed the same,
    the difference of the others would not matter. Equal values then occur by chance: at σ = 12 and more (PH1_denom: σ =
    6), 1 in 42. So half of the 16 or 28 values of a level are equal once in 10⁹ draws, and all three of the levels with
    fewer, once in 37,000.
    """
    again = drawn.taken_on(tmp_path, files=another_race())
    before = noise(drawn.deployment)
    again.run(*TO_DRAW)
    reserved, settled = again.ledger[-2:]
    assert again.ledger[:-2] == drawn.ledger
    assert (reserved.kind, settled.kind) == ("reserve", "settle")
    assert reserved.draw_id == settled.draw_id != drawn.ledger[0].draw_id
    assert reserved.commitment != drawn.ledger[0].commitment
    after = noise(again)
    assert before.keys() == after.keys() == LINES.keys()
    differs = {line: before[line] != after[line] for line in LINES}
    assert all(each.mean() > 0.5 for each in differs.values() if len(each) > 2)
    assert any(each.any() for each in differs.values() if len(each) <= 2)


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    "changes",
    [
        {
            "title": "Other words",
            "description": "for the same",
            "dataset": {"title": "A hamlet", "cap": {"rho": 30}},
            "products": ["PH2"],
            "interval": "equal_tailed",
            "delta": "1/1000",
        },
        {
            "runs": {"PH2": {"truncation": 3, "budget": {"state_*": "2/20", "nation_*": 0}}}
            | {name: FEW[name] for name in ("PH1_denom", "PH1_num")},
            "states": ["44", "10"],
        },
    ],
    ids=["words, cap and post-processing", "the same in another order, and a budget written otherwise"],
)
def test_what_no_measurement_depends_on_makes_no_draw(drawn: Drawn, changes: Mapping[str, Any], tmp_path: Path) -> None:
    again = drawn.taken_on(tmp_path, **changes)
    again.run(*TO_CHARGE[1:])
    assert again.ledger == drawn.ledger


@pytest.mark.prove
@deep_cases(1)
@quick_cases(1)
@pytest.mark.parametrize(
    "changes",
    [
        {"runs": FEW | {"PH1_denom": {"budget": {"nation_*": "1/21"}}}},
        {"custody": "ephemeral"},
        *(
            pytest.param(changes, marks=pytest.mark.deep)
            for changes in (
                {"runs": FEW | {"PH2": {"truncation": 2, "budget": {"state_*": "1/10"}}}},
                {"runs": FEW | {"PH2": {"truncation": 3, "budget": {"state_*": "1/10", "nation_*": "1/1000000"}}}},
                {"runs": {name: run for name, run in FEW.items() if name != "PH2"}},
                {"states": ["10"]},
                {"noise": "pure"},
                {"name": "again"},
            )
        ),
    ],
    ids=["budget", "custody", "truncation", "a level more", "a run less", "a state less", "pure", "name"],
)
def test_another_parameter_is_a_draw_and_a_charge_of_its_own(
    drawn: Drawn, changes: Mapping[str, Any], tmp_path: Path
) -> None:
    again = drawn.taken_on(tmp_path, **changes)
    again.run(*TO_CHARGE[1:])
    assert [entry.kind for entry in again.ledger] == ["reserve", "settle", "reserve"]
    assert again.ledger[2].draw_id != again.ledger[0].draw_id
    assert again.ledger[2].commitment != again.ledger[0].commitment


@pytest.mark.prove
def test_another_threshold_that_truncates_nothing_more_is_another_draw(drawn: Drawn, tmp_path: Path) -> None:
    """τ above every household's size changes no count, but it does change the noise, as Δ follows from τ; and the
    version, because an equal one would show that no household has more persons than the lower τ."""
    counts, versions, draws = [], [], []
    for threshold in (30, 40):
        runs = {"PH2": {"truncation": threshold, "budget": {"state_*": 1}}}
        deployment = drawn.taken_on(tmp_path / str(threshold), runs=runs)
        deployment.reach(*TO_CHARGE[1:])
        versions.append(deployment.versions()["town/s_dhc/counts"])
        draws.append(deployment.ledger[-1].draw_id)
        with deployment.opened("confidential") as connection:
            counts.append(connection.sql("SELECT * FROM confidential.town__s_dhc.counts ORDER BY ALL").fetchall())
    assert counts[0] == counts[1]
    assert versions[0] != versions[1]
    assert draws[0] != draws[1]


# Killed, lost, thrown away


class Killed(BaseException):
    """An error that no code handles."""


def dies(*_: Any, **__: Any) -> None:
    raise Killed


@deep_cases(1)
@pytest.mark.prove
@pytest.mark.parametrize(
    ("custody", "place", "name"),
    [
        pytest.param("escrowed", drawing, "label_draw", marks=pytest.mark.deep),
        pytest.param("ephemeral", measuring, "Noise", marks=pytest.mark.deep),
        ("ephemeral", Ledger, "settle"),
    ],
    ids=["once it is drawn", "before it is drawn", "before it is settled"],
)
def test_a_run_that_dies_between_charge_and_settlement_is_taken_up_with_the_same_noise(
    custody: str,
    place: Any,
    name: str,
    counted: PHSafeDeployment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The draw uses the committed key, regardless of earlier writes."""
    deployment = copied(counted, tmp_path, custody=custody)
    deployment.run("charge")
    (entry,) = deployment.ledger
    key = deployment.context.custody.open_key(entry.draw_id, CustodyMode(custody), entry.commitment)
    with monkeypatch.context() as patch:
        patch.setattr(place, name, dies)
        with pytest.raises(Killed):
            deployment.run("noisy_measurements")
    assert deployment.ledger == (entry,)
    deployment.run("charge", "noisy_measurements")
    assert [each.kind for each in deployment.ledger] == ["reserve", "settle"]
    assert deployment.ledger[0] == entry
    assert {line: values.tolist() for line, values in noise(deployment).items()} == noise_of(key)
    assert list(tmp_path.glob("custody/ephemeral/*")) == []


@pytest.mark.prove
def test_an_ephemeral_key_is_kept_nowhere_and_what_was_drawn_with_it_is_still_published(tmp_path: Path) -> None:
    deployment = phsafe_deployment(tmp_path, runs=FEW, custody="ephemeral")
    deployment.reach(*TO_PUBLICATION, *SHOWN)
    published, versions, ledger = deployment.published(), deployment.versions(), deployment.ledger
    again = phsafe_deployment(tmp_path, runs=FEW, custody="ephemeral")
    assert list(tmp_path.glob("custody/ephemeral/*")) == []
    with pytest.raises(CustodyError, match="cannot be replayed"):
        again.context.custody.open_key(ledger[0].draw_id, CustodyMode.EPHEMERAL, ledger[0].commitment)
    shutil.rmtree(again.release.folder)
    again.run(*TO_PUBLICATION, *SHOWN)
    assert again.published() == published != {}
    assert again.versions() == versions
    made = again.definitions.resolve_asset_graph().get_all_asset_keys() - {again.key("preflight")}
    assert len(again.versions()) == len(made)
    assert again.ledger == ledger


# Forbidden declarations of a dataset


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"private": False}, "private: only a dataset declared synthetic allows exact counts, for tuning"),
        (
            {"runs": FEW, "products": ["PH1", "PH5"]},
            "products: PH5 is made from PH4 and PH5_denom, which are not released",
        ),
        (
            {
                "runs": {
                    "PH1_num": {"truncation": 4, "budget": {"nation_*": 1}},
                    "PH1_denom": {"budget": {"state_*": 1}},
                },
                "products": ["PH1"],
            },
            "products: PH1 is made from PH1_num and PH1_denom, which are not released together at any level",
        ),
        (
            {
                "runs": {
                    "PH4": {"truncation": 1, "budget": {"state_*": 1}},
                    "PH5_denom": {"budget": {"state_*": 1}},
                },
                "products": ["PH5"],
            },
            "products: PH5 has averages of at least 2, but its runs keep fewer persons per unit",
        ),
        ({"delta": "1/2", "states": ["72", "10"]}, "states: Puerto Rico is released by itself"),
    ],
    ids=["not private", "run missing", "no common level", "truncated below an average", "Puerto Rico with a state"],
)
def test_a_release_that_cannot_be_is_refused_by_name_field_and_rule(
    changes: Mapping[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(DeclarationError, match=r"^release town/s_dhc: ") as refused:
        phsafe_deployment(tmp_path, **changes)
    assert said in str(refused.value)
    assert not (tmp_path / "warehouse").exists()
