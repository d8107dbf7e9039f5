"""Who publishes: the authority, how to reach it, and the license of the data, declared once for all releases.

Certificates and data dictionaries state it. Nothing else depends on it, so a change costs nothing and no draw changes.
"""

from typing import Annotated, Any

from pydantic import Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema

from assets.release.declaration import Declaration

_Line = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\n\r\t]*$")]
"""A text on one line."""

_Url = Annotated[str, StringConstraints(max_length=1000, pattern=r"^https?://[^\s]+$")]


class Publisher(Declaration):
    """Who publishes the releases of a deployment. What is not declared, certificates call not declared."""

    declares = "publisher"

    authority: _Line | SkipJsonSchema[None] = Field(None, description="The office that publishes, by its full name.")
    contact: _Line | SkipJsonSchema[None] = Field(
        None, description="How readers reach it: an address for mail, or of a page."
    )
    license: (
        Annotated[str, StringConstraints(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9.+-]*$")]
        | SkipJsonSchema[None]
    ) = Field(None, description="The license of the published data, by its SPDX identifier, such as CC-BY-4.0.")
    license_url: _Url | SkipJsonSchema[None] = Field(None, description="Where the text of the license is.")

    @classmethod
    def named(cls, given: Any) -> str:
        return "of all releases"


UNDECLARED = Publisher.model_validate({})
