"""A small dataset and a swapping release on it for tests that call the stages directly, without Dagster."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.cef.ingestion import ingest
from assets.release.dataset import DatasetDeclaration
from assets.swapping.declaration import SwappingDeclaration
from assets.swapping.invariants import write_invariants
from assets.swapping.method import Swapping
from assets.swapping.release import SwappingRelease
from orchestration.components.swapping import PermutationSwapping
from resources.statements import Zone
from resources.warehouse import Session, Warehouse
from tests.deployments import write_csv

VERSION_KEY = b"k" * 32


@dataclass(frozen=True)
class Village:
    """A dataset whose CEF is stored, and the warehouse."""

    dataset: DatasetDeclaration
    warehouse: Warehouse

    def release(self, **declared: Any) -> SwappingRelease:
        """A release of the dataset; `declared` is everything but its name and title."""
        declaration = {"name": "swapped", "title": "Swapped", "dataset": self.dataset.name, "swap_rate": "1/2"}
        component = PermutationSwapping(SwappingDeclaration.model_validate(declaration | declared))
        return component.release(self.dataset, Path("published"))

    def write_invariants(self, release: SwappingRelease) -> None:
        """Run the stage `invariants`."""
        with self.warehouse.session(reads=[Zone.CONFIDENTIAL], writes=Zone.PUBLIC) as session, session.transaction():
            write_invariants(session, release, VERSION_KEY)

    @contextmanager
    def public(self, release: SwappingRelease) -> Iterator[tuple[Session, Swapping]]:
        """A session that sees public tables only, and the method."""
        with self.warehouse.session(reads=[Zone.PUBLIC]) as session:
            yield session, Swapping(release)


def village(
    root: Path,
    columns: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    person_columns: Mapping[str, Any] | None = None,
    persons: Sequence[Mapping[str, Any]] = (),
    record_name: str = "household",
) -> Village:
    """Write the source files of a dataset and read them into a CEF.

    Args:
        root: an empty folder.
        columns: the columns of units.
        rows: the units.
        person_columns: the columns of persons, if units have persons.
        persons: the persons.
        record_name: the name of a unit.
    """
    declared: dict[str, Any] = {
        "name": "village",
        "title": "A village",
        "reader": "csv",
        "record_name": record_name,
        "cap": 40,
        "units": {"path": str(root / "units.csv"), "columns": columns},
    }
    write_csv(root / "units.csv", rows)
    if person_columns is not None:
        write_csv(root / "persons.csv", persons)
        declared["persons"] = {"path": str(root / "persons.csv"), "columns": person_columns}
    dataset = DatasetDeclaration.model_validate(declared)
    warehouse = Warehouse(folder=str(root / "warehouse"), threads=1)
    with warehouse.session(writes=Zone.CONFIDENTIAL) as session:
        ingest(session, dataset, root, VERSION_KEY)
    return Village(dataset, warehouse)
