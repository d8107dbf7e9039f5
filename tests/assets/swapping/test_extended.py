"""Varying rates, exempt records, a second stir and noise before: drawn as declared, charged as derived, gated.

Plain Python computes rates and losses again from the rows of the source file. Wrong programs that these tests tell
apart: one whose cases are tried in another order, one that counts rarity in another table, one that publishes the swap
margin of the first stir or the holding margin without noise, and one that charges the smaller of two losses.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pytest

from assets.release.draw import Draw, StaleInputError
from assets.swapping.draw import SwappingInputs, draw_cells, read_inputs, stage_decoded
from assets.swapping.invariants import TooManyHoldingValuesError
from assets.swapping.records import HOLDING, RECORDS, SWAPPING, RatesError, stored_stirring
from assets.swapping.release import SwappingRelease
from assets.swapping.withheld import STRATA, WithheldSwap, stage_withheld, swap_loss, withheld_version
from assets.swapping.withheld import WITHHELD as WITHHELD_RECORDS
from mechanisms.accounting.losses import ConcentratedLoss, PureLoss
from mechanisms.sampling.stream import RandomStream
from mechanisms.swapping.loss import smallest_rate, theorem_1
from resources.custody import Custody
from resources.statements import Zone
from tests.assets.swapping.villages import VERSION_KEY, Village, village
from tests.deployments import PERSONS, TO_PUBLICATION, UNITS, Deployment, households, members, small_deployment
from tests.depth import deep_cases, quick_cases
from tests.gates import executes, failing

CUSTODY = cast(Custody, SimpleNamespace(version_key=lambda: VERSION_KEY))
KEY = bytes(range(32))
ROLES: dict[str, Any] = {"match": ["region", "size"], "swap": ["county"], "publishes_unique_records": "accepted"}
ROWS = households(90)

BY = {
    "swap_rate": {
        "by": [{"when": {"size": [1, 2]}, "rate": "1/2"}, {"when": {"region": "S"}, "rate": "1/5"}, {"rate": "9/10"}]
    }
}
EPSILON = {"swap_rate": {"epsilon": "5/2"}}
RISK: dict[str, Any] = {
    "swap_rate": None,
    "risk": {"cases": [{"when": {"tenure": "rent", "size": 3}, "rate": "2/3"}, {"rate": "1/10"}]},
}
RARITY: dict[str, Any] = {
    "swap_rate": None,
    "risk": {"rarity_of": ["tenure", "size"], "cases": [{"at_most": 11, "rate": "1/2"}, {"rate": "1/10"}]},
}
ALIKE: dict[str, Any] = {"swap_rate": None, "risk": {"cases": [{"at_most": 6, "rate": "1/2"}, {"rate": "1/10"}]}}
EXEMPT = {"exempt": {"size": [1, 4]}}
SECOND = {"second_stir": {"match": ["region"], "swap_rate": "1/3"}}
NOISE = {"noise_before": {"tenure": "9/10"}}
EVERY = {
    "by": BY,
    "epsilon": EPSILON,
    "risk": RISK,
    "rarity": RARITY,
    "alike": ALIKE,
    "exempt": EXEMPT,
    "second": SECOND,
    "noise": NOISE,
}
ONE_RATE = Fraction(1, 2)

Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Village:
    return village(tmp_path_factory.mktemp("town"), UNITS, ROWS)


def stratum(row: Row) -> tuple[Any, ...]:
    return row["region"], row["size"]


def tenure_and_size(row: Row) -> tuple[Any, ...]:
    return row["tenure"], row["size"]


def held(row: Row) -> tuple[Any, ...]:
    return row["region"], row["size"], row["tenure"]


SIZES = Counter(map(stratum, ROWS))
ALIKE_BY_PAIR, ALIKE_BY_ALL = Counter(map(tenure_and_size, ROWS)), Counter(map(held, ROWS))

RATE_OF: dict[str, Callable[[Row], Fraction]] = {
    "by": lambda row: (
        Fraction(1, 2) if row["size"] <= 2 else Fraction(1, 5) if row["region"] == "S" else Fraction(9, 10)
    ),
    "epsilon": lambda row: smallest_rate(SIZES[stratum(row)], Fraction(5, 2)),
    "risk": lambda row: Fraction(2, 3) if (row["tenure"], row["size"]) == ("rent", 3) else Fraction(1, 10),
    "rarity": lambda row: ONE_RATE if ALIKE_BY_PAIR[tenure_and_size(row)] <= 11 else Fraction(1, 10),
    "alike": lambda row: ONE_RATE if ALIKE_BY_ALL[held(row)] <= 6 else Fraction(1, 10),
    "exempt": lambda row: Fraction(0) if row["size"] in (1, 4) else ONE_RATE,
    "second": lambda row: ONE_RATE,
    "noise": lambda row: ONE_RATE,
}


def loss_of_rows(rate_of: Callable[[Row], Fraction], by: Callable[[Row], Any]) -> PureLoss:
    """The greatest over strata of ln((n + 1) / o_min) and ln o_max."""
    strata = defaultdict(list)
    for row in ROWS:
        strata[by(row)].append(rate_of(row))
    arguments = []
    for rates in strata.values():
        every = [rate / (1 - rate) for rate in rates if rate]
        if every:
            arguments.append(max((len(rates) + 1) / min(every), max(every)))
    return PureLoss.logarithm(max(arguments))


def drawn(town: Village, release: SwappingRelease) -> tuple[SwappingInputs, list[tuple[Any, ...]]]:
    """The inputs of a draw, and its records: their values and number."""
    town.write_invariants(release)
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        inputs = read_inputs(session, release, VERSION_KEY)
        draw = cast(Draw[SwappingInputs], SimpleNamespace(inputs=inputs))
        cells = draw_cells(session, release, draw, KEY, CUSTODY)
        decoded = stage_decoded(session, release, cells, "decoded")
        names = ["region", "size", "tenure", "county"]
        return inputs, session.rows("warehouse/first_rows", {"rows": 10**6}, source=decoded, columns=[*names, "count"])


@deep_cases(2)
@quick_cases(2)
@pytest.mark.parametrize("name", EVERY)
def test_losses_and_margins_are_those_that_follow_from_the_rows(town: Village, name: str) -> None:
    release = town.release(**ROLES, **EVERY[name])
    inputs, records = drawn(town, release)
    assert inputs.losses is not None
    first = loss_of_rows(RATE_OF[name], stratum)
    assert inputs.losses.first.loss == first
    charged = {
        "second": loss_of_rows(lambda row: Fraction(1, 3), lambda row: row["region"]),
        "noise": PureLoss.logarithm(9),
    }.get(name, first)
    assert inputs.losses.charged == charged
    assert release.design.specification("village", inputs.loss).loss == charged
    finer = {"second": min(charged, first, key=float), "noise": min(charged, first, key=float)}.get(name)
    assert inputs.losses.finer == finer

    def counted(*places: int) -> Counter[tuple[Any, ...]]:
        totals: Counter[tuple[Any, ...]] = Counter()
        for record in records:
            totals[tuple(record[place] for place in places)] += record[-1]
        return totals

    assert counted() == {(): len(ROWS)}
    fine = Counter((row["region"], row["size"], row["county"]) for row in ROWS)
    coarse = Counter((row["region"], row["county"]) for row in ROWS)
    assert counted(0, 3) == coarse
    assert (counted(0, 1, 3) == fine) == (name != "second")
    assert (counted(0, 1, 2) == Counter(map(held, ROWS))) == (name != "noise")
    assert counted(0, 1, 2, 3) != Counter((*held(row), row["county"]) for row in ROWS), "something was swapped"


def test_households_are_alike_only_with_the_same_persons(tmp_path: Path) -> None:
    """15 households agree on region and size; 3 of each 15 have only women."""
    rows = households(60)
    persons = [each | ({"sex": "f"} if each["household"] % 5 == 0 else {}) for each in members(rows)]
    pairs = village(tmp_path, UNITS, rows, PERSONS, persons)
    release = pairs.release(**ROLES, **ALIKE, variables=["sex"])
    pairs.write_invariants(release)
    with pairs.warehouse.session(reads=[Zone.PUBLIC]) as session:
        first = stored_stirring(session, release).losses.first
    assert (first.largest_stratum, first.lowest, first.highest) == (15, Fraction(1, 10), ONE_RATE)
    assert first.loss == PureLoss.logarithm(16 * 9)


@pytest.mark.parametrize("name", ["second", "noise"])
def test_every_step_of_a_draw_has_randomness_of_its_own(
    town: Village, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The proofs of two stirs and of noise before a swap assume independent steps."""
    used = []

    def recorded(key: bytes, label: str) -> RandomStream:
        used.append((key, label))
        return RandomStream(key, label)

    monkeypatch.setattr("assets.swapping.draw.RandomStream", recorded)
    drawn(town, town.release(**ROLES, **EVERY[name]))
    assert len(used) == len(set(used)) == 2


def test_exempt_records_stay_as_they_are(town: Village) -> None:
    _, records = drawn(town, town.release(**ROLES, **EXEMPT))
    swapped = {record[:4]: record[4] for record in records if record[1] in (1, 4)}
    assert swapped == Counter((*held(row), row["county"]) for row in ROWS if row["size"] in (1, 4))


@pytest.mark.parametrize(
    ("extension", "left_out", "kept"),
    [(SECOND, "size", SWAPPING), (NOISE, "tenure", SWAPPING)],
    ids=["the second stir's swap margin", "the swap margin beside noise"],
)
def test_no_invariant_is_published_that_the_release_does_not_fix(
    town: Village, extension: dict[str, Any], left_out: str, kept: str
) -> None:
    release = town.release(**ROLES)
    town.write_invariants(release)
    release = town.release(**ROLES, **extension)
    town.write_invariants(release)
    with town.warehouse.session(reads=[Zone.PUBLIC]) as session:
        assert left_out not in session.columns(release.public(kept))
        if extension is NOISE:
            assert not session.columns(release.public(HOLDING)), "left from an earlier declaration"
            assert session.rows("warehouse/count", table=release.public("holding_values")) == [(4 * 2,)]


def test_more_combinations_in_all_strata_than_can_be_listed_are_refused(
    town: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = town.release(**ROLES, **NOISE)
    monkeypatch.setattr("assets.swapping.invariants.MOST_HOLDING_VALUES", 4 * 2)
    town.write_invariants(release)
    monkeypatch.setattr("assets.swapping.invariants.MOST_HOLDING_VALUES", 4 * 2 - 1)
    with pytest.raises(TooManyHoldingValuesError, match=r"get 2 combinations .* more than 7 in all strata"):
        town.write_invariants(release)


def test_a_stratum_without_a_rate_is_refused_with_their_number(town: Village) -> None:
    release = town.release(**ROLES, swap_rate={"by": [{"when": {"size": [1, 2, 3]}, "rate": "1/2"}]})
    town.write_invariants(release)
    without = len({held(row) for row in ROWS if row["size"] == 4})
    with town.public(release) as (session, method), pytest.raises(RatesError) as refused:
        method.inputs(session, CUSTODY)
    assert f"{without} combinations of holding values fit no case of the swap rate" in str(refused.value)


def test_an_epsilon_that_no_rate_gives_is_refused(town: Village) -> None:
    release = town.release(**ROLES, swap_rate={"epsilon": 1})
    town.write_invariants(release)
    with town.public(release) as (session, method), pytest.raises(RatesError, match="no swap rate gives ε = 1 in a"):
        method.inputs(session, CUSTODY)


def test_one_epsilon_is_for_the_strata_that_are_swapped(town: Village) -> None:
    """Exempt strata are larger than the largest in which any rate gives this ε, and have no part in it."""
    epsilon, exempt = Fraction(79, 50), [2, 3]
    release = town.release(**ROLES, swap_rate={"epsilon": str(epsilon)}, exempt={"size": exempt})
    with pytest.raises(ValueError, match="no swap rate"):
        smallest_rate(max(size for key, size in SIZES.items() if key[1] in exempt), epsilon)
    inputs, _ = drawn(town, release)
    assert inputs.losses is not None
    smaller = [size for key, size in SIZES.items() if key[1] not in exempt]
    assert inputs.losses.charged == max((theorem_1(size, smallest_rate(size, epsilon)) for size in smaller), key=float)
    assert inputs.losses.first.exempt == len(ROWS) - sum(smaller)


def test_a_loss_that_does_not_follow_from_the_records_is_not_drawn(town: Village) -> None:
    release = town.release(**ROLES, **RISK)
    town.write_invariants(release)
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        inputs = read_inputs(session, release, VERSION_KEY)
        assert inputs.losses is not None
        smaller = replace(inputs, losses=replace(inputs.losses, charged=PureLoss.logarithm(2)))
        draw = cast(Draw[SwappingInputs], SimpleNamespace(inputs=smaller))
        with pytest.raises(StaleInputError, match="other strata than the records have"):
            draw_cells(session, release, draw, KEY, CUSTODY)


@deep_cases(2)
@quick_cases(2)
@pytest.mark.parametrize(
    ("altered", "complaint"),
    [
        (f"UPDATE {HOLDING} SET count = 1", "other strata than the records have"),
        (f"UPDATE {HOLDING} SET stratum = 0", "the CEF has changed"),
        (f"INSERT INTO {SWAPPING} FROM {SWAPPING} WHERE swap_code = 0", "the CEF has changed"),
        (f"DELETE FROM {SWAPPING} WHERE swap_code = 0", "the CEF has changed"),
        (f"UPDATE {RECORDS} SET version = repeat('0', 64)", "the CEF has changed"),
    ],
    ids=["smaller strata", "strata joined", "a code twice", "a code missing", "another version"],
)
def test_a_plain_swap_is_drawn_only_from_the_records_and_strata_that_were_charged(
    town: Village, altered: str, complaint: str
) -> None:
    """Even if the seal were no obstacle, and the charge was computed from the altered tables."""
    release = town.release(**ROLES)
    town.write_invariants(release)
    with duckdb.connect(str(town.warehouse.path(Zone.PUBLIC))) as connection:
        connection.execute(f"USE {release.schema}")
        connection.execute(altered)
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = cast(Draw[SwappingInputs], SimpleNamespace(inputs=read_inputs(session, release, VERSION_KEY)))
        with pytest.raises(StaleInputError, match=complaint):
            draw_cells(session, release, draw, KEY, CUSTODY)


@pytest.mark.parametrize(("name", "margin"), [("risk", HOLDING), ("second", HOLDING), ("noise", SWAPPING)])
def test_margins_that_are_not_those_of_the_records_are_not_drawn_from(town: Village, name: str, margin: str) -> None:
    """Even if the loss was computed from the altered margins."""
    release = town.release(**ROLES, **EVERY[name])
    town.write_invariants(release)
    path = town.warehouse.path(Zone.PUBLIC)
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"UPDATE {release.schema}.{margin} SET count = count + 1 WHERE stratum = 0")
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        draw = cast(Draw[SwappingInputs], SimpleNamespace(inputs=read_inputs(session, release, VERSION_KEY)))
        with pytest.raises(StaleInputError, match="other strata than the records have"):
            draw_cells(session, release, draw, KEY, CUSTODY)


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ({"exempt": {"size": 12}}, "exempt: 12 is not a value of size"),
        ({"exempt": {"size": "1"}}, "exempt: '1' is not a value of size"),
        ({"exempt": {"size": True}}, "exempt: True is not a value of size"),
        ({"exempt": {"size": list(range(1, 10))}}, "exempt: every record would be exempt"),
        ({"swap_rate": {"by": [{"when": {"tenure": "own"}, "rate": "1/2"}]}}, "by: tenure is not a match variable"),
        ({"noise_before": {"tenure": "9/10", "rooms": "1/2"}}, "noise_before: rooms is no variable of the release"),
        (
            {"swap_rate": None, "risk": {"cases": [{"when": {"tenure": "lease"}, "rate": "1/2"}]}},
            "swap_rate or risk: 'lease' is not a value of tenure",
        ),
        (
            {"swap_rate": None, "risk": {"cases": [{"when": {"county": "Avon"}, "rate": "1/2"}]}},
            "a swap rate may not depend on county, which is swapped",
        ),
        (
            EXEMPT | {"products": [], "experiment": {"product": "x", "swap_rates": ["1/2"]}},
            "experiment: ",
        ),
        ({"swap_rate": "1/2", "risk": {"cases": [{"rate": "1/2"}]}}, "declare either swap_rate or risk"),
        ({"swap_rate": {}}, "declare either by, or epsilon"),
        ({"swap_rate": {"by": [{"rate": "1/2"}], "epsilon": 3}}, "declare either by, or epsilon"),
        ({"swap_rate": {"by": []}}, "swap_rate.by: "),
        ({"swap_rate": {"by": [{"rate": 2}]}}, r"swap_rate.by.0.rate: "),
        ({"swap_rate": {"epsilon": 0}}, r"swap_rate.epsilon: 0 is not greater than 0"),
        ({"swap_rate": None}, "swap_rate: it is missing"),
        ({"noise_before": {"tenure": 1}}, r"noise_before.tenure: 1 is not a probability strictly between 0 and 1"),
    ],
)
def test_a_wrong_declaration_is_refused(town: Village, declared: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        town.release(**ROLES, **declared)


@pytest.fixture(scope="module", params=["risk", "exempt", "second", "noise"])
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Deployment]:
    deployment = small_deployment(tmp_path_factory.mktemp(request.param) / "d", **EVERY[request.param])
    deployment.reach(*TO_PUBLICATION)
    return request.param, deployment


@deep_cases(1)
@pytest.mark.deep
def test_a_whole_release_passes_its_gates_and_its_certificate_says_what_is_charged(
    published: tuple[str, Deployment],
) -> None:
    name, deployment = published
    assert failing(deployment) == set()
    (path,) = (deployment.root / "published").rglob("certificate.json")
    certificate = json.loads(path.read_text())
    said = json.dumps(certificate, ensure_ascii=False)
    words = {
        "risk": ["the probability with which a household is selected, by the first case", "size 3, tenure rent: 2/3"],
        "exempt": ["Exempt households", "households with size = 1 or 4 are not protected", "infinitely far apart"],
        "second": [
            "Swap rate of the second stir",
            "if the number of households by region × size × county is held fixed",
        ],
        "noise": ["Noise on tenure", "if the number of households by region × size × tenure is held fixed too"],
    }
    for sentence in words[name]:
        assert sentence.casefold() in said.casefold(), sentence


@deep_cases(1)
@pytest.mark.deep
def test_the_gates_of_an_extension_find_what_was_altered(published: tuple[str, Deployment]) -> None:
    name, deployment = published
    kept = deployment.context.warehouse.path(Zone.PUBLIC).read_bytes()
    try:
        assert ("holding_values" if name == "noise" else "invariant_holding") in public_tables(deployment)
        executes("UPDATE swapped_cells SET holding_code = holding_code + 100000 WHERE holding_code = 0")(deployment)
        found = failing(deployment)
        assert "replay" in found
        assert {"noise": "noise_in_domain", "exempt": "exempt_unchanged"}.get(name, "holding_margin_exact") in found
    finally:
        deployment.context.warehouse.path(Zone.PUBLIC).write_bytes(kept)


WITHHELD: dict[str, Any] = {"products": [], "withheld": True}


def public_tables(deployment: Deployment) -> set[str]:
    """The names of the release's public tables."""
    with deployment.opened() as connection:
        return {name for (name,) in connection.execute("SELECT name FROM (SHOW TABLES)").fetchall()}


def test_a_withheld_swap_keeps_both_margins_and_is_the_same_again(town: Village) -> None:
    release = town.release(**ROLES, withheld=True)
    custody = cast(
        Custody,
        SimpleNamespace(
            version_key=lambda: VERSION_KEY, draw_id=str, derive=lambda purpose: sha256(purpose.encode()).digest()
        ),
    )
    names = ["region", "size", "tenure", "county"]

    def records(of: SwappingRelease) -> Counter[tuple[Any, ...]]:
        with town.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            staged = stage_withheld(session, of, custody)
            return Counter(session.rows("warehouse/first_rows", {"rows": 10**6}, source=staged, columns=names))

    found, before = records(release), Counter((*held(row), row["county"]) for row in ROWS)
    assert found == records(release) != before
    assert found != records(town.release(**ROLES, withheld=True, name="other")), "a draw of its own"
    for places in ((0, 1, 2), (0, 1, 3)):
        assert _margin(found, places) == _margin(before, places)


def test_a_withheld_swap_is_another_one_if_and_only_if_what_takes_part_has_changed(tmp_path: Path) -> None:
    custody = cast(
        Custody,
        SimpleNamespace(
            version_key=lambda: VERSION_KEY,
            draw_id=lambda made_of: sha256(repr(made_of).encode()).hexdigest(),
            derive=lambda purpose: sha256(purpose.encode()).digest(),
        ),
    )

    def swapped(name: str, change: Callable[[Row], Row]) -> Counter[tuple[Any, ...]]:
        (tmp_path / name).mkdir()
        changed = village(tmp_path / name, UNITS, [change(row) for row in ROWS])
        release = changed.release(**(ROLES | {"match": ["region"]}), withheld=True, variables=["size"])
        with changed.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
            staged = stage_withheld(session, release, custody)
            columns = ["region", "size", "county"]
            return Counter(session.rows("warehouse/first_rows", {"rows": 10**6}, source=staged, columns=columns))

    before = swapped("before", lambda row: row)
    assert swapped("another tenure", lambda row: {**row, "tenure": "own"}) == before
    # The same codes and counts, which stand for other values.
    larger = swapped("larger", lambda row: {**row, "size": row["size"] + 1})
    assert Counter({(key[0], key[1] - 1, key[2]): number for key, number in larger.items()}) != before


def test_withheld_records_of_another_declaration_or_cef_are_not_counted(town: Village) -> None:
    custody = cast(
        Custody,
        SimpleNamespace(
            version_key=lambda: VERSION_KEY, draw_id=repr, derive=lambda purpose: sha256(purpose.encode()).digest()
        ),
    )
    release, other = (town.release(**ROLES, withheld=True, swap_rate=rate) for rate in ("1/2", "1/3"))
    stored = release.confidential(WITHHELD_RECORDS)
    with town.warehouse.session(writes=Zone.CONFIDENTIAL) as session, session.transaction():
        session.create(stored, "warehouse/all", source=stage_withheld(session, release, custody))
    with town.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        WithheldSwap.from_release(release).require_current(session, custody)
    with (
        town.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session,
        pytest.raises(StaleInputError, match="not those of the current CEF and declaration; materialize swapped again"),
    ):
        WithheldSwap.from_release(other).require_current(session, custody)


def _margin(table: Counter[tuple[Any, ...]], places: tuple[int, ...]) -> Counter[tuple[Any, ...]]:
    totals: Counter[tuple[Any, ...]] = Counter()
    for values, count in table.items():
        totals[tuple(values[place] for place in places)] += count
    return totals


@pytest.mark.deep
def test_a_withheld_swap_stays_in_the_confidential_zone_and_is_drawn_again(tmp_path: Path) -> None:
    deployment = small_deployment(
        tmp_path, **WITHHELD, swap_rate={"by": [{"when": {"size": 1}, "rate": "1/2"}, {"rate": "1/5"}]}
    )
    deployment.reach("cef", "invariants", "swapped")
    release, custody, rows = deployment.release, deployment.context.custody, households()
    assert deployment.ledger == ()
    assert failing(deployment) == set()
    assert public_tables(deployment) == {STRATA, "invariants_seal"}
    with deployment.context.warehouse.session(reads=[Zone.PUBLIC]) as session:
        swap = swap_loss(session, release, custody)
    sizes = Counter(map(stratum, rows))
    odds = {key: Fraction(1) if key[1] == 1 else Fraction(1, 4) for key in sizes}
    assert swap.loss == PureLoss.logarithm(max((size + 1) / odds[key] for key, size in sizes.items()))
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        names = ["region", "size", "tenure", "county"]
        stored = session.rows(
            "warehouse/first_rows", {"rows": 10**6}, source=release.confidential(WITHHELD_RECORDS), columns=names
        )
        version = withheld_version(session, release, custody)
    assert len(stored) == len(rows)
    assert Counter(row[:3] for row in stored) == Counter(map(held, rows))
    assert Counter((*row[:2], row[3]) for row in stored) == Counter((*stratum(row), row["county"]) for row in rows)
    deployment.run("swapped")
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        assert withheld_version(session, release, custody) == version
    withheld = f"{release.schema}.{WITHHELD_RECORDS}"
    with deployment.opened("confidential") as connection:
        connection.execute(
            f"UPDATE {withheld} SET county = CASE county WHEN 'Avon' THEN 'Brent' ELSE 'Avon' END "
            f"WHERE rowid IN (SELECT min(rowid) FROM {withheld})"
        )
    assert failing(deployment) == {"margins_exact", "drawn_again"}


def test_noise_after_a_withheld_swap_is_charged_for_two_records(town: Village) -> None:
    withheld = WithheldSwap.from_release(town.release(**ROLES, withheld=True))
    of_noise = withheld.specification(PureLoss(Fraction(1, 4)))
    assert of_noise.loss == PureLoss(Fraction(1, 2)), "two swapped records differ"
    assert of_noise.flavor.multiverse == ("the number of households by region × size",)
    concentrated = withheld.specification(ConcentratedLoss(Fraction(1, 4)))
    assert concentrated.loss == ConcentratedLoss(Fraction(1))
    assert concentrated.flavor.output_premetric == ConcentratedLoss.output_premetric


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ({"products": [{"name": "one", "geography": ["county"]}]}, "neither products nor an experiment"),
        ({"custody": "ephemeral"}, "declare custody: escrowed"),
        (SECOND, "no loss is known together with"),
        (NOISE, "no loss is known together with"),
        (EXEMPT, "no loss is known together with"),
        (RISK, "must be constant within strata"),
        (ALIKE, "must be constant within strata"),
    ],
)
def test_a_withheld_swap_without_a_known_loss_is_refused(
    town: Village, declared: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=f"withheld: .*{complaint}"):
        town.release(**{**ROLES, "withheld": True, **declared})
