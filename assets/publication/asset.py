"""The asset `publication`: the files of a release, published together once the release passes every gate.

It evaluates every gate again on the current tables, because a check that passed in another run is no evidence for
tables that were changed afterwards.
"""

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain, groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dagster as dg
import duckdb
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from assets.confidentiality import list_deployed_nodes
from assets.conventions import (
    DRAW_ID,
    StageKind,
    check_result,
    escape_markdown,
    group_digits,
    join_digits,
    markdown_table,
    preview,
    shorten_digest,
)
from assets.gates.shared import all_gates
from assets.ledger.asset import find_cap_problems
from assets.ledger.view import find_budget
from assets.publication import record
from assets.publication.catalog import to_dcat
from assets.publication.certificate import Certificate, to_html, to_json
from assets.publication.cube import Heading
from assets.publication.formats import write_cubes
from assets.publication.listing import write_listing
from assets.publication.package import README, DataFile, data_package, list_formulas, readme, write_data_files
from assets.publication.placement import has_content, place_file, place_folder
from assets.publication.record import PROSE, Check, Edition, Estimate, LedgerReference, Randomness, schema
from assets.release import signature
from assets.release.gate import ReleaseContext, find_verdicts
from assets.release.method import CHARGE, PUBLICATION, Method
from assets.release.release import Release
from assets.release.seal import SealError
from assets.release.signature import CHECKSUMS, PUBLIC_KEY, Identity, SignedFolder, VerificationError
from assets.release.stage import release_stage
from assets.release.statement import Parameter
from assets.remedies import explain_failure
from assets.stages import explain_withdrawal, list_materializations, stage_check
from mechanisms.accounting.losses import PureLoss, format_number
from resources.chain import (
    DIFFERENT_PEOPLE,
    NOT_CHARGED,
    RESERVE,
    WITHDRAW,
    Entry,
    find,
    find_last_withdrawal,
    settled_draws,
)
from resources.clock import TimeStamp
from resources.custody import Custody
from resources.ledger import Ledger, of_population
from resources.statements import Zone
from resources.warehouse import Session, Warehouse, WarehouseError

Certify = Callable[
    [ReleaseContext[Any], Session, tuple[Check, ...], tuple[DataFile, ...], TimeStamp | None], "Certificate | Any"
]
"""Makes the certificate of a publication, from the gates that it passed and its files."""


def build_publication(method: Method[Any, Any, Any]) -> tuple[dg.AssetsDefinition, dg.AssetChecksDefinition]:
    """The asset `[dataset, release, "publication"]`, and the check of its files."""
    release = method.release

    @release_stage(
        release,
        PUBLICATION,
        StageKind.PUBLICATION,
        PROSE("asset", release=release),
        _sources(method),
        kinds={"csv", "parquet", "html"},
        code_version="3",
    )
    def publication(
        context: dg.AssetExecutionContext, warehouse: Warehouse, custody: Custody, ledger: Ledger
    ) -> dg.MaterializeResult:
        release_context = ReleaseContext(
            method,
            release.adapt(warehouse),
            custody,
            ledger,
            list_deployed_nodes(context),
            find_verdicts(method, custody),
        )
        certificate, sums = publish(release_context)
        cap, budget = release.dataset.cap, find_budget(release.dataset, ledger.examine())
        left = NOT_CHARGED if cap is None else f"{budget.left} of {cap.round_up()} (as of this run)"
        return dg.MaterializeResult(
            data_version=dg.DataVersion(sums),
            metadata={
                "loss": f"{certificate.specification.loss.symbol} = {format_number(certificate.specification.loss)}",
                "left of the cap": left,
                "draw": shorten_digest(certificate.randomness.draw_id),
                "commitment": shorten_digest(certificate.randomness.commitment),
                "certificate": link(release, "certificate.html"),
                "folder": link(release),
                "edition": certificate.edition_name,
                "ledger entry": str(certificate.ledger.sequence),
                "files": _preview_files(certificate),
                DRAW_ID: group_digits(certificate.randomness.draw_id),
                "randomness commitment": group_digits(certificate.randomness.commitment),
                CHECKSUMS: group_digits(sums),
                "checks passed": dg.MetadataValue.md(
                    markdown_table(["check", "rule"], [(check.name, check.description) for check in certificate.checks])
                ),
            },
        )

    return publication, _files_as_published(release)


def _preview_files(certificate: Certificate) -> dg.MetadataValue:
    """The data files with their numbers of rows. A table's CSV and Parquet files are shown as one, without suffix."""
    paths = {file.path for file in certificate.products}
    rows = {}
    for file in certificate.products:
        stem = file.path.rpartition(".")[0]
        both = {f"{stem}.csv", f"{stem}.parquet"}
        rows[stem if file.path in both and both <= paths else file.path] = f"{file.rows:,}"
    return preview({".csv and .parquet": "A file of each, unless the name says which", "rows": "Rows"}, rows.items())


def link(release: Release, name: str = "") -> dg.MetadataValue:
    """A published file, or the folder: a link if publications are served, otherwise the path below the folder of all
    publications.

    The link is shown as the name of the file: an address or a whole path is too long for the page, and would be cut.
    """
    path = "/".join((release.dataset.name, release.name, name))
    if release.address:
        address = f"{release.address.rstrip('/')}/{quote(path)}"
        return dg.MetadataValue.md(f"[{escape_markdown(name or release.name)}](<{address}>)")
    return dg.MetadataValue.path(path)


def _sources(method: Method[Any, Any, Any]) -> list[str]:
    every = {CHARGE, method.draw_stage, method.closing_stage, *method.publishes_also_from}
    if unknown := every - set(method.stages):
        raise ValueError(f"{method.release.schema}: publication: there is no stage {sorted(unknown)[0]}")
    return [stage for stage in method.stages if stage in every]


def _files_as_published(release: Release) -> dg.AssetChecksDefinition:
    key = release.key(PUBLICATION)

    @stage_check(
        key,
        "files_as_published",
        "The published files are signed, and are exactly those of the last materialization.",
        blocking=False,
    )
    def files_as_published(
        context: dg.AssetCheckExecutionContext, custody: Custody, ledger: Ledger
    ) -> dg.AssetCheckResult:
        recorded = _read_checksums(context.instance, key)
        names = release.dataset.name, release.name
        problems = publication_problems(release.published, *names, custody, ledger, recorded)
        if not recorded:
            problems.append("Dagster has no record of the run that published the files; launch the release again")
        return check_result("files_as_published", problems)

    return files_as_published


_AT_ONCE = 20
"""The number of materializations that are read at a time."""


def _read_checksums(instance: dg.DagsterInstance, publication: dg.AssetKey) -> str | None:
    """The checksums of the last publication that a run made; None if Dagster has none, as after the asset was wiped.
    Materializations reported by hand are ignored: anyone who can launch can report them, with any checksums."""
    for each in list_materializations(instance, publication, _AT_ONCE):
        if each.event_log_entry.run_id and (made := each.asset_materialization):
            noted = made.metadata.get(CHECKSUMS)
            return join_digits(str(noted.value)) if noted else None
    return None


def publication_problems(
    published: Path,
    dataset: str,
    release: str,
    custody: Custody,
    ledger: Ledger,
    recorded_checksums: str | None = None,
) -> list[str]:
    """The problems of a release's published files. Only data that the custody authenticates are trusted.

    The files of every edition must be signed with the custody's key. Their certificate must be the certificate of the
    release's settled draw with this number, which was not withdrawn. Another release's folder in this place is
    therefore a problem, even though it is signed.

    Args:
        ledger: the ledger, with which the certificate is compared if it is intact.
        recorded_checksums: the SHA-256 of `SHA256SUMS` that Dagster recorded; None if it recorded none. This comparison
            can only add a problem: that an earlier state of the same release was restored.
    """
    key, folder = signature.public_key(custody), published / dataset / release
    path = published / PUBLIC_KEY
    problem = signature.find_foreign_key(published, key) if path.exists() else f"{PUBLIC_KEY} is missing"
    if not problem and not has_content(path, signature.pem(key)):
        problem = f"{PUBLIC_KEY} was altered"
    problems = [problem] if problem else []
    # The gate `ledger_intact` reports the problems of a ledger. Until they are solved, comparisons are impossible.
    reading = ledger.examine()
    entries = None if reading.problems else reading.entries
    editions, of_editions = edition_problems(published, dataset, release, key, entries)
    if folder in editions and recorded_checksums and signature.file_sha256(folder / CHECKSUMS) != recorded_checksums:
        problems.append(f"{CHECKSUMS} is signed, but is not the one of the last materialization")
    return problems + of_editions


def open_publication(release: Release, custody: Custody, ledger: Ledger) -> SignedFolder:
    """A release's current edition, with its files as they were signed.

    Raises VerificationError if the release is not published, or the edition or its ledger entry has a problem.
    """
    names = release.dataset.name, release.name
    if not release.folder.exists():
        raise VerificationError(f"{'/'.join(names)} is not published yet; launch the job {release.schema} first")
    reading = ledger.examine()
    if problems := [*reading.problems, *publication_problems(release.published, *names, custody, ledger)]:
        raise VerificationError("; ".join(problems))
    # Files, or the folder, may have been replaced since they were verified.
    signed = SignedFolder.open(release.folder, signature.public_key(custody))
    if problem := edition_problem(signed.identity(), *names, reading.entries):
        raise VerificationError(problem)
    return signed


def open_current_publication(
    method: Method[Any, Any, Any], session: Session, custody: Custody, ledger: Ledger
) -> SignedFolder:
    """The publication of a release of the same records, for a release that reads it.

    Raises VerificationError with a sentence unless the publication is intact, and made from the current records and
    declaration.
    """
    release = method.release
    name = f"{release.dataset.name}/{release.name}"
    launch = f"launch the job {release.schema}, and then this one again"
    if not release.folder.exists():
        if withdrawn := find_last_withdrawal(ledger.entries(), release.dataset.name, release.name):
            fate = f"was withdrawn in ledger entry {withdrawn.sequence}, so nothing is published within its counts"
            raise VerificationError(f"{name} {fate}")
        raise VerificationError(f"{name} is not published yet; {launch}")
    try:
        signed = open_publication(release, custody, ledger)
    except VerificationError as error:
        raise VerificationError(f"the publication of {name} cannot be believed: {error}") from None
    try:
        current = method.describe(session, custody).draw_id
    except SealError:
        # The counts of the release were made from other records, or with other parameters.
        current = None
    if signed.identity().draw_id != current:
        raise VerificationError(f"{name} is published from other records or another declaration; {launch}")
    return signed


def edition_problems(
    published: Path, dataset: str, release: str, key: Ed25519PublicKey, entries: Sequence[Entry] | None
) -> tuple[dict[Path, Identity], list[str]]:
    """The identity of each intact edition of a release, by its folder, and the problems of all editions.

    Args:
        key: the public key that the editions must be signed with.
        entries: an intact ledger, which must hold the draw of each edition; None to skip this comparison.
    """
    editions, problems = signature.verify(published / dataset / release, key)
    found = (edition_problem(edition, dataset, release, entries) for edition in editions.values())
    return editions, problems + [problem for problem in found if problem]


def edition_problem(edition: Identity, dataset: str, release: str, entries: Sequence[Entry] | None) -> str:
    """Why a signed edition does not belong to a release, with `entries` as in `edition_problems`; "" if it does."""
    if (edition.dataset, edition.release) != (dataset, release):
        return f"the files are signed, but are those of {edition.dataset}/{edition.release}"
    if not edition.ledger_entry:
        # It is estimated from measurements that others published, which no ledger of this deployment has.
        return ""
    if entries is not None and not _in_ledger(edition, settled_draws(entries, dataset, edition.drawn_as)):
        return f"edition {edition.edition} is signed, but the ledger holds no such draw that was settled"
    if entries is not None and (withdrawn := find(entries, WITHDRAW, edition.draw_id)):
        return f"edition {edition.edition} is signed, but was withdrawn in entry {withdrawn.sequence}"
    return ""


def _in_ledger(edition: Identity, draws: Sequence[Entry]) -> bool:
    entry = draws[edition.edition - 1] if 0 < edition.edition <= len(draws) else None
    return entry is not None and (entry.draw_id, entry.sequence, entry.hash) == (
        edition.draw_id,
        edition.ledger_entry,
        edition.ledger_hash,
    )


def publish(context: ReleaseContext[Any], certify_by: Certify | None = None) -> tuple[Any, str]:
    """Evaluate every gate, then write the files of the release and put them in place.

    Args:
        certify_by: makes the certificate if the publication is not a draw of its own; by default `certify`.

    Returns:
        The certificate, and the SHA-256 of `SHA256SUMS`.

    Raises:
        WarehouseError: if the private folder cannot be made, or others could replace it.
        dagster.Failure: if a gate finds a problem, the draw is withdrawn meanwhile, the target is not a publication of
            this deployment, or a file or folder cannot be written. The release is then not published.
        LedgerError, ClockError, TransientError: as `Ledger.stamp_head`.
    """
    release = context.release
    key = signature.public_key(context.custody)
    if problem := signature.find_foreign_key(release.published, key):
        raise dg.Failure(
            f"{release.schema} is not published: {problem}. {signature.OF_ANOTHER_KEY}.", allow_retries=False
        )
    _require_own_name(context)
    # This comes first, while no other process waits for this publication.
    stamp = context.ledger.stamp_head()
    with ExitStack() as opened:
        # The snapshot keeps the tables unchanged until the files are written, so the files have the content that
        # passed.
        private = opened.enter_context(context.warehouse.private_folder())
        try:
            snapshot = opened.enter_context(context.snapshot(private))
        except WarehouseError as error:
            # The gates report the problem by name.
            require_gates(context)
            raise _refusal(context, [str(error)]) from None
        passed = require_gates(snapshot)
        try:
            place_file(release.published / PUBLIC_KEY, signature.pem(key))
            certificate, checksums = _place(snapshot, passed, key, stamp, certify_by or certify, private)
        except OSError as error:
            place = error.filename2 or error.filename or release.folder
            problem = f"{place}: {error.strerror}" if error.strerror else str(error)
            words = f"{release.schema} is not published: {problem}. An earlier publication stays complete."
            raise dg.Failure(description=words, allow_retries=False) from None
    # The release is already published, even if the catalog cannot be written.
    with contextlib.suppress(OSError):
        write_listing(release.published)
    return certificate, checksums


def _place(
    context: ReleaseContext[Any],
    passed: tuple[Check, ...],
    key: Ed25519PublicKey,
    stamp: TimeStamp | None,
    certify_by: Certify,
    private: Path,
) -> tuple[Any, str]:
    """Write the files of the release in a private folder, sign them, and put them in place; return the certificate and
    the hash of the checksums."""
    release = context.release
    tables = context.method.tables()

    def record_edition() -> None:
        names = release.dataset.name, release.name, certificate.edition_name
        kept = (release.folder / signature.EDITIONS / certificate.edition_name).exists()
        context.custody.record_edition(*names, certificate.randomness.draw_id, checksums, kept=kept)

    with (
        context.warehouse.session(reads=[Zone.PUBLIC], folder=private) as session,
        place_folder(
            release.folder,
            private,
            lambda present: _edition_name(context, present, key, certificate),
            lambda arriving: _review_arriving(context, arriving, key, checksums),
            record_edition,
        ) as folder,
    ):
        files, models = write_data_files(session, folder, tables), context.method.models(session, context.custody)
        left_out: tuple[str, ...] = ()
        certificate = certify_by(context, session, passed, files, stamp)
        charged_at = certificate.ledger.recorded_at.astimezone(UTC)
        if release.formats:
            heading = Heading(release, certificate.edition, charged_at, certificate.revision)
            cubes, left_out = write_cubes(session, folder, tables, heading)
            certificate = certify_by(context, session, passed, files := (*files, *cubes), stamp)
        created = charged_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        package = data_package(release, tables, files, certificate.edition, created, certificate.revision)
        for name, text in (
            ("datapackage.json", package),
            ("dcat.jsonld", to_dcat(package)),
            (README, readme(release, tables, files, list_formulas(session, tables), left_out, models)),
            ("certificate.json", to_json(certificate)),
            ("certificate.html", to_html(certificate)),
            (schema_name := certificate.model.model_fields["format"].default, schema(certificate.model, schema_name)),
        ):
            (folder / name).write_bytes(text)
        signature.sign(folder, context.custody)
        checksums = signature.file_sha256(folder / CHECKSUMS)
    return certificate, checksums


def _require_own_name(context: ReleaseContext[Any]) -> None:
    """Refuse to publish uncharged tables under the name of a charged release, even if that release is no longer
    declared, and any release under a name with editions of another release's draws.

    Raises:
        dagster.Failure: if the ledger has a charge under the name, or the custody a record of such an edition.
        LedgerError: if this publication has no charge, and the ledger is not intact. With a charge, a gate reports it.
    """
    release, reading = context.release, context.ledger.examine()
    if release.declaration.charges and reading.problems:
        return
    entries = reading.require_intact()
    if problem := release.find_name_problem(context.custody, entries):
        raise dg.Failure(f"{release.schema} is not published: {problem}", allow_retries=False)
    if release.declaration.charges:
        return
    for entry in entries:
        if (entry.dataset, entry.release) == (release.dataset.name, release.name):
            raise dg.Failure(
                f"{release.schema} is not published: name: ledger entry {entry.sequence} has a charge of a release of "
                f"{entry.dataset} that was declared as {entry.release}, and this {release.declaration.declares} "
                "charges nothing; choose another name",
                allow_retries=False,
            )


def require_gates(context: ReleaseContext[Any]) -> tuple[Check, ...]:
    """Evaluate all gates stage by stage; return them as passed checks.

    Raises:
        dagster.Failure: if a gate fails. The message names every failing gate of the first stage that has one; later
            stages depend on it and are not evaluated.
    """
    passed: list[Check] = []
    for stage, of_stage in groupby(all_gates(context.method), lambda gate: gate.stage):
        problems: dict[str, list[str]] = {}
        for gate in of_stage:
            problems[gate.name] = [f"{stage}: {gate.name}: {problem}" for problem in gate.evaluate(context)]
            passed.append(Check(gate.name, gate.words))
        if failed := [name for name in problems if problems[name]]:
            raise _refusal(context, list(chain.from_iterable(problems.values())), *failed)
    return tuple(passed)


def _edition_name(
    context: ReleaseContext[Any], present: Path, key: Ed25519PublicKey, certificate: Certificate
) -> str | None:
    """The name under which the present publication stays as an earlier edition; None if it has the same draw and
    estimation as the certificate.

    Raises:
        dagster.Failure: if the folder holds anything but a signed edition of the release, which must not be replaced.
    """
    release = context.release
    edition: Identity | None = None
    estimation: tuple[str, ...] = ()
    try:
        edition = signature.identity(present)
        estimation = _estimation(context.method.estimation, edition.parameters)
    except (VerificationError, TypeError):
        edition = None
    own = next((each.estimation for each in certificate.estimates if each.revision == certificate.revision), ())
    if edition and (edition.draw_id, estimation) == (certificate.randomness.draw_id, own):
        return None
    problems = signature.altered_files(present, key)
    if edition is None or problems or (edition.dataset, edition.release) != (release.dataset.name, release.name):
        raise dg.Failure(
            f"{release.schema} is not published: {present} holds something else than a signed edition of this release "
            f"({(problems or ['its certificate is of another release or version'])[0]}), so it cannot be kept as an "
            "earlier edition. Move the folder elsewhere, or restore it, and materialize again. The earlier files "
            "stay as they were.",
            allow_retries=False,
        )
    return edition.name


def _list_estimates(
    context: ReleaseContext[Any], draw_id: str, parameters: Sequence[Parameter]
) -> tuple[Estimate, ...]:
    """The published estimates of a draw, and last the estimate by these parameters, with the revision under which it is
    published already, or with a new one."""
    labels = context.method.estimation
    if not labels:
        return ()
    release, found = context.release, dict[tuple[str, ...], int]()
    for edition in signature.signed_editions(release.folder, signature.public_key(context.custody)):
        if (edition.dataset, edition.release, edition.draw_id) == (
            release.dataset.name,
            release.name,
            draw_id,
        ):
            found[_estimation(labels, edition.parameters)] = edition.revision
    own = _estimation(labels, {each.label: each.value for each in parameters})
    revision = found.pop(own, max(found.values(), default=-1) + 1)
    others = sorted((number, estimation) for estimation, number in found.items())
    return tuple(Estimate(revision=number, estimation=each) for number, each in [*others, (revision, own)])


def _estimation(labels: Sequence[str], parameters: Mapping[str, Any]) -> tuple[str, ...]:
    values = {label: parameters[label] for label in labels if label in parameters}
    return tuple(
        f"{label}: {each if isinstance(each, str) else ', '.join(each) or 'none'}" for label, each in values.items()
    )


def _review_arriving(context: ReleaseContext[Any], folder: Path, key: Ed25519PublicKey, checksums: str) -> None:
    """Refuse a new publication whose files differ from the ones just signed, or with an earlier edition that this
    deployment did not sign; leave out withdrawn editions.

    A killed withdrawal leaves editions, and a new draw may be published before the withdrawal is completed.

    Args:
        checksums: the SHA-256 of the `SHA256SUMS` just signed.

    Raises:
        dagster.Failure: if the files were altered, or an edition was planted.
    """
    editions, problems = signature.verify(folder, key)
    if folder not in editions or signature.file_sha256(folder / CHECKSUMS) != checksums:
        altered = next((problem for problem in problems if not problem.startswith(f"{signature.EDITIONS}/")), CHECKSUMS)
        raise dg.Failure(
            f"{context.release.schema} is not published: somebody altered its files while they were put in place "
            f"({altered}). See who can write to {context.release.folder.parent}, and materialize again. The earlier "
            "files stay as they were.",
            allow_retries=False,
        )
    if problems:
        raise dg.Failure(
            f"{context.release.schema} is not published: among its earlier editions is something else than signed "
            f"editions of this release ({problems[0]}). Move it elsewhere, or restore it, and materialize again. The "
            "earlier files stay as they were.",
            allow_retries=False,
        )
    reading = context.ledger.read()
    for path, edition in editions.items():
        if path != folder and reading.find_withdrawal(edition.draw_id):
            shutil.rmtree(path)
    with contextlib.suppress(OSError):
        # This removes the folder only if it is empty.
        (folder / signature.EDITIONS).rmdir()


def _refusal(context: ReleaseContext[Any], problems: Sequence[str], *failed: str) -> dg.Failure:
    """The refusal for problems of some failed gates, with a remedy, or with the withdrawal, if there was one."""
    release = context.release
    fate = explain_withdrawal(context.ledger, release.dataset.name, release.name)
    unchanged = "An earlier publication stays unchanged."
    lines = [*problems, fate] if fate else [*explain_failure(problems, *failed), unchanged]
    words = f"{release.schema} is not published, because it does not pass its gates:\n" + "\n".join(lines)
    return dg.Failure(description=words, allow_retries=False)


def certify(
    context: ReleaseContext[Any],
    session: Session,
    passed: tuple[Check, ...],
    files: tuple[DataFile, ...],
    stamp: TimeStamp | None,
) -> Certificate:
    """The certificate of a release in its current state.

    The ledger is read anew: the gates may have read it long ago.

    Raises:
        dagster.Failure: if the draw was withdrawn, or the cap exceeded, after the gates had read the ledger.
    """
    release, dataset = context.release, context.release.dataset
    draw = context.method.describe(session, context.custody)
    reading = context.ledger.read()
    entry, settled = reading.find_reservation(draw.draw_id), reading.find_settlement(draw.draw_id)
    if entry is None or settled is None:
        raise dg.Failure(f"{release.schema}: the charge disappeared from the ledger", allow_retries=False)
    if withdrawn := reading.find_withdrawal(draw.draw_id):
        raise _refusal(context, [f"the draw was withdrawn meanwhile, in ledger entry {withdrawn.sequence}"])
    if problems := find_cap_problems(dataset, reading):
        raise _refusal(context, problems, "within_cap")
    details = entry.parse_details()
    draws = settled_draws(reading.require_intact(), dataset.name, release.name)
    withdrawals = {other.draw_id: other.sequence for other in reading.entries if other.kind == WITHDRAW}
    charges = [other for other in of_population(reading.entries, dataset.population) if other.kind == RESERVE]
    statement = context.method.statement(draw, settled.output_version or "")
    models = context.method.models(session, context.custody)
    statement = replace(statement, parameters=(*statement.parameters, *models))
    estimates = _list_estimates(context, draw.draw_id, statement.parameters)
    if read_as := dataset.describe_reading(release.columns_read):
        statement = replace(statement, parameters=(*statement.parameters, Parameter("Read from the source", read_as)))
    return Certificate(
        publisher=release.publisher,
        dataset=record.Dataset.model_validate(dataset, from_attributes=True),
        release=record.Release.model_validate(release, from_attributes=True),
        statement=replace(statement, errors=context.method.errors(session)),
        specification=entry.parse_specification().with_copies(dataset.copies),
        randomness=(
            Randomness(release.custody, draw.draw_id, entry.commitment)
            if context.method.is_random
            else Randomness(release.custody, draw.draw_id, entry.commitment, generator="none")
        ),
        ledger=LedgerReference(
            entry.sequence,
            entry.hash,
            datetime.fromisoformat(entry.recorded_at),
            PureLoss() if dataset.cap is None else reading.compose(dataset.population, dataset.cap, entry.sequence),
            charges[-1].sequence,
            PureLoss() if dataset.cap is None else reading.compose(dataset.population, dataset.cap),
            dataset.cap,
            dataset.population,
            reading.count_infinite(dataset.population),
            details.authorization.get(DIFFERENT_PEOPLE, ""),
            reading.find_public_words(dataset.name, details) if dataset.public else "",
            None if stamp is None else record.TimeStamp.of(stamp),
        ),
        edition=[other.draw_id for other in draws].index(draw.draw_id) + 1,
        editions=tuple(
            Edition(
                number,
                past.sequence,
                past.parse_specification().loss,
                datetime.fromisoformat(past.recorded_at),
                withdrawals.get(past.draw_id),
            )
            for number, past in enumerate(draws, start=1)
        ),
        code_versions={"stirred": version("stirred"), "duckdb": duckdb.__version__},
        checks=passed,
        products=files,
        signing_key=signature.fingerprint(signature.public_key(context.custody)),
        revision=estimates[-1].revision if estimates else 0,
        estimates=tuple(sorted(estimates, key=lambda estimate: estimate.revision)),
    )
