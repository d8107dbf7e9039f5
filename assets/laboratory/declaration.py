"""The fields of a laboratory in YAML, except its methods, which are in `orchestration.components.laboratory`."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic.json_schema import SkipJsonSchema

from assets.cef.census import RACE_CODES
from assets.laboratory.measures import (
    ATTACKERS,
    BASELINE,
    FURTHER_MEASURES,
    GAIN,
    LINK,
    MEASURES,
    TABLES,
    UNDOING,
    find_obstacle,
)
from assets.laboratory.points import Exact, Point
from assets.release.dataset import DatasetDeclaration
from assets.release.declaration import Declaration, describe_field
from assets.release.names import Name, ReleaseName
from assets.release.numbers import shown
from assets.release.release import DeclarationError
from mechanisms.risk.tiers import TIERS

_RESERVED = (*ATTACKERS, BASELINE, TABLES)
AttackerName = Literal[
    "reconstruct",
    "link",
    "likeliest",
    "margin",
    "difference",
    "pairs",
    "undo",
    "aware",
    "aware_of_households",
    "poor_link",
]


def _require_measure(name: str) -> str:
    if name not in MEASURES:
        raise ValueError(f"{shown(name)} is no measure; there are {'; '.join(MEASURES)}")
    return name


Metric = Annotated[str, AfterValidator(_require_measure)]
ImportPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$", max_length=300)]


class LaboratoryDeclaration(Declaration):
    """A comparison of methods on one synthetic dataset."""

    declares = "laboratory"

    name: ReleaseName
    dataset: str = Field(description="The name of a synthetic dataset in the layout of the census.")
    title: str = Field(min_length=1, description="The comparison's name in words.")
    description: str = Field("", description="What is compared, and why.")
    tier: Literal["T1", "T2", "T3", "T4-households", "T4-groups"] = Field(
        description="Which tables are published for each block by every method. T1: race and ethnicity, of "
        "all and of adults (P1 to P4), persons in group quarters (P5) and housing units (H1). T2: these, and sex by "
        "age, also by race (P12, P12A to P12I, P14). T3: these, and for the tract sex by single years of age, also by "
        "race (PCT12, PCT12A to PCT12O). T4-households: PHSafe's tables of households. T4-groups: SafeTab-P's tables "
        "of regional racial groups. T1 to T3 need a dataset with types of group quarters; T2 and T3 one with sex "
        "too (detailed_codes or dhc); T4-groups one with detailed_codes."
    )
    tracts: int = Field(
        5, ge=1, le=1000, strict=True, description="The number of tracts, spread over all of the dataset."
    )
    counties: Annotated[int, Field(ge=1, le=1000, strict=True)] | SkipJsonSchema[None] = Field(
        None,
        description="In tiers T1 and T2, in place of tracts: the number of counties, spread over all of the dataset, "
        "each with all of its tracts. Swaps then cross tracts, and TopDown and the DHC measure the county too.",
    )
    draws: int = Field(
        20, ge=1, le=1000, strict=True, description="The number of draws of each method with each of its parameters."
    )
    targets: int = Field(
        20,
        ge=0,
        le=10_000,
        strict=True,
        description="The number of persons of each tract and draw whose gain is measured: how much the accuracy of an "
        "attack on them rises because they are in the data. Half of them are chosen from those whom the tables expose "
        "most, half from the rest. With 0, no gain is measured.",
    )
    attackers: tuple[AttackerName, ...] = Field(
        ("reconstruct", "link", "likeliest", "margin", "difference", "pairs"),
        description="Who attacks each draw; attackers leave out draws that they cannot attack. `reconstruct` has no "
        "prior knowledge; `link`, `likeliest` and `margin` know everybody's block, sex and age; `difference` knows "
        "all records but one; `pairs` knows all records, but not whether two were exchanged. `undo`, `aware` and "
        "`aware_of_households` look for swapped persons in other blocks; the last two know the swap rate too, and the "
        "last knows who lives together. `poor_link` has a file with errors. The page “Attackers and measures of risk” "
        "has the details.",
    )
    metrics: tuple[Metric, ...] | SkipJsonSchema[None] = Field(
        None,
        min_length=1,
        description="The measures to compute, by their names in the results' dictionary.csv; by default, all but "
        f"{' and '.join(f'“{name}”' for name in FURTHER_MEASURES)}. Pictures need mean absolute error, and either "
        "accuracy or gain.",
    )
    attacks: dict[Name, ImportPath] = Field(
        default_factory=dict,
        description="Attacks of your own, each with a name and the import path, module:function, of a function that "
        "takes a publication and an attacker's file and returns guesses.",
    )
    attack_seconds: int = Field(
        600,
        ge=1,
        le=86_400,
        strict=True,
        description="The longest time that an attack of your own may take for one publication, in seconds.",
    )

    @property
    @abstractmethod
    def grid(self) -> Sequence[Point]:
        """The points of all methods, without no protection."""

    @property
    @abstractmethod
    def codes_of_groups(self) -> Mapping[str, int]:
        """By code of race, the number of its group in `T4-groups`."""

    @classmethod
    def named(cls, given: Any) -> str:
        return f"{describe_field(given, 'dataset')}/{describe_field(given, 'name')}"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if taken := [name for name in self.attacks if name in _RESERVED]:
            raise ValueError(f"attacks: {taken[0]}: a built-in attack has this name")
        if repeated := [name for name in self.attackers if self.attackers.count(name) > 1]:
            raise ValueError(f"attackers: {repeated[0]}: it is declared twice")
        undoing = [name for name in self.attackers if name in UNDOING]
        if undoing and self.tier.startswith("T4"):
            raise ValueError(f"attackers: {undoing[0]}: there is no reconstruction of records in tier {self.tier}")
        if self.counties is not None:
            if "tracts" in self.model_fields_set:
                raise ValueError("counties: there are tracts too; declare one of them")
            if self.tier not in ("T1", "T2"):
                raise ValueError(f"counties: tier {self.tier} is not built for them; it is for T1, T2")
        elif alone := [point for point in self.points if point.needs_counties]:
            raise ValueError(f"methods: {alone[0].key}: it needs counties")
        # A researcher's own attack guesses, as the built-in ones do.
        attackers = {*self.attackers, *([LINK] if self.attacks else [])}
        for metric in self.metrics or ():
            if obstacle := find_obstacle(metric, self.tier, attackers):
                raise ValueError(f"metrics: {metric}: {obstacle}")
        if GAIN in (self.metrics or ()) and not self.targets:
            raise ValueError(f"metrics: {GAIN}: it needs targets")
        keys = [point.key for point in self.points]
        if of_points := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"methods: {min(of_points)}: it is declared twice, or is the same to six digits")
        for point in self.points:
            try:
                point.require(TIERS[self.tier])
            except ValueError as error:
                raise ValueError(f"methods: {error}") from None
        return self

    @property
    def points(self) -> Sequence[Point]:
        """All points, starting with no protection."""
        return [Exact(), *self.grid]

    @property
    def measured(self) -> frozenset[str]:
        """The measures to make."""
        return frozenset(MEASURES.keys() - FURTHER_MEASURES if self.metrics is None else self.metrics)

    @property
    def chosen(self) -> dict[str, Any]:
        """The declared attackers if they are not the default ones, and the declared metrics if there are any."""
        default = type(self).model_fields["attackers"].default
        attackers = {} if set(self.attackers) == set(default) else {"attackers": sorted(self.attackers)}
        return attackers | ({} if self.metrics is None else {"metrics": sorted(self.metrics)})

    @property
    def group(self) -> str:
        """The schema of the tables and the group of the assets, `<dataset>__<name>`."""
        return f"{self.dataset}__{self.name}"

    def require_dataset(self, dataset: DatasetDeclaration) -> None:
        """Raise DeclarationError unless the dataset is synthetic and has the columns that the tier needs."""
        where = f"laboratory {self.dataset}/{self.name}: dataset"
        if not dataset.synthetic:
            raise DeclarationError(
                f"{where}: {dataset.name} is not declared synthetic. A laboratory gives its draws to attacks and "
                "shows how far they are right, charging nothing; so it takes no confidential records, nor public ones "
                "about real people"
            )
        units, persons = (dataset.tables.get(name) for name in ("units", "persons"))
        needed = {"RTYPE", "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK"}
        of_persons = {"QAGE"}
        if self.tier == "T4-households":
            needed |= {"TEN", "HHT", "HHT2", "HHRACE", "HHSPAN"}
        elif self.tier == "T4-groups":
            of_persons |= {"QSEX", *RACE_CODES}
        else:
            needed |= {"GQTYPE"}
            of_persons |= {"CENRACE", "CENHISP"} | (set() if self.tier == "T1" else {"QSEX"})
        columns = set(units.columns if units else ()), set(persons.columns if persons else ())
        if missing := sorted((needed - columns[0]) | (of_persons - columns[1])):
            raise DeclarationError(f"{where}: {dataset.name} has no {', '.join(missing)}, which tier {self.tier} needs")
