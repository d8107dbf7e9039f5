"""Claims about the ledger: a charge is neither lost nor doubled, the cap holds, and tampering shows.

The tests use a ledger in a file and, as deep tests, a ledger in a PostgreSQL server. `test_ledger_server` has the
refusals of the server itself and the move to it.
"""

import json
import os
import re
import shutil
import signal
from contextlib import contextmanager
from dataclasses import asdict, astuple, fields, replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path

import dagster as dg
import duckdb
import psycopg
import pytest

from assets.ledger.comparison import compare, list_charges
from assets.ledger.view import Budget
from mechanisms.accounting import risks
from mechanisms.accounting.curves import Bounds, Curve
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, CurveLoss, InfiniteLoss, PureLoss
from mechanisms.accounting.pairs import GaussianPair
from mechanisms.accounting.risks import enclose_charges
from mechanisms.accounting.specification import UNBOUNDED, Flavor, Line, Specification
from resources.chain import GENESIS, Entry
from resources.custody import Custody, CustodyError, CustodyMode, compute_commitment
from resources.ledger import CapExceeded, Ledger, LedgerError, find_bound, of_population
from resources.statements import Zone
from resources.warehouse import Warehouse
from tests.depth import deep_cases, quick_cases
from tests.postgres import SUPERUSER, logged_in

HOUSEHOLDS = Flavor("all households", ("households by county", "tenure by county"), "household", 1)
PERSONS = Flavor("all persons", ("persons by county",), "person", 1)
ADDED_PERSONS = replace(PERSONS, neighbors=UNBOUNDED)
LN2 = PureLoss.logarithm(2)


@pytest.fixture(autouse=True)
def _own_keys(monkeypatch):
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)


def deployment(folder):
    warehouse = Warehouse(folder=str(folder / "warehouse"), threads=1, patience=20)
    return Ledger(warehouse=warehouse, custody=Custody(folder=str(folder / "custody"), databases=warehouse.folder))


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.deep)])
def ledger(request, tmp_path):
    if request.param == "file":
        yield deployment(tmp_path)
        return
    database = request.getfixturevalue("postgres").migrated()
    with logged_in(database.environment()):
        yield moved(tmp_path)


@pytest.fixture
def file_ledger(tmp_path):
    return deployment(tmp_path)


def moved(folder):
    """A deployment whose ledger is on the server that libpq's environment names."""
    there = deployment(folder)
    ledger = Ledger(warehouse=there.warehouse, custody=there.custody, on_server=True)
    ledger.move_to_server()
    return ledger


def rational(value):
    return PureLoss(Fraction(value))


def limit(cap):
    """A cap, where it is a number, is one on ε."""
    return PureLoss(cap) if isinstance(cap, Fraction) else cap


def specified(flavor, loss):
    return Specification(replace(flavor, output_premetric=loss.output_premetric), loss)


def reserve(ledger, release, loss=LN2, cap=None, dataset="ma1940", flavor=HOUSEHOLDS, unbounded_releases=False):
    """Charge a draw of its own to a release."""
    draw_id = ledger.custody.draw_id({"dataset": dataset, "release": release})
    specification, escrowed = specified(flavor, loss), CustodyMode.ESCROWED
    return ledger.reserve(
        dataset, release, draw_id, specification, escrowed, limit(cap), unbounded_releases=unbounded_releases
    )


# Charges ---------------------------------------------------------------------------------------------------


def test_a_ledger_that_nobody_wrote_is_empty_and_stays_unmade(file_ledger, tmp_path):
    ledger = file_ledger
    assert ledger.entries() == ()
    assert ledger.verify() == ()
    assert ledger.read().find_reservation("0" * 64) is None
    assert ledger.read().find_settlement("0" * 64) is None
    assert compare(of_population(ledger.read().require_intact(), "ma1940")).totals == ()
    assert ledger.read().compose("ma1940", PureLoss()) == PureLoss()
    assert not list(tmp_path.iterdir())


def test_what_ledger_and_custody_write_is_closed_to_others_whatever_the_umask(file_ledger, tmp_path):
    ledger = file_ledger
    before = os.umask(0)
    try:
        ledger.custody.commit("0" * 64, CustodyMode.EPHEMERAL)
        ledger.settle(reserve(ledger, "half").draw_id, "v1")
        # As a process leaves it that was killed while it wrote the anchor.
        (tmp_path / "custody" / ".ledger.anchor").touch()
        (tmp_path / "custody" / ".ledger.anchor").chmod(0o666)
        ledger.custody.set_anchor(ledger.custody.anchor())
    finally:
        os.umask(before)
    found = {path: f"{path.stat().st_mode & 0o777:o}" for path in tmp_path.rglob("*")}
    made = {"ledger.duckdb", "ledger.anchor", "master.key", "custody.fingerprint", "0" * 64 + ".key"}
    assert made < {path.name for path in found}
    assert found == {path: "700" if path.is_dir() else "600" for path in found}


def test_a_draw_is_reserved_and_settled_once_however_often_it_is_asked(ledger):
    reserved = reserve(ledger, "half", cap=Fraction(1))
    assert (reserved.sequence, reserved.kind, reserved.previous_hash) == (1, "reserve", GENESIS)
    assert reserved.parse_specification() == Specification(HOUSEHOLDS, LN2)
    assert (reserved.output_version, reserved.hash) == (None, reserved.digest())
    assert reserve(ledger, "half", cap=Fraction(1)) == reserved
    settled = ledger.settle(reserved.draw_id, "v1")
    assert (settled.sequence, settled.kind, settled.previous_hash) == (2, "settle", reserved.hash)
    assert (settled.specification, settled.output_version) == (None, "v1")
    assert settled.commitment == reserved.commitment
    assert ledger.settle(reserved.draw_id, "v1") == settled
    assert reserve(ledger, "half", cap=Fraction(1)) == reserved
    assert ledger.entries() == (reserved, settled)
    assert ledger.read().find_reservation(reserved.draw_id) == reserved
    assert ledger.read().find_settlement(reserved.draw_id) == settled
    assert ledger.read().compose("ma1940", PureLoss()) == LN2
    assert ledger.verify() == ()


@deep_cases(0)
def test_a_reserved_draw_keeps_its_terms(ledger):
    kept = reserve(ledger, "half")
    specification = kept.parse_specification()
    for term, arguments in {
        "dataset": ("ma1950", "half", kept.draw_id, specification),
        "release": ("ma1940", "third", kept.draw_id, specification),
        "specification": ("ma1940", "half", kept.draw_id, replace(specification, loss=rational(1))),
    }.items():
        with pytest.raises(LedgerError, match=f"in entry 1 with another {term}"):
            ledger.reserve(*arguments, CustodyMode.ESCROWED, None)
    with pytest.raises(LedgerError, match="another specification"):
        reserve(ledger, "half", flavor=replace(HOUSEHOLDS, unit="person"))
    assert ledger.entries() == (kept,)


def test_a_reserved_draw_is_found_again_by_what_it_guarantees_and_not_by_its_wording(ledger):
    kept = reserve(ledger, "half")
    assert reserve(ledger, "half", flavor=replace(HOUSEHOLDS, domain="the same in other words")) == kept
    assert ledger.entries() == (kept,)


@deep_cases(0)
def test_a_draw_is_settled_only_once_reserved_and_with_one_output(ledger):
    with pytest.raises(LedgerError, match="not reserved"):
        ledger.settle("0" * 64, "v1")
    kept = reserve(ledger, "half")
    with pytest.raises(LedgerError, match="not reserved"):
        ledger.settle("0" * 64, "v1")
    ledger.settle(kept.draw_id, "v1")
    with pytest.raises(LedgerError, match="in entry 2 with another output version"):
        ledger.settle(kept.draw_id, "v2")
    assert len(ledger.entries()) == 2


def test_a_charge_counts_whether_it_is_settled_or_not(ledger):
    first = reserve(ledger, "first", rational(1), cap=Fraction(2))
    ledger.settle(first.draw_id, "v1")
    reserve(ledger, "second", rational(1), cap=Fraction(2))
    with pytest.raises(CapExceeded):
        reserve(ledger, "third", rational("1/10"), cap=Fraction(2))
    assert ledger.read().compose("ma1940", PureLoss()) == rational(2)
    assert [ledger.read().compose("ma1940", PureLoss(), through=sequence) for sequence in range(4)] == [
        rational(n) for n in (0, 1, 1, 2)
    ]


def test_datasets_do_not_share_a_budget(ledger):
    reserve(ledger, "half", rational(1), cap=Fraction(1))
    reserve(ledger, "half", rational(1), cap=Fraction(1), dataset="ma1950")
    assert [entry.dataset for entry in ledger.entries()] == ["ma1940", "ma1950"]
    assert [entry.sequence for entry in of_population(ledger.entries(), "ma1950")] == [2]
    assert ledger.read().compose("ma1950", PureLoss()) == rational(1)
    assert ledger.read().compose("ma1960", PureLoss()) == PureLoss()


def test_totals_are_the_composition_of_what_is_reserved(ledger):
    reserve(ledger, "half")
    settled = reserve(ledger, "third", PureLoss.logarithm(3), flavor=replace(HOUSEHOLDS, changes_per_person=2))
    ledger.settle(settled.draw_id, "v1")
    reserve(ledger, "noise", rational("1/2"), flavor=PERSONS)
    household, person = compare(of_population(ledger.read().require_intact(), "ma1940")).totals
    assert (household.unit, household.loss, household.releases) == ("household", PureLoss.logarithm(6), 2)
    assert (person.unit, person.loss) == ("person", PureLoss(Fraction(1, 2), Fraction(18)))
    assert set(person.multiverse) == {"households by county", "tenure by county", "persons by county"}


# The cap ---------------------------------------------------------------------------------------------------


def test_a_cap_is_compared_exactly(ledger, tmp_path):
    # Neighbours of 2 ln 2 that no floating-point number tells apart: 60 digits, rounded down and up.
    digits = "1.386294361119890618834464242916353136151000268720510508241360"
    below, above = Fraction(digits), Fraction(digits) + Fraction(1, 10**60)
    assert float(below) == float(above)
    reserve(ledger, "first", LN2, cap=below)
    with pytest.raises(CapExceeded):
        reserve(ledger, "second", LN2, cap=below)
    assert len(ledger.entries()) == 1
    reserve(ledger, "second", LN2, cap=above)
    assert ledger.read().compose("ma1940", PureLoss()) == PureLoss.logarithm(4)


@deep_cases(0)
def test_rational_losses_may_use_up_a_cap_to_the_last(ledger):
    # 0.1 + 0.2 + 0.3 is over 0.6 in floating point.
    for tenths in (1, 2, 3):
        reserve(ledger, f"release {tenths}", rational(Fraction(tenths, 10)), cap=Fraction(6, 10))
    reserve(ledger, "free", PureLoss(), cap=Fraction(6, 10))
    with pytest.raises(CapExceeded):
        reserve(ledger, "more", rational(Fraction(1, 10**30)), cap=Fraction(6, 10))
    assert len(ledger.entries()) == 4


def test_a_cap_in_zcdp_holds_pure_and_concentrated_charges_to_the_last(ledger):
    cap = ConcentratedLoss(Fraction(5, 8))
    reserve(ledger, "pure", rational(1), cap=cap)
    reserve(ledger, "noise", ConcentratedLoss(Fraction(1, 8)), cap=cap)
    assert ledger.read().compose("ma1940", cap) == cap
    with pytest.raises(CapExceeded) as caught:
        reserve(ledger, "more", ConcentratedLoss(Fraction(1, 10**30)), cap=cap)
    assert str(caught.value) == (
        "population ma1940: release ma1940/more would charge ρ = 0.0001, which does not fit under the cap of "
        "ρ = 0.625: ρ = 0.6250 is charged so far and ρ = 0.0000 remains"
    )
    assert len(ledger.entries()) == 2


@deep_cases(0)
def test_a_cap_in_epsilon_and_delta_holds_charges_of_every_kind(ledger):
    cap = ApproximateLoss(rational("7.5"), Fraction(1, 10**10))
    reserve(ledger, "pure", rational("1/2"), cap=cap)
    reserve(ledger, "noise", ConcentratedLoss(Fraction(1, 2)), cap=cap)
    charged = ledger.read().compose("ma1940", cap)
    assert (str(charged.round_up(6)), charged.delta) == ("7.339330", cap.delta)
    with pytest.raises(CapExceeded, match=r"cap of ε = 7\.5 at δ = 1e-10: ε = 7\.3394 .* ε = 0\.1606 remains"):
        reserve(ledger, "failing", ApproximateLoss(rational("0.2"), Fraction(1, 10**11)), cap=cap)
    reserve(ledger, "failing", ApproximateLoss(rational("0.1"), Fraction(1, 10**14)), cap=cap)
    assert {
        total.output_premetric for total in compare(of_population(ledger.read().require_intact(), "ma1940")).totals
    } == {kind.output_premetric for kind in (PureLoss, ConcentratedLoss, ApproximateLoss)}


def noisy(ledger, release, cap, variance=50, recorded=True):
    """Charge two cells with discrete Gaussian noise; without their noise as earlier versions did."""
    flavor, loss = replace(PERSONS, output_premetric=ConcentratedLoss.output_premetric), Fraction(1, variance)
    pairs = (GaussianPair(Fraction(variance)),) * 2 if recorded else ()
    lines = (Line("noise", ConcentratedLoss(loss), pairs),)
    draw_id = ledger.custody.draw_id({"release": release})
    specification = Specification(flavor, ConcentratedLoss(loss), lines)
    return ledger.reserve("ma1940", release, draw_id, specification, CustodyMode.ESCROWED, cap)


def on_curve(epsilon, delta="1e-10"):
    return CurveLoss(rational(epsilon), Fraction(delta))


def budget_of(ledger, cap):
    return Budget("ma1940", list_charges(of_population(ledger.entries(), "ma1940")), cap)


def test_a_cap_on_the_curve_admits_what_the_certified_bound_of_all_charges_allows(file_ledger):
    """To the last decimal of the bound, which the entry records. Fails for a bound that is rounded down, and for
    charges of earlier versions, without their noise, that are left out."""
    ledger, wide = file_ledger, on_curve(100)
    noisy(ledger, "earlier", ApproximateLoss(rational(100), Fraction(1, 10**10)), recorded=False)
    assert "bound" not in ledger.entries()[0].details
    noisy(ledger, "first", wide)
    charges = [entry.parse_specification() for entry in ledger.entries()]
    least, most = enclose_charges(charges, wide.delta)
    assert 0 < float(most) - float(least) <= 1.1e-3
    assert ledger.read().compose("ma1940", wide) == on_curve(Fraction(most))
    alone, _ = enclose_charges(charges[1:], wide.delta)
    assert float(alone) < float(least) / 1.3, "the earlier charge counts"
    charges.append(charges[-1])
    least, most = enclose_charges(charges, wide.delta)
    unit = Decimal("1E-4")
    with pytest.raises(CapExceeded) as refused:
        noisy(ledger, "second", on_curve(Fraction(most - unit)))
    so_far = ledger.read().compose("ma1940", wide).round_up()
    assert str(refused.value) == (
        f"population ma1940: release ma1940/second would charge ρ = 0.0200, with which all charges together have "
        f"ε = {most}, which does not fit under the cap of ε = {(most - unit).normalize()} at δ = 1e-10 by the "
        f"curve: ε = {so_far} at δ = 1e-10 by the curve is charged so far and ε = {most - unit - so_far} "
        "remains"
    )
    # An optimistic program would admit it: the truth is below this cap.
    assert len(ledger.entries()) == 2
    entry = noisy(ledger, "second", on_curve(Fraction(most)))
    assert noisy(ledger, "second", on_curve(Fraction(most))) == entry
    assert entry.parse_details().bound == {"charges": 3, "epsilon": str(Fraction(most)), "delta": "1/10000000000"}
    # By conversion it would not fit.
    with pytest.raises(CapExceeded):
        noisy(ledger, "third", ApproximateLoss(rational(Fraction(most)), wide.delta))
    assert ledger.verify() == ()
    details = entry.parse_details()
    for wrong in ("x", {"delta": "1/0"}, {"delta": "x"}, {"delta": None}, {"delta": "1e-10", "epsilon": []}):
        bound = wrong if isinstance(wrong, str) else {"charges": 1, **wrong}
        altered = replace(entry, details=replace(details, bound=bound).as_text())
        with pytest.raises(LedgerError, match="entry 3: the bound that it records has no ε at δ in numbers"):
            find_bound([altered], wide)


def test_the_bound_of_a_charge_is_the_ledgers_whatever_machine_reads_it(file_ledger, monkeypatch):
    """The rounding of another machine changes no verdict on admitted charges. A recorded bound below the curve's lower
    bound, as from an optimistic program, shows. Fails if the bound of all counts for some of the charges."""
    ledger, cap = file_ledger, on_curve(3)
    noisy(ledger, "first", cap)
    noisy(ledger, "second", cap)
    budget = budget_of(ledger, cap)
    enclose = Curve.bound_epsilon
    assert (budget.excess, budget.total) == ("", ledger.read().compose("ma1940", cap))
    first, second = (budget.as_of(charge).total for charge in budget.charges)
    assert float(first) < float(second)
    assert float(replace(budget, charges=budget.charges[1:]).total) == pytest.approx(float(first), abs=1e-3)
    assert "exceeds" in replace(budget, cap=first).excess
    for higher in (9e-4, -9e-4):
        risks._enclose.cache_clear()
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(
                Curve, "bound_epsilon", lambda *of, by=higher: Bounds(enclose(*of)[0], enclose(*of)[1] + by)
            )
            assert replace(budget, cap=second).excess == "", "to the last"
            assert ledger.read().compose("ma1940", cap) == second
    risks._enclose.cache_clear()
    with monkeypatch.context() as optimistic:
        optimistic.setattr(Curve, "bound_epsilon", lambda *of: Bounds(*(bound - 0.01 for bound in enclose(*of))))
        noisy(ledger, "third", cap)
    risks._enclose.cache_clear()
    assert re.fullmatch(
        r"the ledger records ε = \d\.\d{4} at δ = 1e-10 by the curve, but the charges have ε = \d\.\d{4} or more",
        budget_of(ledger, cap).excess,
    )


@pytest.mark.deep
def test_a_cap_on_the_curve_adds_up_what_may_fail(file_ledger):
    """Fails for a δ that is not composed, and for outcomes of a capped noise that are left out."""
    ledger, cap = file_ledger, on_curve(9)
    reserve(ledger, "first", ApproximateLoss(rational(1), Fraction("6e-11")), cap=cap)
    with pytest.raises(CapExceeded, match=r"cannot be counted under the cap of .*: no ε of the charges together is kn"):
        reserve(ledger, "second", ApproximateLoss(rational(1), Fraction("6e-11")), cap=cap)
    reserve(ledger, "pure", rational(3), cap=cap)
    reserve(ledger, "pairs", InfiniteLoss(), cap=cap, unbounded_releases=True)
    assert ledger.read().compose("ma1940", cap) == on_curve(ledger.entries()[1].parse_details().bound["epsilon"])
    assert float(ledger.read().compose("ma1940", cap)) == pytest.approx(4, abs=2e-3)
    third = reserve(ledger, "third", rational("1/2"), cap=cap)
    assert third.parse_details().bound["charges"] == 4
    ledger.withdraw("ma1940", None, "Ada Ruiz")
    assert float(ledger.read().compose("ma1940", cap)) == pytest.approx(4.5, abs=2e-3)


def test_an_infinite_loss_fits_under_no_cap_not_even_none(ledger):
    for cap in (None, Fraction(10**9), ConcentratedLoss(Fraction(10**9))):
        with pytest.raises(CapExceeded, match=r"ma1940/pairs would charge ε = ∞, .* unbounded_releases: allowed"):
            reserve(ledger, "pairs", InfiniteLoss(), cap=cap)
    assert ledger.entries() == ()


@deep_cases(0)
def test_an_allowed_infinite_loss_is_recorded_beside_the_others_and_takes_nothing_from_the_cap(ledger):
    """It neither stops the finite charges nor gives them more room, in any order."""
    reserve(ledger, "first", rational(1), cap=Fraction(2))
    pairs = reserve(ledger, "pairs", InfiniteLoss(), cap=Fraction(2), unbounded_releases=True)
    assert (pairs.sequence, pairs.parse_specification().charge) == (2, InfiniteLoss())
    assert reserve(ledger, "pairs", InfiniteLoss(), cap=Fraction(2)) == pairs, "what is charged needs no further word"
    ledger.settle(pairs.draw_id, "v1")
    with pytest.raises(CapExceeded, match=r"ε = 1\.0000 is charged so far"):
        reserve(ledger, "second", rational("1.000001"), cap=Fraction(2))
    reserve(ledger, "second", rational(1), cap=Fraction(2))
    assert ledger.read().compose("ma1940", PureLoss()) == rational(2)
    assert ledger.read().count_infinite("ma1940") == 1
    assert ledger.read().count_infinite("ma1950") == 0
    assert {total.loss for total in compare(of_population(ledger.read().require_intact(), "ma1940")).totals} == {
        InfiniteLoss(),
        rational(2),
    }
    assert ledger.verify() == ()
    with pytest.raises(CapExceeded, match="ε = ∞"):
        reserve(ledger, "pairs again", InfiniteLoss(), cap=Fraction(2))


def test_a_charge_that_is_none_in_the_caps_premetric_is_refused_with_the_reason(ledger):
    with pytest.raises(CapExceeded, match=r"under the cap of ε = 1\.0000: ρ-zCDP .* no ε holds without a δ"):
        reserve(ledger, "noise", ConcentratedLoss(Fraction(1, 10)), cap=rational(1))
    assert ledger.entries() == ()


def test_a_cap_counts_what_a_change_of_one_person_loses(ledger):
    reserve(ledger, "half", rational(1), cap=rational(2), flavor=replace(HOUSEHOLDS, changes_per_person=2))
    with pytest.raises(CapExceeded):
        reserve(ledger, "more", rational("1/100"), cap=rational(2))
    with pytest.raises(CapExceeded):
        reserve(ledger, "added", rational("1.1"), cap=rational(2), dataset="ma1950", flavor=ADDED_PERSONS)


def test_a_refusal_says_what_is_charged_what_is_asked_and_what_remains(ledger):
    reserve(ledger, "first", cap=Fraction(3, 2))
    with pytest.raises(CapExceeded) as caught:
        reserve(ledger, "second", PureLoss.logarithm(3), cap=Fraction(3, 2))
    # ln 2 = 0.6931, ln 3 = 1.0986, 1.5 - ln 2 = 0.8069
    assert str(caught.value) == (
        "population ma1940: release ma1940/second would charge ε = 1.0987, which does not fit under the cap of "
        "ε = 1.5: ε = 0.6932 is charged so far and ε = 0.8068 remains"
    )


def test_a_cap_with_more_places_than_are_shown_is_stated_exactly_too(ledger):
    with pytest.raises(CapExceeded, match=r"does not fit under the cap of ε = 1/3 \(0\.3334\): "):
        reserve(ledger, "first", rational(1), cap=Fraction(1, 3))


def test_a_cap_lowered_later_refuses_new_charges_and_keeps_old_ones(ledger):
    kept = reserve(ledger, "first", rational(2), cap=Fraction(3))
    with pytest.raises(CapExceeded, match=r"ε = 2\.0000 is charged so far and ε = 0\.0000 remains"):
        reserve(ledger, "second", rational("1/4"), cap=Fraction(1))
    assert reserve(ledger, "first", rational(2), cap=Fraction(1)) == kept


def reserve_ephemeral(ledger, release, cap=None):
    """Charge a draw that has a key of its own."""
    draw_id = ledger.custody.draw_id({"release": release})
    return ledger.reserve("ma1940", release, draw_id, specified(HOUSEHOLDS, LN2), CustodyMode.EPHEMERAL, limit(cap))


def test_keys_that_killed_processes_left_are_deleted_once_their_draws_are_settled_or_withdrawn_and_no_others(
    ledger, tmp_path
):
    """Wrong programs: delete the key of a draw that can still be made, or that another process is about to reserve;
    overlook the second name of a key; and delete keys because of entries that cannot be trusted."""
    settled, withdrawn, reserved = (reserve_ephemeral(ledger, name) for name in ("settled", "withdrawn", "reserved"))
    unreserved = "ef" * 32
    ledger.custody.commit(unreserved, CustodyMode.EPHEMERAL)
    folder, anchor = tmp_path / "custody" / "ephemeral", tmp_path / "custody" / "ledger.anchor"
    keys, before = {path: path.read_bytes() for path in folder.iterdir()}, anchor.read_bytes()
    ledger.settle(settled.draw_id, "v1")
    ledger.withdraw("ma1940", "withdrawn", "Ada")
    open_draws = {reserved.draw_id, unreserved}
    assert ledger.custody.list_keys() == open_draws
    assert ledger.forget_keys() == ()
    for path, key in keys.items():
        path.write_bytes(key)
    path.with_name("notes.txt").touch()
    (folder / f"{settled.draw_id}.key").rename(folder / f".{settled.draw_id}.key.0123456789abcdef")
    after = anchor.read_bytes()
    anchor.write_bytes(before)
    with pytest.raises(LedgerError, match="not intact"):
        ledger.forget_keys()
    anchor.write_bytes(after)
    assert ledger.custody.list_keys() == {settled.draw_id, withdrawn.draw_id, *open_draws}
    assert ledger.forget_keys() == tuple(sorted((settled.draw_id, withdrawn.draw_id)))
    assert {path.name for path in folder.iterdir()} == {"notes.txt", *(f"{draw_id}.key" for draw_id in open_draws)}
    key = ledger.custody.open_key(reserved.draw_id, CustodyMode.EPHEMERAL, reserved.commitment)
    assert compute_commitment(key) == reserved.commitment


def test_a_refused_charge_neither_makes_a_key_nor_deletes_one(ledger):
    """A later charge of the same draw under a higher cap may rely on the key."""
    with pytest.raises(CapExceeded):
        reserve_ephemeral(ledger, "first", cap=Fraction(1, 2))
    assert ledger.custody.list_keys() == set()
    draw_id = ledger.custody.draw_id({"release": "first"})
    committed = ledger.custody.commit(draw_id, CustodyMode.EPHEMERAL)
    with pytest.raises(CapExceeded):
        reserve_ephemeral(ledger, "first", cap=Fraction(1, 2))
    assert reserve_ephemeral(ledger, "first", cap=Fraction(1)).commitment == committed


def test_a_key_is_made_and_deleted_while_no_other_process_has_the_ledger(ledger, monkeypatch):
    """Wrong programs: make a key for a draw that another process settles meanwhile, or delete a key after the ledger
    was closed, when a gate of another process may read both."""
    opened, seen = [], []

    @contextmanager
    def open_ledger(ledger, open_it=Ledger._open, **options):
        with open_it(ledger, **options) as found:
            opened.append(options)
            yield found
            opened.pop()

    def notice(use):
        def noticed(*given):
            seen.append((use.__name__, *opened))
            return use(*given)

        return noticed

    monkeypatch.setattr(Ledger, "_open", open_ledger)
    for use in (Custody.commit, Custody.forget):
        monkeypatch.setattr(Custody, use.__name__, notice(use))
    for release in ("settled", "withdrawn"):
        reserve_ephemeral(ledger, release)
    ledger.settle(ledger.custody.draw_id({"release": "settled"}), "v1")
    ledger.withdraw("ma1940", "withdrawn", "Ada")
    assert seen == [(use, {"to_append": True}) for use in ("commit", "commit", "forget", "forget")]


def test_a_refused_first_charge_leaves_no_entry_and_no_harm(ledger):
    with pytest.raises(CapExceeded):
        reserve(ledger, "first", rational(2), cap=Fraction(1))
    assert ledger.entries() == ()
    assert ledger.verify() == ()
    reserve(ledger, "second", rational(1), cap=Fraction(1))


# Processes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effects", "fewest"),
    [
        pytest.param(
            ["link", "unlink", "replace", "commit"], 12, id="after what gives another state", marks=pytest.mark.deep
        ),
        pytest.param(None, 40, id="after every effect", marks=pytest.mark.prove),
    ],
)
def test_a_run_killed_anywhere_leaves_no_charge_or_one_and_is_taken_up_again(tmp_path, processes, effects, fewest):
    """The process is killed for real after effects between the first use of the deployment and the last; see
    `processes.py`.

    Wrong programs: write the entry and its table separately, require the anchor at the chain's end, settle with a new
    key after a kill, or charge again on resuming.
    """
    killed = processes("kill", tmp_path, "ephemeral", effects)
    assert len(killed) > fewest
    states = set()
    for one in killed:
        left, healed = one["left"], one["healed"]
        assert one["ended"] == -9, one
        assert left["problems"] == [], one
        assert left["charged"] == {"rational": "0", "ln": "2" if left["kinds"] else "1"}, one
        assert one["resumed"] == 0, one
        assert healed["kinds"] == ["reserve", "settle"], one
        assert healed["charged"] == {"rational": "0", "ln": "2"}, one
        assert (healed["problems"], healed["keys"]) == ([], []), one
        states.add((len(left["kinds"]), left["anchored"], left["announced"], len(left["keys"])))
    assert states == {
        (0, None, False, 0),  # no file yet, or a master key without its name
        (0, 0, False, 0),  # the anchor, and then the master key's name
        (0, 0, False, 1),  # a draw's key, and no charge
        (0, 0, True, 1),  # the reservation announced, not committed
        (1, 0, True, 1),  # committed, not anchored
        (1, 1, False, 1),  # anchored; drawn or not
        (1, 1, True, 1),  # the settlement announced
        (2, 1, True, 1),  # committed
        (2, 2, False, 1),  # anchored, the key not yet thrown away
        (2, 2, False, 0),  # all done
    }


@deep_cases(0)
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((0, 200, 500, 1000, 274432), id="somewhere"),
        # Up to 1,100 bytes: inside the anchor and DuckDB's log. Above: inside the blocks that a checkpoint writes.
        pytest.param(
            (*range(0, 1200, 100), *(12288 + block * 131072 for block in range(9))),
            id="everywhere",
            marks=pytest.mark.deep,
        ),
    ],
)
def test_a_run_killed_in_the_middle_of_a_write_is_taken_up_again(tmp_path, processes, sizes):
    """Half an anchor, half a commit and half a checkpoint, in a ledger that holds a charge of another dataset."""
    torn = processes("torn", tmp_path, sizes)
    assert len(torn) == len(sizes)
    for one in torn:
        left, healed = one["left"], one["healed"]
        assert one["ended"] in (0, -signal.SIGXFSZ), one
        assert left["problems"] == [], one
        assert left["charged"] == {"rational": "0", "ln": "2" if len(left["kinds"]) > 1 else "1"}, one
        assert one["resumed"] == 0, one
        assert healed["kinds"] == ["reserve", "reserve", "settle"], one
        assert healed["charged"] == {"rational": "0", "ln": "2"}, one
        assert healed["problems"] == [], one
    killed = [one["left"] for one in torn if one["ended"]]
    assert {(len(left["kinds"]), left["announced"]) for left in killed} >= {(1, False), (1, True), (2, False)}


@quick_cases(2)
@pytest.mark.parametrize(("work", "turn"), [("distinct", 0), ("on_curve", 0), ("distinct", 1), ("on_curve", 1)])
def test_processes_that_charge_at_once_do_not_overspend(tmp_path, processes, work, turn):
    """Under a cap on ε, and under one on the curve, each charge fits alone."""
    answers = processes("race", tmp_path, work, 5)
    assert sorted(answers) == ["1"] + 4 * ["cap exceeded"]
    assert deployment(tmp_path).read().compose("ma1940", PureLoss()) == LN2
    assert deployment(tmp_path).verify() == ()


@quick_cases(1)
@pytest.mark.parametrize("turn", range(2))
def test_processes_that_charge_the_same_draw_at_once_charge_it_once(tmp_path, processes, turn):
    assert processes("race", tmp_path, "same", 5) == 5 * ["1"]
    assert [entry.kind for entry in deployment(tmp_path).entries()] == ["reserve"]
    assert deployment(tmp_path).verify() == ()


# Tampering -------------------------------------------------------------------------------------------------


def rows(ledger):
    return [list(astuple(entry)) for entry in ledger.entries()]


def rewrite(ledger, rows):
    """Replace the rows of the table, as an attacker can who may write the file or administers the server."""
    if ledger.on_server:
        with psycopg.connect(user=SUPERUSER) as connection:
            connection.execute(UNGUARDED)
            connection.execute("DELETE FROM stirred.entries")
            if rows:
                into = f"INSERT INTO stirred.entries VALUES ({', '.join(['%s'] * len(rows[0]))})"
                connection.cursor().executemany(into, rows)
        return
    with duckdb.connect(str(ledger.warehouse.path(Zone.LEDGER))) as connection:
        connection.execute("CREATE OR REPLACE TABLE entries AS SELECT * FROM entries LIMIT 0")
        if rows:
            connection.executemany(f"INSERT INTO entries VALUES ({', '.join('?' * len(rows[0]))})", rows)


UNGUARDED = """
DO $$
DECLARE guard TEXT;
BEGIN
    ALTER TABLE stirred.entries DISABLE TRIGGER USER;
    FOR guard IN SELECT conname FROM pg_constraint WHERE conrelid = 'stirred.entries'::regclass ORDER BY contype = 'n'
    LOOP
        EXECUTE format('ALTER TABLE stirred.entries DROP CONSTRAINT %I', guard);
    END LOOP;
END
$$
"""
"""Removes the triggers and constraints that protect the server's table of entries."""


def rechained(rows):
    """The same rows as a chain without a fault, as an attacker can make it who knows the chain's construction."""
    made = []
    for number, row in enumerate(rows, start=1):
        entry = Entry(*row)
        entry = replace(entry, sequence=number, previous_hash=made[-1].hash if made else GENESIS)
        made.append(replace(entry, hash=entry.digest()))
    return [list(astuple(entry)) for entry in made]


def assert_refused(ledger):
    problems = ledger.verify()
    assert problems
    assert all(any(character.isdigit() for character in problem) for problem in problems)
    for use in (
        lambda: reserve(ledger, "new"),
        lambda: reserve(ledger, "first"),
        lambda: ledger.settle("0" * 64, "v"),
        lambda: ledger.read().find_reservation("0" * 64),
        lambda: ledger.read().compose("ma1940", PureLoss()),
    ):
        # Who charges asks the custody for a draw id first.
        with pytest.raises((LedgerError, CustodyError), match=r"not intact|Nothing was charged"):
            use()


@pytest.fixture
def written(ledger):
    return with_draws(ledger)


@pytest.fixture
def written_in_file(file_ledger):
    return with_draws(file_ledger)


def with_draws(ledger):
    """Two draws, one of them settled, and a third."""
    first = reserve(ledger, "first")
    reserve(ledger, "second")
    ledger.settle(first.draw_id, "v1")
    reserve(ledger, "third", rational("1/2"))
    return ledger


def assert_every_one_is_refused(ledger, tampered):
    intact = rows(ledger)
    tried = 0
    for changed in tampered(intact):
        for variant in (changed, rechained(changed)):
            if variant == intact:
                continue
            rewrite(ledger, variant)
            assert ledger.verify(), variant
            tried += 1
        with pytest.raises(LedgerError, match="not intact"):
            reserve(ledger, "new")
    rewrite(ledger, intact)
    assert ledger.verify() == ()
    return tried


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    "entries_by_field",
    [pytest.param(1, id="of one entry"), pytest.param(4, id="of any entry", marks=pytest.mark.prove)],
)
def test_an_edit_of_any_field_of_any_entry_shows(written, entries_by_field):
    """Each edit alters one entry: the first field of the first, the second field of the second, and so on in turn."""

    def edited(intact):
        for number, row in enumerate(intact):
            for place, value in enumerate(row):
                if (place - number) % len(intact) >= entries_by_field:
                    continue
                for other in {value + 1} if isinstance(value, int) else {f"{value}0", None}:
                    if other != value:
                        yield [*intact[:number], [*row[:place], other, *row[place + 1 :]], *intact[number + 1 :]]

    assert assert_every_one_is_refused(written, edited) > 2 * entries_by_field * len(fields(Entry))


@deep_cases(1)
@pytest.mark.deep
def test_a_deletion_of_any_entries_shows_at_the_end_too(written):
    def shortened(intact):
        for length in range(len(intact)):
            yield from (list(kept) for kept in combinations(intact, length))

    assert assert_every_one_is_refused(written, shortened) > 15


@deep_cases(1)
@pytest.mark.deep
@pytest.mark.parametrize(
    "orders",
    [
        pytest.param([(1, 0, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0)], id="of two or of all"),
        pytest.param([*permutations(range(4))][1:], id="any", marks=pytest.mark.prove),
    ],
)
def test_a_change_of_order_shows(written, orders):
    def reordered(intact):
        for order in orders:
            yield [[number, *intact[place][1:]] for number, place in enumerate(order, start=1)]

    assert assert_every_one_is_refused(written, reordered) == 2 * len(orders)


@pytest.mark.prove
def test_a_repeated_entry_shows(written):
    def repeated(intact):
        for number, row in enumerate(intact):
            yield [*intact, row]
            yield [*intact, [len(intact) + 1, *row[1:]]]
            yield [*intact[:number], row, *intact[number:]]

    assert_every_one_is_refused(written, repeated)


@deep_cases(1)
@pytest.mark.deep
def test_a_forged_entry_shows_wherever_it_is_put(written):
    def forged(intact):
        entry = replace(Entry(*intact[1]), release="forged", draw_id="f" * 64)
        settled = replace(entry, kind="settle", specification=None, output_version="v")
        for number in range(len(intact) + 1):
            yield [*intact[:number], list(astuple(entry)), *intact[number:]]
            yield [*intact[:number], list(astuple(entry)), list(astuple(settled)), *intact[number:]]

    assert_every_one_is_refused(written, forged)


@deep_cases(1)
def test_a_chain_built_anew_from_its_first_entry_shows(written):
    loud = json.dumps(Specification(HOUSEHOLDS, PureLoss()).as_record(), sort_keys=True, separators=(",", ":"))
    rewrite(written, rechained([[*row[:5], row[5] and loud, *row[6:]] for row in rows(written)]))
    assert written.verify() == ("entry 4 is not the one that was anchored: the ledger was rebuilt or replaced",)
    assert_refused(written)


@deep_cases(1)
def test_an_emptied_table_shows(written):
    rewrite(written, [])
    assert written.verify() == ("entries from 1 to 4 are missing at the end",)
    assert_refused(written)


def test_a_dropped_table_shows(written_in_file):
    written = written_in_file
    with duckdb.connect(str(written.warehouse.path(Zone.LEDGER))) as connection:
        connection.execute("DROP TABLE entries")
    assert_refused(written)


@deep_cases(1)
@quick_cases(0)
@pytest.mark.parametrize(
    "change",
    ["DROP COLUMN commitment", "RENAME release TO releases", "ADD COLUMN note VARCHAR", "ALTER sequence TYPE VARCHAR"],
)
def test_a_table_of_other_columns_shows(written, change):
    rewrite(written, rows(written))
    if written.on_server:
        with psycopg.connect(user=SUPERUSER) as connection:
            connection.execute(f"ALTER TABLE stirred.entries {change}")
    else:
        with duckdb.connect(str(written.warehouse.path(Zone.LEDGER))) as connection:
            connection.execute(f"ALTER TABLE entries {change}")
    assert_refused(written)


def test_a_deleted_file_shows(written_in_file):
    written = written_in_file
    written.warehouse.path(Zone.LEDGER).unlink()
    assert written.entries() == ()
    assert_refused(written)


@pytest.mark.deep
def test_a_file_put_back_to_any_earlier_copy_shows(file_ledger, tmp_path):
    ledger = file_ledger
    file, copies = ledger.warehouse.path(Zone.LEDGER), []
    for number in range(3):
        draw = reserve(ledger, f"release {number}")
        copies.append(shutil.copy(file, tmp_path / f"{number} reserved"))
        ledger.settle(draw.draw_id, "v")
        copies.append(shutil.copy(file, tmp_path / f"{number} settled"))
    assert ledger.verify() == ()
    for copy in copies[:-1]:
        shutil.copy(copy, file)
        assert_refused(ledger)
    shutil.copy(copies[-1], file)
    assert ledger.verify() == ()


def anchor_of(ledger):
    return Path(ledger.custody.folder) / "ledger.anchor"


def test_a_missing_anchor_shows(written):
    anchor_of(written).unlink()
    assert_refused(written)


@deep_cases(1)
@pytest.mark.deep
def test_an_edited_anchor_shows(written):
    whole = json.loads(anchor_of(written).read_text())
    first = written.entries()[0]
    for change in (
        {"sequence": 3, "hash": written.entries()[2].hash},
        {"sequence": 0, "hash": GENESIS, "announced": first.hash},
        {"announced": "f" * 64},
        {"mac": "0" * 64},
        {"mac": "é"},
        {"mac": None},
        {"sequence": "4"},
        {"sequence": 4.0},
    ):
        anchor_of(written).write_text(json.dumps(whole | change))
        assert_refused(written)
    for text in ("", "{}", "[]", "null", "\ufffe", '{"sequence": 4}'):
        anchor_of(written).write_text(text)
        assert_refused(written)
    anchor_of(written).write_text(json.dumps(whole))
    assert written.verify() == ()


@deep_cases(1)
@pytest.mark.deep
def test_an_anchor_put_back_without_the_ledger_shows(ledger):
    """At most one entry may stand beyond the anchor, and only the one announced in it."""
    anchors = []
    for number in range(3):
        reserve(ledger, f"release {number}")
        anchors.append(anchor_of(ledger).read_bytes())
    for earlier in anchors[:-1]:
        anchor_of(ledger).write_bytes(earlier)
        assert_refused(ledger)


@deep_cases(1)
@pytest.mark.deep
def test_a_ledger_under_another_custody_is_refused(written, tmp_path):
    """With another master key beside the anchor, or another custody in place of this one."""
    other = deployment(tmp_path / "other")
    reserve(other, "first")
    folder, kept = Path(written.custody.folder), tmp_path / "kept"
    key = (folder / "master.key").read_bytes()
    shutil.copy(Path(other.custody.folder) / "master.key", folder)
    assert "another custody's key" in written.verify()[0]
    assert_refused(written)
    (folder / "master.key").write_bytes(key)
    folder.rename(kept)
    shutil.copytree(other.custody.folder, folder)
    assert "belong to another custody's key" in written.verify()[0]
    assert_refused(written)
    shutil.rmtree(folder)
    kept.rename(folder)
    assert written.verify() == ()


def test_the_same_entry_is_never_written_twice_even_by_the_table_itself(written_in_file):
    """The constraints hold without the look-up: the second line of defence against a double charge."""
    written = written_in_file
    again = asdict(written.entries()[0]) | {"sequence": 9}
    with (
        duckdb.connect(str(written.warehouse.path(Zone.LEDGER))) as connection,
        pytest.raises(duckdb.ConstraintException),
    ):
        connection.execute(f"INSERT INTO entries VALUES ({', '.join('?' * len(again))})", list(again.values()))


# Secrets ---------------------------------------------------------------------------------------------------


def test_neither_ledger_nor_anchor_holds_a_key(written):
    master = (Path(written.custody.folder) / "master.key").read_text().strip()
    keys = [bytes.fromhex(master), written.custody.derive("ledger anchor"), written.custody.version_key()]
    for entry in written.entries():
        keys.append(written.custody.open_key(entry.draw_id, CustodyMode.ESCROWED, entry.commitment))
    if written.on_server:
        content = repr(rows(written)).encode() + anchor_of(written).read_bytes()
    else:
        content = written.warehouse.path(Zone.LEDGER).read_bytes() + anchor_of(written).read_bytes()
    assert compute_commitment(keys[-1]).encode() in content
    for key in keys:
        assert key not in content
        assert key.hex().encode() not in content
        assert key.hex() not in repr(written) + str(written)


@deep_cases(0)
def test_a_ledger_serves_an_asset_as_it_serves_a_script(ledger):
    @dg.asset
    def charge(ledger: Ledger) -> None:
        reserve(ledger, "half")

    assert dg.materialize([charge], resources={"ledger": ledger}).success
    assert dg.materialize([charge], resources={"ledger": ledger}).success
    assert len(ledger.entries()) == 1
