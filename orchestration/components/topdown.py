"""The component of a redistricting release by TopDown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.release.dataset import DatasetDeclaration
from assets.topdown.declaration import TopDownDeclaration
from assets.topdown.release import TopDownRelease
from assets.topdown.ways import Estimation
from orchestration.components.release import ReleaseComponent
from orchestration.environment import dask_scheduler

if TYPE_CHECKING:
    import pyarrow as pa

    from assets.publication.tables import PublishedTables


@dataclass
class TopDown(ReleaseComponent):
    """Redistricting data (P.L. 94-171) by TopDown: tables P1 to P5 and H1, microdata and noisy measurements."""

    declared_by = TopDownDeclaration
    release_type = TopDownRelease
    method_name = "assets.topdown.method:TopDownMethod"

    def release(self, dataset: DatasetDeclaration, published: Path) -> TopDownRelease:
        return replace(super().release(dataset, published), scheduler=dask_scheduler())

    @staticmethod
    def add_up_places(files: "PublishedTables", places: Path, tables: Sequence[str]) -> "pa.Table":
        """The sum of the places in a file, as `assets.topdown.asking.add_up_places`."""
        from assets.release.codes import read_codes
        from assets.topdown.asking import add_up_places

        return add_up_places(files, [code for (code,) in read_codes(places, 1)], tables)

    @staticmethod
    def estimate_anew(
        folder: Path, target: Path, populations: Mapping[str, int], key: Path | None, **options: Any
    ) -> list[str]:
        """Tables from the noisy measurements in a folder, as `assets.topdown.anew.write_anew`."""
        from assets.topdown.anew import Source, write_anew

        return write_anew(Source(folder, populations, key), target, Estimation(**options))
