"""A retabulation as one value, with the rules that its declaration satisfies before anything runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from assets.release.columns import Role
from assets.release.dataset import DatasetDeclaration
from assets.release.microdata import Microdata
from assets.release.names import ColumnName, ProductName, ReleaseName, SourcePath
from assets.release.prose import Prose
from assets.release.published import PublishedColumn, PublishedTable
from assets.release.release import Release, ReleaseDeclaration
from mechanisms.refusal import RefusedError
from resources.custody import CustodyMode

TEXTS = Prose(Path(__file__).with_name("texts.md"))

BLOCKS = "blocks"
"""The product that lists the blocks of each place."""


class RetabulationError(RefusedError, ValueError):
    """Published records that cannot be counted again as declared. The message states the rule, without records."""


class RetabulationDeclaration(ReleaseDeclaration):
    """Tables of published microdata for further places."""

    declares = "retabulation"

    of: ReleaseName = Field(description="The release of the same dataset whose published microdata are counted again.")
    geographies: dict[ProductName, list[ColumnName] | SourcePath] = Field(
        min_length=1,
        description="For each kind of place, by its name: the geographic columns of the units that together make "
        "the place's code; or a CSV file with two columns, the code of a block and the code of its place. The codes "
        "in the file are published. Blocks that the file leaves out are in none of its places.",
    )
    tables: list[str] = Field(
        default_factory=list,
        description="The tables to publish, such as P1. By default, all tables that follow from the microdata.",
    )

    custody: ClassVar[CustodyMode] = CustodyMode.ESCROWED  # type: ignore[misc]
    watch_source: ClassVar[bool] = False  # type: ignore[misc]

    @property
    def charges(self) -> bool:
        return False


@dataclass(frozen=True)
class Retabulation(Release):
    """Raises DeclarationError if a table does not follow from the release's microdata, or the dataset lacks a
    column."""

    declaration: RetabulationDeclaration
    source: Release
    microdata: Microdata
    root: Path
    """The folder to which paths are relative."""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.declaration.tables if name not in self.microdata.tables]:
            self.refuse(f"tables: {unknown[0]}: from its microdata follow {', '.join(self.microdata.tables)}")
        geographic = [
            name
            for name, column in self.dataset.units.stored.items()
            if column.role is Role.GEOGRAPHY
            and column.type.stored == "VARCHAR"
            and not column.nullable
            and not column.follows_persons
        ]
        for geography, columns in self.joined.items():
            if not columns:
                self.refuse(f"geographies: {geography}: at least one column is required, or a file")
            if unknown := [name for name in columns if name not in geographic]:
                self.refuse(
                    f"geographies: {geography}: {unknown[0]} is not a geographic column of text that no person "
                    f"changes; {self.dataset.name} has {', '.join(geographic)}"
                )

    def require_no_records(self, datasets: Iterable[DatasetDeclaration]) -> None:
        """Raise DeclarationError if a file of places is a file of records, because it is published."""
        for geography, listed in self.listed.items():
            for dataset in datasets:
                paths = (self.root / path for path in dataset.list_files())
                if listed.exists() and any(path.exists() and listed.samefile(path) for path in paths):
                    self.refuse(f"geographies: {geography}: the file has records of {dataset.name}, but is published")

    @property
    def drawn_as(self) -> str:
        return self.source.name

    @property
    def joined(self) -> dict[str, list[str]]:
        """By geography, the columns whose values are joined to the codes of its places."""
        return {name: given for name, given in self.declaration.geographies.items() if isinstance(given, list)}

    @property
    def listed(self) -> dict[str, Path]:
        """The files that list blocks and their places."""
        return {
            name: self.root / given for name, given in self.declaration.geographies.items() if isinstance(given, str)
        }

    @property
    def counted(self) -> list[str]:
        return [name for name in self.microdata.tables if name in (self.declaration.tables or self.microdata.tables)]

    @cached_property
    def products(self) -> Mapping[str, PublishedTable]:
        """By table, its description, including the table of blocks."""
        geographies = dict.fromkeys(self.declaration.geographies, "")
        place = (
            PublishedColumn("level", "string", "Geography", geographies),
            PublishedColumn("geoid", "string", "Code of the place"),
        )
        name = PublishedColumn("name", "string", "Name of the place, if there is one", required=False, names="geoid")
        key = ("level", "geoid")
        described = {}
        for counted in self.counted:
            own = self.microdata.tables[counted].published
            cells = (column for column in own.columns if column.has_figures)
            described[counted] = PublishedTable(
                own.name, own.title, TEXTS("table", release=self.source), self.public(own.name),
                (*place, name, *cells), key, geography=key, levels=geographies,
            )  # fmt: skip
        block = PublishedColumn("block", "string", "Code of the block, as in the microdata")
        blocks = PublishedTable(
            BLOCKS, "Blocks of each place", TEXTS("blocks"), self.public(BLOCKS), (*place, block), ("level", "block")
        )
        return described | {BLOCKS: blocks}
