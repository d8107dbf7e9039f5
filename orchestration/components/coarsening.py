"""The component of a release by coarsening."""

from dataclasses import dataclass

from assets.coarsening.declaration import CoarseningDeclaration
from assets.coarsening.release import CoarseningRelease
from orchestration.components.release import ReleaseComponent


@dataclass
class Coarsening(ReleaseComponent):
    """Records changed, without noise, until every place has enough records, and so has every combination of identifying
    values in a place. The loss is infinite."""

    declared_by = CoarseningDeclaration
    release_type = CoarseningRelease
    method_name = "assets.coarsening.method:Coarsening"
