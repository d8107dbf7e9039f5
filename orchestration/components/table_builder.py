"""The component of a release by the table builder, which declares several hypercubes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import dagster as dg
import pyarrow as pa

from assets.conventions import escape_markdown
from assets.release.dataset import DatasetDeclaration
from assets.release.method import PREFLIGHT
from assets.release.release import DeclarationError
from assets.table_builder.declaration import (
    HypercubeAttributes,
    HypercubeDeclaration,
    StatisticDeclaration,
    TableBuilderDeclaration,
)
from assets.table_builder.release import HypercubeRelease
from assets.table_builder.statistics import StatisticRelease
from orchestration.components.release import COMPONENTS, DeclaresReleases, ReleaseComponent
from orchestration.planning import list_given_fields

if TYPE_CHECKING:
    from assets.publication.tables import PublishedTables


@dataclass
class SingleHypercube(ReleaseComponent):
    """One hypercube of a release by the table builder, with the release whose withheld records it counts, if any."""

    withholding: ReleaseComponent | None = None
    among: TableBuilderDeclaration | None = field(default=None, compare=False)
    """The declaration of all hypercubes that are declared together."""

    declared_by: ClassVar[type[HypercubeDeclaration]] = HypercubeDeclaration
    release_type: ClassVar[type[HypercubeRelease]] = HypercubeRelease
    method_name = "assets.table_builder.method:TableBuilderMethod"

    def sources(self, dataset: DatasetDeclaration, published: Path) -> Mapping[str, Any]:
        if self.withholding is None:
            return {"withheld": None}
        return {"withheld": self.withholding.method(self.withholding.release(dataset, published)).withheld_records}

    @property
    def type_name(self) -> str:
        return f"{COMPONENTS}.{TableBuilder.__name__}"

    @property
    def of(self) -> str:
        """The hypercube as a release, `dataset/release`."""
        return f"{self.declaration.dataset}/{self.attributes.name}_{self.draft.name}"

    @property
    def draft(self) -> HypercubeAttributes:
        name = self.declaration.hypercube.name
        return next(cube for cube in self.attributes.hypercubes if cube.name == name)

    @property
    def attributes(self) -> TableBuilderDeclaration:
        assert self.among is not None
        return self.among

    def with_fields(self, given: Mapping[str, Any]) -> Self:
        # Validated as part of the release, so that errors begin with the release and the field.
        shared = list_given_fields(self.declaration)
        shared.pop("statistic", None)
        cube = HypercubeDeclaration.model_validate(shared | {"hypercube": given}).hypercube
        among = self.attributes
        if cube.swapped != self.draft.swapped:
            raise DeclarationError(
                f"release {self.named}: swapped: declare the hypercube with other records first, and plan it then"
            )
        changed = among.model_copy(
            update={"hypercubes": [cube if other.name == cube.name else other for other in among.hypercubes]}
        )
        named = (single for single in changed.by_hypercube() if single.name == self.declaration.name)
        if (declaration := next(named, None)) is None:
            raise DeclarationError(f"release {self.named}: plan: the planned hypercube has no such statistic")
        return replace(self, declaration=declaration, among=changed)


@dataclass
class SingleStatistic(SingleHypercube):
    """Quantiles or moments of one hypercube."""

    declared_by = StatisticDeclaration
    release_type = StatisticRelease
    method_name = "assets.table_builder.statistics_method:StatisticMethod"


@dataclass
class TableBuilder(DeclaresReleases):
    """Hypercubes of perturbed counts, weighted counts or sums, from which any further table can be built."""

    declared_by = TableBuilderDeclaration

    def releases(self, others: Sequence[DeclaresReleases] = ()) -> Sequence[ReleaseComponent]:
        known = {component.named: component for component in others if isinstance(component, ReleaseComponent)}
        dataset = self.declaration.dataset
        return [
            (SingleStatistic if isinstance(declared, StatisticDeclaration) else SingleHypercube)(
                declared, known.get(f"{dataset}/{declared.hypercube.swapped}"), self.declaration
            )
            for declared in self.declaration.by_hypercube()
        ]

    @staticmethod
    def answer(
        published: "Sequence[Mapping[str, PublishedTables]]",
        by: Sequence[str],
        where: Mapping[str, Sequence[str | None]],
    ) -> tuple[list[str], pa.Table]:
        """The names of the hypercubes that answer, and their answer, as `assets.table_builder.asking.answer`."""
        from assets.table_builder.asking import answer

        return answer(published, by, where)

    @staticmethod
    def answer_statistic(
        published: "Mapping[str, PublishedTables]",
        question: str,
        arguments: Sequence[Any],
        by: Sequence[str],
        where: Mapping[str, Sequence[str | None]],
    ) -> tuple[list[str], pa.Table]:
        """As `answer`, by a release of quantiles or moments: the answer to its `question`."""
        from assets.table_builder.statistics_asking import answer

        return answer(published, question, arguments, by, where)

    @staticmethod
    def read_statistic(files: "PublishedTables") -> Any:
        """The publication of quantiles or moments, as `assets.table_builder.statistics_asking` reads it."""
        from assets.table_builder.statistics_asking import read_statistic

        return read_statistic(files)

    @staticmethod
    def remark_on_intervals(answering: "Iterable[PublishedTables]") -> str:
        """What the intervals of answers do not cover, as `assets.table_builder.tables.remark_on_intervals`."""
        from assets.table_builder.tables import remark_on_intervals

        return remark_on_intervals(answering)

    @staticmethod
    def describe_categories(files: "PublishedTables", *, codes: bool) -> Callable[[str, Any], str]:
        """A function that writes a category of a variable as `--where` takes it, with its label unless `codes` is
        set."""
        from assets.table_builder.asking import read_labels, write_category

        labels = {} if codes else read_labels(files)

        def write(variable: str, category: Any) -> str:
            code, label = write_category(category), labels.get(variable, {}).get(str(category), "")
            return f"{code}: {label}" if label.casefold() not in ("", code.casefold()) else code

        return write

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from orchestration.automation import define_job, select_upstream

        hypercubes, dataset = self.releases(), self.declaration.dataset
        title = escape_markdown(self.declaration.title)
        own = dg.AssetSelection.key_prefixes(*([dataset, hypercube.declaration.name] for hypercube in hypercubes))
        prices = dg.AssetSelection.assets(*(hypercube.key(PREFLIGHT) for hypercube in hypercubes))
        every = define_job(
            f"{dataset}__{self.declaration.name}",
            select_upstream(own) - prices,
            f"{title}: every hypercube, from the source to its publication, with every check. Each new draw is "
            "authorized by itself.",
            writes=dataset,
        )
        price = define_job(
            f"{PREFLIGHT}__{dataset}__{self.declaration.name}",
            select_upstream(prices),
            f"{title}: the next charge of every hypercube, and its reason. Draws and charges nothing.",
            writes=dataset,
        )
        return dg.Definitions.merge(super().build_defs(context), dg.Definitions(jobs=[every, price]))
