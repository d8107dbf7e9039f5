"""Bad declarations: each is refused by one clear error that names the declaration and the field, in bounded time."""

import time
from pathlib import Path

import pytest

from tests.orchestration.bad_declarations import VALID, Bad, make_bad, refusal

EVERY = 40
"""The quick suite loads every fortieth bad declaration of each kind, and at least one."""

SECONDS = 5.0
LONGEST = 600


def require_refused(bad: Bad, root: Path) -> None:
    """Assert that a declaration is refused as required. `refusal` raises every other error."""
    started = time.monotonic()
    said = refusal(bad, root)
    assert said is not None, f"accepted: {bad}"
    assert time.monotonic() - started < SECONDS, f"took too long: {bad}"
    assert bad.field in said, f"names no field: {said}"
    assert bad.names in said or f"{root}/defs.yaml:" in said, f"names no declaration: {said}"
    assert "\n" not in said, f"more than one sentence: {said}"
    assert len(said) < LONGEST, f"too long: {said}"


@pytest.mark.parametrize("kind", VALID)
def test_the_declarations_that_bad_ones_are_made_from_are_valid(kind: type, tmp_path: Path) -> None:
    assert refusal(Bad(kind, "", VALID[kind]), tmp_path) is None


def test_some_bad_declarations_of_every_kind_are_refused(tmp_path: Path) -> None:
    some = [bad for kind in VALID for bad in make_bad(kind)[::EVERY]]
    assert {bad.kind for bad in some} == set(VALID)
    for bad in some:
        require_refused(bad, tmp_path)


@pytest.mark.deep
def test_the_bad_declarations_are_distinct() -> None:
    every = [bad for kind in VALID for bad in make_bad(kind)]
    assert len({(bad.kind, bad.text or repr(bad.attributes)) for bad in every}) == len(every) >= 1000


@pytest.mark.prove
@pytest.mark.parametrize("kind", VALID)
def test_every_bad_declaration_is_refused_naming_declaration_and_field(kind: type, tmp_path: Path) -> None:
    for bad in make_bad(kind):
        require_refused(bad, tmp_path)
