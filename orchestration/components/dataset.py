"""The components of datasets, which turn a source declared in YAML into the asset of its CEF.

This module turns YAML into declarations. Their fields are in `assets.release.dataset`, the layouts in `assets.cef`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema

from assets.cef.census import (
    PERSON_COLUMNS,
    UNIT_COLUMNS,
    BlockFilesDeclaration,
    BlockGroup,
    CensusDeclaration,
    PlaceNames,
    Unmatched,
    census_persons,
    census_units,
    detailed_files,
    list_optional_columns,
    require_recodes,
)
from assets.cef.published import Product, Records, State, ppmf, pums
from assets.cef.survey import SurveyParameters, synthetic_survey
from assets.cef.synthetic import SyntheticPopulation, synthetic_census
from assets.release.columns import Column
from assets.release.dataset import (
    Cap,
    Charging,
    Copies,
    DatasetDeclaration,
    Partitions,
    Reader,
    UnboundedReleases,
    require_cap,
)
from assets.release.declaration import Declaration
from assets.release.dialect import Dialect
from assets.release.names import ColumnName, DatasetName, SourcePath
from assets.release.numbers import shown
from assets.release.release import DeclarationError
from orchestration.components.scaffolding import DeclaredComponent
from orchestration.environment import fill_in_folder

_PATH = TypeAdapter(SourcePath)

_DESCRIPTIONS = {name: field.description for name, field in CensusDeclaration.model_fields.items()}

FillIn = Callable[[str, str | None], str | None]
"""Fills in the template variables of a path, from the field that declares it and the path, if it is declared."""


@dataclass
class Dataset(DeclaredComponent):
    """One vintage of confidential microdata, read from files and checked against its declaration.

    The attributes are those of `DatasetDeclaration`. Paths may contain template variables such as
    `{{ env.CEF_FOLDER }}`. Everything else is taken literally, so that the code "01" remains text.
    """

    declaration: DatasetDeclaration

    declared_by: ClassVar[type[Declaration]] = DatasetDeclaration
    produces = ("asset", "asset_check")

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> Self:
        """The component, with the template variables of paths filled in. Raises DeclarationError as `fill_in_folder`,
        or if the result is not a path, without the values of variables."""
        attributes: Any = cls.declared_by.model_validate(model)

        def fill_in(field: str, path: str | None) -> str | None:
            if path is None:
                return None
            where = f"dataset {attributes.name}: {field}: {shown(path)}"
            try:
                return _PATH.validate_python(fill_in_folder(path))
            except DeclarationError as error:
                raise DeclarationError(f"{where}: {error}") from None
            except ValidationError:
                raise DeclarationError(f"{where}: with its variables filled in, it is no possible path") from None

        return cls(cls.declare(attributes, fill_in))

    @classmethod
    def declare(cls, attributes: Any, fill_in: FillIn) -> DatasetDeclaration:
        tables = {
            table: records.model_copy(
                update={field: fill_in(f"{table}.{field}", path) for field, path in records.paths.items()}
            )
            for table, records in attributes.tables.items()
        }
        declaration: DatasetDeclaration = attributes.model_copy(update=tables)
        return declaration

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        # Reading files needs libraries that a declaration does not.
        from assets.cef.asset import build_cef

        cef, checks, *by_part = build_cef(self.declaration, context.project_root)
        made = dg.Definitions(assets=[cef, *by_part], asset_checks=[checks])
        if not by_part:
            return made
        from orchestration.automation import part_jobs

        return dg.Definitions.merge(made, part_jobs(self.declaration))


class NamedAttributes(Declaration):
    """The YAML attributes of every dataset whose fields differ from those of `DatasetDeclaration`."""

    declares = "dataset"

    name: DatasetName
    title: str = Field(min_length=1, description=_DESCRIPTIONS["title"])
    description: str = Field("", description=_DESCRIPTIONS["description"])


class DatasetAttributes(NamedAttributes):
    """The YAML attributes of every such dataset that can be charged."""

    population: DatasetName | SkipJsonSchema[None] = Field(None, description=_DESCRIPTIONS["population"])
    cap: Cap = Field(description=_DESCRIPTIONS["cap"])
    charging: Charging | SkipJsonSchema[None] = Field(None, description=_DESCRIPTIONS["charging"])
    unbounded_releases: UnboundedReleases | SkipJsonSchema[None] = Field(
        None, description=_DESCRIPTIONS["unbounded_releases"]
    )


class FileAttributes(DatasetAttributes):
    """The YAML attributes of every such dataset read from files."""

    model_config = ConfigDict(json_schema_extra=require_cap)

    cap: Cap | SkipJsonSchema[None] = Field(None, description=_DESCRIPTIONS["cap"])  # type: ignore[assignment]
    synthetic: bool = Field(False, description=_DESCRIPTIONS["synthetic"])
    public: bool = Field(False, description=_DESCRIPTIONS["public"])
    source: str = Field("", description=_DESCRIPTIONS["source"])
    copies: Copies = Field(1, description=_DESCRIPTIONS["copies"])
    partitions: Partitions | SkipJsonSchema[None] = Field(None, description=_DESCRIPTIONS["partitions"])

    def shared(self) -> dict[str, Any]:
        """The attributes that are also fields of the declaration."""
        return {field: getattr(self, field) for field in FileAttributes.model_fields}


class GeneratedAttributes(DatasetAttributes):
    """The YAML attributes of every generated dataset."""

    title: str = Field("", description="The dataset's name in words; by default it names the states.")
    description: str = Field("", description="The purpose of the dataset; Stirred adds how it was generated.")


class CensusLayoutAttributes(DatasetAttributes):
    """The YAML attributes of every dataset in the production layout, from files or generated."""

    place_names: PlaceNames = Field(default_factory=dict, description=_DESCRIPTIONS["place_names"])
    detailed_codes: bool
    dhc: bool
    recoded_units: dict[ColumnName, Column] = Field(
        default_factory=dict,
        description="Further columns of units or of their geography, each recoded from the column of the layout that "
        "its `source` names.",
    )
    recoded_persons: dict[ColumnName, Column] = Field(
        default_factory=dict, description="Further columns of persons, recoded in the same way."
    )

    @model_validator(mode="after")
    def _check_recodes(self) -> Self:
        units, persons = list_optional_columns(self.detailed_codes, self.dhc)
        recodes = {"recoded_units": self.recoded_units, "recoded_persons": self.recoded_persons}
        require_recodes(UNIT_COLUMNS | units, PERSON_COLUMNS | persons, **recodes)
        return self


class CensusAttributes(FileAttributes, CensusLayoutAttributes):
    """The YAML attributes of a dataset from files in the production layout."""

    format: Literal["csv", "parquet"] = Field(description="The format of all three files.")
    persons: SourcePath = Field(description="The file of persons: absolute, or relative to the project's root.")
    units: SourcePath = Field(description="The file of units.")
    geo: SourcePath = Field(description="The file with the geographic codes of each unit.")
    block_group: BlockGroup = Field("first_digit", description=_DESCRIPTIONS["block_group"])
    group_quarters_types: bool = Field(
        False,
        description="Whether the file of units has the column GQTYPE, the type of group quarters, which a TopDown "
        "release needs. Stirred then checks its codes too.",
    )
    detailed_codes: bool = Field(
        False,
        description="Whether the file of persons has the columns QSEX, QRACE1 to QRACE8 and QSPAN, the sex and the "
        "detailed codes of race and Hispanic origin, which releases by SafeTab need.",
    )
    dhc: bool = Field(
        False,
        description="Whether the file of units has the columns GQTYPE, GQTYPE3 and VACS, and the file of persons QSEX, "
        "which a DHC release needs. Stirred then checks the codes, and that every person and household "
        "is possible in the DHC.",
    )


@dataclass
class CensusDataset(Dataset):
    """A census in the production layout: persons, units and their geography, checked against all its rules."""

    declared_by = CensusAttributes

    @classmethod
    def declare(cls, attributes: Any, fill_in: FillIn) -> CensusDeclaration:
        persons, units, geo = (fill_in(field, getattr(attributes, field)) for field in ("persons", "units", "geo"))
        return CensusDeclaration(
            **attributes.shared(),
            place_names=attributes.place_names,
            block_group=attributes.block_group,
            reader=Reader(attributes.format),
            record_name="unit",
            units=census_units(
                units,
                geo,
                attributes.group_quarters_types,
                attributes.recoded_units,
                attributes.dhc,
                attributes.place_names,
            ),
            persons=census_persons(persons, attributes.recoded_persons, attributes.detailed_codes, attributes.dhc),
        )


class SafeTabAttributes(FileAttributes):
    """The YAML attributes of a dataset from the input files of SafeTab."""

    persons: SourcePath | SkipJsonSchema[None] = Field(
        None,
        description="The file of persons, person-records.txt, which a SafeTabP release needs: absolute, or relative to "
        "the project's root.",
    )
    households: SourcePath | SkipJsonSchema[None] = Field(
        None, description="The file of households, household-records.txt, which a SafeTabH release needs."
    )
    blocks: SourcePath = Field(description="The file of blocks, GRF-C.txt.")
    place_names: PlaceNames = Field(default_factory=dict, description=_DESCRIPTIONS["place_names"])
    unmatched: Unmatched = Field("refuse", description=BlockFilesDeclaration.model_fields["unmatched"].description)

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if self.persons is None and self.households is None:
            raise ValueError("persons: declare the file of persons, of households, or both")
        return self


@dataclass
class SafeTabDataset(Dataset):
    """A census in the input files of SafeTab: persons, households and blocks, as text separated by `|`."""

    declared_by = SafeTabAttributes

    @classmethod
    def declare(cls, attributes: Any, fill_in: FillIn) -> DatasetDeclaration:
        blocks, persons, households = (
            fill_in(field, getattr(attributes, field)) for field in ("blocks", "persons", "households")
        )
        own = {"place_names": attributes.place_names, "unmatched": attributes.unmatched}
        return detailed_files(str(blocks), persons, households, **own, **attributes.shared())


class PublishedAttributes(NamedAttributes):
    """The YAML attributes of every dataset of microdata that the Census Bureau published, which is always public."""

    source: str = Field(
        min_length=1,
        description="Who published the records, and where: a citation or an address. Certificates and the pages of the "
        "UI show it.",
    )
    csv: Dialect | SkipJsonSchema[None] = Field(
        None, description="The format of the files, if they are compressed or do not use commas."
    )

    def described(self) -> dict[str, Any]:
        """The attributes that are also fields of the declaration."""
        return {field: getattr(self, field) for field in ("name", "title", "description", "source")}


class PpmfAttributes(PublishedAttributes):
    """The YAML attributes of a file of the 2020 Privacy-Protected Microdata File."""

    product: Product = Field(
        description="The product whose columns are read: dhc (Demographic and Housing Characteristics) or "
        "redistricting (P.L. 94-171)."
    )
    records: Records = Field(
        description="The records of the file: persons, or units (housing units and group quarters)."
    )
    path: SourcePath = Field(description="The file: absolute, or relative to the project's root.")


@dataclass
class PpmfDataset(Dataset):
    """A file of the 2020 Census's Privacy-Protected Microdata. The records are public, so releases cost no budget."""

    declared_by = PpmfAttributes

    @classmethod
    def declare(cls, attributes: Any, fill_in: FillIn) -> DatasetDeclaration:
        path = str(fill_in("path", attributes.path))
        return ppmf(attributes.product, attributes.records, path, attributes.csv, **attributes.described())


class PumsAttributes(PublishedAttributes):
    """The YAML attributes of the Public Use Microdata Sample of the American Community Survey."""

    housing: SourcePath = Field(
        description="The file of housing units and group quarters, psam_h….csv: absolute, or relative to the project's "
        "root."
    )
    persons: SourcePath = Field(description="The file of persons, psam_p….csv.")
    state: State = Field("STATE", description="The column of the state: STATE from 2023 on, ST before.")


@dataclass
class PumsDataset(Dataset):
    """The Public Use Microdata Sample of the American Community Survey, which is public: nothing is charged."""

    declared_by = PumsAttributes

    @classmethod
    def declare(cls, attributes: Any, fill_in: FillIn) -> DatasetDeclaration:
        housing, persons = (str(fill_in(field, getattr(attributes, field))) for field in ("housing", "persons"))
        return pums(housing, persons, attributes.state, attributes.csv, **attributes.described())


class SyntheticAttributes(GeneratedAttributes, SyntheticPopulation, CensusLayoutAttributes):
    """The YAML attributes of a synthetic census."""


@dataclass
class SyntheticCensus(Dataset):
    """A generated census of any number of households in any states, always marked as synthetic."""

    declared_by = SyntheticAttributes

    @classmethod
    def declare(cls, attributes: Any, fill_in: FillIn) -> DatasetDeclaration:
        fields = dict(attributes)
        population = SyntheticPopulation(**{name: fields.pop(name) for name in SyntheticPopulation.model_fields})
        return synthetic_census(population, **fields)


class SyntheticSurveyAttributes(GeneratedAttributes, SurveyParameters):
    """The YAML attributes of a synthetic survey."""

    recoded_units: dict[ColumnName, Column] = Field(
        default_factory=dict,
        description="Further columns of households, each recoded from the generated column that its `source` names.",
    )
    recoded_persons: dict[ColumnName, Column] = Field(
        default_factory=dict, description="Further columns of persons, recoded in the same way."
    )

    @model_validator(mode="after")
    def _check_recodes(self) -> Self:
        units, persons = self.columns()
        require_recodes(units, persons, recoded_units=self.recoded_units, recoded_persons=self.recoded_persons)
        return self


@dataclass
class SyntheticSurvey(Dataset):
    """A generated survey: persons in sampled households over up to twelve waves, always marked as synthetic.

    Each person is one record, whatever the number of waves. The weights follow from the declared design.
    """

    declared_by = SyntheticSurveyAttributes

    @classmethod
    def declare(cls, attributes: Any, fill_in: FillIn) -> DatasetDeclaration:
        fields = dict(attributes)
        parameters = SurveyParameters(**{name: fields.pop(name) for name in SurveyParameters.model_fields})
        return synthetic_survey(parameters, **fields)
