"""A release as one value: its declaration, dataset, design and publisher, and the names of its tables and assets.

The package of each mechanism adds its fields and their design in `declaration`, and in `release` the rules about the
dataset that a release must satisfy before anything runs. All other rules are in the mechanism's design.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn, Self

import dagster as dg
from pydantic import AfterValidator, Field, StringConstraints, field_validator
from pydantic.json_schema import SkipJsonSchema

from assets.release.contents import read_basis, with_recodes
from assets.release.dataset import CEF, DatasetDeclaration
from assets.release.declaration import Declaration, describe_field
from assets.release.names import ReleaseName
from assets.release.seal import require_sealed
from assets.texts import LONGEST_LINE
from mechanisms.accounting.specification import Specification
from mechanisms.refusal import RefusedError
from resources.chain import RESERVE, Entry
from resources.custody import CURRENT, Custody, CustodyMode
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse


class Format(StrEnum):
    """A format in which the tables of a release are published in addition to CSV and Parquet."""

    SDMX = "sdmx"
    PX = "px"
    JSON_STAT = "json-stat"


Formats = Annotated[tuple[Format, ...], AfterValidator(lambda formats: tuple(sorted(set(formats))))]

_FORMATS = "Formats of the published tables besides CSV and Parquet."


class DeclarationError(RefusedError, ValueError):
    """A release cannot be carried out as declared. The message names the release, the field and the rule."""


class ReleaseDeclaration(Declaration):
    """The fields that every kind of release declares."""

    declares = "release"

    name: ReleaseName
    dataset: str = Field(description="The dataset that the release is made from.")
    title: str = Field(min_length=1, description="The release's name in words.")
    description: str = Field("", description="The content of the tables, for readers.")
    custody: CustodyMode = Field(
        CustodyMode.ESCROWED,
        description="escrowed: the draw can be replayed with the master key; ephemeral: the key is deleted after "
        "the draw, which then cannot be replayed.",
    )
    schedule: str | SkipJsonSchema[None] = Field(
        None, description="When the release's job is launched: a cron expression, in UTC; active once declared."
    )
    watch_source: bool = Field(
        False, description="Whether a change of the source file launches the release's job; active once declared."
    )
    formats: Formats | SkipJsonSchema[None] = Field(
        None, description=f"{_FORMATS} By default, the formats that the publisher declares."
    )

    @property
    def charges(self) -> bool:
        """Whether the release has a charge, a draw and a publication."""
        return True

    @property
    def rounds(self) -> Sequence[str]:
        """The names of the rounds with a run for each partition, in order; empty without partitions."""
        return []

    @classmethod
    def named(cls, given: Any) -> str:
        return f"{describe_field(given, 'dataset')}/{describe_field(given, 'name')}"

    @field_validator("schedule")
    @classmethod
    def _check_schedule(cls, schedule: str | None) -> str | None:
        if schedule is not None:
            try:
                dg.ScheduleDefinition(job_name="any", cron_schedule=schedule)
            except dg.DagsterInvalidDefinitionError:
                raise ValueError(f"{schedule!r} is not a cron expression such as '0 6 1 * *'") from None
        return schedule

    def design(self, dataset: DatasetDeclaration, **sources: Any) -> Any:
        """The mechanism's design, derived from the declaration, the dataset, and the release that it reads, if any.

        Raises ValueError if the declaration contradicts itself or the dataset. The message names field and rule.
        """
        raise NotImplementedError


_Line = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_LINE)]

_AgencyId = Annotated[
    str, StringConstraints(max_length=100, pattern=r"^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*$")
]

_Url = Annotated[str, StringConstraints(max_length=1000, pattern=r"^https?://[^\s]+$")]


class Publisher(Declaration):
    """The publisher of a deployment's releases, for certificates and data dictionaries only.

    Certificates show each missing field as not declared.
    """

    declares = "publisher"

    authority: _Line | SkipJsonSchema[None] = Field(None, description="The office that publishes, by its full name.")
    contact: _Line | SkipJsonSchema[None] = Field(
        None, description="How readers reach the office: an e-mail address, or the address of a page."
    )
    license: (
        Annotated[str, StringConstraints(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9.+-]*$")]
        | SkipJsonSchema[None]
    ) = Field(None, description="The license of the published data, by its SPDX identifier, such as CC-BY-4.0.")
    license_url: _Url | SkipJsonSchema[None] = Field(None, description="The address of the license's text.")
    agency: _AgencyId = Field(
        "ZZZ",
        description="The office's id in SDMX, as the agency that maintains the structures; ZZZ if the office has none.",
    )
    formats: Formats = Field((), description=f"{_FORMATS} A release that declares `formats` replaces them.")

    @classmethod
    def named(cls, given: Any) -> str:
        return "of all releases"


UNDECLARED = Publisher.model_validate({})


@dataclass(frozen=True)
class Release:
    """A declared release. Each mechanism has a subclass with the types of its declaration and its design.

    Raises DeclarationError if the declaration contradicts the dataset.

    Attributes:
        address: the address under which the folder of publications is served; "" if it is not.
    """

    declaration: ReleaseDeclaration
    dataset: DatasetDeclaration
    design: Any
    published: Path
    publisher: Publisher = field(default=UNDECLARED, kw_only=True)
    address: str = field(default="", kw_only=True)

    def adapt(self, warehouse: Warehouse) -> Warehouse:
        """The warehouse as the sessions of this release open it."""
        return warehouse

    @classmethod
    def from_declaration(
        cls, declaration: ReleaseDeclaration, dataset: DatasetDeclaration, published: Path, address: str, **sources: Any
    ) -> Self:
        """The declared release; `sources` are the further fields of a release that reads another one."""
        try:
            design = declaration.design(dataset, **sources)
        except DeclarationError:
            raise
        except (RefusedError, ValueError) as error:
            raise DeclarationError(f"release {declaration.dataset}/{declaration.name}: {error}") from None
        return cls(declaration, dataset, design, published, address=address, **sources)

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def title(self) -> str:
        return self.declaration.title

    @property
    def description(self) -> str:
        return self.declaration.description

    @property
    def custody(self) -> CustodyMode:
        return self.declaration.custody

    @property
    def formats(self) -> tuple[Format, ...]:
        return self.publisher.formats if self.declaration.formats is None else self.declaration.formats

    @property
    def can_replay(self) -> bool:
        return self.custody is CustodyMode.ESCROWED

    def refuse(self, reason: str) -> NoReturn:
        """Reject the declaration. Always raises DeclarationError."""
        raise DeclarationError(f"release {self.dataset.name}/{self.name}: {reason}")

    @property
    def has_finite_loss(self) -> bool:
        """Whether the loss of the release is finite, as declared. Mechanisms without a finite loss override it."""
        return True

    def require_allowed(self) -> None:
        """Raise DeclarationError if the loss is not finite and the dataset does not allow such releases."""
        if not self.has_finite_loss and not self.dataset.allows_unbounded_releases:
            self.refuse(
                "no finite loss bounds it (ε = ∞); such a release is made only of a dataset that is synthetic or "
                "public, or declares unbounded_releases: allowed"
            )

    @property
    def specification(self) -> Specification:
        """The DP specification of every draw, in mechanisms whose loss follows from the declaration alone."""
        specification: Specification = self.design.specification(self.dataset.name)
        return specification

    @property
    def declared_specification(self) -> Specification | None:
        """The DP specification of every draw, if there are draws and it follows from the declaration alone."""
        return self.specification if self.declaration.charges else None

    @property
    def counted_with(self) -> Mapping[str, Any]:
        """The parameters of the tables that the charge reads, as plain values; none by default."""
        return {}

    @property
    def columns_read(self) -> Collection[str]:
        """The variables of the CEF that the draw reads; by default all. The draw's id depends on their recodes too."""
        return [name for records in self.dataset.tables.values() for name in records.variables]

    @property
    def counted_as(self) -> Mapping[str, Any]:
        """The declared rules by which values or records are counted as others or left out, such as bounds of amounts,
        as plain values; none by default. As with recodes, other rules change the version of the counted data even if
        all counts stay the same, so that the version discloses no more of the records."""
        return {}

    def of_part(self, part: str) -> Self:
        """The same release, for a partition of the dataset."""
        return replace(self, dataset=self.dataset.parts[part])

    def require_sealed(self, session: Session, custody: Custody, stage: str, tables: Sequence[Table]) -> None:
        """Raise SealError unless the tables are exactly as a stage sealed them, from the current records and
        declaration."""
        counted = read_basis(session, custody, self.dataset, self.counted_with)
        require_sealed(session, custody, self.schema, stage, tables, counted)

    def version_key(self, custody: Custody) -> bytes:
        """The key of versions of the confidential data that the draw reads."""
        recoded = with_recodes(custody.version_key(), self.dataset.recodes(self.columns_read))
        return with_recodes(recoded, self.counted_as)

    zones: ClassVar[Sequence[Zone]] = (Zone.CONFIDENTIAL, Zone.PUBLIC)
    """The zones that its gates read."""

    @property
    def schema(self) -> str:
        """The schema of the release's tables in both zones, `<dataset>__<release>`."""
        return f"{self.dataset.name}__{self.name}"

    def public(self, name: str) -> Table:
        return Table(Zone.PUBLIC, self.schema, name)

    def confidential(self, name: str) -> Table:
        return Table(Zone.CONFIDENTIAL, self.schema, name)

    def key(self, stage: str) -> dg.AssetKey:
        """The asset key of a stage; `cef` is a stage of the dataset."""
        return dg.AssetKey([self.dataset.name, *([] if stage == CEF else [self.name]), stage])

    @property
    def folder(self) -> Path:
        return self.published / self.dataset.name / self.name

    @property
    def drawn_as(self) -> str:
        """The release of the dataset whose draws this one publishes: by default itself; "" if it publishes no draws."""
        return self.name

    def find_name_problem(self, custody: Custody, entries: Sequence[Entry]) -> str:
        """Why the name cannot be used: an edition under it, even a withdrawn one, has a draw of another release; "" if
        it can.

        Otherwise two editions would have one number, and the withdrawal of a release would miss its edition under
        another release's name. Raises CustodyError as `Custody.read_editions`.
        """
        names = {
            entry.draw_id: entry.release
            for entry in entries
            if entry.kind == RESERVE and entry.dataset == self.dataset.name
        }
        for edition, (draw_id, _) in custody.read_editions(self.dataset.name, self.name).items():
            drawn_as = names.get(draw_id, "")
            if edition != CURRENT and drawn_as != self.drawn_as:
                of = f"made from a draw of {drawn_as}" if drawn_as else "of no draw in the ledger"
                return f"name: edition {edition} of {self.dataset.name}/{self.name} is {of}; choose another name"
        return ""
