"""Stirred as a library: its mechanisms on arrays and data frames, its accounting, and deployments from Python.

- `stirred.swapping`, `stirred.table_builder`, `stirred.phsafe`, `stirred.safetab`, `stirred.topdown`,
  `stirred.dhc`: the mechanisms.
- `stirred.noise`: discrete noise for any array of counts. `stirred.accounting`: losses, specifications and totals.
- `stirred.risk`: attacks on tables, and their success: reconstruction, matching, guessers, and the gain from a record.
- `stirred.random`: the randomness that every draw takes, from the system or from a key.
- `stirred.open`: the deployment in a folder, with its releases and publications.

The mechanisms of this package charge nothing: no ledger counts their draws. Each result prints its DP specification,
and states that it is not charged.

**Versions** follow semver.org. The names in `__all__` of the modules above are stable: they change with a new major
version only, or before 1.0 with a new minor version. With the same key and the same calls in the same order, the
numbers of a draw stay the same within a minor version. Every other module is internal and may change at any time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stirred import (
        accounting,
        deployment,
        dhc,
        noise,
        phsafe,
        random,
        risk,
        safetab,
        swapping,
        table_builder,
        topdown,
    )
    from stirred.deployment import open_deployment as open

__version__ = "0.2.0"

__all__ = [
    "accounting",
    "deployment",
    "dhc",
    "noise",
    "open",
    "phsafe",
    "random",
    "risk",
    "safetab",
    "swapping",
    "table_builder",
    "topdown",
]


def __getattr__(name: str) -> Any:
    """A name of the package, imported at its first use."""
    if name == "open":
        return import_module("stirred.deployment").open_deployment
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"stirred.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
