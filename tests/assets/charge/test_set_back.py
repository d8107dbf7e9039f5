"""A published edition shows that the ledger was set back together with its anchor."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assets.publication.withdrawal import withdraw
from assets.release.signature import Identity, find_set_back
from resources.ledger import LedgerError
from tests.deployments import TO_PUBLICATION, households, refuses_to_publish, small_deployment, write_csv


def test_a_ledger_without_the_charge_of_a_published_edition_neither_charges_nor_publishes(tmp_path: Path) -> None:
    """Wrong program: after an earlier copy of keys and databases was restored, it makes the draw of the published
    edition again, under another ephemeral key, and publishes it in place of the only evidence. Readers of both editions
    then have two draws from the same records, and the ledger has one charge. Or it lets a person withdraw the edition,
    and makes the draw then."""
    deployment = small_deployment(tmp_path / "release", custody="ephemeral")
    root = deployment.root
    deployment.run(*TO_PUBLICATION)
    for name in ("warehouse", "custody"):
        shutil.copytree(root / name, tmp_path / name)
    write_csv(root / "units.csv", households(121))
    deployment.run(*TO_PUBLICATION)
    for name in ("warehouse", "custody"):
        shutil.rmtree(root / name)
        shutil.copytree(tmp_path / name, root / name)
    said = "the ledger was set back or rebuilt: village/counties, edition 2, ledger entry 3, is published"
    refuses_to_publish(deployment, {"ledger_intact"}, said)
    deployment.run("cef", "invariants")
    assert said in deployment.refusal("charge")
    with pytest.raises(LedgerError, match=f"{said}.*Nothing was withdrawn"):
        withdraw(deployment.context.ledger, root / "published", "village", "counties", "M. Maier")
    assert deployment.published()
    assert len(deployment.ledger) == 2


def test_another_entry_in_place_of_a_published_charge_shows_a_ledger_that_was_set_back() -> None:
    """Wrong programs: compare only the number of entries, so that other charges hide the missing one; or take estimates
    from published measurements, which have no charge, for evidence."""
    entries: Any = [SimpleNamespace(hash="a"), SimpleNamespace(hash="b")]
    charged = Identity("village", "counties", 1, "draw", ledger_entry=2, ledger_hash="b")
    other, uncharged = replace(charged, ledger_hash="c"), replace(charged, ledger_entry=0, ledger_hash="")
    assert find_set_back([charged, uncharged], entries) == []
    (found,) = find_set_back([charged, other, uncharged], entries)
    assert found.endswith("ledger entry 2, is published, and the ledger has another entry there")
