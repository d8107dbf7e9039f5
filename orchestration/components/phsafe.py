"""The component of an S-DHC release by PHSafe."""

from dataclasses import dataclass

from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.release import PHSafeRelease
from orchestration.components.release import ReleaseComponent


@dataclass
class PHSafe(ReleaseComponent):
    """The Supplemental Demographic and Housing Characteristics File (S-DHC) by PHSafe."""

    declared_by = PHSafeDeclaration
    release_type = PHSafeRelease
    method_name = "assets.phsafe.method:PHSafeMethod"
