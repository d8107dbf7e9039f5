"""The interface of a method in the comparison: its grid of parameters, and how it publishes a tract.

A mechanism's own module `laboratory` implements both. `Exact` and `Rounded` need no mechanism.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from assets.laboratory.publication import Publication, Swaps
from assets.laboratory.records import Tract
from assets.release.declaration import Part
from mechanisms.risk.posterior import Law, RoundedLaw
from mechanisms.risk.tiers import REDISTRICTING, TIERS, Counts, Tier

_NOT_PLAIN = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True)
class Draw:
    """A draw of a method.

    Attributes:
        log_ratios: ln of the likelihood ratio of the draw between the true world and worlds where two records exchange
            places, as computed by the method itself: NaN where it is not computed; None if it follows from the
            publication's law.
        bound: the upper bound of these logarithms by the method's theorem; None if it has none.
        records: the counts of the records behind exact tables, shape (blocks, frames, categories); None if there are
            none except the publication's own.
    """

    publication: Publication
    log_ratios: NDArray[np.float64] | None
    bound: float | None
    records: Counts | None = None

    @property
    def file(self) -> Counts | None:
        """The counts by place of a file of records: microdata, or the records behind exact tables; None if neither."""
        published = self.publication
        if self.records is None and published.by_type and published.law is None:
            return published.counts if published.places is None else published.counts[_find_first(published.places)]
        return self.records


def _find_first(places: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.unique(places, return_index=True)[1]


@dataclass(frozen=True)
class Changed:
    """The records after a draw, with likelihood ratios and their bound as in `Draw`."""

    tract: Tract
    log_ratios: NDArray[np.float64]
    bound: float | None


class Point(ABC):
    """A method with its parameters: a point of the picture."""

    method: ClassVar[str]
    tiers: ClassVar[Sequence[str]] = ("T1",)
    """The tiers whose tables it can publish."""
    random: ClassVar[bool] = True
    """Whether draws differ. If not, an attacker who knows all other records can compute the publication for each of the
    target's possible records."""

    needs_counties: ClassVar[bool] = False
    """Whether the point gives the same results as another one for a single tract."""

    @property
    @abstractmethod
    def parameters(self) -> str:
        """The parameters in words; empty if there are none."""

    @abstractmethod
    def draw(self, tract: Tract, key: bytes) -> Draw:
        """Publish a tract. The key, of 32 bytes, seeds all randomness. The world without a person has the same key, so
        that as much as possible stays the same there."""

    def publish_without(self, tract: Tract, person: int, key: bytes) -> Publication:
        """The publication that attacks receive from the world without a person, with the same randomness."""
        return self.draw(tract.without(person), key).publication

    def find_intervals(self, tract: Tract, published: Publication, key: bytes) -> tuple[Counts, Counts] | None:
        """The ends of the 90% intervals of all tables' cells, shape (blocks, cells), of a method whose errors are
        estimated by further draws of the published microdata, since they have no law. None if there are none."""
        return None

    def require(self, tier: Tier) -> None:
        """Raise ValueError unless the method can publish the tables of the tier with these parameters."""
        if tier.name not in self.tiers:
            raise ValueError(f"{self.method} is not built for tier {tier.name}; it is for {', '.join(self.tiers)}")

    def can_publish(self, tract: Tract) -> bool:
        """Whether the tract is large enough for the method, even after any one person is removed."""
        return True

    @property
    def key(self) -> str:
        """The name of its partition, for which Dagster requires plain characters."""
        return _NOT_PLAIN.sub("-", f"{self.method} {self.parameters}".lower()).strip("-")

    def publish_tables(self, tract: Tract) -> Publication:
        """The exact tables of the tier."""
        whole = tract.whole
        around = None if whole is None else whole.tier.tabulate(whole.count())
        published = self.publish(tract, tract.tier.tabulate(tract.count()), None, around)
        return replace(published, units=tract.count_units())

    def publish(self, tract: Tract, counts: Counts, law: Law | None, around: Counts | None = None) -> Publication:
        """Publish counts of all types, from which tables follow, or of the cells of all tables. `law` relates each of
        them to the true one; None if they are exact for some records. `around` has the cells of the tract's tables,
        shape (1, cells). Tables of units are left out."""
        totals = tract.add_up(counts)
        of_tract = None if around is None else np.broadcast_to(around, (tract.blocks, around.shape[1]))
        named = tract.tier.name, self.method, self.parameters
        published = None
        if tract.tier.thresholds and law is None:
            published = tract.tier.choose(counts)
            # The totals of categories published in more detail are sums.
            published_or_sum = published | (np.arange(counts.shape[1]) < len(tract.tier.groups))
            counts, totals = (np.where(published_or_sum, each, 0) for each in (counts, totals))
        blocks = np.bincount(tract.tract)[tract.tract]
        return Publication(*named, counts, totals, blocks, law, around=of_tract, published=published)


def count_cells(tract: Tract) -> Counts:
    """The counts of all types in T1, and of all tables' cells in T2, which has too many types."""
    types = tract.count()
    return types if tract.tier is REDISTRICTING else tract.tier.tabulate(types)


class Changing(Point):
    """A method that changes the records, such as the blocks of households, and then tabulates them exactly."""

    @property
    def swaps(self) -> Swaps | None:
        """The public parameters of its swaps of households between blocks; None if it swaps none."""
        return None

    @abstractmethod
    def change(self, tract: Tract, key: bytes) -> Changed: ...

    def draw(self, tract: Tract, key: bytes) -> Draw:
        changed = self.change(tract, key)
        published = replace(self.publish_tables(changed.tract), swaps=self.swaps)
        return Draw(published, changed.log_ratios, changed.bound, changed.tract.count())


@dataclass(frozen=True)
class Then(Point):
    """One method after another: the second one publishes the records that the first one changed."""

    first: Changing
    second: Point

    @property
    def method(self) -> str:  # type: ignore[override]
        return f"{self.first.method}, then {self.second.method}"

    @property
    def tiers(self) -> Sequence[str]:  # type: ignore[override]
        return [tier for tier in self.second.tiers if tier in self.first.tiers]

    @property
    def parameters(self) -> str:
        return f"{self.first.parameters}; {self.second.parameters}"

    def draw(self, tract: Tract, key: bytes) -> Draw:
        changed = self.first.change(tract, key)
        # Post-processing of the changed records distinguishes no two worlds better than the records themselves do.
        return replace(self.second.draw(changed.tract, key), log_ratios=changed.log_ratios, bound=changed.bound)


class Grid(Part, ABC):
    """The declared parameters of a method, each a point."""

    @abstractmethod
    def points(self) -> Sequence[Point]: ...


@dataclass(frozen=True)
class Exact(Point):
    """Exact tables of the records: no protection, one end of every picture."""

    method = "no protection"
    tiers = tuple(TIERS)
    random = False
    parameters = ""

    def draw(self, tract: Tract, key: bytes) -> Draw:
        return Draw(self.publish_tables(tract), np.zeros(0), None, tract.count())


@dataclass(frozen=True)
class Rounded(Point):
    """Rounding to the nearest multiple of a base: in T1, of the counts of all types, whose sums are the tables; in T2,
    where nearly all of these counts would be 0, of the cells of tables."""

    base: int

    method = "rounding"
    tiers = ("T1", "T2")
    random = False

    @property
    def parameters(self) -> str:
        return f"to {self.base}"

    def draw(self, tract: Tract, key: bytes) -> Draw:
        law, units = RoundedLaw(self.base), tract.count_units()
        published = self.publish(tract, law.round(count_cells(tract)), law)
        return Draw(replace(published, units=None if units is None else law.round(units)), None, None)


class RoundingGrid(Grid):
    """Rounding, for each of the bases."""

    bases: tuple[Annotated[int, Field(ge=2, le=1000, strict=True)], ...] = Field(
        min_length=1, description="The bases, such as 3 and 5."
    )

    def points(self) -> Sequence[Point]:
        return [Rounded(base) for base in self.bases]
