"""How a stage fails: the sentence first, then what was not spent or published, what still stands, and what to do."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import dagster as dg

from assets.conventions import StageKind
from mechanisms.refusal import RefusedError

P = ParamSpec("P")
T = TypeVar("T")

_BEFORE = frozenset({StageKind.CEF, StageKind.INVARIANTS, StageKind.COUNTS, StageKind.PLAN})
_CONSEQUENCES = {
    StageKind.CHARGE: "Nothing was drawn or published. If the ledger shows the charge, it stays, and a new run adds "
    "none.",
    StageKind.DRAW: "Nothing was published. The charge stays in the ledger and counts; a new run makes the same draw "
    "and charges nothing more.",
    StageKind.LEDGER: "Nothing is charged, drawn or published until this is resolved.",
    StageKind.COMPOSITION: "Nothing is charged, drawn or published until this is resolved.",
}
_OTHERWISE = (
    "Nothing was published. What was charged and drawn stays; a new run takes it over and charges nothing more."
)
_STANDS = "What was published before stays as it is. Correct the cause, and launch the job again."


def stated_plainly(kind: StageKind) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate the function of an asset, so that what it refuses is shown as a sentence instead of a stack trace.

    Args:
        kind: the kind of the stage, from which follows what had been charged or drawn before.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def stage(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except RefusedError as error:
                raise dg.Failure(explained(str(error), kind), allow_retries=False) from None

        return stage

    return decorate


def explained(problem: str, kind: StageKind) -> str:
    before = "Nothing was charged, drawn or published."
    consequence = before if kind in _BEFORE else _CONSEQUENCES.get(kind, _OTHERWISE)
    return f"{problem.rstrip('.')}.\n{consequence}\n{_STANDS}"
