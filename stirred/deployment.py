"""A deployment from Python: its releases, plans, prices and launches, and its publications with their errors.

Functions that read or change the deployment run the command `stirred` in a separate process with the same Python. So a
notebook keeps its settings, and both ways give the same results.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mechanisms.refusal import RefusedError, are_lists
from stirred.results import write_frame

if TYPE_CHECKING:
    from assets.release.signature import Identity

__all__ = ["Deployment", "Launch", "NotAuthorizedError", "Publication", "RefusedError", "open_deployment"]

_ERRORS = ("estimate", "standard_error", "lower", "upper")


class NotAuthorizedError(RefusedError):
    """A launch needs an authorization. The message states the price and the arguments for `Deployment.launch`."""


@dataclass(frozen=True)
class Launch:
    """The charges and publications of a launch.

    Attributes:
        charges: by release, the loss in words; empty without a new draw.
        folders: the folders of the publications.
        checks_passed: the number of checks; all passed.
    """

    run: str
    charges: Mapping[str, str]
    folders: tuple[Path, ...]
    checks_passed: int


@dataclass(frozen=True)
class Deployment:
    """The deployment in a folder. Its declarations are under `orchestration/defs`; its databases, keys and publications
    are in the folders set by the environment (`STIRRED_HOME`, `STIRRED_PUBLISHED`), by default `var` and
    `published`."""

    folder: Path

    def releases(self) -> list[dict[str, Any]]:
        """A dictionary for each declared release: its name, title, number of draws, charges, published edition (if any)
        and last run."""
        return list(self._ask("status")["releases"])

    def budgets(self) -> list[dict[str, Any]]:
        """A dictionary for each population: its total charge, its cap, and the rest of the cap."""
        return list(self._ask("status")["populations"])

    def plan(
        self,
        release: str,
        fields: Mapping[str, Any] | None = None,
        *,
        margins: Mapping[str, Any] | None = None,
        total: str | None = None,
        largest_stratum: int | None = None,
        records: int | None = None,
    ) -> dict[str, Any]:
        """The charge, the accuracy and the stages of a launch. Reads no records.

        Args:
            fields: fields of its declaration to try, such as `{"swap_rate": "1/10"}`.
            margins: the 90% margins of error to reach, by line. Alternatively, `total` is the charge to reach.
            largest_stratum: b of a swap, if no edition with the same invariants is published.
            records: the expected number of records, for time, memory and disk.
        """
        options = ["--try", json.dumps(fields)] if fields else []
        options += [f"--margin={line}={margin}" for line, margin in (margins or {}).items()]
        given = {"total": total, "largest-stratum": largest_stratum, "records": records}
        options += [f"--{name}={value}" for name, value in given.items() if value is not None]
        return dict(self._ask("plan", release, *options))

    def preflight(self, release: str) -> Any:
        """The charge of a launch and its reason: a dictionary, or one for each release declared under the name. Reads
        records, without a draw or a charge."""
        return self._ask("preflight", release)

    def launch(self, release: str, *, authorize: str = "", draw: str = "", by: str = "", **statements: str) -> Launch:
        """Make a release, from its source to its publication.

        Args:
            authorize, draw, by: the loss, the draw and the name of the authorizing person, as the refusal requests
                them.
            statements: `different_people` or `public_because`, as a refusal requests them.

        Raises NotAuthorizedError if a new charge needs an authorization, and RefusedError for every other refusal.
        """
        given = {"authorize": authorize, "draw": draw, "by": by} | statements
        options = [f"--{name.replace('_', '-')}={words}" for name, words in given.items() if words]
        done = self._ask("launch", release, *options)
        return Launch(done["run"], done["charges"], tuple(map(Path, done["folders"])), done["checks_passed"])

    def ask(
        self,
        release: str,
        by: Sequence[str] = (),
        where: Mapping[str, Sequence[Any]] | None = None,
        *,
        per: str | None = None,
        median: str | None = None,
        quantile: tuple[str, Any] | None = None,
        summary: bool = False,
        correlate: tuple[str, str] | None = None,
        regress: str | None = None,
        on: Sequence[str] = (),
        kind: str = "pandas",
    ) -> Any:
        """A sub-table of a release of hypercubes, with standard errors and 90% intervals. Costs nothing.

        Args:
            where: by variable, the categories to count (None: records without a value).
            per: another release, by whose counts or weights the sums are divided.
            median, quantile: the variable of a median; or a variable and another share, such as 0.9.
            summary: means, standard deviations and correlations of all variables of moments.
            correlate: two variables of moments. For a regression, `regress` is the outcome, and `on` lists the
                predictors.
            kind: "pandas", "arrow" or "duckdb".
        """
        import pyarrow as pa

        if not are_lists(by, *(where or {}).values()):
            raise RefusedError("variables and categories are given as lists")
        options = ["--by", _write_names(by)] + (["--per", per] if per else [])
        shared = "=".join(map(str, quantile)) if quantile else None
        asked = {"median": median, "quantile": shared, "correlate": _write_names(correlate or ()), "regress": regress}
        options += [f"--{name}={value}" for name, value in (asked | {"on": _write_names(on)}).items() if value]
        options += ["--summary"] if summary else []
        for name, categories in (where or {}).items():
            options += ["--where", f"{name} in ({', '.join(map(_write_category, categories))})"]
        rows = self._ask("table", release, *options)["rows"]
        figures = [
            {name: float(cell) if name in _ERRORS and cell is not None else cell for name, cell in row.items()}
            for row in rows
        ]
        return write_frame(pa.Table.from_pylist(figures), kind)

    def verify(self, release: str, key: Path | str | None = None) -> "list[Identity]":
        """The verified editions of a published release, as `Publication.verify`."""
        return self[release].verify(key)

    @property
    def published(self) -> Path:
        """The folder of publications."""
        return self.folder / os.environ.get("STIRRED_PUBLISHED", "published")

    def __getitem__(self, release: str) -> "Publication":
        """The publication of a release, by its name `dataset/release`. Raises KeyError if it is not published."""
        folder = self.published / release
        if not (folder / "certificate.json").exists():
            raise KeyError(f"{release} is not published in {self.published}")
        return Publication(folder, self.published / "public_key.pem", release, self._list_withdrawn(release))

    def _list_withdrawn(self, release: str) -> frozenset[str]:
        """The names of a release's withdrawn editions, which have no checksums in the custody's record. None for a user
        who cannot read the custody. The record's seal is not checked, because this process reads no master key; the
        record can only refuse an edition."""
        home = self.folder / os.environ.get("STIRRED_HOME", "var")
        try:
            record = json.loads((home / "custody" / "publications" / release.replace("/", "__")).read_bytes())
            return frozenset(name for name, (_, checksums) in record["editions"].items() if not checksums)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return frozenset()

    def _ask(self, command: str, *arguments: str) -> Any:
        """The JSON that a command prints. Raises RefusedError with the command's message if the command refuses."""
        place = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join([place, *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "stirred", command, *arguments, "--json"],
            cwd=self.folder,
            env=os.environ | {"STIRRED_PROJECT": str(self.folder), "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return json.loads(done.stdout)
        record = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        failed = [
            f"{check['asset']}: {check['check']} failed. {check['words']}" for check in record.get("checks_failed", ())
        ]
        log = f"The run failed. The log is {record.get('log')}" if record else ""
        message = record.get("refused") or "\n".join(failed) or done.stderr.strip().removeprefix("Error: ") or log
        raise (NotAuthorizedError if done.returncode == 3 else RefusedError)(message)


@dataclass(frozen=True, repr=False)
class Publication:
    """The publication of a release in a folder. Its files are verified with a public key before any is read.

    The key next to publications is as trustworthy as the folder: compare its printed fingerprint with one from a source
    that you trust, or pass the trusted key to `verify`.

    Attributes:
        release: the requested release, as `dataset/release`; "" for any release.
        withdrawn: the names of withdrawn editions, which are not read, even if somebody put them back.
    """

    folder: Path
    key: Path
    release: str = ""
    withdrawn: frozenset[str] = frozenset()

    @cached_property
    def certificate(self) -> dict[str, Any]:
        """The certificate: the DP specification, allocations, commitments, versions and gates. Raises VerificationError
        if a file of the edition was altered."""
        self.verify()
        return dict(json.loads(self._read("certificate.json")))

    @property
    def specification(self) -> dict[str, str]:
        """The five building blocks of the DP specification, in words. Estimates from published measurements have none
        of their own: they keep the guarantee of the measurements."""
        return {row["block"]: row["answer"] for row in self.certificate.get("specification", ())}

    @property
    def tables(self) -> dict[str, str]:
        """The titles of the published tables, by name."""
        self.verify()
        resources = json.loads(self._read("datapackage.json"))["resources"]
        return {Path(each["path"]).stem: each["title"] for each in resources if each["path"].endswith(".parquet")}

    def table(self, name: str, kind: str = "pandas") -> Any:
        """A published table, with the columns of its errors. Raises KeyError for an unknown name."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if name not in (tables := self.tables):
            raise KeyError(f"{self.folder} has no table {name}; there are {', '.join(tables)}")
        return write_frame(pq.read_table(pa.BufferReader(self._read(f"{name}.parquet"))), kind)

    def _read(self, name: str) -> bytes:
        """A file of the current edition, as signed, even if files are replaced meanwhile. Raises VerificationError."""
        from assets.release import signature

        signed = signature.SignedFolder.open(self.folder, signature.read_public_key(self.key))
        self._require_own(signed.identity())
        return signed.read(name)

    def _require_own(self, identity: "Identity") -> None:
        from assets.release.signature import VerificationError

        if self.release not in ("", other := f"{identity.dataset}/{identity.release}"):
            raise VerificationError(f"{self.release}: the publication in its folder is that of {other}")
        if identity.name in self.withdrawn:
            raise VerificationError(f"{identity} was withdrawn")

    def verify(self, key: Path | str | None = None) -> "list[Identity]":
        """The verified editions in the folder, the current one first. Raises VerificationError if a file was altered or
        is not signed with the key, a PEM file (by default, the key next to the publications), or if they are of another
        release or were withdrawn."""
        from assets.release import signature

        intact, problems = signature.verify(self.folder, signature.read_public_key(Path(key or self.key)))
        if problems:
            raise signature.VerificationError("; ".join(problems))
        for identity in intact.values():
            self._require_own(identity)
        return list(intact.values())

    def __repr__(self) -> str:
        from assets.release import signature

        current = self.verify()[0]
        printed = signature.fingerprint(signature.read_public_key(self.key))
        blocks = [f"  {block.lower()}: {answer}" for block, answer in self.specification.items()]
        if estimate := self.certificate.get("estimate"):
            blocks = [f"  estimated anew from: {estimate['source']['title']}"]
        return "\n".join([str(current), *blocks, f"  signed with the key {printed}"])


def open_deployment(folder: Path | str = ".") -> Deployment:
    """The deployment in a folder, such as a checkout. Raises FileNotFoundError if it has no declarations."""
    path = Path(folder).absolute()
    if not (path / "orchestration" / "defs").is_dir():
        raise FileNotFoundError(f"{path} has no declarations: there is no folder orchestration/defs")
    return Deployment(path)


def _write_names(names: Sequence[str]) -> str:
    return ",".join(_write_category(name) if re.search("""^\\s|\\s$|^["']|,""", name) else name for name in names)


def _write_category(category: Any) -> str:
    return "null" if category is None else '"' + str(category).replace('"', '""') + '"'
