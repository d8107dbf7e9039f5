"""The partitions of a release some of whose stages are made in parts, each in a run of its own.

The automation builds the jobs for them. What the parts are is the mechanism's matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

DRAW = "draw"
"""The metadata of the stage that keeps the keys, and of each partition of the last of the stages, that says which draw
they are made from."""


@dataclass(frozen=True)
class Partitions:
    """The partitions of a release.

    Attributes:
        keys_from: the stage that keeps their keys, before all partitions.
        stages: the partitioned stages, each after those before it.
    """

    name: str
    keys_from: str
    stages: Sequence[str]

    @property
    def definition(self) -> dg.DynamicPartitionsDefinition:
        return dg.DynamicPartitionsDefinition(name=self.name)
