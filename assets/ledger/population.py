"""A population: the datasets about the same people, whose charges add up under one cap."""

from collections.abc import Iterable
from dataclasses import dataclass

from assets.conventions import join_names
from assets.release.dataset import DatasetDeclaration
from assets.release.release import DeclarationError
from mechanisms.accounting.losses import Loss, format_loss


@dataclass(frozen=True)
class Population:
    """The datasets about the same people, whose charges add up under one cap.

    Attributes:
        datasets: its datasets, at least one, all with the same cap.

    Raises:
        DeclarationError: if two datasets declare different caps, or only one of them needs an authorization before it
            is charged, or allows releases without a finite loss.
    """

    name: str
    datasets: tuple[DatasetDeclaration, ...]

    def __post_init__(self) -> None:
        first, *others = self.datasets
        cap = format_loss(self.cap)
        for other in others:
            if other.cap != first.cap:
                raise DeclarationError(
                    f"population {self.name}: cap: datasets {first.name} and {other.name} declare different caps "
                    f"({cap} and {format_loss(other.cap or self.cap)}); the cap belongs to the population"
                )
            if other.asks != first.asks:
                raise DeclarationError(
                    f"population {self.name}: charging: datasets {first.name} and {other.name} disagree; one that is "
                    "charged automatically would spend the budget of a dataset that asks"
                )
            if other.allows_unbounded_releases != first.allows_unbounded_releases:
                raise DeclarationError(
                    f"population {self.name}: unbounded_releases: datasets {first.name} and {other.name} disagree; an "
                    "unbounded release of one is about the people of the other too"
                )

    @property
    def cap(self) -> Loss:
        cap = self.datasets[0].cap
        assert cap is not None, "public datasets are in no population"
        return cap

    @property
    def allows_unbounded_releases(self) -> bool:
        return self.datasets[0].allows_unbounded_releases

    @property
    def title(self) -> str:
        return join_names([dataset.title for dataset in self.datasets])


def group_populations(datasets: Iterable[DatasetDeclaration]) -> tuple[Population, ...]:
    """The populations of a deployment, in the order of their first datasets. Public datasets are not charged and belong
    to no population.

    Raises:
        DeclarationError: if two datasets of a population declare different caps, or a population has the name of a
            dataset that belongs to another one.
    """
    datasets = list(datasets)
    members: dict[str, list[DatasetDeclaration]] = {}
    for dataset in datasets:
        if not dataset.public:
            members.setdefault(dataset.population, []).append(dataset)
    for dataset in datasets:
        if dataset.public and dataset.name in members:
            raise DeclarationError(
                f"dataset {dataset.name} is public, and no population that another dataset may declare"
            )
        if dataset.name in members and dataset.population != dataset.name:
            raise DeclarationError(
                f"dataset {dataset.name} belongs to population {dataset.population}, but another dataset declares "
                f"population: {dataset.name}; a population may have the name of a dataset only if it contains it"
            )
    return tuple(Population(name, tuple(of_name)) for name, of_name in members.items())
