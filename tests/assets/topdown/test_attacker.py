"""An attacker of a redistricting release who knows all records but one, and no custody key, learns nothing of that one.

The histograms are confidential, and a keyed version of them names the draw. The attacker searches everything that the
deployment shows for a hash that he can compute from a guessed record. Then he runs the deployment himself, under a key
of his own. Given the custody's key, he finds the record both times, so the search is meaningful. The outputs before the
draw of deployments with other records and the same invariants are compared word by word.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
from numpy.typing import NDArray

from assets.topdown.drawing import count_parts
from assets.topdown.measurements import Stream, encode_answers, hash_streams, read_streams
from assets.topdown.release import HISTOGRAMS, TopDownRelease
from resources.custody import canonicalize
from resources.statements import Zone
from resources.warehouse import Session
from tests.attacker import (
    GUESSED_KEYS,
    OF_CONTENT,
    find_suspects,
    forget_keys,
    hashes_shown,
    in_the_open,
    kept_by_dagster,
    on_disk,
    plainly_hashed,
    read_outputs,
    tells,
)
from tests.deployments import Deployment
from tests.depth import deep_cases
from tests.phsafe_deployments import Files, census, changed
from tests.topdown_deployments import (
    TO_CHARGE,
    TO_DRAW,
    TWO_LEVELS,
    TWO_LEVELS_TO_PUBLICATION,
    topdown_deployment,
    with_quarters,
)

TopDownDeployment = Deployment[TopDownRelease]

RACES = ("01", "02")
"""Possible answers of the unknown person, a householder who lives alone."""

TRUTH = 1
DECLARED = TWO_LEVELS | {"products": ["P1", "P5", "H1", "persons", "units", "noisy_measurements", "population"]}
HIS_KEY = "00" * 32


def known() -> Files:
    return with_quarters(census(60))


def guessed(race: str) -> Files:
    """All records that are known, and the guess."""
    alone = next(row["MAFID"] for row in known()["units"] if row["HHT"] == "4")

    def set_race(column: str) -> Callable[[list[dict[str, str]]], None]:
        return lambda rows: [row.update({column: race}) for row in rows if row["MAFID"] == alone].clear()

    return changed(known(), persons=set_race("CENRACE"), units=set_race("HHRACE"))


def build(root: Path, files: Files, **changes: Any) -> TopDownDeployment:
    return on_disk(topdown_deployment(root, files=files, **DECLARED, **changes))


pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> TopDownDeployment:
    """The deployment under attack, after a whole run."""
    deployment = build(tmp_path_factory.mktemp("deployment"), guessed(RACES[TRUTH]))
    deployment.run(*TWO_LEVELS_TO_PUBLICATION, "accuracy", checks=True)
    return deployment


@pytest.fixture(scope="module")
def shown(deployment: TopDownDeployment) -> set[str]:
    return hashes_shown(deployment)


def imitated(root: Path, files: Files, custody: Path | None = None) -> TopDownDeployment:
    """A deployment of the attacker's own, as far as the charge: under a key of his own, or with the custody itself."""
    with pytest.MonkeyPatch.context() as patch:
        deployment = topdown_deployment(root, files=files, **DECLARED)
        if custody:
            patch.setenv("STIRRED_TEST_MASTER_KEY", (custody / "master.key").read_text().strip())
        else:
            patch.setenv("STIRRED_TEST_MASTER_KEY", HIS_KEY)
        deployment.run(*TO_CHARGE, checks=True)
    return deployment


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[TopDownDeployment]:
    """The attacker's deployments, one for every guess."""
    return [imitated(tmp_path_factory.mktemp("candidate"), guessed(race)) for race in RACES]


def guesses(deployment: TopDownDeployment, version_keys: Sequence[bytes | None]) -> Iterator[str]:
    """Every hash that the attacker tries, from a deployment of his own with the guessed records."""
    release = deployment.release
    for path in (deployment.root / name for name in ("persons.csv", "units.csv")):
        text = path.read_bytes()
        for content in (text, text.strip(), text.replace(b"\r\n", b"\n")):
            yield from plainly_hashed(content)
    cef, histograms = list(release.dataset.cef_tables()), release.confidential(HISTOGRAMS)
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        for key in version_keys:
            yield session.content_version(cef, key)
            for table in (*cef, histograms):
                yield session.content_version([table], key)
                yield session.sorted_version(table, key)
        rows = session.arrow("warehouse/all", source=histograms).to_pylist()
        exact = exact_answers(session, release)
        digests = {stream.label: sha256(encode_answers(answers)).hexdigest() for stream, answers in exact.items()}
        yield hash_streams({stream.label: digests[stream.label] for stream in read_streams(session, release)})
    written = [list(row.values()) for row in rows]
    for content in (
        canonicalize(written),
        str(written).encode(),
        json.dumps(rows).encode(),
        canonicalize(rows),
    ):
        yield from plainly_hashed(content)
    for answers in exact.values():
        for kind in ("<i4", "<i8"):
            yield from plainly_hashed(answers.astype(kind).tobytes())


def exact_answers(session: Session, release: TopDownRelease) -> dict[Stream, NDArray[np.int64]]:
    """The exact answers of every stream, by place and cell."""
    found = {}
    for counted in count_parts(session, release, read_streams(session, release)):
        for stream in counted.part.streams:
            found[stream] = counted.exact.answer(stream.measured.marginal, stream.first, stream.last).ravel()
    return found


@pytest.mark.prove
def test_no_hash_that_is_shown_can_be_tried_with_a_guessed_record(
    shown: set[str], candidates: list[TopDownDeployment]
) -> None:
    assert find_suspects(shown, candidates, guesses, [None, *GUESSED_KEYS]) == []


@pytest.mark.prove
def test_with_the_custodys_key_the_very_same_search_finds_the_record(
    deployment: TopDownDeployment, shown: set[str], candidates: list[TopDownDeployment]
) -> None:
    assert find_suspects(shown, candidates, guesses, [deployment.context.custody.version_key()]) == [TRUTH]


@pytest.mark.prove
@pytest.mark.parametrize("versions", [OF_CONTENT, ("sorted_version",)])
def test_in_a_deployment_that_forgot_a_key_the_attacker_finds_the_record(
    versions: Sequence[str], candidates: list[TopDownDeployment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the CEF, or of the histograms alone."""
    forget_keys(monkeypatch, versions)
    careless = build(tmp_path, guessed(RACES[TRUTH]))
    careless.run(*TO_CHARGE, checks=True)
    monkeypatch.undo()
    assert find_suspects(hashes_shown(careless), candidates, guesses, [None]) == [TRUTH]


@pytest.mark.prove
def test_what_names_the_histograms_and_the_draw_is_shown_and_differs(
    deployment: TopDownDeployment, shown: set[str]
) -> None:
    """Otherwise the search would be meaningless. The commitment is the SHA-256 of a key that the attacker does not
    have."""
    entry, versions = deployment.ledger[0], deployment.versions()
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL]) as session:
        keyed = deployment.context.method.counts_version(session, deployment.context.custody)
    assert versions["town/redistricting/histograms"] == keyed
    named = {entry.draw_id, entry.commitment, keyed, versions["town/cef"], versions["town/redistricting/accuracy"]}
    assert len(named) == 5
    assert named <= shown
    assert not set(plainly_hashed(bytes(32))) & shown


# The second attacker


@pytest.mark.prove
def test_who_runs_the_deployment_under_a_guessed_key_cannot_tell_the_guesses_apart(
    shown: set[str], candidates: list[TopDownDeployment]
) -> None:
    """All his runs share the same hashes with the deployment: those that follow from declaration and invariants, such
    as the version of the spine."""
    common = [shown & hashes_shown(own) for own in candidates]
    assert common[0], "the version of spine and invariants at least is the same everywhere"
    assert common[0] == common[1]


@pytest.mark.prove
def test_with_the_custody_itself_he_tells_them_apart(deployment: TopDownDeployment, tmp_path: Path) -> None:
    draws = {entry.draw_id for entry in deployment.ledger} | {entry.commitment for entry in deployment.ledger[:1]}
    deployments = [imitated(tmp_path / race, guessed(race), deployment.root / "custody") for race in RACES]
    assert [draws <= hashes_shown(own) for own in deployments] == [number == TRUTH for number in range(2)]


# Words and figures


BEFORE_THE_DRAW = ("cef", "spine", "histograms", "invariants", "charge")


def other_records(files: Files) -> Files:
    """Another census with the same invariants: everyone has another race, and every housing unit another address.

    Addresses change hands among housing units, vacant and occupied, large and small, in both states. Blocks keep only
    their numbers of housing units and group quarters.
    """
    shuffle = random.Random(3)

    def other_race(column: str) -> Callable[[list[dict[str, str]]], None]:
        def change(rows: list[dict[str, str]]) -> None:
            for row in rows:
                if row[column] != "00":
                    row[column] = f"{int(row[column]) % 63 + 1:02}"

        return change

    def persons(rows: list[dict[str, str]]) -> None:
        other_race("CENRACE")(rows)
        for row in rows:
            if row["RTYPE"] == "5":
                row["QAGE"] = str(int(row["QAGE"]) + 7)
                row["CENHISP"] = "21"[row["CENHISP"] == "2"]

    def geo(rows: list[dict[str, str]]) -> None:
        housing = [row for row in rows if row["RTYPE"] == "2"]
        keys = [row["MAFID"] for row in housing]
        for row, key in zip(housing, shuffle.sample(keys, len(keys)), strict=True):
            row["MAFID"] = key

    return changed(files, persons=persons, units=other_race("HHRACE"), geo=geo)


def exact_histograms(deployment: TopDownDeployment) -> list[tuple[Any, ...]]:
    with deployment.opened("confidential") as connection:
        return connection.execute("FROM confidential.town__redistricting.histograms").fetchall()


def test_nothing_that_is_shown_before_the_draw_depends_on_the_records_but_invariants(
    candidates: list[TopDownDeployment], tmp_path: Path
) -> None:
    """Neither metadata nor checks nor public tables: not how many cells of the histograms are empty, either."""
    files = guessed(RACES[0])
    other = imitated(tmp_path, other_records(files))
    assert len(exact_histograms(other)) != len(exact_histograms(candidates[0]))
    assert not set(exact_histograms(other)) >= set(exact_histograms(candidates[0]))
    shown = [read_outputs(own, BEFORE_THE_DRAW) for own in (*candidates, other)]
    population = f"('population', 'Nation', 0, 'Nation', 0, {len(files['persons'])})"
    assert any(population in text for text in shown[0]), "invariants are shown"
    assert len(shown[0]) > 30
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.prove
def test_the_exact_histograms_are_nowhere_in_the_open(deployment: TopDownDeployment) -> None:
    """No public table or file has their rows or columns, and no answers of a query to all places are the exact ones."""
    exact = exact_histograms(deployment)
    shown = in_the_open(deployment)
    columns = []
    with deployment.opened() as connection:
        for (table,) in connection.execute("SHOW TABLES").fetchall():
            rows = connection.table(table).fetchall()
            columns += [" ".join(str(row[place]) for row in rows) for place in range(len(rows[0]))]
        estimated = connection.execute("FROM level_block").fetchall()
        names = ["histogram", "level", "query", "number", "unpacked(answers)"]
        measured = connection.execute(f"SELECT {', '.join(names)} FROM noisy_measurements").fetchall()
    assert len(columns) > 100
    for histogram in ("persons", "units"):
        rows = [row for row in exact if row[0] == histogram]
        assert not set(rows) <= set(estimated)
        for place in (2, 3):
            sought = " ".join(str(row[place]) for row in rows)
            assert not any(sought in column for column in columns)
            assert str([row[place] for row in rows]) not in shown
    noisy = {(*row[:3], row[3]): row[4] for row in measured}
    with deployment.context.warehouse.session(reads=[Zone.CONFIDENTIAL, Zone.PUBLIC]) as session:
        for stream, exact_ones in exact_answers(session, deployment.release).items():
            label = stream.measured[:3]
            answers = np.array([noisy[(*label, place)] for place in range(stream.first, stream.last)]).ravel()
            assert answers.shape == exact_ones.shape
            assert exact_ones.size == 1 or not np.array_equal(answers, exact_ones)


def read_accuracy(deployment: TopDownDeployment) -> list[str]:
    """The figures with so many digits that no other number is equal to them."""
    with deployment.opened("confidential") as connection:
        rows = connection.execute("SELECT value FROM confidential.town__redistricting.accuracy").fetchall()
    figures = [repr(value) for (value,) in rows if value and len(repr(value)) > 10]
    assert len(figures) > 2, "there is something to be shown"
    return figures


@pytest.mark.prove
def test_accuracy_is_shown_of_synthetic_records_only(deployment: TopDownDeployment, tmp_path: Path) -> None:
    shown = in_the_open(deployment)
    assert "synthetic data)" not in shown
    assert not [figure for figure in read_accuracy(deployment) if tells(shown, figure)]
    synthetic = topdown_deployment(tmp_path, files=guessed(RACES[TRUTH]), dataset={"synthetic": True}, **DECLARED)
    synthetic.run(*TWO_LEVELS_TO_PUBLICATION, "accuracy", checks=True)
    event = synthetic.instance.get_latest_materialization_event(synthetic.key("accuracy"))
    assert event
    assert event.asset_materialization
    tables = [
        value for value in event.asset_materialization.metadata.values() if isinstance(value, dg.TableMetadataValue)
    ]
    cells = {str(cell) for table in tables for record in table.records for cell in record.data.values()}
    assert {f"{float(figure):,.4g}" for figure in read_accuracy(synthetic)} <= cells


@pytest.mark.prove
def test_no_key_of_a_unit_is_shown_anywhere(deployment: TopDownDeployment) -> None:
    keys = {row["MAFID"] for row in known()["units"]}
    assert not keys & set(re.findall(r"\d{6,}", in_the_open(deployment)))


@deep_cases(1)
@pytest.mark.parametrize(
    ("file", "column", "value"),
    [("persons", "QAGE", "77319"), pytest.param("units", "FINAL_POP", "77319", marks=pytest.mark.deep)],
)
def test_a_failed_run_shows_no_value_of_the_record_that_failed_it(
    file: str, column: str, value: str, tmp_path: Path
) -> None:
    """Out of its domain, or against the layout's structure: not in error, stack trace, events nor logs."""
    files = changed(known(), **{file: lambda rows: rows[3].update({column: value})})
    deployment = build(tmp_path, files)
    assert not deployment.run(*TO_DRAW, raise_on_error=False).success
    shown = "\n".join(kept_by_dagster(deployment))
    assert column in shown, "the failure itself is on record"
    assert not tells(shown, value)
    assert deployment.ledger == ()


def test_records_that_cannot_be_are_told_by_rule_and_number_alone(tmp_path: Path) -> None:
    """Minors in a nursing facility: neither which one it is nor where."""
    home = next(row["MAFID"] for row in known()["units"] if row["GQTYPE"] == "3")
    place = next(row for row in known()["geo"] if row["MAFID"] == home)

    def younger(rows: list[dict[str, str]]) -> None:
        for row in rows:
            if row["MAFID"] == home:
                row["QAGE"] = "7"

    deployment = build(tmp_path, changed(known(), persons=younger))
    assert "under 18 in a nursing facility (GQTYPE 3): 3 rows" in deployment.refusal(*TO_DRAW)
    shown = "\n".join(kept_by_dagster(deployment))
    assert not tells(shown, home)
    assert place["TABBLKST"] + place["TABBLKCOU"] + place["TABTRACTCE"] not in shown
    assert deployment.ledger == ()
