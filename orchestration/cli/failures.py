"""How an error is told whose message names the mistake and the remedy; every other one is a fault in the code."""

import dagster as dg
from pydantic import ValidationError

from assets.publication.signature import VerificationError
from assets.publication.withdrawal import WithdrawalError
from assets.release.release import DeclarationError
from mechanisms.refusal import RefusedError
from orchestration.backup import BackupError
from orchestration.checking import cause_of
from orchestration.explorer.launcher import ExplorerError


def explanation(error: Exception) -> str | None:
    """The message of an expected error; None for a fault in the code."""
    match error:
        case RefusedError() | BackupError() | ExplorerError() | VerificationError() | WithdrawalError():
            return str(error)
        case dg.Failure():
            return str(error.description)
        case OSError():
            return f"{error.filename or 'writing'}: {error.strerror or error}"
    # Dagster wraps errors of declarations in errors of its own.
    cause = cause_of(error)
    if isinstance(cause, DeclarationError | ValidationError):
        return f"{cause}\nstirred check names every problem with file and line."
    return None
