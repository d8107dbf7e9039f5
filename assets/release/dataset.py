"""The declaration of a dataset: its source, its tables, its columns and their domains.

This module defines the typed declaration and the rules that hold for it whatever the source. `assets.cef.readers` reads
the source, and `assets.cef.validation` checks its rows.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from assets.release.columns import ColumnType, RecordTable, Role, name_error, title_columns
from assets.release.declaration import Declaration
from assets.release.names import DatasetName, Noun, can_end_names
from assets.release.numbers import EXPONENT, FRACTION, LARGEST_NUMBER, exact_delta, positive_fraction
from assets.release.rectangular import DividedColumns, Rectangular, divide_columns
from assets.release.stage_names import CEF as CEF
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, CurveLoss, Loss, PureLoss
from mechanisms.accounting.specification import PERSON, PERSON_RECORD
from resources.statements import Table, Zone


class Reader(StrEnum):
    """The source of the records."""

    CSV = "csv"
    PARQUET = "parquet"
    PIPE_SEPARATED = "pipe_separated"
    """Text separated by `|`, the input files of SafeTab (`assets.cef.census`)."""
    DDI = "ddi"
    """Fixed-width text with a DDI codebook: an extract of IPUMS (`assets.cef.extracts`)."""
    STATA = "stata"
    SPSS = "spss"
    SAS = "sas"
    MA1940 = "ma1940"
    SYNTHETIC_CENSUS = "synthetic_census"
    SYNTHETIC_SURVEY = "synthetic_survey"

    @property
    def built_in(self) -> bool:
        """Whether the records do not come from a file of the user."""
        return self in (Reader.MA1940, Reader.SYNTHETIC_CENSUS, Reader.SYNTHETIC_SURVEY)


_READERS = ["csv", "parquet", "ddi", "stata", "spss", "sas", "ma1940"]

_OTHER_COMPONENTS = {
    Reader.SYNTHETIC_CENSUS: "a synthetic census is declared by the component SyntheticCensus",
    Reader.SYNTHETIC_SURVEY: "a synthetic survey is declared by the component SyntheticSurvey",
    Reader.PIPE_SEPARATED: "files separated by | are declared by the component SafeTabDataset",
}


def _loss(value: object) -> Loss:
    """A declared cap as a loss, whose output premetric determines how the losses of releases are added up."""
    match value:
        case PureLoss() | ConcentratedLoss() | ApproximateLoss():
            return value
        case {"rho": rho, **others} if not others:
            with name_error("rho"):
                return ConcentratedLoss(positive_fraction(rho))
        case {"epsilon": epsilon, "delta": delta, **others} if others in ({}, {"by": "curve"}):
            with name_error("epsilon"):
                pure = PureLoss(positive_fraction(epsilon))
            with name_error("delta"):
                return (CurveLoss if others else ApproximateLoss)(pure, exact_delta(delta))
        case Mapping():
            forms = "{rho: …}, {epsilon: …, delta: …} or {epsilon: …, delta: …, by: curve}"
            raise ValueError(f"the cap is a number (ε), {forms}")
    return PureLoss(positive_fraction(value))


_NUMBER = {"type": ["number", "string"], "exclusiveMinimum": 0, "maximum": LARGEST_NUMBER, "pattern": FRACTION}

Cap = Annotated[
    Loss,
    BeforeValidator(_loss),
    WithJsonSchema(
        {
            **_NUMBER,
            "type": ["number", "string", "object"],
            "properties": dict.fromkeys(("rho", "epsilon"), _NUMBER)
            | {"delta": _NUMBER | {"pattern": f"{FRACTION}|{EXPONENT}"}, "by": {"const": "curve"}},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 3,
            "dependentRequired": {"epsilon": ["delta"], "delta": ["epsilon"], "by": ["delta"]},
            "dependentSchemas": {"rho": {"maxProperties": 1}},
        }
    ),
]


CEF_OF_PARTS = "cef_of_parts"
"""The stage before the CEF that reads the records of each partition, in a run of its own."""

OF_PART = "__parts__"
"""The separator between the names of a dataset and of a partition, in the schema of the partition's records. Names of
datasets and releases never contain two underscores in a row."""

PART = "{part}"
"""The placeholder for the key of a partition in the paths of its files."""

DROPPED = "dropped"
"""The confidential table with the number of records left out, by table, if the dataset leaves any out."""

CEF_TABLES = ("units", "persons", "households")
"""The names of all tables that the CEF of a dataset can have. Only SafeTab's files have a table of households."""


Charging = Literal["ask", "automatic"]
"""Whether a new draw needs an authorization."""

Partitions = Annotated[tuple[str, ...], Field(min_length=1)]

Copies = Annotated[int, Field(strict=True, ge=1, le=1000)]
"""The most records that have the answers of one person."""

UnboundedReleases = Literal["refused", "allowed"]
"""Whether releases without a finite loss (ε = ∞) may be charged."""


@dataclass(frozen=True)
class Rule:
    """A rule that the records of a layout must satisfy together, beyond the rules of single rows and keys.

    Attributes:
        table, column: where violating rows are counted.
        offence: a description of the violation, without a value of any record.
        needs: a column that not every dataset of the layout has, in any table. The rule does not apply without it.
    """

    table: str
    column: str
    offence: str
    needs: str | None = None


@dataclass(frozen=True)
class Structure:
    """The rules of a layout. `assets.cef.validation` counts their violations.

    Attributes:
        statement: the SQL statement over the dataset's tables that returns one row, with the number of violations of
            each rule in a column with the rule's name. Its placeholder `rules` lists the rules that apply.
    """

    statement: str
    rules: Mapping[str, Rule]

    def select_rules(self, columns: Collection[str]) -> dict[str, Rule]:
        return {name: rule for name, rule in self.rules.items() if rule.needs is None or rule.needs in columns}


@dataclass(frozen=True)
class Size:
    """The expected size of a dataset. It follows from public facts, never from the records.

    `places` is, by geographic column of the census layout, the number of places that the column distinguishes.
    """

    units: int
    persons: int
    places: Mapping[str, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return self.units + self.persons

    def places_of(self, columns: Collection[str]) -> int:
        """The number of places that the codes of these columns distinguish; 1 without columns. A column that `places`
        lacks counts as many as there are units."""
        return max((self.places.get(column, self.units) for column in columns), default=1)


_NAME = TypeAdapter[str](DatasetName)


def require_cap(schema: dict[str, Any]) -> None:
    """Require a cap, except for public records."""
    schema["if"] = {"properties": {"public": {"const": True}}, "required": ["public"]}
    schema["else"] = {"required": ["cap"]}


def _complete_schema(schema: dict[str, Any]) -> None:
    """Do not require units if a rectangular file is declared, because units are made from it."""
    schema["required"] = [field for field in schema["required"] if field != "units"]
    require_cap(schema)


class DatasetDeclaration(Declaration):
    """One vintage of confidential microdata: units, with or without persons in them."""

    model_config = ConfigDict(json_schema_extra=_complete_schema)

    declares = "dataset"

    name: DatasetName
    title: str = Field(min_length=1, description="The dataset's name in words.")
    description: str = Field("", description="Where the records come from and what they are.")
    synthetic: bool = Field(
        False,
        description="Whether the records are made up, so that experiments may draw from them without a charge. Refused "
        "if a release from the population was charged before as confidential.",
    )
    public: bool = Field(
        False,
        description="Whether the records were published before, such as public-use samples (PUMS) or the Census "
        "Bureau's privacy-protected microdata (PPMF), so that draws from them are not charged. The first draw needs an "
        "authorization with the reason why they are public.",
    )
    source: str = Field(
        "",
        description="Who published the records, if they are public, and where: a citation or an address. Certificates "
        "and the pages of the UI show it.",
    )
    reader: Annotated[Reader, WithJsonSchema({"enum": _READERS})] = Field(
        description="csv, parquet, ddi (fixed-width text with a codebook, as IPUMS has it), stata, spss, sas, or the "
        "built-in ma1940 (dwellings of Massachusetts in 1940, reconstructed)."
    )
    record_name: Noun = Field("unit", description="What a unit is called, such as household.")
    units: RecordTable = Field(
        description="The table of units, with one record for each unit; required unless the file is rectangular."
    )
    persons: RecordTable | SkipJsonSchema[None] = Field(
        None, description="The table of persons, each of whom is in one unit."
    )
    rectangular: Rectangular | SkipJsonSchema[None] = Field(
        None,
        description="For a source with one file, of persons, which repeats the columns of the household on each row. "
        "Stirred makes the table of units from these columns.",
    )
    population: DatasetName = Field(
        "",
        description="The people in the records; by default, the dataset's name. Datasets about the same people, such "
        "as two vintages, declare the same population.",
    )
    cap: Cap | SkipJsonSchema[None] = Field(
        None,
        description="The greatest loss that all releases from the population's datasets may have together: ε as a "
        "number or a fraction such as 1/2; or {rho: 5} in zCDP; or {epsilon: 20, delta: 1/10000000000}. If the last "
        "form also has `by: curve`, it caps the privacy curve of all charges; such a cap guarantees nothing if a "
        "budget is chosen after a look at noisy results. Only public datasets need no cap.",
    )
    copies: Copies = Field(
        1,
        description="The largest number k of records that can have one person's answers, if editing or imputation "
        "copied answers. The loss of such a person is up to k times ε or k² times ρ; certificates and the composition "
        "state it beside each loss, so the number is public. Stirred checks it against a column of role donor, if "
        "there is one.",
    )
    charging: Charging | SkipJsonSchema[None] = Field(
        None,
        description="ask: a new draw needs an authorization that names its loss; automatic: it needs none. The "
        "default is ask, but automatic for a synthetic dataset.",
    )
    unbounded_releases: UnboundedReleases | SkipJsonSchema[None] = Field(
        None,
        description="Whether releases without a finite loss (ε = ∞), which no cap bounds, are refused or allowed. "
        "The default is refused, but allowed for a synthetic dataset.",
    )

    partitions: Partitions | SkipJsonSchema[None] = Field(
        None,
        description="The keys of the parts that the source is divided into, such as the codes of states: ASCII "
        "letters and digits. Each part has files of its own, whose paths have the part's key in place of {part}. "
        "Persons must be in the same part as their unit. A run for each part reads and checks its records, and for "
        "some kinds of release counts them; several machines can execute these runs at the same time. Draws and "
        "publications are the same as from a single file.",
    )

    @field_validator("reader")
    @classmethod
    def _check_reader(cls, reader: Reader) -> Reader:
        if reader in _OTHER_COMPONENTS:
            raise ValueError(_OTHER_COMPONENTS[reader])
        return reader

    @classmethod
    def prepare(cls, given: Any) -> Any:
        return divide_columns(given)

    @model_validator(mode="before")
    @classmethod
    def _name_population(cls, fields: Any) -> Any:
        """Without a named population, a dataset is the only one about its population."""
        if not isinstance(fields, Mapping) or fields.get("population") is not None:
            return fields
        try:
            return {**fields, "population": _NAME.validate_python(fields.get("name"))}
        except ValidationError:
            # The field `name` is refused by itself, once.
            return {field: value for field, value in fields.items() if field != "population"}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.units.unit is not None:
            raise ValueError(f"units: column {self.units.unit} has role unit, which is for persons")
        self._check_budget()
        for table, records in self.tables.items():
            self._check_source(table, records)
        for table, records in self.tables.items():
            self._check_columns(table, records)
        if self.partitions is not None:
            self._check_partitions(self.partitions)
        if self.persons is not None:
            self._check_persons(self.persons)
        elif self.record_name == PERSON:
            self._check_records_of_persons()
        return self

    def _check_source(self, table: str, records: RecordTable) -> None:
        if not self.reader.built_in and records.path is None and table in self.files:
            raise ValueError(f"{table}: path is required with reader {self.reader.value}")
        if self.reader.built_in and (records.path or records.geography_path) is not None:
            raise ValueError(f"{table}: reader {self.reader.value} is built in and takes no path")
        if records.csv is not None and self.reader is not Reader.CSV:
            raise ValueError(f"{table}: csv is for reader csv, not {self.reader.value}")
        needed = self.reader is Reader.DDI and table in self.files
        if (records.codebook is not None) is not needed:
            raise ValueError(f"{table}: codebook: it is required with reader ddi, and other readers take none")
        if records.record_type is not None and records.codebook is None:
            raise ValueError(f"{table}: record_type: it is for a table with a codebook")
        if self.reader is Reader.DDI and records.geography_path is not None:
            raise ValueError(f"{table}: geography_path: reader ddi takes none")

    def _check_columns(self, table: str, records: RecordTable) -> None:
        if records.donor is not None:
            if "copies" not in self.model_fields_set:
                raise ValueError(
                    f"copies: {table} has a donor column: declare how many records may have a person's answers"
                )
            if self.rectangular is not None and table == "units":
                raise ValueError(f"units: column {records.donor}: in a rectangular file, donors are persons")
        for name, column in records.columns.items():
            if column.depends_on_persons is not None and name not in records.variables:
                raise ValueError(f"{table}: column {name}: depends_on_persons is for variables")

    def _check_persons(self, persons: RecordTable) -> None:
        if self.reader is Reader.MA1940:
            raise ValueError("persons: reader ma1940 has units only")
        if self.units.key is None:
            raise ValueError("units: a column of role key is required if there are persons")
        named = [name for name, column in persons.columns.items() if column.role is Role.UNIT]
        if len(named) != 1:
            raise ValueError(f"persons: exactly one column of role unit is required, found {len(named)}")
        if self.rectangular is not None:
            self._check_household(self.rectangular.household, persons)
        if persons.columns[named[0]].type is not self.units.columns[self.units.key].type:
            raise ValueError(f"persons: column {named[0]} and the units' key {self.units.key} differ in type")
        if self.record_name in (PERSON, PERSON_RECORD):
            raise ValueError(f"record_name: units that have persons cannot be called {self.record_name}")
        if not persons.variables:
            raise ValueError("persons: declare at least one column besides key and unit")
        ours = {name.casefold() for name in self.units.variables}
        shared = [name for name in persons.variables if name.casefold() in ours]
        if shared:
            raise ValueError(f"persons: column {shared[0]} has the name of a column of units; rename one of them")

    def _check_records_of_persons(self) -> None:
        """Without households, Stirred cannot know which other persons' records change with a person."""
        for name, column in self.units.columns.items():
            if column.depends_on_persons:
                raise ValueError(
                    f"units: column {name}: depends_on_persons: a change of one person then changes records of others; "
                    f"declare record_name: {PERSON_RECORD} instead"
                )

    def _check_budget(self) -> None:
        if not self.public:
            if self.cap is None:
                raise ValueError("cap: it is missing")
            if self.source:
                raise ValueError("source: it is for public records; declare public: true")
            return
        fields = ("cap", "charging", "unbounded_releases")
        if given := [field for field in fields if getattr(self, field) is not None]:
            raise ValueError(f"{given[0]}: public records are not charged; leave it out")
        if not self.source.strip():
            raise ValueError("source: say who published the public records, and where")
        if self.population != self.name:
            raise ValueError("population: public records belong to no other population; leave it out")
        if self.synthetic:
            raise ValueError("public: synthetic records are about nobody; drop public")

    def _check_partitions(self, keys: Sequence[str]) -> None:
        if not can_end_names(keys):
            raise ValueError(
                "partitions: keys become names of tables, so they must consist of ASCII letters and digits, and differ "
                "in more than upper and lower case"
            )
        if self.reader.built_in or self.rectangular is not None or self.drops_unmatched:
            raise ValueError(
                "partitions: they are for files of units and persons, of which none are generated, rectangular, or "
                "left out"
            )
        for table, records in self.tables.items():
            if records.donor is not None:
                raise ValueError(f"partitions: {table} have donors, which may be in another part")
            for name, path in records.paths.items():
                if PART not in path and name != "codebook":
                    raise ValueError(
                        f"{table}: {name}: it has no {PART}, in whose place a file has the key of its part"
                    )

    def _check_household(self, household: list[str], persons: RecordTable) -> None:
        if self.reader.built_in or persons.geography_path is not None:
            raise ValueError("rectangular: all columns come from one file, without geography_path")
        object.__setattr__(persons, "columns", DividedColumns(persons.columns, self.units.columns))
        key = persons.columns[str(persons.unit)]
        if len(household) == 1:
            if household != [key.source or persons.unit]:
                raise ValueError(f"persons: column {persons.unit} identifies the household: add source: {household[0]}")
        elif key.type is not ColumnType.STRING or key.source is not None:
            raise ValueError(
                f"persons: column {persons.unit} is made of {', '.join(household)}: it is a string without a source"
            )

    @property
    def structure(self) -> Structure | None:
        """The rules that records must satisfy together; None if the layout of the dataset has no such rules."""
        return None

    @property
    def drops_unmatched(self) -> bool:
        """Whether records in no unit are left out of the CEF; otherwise they are refused."""
        return False

    @property
    def files(self) -> dict[str, RecordTable]:
        """The tables as the source has them: `tables`, or one table of persons, with the columns of units."""
        if self.rectangular is None or self.persons is None:
            return self.tables
        columns = {**self.units.columns, **self.persons.columns}
        return {"persons": self.persons.model_copy(update={"columns": columns})}

    @property
    def asks(self) -> bool:
        return not (self.synthetic or self.public) if self.charging is None else self.charging == "ask"

    @property
    def allows_unbounded_releases(self) -> bool:
        if self.unbounded_releases is None:
            return self.synthetic or self.public
        return self.unbounded_releases == "allowed"

    @property
    def tables(self) -> dict[str, RecordTable]:
        return {"units": self.units} | ({"persons": self.persons} if self.persons else {})

    @property
    def is_part(self) -> bool:
        """Whether it is a partition of a dataset (`parts`)."""
        return OF_PART in self.name

    @property
    def parts(self) -> dict[str, Self]:
        """By key, each partition as a dataset of its own, with its files and tables; empty by default."""
        return {key: self._describe_part(key) for key in self.partitions or ()}

    def _describe_part(self, key: str) -> Self:
        tables = {
            name: records.model_copy(update={field: path.replace(PART, key) for field, path in records.paths.items()})
            for name, records in self.tables.items()
        }
        return self.model_copy(update={**tables, "name": f"{self.name}{OF_PART}{key}", "partitions": None})

    def list_files(self) -> list[str]:
        """The paths of all source files, including all partitions."""
        return [
            path
            for each in (self.parts.values() or [self])
            for records in each.tables.values()
            for path in records.paths.values()
        ]

    def list_dependent(self, names: Iterable[str]) -> tuple[str, ...]:
        """The variables of a person's record, including the variables of the unit, that a change of another person of
        the unit can change."""
        persons = self.persons.variables if self.persons else {}
        return tuple(
            name
            for name in names
            if (persons[name].depends_on_persons if name in persons else self.units.variables[name].follows_persons)
        )

    def recodes(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """The conversions of variables (by default all), as plain values that are equal if and only if they mean the
        same."""
        return {
            name: {"source": column.source or name, "type": column.type.value, **conversion}
            for records in self.tables.values()
            for name, column in records.columns.items()
            if (names is None or name in names) and (conversion := column.conversion)
        }

    def describe_reading(self, names: Collection[str]) -> tuple[str, ...]:
        """A text for each of these variables whose source has codes for missing values or 0, or is rounded."""
        columns = {name: column for records in self.tables.values() for name, column in records.columns.items()}
        words = title_columns(columns)
        reading = {name: column.reading_in_words for name, column in columns.items() if name in names}
        return tuple(f"{words[name]}: {sentences}" for name, sentences in reading.items() if sentences)

    def cef_tables(self) -> tuple[Table, ...]:
        """The addresses of the CEF's tables, in the order of `tables`: `units` and, if there are any, `persons`."""
        return tuple(Table(Zone.CONFIDENTIAL, self.name, name) for name in self.tables)
