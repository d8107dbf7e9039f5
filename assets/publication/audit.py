"""The audit of a deployment: all provable claims about its content, checked again, as a report.

The report is for a reader who knows neither this system nor Dagster. It contains no confidential values and no keys,
and of an unforeseen error only its kind. The page is made from the JSON record alone.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import dagster as dg

from assets.charge.drawing import ReplayError, UnchargedDrawError
from assets.confidentiality import Nodes
from assets.gates.shared import all_gates, find_draw_id
from assets.ledger.asset import find_unlike_tables
from assets.ledger.comparison import list_charges
from assets.ledger.page import REPLAY
from assets.measurement.method import GridError
from assets.publication.asset import publication_problems
from assets.publication.certificate import page
from assets.publication.listing import LISTING, make_listing
from assets.publication.placement import has_content, is_moving, publications
from assets.release.contents import forget_sketches
from assets.release.draw import StaleInputError
from assets.release.gate import ReleaseContext
from assets.release.method import Method
from assets.release.seal import SealError
from assets.release.signature import (
    CHECKSUMS,
    PUBLIC_KEY,
    file_sha256,
    fingerprint,
    is_readable,
    public_key,
    signed_editions,
    verify,
)
from assets.texts import show_line
from mechanisms.accounting.losses import format_loss
from mechanisms.refusal import RefusedError
from resources import clock
from resources.chain import NOT_CHARGED, SETTLE, WITHDRAW, Entry, finished_draws, settled_draws
from resources.custody import CURRENT, Custody, CustodyError, CustodyMode
from resources.ledger import Ledger, LedgerError
from resources.statements import Zone
from resources.storage import TransientError
from resources.warehouse import WarehouseError

_SAFE = (
    CustodyError,
    GridError,
    LedgerError,
    ReplayError,
    SealError,
    StaleInputError,
    UnchargedDrawError,
    WarehouseError,
    dg.Failure,
)
"""The errors whose messages contain no confidential values. The report states only the kind of all others."""


class Verdict(StrEnum):
    """The result of a check by the audit."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "could not be checked"


@dataclass(frozen=True)
class Finding:
    """One claim, and whether it holds.

    Attributes:
        subject: the subject of the claim: "The ledger", or a release.
        claim: the claim as a sentence.
        details: problems or remarks, in words without confidential values.
    """

    subject: str
    name: str
    claim: str
    verdict: Verdict
    details: tuple[str, ...] = ()


def audit(
    methods: Sequence[Method[Any, Any, Any]], nodes: Nodes, ledger: Ledger, published: Path, made_at: str
) -> dict[str, Any]:
    """Audit the ledger, every release and every publication, without charging or changing tables.

    The audit first deletes the ephemeral keys that killed processes left (`Ledger.forget_keys`), and unneeded sketches.

    Returns:
        The record of the report, plain values for JSON. Its "verdict" is the worst of all findings.
    """
    reading = ledger.read()
    problems, entries = reading.problems, reading.entries
    words = (
        "No entry was edited, removed, added or reordered, and the ledger ends where its anchor in the custody does."
    )
    findings = [_judge("The ledger", "ledger_intact", words, problems)]
    replays: dict[str, str] = {}
    findings.append(_audit_deleted_keys(ledger, entries, replays))
    with suppress(*_SAFE):
        forget_sketches(ledger)
    for method in methods:
        findings += _audit_release(method, nodes, ledger, entries, replays)
    if not problems:
        findings.append(_audit_pages(ledger, entries, {method.release.dataset.population for method in methods}))
    findings += _audit_publications(ledger, published, None if problems else entries)
    findings += _audit_time_stamps(ledger, published)
    findings.append(_audit_catalog(published))
    findings.append(_audit_keys(ledger, entries))
    draws = _list_draws(entries, replays)
    findings.append(_summarize_replays(draws))
    counted = Counter(finding.verdict for finding in findings)
    worst = next(verdict for verdict in (Verdict.FAILS, Verdict.OPEN, Verdict.HOLDS) if counted[verdict])
    try:
        key = fingerprint(public_key(ledger.custody))
    except CustodyError as error:
        key = f"unknown: {error}"
    return {
        "made_at": made_at,
        "verdict": worst.value,
        "counts": {verdict.value: counted[verdict] for verdict in Verdict},
        "ledger": {"entries": len(entries), "head": entries[-1].hash if entries else ""},
        "public_key": key,
        "findings": [asdict(finding) | {"details": list(finding.details)} for finding in findings],
        "draws": draws,
    }


def write_report(record: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write `audit.json` and `audit.html` into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    written = folder / "audit.json", folder / "audit.html"
    written[0].write_text(text)
    written[1].write_text(page("audit.html").render(record))
    return written


def _judge(subject: str, name: str, claim: str, problems: Sequence[str], unknown: Sequence[str] = ()) -> Finding:
    """A finding that fails if there are problems, and is open if there are unknown facts."""
    verdict = Verdict.FAILS if problems else Verdict.OPEN if unknown else Verdict.HOLDS
    return Finding(subject, name, claim, verdict, (*problems, *unknown))


def _audit_release(
    method: Method[Any, Any, Any],
    nodes: Nodes,
    ledger: Ledger,
    entries: Sequence[Entry],
    replays: dict[str, str],
) -> list[Finding]:
    """The findings of a release's gates, each on the current tables; note in `replays` which draw was repeated."""
    release = method.release
    subject = f"{release.dataset.name}/{release.name}"
    own = [entry for entry in entries if (entry.dataset, entry.release) == (release.dataset.name, release.name)]
    gone = {entry.draw_id for entry in own if entry.kind == WITHDRAW}
    if not any(entry.kind == SETTLE and entry.draw_id not in gone for entry in own):
        remark = "It was withdrawn." if gone else "It has no draw yet."
        return [_judge(subject, "made", "The release has been made.", (), [remark])]
    context = ReleaseContext(method, release.adapt(ledger.warehouse), ledger.custody, ledger, nodes)
    findings = []
    if unmade := _find_unmade(context):
        # If the release was published, tables are missing. If it is only half made, its gates cannot be evaluated.
        was_published = _was_published(context)
        problems, unknown = (unmade, ()) if was_published else ((), unmade)
        findings.append(_judge(subject, "made", "The release has been made.", problems, unknown))
        if not was_published:
            return findings
    for gate in all_gates(method):
        # Each gate reads the tables as they are by then, and the ledger after them.
        details = _problems(gate.problems, replace(context))
        findings.append(_judge(subject, gate.name, gate.words, details))
        if gate.name == REPLAY and (draw_id := find_draw_id(context)):
            replays[draw_id] = "repeated, with the same output" if not details else "repeating it failed"
    return findings


def _find_unmade(context: ReleaseContext[Any]) -> Sequence[str]:
    try:
        with context.warehouse.session(reads=[Zone.PUBLIC]) as session:
            return context.method.find_unmade(session)
    except (RefusedError, dg.Failure):
        # The gates report the reason.
        return ()


def _was_published(context: ReleaseContext[Any]) -> bool:
    """Whether the custody has recorded an edition of the current draw; also True if this cannot be determined."""
    draw_id, names = find_draw_id(context), (context.release.dataset.name, context.release.name)
    try:
        recorded = context.custody.read_editions(*names).values()
    except CustodyError:
        return True
    return draw_id is None or any(edition[0] == draw_id for edition in recorded)


def _audit_pages(ledger: Ledger, entries: Sequence[Entry], populations: Iterable[str]) -> Finding:
    words = "The tables of the ledger and of its compositions agree with the ledger."
    try:
        altered, lagging = find_unlike_tables(ledger.warehouse, entries, sorted(populations))
    except _SAFE as error:
        altered, lagging = [str(error)], []
    return _judge("The ledger", "shown_as_charged", words, altered, lagging)


def _problems(problems: Any, context: ReleaseContext[Any]) -> list[str]:
    """The problems that a gate finds, or the reason why it could not be evaluated, which is a problem too.

    Raises TransientError if a server cannot be reached, which is not a problem of the release.
    """
    try:
        return list(problems(context))
    except TransientError:
        raise
    except _SAFE as error:
        return [str(error.description if isinstance(error, dg.Failure) else error)]
    except Exception as error:
        kind = type(error).__name__
        hint = "; a launch says why" if isinstance(error, RefusedError) else ""
        return [f"it could not be evaluated ({kind}{hint})"]


def _audit_publications(ledger: Ledger, published: Path, entries: Sequence[Entry] | None) -> list[Finding]:
    """Findings on the signatures, checksums and ledger entries of all published editions of all releases."""
    findings = []
    published_editions: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for dataset, release in publications(published):
        subject = show_line(f"{dataset}/{release}")
        try:
            problems = publication_problems(published, dataset, release, ledger.custody, ledger)
            editions, _ = verify(published / dataset / release, public_key(ledger.custody))
        except CustodyError as error:
            problems, editions = [str(error)], {}
        places = {path: edition.name for path, edition in editions.items()} | {published / dataset / release: CURRENT}
        published_editions[dataset, release] = {
            places[path]: (edition.name, file_sha256(path / CHECKSUMS)) for path, edition in editions.items()
        }
        numbers = ", ".join(edition.name for edition in sorted(editions.values(), key=lambda each: each.order))
        findings.append(
            Finding(
                subject,
                "files_as_published",
                "All files of every published edition are unaltered and signed by this deployment, and each edition "
                "belongs to a draw that the ledger holds, or to measurements that others published.",
                Verdict.FAILS if problems else Verdict.HOLDS,
                (*problems, *([f"Editions verified: {numbers}."] if numbers else [])),
            )
        )
        current = editions.get(published / dataset / release)
        drawn = [] if entries is None else settled_draws(entries, dataset, current.drawn_as if current else release)
        if current and drawn and current.edition != len(drawn):
            remark = f"The current edition is {current.edition}, and the ledger's last draw is number {len(drawn)}."
            findings.append(_judge(subject, "latest", "The last draw is the one published.", (), [remark]))
    return findings + ([] if entries is None else _audit_editions(ledger.custody, entries, published_editions))


def _audit_editions(
    custody: Custody, entries: Sequence[Entry], published: Mapping[tuple[str, str], Mapping[str, tuple[str, str]]]
) -> list[Finding]:
    """Whether the edition of every draw is published, and every edition recorded in the custody is unchanged.

    Args:
        published: the names and checksums of all intact editions, by release, and by name, or `CURRENT`.
    """
    words = "Every draw has been published, and every edition is there as it was last published."
    withdrawn = {entry.draw_id for entry in entries if entry.kind == WITHDRAW}
    charges = list_charges(entries)
    findings = []
    charged = [(entry.dataset, entry.release) for entry in entries]
    for dataset, release in dict.fromkeys([*charged, *custody.list_recorded()]):
        try:
            kept = custody.read_editions(dataset, release)
        except CustodyError as error:
            findings.append(_judge(f"{dataset}/{release}", "editions", words, [str(error)]))
            continue
        found = published.get((dataset, release), {})
        names = {name for name, _ in found.values()}
        numbers = {name.partition(".")[0] for name in names}
        own = (each for each in charges if (each.entry.dataset, each.entry.release) == (dataset, release))
        due = {str(charge.edition) for charge in own if charge.edition}
        of_record = {place: sums for place, (draw_id, sums) in kept.items() if sums and draw_id not in withdrawn}
        missing = sorted((due - numbers) | (of_record.keys() - names - {CURRENT}))
        other = sorted({name for place, (name, sums) in found.items() if sums != of_record.get(place, sums)})
        remarks = []
        if missing:
            remarks.append(f"No verified folder holds edition {', '.join(missing)}: removed, or never published.")
        if other:
            remarks.append(
                f"Edition {', '.join(other)} is signed, but is not as it was last published: somebody put back an "
                "earlier state, or a launch was killed, and the next one publishes it again."
            )
        if remarks:
            findings.append(_judge(f"{dataset}/{release}", "editions", words, (), remarks))
    return findings


def _audit_time_stamps(ledger: Ledger, published: Path) -> list[Finding]:
    """Whether the ledger still has every entry with a time stamp, kept or in a certificate."""
    folder = ledger.custody.time_stamps
    stamps = clock.list_kept(folder)
    with suppress(CustodyError):
        key = public_key(ledger.custody)
        for place in (published / dataset / release for dataset, release in publications(published)):
            stamps += [edition.time_stamp for edition in signed_editions(place, key) if edition.time_stamp]
    if not stamps:
        return []
    problems, unknown, verified = [], [], []
    try:
        roots = clock.read_roots(Path(ledger.time_authority_root)) if ledger.time_authority_root else []
    except clock.ClockError as error:
        roots, problems = [], [str(error)]
    if not roots:
        unknown.append(f"{len(stamps)} time stamps were not verified, because {clock.ROOT} names no certificate.")
    for stamp in stamps:
        try:
            kept = stamp.token or clock.locate(folder, stamp).read_bytes()
            verified.append(clock.verify(replace(stamp, token=kept), roots) if roots else stamp)
        except (clock.ClockError, OSError) as error:
            problems.append(str(error))
    # Read after the stamps, because other processes may have appended entries and published since the audit began.
    problems += clock.find_set_back(verified, ledger.examine().entries)
    words = (
        "Every time stamp that was kept or published is the authority's, and the ledger has the entry that it is of: "
        "it was not set back to an earlier state, nor rebuilt."
    )
    return [_judge("The ledger", "time_stamps", words, list(dict.fromkeys(problems)), unknown)]


def _audit_catalog(published: Path) -> Finding:
    """Whether the files beside the publications are their catalog, which is not signed, because it follows from
    them."""
    words = "Beside the publications are only their public key and their catalog, which follows from them."
    if not is_readable(published):
        remarks = ["Their folder cannot be read."] * published.exists()
        return _judge("The catalog", "catalog", words, (), remarks)
    remarks = []
    made = make_listing(published) if publications(published) or (published / LISTING).exists() else {}
    paths = {*published.glob("*"), *published.glob("*/*"), *(published / name for name in made)}
    for path in sorted(path for path in paths if is_readable(path.parent)):
        name, is_plain = path.relative_to(published).as_posix(), path.is_file() and not path.is_symlink()
        is_folder = path.is_dir() and not path.is_symlink()
        if is_folder and not is_readable(path):
            remarks.append(f"{show_line(name)} cannot be read.")
        elif (is_folder and path.name[0] != "." and any(path.iterdir())) or is_moving(path):
            continue
        elif name in made and (not path.exists() or (is_plain and not has_content(path, made[name]))):
            remarks.append(f"{name} is not as this version writes it. The next publication writes it anew.")
        elif not is_plain or name not in {*made, PUBLIC_KEY}:
            remarks.append(f"{show_line(name)} is not part of any publication.")
    return _judge("The catalog", "catalog", words, (), remarks)


def _audit_keys(ledger: Ledger, entries: Sequence[Entry]) -> Finding:
    """Whether the keys of all escrowed draws match their commitments, including draws that are not repeated."""
    problems, unknown = [], []
    for charge in list_charges(entries):
        entry = charge.entry
        if charge.custody == CustodyMode.EPHEMERAL:
            continue
        words = f"Entry {entry.sequence}, {entry.dataset}/{entry.release}: "
        if not entry.parse_details().draw:
            unknown.append(f"{words}an earlier version charged it, and did not record whether its key is escrowed.")
            continue
        try:
            ledger.custody.open_key(entry.draw_id, CustodyMode.ESCROWED, entry.commitment)
        except CustodyError:
            problems.append(f"{words}the key in custody is missing, or is not the one that its charge committed to.")
    words = "The keys of all escrowed draws are those that their charges committed to."
    return _judge("The draws", "keys", words, problems, unknown)


def _audit_deleted_keys(ledger: Ledger, entries: Sequence[Entry], replays: dict[str, str]) -> Finding:
    """Delete the keys that should be gone; note in `replays` which of them remain."""
    problems, deleted = [], []
    try:
        left = ledger.forget_keys()
        deleted = [f"The key of draw {draw_id} was left by a killed process. The audit deleted it." for draw_id in left]
    except _SAFE as error:
        problems.append(str(error))
    with suppress(CustodyError):
        for draw_id in sorted(finished_draws(entries) & ledger.custody.list_keys()):
            problems.append(f"The key of draw {draw_id} still exists.")
            replays[draw_id] = "not repeated: its key still exists, which should be deleted"
    words = "The ephemeral key of every settled or withdrawn draw is deleted."
    verdict = Verdict.FAILS if problems else Verdict.HOLDS
    return Finding("The draws", "keys_deleted", words, verdict, (*problems, *deleted))


def _summarize_replays(draws: Sequence[Mapping[str, Any]]) -> Finding:
    drawn = [draw for draw in draws if draw["state"] == "drawn" and draw["replay"].startswith("not")]
    left = [f"Entry {draw['entry']}, {draw['release']}: {draw['replay']}." for draw in drawn]
    words = "Every draw whose key is in custody was repeated from the current records."
    return _judge("The draws", "repeated", words, (), left)


def _list_draws(entries: Sequence[Entry], replays: Mapping[str, str]) -> list[dict[str, Any]]:
    """The charged draws in the ledger, each with the result of its repetition (`replays`, by draw id)."""
    draws = []
    for charge in list_charges(entries):
        entry, specification, details = charge.entry, charge.specification, charge.entry.parse_details()
        state = "drawn" if charge.settled else "charged, not drawn"
        if charge.withdrawn:
            state = f"withdrawn in entry {charge.withdrawn.sequence}"
        if state != "drawn":
            why_not = "not repeated: there is no output"
        elif charge.custody == CustodyMode.EPHEMERAL:
            why_not = "cannot be repeated: its key was destroyed, as declared"
        else:
            why_not = "not repeated: its records or its declaration are no longer the current ones"
        draws.append(
            {
                "release": f"{entry.dataset}/{entry.release}",
                "edition": charge.edition,
                "entry": entry.sequence,
                "charged": f"{format_loss(specification.loss)}{f' ({NOT_CHARGED})' if details.public else ''}",
                "unit": specification.flavor.unit,
                "population": details.population,
                "recorded_at": entry.recorded_at.replace("T", " ").removesuffix("+00:00"),
                "authorized_by": charge.authorized_by,
                "state": state,
                "replay": replays.get(entry.draw_id, why_not),
            }
        )
    return draws
