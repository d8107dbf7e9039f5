"""A reestimation as one value, with the rules that it must satisfy before any run."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from assets.measurement.method import MEASUREMENTS
from assets.release.names import DatasetName, ReleaseName, SourcePath
from assets.release.prose import Prose
from assets.release.published import PublishedColumn, PublishedTable
from assets.release.release import Release, ReleaseDeclaration
from assets.topdown.declaration import TYPES_FIRST
from assets.topdown.release import TopDownRelease
from assets.topdown.ways import MOST, Estimation
from mechanisms.refusal import RefusedError
from mechanisms.topdown.redistricting import REDISTRICTING
from resources.custody import CustodyMode
from resources.statements import Zone

TEXTS = Prose(Path(__file__).with_name("texts.md"))

Day = Annotated[datetime.date, WithJsonSchema({"type": "string", "format": "date"})]

SOURCES = "sources"
"""The product that lists the source files of the measurements."""


class ReestimationError(RefusedError, ValueError):
    """Published measurements that cannot be estimated as declared. The message names the file or field, and the
    rule."""


class ReestimationDeclaration(ReleaseDeclaration):
    """Redistricting data estimated anew from published noisy measurements."""

    declares = "reestimation"

    dataset: DatasetName = Field(
        description="With `of`, the dataset of that release. With a `folder`, a name of your choice, which is part of "
        "the publication's path."
    )
    of: ReleaseName | SkipJsonSchema[None] = Field(
        None, description="A published TopDown release of the dataset whose noisy measurements are estimated anew."
    )
    folder: SourcePath | SkipJsonSchema[None] = Field(
        None,
        description="Instead of `of`: a folder with the Census Bureau's noisy measurement files, or with the "
        "publication of a TopDown release of another deployment.",
    )
    key: SourcePath | SkipJsonSchema[None] = Field(
        None,
        description="The file of the public key (PEM) that verifies the publication; required if the folder has one.",
    )
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] | SkipJsonSchema[None] = Field(
        None,
        description="The SHA-256 of all files in the folder together, which the page of the asset "
        "`measurements` and the certificate show. If it is declared, Stirred refuses other files.",
    )
    populations: dict[Annotated[str, StringConstraints(pattern="^[0-9]{2}$")], Annotated[int, Field(ge=0, le=MOST)]] = (
        Field(
            default_factory=dict,
            description="For the Census Bureau's files: the published population of every state, by the "
            "state's two digits in quotes. It is exact, and the files do not contain it.",
        )
    )
    source: str = Field(
        "", description="For a folder: who published the measurements and where, as a citation or an address."
    )
    published: Day | SkipJsonSchema[None] = Field(
        None, description='For the Census Bureau\'s files: the day on which they were published, such as "2023-06-15".'
    )
    estimation: Literal["full", "own_levels"] = Field(
        "full",
        description="full: every place is estimated from its own measurements and those of all places in it. "
        "own_levels: from its own measurements and its parent's estimates alone.",
    )
    types_first: str | SkipJsonSchema[None] = Field(None, description=TYPES_FIRST)
    lean_on_housing_units: bool = Field(
        False,
        strict=True,
        description="With `estimation: full`: the estimates of the finest level also use the exact number of housing "
        "units.",
    )

    custody: ClassVar[CustodyMode] = CustodyMode.ESCROWED  # type: ignore[misc]
    watch_source: ClassVar[bool] = False  # type: ignore[misc]

    @property
    def charges(self) -> bool:
        return False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.of is None) is (self.folder is None):
            raise ValueError("of: declare either a release (of) or a folder")
        of_bureau = self.folder is not None and self.key is None
        for field, fits, where in (
            ("key", self.folder is not None, "a folder"),
            ("source", self.folder is not None, "a folder"),
            ("sha256", self.folder is not None, "a folder"),
            ("populations", of_bureau, "the Census Bureau's files, which have no key"),
            ("published", of_bureau, "the Census Bureau's files, which have no key"),
        ):
            if getattr(self, field) and not fits:
                raise ValueError(f"{field}: it is for {where}")
        for field in ("source", *(["published"] if of_bureau else [])):
            if self.folder is not None and not getattr(self, field):
                raise ValueError(f"{field}: it is required for a folder{' without a key' if field != 'source' else ''}")
        if self.estimation == "own_levels" and (self.types_first or self.lean_on_housing_units):
            field = "types_first" if self.types_first else "lean_on_housing_units"
            raise ValueError(f"{field}: it belongs to estimation: full")
        return self

    @property
    def options(self) -> Estimation:
        return Estimation(self.estimation == "own_levels", self.types_first, self.lean_on_housing_units)


@dataclass(frozen=True)
class Measurements:
    """Published measurements in the place of a dataset. They contain no records."""

    name: str
    title: str
    description: str
    synthetic: bool = False
    public: bool = False
    source: str = ""


@dataclass(frozen=True)
class Reestimation(Release):
    """Raises DeclarationError if the release `of` does not publish its noisy measurements or all its exact statistics.

    Attributes:
        of: the release whose publication is estimated anew; None for a folder.
        root: the base folder of relative paths.
        levels: the levels of the measurements, from the root to the finest; empty before the measurements are read.
    """

    declaration: ReestimationDeclaration
    dataset: Any
    design: Estimation
    of: TopDownRelease | None
    root: Path
    levels: tuple[str, ...] = ()

    zones = (Zone.PUBLIC,)

    def __post_init__(self) -> None:
        if self.of:
            needed = (MEASUREMENTS, *self.of.design.invariants)
            if missing := [name for name in needed if name not in self.of.products]:
                self.refuse(f"of: {self.of.name} does not publish {missing[0]}")

    @property
    def drawn_as(self) -> str:
        return self.of.name if self.of else ""

    @property
    def finest(self) -> str:
        return self.levels[-1] if self.levels else "finest level"

    @property
    def folder_of_source(self) -> Path:
        """The declared folder. Raises ValueError if a release is declared instead."""
        if self.declaration.folder is None:
            raise ValueError(f"{self.schema}: it is made of a release")
        return self.root / self.declaration.folder

    @cached_property
    def products(self) -> Mapping[str, PublishedTable]:
        """The published tables, by name."""
        # Commands that only show declarations need not load the estimation.
        from assets.topdown.published import describe_linear, describe_redistricting, describe_spine

        file = PublishedColumn("file", "string", "Name of the file, with the folders that it is in")
        digest = PublishedColumn("sha256", "string", "The SHA-256 of the file")
        found = [
            replace(describe_redistricting(self, table), description=TEXTS("table", universe=table.universe))
            for table in REDISTRICTING.values()
        ]
        found += [describe_linear(self, table) for table in REDISTRICTING.values()]
        found += [
            describe_spine(self),  # type: ignore[arg-type]
            PublishedTable(
                SOURCES, "Files that the measurements are from", TEXTS("sources"), self.public(SOURCES),
                (file, digest), ("file",),
            ),
        ]  # fmt: skip
        return {table.name: table for table in found}
