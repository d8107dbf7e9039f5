"""A draw before it is made: what it is called, and what it costs.

Here belongs what is true of the draws of every mechanism. What one depends on, its mechanism's room knows.
"""

from dataclasses import dataclass

from mechanisms.accounting.specification import Specification


class StaleInputError(Exception):
    """The confidential input of a draw is not the one that was charged."""


@dataclass(frozen=True)
class Draw:
    """One use of randomness: one mechanism, one set of parameters, one version of the inputs.

    Attributes:
        draw_id: its name, an HMAC of all of that.
        specification: the DP specification it satisfies.
    """

    draw_id: str
    specification: Specification
