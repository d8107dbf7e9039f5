"""The commands on releases: `table`, `estimate`, `regenerate`, `verify`, `audit`, `export`, `explore`, `withdraw`."""

import json
import os
import re
import sys
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestration.cli.printing import REFUSED, as_json, echo, print_json, print_table
from orchestration.cli.releases import RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assets.publication.tables import PublishedTables
    from assets.release.signature import SignedFolder
    from orchestration.deployment import Deployment


@click.command()
@click.argument("release", type=RELEASE)
@click.option("--by", default="", help="The variables to tabulate by, separated by commas.")
@click.option(
    "--where",
    multiple=True,
    help="Count only these categories, such as 'age in (00-14, 15-24)' or state=10; repeatable.",
)
@click.option(
    "--per",
    type=RELEASE,
    help="For means: another release of hypercubes, by whose counts or weights the sums are divided.",
)
@click.option(
    "--places",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="For redistricting data: a CSV file with the codes of places of any levels, such as the blocks of a district, "
    "to add up; --by then names tables, such as P1,H1.",
)
@click.option("--median", metavar="VARIABLE", help="The median of a variable for which quantiles are declared.")
@click.option("--quantile", metavar="VARIABLE=SHARE", help="Another quantile, such as income=0.9.")
@click.option(
    "--summary", is_flag=True, help="Means, standard deviations and correlations of the variables in `moments`."
)
@click.option("--correlate", metavar="ONE,OTHER", help="The correlation of two variables in `moments`.")
@click.option("--regress", metavar="VARIABLE", help="The least-squares coefficients of a variable on those after --on.")
@click.option("--on", metavar="VARIABLES", help="With --regress: the other variables, separated by commas.")
@click.option("--codes", is_flag=True, help="Print the codes of categories without their labels.")
@as_json
def table(
    release: str,
    by: str,
    where: tuple[str, ...],
    per: str | None,
    places: Path | None,
    codes: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Build a table from published hypercubes, or add up places.

    RELEASE has hypercubes or redistricting data. Numbers have standard errors and 90% intervals.

    The answer follows from the publication alone, so everyone gets the same one, and it costs nothing. Of several
    hypercubes, the one with the least variance answers. Quantiles, correlations and regressions also have the standard
    error of the sample.
    """
    from orchestration.components import TableBuilder
    from orchestration.deployment import Deployment

    deployment = Deployment()
    variables = _parse_names("--by", by)
    statistic = _parse_statistic(**asked)
    if places:
        if where or per or statistic:
            raise click.UsageError(
                "--places: the sum of places is for all records; of the other options it goes with --by"
            )
        _print_sum_of_places(deployment, release, places, variables, as_json=as_json)
        return
    chosen: dict[str, list[str | None]] = {}
    for name, categories in map(_parse_categories, where):
        if name in chosen:
            raise click.UsageError(f"--where: {name} is named twice; list all of its categories that count at once")
        chosen[name] = categories
    if statistic:
        if per:
            raise click.UsageError("--per: means of sums are not asked together with quantiles or moments")
        published = [_find_tables(deployment, release, with_statistics=True)]
        names, answers = TableBuilder.answer_statistic(published[0], *statistic, variables, chosen)
    else:
        published = [_find_tables(deployment, name) for name in (release, *([per] if per else []))]
        names, answers = TableBuilder.answer(published, variables, chosen)
    if as_json:
        print_json({"from": names, "rows": answers.to_pylist()})
        return
    answering = [tables[name] for tables, name in zip(published, names, strict=True)]
    write = TableBuilder.describe_categories(answering[0], codes=codes)
    rows = [
        [write(name, cell) if name in variables else _format_figure(cell) for name, cell in row.items()]
        for row in answers.to_pylist()
    ]
    print_table(f"From {' per '.join(names)}", [name.replace("_", " ") for name in answers.column_names], rows)
    if remark := TableBuilder.remark_on_intervals(answering):
        echo(remark, err=True)
    if statistic:
        echo(TableBuilder.read_statistic(answering[0]).bounds, err=True)
    if per:
        echo("Records without an amount, if any, add 0 to the sum, but count in the divisor.", err=True)
        echo("Amounts are as in their column, without weights.", err=True)


def _format_figure(cell: Any) -> str:
    """A number with two decimals, or four digits if it is small; a text unchanged."""
    if cell is None:
        return "too uncertain"
    if isinstance(cell, str):
        return cell
    return f"{cell:,.2f}" if not isinstance(cell, float) or abs(cell) >= 10 or not cell else f"{cell:.4g}"


def _parse_statistic(
    median: str | None, quantile: str | None, summary: bool, correlate: str | None, regress: str | None, on: str | None
) -> "tuple[str, Sequence[Any]] | None":
    """The question of `PublishedStatistic` in the options, and its arguments; None if the options have none."""
    from fractions import Fraction

    given = [question for question in (median, quantile, summary or None, correlate, regress) if question is not None]
    if len(given) > 1:
        raise click.UsageError("give one of --median, --quantile, --summary, --correlate and --regress")
    if (on is None) != (regress is None):
        raise click.UsageError("--regress and --on are given together: --regress income --on hours,age")
    if median is not None:
        return "quantiles", [median, [Fraction(1, 2)]]
    if quantile is not None:
        name, _, share = quantile.rpartition("=")
        try:
            return "quantiles", [name, [Fraction(share)]]
        except (ValueError, ZeroDivisionError):
            raise click.UsageError(f"--quantile: {quantile} is not of the form income=0.9") from None
    if correlate is not None:
        names = _parse_names("--correlate", correlate)
        if len(names) != 2:
            raise click.UsageError(f"--correlate: {correlate} is not of the form income,hours")
        return "correlation", names
    if regress is not None and on is not None:
        return "regression", [regress, _parse_names("--on", on)]
    return ("summary", []) if summary else None


def _print_sum_of_places(
    deployment: "Deployment", release: str, places: Path, tables: "Sequence[str]", *, as_json: bool
) -> None:
    from assets.publication.tables import PublishedTables
    from orchestration.components import Reestimation, TopDown

    other = deployment.others.get(release)
    if isinstance(other, Reestimation):
        name = release
        files = PublishedTables.of(_open_published(deployment, [release], release)[release])
        sums = other.add_up_places(deployment, files, places, tables)
    else:
        (name, files), *others = _find_tables(deployment, release).items()
        if others:
            names = [name, *(other for other, _ in others)]
            raise click.UsageError(f"{len(names)} releases have this name: {', '.join(names)}; name one")
        sums = TopDown.add_up_places(files, places, tables)
    if as_json:
        print_json({"from": [name], "rows": sums.to_pylist()})
        return
    header = ["cell", "label", "published", "linear estimate", "standard error", "90% interval"]
    rows = [
        [
            row["cell"],
            row["label"].removeprefix("!!").replace("!!", " "),
            f"{row['estimate']:,}",
            f"{row['linear_estimate']:,.2f}",
            f"{row['standard_error']:,.2f}",
            f"{row['linear_lower']:,} to {row['linear_upper']:,}",
        ]
        for row in sums.to_pylist()
    ]
    print_table(f"The sum of the places, from {name}", header, rows)


_WHERE = re.compile(r"\s*(\S.*?)\s*(?:=(.*)|\s(?i:in)\b\s*(?:\((.*)\)\s*|(.*)))", re.DOTALL)
_CATEGORY = re.compile(r"""\s*(?:(["'])((?:(?!\1).|\1\1)*)\1|([^"',\s][^,]*?)?)\s*(?:,|$)""", re.DOTALL)
"""A category or name in quotes of either kind (doubled within it), or without quotes; and the comma after it."""


def _parse_categories(text: str) -> tuple[str, list[str | None]]:
    """A variable and its categories, from `age in (a, b)`, `age in a, b` or `age=a`.

    A category in quotes is taken literally. Without quotes, blanks around it are dropped, and `null` is None: records
    without a value.
    """
    parts = _WHERE.fullmatch(text)
    if not parts:
        raise click.UsageError(f"--where: {text} is not of the form 'age in (a, b)' or age=a")
    written = next(part for part in parts.groups()[1:] if part is not None)
    listed = _split(written, f"--where: {text}: quotes enclose a whole category, and are doubled within it")
    return parts[1], [None if category == "null" and not in_quotes else category for category, in_quotes in listed]


def _parse_names(option: str, text: str) -> list[str]:
    """The names of variables. A name in quotes is taken literally."""
    listed = _split(text, f"{option}: {text}: quotes enclose a whole name, and are doubled within it")
    return [name for name, _ in listed if name]


def _split(text: str, rule: str) -> "Iterator[tuple[str, bool]]":
    """The parts of a text between commas, without blanks around them, and whether each is in quotes. The rule is the
    error for any other text."""
    while text.strip():
        found = _CATEGORY.match(text)
        if not found:
            raise click.UsageError(rule)
        quote, quoted, plain = found.groups()
        yield (quoted.replace(2 * quote, quote), True) if quote else (plain or "", False)
        text = text[found.end() :]


def _find_tables(
    deployment: "Deployment", release: str, *, with_statistics: bool = False
) -> "dict[str, PublishedTables]":
    """The tables of the publications that `_find_published` finds."""
    from assets.publication.tables import PublishedTables

    published = _find_published(deployment, release, with_statistics=with_statistics)
    return {name: PublishedTables.of(signed) for name, signed in published.items()}


def _find_published(
    deployment: "Deployment", release: str, *, with_statistics: bool = False
) -> "dict[str, SignedFolder]":
    """The published releases among those declared together, by name, each one unaltered; on request, with the quantiles
    and moments of a hypercube."""
    names = [component.named for component in deployment.releases(release)]
    if with_statistics:
        others = deployment.declared[1].items()
        names += [name for name, other in others if name not in names and getattr(other, "of", "") == release]
    return _open_published(deployment, names, release)


def _open_published(deployment: "Deployment", names: "Sequence[str]", asked: str) -> "dict[str, SignedFolder]":
    """The publications of these names, unaltered and not withdrawn, by name. Errors refer to `asked`."""
    from assets.publication.asset import edition_problem
    from assets.release.signature import SignedFolder, altered_files

    folders = {name: folder for name in names if (folder := deployment.published / name).exists()}
    if not folders:
        raise click.UsageError(f"{asked} is not published; launch it first")
    published, entries = {}, deployment.ledger.read().require_intact()
    for name, folder in folders.items():
        if problems := altered_files(folder, deployment.public_key):
            raise click.ClickException(f"{name}: the publication is not intact: {problems[0]}")
        # Files that are exchanged from here on are not read.
        signed = SignedFolder.open(folder, deployment.public_key)
        identity = signed.identity()
        if (other := f"{identity.dataset}/{identity.release}") != name:
            raise click.ClickException(f"{name}: the publication in its folder is that of {other}")
        # It may be an old edition that was put back.
        if problem := edition_problem(identity, identity.dataset, identity.release, entries):
            raise click.ClickException(f"{name}: {problem}")
        published[name] = signed
    return published


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", type=click.Path(path_type=Path), required=True, help="A new folder for the tables.")
@click.option(
    "--key", type=click.Path(path_type=Path), help="The public key (PEM) that verifies the publication first."
)
@click.option(
    "--population",
    "populations",
    multiple=True,
    metavar="STATE=PERSONS",
    help="For the Census Bureau's files: the published population of a state, such as 44=1097379; "
    "repeat it for each state.",
)
@click.option("--own-levels", is_flag=True, help="Estimate each level from its own measurements alone.")
@click.option("--types-first", metavar="LEVEL", help="Without --own-levels: like the release's field types_first.")
@click.option(
    "--lean-on-housing-units", is_flag=True, help="Without --own-levels: like the release's field of this name."
)
def estimate(
    folder: Path,
    to: Path,
    key: Path | None,
    populations: tuple[str, ...],
    own_levels: bool,
    types_first: str | None,
    lean_on_housing_units: bool,
) -> None:
    """Estimate redistricting tables anew from noisy measurements. The tables have intervals.

    FOLDER is a published redistricting release, or has the Census Bureau's noisy measurement files. No record is read
    and nothing is charged. All data are held in memory, which is practical for a state.
    """
    from orchestration.components import TopDown
    from resources.project import deployment_folders

    of_states = {}
    for text in populations:
        state, _, persons = text.partition("=")
        if not (re.fullmatch("[0-9]{2}", state) and re.fullmatch("[0-9]{1,12}", persons) and state not in of_states):
            raise click.UsageError(f"--population: {text} is not of the form 44=1097379, once for each state")
        of_states[state] = int(persons)
    if to.resolve().is_relative_to(deployment_folders()[1].resolve()):
        raise click.UsageError(f"--to: {to} is among the publications; name a folder elsewhere")
    names = TopDown.estimate_anew(
        folder, to, of_states, key, own_levels=own_levels, types_first=types_first, leaning=lean_on_housing_units
    )
    echo(f"Estimated without a charge. In {to}: {', '.join(names)}")


@click.command()
@click.argument("release", type=RELEASE)
@click.argument("histogram")
@click.argument("level")
@click.argument("query")
@click.argument("places", nargs=-1, required=True)
@click.option("--to", type=click.Path(path_type=Path), help="A new file; by default, it is printed.")
def regenerate(release: str, histogram: str, level: str, query: str, places: tuple[str, ...], to: Path | None) -> None:
    """Make noisy answers of a DHC's draw again, as CSV. They are all answers to QUERY about HISTOGRAM in PLACES of
    LEVEL.

    A DHC draws only the answers that its estimation reads. The charge covers all of them, so this command charges
    nothing. It needs the confidential counts and the draw's key. PLACES are codes, as in the published tables.
    """
    import io

    from pyarrow.csv import write_csv

    from orchestration.components import DHC
    from orchestration.deployment import Deployment, require_single

    deployment = Deployment()
    component = require_single(release, deployment.releases(release))
    if not isinstance(component, DHC):
        raise click.UsageError(f"{release} is no DHC; its noisy measurements are complete")
    method = deployment.find_method(component)
    # The file must be new, so that the output cannot go to another file that has its name meanwhile.
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    opened = os.fdopen(os.open(to, new, 0o600), "wb") if to else nullcontext(io.BytesIO())
    try:
        with opened as written:
            answers = component.regenerate(method, deployment.ledger, histogram, level, query, places)
            write_csv(answers, written)
    except BaseException:
        if to:
            to.unlink(missing_ok=True)
        raise
    if isinstance(written, io.BytesIO):
        echo(written.getvalue().decode(), nl=False)
    else:
        echo(f"{len(answers):,} answers written to {to}")


@click.group()
def export() -> None:
    """Write a publication's record for others."""


@export.command()
@click.argument("release", type=RELEASE)
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="The file; by default, it is printed.")
def registry(release: str, to: Path | None) -> None:
    """Write a record for the Privacy Deployments Registry.

    It covers the points that NIST SP 800-226 asks of a guarantee. RELEASE must be published.

    Everything comes from the certificate, except for placeholders, which the command lists.
    """
    from assets.publication.registry import describe_deployment, list_placeholders, to_yaml
    from assets.release.signature import CERTIFICATE
    from orchestration.deployment import Deployment

    deployment = Deployment()
    published = _find_published(deployment, release)
    if len(published) > 1:
        raise click.UsageError(
            f"{release}: several releases are published, each with a record; name one of {', '.join(published)}"
        )
    (signed,) = published.values()
    record = describe_deployment(json.loads(signed.read(CERTIFICATE)))
    text = to_yaml(record)
    if to:
        to.write_text(text)
    else:
        echo(text, nl=False)
    echo(f"{f'Written to {to}. ' if to else ''}Fill in before you send it:", err=True)
    for placeholder in list_placeholders(record):
        echo(f"  {placeholder}", err=True)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--key", type=click.Path(path_type=Path), required=True, help="The public key (PEM), from a source that you trust."
)
@click.option(
    "--authority", type=click.Path(path_type=Path), help="The root certificate (PEM) of the time stamp authority."
)
def verify(folder: Path, key: Path, authority: Path | None) -> None:
    """Check a release's editions in FOLDER by the public key alone.

    With --authority, the time stamps in their certificates are verified too.
    """
    from assets.release import signature
    from resources import clock

    roots = clock.read_roots(authority) if authority else []
    public_key = signature.read_public_key(key)
    if not any((folder / name).exists() for name in (signature.CHECKSUMS, signature.CERTIFICATE, signature.EDITIONS)):
        raise click.ClickException(
            f"{folder}: {signature.CHECKSUMS} is missing, and so is {signature.CERTIFICATE}; name the folder of a "
            "release, such as published/dataset/release"
        )
    intact, problems = signature.verify(folder, public_key)
    if intact:
        echo(f"Intact, and signed with the key {signature.fingerprint(public_key)}:")
    for edition, content in intact.items():
        echo(f"{edition}: {content}")
        stamp = content.time_stamp
        if stamp and roots:
            try:
                echo(f"{edition}: verified: {clock.verify(stamp, roots)}")
            except clock.ClockError as error:
                problems.append(str(error))
        elif stamp or roots:
            found = "its time stamp was not verified, which --authority does" if stamp else "it has no time stamp"
            echo(f"{edition}: {found}")
    for problem in problems:
        echo(f"{folder}: {problem}", err=True)
    if problems:
        sys.exit(REFUSED)


@click.command()
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of audit.html and audit.json; by default var/audit.",
)
@as_json
def audit(to: Path | None, as_json: bool) -> None:
    """Check every claim that can be proved, and write a report. Charges nothing.

    Deletes sketches that are no longer needed, and ephemeral keys of settled or withdrawn draws that killed processes
    left. Nothing else changes.
    """
    from assets.confidentiality import list_nodes
    from assets.publication import audit as audits
    from orchestration import definitions
    from orchestration.deployment import Deployment
    from orchestration.jobs import now

    deployment = Deployment()
    _wait_for_writers(None)
    nodes = list_nodes(definitions.deployment(deployment.tree, deployment.home).resolve_all_asset_specs())
    methods = definitions.declared_methods(deployment.tree, deployment.published)
    record = audits.audit(methods, nodes, deployment.ledger, deployment.published, now())
    _, page = audits.write_report(record, to or deployment.home / "audit")
    if as_json:
        print_json(record)
    else:
        echo("Claims: " + ", ".join(f"{verdict}: {count}" for verdict, count in record["counts"].items()))
        for finding in record["findings"]:
            if finding["verdict"] == audits.Verdict.FAILS:
                details = "; ".join(detail.rstrip(".") for detail in finding["details"])
                echo(f"{finding['subject']}: {finding['name']} does not hold. {details}.")
        echo(f"The report is {page}")
    if record["verdict"] == audits.Verdict.FAILS:
        sys.exit(REFUSED)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8600, show_default=True, help="The port; 0 for any.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option(
    "--boundaries",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of GeoJSON files, for maps.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A host name for which a proxy on this machine forwards requests; repeatable.",
)
def explore(port: int, no_browser: bool, boundaries: Path | None, hosts: tuple[str, ...]) -> None:
    """Open a local page on budgets, plans, tables and the audit. It reads only public data.

    The page is available until you interrupt the command. Only this machine can open it.
    """
    from assets.ledger.page import read_last_replays
    from assets.release.signature import fingerprint
    from orchestration.deployment import Deployment
    from orchestration.explorer import launcher
    from orchestration.launch import open_instance, prepare_instance
    from resources.keyfiles import CustodyError

    prepare_instance()
    deployment = Deployment()
    datasets, releases = deployment.declared
    draws = [component.key(component.method.draw_stage) for component in releases.values() if component.charges]

    def read_replays() -> dict[str, str]:
        with open_instance() as instance:
            return read_last_replays(instance, draws)

    def announce(address: str) -> None:
        echo(f"The explorer is at {address}; end it with Ctrl+C.")

    known, custody = "", deployment.ledger.custody
    # Without a custody, or before there is one, the deployment's key is unknown.
    with suppress(CustodyError):
        known = fingerprint(deployment.public_key) if custody.anchor() else ""
    with suppress(KeyboardInterrupt):
        launcher.explore(
            deployment.home,
            deployment.published,
            datasets,
            read_replays,
            port,
            boundaries,
            announce,
            browser=not no_browser,
            hosts=hosts,
            public_key=known,
        )


@click.command()
@click.argument("name", type=RELEASE)
@click.option("--by", required=True, help="Who withdraws it, for the ledger.")
def withdraw(name: str, by: str) -> None:
    """Withdraw NAME for good. It is a release (dataset/release), or a dataset with all its releases.

    Its tables, publications and ephemeral keys are removed. The ledger keeps the charges and records the withdrawal.
    This cannot be undone.
    """
    from assets.publication import withdrawal
    from orchestration.deployment import Deployment

    deployment = Deployment()
    dataset, slash, release = name.partition("/")
    _wait_for_writers(dataset)
    try:
        done = withdrawal.withdraw(deployment.ledger, deployment.published, dataset, release if slash else None, by)
    except withdrawal.WithdrawalError as error:
        members: list[str] = []
        # A withdrawn release need not be declared any more, and other declarations may be wrong.
        with suppress(Exception):
            members = [member.named for member in deployment.groups.get(name, ())]
        if members in ([], [name]):
            raise
        declared = f"{name} declares these releases; withdraw each of them: {', '.join(members)}"
        raise withdrawal.WithdrawalError(f"{error}. {declared}") from None
    echo(done)


def _wait_for_writers(dataset: str | None) -> None:
    from orchestration.environment import is_cluster
    from orchestration.jobs import wait_for_writers
    from orchestration.launch import open_instance

    if is_cluster():
        with open_instance() as instance:
            wait_for_writers(instance, dataset, partial(echo, err=True))
