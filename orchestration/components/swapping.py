"""The component of a release by permutation swapping."""

from dataclasses import dataclass
from typing import Any

from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.release import SwappingRelease
from orchestration.components.release import ReleaseComponent


@dataclass
class PermutationSwapping(ReleaseComponent):
    """A release by the Permutation Swapping Algorithm, with its ε from Theorem 1 and all its checks."""

    declared_by = SwappingDeclaration
    release_type = SwappingRelease

    @property
    def method(self) -> type[Any]:
        from assets.swapping.method import Swapping

        return Swapping
