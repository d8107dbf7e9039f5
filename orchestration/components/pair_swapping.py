"""The component of a release by targeted pair swapping, as in the 2010 census, for comparison."""

from dataclasses import dataclass

from assets.pair_swapping.declaration import PairSwappingDeclaration
from assets.pair_swapping.release import PairSwappingRelease
from orchestration.components.release import ReleaseComponent


@dataclass
class PairSwapping2010(ReleaseComponent):
    """Households swapped in pairs as in the 2010 census, for comparison. The loss is infinite."""

    declared_by = PairSwappingDeclaration
    release_type = PairSwappingRelease
    method_name = "assets.pair_swapping.method:PairSwapping"
