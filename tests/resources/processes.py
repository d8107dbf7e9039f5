"""Real processes for the tests of custody, ledger and warehouse, which start this script.

Each line of the input is a request, which a separate process handles; requests and answers are JSON:

    kill FOLDER MODE EFFECTS    kill a charge after each of some effects, take it up again, report the findings
    torn FOLDER SIZES           the same in the middle of writes, as files outgrow each of some sizes
    torn_zone FOLDER            kill the making of a zone in the middle of writes, report the findings
    race FOLDER WHAT COUNT      let COUNT processes do the same thing at the same moment
    returns FOLDER              charge on a server, report the functions between it and the ledger that returned
    kill_at FOLDER EFFECT       kill such a charge at one of these returns, take it up again, report the findings
    crowd FOLDER COUNT KILLED   let COUNT processes charge to one cap on a server, kill some, report their answers
    refused FOLDER WHAT         let an ordinary user charge to read-only files, report the findings
    begin hold FOLDER           write to the public zone and keep it until `end`: the process, and its output
    begin spill FOLDER          sort confidential rows, more than fit in memory, for minutes: the same
    end PROCESS                 end it; its exit status, and its further output

Forks and kills must not run inside pytest. The tests judge the answers.
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pandas  # noqa: F401 - DuckDB imports it at the first result; here, before the forks
from jinja2 import ChoiceLoader, DictLoader, FileSystemLoader

from mechanisms.accounting.losses import CurveLoss, Loss, PureLoss
from mechanisms.accounting.specification import Flavor, Specification
from resources import custody, keyfiles, ledger, ledger_server, statements, storage, warehouse
from resources.custody import Custody, CustodyMode, compute_commitment
from resources.ledger import CapExceeded, Ledger
from resources.statements import Table, Zone
from resources.warehouse import Session, Warehouse

FLAVOR = Flavor("all households", ("their number",), "household", 1)
TRACED = {module.__file__ for module in (custody, keyfiles, ledger, storage, warehouse, pathlib)}
EFFECTS = {"close", "commit", "execute", "fsync", "link", "replace", "unlink"}
STATEMENTS = {
    "tests/noise.sql": "SELECT $noise AS noise",
    "tests/rows.sql": "SELECT 'planted-2f81c7-' || i || md5(i::VARCHAR) AS text FROM range($rows) AS r(i)",
    "tests/sorted.sql": """
        SELECT 'planted-2f81c7-' || i || md5(i::VARCHAR) AS text FROM range(1000000000) AS r(i) ORDER BY md5(i::VARCHAR)
    """,
}
statements._environment().loader = ChoiceLoader([FileSystemLoader(statements.SQL_FOLDER), DictLoader(STATEMENTS)])
# Once here, not in every fork: DuckDB checks the signature of every extension that it loads.
storage.signed_extension("httpfs")
DRAWN = Table(Zone.PUBLIC, "ma1940", "drawn")
PATIENCE = 300
"""Seconds after which a process that does not end is killed."""


def deployment(folder: Path) -> Ledger:
    """A deployment, on the server in its folder's `server.json`, if that file exists."""
    warehouse = Warehouse(folder=str(folder / "warehouse"), threads=1)
    custody = Custody(folder=str(folder / "custody"), databases=warehouse.folder)
    server = folder / "server.json"
    if server.exists():
        os.environ.update(json.loads(server.read_text()))
    return Ledger(warehouse=warehouse, custody=custody, on_server=server.exists())


def keep(session: Session, table: Table, noise: str) -> None:
    session.create(table, "tests/noise", {"noise": noise})


def charge_and_draw(folder: Path, mode: CustodyMode) -> None:
    """The work of a release's stages, from the charge to the settlement."""
    book = deployment(folder)
    keys, store = book.custody, book.warehouse
    draw_id = keys.draw_id({"release": "half"})
    if book.read().find_settlement(draw_id) is None:
        charge = Specification(FLAVOR, PureLoss.logarithm(2))
        seal = book.reserve("ma1940", "half", draw_id, charge, mode, PureLoss(Fraction(1))).commitment
        drawn = compute_commitment(b"noise" + keys.open_key(draw_id, mode, seal))
        with store.session(writes=Zone.PUBLIC) as session:
            keep(session, DRAWN, drawn)
            version = session.content_version([DRAWN])
        book.settle(draw_id, version)
    book.forget_keys()


class Killer:
    """A profile function that ends its process, as `kill -9` does, right after its n-th effect outside memory.

    The disk does not change between two effects, so killing after each of them reaches every possible state (within
    DuckDB's own commit, its log decides). Effect 0 is the start.
    """

    def __init__(self, effect: int | None) -> None:
        self.effect, self.names = effect, ["start"]
        if effect == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_return" and function.__name__ in EFFECTS and frame.f_code.co_filename in TRACED:
            self.names.append(function.__name__)
            if len(self.names) - 1 == self.effect:
                os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], Any]) -> tuple[int, Any]:
    """Run a function in a separate process; returns the process's exit status and the function's result, through
    JSON."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(PATIENCE)
        try:
            os.write(writer, json.dumps(work()).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(answer) if answer else None


def killed(folder: Path, mode: CustodyMode, effect: int | None) -> list[str]:
    killer = Killer(effect)
    sys.setprofile(killer)
    charge_and_draw(folder, mode)
    sys.setprofile(None)
    return killer.names


def state(folder: Path) -> dict[str, Any]:
    book = deployment(folder)
    path = folder / "custody" / "ledger.anchor"
    anchor = json.loads(path.read_bytes()) if path.exists() else {"sequence": None, "announced": None}
    entries = book.entries()
    charges = [entry for entry in entries if entry.kind == "reserve" and entry.dataset == "ma1940"]
    return {
        "kinds": [entry.kind for entry in entries],
        "anchored": anchor["sequence"],
        "announced": anchor["announced"] is not None,
        "problems": book.verify(),
        "charged": sum((entry.parse_specification().loss for entry in charges), PureLoss()).as_record(),
        "keys": sorted(path.name for path in (folder / "custody").glob("ephemeral/*.key")),
    }


def resumed(folder: Path, mode: CustodyMode) -> dict[str, Any]:
    """The state that a new process finds, and the state after it has repeated the work."""
    left = state(folder)
    charge_and_draw(folder, mode)
    return {"left": left, "healed": state(folder)}


def kill(folder: Path, mode: CustodyMode, effects: Collection[str] | None) -> list[dict[str, Any]]:
    """After the start, and after every effect of these names; None for every effect."""
    _, names = in_child(lambda: killed(folder / "whole", mode, None))
    found = []
    for effect, name in enumerate(names):
        if effect and effects is not None and name not in effects:
            continue
        place = folder / str(effect)
        ended, _ = in_child(lambda place=place, effect=effect: killed(place, mode, effect))
        healed, states = in_child(lambda place=place: resumed(place, mode))
        found.append({"after": f"{effect} {name}", "ended": ended, "resumed": healed, **(states or {})})
    return found


def distinct(folder: Path, number: int) -> str:
    """Reserve ln 2 for an own draw under a cap that admits one."""
    return _reserve(deployment(folder), "ma1940", f"release {number}")


def on_curve(folder: Path, number: int) -> str:
    """The same under a cap on the curve."""
    cap = CurveLoss(PureLoss(Fraction(1)), Fraction(1, 10**10))
    return _reserve(deployment(folder), "ma1940", f"release {number}", cap)


def same(folder: Path, number: int) -> str:
    """Reserve for a draw that all processes share."""
    return _reserve(deployment(folder), "ma1940", "release")


def keys(folder: Path, number: int) -> str:
    """Make the master key and an ephemeral one."""
    keeper = Custody(folder=str(folder / "custody"), databases=str(folder / "warehouse"))
    draw_id = keeper.draw_id({})
    return compute_commitment((keeper.version_key().hex() + keeper.commit(draw_id, CustodyMode.EPHEMERAL)).encode())


def tables(folder: Path, number: int) -> str:
    """Write a table into a database that does not exist yet."""
    with Warehouse(folder=str(folder / "warehouse"), threads=1).session(writes=Zone.PUBLIC) as session:
        keep(session, Table(Zone.PUBLIC, "race", f"t{number}"), str(number))
    return "written"


def _reserve(book: Ledger, dataset: str, release: str, cap: Loss = PureLoss(Fraction(1))) -> str:  # noqa: B008 - frozen
    draw_id = book.custody.draw_id({"dataset": dataset, "release": release})
    specification = Specification(FLAVOR, PureLoss.logarithm(2))
    try:
        return str(book.reserve(dataset, release, draw_id, specification, CustodyMode.ESCROWED, cap).sequence)
    except CapExceeded:
        return "cap exceeded"


def race(folder: Path, what: str, count: int) -> list[Any]:
    """All processes wait at a pipe, which is opened for all at once."""
    work = {"distinct": distinct, "on_curve": on_curve, "same": same, "keys": keys, "tables": tables}[what]
    gate, opener = os.pipe()
    answers = []
    for number in range(count):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(opener)
            os.read(gate, 1)
            try:
                answer = work(folder, number)
            except BaseException as error:
                answer = f"{type(error).__name__}: {error}"
            os.write(writer, json.dumps(answer).encode())
            os._exit(0)
        os.close(writer)
        answers.append(reader)
    os.close(opener)
    return [json.loads(os.fdopen(answer, "rb").read()) for answer in answers]


class KillerAtReturns(Killer):
    """The same for a ledger on a server: at each return of a function of the modules between it and the ledger."""

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event in ("return", "c_return") and frame.f_code.co_filename in BETWEEN:
            self.names.append(frame.f_code.co_name)
            if len(self.names) - 1 == self.effect:
                os.kill(os.getpid(), signal.SIGKILL)


BETWEEN = {custody.__file__, keyfiles.__file__, ledger.__file__, ledger_server.__file__}


def charged_on_server(folder: Path, effect: int | None) -> list[str]:
    """Charge, settle and withdraw, and end at one of the returns; None for none."""
    book = deployment(folder)
    draw_id = book.custody.draw_id({"dataset": "ma1940", "release": "half"})
    killer = KillerAtReturns(effect)
    sys.setprofile(killer)
    _reserve(book, "ma1940", "half")
    book.settle(draw_id, "v1")
    sys.setprofile(None)
    return killer.names


def on_server(folder: Path) -> dict[str, Any]:
    """The state that a new process finds on the server, and the state after it has repeated the work."""
    left = deployment(folder)
    found = {"kinds": [entry.kind for entry in left.entries()], "problems": left.verify()}
    charged_on_server(folder, None)
    healed = {"kinds": [entry.kind for entry in left.entries()], "problems": left.verify()}
    return {"left": found, "healed": healed}


def kill_at(folder: Path, effect: int) -> dict[str, Any]:
    ended, _ = in_child(lambda: charged_on_server(folder, effect))
    healed, states = in_child(lambda: on_server(folder))
    return {"ended": ended, "resumed": healed, **(states or {})}


def crowd(folder: Path, count: int, killed: int) -> list[list[str]]:
    """Every process charges 1/8 for its own draws, and sometimes for a draw that all share, under a cap of 12.

    Returns:
        By process, the releases that the ledger confirmed as charged. The first `killed` processes end in the middle,
        by SIGKILL.
    """
    told, children = [], []
    for number in range(count):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            book = deployment(folder)
            for turn in range(20):
                release = f"shared {turn}" if turn % 4 == 0 else f"{number} {turn}"
                draw_id = book.custody.draw_id({"dataset": "ma1940", "release": release})
                charge = Specification(FLAVOR, PureLoss(Fraction(1, 8)))
                try:
                    book.reserve("ma1940", release, draw_id, charge, CustodyMode.ESCROWED, PureLoss(Fraction(12)))
                    os.write(writer, f"{release}\n".encode())
                except CapExceeded:
                    os.write(writer, b"cap exceeded\n")
                except BaseException as error:
                    os.write(writer, f"{type(error).__name__}: {error}\n".encode())
            os._exit(0)
        os.close(writer)
        children.append(child)
        told.append(reader)
    first = os.read(told[0], 1)
    time.sleep(0.3)
    for child in children[:killed]:
        os.kill(child, signal.SIGKILL)
    answers = []
    for number, reader in enumerate(told):
        with os.fdopen(reader, "rb") as pipe:
            answers.append(((b"" if number else first) + pipe.read()).decode().splitlines())
    for child in children:
        os.waitpid(child, 0)
    return answers


def hold(folder: Path) -> None:
    """Write to the public zone and keep it until the input ends."""
    with Warehouse(folder=str(folder / "warehouse"), threads=1).session(writes=Zone.PUBLIC) as session:
        keep(session, Table(Zone.PUBLIC, "race", "held"), "written while held")
        print("held", flush=True)
        sys.stdin.read()


def spill(folder: Path) -> None:
    """Keep some rows in the database's log, then sort many more."""
    os.umask(0)
    store = Warehouse(folder=str(folder / "warehouse"), threads=1, memory_limit="60MB")
    with store.session(writes=Zone.CONFIDENTIAL) as session:
        session.create(Table(Zone.CONFIDENTIAL, "s", "t"), "tests/rows", {"rows": 1000})
        print("begun", flush=True)
        session.stage("sorted", "tests/sorted")
        print("sorted", flush=True)


def limited(size: int, work: Callable[[], Any]) -> None:
    """Run a function, and be killed in the middle of the write that would make a file exceed a size in bytes."""
    # Python ignores this signal, whose default is to end the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    work()


def make_zone(folder: Path) -> None:
    with Warehouse(folder=str(folder / "warehouse"), threads=1).session(writes=Zone.PUBLIC):
        pass


def torn_zone(folder: Path) -> list[dict[str, Any]]:
    found = []
    for size in (0, 1, 4096, 5000, 8192, 10000):
        ended, _ = in_child(lambda size=size: limited(size, lambda: make_zone(folder)))
        found.append({"size": size, "ended": ended, "left": [path.name for path in folder.glob("warehouse/*")]})
    return found


def torn(folder: Path, sizes: Sequence[int]) -> list[dict[str, Any]]:
    found = []
    used = folder / "used"
    in_child(lambda: (make_zone(used), _reserve(deployment(used), "ma1950", "an earlier release")))
    for size in sizes:
        place = folder / str(size)
        shutil.copytree(used, place)
        ended, _ = in_child(
            lambda size=size, place=place: limited(size, lambda: charge_and_draw(place, CustodyMode.ESCROWED))
        )
        healed, states = in_child(lambda place=place: resumed(place, CustodyMode.ESCROWED))
        found.append({"size": size, "ended": ended, "resumed": healed, **(states or {})})
    return found


ORDINARY = 65534
"""The user and group without rights that a test assumes if it runs as root, because root may write anywhere."""


def as_ordinary_user(work: Callable[[], Any]) -> Any:
    """Run a function in an ordinary user's process; returns its result, or the error's class and message."""

    def attempt() -> Any:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(ORDINARY)
            os.setuid(ORDINARY)
        try:
            return work()
        except Exception as error:
            return [type(error).__name__, str(error)]

    _, answer = in_child(attempt)
    return answer


def refused(folder: Path, what: str) -> dict[str, Any]:
    """Charge, make a path read-only, charge again, make it writable, and charge again, all as an ordinary user.

    `what` is a path in the deployment. If it begins with "new ", there is no charge before it is read-only.
    """
    with TemporaryDirectory() as other:
        # Modules that are loaded late are loaded here, because an ordinary user may lack access to them.
        _charge(Path(other), "any")
    if os.geteuid() == 0:
        os.chown(folder, ORDINARY, ORDINARY)
    path = folder / what.removeprefix("new ")
    first = as_ordinary_user(lambda: path.mkdir() if what.startswith("new ") else _charge(folder, "first"))
    mode = path.stat().st_mode
    before = set(folder.rglob("*"))
    path.chmod(mode & ~0o222)
    said = as_ordinary_user(lambda: _charge(folder, "second"))
    path.chmod(mode)
    return {
        "first": first,
        "said": said,
        "left": sorted(str(each) for each in set(folder.rglob("*")) - before),
        "problems": as_ordinary_user(lambda: deployment(folder).verify()),
        "second": as_ordinary_user(lambda: _charge(folder, "second")),
    }


def _charge(folder: Path, dataset: str) -> str:
    return _reserve(deployment(folder), dataset, "release")


class Begun:
    """A process that runs until its input ends."""

    def __init__(self, work: Callable[[], None]) -> None:
        until, self._closer = os.pipe()
        reader, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            signal.alarm(PATIENCE)
            os.close(self._closer)
            os.dup2(until, sys.stdin.fileno())
            os.dup2(writer, sys.stdout.fileno())
            try:
                work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(until)
        os.close(writer)
        self._said = os.fdopen(reader)
        self.first = self._said.readline()

    def end(self) -> tuple[int, str]:
        os.close(self._closer)
        _, status = os.waitpid(self.process, 0)
        with self._said as said:
            return os.waitstatus_to_exitcode(status), said.read()


def answer(request: list[Any], begun: dict[int, Begun]) -> tuple[int, Any]:
    """The exit status of the process that handled the request, and its findings."""
    match request:
        case ["kill", place, mode, effects]:
            return in_child(lambda: kill(Path(place), CustodyMode(mode), effects))
        case ["torn", place, sizes]:
            return in_child(lambda: torn(Path(place), sizes))
        case ["torn_zone", place]:
            return in_child(lambda: torn_zone(Path(place)))
        case ["refused", place, what]:
            return in_child(lambda: refused(Path(place), what))
        case ["race", place, what, count]:
            return in_child(lambda: race(Path(place), what, count))
        case ["returns", place]:
            return in_child(lambda: charged_on_server(Path(place), None))
        case ["kill_at", place, effect]:
            return in_child(lambda: kill_at(Path(place), effect))
        case ["crowd", place, count, killed]:
            return in_child(lambda: crowd(Path(place), count, killed))
        case ["begin", what, place]:
            one = Begun(lambda: {"hold": hold, "spill": spill}[what](Path(place)))
            begun[one.process] = one
            return 0, (one.process, one.first)
        case ["end", process]:
            return 0, begun.pop(process).end()
    raise ValueError(request)


def serve() -> None:
    """All imports happen once, not for every request."""
    begun: dict[int, Begun] = {}
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), begun)), flush=True)


if __name__ == "__main__":
    serve()
