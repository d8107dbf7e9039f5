"""A PHSafe release as one value, which all its stages receive: its products, and the rules of its declaration.

The rules are checked before anything runs. Those that need no dataset are in `assets.phsafe.declaration` and
`mechanisms.phsafe.design`.
"""

from dataclasses import dataclass

from assets.phsafe.declaration import PHSafeDeclaration
from assets.phsafe.join import PERSON_COLUMNS, UNIT_COLUMNS
from assets.release.release import Release
from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.phsafe.runs import RUN
from mechanisms.phsafe.tables import SHELL, SHELLS, Shell

_INTEGERS = {"MAFID", "QAGE"}
"""The columns that are stored as integers; all other columns that the runs read are text."""


@dataclass(frozen=True)
class PHSafeRelease(Release):
    """A declared release by PHSafe."""

    declaration: PHSafeDeclaration
    design: PHSafeDesign

    def __post_init__(self) -> None:
        units, persons = self.dataset.units, self.dataset.persons
        if persons is None:
            self.refuse(f"dataset: {self.dataset.name} has no persons; PHSafe counts persons in their units")
        for table, records, columns in (("units", units, UNIT_COLUMNS), ("persons", persons, PERSON_COLUMNS)):
            of = f"dataset: {table} of {self.dataset.name}"
            for name in columns:
                stored = "BIGINT" if name in _INTEGERS else "VARCHAR"
                if name not in records.columns:
                    self.refuse(f"{of} have no column {name} of the production layout")
                if records.stored[name].type.stored != stored:
                    self.refuse(f"{of}: column {name} is not stored as {stored}, as in the production layout")
        if units.key != "MAFID" or persons.unit != "MAFID":
            self.refuse("dataset: units and persons are not joined by MAFID, as in the production layout")
        for name in self.products:
            self._check_product(SHELL[name])
        codes = units.stored["TABBLKST"].codes
        for state in self.design.states:
            if codes and state not in codes:
                known = ", ".join(str(code) for code in codes)
                self.refuse(f"states: {state} is not a state of {self.dataset.name}, which has {known}")
        if not self.declaration.private and not self.dataset.synthetic:
            self.refuse("private: only a dataset declared synthetic allows exact counts, for tuning")

    @property
    def columns_read(self) -> tuple[str, ...]:
        return (*UNIT_COLUMNS, *PERSON_COLUMNS)

    @property
    def products(self) -> tuple[str, ...]:
        """The finished tables to publish: the declared ones, by default all that the released runs allow."""
        return tuple(self.declaration.products) or available_products(self.design)

    def _check_product(self, shell: Shell) -> None:
        if not _released_together(self.design, shell):
            runs = " and ".join(shell.runs)
            self.refuse(f"products: {shell.name} is made from {runs}, which are not released together at any level")
        least = max(cell.least for cell in shell.cells)
        if not _kept(self.design, shell):
            self.refuse(
                f"products: {shell.name} has averages of at least {least}, but its runs keep fewer persons per unit"
            )


def available_products(design: PHSafeDesign) -> tuple[str, ...]:
    """The finished tables that a design allows: their runs share a released level and keep enough persons per unit."""
    return tuple(shell.name for shell in SHELLS if _released_together(design, shell) and _kept(design, shell))


def _released_together(design: PHSafeDesign, shell: Shell) -> bool:
    levels: dict[str, set[str]] = {}
    for run, level, _ in design.released:
        levels.setdefault(run.name, set()).add(level.name)
    return bool(set.intersection(*(levels.get(run, set()) for run in shell.runs)))


def _kept(design: PHSafeDesign, shell: Shell) -> bool:
    """Whether truncation keeps enough persons per unit for the least value of every average of a table."""
    thresholds = {cell.least: design.truncation(RUN[cell.counted.run]) for cell in shell.cells}
    return all(threshold is None or threshold >= least for least, threshold in thresholds.items())
