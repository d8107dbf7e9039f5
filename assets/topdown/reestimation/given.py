"""The certificate of the measurements: the fields repeated in the certificate of the estimates.

Another deployment may have signed it. Its measurements are trusted, but it must not control the content that this
deployment signs.
"""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from assets.release.names import Name
from assets.texts import LONGEST_LINE, find_unseen


def _require_line(text: str) -> str:
    if len(text) > LONGEST_LINE or find_unseen(text):
        raise ValueError("it is no line of plain text")
    return text


def _to_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("it is no time of this calendar") from None


_Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
_Line = Annotated[str, AfterValidator(_require_line)]


class _Given(BaseModel):
    """A part of the certificate; other fields are ignored."""

    model_config = ConfigDict(frozen=True)


class _Named(_Given):
    name: Name


class _Edition(_Given):
    number: int = Field(ge=1, le=10**9)
    revision: int = Field(0, ge=0, le=10**9)


class _Delta(_Given):
    value: Annotated[float, Field(ge=0, le=1)]
    exact: _Line


class _Amount(_Given):
    symbol: Literal["ε", "ρ"]
    rounded_up: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    exact: _Line
    delta: _Delta | None
    by: Literal["", "curve"] = ""


class _Draw(_Given):
    draw_id: _Digest


class _Entry(_Given):
    sequence: int = Field(ge=1, le=10**9)
    entry_hash: _Digest
    recorded_at: Annotated[AwareDatetime, AfterValidator(_to_utc)]


class GivenCertificate(_Given):
    """The fields of the measurements' certificate that are copied."""

    dataset: _Named
    release: _Named
    edition: _Edition
    loss: _Amount
    randomness: _Draw
    ledger: _Entry
