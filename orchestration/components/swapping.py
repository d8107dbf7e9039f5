"""The component of a release by permutation swapping."""

from dataclasses import dataclass

from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.release import SwappingRelease
from orchestration.components.release import ReleaseComponent


@dataclass
class PermutationSwapping(ReleaseComponent):
    """A release by Bailie, Gong and Meng's Permutation Swapping Algorithm, with the ε of their Theorem 1."""

    declared_by = SwappingDeclaration
    release_type = SwappingRelease
    method_name = "assets.swapping.method:Swapping"
