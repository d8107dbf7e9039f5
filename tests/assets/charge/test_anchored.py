"""A charge is anchored before anything is drawn, whenever the run that made it was killed."""

from pathlib import Path
from unittest.mock import patch

import pytest

from resources.chain import Anchor
from resources.custody import Custody
from resources.faults import FaultError
from tests.deployments import small_deployment


def test_nothing_is_drawn_before_its_charge_is_anchored(tmp_path: Path) -> None:
    """Wrong program: after a kill between the ledger's commit and its anchor, a run of the draw alone draws. An
    attacker who can write the ledger could then remove the charge, and another draw would be charged as if it were the
    first."""
    deployment, set_anchor, open_key = small_deployment(tmp_path / "release"), Custody.set_anchor, Custody.open_key
    deployment.run("cef", "invariants")
    custody, anchors = deployment.context.custody, list[Anchor | None]()

    def announce_alone(own: Custody, anchor: Anchor) -> None:
        if not anchor.announced:
            raise InterruptedError
        set_anchor(own, anchor)

    def note_anchor(own: Custody, *given: str) -> bytes:
        anchors.append(custody.anchor())
        return open_key(own, *given)  # type: ignore[arg-type]

    with patch.object(Custody, "set_anchor", announce_alone), pytest.raises(FaultError):
        deployment.run("charge")
    assert (custody.anchor() or Anchor()).announced
    with patch.object(Custody, "open_key", note_anchor):
        deployment.run("swapped")
    assert [(anchor.sequence, anchor.announced) for anchor in anchors if anchor] == [(1, None)]
