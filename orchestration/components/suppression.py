"""The component of a release by suppression."""

from dataclasses import dataclass

from assets.suppression.declaration import SuppressionDeclaration
from assets.suppression.release import SuppressionRelease
from orchestration.components.release import ReleaseComponent


@dataclass
class Suppression(ReleaseComponent):
    """Linked tables without small counts and those that give them away, without noise. Its loss is infinite."""

    declared_by = SuppressionDeclaration
    release_type = SuppressionRelease
    method_name = "assets.suppression.method:Suppression"
