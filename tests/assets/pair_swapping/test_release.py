"""A whole release by pair swapping: its records follow from the mechanism, and every gate finds the fault it names.

The oracle codes the households in Python from the rows of the source files, without SQL.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from assets.pair_swapping import records
from assets.pair_swapping.gates import find_pair_problems, find_rate_problems
from assets.pair_swapping.records import SwappedRecords, stored_earlier_version
from assets.pair_swapping.release import PairSwappingRelease
from assets.release.release import DeclarationError, Release
from mechanisms.accounting.losses import InfiniteLoss
from mechanisms.pair_swapping.design import MECHANISM
from mechanisms.pair_swapping.pairing import NOBODY, Households, Places, Swapped, Traits, risks, swap_pairs, weigh
from mechanisms.sampling.stream import RandomStream
from resources.custody import CustodyMode
from resources.warehouse import Session
from tests.deployments import Deployment
from tests.depth import deep_cases
from tests.docs.warehouse import tables_of, undescribed
from tests.gates import executes, failing, in_confidence, keep, put_back
from tests.pair_swapping_deployments import TO_DRAW, TO_PUBLICATION, pair_swapping_deployment
from tests.phsafe_deployments import Files, census
from tests.topdown_deployments import with_quarters

PLACE = (
    "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK", "REGIONCE", "DIVISIONCE", "PLACEFP", "AIANNHCE",
)  # fmt: skip
HELD = ("RTYPE", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT")
OF_PERSONS = ("RTYPE", "QAGE", "CENHISP", "CENRACE", "RELSHIP")

Row = dict[str, str]


def source(files: Files) -> tuple[list[Row], dict[str, list[tuple[str, ...]]]]:
    """The units with their places in order of their keys, and the persons of each."""
    places = {row["MAFID"]: row for row in files["geo"]}
    units = [{**row, **{name: places[row["MAFID"]][name] for name in PLACE}} for row in files["units"]]
    persons: dict[str, list[tuple[str, ...]]] = {row["MAFID"]: [] for row in units}
    for row in files["persons"]:
        persons[row["MAFID"]].append(tuple(row[name] for name in OF_PERSONS))
    return sorted(units, key=lambda row: int(row["MAFID"])), persons


def held(row: Row) -> list[str | int]:
    """The values that a unit keeps; the files write numbers with leading zeros or without."""
    return [int(row[name]) if name in ("FINAL_POP", "NPF") else row[name] for name in HELD]


def coded(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def numbers(values: Sequence[Any]) -> np.ndarray:
    order = {value: number for number, value in enumerate(sorted(set(values)))}
    return np.array([order[value] for value in values], dtype=np.int32)


def trait_rows(files: Files, units: Sequence[Row], exempt: Any) -> dict[str, tuple[int, int, int, int]]:
    """By unit: the households of its block, how many of them are imputed, whether it has a race that no other unit
    there has, and its persons."""
    _, persons = source(files)
    block = {row["MAFID"]: tuple(row[name] for name in PLACE[:5]) for row in units}
    homes = [row for row in units if row["RTYPE"] == "2" and persons[row["MAFID"]]]
    races = {mafid: {person[3] for person in of_unit} for mafid, of_unit in persons.items()}
    traits = {}
    for row in homes:
        near = [other for other in homes if block[other["MAFID"]] == block[row["MAFID"]]]
        elsewhere = set().union(
            *(races[other] for other in block if other != row["MAFID"] and block[other] == block[row["MAFID"]])
        )
        traits[row["MAFID"]] = (
            len(near),
            sum(bool(exempt) and other[exempt[0]] in exempt[1] for other in near),
            int(bool(races[row["MAFID"]] - elsewhere)),
            len(persons[row["MAFID"]]),
        )
    return traits


def expected(
    files: Files, key: bytes, rate: Fraction, variables: Sequence[str], exempt: Any = None, factors: Any = None
) -> Counter[Any]:
    """The units after the exchange, each with its place, the values that it keeps, and its persons."""
    units, persons = source(files)
    swappable = [
        row for row in units
        if row["RTYPE"] == "2" and persons[row["MAFID"]] and not (exempt and row[exempt[0]] in exempt[1])
    ]  # fmt: skip
    swappable.sort(key=lambda row: [row[name] for name in PLACE[:5]])
    blocks = coded(swappable, PLACE[:5])
    of_block = {block: number for number, block in enumerate(sorted(set(blocks)))}
    above = np.stack([numbers([block[:depth] for block in sorted(of_block)]) for depth in (4, 3, 2, 1)])
    adults = [Counter(int(person[1]) >= 18 for person in persons[row["MAFID"]]) for row in swappable]
    partners = [
        (row["TABBLKST"], of_age[True], of_age[False], row["TEN"])
        for row, of_age in zip(swappable, adults, strict=True)
    ]
    table = Households(
        np.array([of_block[block] for block in blocks], dtype=np.int32),
        numbers(partners),
        numbers(coded(swappable, variables)),
        Places(above),
    )
    weights = None
    if factors is not None:
        traits = trait_rows(files, units, exempt)
        columns = zip(*(traits[row["MAFID"]] for row in swappable), strict=True)
        weights = weigh(factors, Traits(*(np.array(column, dtype=np.int32) for column in columns)), risks(table))
        assert all(len(set(column)) > 1 for column in zip(*traits.values(), strict=True))
    swapped = swap_pairs(table, rate, RandomStream(key, MECHANISM), weights)
    place = {row["MAFID"]: [row[name] for name in PLACE] for row in units}
    moved = dict(place)
    for each, other in enumerate(swapped.partner):
        if other != NOBODY:
            moved[swappable[each]["MAFID"]] = place[swappable[other]["MAFID"]]
    assert moved != place
    return Counter((*moved[row["MAFID"]], *held(row), tuple(sorted(persons[row["MAFID"]]))) for row in units)


def published(deployment: Deployment[PairSwappingRelease]) -> Counter[Any]:
    """The units as published, from the files."""
    persons: dict[str, list[tuple[str, ...]]] = {}
    for row in read(deployment, "swapped_persons"):
        values = [row[name] for name in ("PERSON_RTYPE", *OF_PERSONS[1:])]
        persons.setdefault(row["unit"], []).append(tuple(values))
    return Counter(
        (*(row[name] for name in PLACE), *held(row), tuple(sorted(persons.get(row["unit"], []))))
        for row in read(deployment, "swapped")
    )


def read(deployment: Deployment[PairSwappingRelease], name: str) -> list[Row]:
    with (deployment.release.folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def draw_key(deployment: Deployment[PairSwappingRelease]) -> bytes:
    (entry,) = [entry for entry in deployment.ledger if entry.kind == "reserve"]
    return deployment.context.custody.open_key(entry.draw_id, CustodyMode.ESCROWED, entry.commitment)


FILES = with_quarters(census(160))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Deployment[PairSwappingRelease]:
    deployment = pair_swapping_deployment(tmp_path_factory.mktemp("pairs") / "release", files=FILES)
    deployment.reach(*TO_PUBLICATION)
    keep(deployment)
    return deployment


@pytest.fixture
def release(kept: Deployment[PairSwappingRelease]) -> Iterator[Deployment[PairSwappingRelease]]:
    yield kept
    put_back(kept)


@pytest.mark.deep
def test_the_page_of_the_warehouse_describes_every_table(release: Deployment[PairSwappingRelease]) -> None:
    assert undescribed(tables_of(release), "pair_swapping") == []


@pytest.mark.deep
def test_the_published_records_are_those_of_the_oracle(release: Deployment[PairSwappingRelease]) -> None:
    want = expected(FILES, draw_key(release), Fraction(1, 4), ("HHRACE", "HHSPAN", "HHT"))
    assert published(release) == want
    before, persons = source(FILES)
    assert sum(want.values()) == len(before)
    counts = Counter((row["TABBLKCOU"], row["HHRACE"], row["TEN"]) for row in read(release, "swapped"))
    by_county = {tuple(row.values())[:3]: int(row["count"]) for row in read(release, "by_county")}
    assert by_county == counts
    assert sum(int(row["count"]) for row in read(release, "persons")) == sum(map(len, persons.values()))
    numbered = [int(row["unit"]) for row in read(release, "swapped")]
    assert sorted(numbered) == list(range(1, len(before) + 1))


@pytest.mark.deep
def test_the_certificate_says_in_words_that_no_finite_loss_holds_and_why(
    release: Deployment[PairSwappingRelease],
) -> None:
    certificate = json.loads(release.published()["certificate.json"])
    assert (certificate["loss"]["exact"], certificate["loss"]["rounded_up"]) == ("∞", None)
    assert "possible under one and impossible under the other" in certificate["loss"]["meaning"]
    assert certificate["ledger"]["infinite_charges"] == 1
    assert certificate["ledger"]["total_at_publication"]["rounded_up"] == 0
    assert len(certificate["invariants"]["held_fixed"]) == 3
    (entry,) = [entry for entry in release.ledger if entry.kind == "reserve"]
    assert entry.parse_specification().loss == InfiniteLoss()


UNIT = "(SELECT min(unit) FROM swapped WHERE RTYPE = '2' AND FINAL_POP > 0)"
QUARTERS = "(SELECT min(unit) FROM swapped WHERE RTYPE = '4')"


@deep_cases(2)
@pytest.mark.deep
@pytest.mark.parametrize(
    ("alter", "found"),
    [
        (executes(f"UPDATE swapped SET TABBLK = '9999' WHERE unit = {UNIT}"), {"blocks_exact"}),
        (executes(f"UPDATE swapped SET HHRACE = '63' WHERE unit = {UNIT}"), {"nothing_but_place_changed"}),
        (
            executes(f"UPDATE swapped_persons SET CENRACE = '63' WHERE unit = {UNIT}"),
            {"nothing_but_place_changed"},
        ),
        (
            executes(f"UPDATE swapped SET PLACEFP = '99998' WHERE unit = {QUARTERS}"),
            {"blocks_exact", "others_unchanged"},
        ),
        (
            executes(f"DELETE FROM swapped WHERE unit = {QUARTERS}"),
            {"blocks_exact", "others_unchanged", "nothing_but_place_changed"},
        ),
        (
            executes(f"UPDATE swapped SET unit = -unit WHERE unit = {QUARTERS}"),
            {"blocks_exact", "others_unchanged", "nothing_but_place_changed"},
        ),
    ],
)
def test_a_change_of_the_swapped_records_is_found_by_the_gates_that_name_it(
    release: Deployment[PairSwappingRelease], alter: Any, found: set[str]
) -> None:
    assert failing(release) == set()
    alter(release)
    own = {"blocks_exact", "nothing_but_place_changed", "others_unchanged"}
    failed = failing(release)
    assert failed & own == found
    assert {"settled", "replay"} <= failed


@pytest.mark.deep
@pytest.mark.parametrize("settled_earlier", [False, True])
def test_records_whose_hashes_have_the_same_sums_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled_earlier: bool
) -> None:
    """Wrong program: the output is identified by the sums of the hashes of its rows. With ten thousand households, some
    can exchange their places without changing these sums; here, all hashes are the same. An output that an earlier
    version settled by such sums is still recognized, made again, and compared with the repeated draw."""

    def add_up(session: Session, table: Any, columns: list[str], salt: str = "") -> tuple[int, ...]:
        return of_rows(session, table, columns, salt) if salt else (1, 2, 3)

    of_rows = Session.sum_digests
    monkeypatch.setattr(Session, "sum_digests", add_up)
    deployment = pair_swapping_deployment(tmp_path / "release", files=FILES)
    with monkeypatch.context() as earlier:
        if settled_earlier:
            earlier.setattr(records, "_version", lambda session, release, _: stored_earlier_version(session, release))
        deployment.run(*TO_DRAW)
    before = Counter(tuple(row.items()) for row in stored(deployment, "swapped"))
    with deployment.opened() as connection:
        connection.execute("DROP TABLE swapped")
    deployment.run("swapped", "tables", "publication")
    assert Counter(tuple(row.items()) for row in stored(deployment, "swapped")) == before
    assert [entry.kind for entry in deployment.ledger] == ["reserve", "settle"]
    executes(f"UPDATE swapped SET TABBLK = '9999' WHERE unit = {UNIT}")(deployment)
    assert failing(deployment) & {"settled", "replay"} == ({"replay"} if settled_earlier else {"settled", "replay"})


def stored(deployment: Deployment[PairSwappingRelease], name: str) -> list[Row]:
    with deployment.opened() as connection:
        return list(connection.execute(f"FROM {name}").to_arrow_table().to_pylist())


@pytest.mark.deep
def test_altered_households_fail_the_gate_of_their_stage_and_are_not_drawn_from(
    release: Deployment[PairSwappingRelease],
) -> None:
    in_confidence("UPDATE confidential.town__pairs.households SET key_values = 0")(release)
    assert {"households_of_the_cef", "replay", "pairs_disjoint", "rate_met"} <= failing(release)


@pytest.mark.prove
def test_imputed_households_are_never_swapped(tmp_path: Path) -> None:
    """Households of one type count as imputed; the oracle leaves them out, and their counts with their places are
    exact."""
    exempt = ("HHT", ("1",))
    deployment = pair_swapping_deployment(
        tmp_path / "release", files=FILES, imputed={"column": "HHT", "values": ["1"]}, swap_rate="1/2"
    )
    deployment.reach(*TO_PUBLICATION)
    want = expected(FILES, draw_key(deployment), Fraction(1, 2), ("HHRACE", "HHSPAN", "HHT"), exempt)
    assert published(deployment) == want
    units, _ = source(FILES)
    assert Counter(
        tuple(row[name] for name in PLACE) for row in read(deployment, "swapped") if row["HHT"] == "1"
    ) == Counter(tuple(row[name] for name in PLACE) for row in units if row["HHT"] == "1")


FACTORS = {
    "block_size": [{"at_least": 3, "factor": "1/2"}, {"at_least": 5, "factor": "1/8"}],
    "unique_race": {"variable": "CENRACE", "factor": 16},
    "block_imputation": [{"at_least": "1/4", "factor": "1/3"}, {"at_least": "3/4", "factor": 0}],
    "imputed_items": {"variable": "FINAL_POP", "steps": [{"at_least": 3, "factor": "2/3"}]},
    "always_selected": "county",
}


@pytest.mark.prove
def test_risk_factors_are_those_of_the_oracle(tmp_path: Path) -> None:
    """Python counts the inputs of the weights. A program that counted vacant units, races among households alone, or
    imputed households of the state would exchange other households."""
    exempt = ("HHT", ("1",))
    imputed = {"column": "HHT", "values": ["1"]}
    deployment = pair_swapping_deployment(tmp_path / "release", files=FILES, imputed=imputed, risk_factors=FACTORS)
    deployment.reach(*TO_PUBLICATION)
    factors = deployment.release.design.risk_factors
    assert set(factors.as_record()) == set(FACTORS)
    names = ("HHRACE", "HHSPAN", "HHT")
    assert published(deployment) == expected(FILES, draw_key(deployment), Fraction(1, 4), names, exempt, factors)
    assert published(deployment) != expected(FILES, draw_key(deployment), Fraction(1, 4), names, exempt)
    certificate = json.loads(deployment.published()["certificate.json"])
    (stated,) = [each for each in certificate["mechanism"]["parameters"] if each["label"] == "Risk factors"]
    assert "somebody with a CENRACE that nobody else in the block has: times 16" in stated["value"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"block_imputation": [{"at_least": "1/4", "factor": 0}]}, "block_imputation: declare imputed"),
        ({"unique_race": {"variable": "HHRACE", "factor": 2}}, "unique_race: there is no variable HHRACE of persons"),
        ({"imputed_items": {"variable": "HHT", "steps": [{"at_least": 1, "factor": 2}]}}, "HHT is no integer"),
        (
            {"imputed_items": {"variable": "TABBLK", "steps": [{"at_least": 1, "factor": 2}]}},
            "is not a variable that a",
        ),
        ({"block_size": [{"at_least": 5, "factor": 1}, {"at_least": 5, "factor": 2}]}, "block_size: every step"),
    ],
)
def test_risk_factors_that_contradict_the_dataset_are_refused(tmp_path: Path, changes: Any, says: str) -> None:
    with pytest.raises(DeclarationError, match=rf"release town/pairs: risk_factors: .*{says}"):
        pair_swapping_deployment(tmp_path / "release", risk_factors=changes)


def test_without_a_permission_it_cannot_be_declared(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"release town/pairs: no finite loss bounds it \(ε = ∞\)"):
        pair_swapping_deployment(tmp_path / "release", dataset={"unbounded_releases": None})
    with pytest.raises(DeclarationError, match=r"no finite loss bounds it"):
        pair_swapping_deployment(tmp_path / "release", dataset={"unbounded_releases": "refused", "synthetic": True})


@pytest.mark.deep
def test_the_charge_refuses_what_was_loaded_without_a_permission(tmp_path: Path) -> None:
    with patch.object(Release, "require_allowed", lambda self: None):
        deployment = pair_swapping_deployment(tmp_path / "release", dataset={"unbounded_releases": None})
        refusal = deployment.refusal(*TO_DRAW)
    assert "would charge ε = ∞ to population town. It is refused: the charge fits under no cap" in refusal
    assert "unbounded_releases: allowed" in refusal
    assert deployment.ledger == ()


@pytest.mark.deep
def test_on_a_dataset_that_asks_the_loss_typed_is_infinite(tmp_path: Path) -> None:
    deployment = pair_swapping_deployment(tmp_path / "release", dataset={"charging": "ask"})
    deployment.reach("cef", "households")
    refusal = deployment.refusal("charge")
    assert "would charge ε = ∞ to population town. Nobody has authorized it." in refusal
    assert "This charge is infinite, and no cap bounds it" in refusal
    (draw,) = {line.split('"')[1] for line in refusal.splitlines() if "authorized_draw" in line}
    for loss, charged in (("ε = 1000000", False), ("ε = ∞", True)):
        deployment.authorization = {"authorized_loss": loss, "authorized_draw": draw, "authorized_by": "Ada Ruiz"}
        if charged:
            deployment.reach("charge")
        else:
            assert "names another loss" in deployment.refusal("charge")
        assert len(deployment.ledger) == charged
    assert deployment.ledger[0].parse_details().authorization["by"] == "Ada Ruiz"


# Findings of the gates of pairs and rate, without a deployment.

ABOVE = np.zeros((4, 3), dtype=np.int32)
TABLE = Households(
    np.array([0, 0, 1, 1, 2, 2], dtype=np.int32),
    np.array([0, 1, 0, 1, 0, 1], dtype=np.int32),
    np.zeros(6, dtype=np.int32),
    Places(ABOVE),
)
RIGHT = Swapped(
    np.array([2, 3, 0, 1, NOBODY, NOBODY], dtype=np.int32), np.array([True, False, True, True, False, False])
)


def problems(swapped: Swapped, rate: Fraction = Fraction(1, 2)) -> list[str]:
    output = SwappedRecords({}, "", TABLE, swapped)
    return [*find_pair_problems(output), *find_rate_problems(output, rate)]


@pytest.mark.parametrize(
    ("partner", "what"),
    [
        ([2, NOBODY, 4, NOBODY, 0, NOBODY], "not the partner of their partner: 3"),
        ([3, 2, 1, 0, NOBODY, NOBODY], "differ in shared variables: 4"),
        ([1, 0, NOBODY, NOBODY, NOBODY, NOBODY], "in one block: 2"),
        ([4, NOBODY, NOBODY, 5, 0, 3], "of which neither was selected"),
    ],
)
def test_pairs_that_are_none_are_found(partner: list[int], what: str) -> None:
    assert problems(RIGHT) == []
    selected = np.array([True, True, True, False, False, False])
    found = problems(Swapped(np.array(partner, dtype=np.int32), selected))
    assert any(what in problem for problem in found), found


def test_another_number_of_selected_households_is_found() -> None:
    assert problems(RIGHT, Fraction(2, 5)) == ["states with another number of selected households: 1"]
    assert problems(replace(RIGHT, selected=np.ones(6, dtype=bool))) == [
        "states with another number of selected households: 1"
    ]
