"""The remedies for failed checks. The page `docs/how-to/troubleshooting.md` has the same sentences."""

from collections.abc import Iterable

OF_ANY_OTHER = (
    "Launch the release again: if records and declaration are those of its charge, it gives the same tables, at no "
    "charge. If the check fails again, publish nothing, and run `stirred audit`."
)
_SOURCE = (
    "Launch the release again, which reads the source anew. If the check fails again, correct the source file, or its "
    "declaration."
)
_STATISTICS = (
    "See whether the checks `settled` and, with an escrowed key, `replay` pass. If one fails, a stored table was "
    "altered: launch the release again. If they pass, publish nothing: the program draws wrong noise."
)
_EARLIER = "Launch the release that this one reads, and then this one again."
_DECLARATION = "Change the declaration as the message says, and launch again."
_LEDGER = (
    "Launch nothing, and keep all files as they are. Find out who wrote to the ledger, and restore the latest backup."
)

OF_CHECKS = {
    "charge_present": "Launch the release again: if the ledger has no entry for the draw, the draw is new, and is "
    "charged. (If the draw was withdrawn, declare another release instead.) If the check fails again, publish "
    "nothing, and run `stirred audit`.",
    "schema_and_keys": _SOURCE,
    "structure": _SOURCE,
    "no_impossible_records": _SOURCE,
    "noise_as_declared": _STATISTICS,
    "suppression_as_declared": _STATISTICS,
    "detail_as_declared": _STATISTICS,
    "source_as_published": _EARLIER,
    "redistricting_as_published": _EARLIER,
    "unique_records": _DECLARATION,
    "feasible": _DECLARATION,
    "confidentiality": "Publish nothing. Remove the stage that the message names (an asset in your Python code), or "
    "install an unaltered program, and launch again.",
    "within_cap": "Have the board decide whether to raise the cap, or to allow releases without a finite loss. A "
    "withdrawal returns no budget.",
    "ledger_intact": _LEDGER,
    "key_gone": "Run `stirred audit`, which deletes keys of draws that are finished, and launch again.",
    "files_as_published": "Launch the release again: it writes the same bytes and charges nothing. If the launch stops "
    "at this folder, move the folder elsewhere first.",
    "shown_as_charged": "Materialize the asset of the check again, which makes its tables from the ledger.",
}


def explain_failure(problems: Iterable[object], *checks: str) -> list[str]:
    """The problems that failed checks found, followed by their remedies."""
    remedies = dict.fromkeys(OF_CHECKS.get(check, OF_ANY_OTHER) for check in checks)
    return [*map(str, problems), *(f"What to do: {remedy}" for remedy in remedies)]
