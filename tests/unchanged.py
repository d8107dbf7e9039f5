"""Comparison of releases before and after a change of the code: `python -m tests.unchanged <file>` in both checkouts.

It makes the releases in `RELEASES` under a fixed master key, in separate folders, and writes their draw ids, the
checksums of their published files and the data versions of their assets. Compare the two files with `diff`. The output
omits the certificate and the files made with it, because it has the times of its run; its JSON Schema, which describes
its format; and the version of a publication.
"""

import json
import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg

RELEASES = (
    "ma1940/tenure_by_county",
    "two_states/swapped",
    "two_states/pairs_2010",
    "two_states/s_dhc",
    "two_states/redistricting",
    "two_states/hypercubes",
    "detailed/persons",
    "detailed/households",
    "survey/tables",
)
LEFT_OUT = {
    "certificate.json",
    "certificate.html",
    "certificate.schema.json",
    "datapackage.json",
    "dcat.jsonld",
    "SHA256SUMS",
    "SHA256SUMS.sig",
    "index.html",
}
PROJECT = Path(__file__).resolve().parents[1]


def make(folder: Path) -> dict[str, Any]:
    """Make all releases below a new folder."""
    for name in ("STIRRED_HOME", "STIRRED_PUBLISHED", "DAGSTER_HOME"):
        os.environ[name] = str(folder / name.lower())
        Path(os.environ[name]).mkdir()
    os.environ |= {"STIRRED_MASTER_KEY": "5eed" * 16, "PYTHONPATH": str(PROJECT)}
    (folder / "dagster_home" / "dagster.yaml").write_text((PROJECT / "dagster.yaml").read_text())
    for release in RELEASES:
        subprocess.run([sys.executable, "-m", "orchestration.cli", "launch", release], cwd=PROJECT, check=True)
    published = folder / "stirred_published"
    certificates = {
        str(path.parent.relative_to(published)): json.loads(path.read_text())["randomness"]
        for path in sorted(published.rglob("certificate.json"))
    }
    files = {
        str(path.relative_to(published)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(published.rglob("*"))
        if path.is_file() and path.name not in LEFT_OUT
    }
    versions = {}
    with dg.DagsterInstance.get() as instance:
        for key in sorted(instance.all_asset_keys()):
            event = instance.get_latest_materialization_event(key)
            if key.path[-1] != "publication" and event is not None and event.asset_materialization is not None:
                tags = event.asset_materialization.tags or {}
                versions[key.to_user_string()] = tags.get("dagster/data_version")
    return {"randomness": certificates, "files": files, "versions": versions}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        Path(sys.argv[1]).write_text(json.dumps(make(Path(scratch)), indent=1, sort_keys=True))
