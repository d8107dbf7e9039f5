"""The deployment as the environment sets it: its folders, and the resources in them.

- `STIRRED_PROJECT`: the folder of the deployment, with its declarations under `orchestration/defs`; by default the
  checkout, or the current folder if Stirred is installed (`resources.project`);
- `STIRRED_HOME`: the folder of databases and keys; `var` in the project by default;
- `STIRRED_PUBLISHED`: the folder of publications; `published` in the project by default;
- `STIRRED_PUBLISHED_URL`: the address under which the folder of publications is served, if it is;
- `STIRRED_MEMORY_LIMIT`, `STIRRED_THREADS`, `STIRRED_SPILL_FOLDER`: DuckDB's settings for each session;
- `STIRRED_DASK`: the address of a Dask scheduler whose workers estimate; the workers receive public data only, and are
  trusted like the run itself;
- `STIRRED_DECLARATION_VARIABLES`: the variables that declarations may use as folders of source files, separated by
  commas; by default `CEF_FOLDER` alone;
- `STIRRED_MASTER_KEY`: the master key, if it is not kept in a file;
- `STIRRED_TIME_AUTHORITY`, `STIRRED_TIME_AUTHORITY_ROOT`: the address of an authority that stamps the ledger's head for
  each publication, and the file with its root certificate, which verifies the stamps;
- `STIRRED_DEPLOYMENT`: `files` (the default), or `cluster` for a deployment that several machines share;
- `STIRRED_LEDGER`: `file` or `postgres`, to override the deployment's default; libpq's environment names the server;
- `STIRRED_LAKE_CONFIDENTIAL`, `STIRRED_LAKE_PUBLIC`: in a cluster, where the files of the zones lie: folders, or
  `s3://bucket/prefix`. libpq finds their catalogs as the services `stirred_confidential` and `stirred_public`;
- `AWS_ENDPOINT_URL`: the S3 server, if it is not Amazon's. DuckDB reads keys and region from the environment;
- `AWS_CA_BUNDLE`: the file with the certificate authorities of the S3 server, if the system does not have them.
"""

import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import dagster as dg

from assets.release.release import DeclarationError
from resources import clock
from resources.addresses import is_web_address
from resources.custody import Custody
from resources.faults import forbid_core_files
from resources.ledger import Ledger
from resources.project import OF_SECRETS, deployment_folders
from resources.statements import Zone
from resources.warehouse import Warehouse

_DATA_PATH = re.compile(r"(/|s3://[a-z0-9][a-z0-9.-]+)(/?[^?#*\[\]]+)?")

_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)? *([KMGT]i?B?|B|%)", re.I)

_SCHEDULER = re.compile(r"(?P<protocol>tcp|tls)://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}")

_VARIABLE = re.compile(r"\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

_THIS_MACHINE = ("127.0.0.1", "[::1]", "localhost")


def read_published_address() -> str:
    """The address at which publications are served, or "". Raises DeclarationError if it is no web address."""
    address = os.environ.get("STIRRED_PUBLISHED_URL", "")
    if address and not is_web_address(address):
        raise DeclarationError(
            "STIRRED_PUBLISHED_URL is not an address such as http://host:3001, without a name or password in it"
        )
    return address


def dask_scheduler() -> str:
    """The address of the Dask scheduler whose workers estimate; "" if processes of this machine estimate.

    The run's process, which can open the custody, unpickles the workers' results. Anyone who can connect to a scheduler
    at `tcp://` can return anything, so `tcp://` is allowed for this machine alone.

    Raises DeclarationError if the value is not such an address, names another machine without TLS, or the package
    `distributed` is not installed.
    """
    address = os.environ.get("STIRRED_DASK", "")
    if not address:
        return address
    if (parts := _SCHEDULER.fullmatch(address)) is None:
        raise DeclarationError("STIRRED_DASK is not an address such as tls://host:8786")
    if parts["protocol"] == "tcp" and parts["host"] not in _THIS_MACHINE:
        raise DeclarationError(
            "STIRRED_DASK is an address where any machine of the network could pass as scheduler or worker: tcp:// is "
            "for this machine alone (127.0.0.1, [::1] or localhost); use tls:// with certificates"
        )
    if find_spec("distributed") is None:
        raise DeclarationError("STIRRED_DASK is set, but the package distributed is not installed (stirred[dask])")
    return address


def is_cluster() -> bool:
    """Whether several machines share the deployment. Raises DeclarationError if `STIRRED_DEPLOYMENT` is unknown."""
    return _choose("STIRRED_DEPLOYMENT", ("files", "cluster"), 0) == "cluster"


def ledger_on_server() -> bool:
    """Whether the ledger is in a PostgreSQL server. Raises DeclarationError if `STIRRED_LEDGER` is unknown."""
    return _choose("STIRRED_LEDGER", ("file", "postgres"), int(is_cluster())) == "postgres"


def find_lake_paths() -> dict[str, str]:
    """The place of the files of each zone in the lake, by zone; empty in a deployment on files.

    Raises DeclarationError if a data path is missing in a cluster, is neither a folder nor a place on an S3 server, is
    inside the other or the publications, or holds the publications or the deployment's home, whose Parquet files
    `Warehouse.compact` would delete. Links are followed.
    """
    if not is_cluster():
        return {}
    variables = {Zone.CONFIDENTIAL: "STIRRED_LAKE_CONFIDENTIAL", Zone.PUBLIC: "STIRRED_LAKE_PUBLIC"}
    home, published = (_follow_links(str(folder)) for folder in deployment_folders())
    paths, places = {}, []
    for zone, variable in variables.items():
        given = os.environ.get(variable, "")
        # DuckDB would take the text after a question mark for keys, and the catalog would keep them.
        if not _DATA_PATH.fullmatch(given):
            raise DeclarationError(
                f"{variable} is neither a folder such as /srv/lake nor a place such as s3://bucket/prefix "
                "(STIRRED_DEPLOYMENT is cluster)"
            )
        paths[zone.value] = f"{given.rstrip('/')}/"
        place = _follow_links(given)
        if home.startswith(place) or published.startswith(place):
            raise DeclarationError(
                f"STIRRED_HOME or STIRRED_PUBLISHED is inside {variable}, which is for the lake alone"
            )
        if place.startswith(published):
            raise DeclarationError(f"{variable} is inside STIRRED_PUBLISHED, which is for publications alone")
        places.append(place)
    one, other = places
    if one.startswith(other) or other.startswith(one):
        raise DeclarationError(f"{' and '.join(variables.values())} are not apart: one is inside the other")
    return paths


def _follow_links(place: str) -> str:
    """A folder without links, or a place on an S3 server, with a slash at its end."""
    return f"{(place if place.startswith('s3://') else os.path.realpath(place)).rstrip('/')}/"


def list_folder_variables() -> list[str]:
    """The variables that declarations may use as folders of source files, without those that look like a secret's."""
    listed = os.environ.get("STIRRED_DECLARATION_VARIABLES", "CEF_FOLDER").replace(",", " ").split()
    return [name for name in listed if not OF_SECRETS.fullmatch(name)]


def fill_in_folder(path: str) -> str:
    """The path of a source file with the template variables of its folder filled in, each as `{{ env.NAME }}`.

    Otherwise, an editor of declarations could read every variable of the deployment, including its keys: if a path
    cannot be opened, the error quotes it with the value. The name of the file, which findings quote, must be written
    out.

    Raises:
        DeclarationError: without values, if there is another expression, or a variable is not listed or not set.
    """
    folder, slash, file = path.rpartition("/")
    left = _VARIABLE.sub("", folder) + file
    if any(sign in left for sign in ("{{", "}}", "{%", "%}", "{#", "#}")):
        raise DeclarationError("of templates, only {{ env.NAME }} is filled in, and only in the folder of a file")
    for name in _VARIABLE.findall(folder):
        if OF_SECRETS.fullmatch(name):
            raise DeclarationError(f"the variable {name} is not a folder of source files")
        if name not in list_folder_variables():
            raise DeclarationError(f"STIRRED_DECLARATION_VARIABLES does not list {name}, so no declaration can use it")
        if not os.environ.get(name):
            raise DeclarationError(f"the variable {name} is not set")
    return _VARIABLE.sub(lambda variable: os.environ[variable[1]], folder) + slash + file


def _find_time_authority() -> tuple[str, str]:
    """The address of the authority and the file of its root certificate. The file alone verifies earlier stamps."""
    address, root = os.environ.get(clock.ADDRESS, ""), os.environ.get(clock.ROOT, "")
    if address and not is_web_address(address):
        raise DeclarationError(f"{clock.ADDRESS} is not an address such as http://host/tsr, without a key in it")
    if (address or root) and not Path(root).is_file():
        raise DeclarationError(f"{clock.ROOT} is not a file with the root certificate of the time stamp authority")
    return address, root


def _choose(variable: str, choices: Sequence[str], default: int) -> str:
    given = os.environ.get(variable) or choices[default]
    if given not in choices:
        raise DeclarationError(f"{variable} is not one of {', '.join(choices)}")
    return given


def deployment_resources(home: Path) -> dict[str, dg.ConfigurableResource]:
    """The warehouse, custody and ledger of the deployment that keeps its state in `home`.

    Every process that reads a key calls this function, so from here on, this process leaves no core file.

    Raises DeclarationError, which never quotes a variable, if the value of a variable is not valid, or the deployment's
    keys and records lie among its publications, which readers see and backups copy.
    """
    forbid_core_files()
    own, published = (_follow_links(str(folder)) for folder in deployment_folders())
    if own.startswith(published):
        raise DeclarationError("STIRRED_HOME is inside STIRRED_PUBLISHED, which is for publications alone")
    threads = os.environ.get("STIRRED_THREADS", "0")
    if not (threads.isascii() and threads.isdigit()):
        raise DeclarationError("STIRRED_THREADS is not a number of threads such as 4 (0: all cores)")
    memory = os.environ.get("STIRRED_MEMORY_LIMIT", "2GiB")
    if not _MEMORY.fullmatch(memory):
        raise DeclarationError("STIRRED_MEMORY_LIMIT is not a size of memory such as 2GiB or 80%")
    server = os.environ.get("AWS_ENDPOINT_URL", "")
    if server and not is_web_address(server):
        raise DeclarationError("AWS_ENDPOINT_URL is not an address such as http://host:8333, without a key in it")
    lake, authorities = find_lake_paths(), os.environ.get("AWS_CA_BUNDLE", "")
    if lake and authorities and not Path(authorities).is_file():
        raise DeclarationError("AWS_CA_BUNDLE is not a file with certificates of the S3 server's authorities")
    warehouse = Warehouse(
        folder=str(home / "warehouse"),
        memory_limit=memory,
        threads=int(threads),
        spill_folder=os.environ.get("STIRRED_SPILL_FOLDER", ""),
        lake=lake,
        object_storage=server,
        authorities=authorities,
    )
    custody = Custody(folder=str(home / "custody"), databases=warehouse.folder, lake=warehouse.lake)
    authority, root = _find_time_authority()
    ledger = Ledger(
        warehouse=warehouse,
        custody=custody,
        on_server=ledger_on_server(),
        time_authority=authority,
        time_authority_root=root,
    )
    return {"warehouse": warehouse, "custody": custody, "ledger": ledger}
