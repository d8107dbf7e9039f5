"""The component: the declaration, the release and the method that belong together."""

from dataclasses import dataclass

from orchestration.components.release import ReleaseComponent
from tests.contract.laplace_tables.declaration import LaplaceDeclaration
from tests.contract.laplace_tables.method import LaplaceMethod
from tests.contract.laplace_tables.release import LaplaceRelease


@dataclass
class LaplaceTables(ReleaseComponent):
    """Declared tables with discrete Laplace noise."""

    declared_by = LaplaceDeclaration
    release_type = LaplaceRelease
    method = LaplaceMethod
