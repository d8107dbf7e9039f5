"""The command `plan`."""

import click

from orchestration.cli.printing import as_json
from orchestration.cli.releases import RELEASE


@click.command()
@click.argument("release", type=RELEASE)
@click.option(
    "--try", "tried", metavar="YAML", multiple=True, help="Fields of defs.yaml, such as 'swap_rate: 1/10'; repeatable."
)
@click.option(
    "--margin",
    "margins",
    metavar="LINE=NUMBER",
    multiple=True,
    help="The 90% margin of error to reach for a line, also in SafeTab; repeatable.",
)
@click.option("--total", help="The charge to reach, ρ or ε as declared: all budgets are multiplied by one number.")
@click.option(
    "--posterior",
    help="The wanted risk, instead of a total: the largest probability with which an attacker who knows every other "
    "record picks the true one of two values.",
)
@click.option(
    "--prior",
    default="1/2",
    show_default=True,
    help="For --posterior: the probability of one of the values before the publication.",
)
@click.option(
    "--largest-stratum",
    type=int,
    help="In swapping: a guess at b, the size of the largest stratum whose records differ. Needed for ε until an "
    "edition with the same invariants is published.",
)
@click.option(
    "--records",
    type=click.IntRange(min=1),
    help="The expected number of persons, or of units if there are none, for time, memory and disk.",
)
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the planned defs.yaml only.")
@as_json
def plan(
    release: str,
    tried: tuple[str, ...],
    margins: tuple[str, ...],
    total: str | None,
    posterior: str | None,
    prior: str,
    largest_stratum: int | None,
    records: int | None,
    as_yaml: bool,
    as_json: bool,
) -> None:
    """Show the charge, accuracy and stages of RELEASE. Reads no records.

    Also shows the time, memory and disk that a launch is expected to take on this machine.

    The options try alternatives; the declaration stays as it is. --yaml prints the file that declares the alternative.
    """
    from assets.release.plan import PlanRequest
    from orchestration.cli.plan_report import parse_fields, parse_margin, print_plans

    request = PlanRequest(
        fields=parse_fields(tried),
        margins=dict(map(parse_margin, margins)),
        total=total,
        posterior=posterior,
        prior=prior,
        largest_stratum=largest_stratum,
        records=records,
    )
    print_plans(release, request, as_yaml=as_yaml, as_json=as_json)
