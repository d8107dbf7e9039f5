"""A DHC release as one value, with the rules that it must satisfy before any run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from assets.release.prose import Prose
from assets.topdown.dhc.declaration import (
    BLOCK_GROUP,
    MEASURED,
    PUERTO_RICO,
    RECORDS,
    SUBSET_GROUP,
    TABLES,
    DHCDeclaration,
)
from assets.topdown.release import SpineError, TopDownRelease, TreeRelease
from mechanisms.topdown.design import HOUSING_UNITS
from mechanisms.topdown.dhc.design import DHCDesign
from mechanisms.topdown.dhc.persons import PERSONS
from mechanisms.topdown.dhc.tables import DHC_TABLES, ITERATIONS, MEDIAN_AGES
from resources.statements import SQL, Fragment, Table
from resources.warehouse import Session

TEXTS = Prose(Path(__file__).with_name("texts.md"))
"""The texts of stages and tables; those of the certificate are in `statement.md`."""

HISTOGRAMS, FACILITIES, REDISTRICTING = "histograms", "facilities", "redistricting"
ESTIMATES, MICRODATA = "estimates", "microdata"

LINEAR = "redistricting_linear"
"""The table of linear estimates, from the measurements of the redistricting data, of counts that the DHC also
measures."""

NEEDED = {"units": ("GQTYPE3", "VACS"), "persons": ("QSEX",)}
"""The census columns that a dataset with `dhc` has, by table."""


_COUNT_STATES = SQL("dhc/states", "SELECT count(DISTINCT TABBLKST) FROM {{ units }}")


@dataclass(frozen=True)
class DHCRelease(TreeRelease):
    """Attributes:
    redistricting: the release whose published counts the estimates keep.
    """

    declaration: DHCDeclaration
    design: DHCDesign
    redistricting: TopDownRelease

    computed_columns = (SUBSET_GROUP, BLOCK_GROUP)

    def __post_init__(self) -> None:
        super().__post_init__()
        redistricting, named = self.redistricting, f"consistent_with: {self.redistricting.name}"
        if redistricting.dataset.name != self.dataset.name:
            self.refuse(f"{named} is a release of {redistricting.dataset.name}")
        if missing := [name for name in RECORDS if name not in redistricting.products]:
            self.refuse(f"{named} does not publish {missing[0]}, from which its counts are read")
        own, other = self.spine[self.finest], redistricting.spine[redistricting.finest]
        if own != other:
            self.refuse(f"spine: {self.finest}: its places are not those of {redistricting.finest} in {named}")
        if self.design.householders_among_persons and not redistricting.design.full:
            self.refuse(
                f"householders_among_persons: {redistricting.name} has estimation: own_levels, by which more units may "
                "be occupied than there are persons"
            )
        if self.design.complete:
            if not self.tables_of_intervals:
                self.refuse("intervals: they are those of tables of counts, none of which is among the products")
            if not self._measures_shared_counts:
                self.refuse(
                    "intervals: no query of persons with up to 1,000 answers, which every level asks, counts what the "
                    "redistricting data count: persons by voting age and kind of dwelling, or Hispanic persons"
                )
            if MEASURED not in redistricting.products:
                self.refuse(f"intervals: {redistricting.name} does not publish {MEASURED}")
            if redistricting.design.invariants.get(HOUSING_UNITS) != redistricting.finest:
                self.refuse(f"intervals: {redistricting.name} does not hold {HOUSING_UNITS} at its finest level")
        replicates = self.declaration.replicates
        self._check_replicates(replicates, set(self.products) & set(TABLES) - set(MEDIAN_AGES), "tables of counts")
        if replicates > redistricting.declaration.replicates:
            self.refuse(
                f"replicates: {replicates}; each lies within one of {redistricting.name}, which declares "
                f"{redistricting.declaration.replicates}"
            )

    def of_part(self, part: str) -> Self:
        return replace(self, dataset=self.dataset.parts[part], redistricting=self.redistricting.of_part(part))

    @property
    def _measures_shared_counts(self) -> bool:
        # Numba takes a while to import.
        from mechanisms.topdown.dhc.linear import find_models, list_complete, share

        design = self.design
        complete = list_complete(design.plans[PERSONS.name], design.allocations[PERSONS.name])
        return bool(complete) and len(share(find_models(design)[PERSONS.name]).sums) > 0

    def _check_columns(self) -> None:
        for name, columns in NEEDED.items():
            if missing := [column for column in columns if column not in self.dataset.tables[name].columns]:
                self.refuse(
                    f"dataset: {name} of {self.dataset.name} have no column {missing[0]}; declare the dataset with "
                    "dhc: true"
                )

    def stage_units(self, session: Session) -> Table | Fragment:
        units = super().stage_units(session)
        if self.declaration.spine == PUERTO_RICO:
            (states,) = session.row(_COUNT_STATES, units=units)
            if states > 1:
                raise SpineError(
                    f"{self.schema}: spine: puerto_rico begins with the state, and {self.dataset.name} has {states}; "
                    "declare spine: production"
                )
        if not any(column in self.computed_columns for code in self.spine.values() for column in code.columns):
            return units
        names = {"units": units, "subset_group": SUBSET_GROUP, "block_group": BLOCK_GROUP}
        return session.stage("units_of_the_spine", "dhc/units_of_the_spine", **names)

    @property
    def products(self) -> tuple[str, ...]:
        """The products published besides the spine."""
        return self.declaration.published

    @property
    def tables_of_intervals(self) -> list[str]:
        """The products whose cells have intervals. Tables of one race or origin are left out; the totals of most are
        cells of other tables."""
        return [name for name in self.products if name in DHC_TABLES and name[-1] not in ITERATIONS]
