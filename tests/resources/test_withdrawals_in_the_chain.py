"""A chain with withdrawals is intact only in the order reserve, settle, withdraw."""

from fractions import Fraction

from mechanisms.accounting.losses import PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from resources.chain import Entry, find_breaks, make_reservation, make_settlement, make_withdrawal

SPECIFICATION = Specification(Flavor("all households", ("their number",), "household", 1), PureLoss(Fraction(1)))


def reserved(chain: list[Entry] | None = None) -> Entry:
    return make_reservation(chain or [], "village", "a", "d" * 64, SPECIFICATION, "0" * 64)


def test_a_withdrawal_continues_the_chain_and_says_who_and_what() -> None:
    chain = [reserved()]
    chain.append(make_settlement(chain, chain[0], "1" * 64))
    chain.append(make_withdrawal(chain, chain[0], "release village/a", "Ann"))
    assert find_breaks(chain) == ()
    altered = Entry(**{**vars(chain[2]), "details": chain[2].details.replace("Ann", "Ben")})  # type: ignore[union-attr]
    elsewhere = make_settlement([make_withdrawal([], chain[0], "another chain", "Ann")], chain[0], "1" * 64)
    assert find_breaks([chain[0], elsewhere]) == ("entry 2 does not continue the entry before it",)
    assert find_breaks([*chain[:2], altered]) == ("entry 3 was altered: its hash does not match its fields",)


def test_a_withdrawal_needs_a_reservation_and_ends_the_draw() -> None:
    alone = [make_withdrawal([], reserved(), "release village/a", "Ann")]
    assert find_breaks(alone) == ("entry 1 withdraws a draw that was not reserved before",)
    chain = [reserved()]
    chain.append(make_withdrawal(chain, chain[0], "release village/a", "Ann"))
    chain.append(make_settlement(chain, chain[0], "1" * 64))
    assert find_breaks(chain) == ("entry 3 settles a draw that was withdrawn before",)
