"""The component of a release by permutation swapping."""

from dataclasses import dataclass

from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.release import SwappingRelease
from orchestration.components.release import ReleaseComponent


@dataclass
class PermutationSwapping(ReleaseComponent):
    """A release by the Permutation Swapping Algorithm, with its ε from Theorem 1 and all its checks."""

    declared_by = SwappingDeclaration
    release_type = SwappingRelease
    method_name = "assets.swapping.method:Swapping"
