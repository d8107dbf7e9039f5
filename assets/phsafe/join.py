"""The truncated join: from the CEF to each run's records, counted, and what truncation leaves out.

Here belongs everything that reads the records themselves; the join is Algorithm 3 of Sexton et al., written in
`sql/phsafe/truncated_join.sql`. Rolling the counts up to population groups belongs in `counts`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assets.release.dataset import DatasetDeclaration
from mechanisms.phsafe.design import require_truncation
from mechanisms.phsafe.runs import RUN, RUNS, Iterated, Run
from resources.statements import Table
from resources.warehouse import Recipe, Session

UNIT_COLUMNS = ("MAFID", "RTYPE", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT", "TABBLKST")
"""The columns of `units` that the runs read."""

PERSON_COLUMNS = ("MAFID", "PERSON_RTYPE", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
"""The columns of `persons` that the runs read. The order in which a unit's persons are kept is by a digest of these, so
another list of columns, or another order of them, keeps other persons."""

_CODES = {
    Iterated.HOUSEHOLDER: ("HHRACE", "HHSPAN"),
    Iterated.PERSON: ("CENRACE", "CENHISP"),
    Iterated.NOBODY: (),
}


def write_truncated_join(
    session: Session,
    dataset: DatasetDeclaration,
    target: Table,
    states: Sequence[str],
    truncation: Mapping[str, int | None],
) -> None:
    """Write what each run counts: its truncated join, or its units, by state, race, ethnicity and cell.

    The table has the columns `run`, `TABBLKST`, `race` and `hispanic` (codes of the householder or of the person, as
    the run is iterated; NULL if by nobody), `cell` and `count`. Records of no cell are left out, as are zeros.

    Args:
        dataset: one with the columns `UNIT_COLUMNS` and `PERSON_COLUMNS`.
        states: FIPS codes; units of other states are out of universe.
        truncation: the runs to count, with τ, the persons of a unit that are kept at most; None for a run of units.

    Raises:
        ValueError: if there is no such run, or none at all.
        DesignError: if τ does not suit a run.
    """
    name, values, names = joined_counts(session, dataset, states, truncation)
    session.create(target, name, values, **names)


def joined_counts(
    session: Session, dataset: DatasetDeclaration, states: Sequence[str], truncation: Mapping[str, int | None]
) -> Recipe:
    """How the table that `write_truncated_join` writes is made, on the same terms."""
    runs = _declared(truncation)
    joining = _joining(runs, truncation)
    names = stage_truncation(session, dataset, states, joining) if joining else {"units": dataset.cef_tables()[0]}
    names |= {
        "truncation": joining,
        "runs": [run.name for run in runs],
        "unit_runs": [run.name for run in runs if not run.joins],
        "grouping_sets": _grouping_sets(runs),
    }
    return "phsafe/joined_counts", {"states": list(states)}, names


def stage_truncation(
    session: Session, dataset: DatasetDeclaration, states: Sequence[str], truncation: Mapping[str, int]
) -> dict[str, Any]:
    """Keep which units have too many persons for a threshold, and which share their key.

    Args:
        truncation: τ of each run that joins.

    Returns:
        The identifiers of the statement `phsafe/truncated_join`, whose value is `states`.
    """
    units, persons = dataset.cef_tables()
    names: dict[str, Any] = {
        "units": units,
        "persons": persons,
        "unit_columns": UNIT_COLUMNS,
        "person_columns": PERSON_COLUMNS,
        "truncation": truncation,
    }
    return names | {
        "crowded": session.stage("crowded_units", "phsafe/crowded_units", **names),
        "repeated": session.stage("repeated_units", "phsafe/repeated_units", {"states": list(states)}, **names),
    }


def write_truncation_report(
    session: Session,
    dataset: DatasetDeclaration,
    target: Table,
    states: Sequence[str],
    truncation: Mapping[str, int | None],
) -> None:
    """Write what truncation and join leave out of each run that joins, a row each:

    - `run`, and `truncation`, its τ;
    - `persons_in_universe`: all that pass the run's condition on persons, wherever they live;
    - `persons_without_unit`: of these, those whose key is borne by no unit of the run's universe in the states, or
      by several;
    - `persons_truncated`: of the others, those beyond the threshold;
    - `persons_kept`: the rest, the records of the truncated join;
    - `units_truncated`: units that lose persons to the threshold;
    - `units_repeated`: units of the universe that are dropped because another bears their key.

    Raises:
        ValueError: as `write_truncated_join` does, and if no run joins.
        DesignError: if τ does not suit a run.
    """
    joining = _joining(_declared(truncation), truncation)
    if not joining:
        raise ValueError("no run counts persons, so nothing is truncated")
    units, persons = dataset.cef_tables()
    session.create(
        target,
        "phsafe/truncation_report",
        {"states": list(states), "runs": list(joining)},
        units=units,
        persons=persons,
        truncation=joining,
    )


def _declared(truncation: Mapping[str, int | None]) -> list[Run]:
    unknown = [name for name in truncation if name not in RUN]
    if unknown:
        raise ValueError(f"there is no run {unknown[0]}; the runs are {', '.join(RUN)}")
    if not truncation:
        raise ValueError("no run is to be counted")
    for name, threshold in truncation.items():
        require_truncation(RUN[name], threshold)
    return [run for run in RUNS if run.name in truncation]


def _joining(runs: Sequence[Run], truncation: Mapping[str, int | None]) -> dict[str, int]:
    return {run.name: threshold for run in runs if (threshold := truncation[run.name]) is not None}


def _grouping_sets(runs: Sequence[Run]) -> list[list[str]]:
    return [
        ["TABBLKST", *codes, *(run.name for run in runs if run.iterated is iterated)]
        for iterated, codes in _CODES.items()
    ]
