"""The deployment that the environment names, for commands and `make`: declarations, ledger, keys, runs."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click
import dagster as dg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from assets.ledger.population import group_populations
from assets.ledger.view import format_charge, list_budget_records
from assets.release.dataset import DatasetDeclaration
from assets.release.signature import CERTIFICATE, Identity, list_signed, public_key, signed_identity
from assets.texts import suggest
from orchestration.components.release import DeclaresReleases, ReleaseComponent, dataset_of
from orchestration.components.scaffolding import JobComponent
from orchestration.declarations import component_tree, load_declarations
from orchestration.environment import deployment_resources
from orchestration.following import list_jobs, name_job
from resources.chain import RESERVE, SETTLE, Entry, find_last_withdrawal
from resources.custody import CustodyError
from resources.ledger import Ledger, Reading
from resources.project import deployment_folders

if TYPE_CHECKING:
    from assets.planning.expectation import Machine


_LATELY = 200
"""The number of runs that one query looks at."""


class Deployment:
    """The deployment that the environment names. Raises DeclarationError as `deployment_resources`."""

    def __init__(self) -> None:
        self.home, self.published = deployment_folders()
        ledger = deployment_resources(self.home)["ledger"]
        assert isinstance(ledger, Ledger)
        self.ledger = ledger

    @cached_property
    def tree(self) -> dg.ComponentTree:
        return component_tree()

    @cached_property
    def declared(self) -> tuple[list[DatasetDeclaration], dict[str, ReleaseComponent]]:
        datasets, releases = load_declarations(self.tree)
        return datasets, {release.named: release for release in releases}

    def releases(self, name: str) -> Sequence[ReleaseComponent]:
        """The release of a name, or all releases that are declared together under it. Raises `click.UsageError` if
        there is none; if the name belongs to another kind of object, the error names the kind."""
        if name in self.others:
            raise click.UsageError(f"{name} is no release, but {self.others[name].in_words}")
        singles = {single: [component] for single, component in self.declared[1].items()}
        known = {**self.groups, **singles}
        if name not in known:
            # The name of a dataset suggests all its releases.
            of_dataset = [other for other in known if other.startswith(f"{name}/")]
            close = "" if of_dataset else suggest(name, known)
            declared = ", ".join(sorted(of_dataset or known)) or "none"
            raise click.UsageError(f"there is no release {name}{close}; declared are {declared}")
        return known[name]

    @cached_property
    def others(self) -> dict[str, JobComponent]:
        """All objects that have a job but no draw of their own, such as laboratories, by name, `dataset/laboratory`."""
        components = self.tree.get_all_components(JobComponent)  # type: ignore[type-abstract]
        return {component.named: component for component in components}

    @cached_property
    def groups(self) -> dict[str, Sequence[ReleaseComponent]]:
        """The releases declared together, by the name under which they are declared."""
        components = self.tree.get_all_components(DeclaresReleases)  # type: ignore[type-abstract]
        return {component.named: component.releases(components) for component in components}

    def find_method(self, component: ReleaseComponent) -> Any:
        datasets = {dataset.name: dataset for dataset in self.declared[0]}
        release = component.release(dataset_of(component.declaration, datasets), self.published)
        return component.method(release)

    def budgets(self, reading: Reading) -> list[dict[str, Any]]:
        return list_budget_records(reading, group_populations(self.declared[0]))

    def statuses(self, instance: dg.DagsterInstance, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        """For each release: its number of draws, its charges, and its last run."""
        statuses = []
        job_of_group = {group: group.replace("/", "__") for group in self.groups}
        own_jobs = {job for name, component in self.declared[1].items() for job in _list_jobs(name, component)}
        last_runs = _find_last_runs(instance, {*own_jobs, *job_of_group.values()})
        for name, component in sorted(self.declared[1].items()):
            dataset, release = name.split("/")
            own = [entry for entry in entries if (entry.dataset, entry.release) == (dataset, release)]
            groups = [group for group, members in self.groups.items() if name in {member.named for member in members}]
            jobs = {*_list_jobs(name, component), *(job_of_group[group] for group in groups)}
            runs = [last_runs[job] for job in jobs if job in last_runs]
            statuses.append(
                {
                    "release": name,
                    "title": component.declaration.title,
                    "draws": sum(entry.kind == SETTLE for entry in own),
                    "charges": [format_charge(entry) for entry in own if entry.kind == RESERVE],
                    **self._describe_published(dataset, release, own),
                    "withdrawn": find_last_withdrawal(own, dataset, release) is not None,
                    **_describe_last(runs),
                }
            )
        return statuses

    def other_statuses(self, instance: dg.DagsterInstance, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        """For each of the others: its kind, whether it is published from a draw in the ledger, and its last run."""
        statuses = []
        last_runs = _find_last_runs(instance, {component.job for component in self.others.values()})
        for name, component in sorted(self.others.items()):
            dataset, own = name.split("/")
            statuses.append(
                {
                    "name": name,
                    "kind": component.declaration.declares,
                    "title": component.declaration.title,
                    **self._describe_published(dataset, own, entries),
                    **_describe_last([last_runs[component.job]] if component.job in last_runs else []),
                }
            )
        return statuses

    def _describe_published(self, dataset: str, release: str, entries: Sequence[Entry]) -> dict[str, Any]:
        """Whether there is a certificate signed by this deployment, for a draw in its ledger or for estimates from
        published measurements, and the edition. `published` is None if the keys cannot be read, so that it is
        unknown."""
        folder, unpublished = self.published / dataset / release, {"published": False, "edition": None}
        if not (folder / CERTIFICATE).exists():
            return unpublished
        try:
            identity = signed_identity(folder, self.public_key)
        except CustodyError:
            return unpublished | {"published": None}
        if identity is None or (identity.dataset, identity.release) != (dataset, release):
            return unpublished
        drawn = {(entry.dataset, entry.release, entry.hash) for entry in entries}
        if identity.ledger_entry and (dataset, identity.drawn_as, identity.ledger_hash) not in drawn:
            return unpublished
        return {"published": True, "edition": identity.name}

    def list_signed(self) -> list[Identity]:
        """The identities of all published editions; none if the keys cannot be read. Without publications, no key is
        made."""
        if not any(self.published.glob(f"*/*/{CERTIFICATE}")):
            return []
        try:
            return list_signed(self.published, self.public_key)
        except CustodyError:
            return []

    @cached_property
    def machine(self) -> "Machine":
        from assets.planning.expectation import this_machine

        return this_machine(self.home, self.published, in_lake=bool(self.ledger.warehouse.lake))

    @cached_property
    def public_key(self) -> Ed25519PublicKey:
        return public_key(self.ledger.custody)


def _list_jobs(name: str, component: ReleaseComponent) -> list[str]:
    """The jobs that make a release: one, or with partitions also those of each round."""
    further = [name_job(name, job) for of_round in list_jobs(component.rounds) for job in of_round]
    return [component.job, *further]


def _describe_last(runs: Sequence[dg.RunRecord]) -> dict[str, str | None]:
    """The status and start of the last of some runs."""
    last = max(runs, key=lambda run: run.create_timestamp, default=None)
    return {
        "last_run": last.dagster_run.status.value.lower() if last else None,
        "last_run_at": last.create_timestamp.isoformat(timespec="seconds") if last else None,
    }


def _find_last_runs(instance: dg.DagsterInstance, jobs: set[str]) -> dict[str, dg.RunRecord]:
    """The last run of each job that ever ran. One query finds the recent runs, which are nearly always all."""
    records = instance.get_run_records(limit=_LATELY)
    last = {record.dagster_run.job_name: record for record in reversed(records)}
    if len(records) == _LATELY:
        for job in jobs - last.keys():
            for record in instance.get_run_records(dg.RunsFilter(job_name=job), limit=1):
                last[job] = record
    return last


def require_single(name: str, releases: Sequence[ReleaseComponent]) -> ReleaseComponent:
    """The one release of a name. Raises `click.UsageError` if several are declared under it."""
    if len(releases) > 1:
        names = ", ".join(sorted(release.named for release in releases))
        raise click.UsageError(f"{name} is declared as {names}; name one of them")
    return releases[0]
