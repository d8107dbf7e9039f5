"""A PHSafe release as one value: its products, and the rules that its declaration satisfies before anything runs."""

from dataclasses import dataclass
from typing import Any

from assets.cef.census import CensusDeclaration
from assets.measurement.declaration import require_known_states
from assets.phsafe.declaration import PHSafeDeclaration
from assets.release.release import Release
from mechanisms.phsafe.design import PHSafeDesign
from mechanisms.phsafe.runs import RUN, SHELL, SHELLS, Shell

UNIT_COLUMNS = ("MAFID", "RTYPE", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT", "TABBLKST")
"""The columns of `units` that the runs read."""

PERSON_COLUMNS = ("MAFID", "PERSON_RTYPE", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
"""The columns of `persons` that the runs read. A digest of these columns determines the persons of a unit that are
kept, so another list or order of columns would keep other persons."""


@dataclass(frozen=True)
class PHSafeRelease(Release):
    declaration: PHSafeDeclaration
    design: PHSafeDesign

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, CensusDeclaration):
            self.refuse(
                f"dataset: {self.dataset.name} is not a census in the production layout (CensusDataset, "
                "SyntheticCensus), whose codes and rules PHSafe needs"
            )
        for name in self.products:
            if problem := _find_problem(self.design, SHELL[name]):
                self.refuse(f"products: {problem}")
        require_known_states(self, self.design.states)
        if not self.declaration.private and not self.dataset.synthetic:
            self.refuse("private: only a dataset declared synthetic allows exact counts, for tuning")

    @property
    def counted_with(self) -> dict[str, Any]:
        """The parts of the design's fields that determine the exact counts."""
        runs: dict[str, dict[str, Any]] = {
            name: {"truncation": most, "levels": []} for name, most in self.design.thresholds.items()
        }
        for run, level, _ in self.design.released:
            runs[run.name]["levels"].append(level.name)
        return {"states": sorted(self.design.states), "runs": runs}

    @property
    def counted_as(self) -> dict[str, Any]:
        thresholds = {run: most for run, most in self.design.thresholds.items() if most is not None}
        return {"truncation": thresholds} if thresholds else {}

    @property
    def columns_read(self) -> tuple[str, ...]:
        return (*UNIT_COLUMNS, *PERSON_COLUMNS)

    @property
    def products(self) -> tuple[str, ...]:
        """The finished tables to publish: the declared tables, by default all tables that the released runs allow."""
        return tuple(self.declaration.products) or available_products(self.design)


def available_products(design: PHSafeDesign) -> tuple[str, ...]:
    return tuple(shell.name for shell in SHELLS if not _find_problem(design, shell))


def _find_problem(design: PHSafeDesign, shell: Shell) -> str:
    """Why a design does not allow a finished table, whose cells all count the same run; "" if it allows it."""
    levels = [{level for run, level, _ in design.released if run.name == name} for name in shell.runs]
    if not set.intersection(*levels):
        runs = " and ".join(shell.runs)
        return f"{shell.name} is made from {runs}, which are not released together at any level"
    least, threshold = max(cell.least for cell in shell.cells), design.truncation(RUN[shell.cells[0].counted.run])
    if threshold is not None and threshold < least:
        return f"{shell.name} has averages of at least {least}, but its runs keep fewer persons per unit"
    return ""
