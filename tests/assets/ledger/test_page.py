"""The ledger's page shows the spent loss, the releases that spent it, their randomness, and the rest of the budget."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import dagster as dg
import pytest

from assets.conventions import DRAW_ID, group_digits
from assets.ledger.page import LATEST, REPLAY, describe_ledger, read_last_replays
from assets.ledger.population import Population
from assets.ledger.view import draw_share, list_budget_records
from assets.release.dataset import DatasetDeclaration
from mechanisms.accounting.losses import ApproximateLoss, InfiniteLoss, Loss, PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from resources.chain import Details, Entry, make_reservation, make_settlement, make_withdrawal
from resources.ledger import Reading

LOSS = PureLoss(Fraction(5, 2))


def declared(name: str, population: str = "", cap: Any = 10) -> DatasetDeclaration:
    columns = {"a": {"type": "string", "values": ["x", "y"]}}
    units = {"path": "a.csv", "columns": columns}
    given = {"name": name, "title": name, "reader": "csv", "cap": cap, "units": units}
    return DatasetDeclaration.model_validate(given | ({"population": population} if population else {}))


def charge(
    chain: Sequence[Entry], dataset: str, release: str, population: str, loss: Loss = LOSS, **details: Any
) -> Entry:
    specification = Specification(Flavor(dataset, (), "unit", None, loss.output_premetric), loss)
    draw = {"parameters": {"custody": details.pop("custody", "escrowed")}}
    draw_id = f"{len(chain):02}{'d' * 62}"
    return make_reservation(
        chain, dataset, release, draw_id, specification, "c" * 64, Details(population, (), draw, {"by": "Ada Ruiz"})
    )


def rows(shown: dict[str, dg.MetadataValue], name: str) -> list[list[str]]:
    table = shown[name]
    assert isinstance(table, dg.TableMetadataValue)
    assert len(table.schema.columns) <= 4
    assert all(column.description for column in table.schema.columns)
    return [[str(cell).replace("\u00a0", " ") for cell in record.data.values()] for record in table.records]


@pytest.fixture(scope="module")
def chain() -> list[Entry]:
    """Two datasets of one population: one release twice and withdrawn once, another that was never drawn."""
    found: list[Entry] = []
    first = charge(found, "y2020", "counts", "people")
    found.append(first)
    found.append(make_settlement(found, first, "v" * 64))
    second = charge(found, "y2020", "counts", "people")
    found.append(second)
    found.append(make_settlement(found, second, "w" * 64))
    found.append(make_withdrawal(found, first, "the files", "Ada Ruiz"))
    found.append(charge(found, "y2021", "more", "people", custody="ephemeral"))
    return found


@pytest.fixture(scope="module")
def shown(chain: list[Entry]) -> dict[str, dg.MetadataValue]:
    population = Population("people", (declared("y2020", "people"), declared("y2021", "people")))
    return describe_ledger(chain, [population], {chain[2].draw_id: "2026-01-01 10:00, same output"})


def test_the_budget_comes_first_for_the_population_and_each_dataset(shown: dict[str, dg.MetadataValue]) -> None:
    assert next(iter(shown)) == "budget"
    assert rows(shown, "budget") == [
        ["people", "ε = 7.5000", "2.5000", "████████░░ 75 % of 10.0000"],
        ["– dataset y2020", "ε = 5.0000", "–", "–"],
        ["– dataset y2021", "ε = 2.5000", "–", "–"],
    ]


def test_every_charge_has_its_edition_loss_and_running_total(shown: dict[str, dg.MetadataValue]) -> None:
    assert rows(shown, "charges") == [
        ["6", "y2021 / more, not drawn", "ε = 2.5000", "ε = 7.5000"],
        ["3", "y2020 / counts, edition 2", "ε = 2.5000", "ε = 5.0000"],
        ["1", "y2020 / counts, edition 1, withdrawn in entry 5", "ε = 2.5000", "ε = 2.5000"],
    ]


def test_randomness_and_decisions_belong_to_their_charges(
    chain: list[Entry], shown: dict[str, dg.MetadataValue]
) -> None:
    assert rows(shown, "randomness") == [
        [str(each.sequence), f"{each.draw_id[:12]}…", "cccccccccccc…", custody]
        for each, custody in ((chain[5], "ephemeral"), (chain[2], "escrowed"), (chain[0], "escrowed"))
    ]
    decisions = rows(shown, "decisions")
    assert [(row[0], row[1], row[3]) for row in decisions] == [
        ("6", "Ada Ruiz", "–"),
        ("3", "Ada Ruiz", "2026-01-01 10:00, same output"),
        ("1", "Ada Ruiz", "none seen"),
    ]
    assert [row[2].split(",")[0] for row in decisions] == ["not drawn", "entry 4", "entry 2"]


def test_a_draw_that_was_never_made_shows_no_failed_replay(chain: list[Entry]) -> None:
    found = list(chain)
    found.append(open_charge := charge(found, "y2021", "counts", "people"))
    found.append(made := charge(found, "y2021", "counts", "people", custody="ephemeral"))
    found.append(make_settlement(found, made, "x" * 64))
    population = Population("people", (declared("y2020", "people"), declared("y2021", "people")))
    shown = describe_ledger(found, [population], {open_charge.draw_id: "2026-01-01 10:00, failed"})
    assert [(row[0], row[2].split(",")[0], row[3]) for row in rows(shown, "decisions")][:2] == [
        ("8", "entry 9", "impossible"),
        ("7", "not drawn", "–"),
    ]


def test_full_identifiers_are_one_click_away(chain: list[Entry], shown: dict[str, dg.MetadataValue]) -> None:
    in_full = shown["in full"]
    assert isinstance(in_full, dg.MarkdownMetadataValue)
    for entry in (chain[0], chain[2], chain[5]):
        assert group_digits(entry.draw_id) in in_full.md_str
        assert group_digits(entry.hash) in in_full.md_str


def test_a_population_that_is_no_longer_declared_is_still_shown(chain: list[Entry]) -> None:
    (row,) = [row for row in rows(describe_ledger(chain, [], {}), "budget") if row[0] == "people"]
    assert row == ["people", "ε = 7.5000", "–", "no longer declared"]
    record = list_budget_records(Reading(tuple(chain), ()), [])[0]
    found = [record[name] for name in ("population", "charged", "cap", "left")]
    assert found == ["people", "ε = 7.5000", "no longer declared", "unknown"]


def test_a_new_deployment_shows_its_caps() -> None:
    assert rows(describe_ledger([], [Population("people", (declared("people"),))], {}), "budget") == [
        ["people", "ε = 0.0000", "10.0000", "░░░░░░░░░░ 0 % of 10.0000"]
    ]


def test_a_long_ledger_shows_the_latest_charges_and_says_so() -> None:
    found: list[Entry] = []
    for _ in range(LATEST + 1):
        found.append(charge(found, "people", "counts", "people"))
    shown = describe_ledger(found, [Population("people", (declared("people", cap=1000),))], {})
    listed = rows(shown, f"charges (latest {LATEST} of {LATEST + 1})")
    assert [row[0] for row in listed] == [str(number) for number in range(LATEST + 1, 1, -1)]


def test_an_infinite_charge_is_shown_beside_the_finite_total_from_its_entry_on() -> None:
    found: list[Entry] = []
    for dataset, loss in (("y2020", LOSS), ("y2021", InfiniteLoss()), ("y2020", LOSS)):
        found.append(charge(found, dataset, "counts", "people", loss))
    population = Population("people", (declared("y2020", "people"), declared("y2021", "people")))
    shown = describe_ledger(found, [population], {})
    assert rows(shown, "budget") == [
        ["people", "ε = 5.0000, and ε = ∞", "5.0000", "█████░░░░░ 50 % of 10.0000"],
        ["– dataset y2020", "ε = 5.0000", "–", "–"],
        ["– dataset y2021", "ε = ∞", "–", "–"],
    ]
    assert [(row[2], row[3]) for row in rows(shown, "charges")] == [
        ("ε = 2.5000", "ε = 5.0000, and ε = ∞"),
        ("ε = ∞", "ε = 2.5000, and ε = ∞"),
        ("ε = 2.5000", "ε = 2.5000"),
    ]
    assert "no finite total bounds what all releases of the population disclose together" in str(
        shown["without a finite loss"]
    )
    assert "without a finite loss" not in describe_ledger(found[:1], [population], {})
    assert rows(describe_ledger(found[1:2], [], {}), "budget")[0] == ["people", "ε = ∞", "–", "no longer declared"]


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0, "░░░░░░░░░░ 0 %"),
        (0.0001, "█░░░░░░░░░ under 1 %"),
        (0.5, "█████░░░░░ 50 %"),
        (0.999, "█████████░ over 99 %"),
        (1, "██████████ 100 %"),
        (1.2, "██████████ 120 %"),
    ],
)
def test_only_nothing_is_an_empty_bar_and_only_everything_a_full_one(share: float, words: str) -> None:
    assert draw_share(share).replace("\u00a0", " ") == words


def test_a_charge_is_shown_with_its_delta() -> None:
    """At the same ε, one p-table may guarantee something, and another hardly anything."""
    found = [charge([], "y2020", "counts", "people", loss=ApproximateLoss(LOSS, Fraction(2, 3)))]
    cap = {"epsilon": 10, "delta": "9/10"}
    shown = describe_ledger(found, [Population("people", (declared("y2020", "people", cap),))], {})
    assert [row[2] for row in rows(shown, "charges")] == ["ε = 2.5000 at δ = 0.666667"]


def test_the_last_replay_is_the_last_that_a_run_made() -> None:
    """Anyone who can launch runs can report a check and a materialization by hand. Wrong programs: a page that believes
    the latest report, and so shows a replay that no run made, or forgets one that failed; a page that skips a failure
    without a draw, and forgets it too; a page that asks which draw was stored, and takes the failure for that of
    another draw. Another run may be in the middle of the release when the ledger is shown."""
    passes, named = {"own": True}, {DRAW_ID: group_digits("b" * 64)}

    @dg.asset(name="drawn")
    def drawn() -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata={DRAW_ID: group_digits("a" * 64)})

    @dg.asset_check(asset=drawn, name=REPLAY)
    def replayed() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=passes["own"], metadata=named)

    job = dg.define_asset_job("release")
    made = dg.Definitions(assets=[drawn], asset_checks=[replayed], jobs=[job]).resolve_job_def("release")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.create_run_for_job(made)
        assert read_last_replays(instance, [drawn.key]) == {}
        for result, words in ((True, "same output"), (False, "failed"), (True, "same output"), (None, "failed")):
            passes["own"] = bool(result)
            if result is None:
                # The draw has no name, because its inputs were altered.
                named.clear()
            made.execute_in_process(instance=instance)
            for _ in range(25):
                by_hand = dg.AssetCheckEvaluation(
                    drawn.key, REPLAY, not result, metadata={DRAW_ID: group_digits("c" * 64)}
                )
                instance.report_runless_asset_event(by_hand)
            forged = dg.AssetMaterialization(drawn.key, metadata={DRAW_ID: group_digits("c" * 64)})
            instance.report_runless_asset_event(forged)
            instance.create_run_for_job(made)
            ((draw_id, shown),) = read_last_replays(instance, [drawn.key]).items()
            assert (draw_id, shown.rpartition(", ")[2]) == ("b" * 64, words)
