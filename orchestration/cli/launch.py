"""The commands `launch` and `preflight`."""

import click

from orchestration.cli.printing import as_json, echo
from orchestration.cli.releases import RELEASE
from orchestration.queue import find_webserver


@click.command()
@click.argument("release", type=RELEASE)
@click.option("--authorize", metavar="LOSS", default="", help="The loss to charge, as the refusal states it.")
@click.option("--draw", default="", help="The draw that is authorized, as the refusal states it.")
@click.option("--by", default="", help="Who authorizes the charge.")
@click.option(
    "--different-people",
    metavar="WORDS",
    default="",
    help="The reason why these are different people, if Stirred finds people of another population in the records.",
)
@click.option(
    "--public-because",
    metavar="WORDS",
    default="",
    help="The reason why the records are public, at the first draw from a public dataset.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print Dagster's log too, unless the webserver has it.")
@as_json
def launch(
    release: str,
    authorize: str,
    draw: str,
    by: str,
    different_people: str,
    public_because: str,
    verbose: bool,
    as_json: bool,
) -> None:
    """Launch RELEASE, from its source to its publication. Its name is dataset/release.

    A new draw that needs an authorization is refused with its price (exit code 3). Launch it again with --authorize
    and --draw as the refusal states them, and your name after --by.
    """
    if not as_json:
        # The imports of this command take seconds, unless a webserver has loaded them already.
        doing = "asking the webserver" if find_webserver() else "loading its declaration"
        echo(f"Launching {release}: {doing} …")
    from orchestration.cli.runs import launch_release

    given = {
        "authorized_loss": authorize,
        "authorized_draw": draw,
        "authorized_by": by,
        "different_people": different_people,
        "public_because": public_because,
    }
    launch_release(release, {name: words for name, words in given.items() if words}, verbose=verbose, as_json=as_json)


@click.command()
@click.argument("release", type=RELEASE)
@as_json
def preflight(release: str, as_json: bool) -> None:
    """Show the charge of launching RELEASE, and its reason. Draws and charges nothing."""
    from orchestration.cli.runs import print_preflights

    print_preflights(release, as_json=as_json)
