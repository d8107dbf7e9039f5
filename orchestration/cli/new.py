"""The commands `new dataset` and `new release`."""

from pathlib import Path

import click

from orchestration.cli.releases import DATASET


@click.group()
def new() -> None:
    """Write a first declaration, for a person to read and change."""


@new.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--name", help="The dataset's name; by default, the file's.")
@click.option("--persons", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The file of persons.")
@click.option("--record-name", default="unit", show_default=True, help="What a record of FILE is called.")
@click.option("--cap", default="10", show_default=True, help="The cap: ε, or {rho: …}.")
@click.option("--key", help="The column of FILE that identifies a record, if it cannot be told by its name.")
@click.option("--unit", help="The column of persons that identifies their unit, if it is not called like the key.")
def dataset(
    file: Path,
    name: str | None,
    persons: Path | None,
    record_name: str,
    cap: str,
    key: str | None,
    unit: str | None,
) -> None:
    """Propose the declaration of a dataset from FILE, a CSV or Parquet file with one record for each unit."""
    from orchestration.cli.drafts import draft_dataset

    draft_dataset(file, name, persons, record_name=record_name, cap=cap, key=key, unit=unit)


@new.command()
@click.argument("dataset", type=DATASET)
@click.option("--name", help="The release's name; by default, its kind.")
@click.option(
    "--kind",
    type=click.Choice(["swapping", "tables", "phsafe", "topdown", "safetab-p", "safetab-h"]),
    help="The mechanism.",
)
def release(dataset: str, name: str | None, kind: str | None) -> None:
    """Propose the declaration of a release from DATASET."""
    from orchestration.cli.drafts import draft_release

    draft_release(dataset, name, kind)
