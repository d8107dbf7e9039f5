"""Numbers of households that would be negative become 0 if the release says so: basis cells, before their margins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assets.measurement.method import Batch
from assets.safetab.household_method import SafeTabHMethod
from assets.safetab.release import SafeTabHRelease
from tests.assets.safetab import examples
from tests.safetab_deployments import safetab_components

KEY = bytes(range(32))
GROUPS = 500


def drawn(counts: int, **households: Any) -> tuple[SafeTabHMethod, list[Batch], list[Batch]]:
    """A method, exact counts that are all the same, and the method's draw from them."""
    _, h = safetab_components(households=households)
    release = h.release(examples.of_files("town"), Path("published"))
    assert isinstance(release, SafeTabHRelease)

    class Method(SafeTabHMethod):
        def exact(self, session: Any) -> Iterator[Batch]:
            for each in self.release.design.measured:
                yield Batch(each.label, np.full(GROUPS, counts))

    method = Method(release)
    session: Any = None
    return method, list(method.exact(session)), list(method.perturb(session, KEY))


@pytest.mark.parametrize("counts", [0, 2])
def test_clipping_changes_nothing_but_negative_numbers(counts: int) -> None:
    _, _, free = drawn(counts)
    _, _, clipped = drawn(counts, negative_counts=False)
    assert [each.query for each in free] == [each.query for each in clipped]
    for before, after in zip(free, clipped, strict=True):
        assert (before.values < 0).any()
        assert after.values.tolist() == np.maximum(before.values, 0).tolist()


@pytest.mark.parametrize("noise", ["zcdp", "pure"])
@pytest.mark.parametrize("negative_counts", [True, False])
def test_noise_raises_no_alarm_whether_it_is_clipped_or_not(noise: str, negative_counts: bool) -> None:
    """Near 0, clipped numbers do not have the declared distribution; far above, all do. False alarms: 1e-9."""
    for counts in (0, 10**4):
        method, exact, noisy = drawn(counts, noise=noise, negative_counts=negative_counts)
        assert not method.unlikely(zip(exact, noisy, strict=True))
        wrong = [Batch(each.query, each.values + 3) for each in noisy]
        assert bool(method.unlikely(zip(exact, wrong, strict=True))) == (negative_counts or counts > 0)
