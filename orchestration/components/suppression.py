"""The component of a release by suppression."""

from dataclasses import dataclass

from assets.suppression.declaration import SuppressionDeclaration
from assets.suppression.release import SuppressionRelease
from orchestration.components.release import ReleaseComponent


@dataclass
class Suppression(ReleaseComponent):
    """Linked tables in which small counts, and counts that give them away, are suppressed. The loss is infinite."""

    declared_by = SuppressionDeclaration
    release_type = SuppressionRelease
    method_name = "assets.suppression.method:Suppression"
