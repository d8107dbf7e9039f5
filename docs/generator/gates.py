"""The gates of the releases that the page of a mechanism shows, in the words of the UI and the certificate."""

import re
from collections.abc import Iterator

import dagster as dg

from docs.generator.fields import format_cell, format_table
from docs.pictures.__main__ import FOLDER, FURTHER, RELEASES
from docs.pictures.lineage import load_definitions

SHOWN = {mechanism: [release] for mechanism, release in (RELEASES | FURTHER).items()}
"""The releases of each page."""
SHOWN["safetab"].append(("detailed", "households"))


def list_gates(text: str) -> set[str]:
    """The gates that a page names: the second column of its tables."""
    return set(re.findall(r"^\|[^|]*\| `(\w+)` \|", text, re.MULTILINE))


def make_gates(mechanism: str) -> str:
    """A table for each release of a page, without the gates that the page of gates names."""
    elsewhere = list_gates((FOLDER.parent / "reference" / "gates.md").read_text("utf-8"))
    tables = []
    for dataset, release in SHOWN[mechanism]:
        own = [
            (f"`{spec.asset_key.path[-1]}`", f"`{spec.name}`", format_cell(spec.description or ""))
            for spec in _checks()
            if list(spec.asset_key.path[:-1]) == [dataset, release] and spec.blocking and spec.name not in elsewhere
        ]
        tables.append(format_table(("stage", f"gate of {dataset}/{release}", "rule"), own))
    return "\n".join(tables)


def _checks() -> Iterator[dg.AssetCheckSpec]:
    for check in load_definitions().asset_checks or ():
        if isinstance(check, dg.AssetsDefinition):
            yield from check.check_specs
