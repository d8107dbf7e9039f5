"""A stage reports its refusals in a sentence, with the consequences; unexpected errors show a stack trace."""

import dagster as dg
import pytest

from assets.conventions import StageKind
from assets.release.draw import StaleInputError
from assets.release.release import DeclarationError
from assets.release.seal import SealError
from assets.stages import explain_refusals
from mechanisms.topdown.feasibility import InfeasibleError
from resources.keyfiles import CustodyError
from resources.ledger import CapExceeded, PopulationError
from resources.warehouse import WarehouseError

REFUSED = (
    StaleInputError,
    SealError,
    DeclarationError,
    InfeasibleError,
    CustodyError,
    CapExceeded,
    PopulationError,
    WarehouseError,
)


def failure_of(kind: StageKind, error: Exception) -> dg.Failure:
    @explain_refusals(kind)
    def stage() -> None:
        raise error

    with pytest.raises(dg.Failure) as failed:
        stage()
    return failed.value


@pytest.mark.parametrize("error", REFUSED)
def test_whatever_is_refused_is_said_first_and_without_a_stack_trace(error: type[Exception]) -> None:
    failure = failure_of(StageKind.CEF, error("units.csv: column a: 3 rows have no value"))
    assert failure.description
    assert failure.description.startswith("units.csv: column a: 3 rows have no value.\nNothing was charged, drawn or")
    assert "An earlier publication stays unchanged." in failure.description
    assert failure.__cause__ is None
    assert failure.__suppress_context__
    assert not failure.allow_retries


@pytest.mark.parametrize("kind", StageKind)
def test_no_stage_after_the_charge_says_that_nothing_was_charged(kind: StageKind) -> None:
    before = kind in (StageKind.CEF, StageKind.INVARIANTS, StageKind.COUNTS, StageKind.PLAN)
    description = failure_of(kind, WarehouseError("it cannot be read")).description or ""
    assert ("Nothing was charged" in description) == before
    assert "published" in description


def test_an_error_that_nobody_expects_keeps_its_stack_trace() -> None:
    @explain_refusals(StageKind.DRAW)
    def stage() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stage()
