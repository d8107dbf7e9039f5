"""The truncated join: counts of each run's records from the CEF, and a report of what truncation leaves out.

Everything that reads the records is here. The join is Algorithm 3 of Sexton et al., written in
`sql/phsafe/truncated_join.sql`. `counts` aggregates the counts to population groups.
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
"""The columns of `persons` that the runs read. A digest of these determines which persons of a unit are kept, so
another list of columns, or another order of them, would keep other persons."""

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
    """Count each run's records, its truncated join or its units, by state, race, ethnicity and cell.

    The table has the columns `run`, `TABBLKST`, `race` and `hispanic` (codes of the householder or of the person,
    depending on the run's iterations; NULL for runs without iterations), `cell` and `count`. Records that belong to no
    cell are left out, and so are zeros.

    Args:
        dataset: a dataset with the columns `UNIT_COLUMNS` and `PERSON_COLUMNS`.
        states: FIPS codes; units of other states are outside the universe.
        truncation: the runs to count, each with τ, the maximal number of persons kept in a unit; None for a run of
            units.

    Raises:
        ValueError: if a run is unknown, or none is named.
        DesignError: if a run's τ is not valid.
    """
    name, values, names = joined_counts(session, dataset, states, truncation)
    session.create(target, name, values, **names)


def joined_counts(
    session: Session, dataset: DatasetDeclaration, states: Sequence[str], truncation: Mapping[str, int | None]
) -> Recipe:
    """The recipe of the table that `write_truncated_join` writes, with the same arguments and errors."""
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
    """Stage the keys of units with more persons than a threshold, and the keys that several units share.

    Args:
        session: a session that reads the CEF.
        dataset: as in `write_truncated_join`.
        states: as in `write_truncated_join`.
        truncation: τ of each run that joins.

    Returns:
        The identifiers of the statement `phsafe/truncated_join`, which also needs the bound value `states`.
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
    """Write what truncation and join leave out, with a row for each run that joins and the columns:

    - `run`, and `truncation`, its τ;
    - `persons_in_universe`: all persons that satisfy the run's condition on persons, wherever they live;
    - `persons_without_unit`: of these, persons whose key belongs to no unit of the run's universe in the states, or to
      several;
    - `persons_truncated`: of the others, persons beyond the threshold;
    - `persons_kept`: the rest, the records of the truncated join;
    - `units_truncated`: units that lose persons to the threshold;
    - `units_repeated`: units of the universe that are dropped because another unit has the same key.

    Arguments are those of `write_truncated_join`.

    Raises:
        ValueError: as `write_truncated_join`, and if no run joins.
        DesignError: if a run's τ is not valid.
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
        raise ValueError("no run is named")
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
