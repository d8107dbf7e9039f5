"""The files that a confined process can open: an allow-list, which the kernel enforces where it can.

On Linux with Landlock (5.13 or newer), the process gives up access to all files that are not on the list. From Linux
6.7 on, it also gives up all TCP connections except incoming ones at its own port, if it has one. From Linux 6.12 on, it
can send signals only to processes that it starts. Landlock does not restrict other sockets, through which the process
could ask another process of the same user, such as the desktop, to open a file or to start a program. On the machines
of `_MACHINES`, a filter of system calls refuses to create such sockets. Neither the process nor the programs that it
starts can undo these restrictions. On other systems, an audit hook of Python refuses the files of the deployment that
the process must not read. This hook stops accidents in Python code, not hostile code.

Landlock has no rule that excludes a part of an allowed folder, so `exclude` lists the neighbors of the part instead. A
rule applies to the file that had the name when the rule was made, not to the name.

This module imports only the standard library: it is applied before other modules are loaded, because threads that
already run would not be restricted.

Source: the Linux kernel's documentation, userspace-api/landlock and userspace-api/seccomp_filter; the numbers are from
`linux/landlock.h`, `linux/seccomp.h`, `linux/audit.h` and `linux/bpf_common.h`.
"""

import ctypes
import errno
import os
import platform
import signal
import socket
import stat
import struct
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The numbers of the system calls, the same on all architectures that Linux had before and has had since."""
_ABI, _BENEATH, _PORT = 1, 1, 2
_NO_NEW_PRIVILEGES, _SIGNAL_AT_PARENT_END = 38, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_TRUNCATE, _DEVICE = 1 << 14, 1 << 15
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""By the first version of Landlock that has them, all rights about files."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE
"""The rights that a rule about a single file can give."""
_READS = _EXECUTE | _READ_FILE | _READ_FOLDER
_NETWORK, _BIND, _CONNECT = 4, 1, 2
"""The first version of Landlock with rights about TCP, and these rights."""
_SCOPES, _OF_SIGNALS = 6, 2
"""The first version of Landlock that keeps signals within, and this scope."""

_FILTER_CALLS, _BY_PROGRAM = 22, 2
_MACHINES = {"x86_64": (0xC000003E, 41, 53), "aarch64": (0xC00000B7, 198, 199)}
"""By machine, its architecture in a filter, and the numbers of the system calls that make a socket, and two of a pair.
Stream sockets of a pair reach only each other; other sockets of a pair can reach any name."""
_RINGS, _OTHER_NUMBERS = 425, 1 << 30
"""The system call of `io_uring`, which can create sockets too, and the first number of x86's second set of calls."""
_LOAD, _IS, _IS_AT_LEAST, _MASK, _ANSWER = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FAMILY, _KIND, _PROTOCOL = 0, 4, 16, 24, 32
"""The positions of a system call's number, architecture and first three arguments in a filter's input."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES

SYSTEM = (
    "/usr",
    "/var/cache/fontconfig",
    "/lib",
    "/lib64",
    "/bin",
    "/etc/ld.so.cache",
    "/etc/fonts",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/mime.types",
    "/etc/passwd",
    "/etc/ssl/openssl.cnf",
    "/dev/null",
    "/dev/urandom",
    "/proc/self/cgroup",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
    "/proc/cpuinfo",
    "/sys/fs/cgroup",
)
"""The files of the system that the libraries of a confined process read."""


class ConfinementError(Exception):
    """The process could not be confined, although its kernel has Landlock."""


def find_landlock_version() -> int:
    """The kernel's version of Landlock; 0 without Landlock."""
    if platform.system() != "Linux":
        return 0
    return max(0, _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ABI)))


def confine(readable: Collection[Path], writable: Collection[Path], refused: Collection[Path], port: int | None) -> str:
    """Give up access to all files except these, permanently. Returns the restrictions in words.

    Args:
        readable: files and folders that can be read. Those that do not exist are left out.
        writable: folders in which files can be read, created and removed.
        refused: the files that must not be opened, for systems without Landlock, where all other files stay accessible.
        port: the TCP port for incoming connections; None for none.

    Raises ConfinementError if the kernel has Landlock and refuses the rules, or if other threads already run.
    """
    version = find_landlock_version()
    if not version:
        _refuse_in_python(refused, writable, readable)
        return (
            "This system has no Landlock, so only Python itself refuses the explorer the keys, the confidential "
            "database and the source files. That guards against mistakes, and not against code that means to get "
            "around it."
        )
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise ConfinementError("other threads run already, and would not be restricted")
    _confine_by_kernel(version, readable, writable, port)
    network = (
        " It can open no TCP connection to anywhere, and takes connections at its own port alone."
        if version >= _NETWORK
        else ""
    )
    if _refuse_sockets(port):
        network += " It makes no sockets but those of TCP and UDP: by others, it could ask another process for a file."
    return (
        f"The Linux kernel refuses the explorer's process every file that is not on its list (Landlock, version "
        f"{version}). On the list are the programs, the public database, the ledger's database, the publications and "
        f"a temporary folder; not on it are the keys, the confidential database and the source files.{network}"
    )


def end_with_parent() -> None:
    """Have this process killed when its parent process ends for any reason; only on Linux."""
    if platform.system() == "Linux":
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENT_END, signal.SIGKILL, 0, 0, 0)


def exclude(folders: Collection[Path], left_out: Collection[Path]) -> list[Path]:
    """Folders and files that cover `folders` except the paths at or in `left_out`. A folder that contains such a path
    is replaced by its present content, recursively."""
    out = [path.resolve() for path in left_out]
    return [path for folder in folders for path in _list_covering(folder.resolve(), out)]


def _list_covering(path: Path, out: Sequence[Path]) -> Iterator[Path]:
    if any(path.is_relative_to(left_out) for left_out in out):
        return
    if not any(left_out.is_relative_to(path) for left_out in out):
        yield path
        return
    with suppress(OSError):
        for child in sorted(path.iterdir()):
            # A link is not followed: its target may be left out too.
            if not child.is_symlink():
                yield from _list_covering(child, out)


def _confine_by_kernel(version: int, readable: Collection[Path], writable: Collection[Path], port: int | None) -> None:
    rights = _RIGHTS[max(since for since in _RIGHTS if since <= version)]
    network = _BIND | _CONNECT if version >= _NETWORK else 0
    scopes = [_OF_SIGNALS] if version >= _SCOPES else []
    attributes = b"".join(struct.pack("=Q", each) for each in (rights, *([network] if network else []), *scopes))
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if ruleset < 0:
        raise ConfinementError("the kernel refuses the rules")
    for paths, allowed in ((readable, _READS & rights), (writable, rights & ~_EXECUTE & ~_DEVICE)):
        for path in paths:
            _allow(ruleset, path, allowed)
    if (
        network
        and port is not None
        and _call(_ADD_RULE, ruleset, _PORT, struct.pack("=QQ", _BIND, port), ctypes.c_uint32(0))
    ):
        raise ConfinementError(f"the kernel refuses the rule for port {port}")
    if ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or _call(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)):
        raise ConfinementError("the kernel does not confine the process")
    os.close(ruleset)


def _allow(ruleset: int, path: Path, allowed: int) -> None:
    try:
        # O_PATH opens only the name, which needs no right to read.
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            allowed &= _OF_FILES
        if _call(_ADD_RULE, ruleset, _BENEATH, struct.pack("=Qi", allowed, descriptor), ctypes.c_uint32(0)):
            raise ConfinementError(f"the kernel refuses the rule for {path}")
    finally:
        os.close(descriptor)


def _refuse_sockets(port: int | None) -> bool:
    """Give up all sockets except TCP and UDP, and without a port these too. Returns whether the restriction applies."""
    architecture, make_socket, make_pair = _MACHINES.get(platform.machine(), (0, 0, 0))
    # Each step ends with its jumps: if its condition holds, and if not.
    pair = [
        (_LOAD, _KIND, "", ""),
        (_MASK, 0xF, "", ""),
        (_IS, socket.SOCK_STREAM, "allow", "refuse"),
    ]
    steps: list[tuple[int, int, str, str]] = [
        (_LOAD, _ARCHITECTURE, "", ""),
        (_IS, architecture, "", "refuse"),
        (_LOAD, _NUMBER, "", ""),
        (_IS_AT_LEAST, _OTHER_NUMBERS, "refuse", ""),
        (_IS, _RINGS, "refuse", ""),
        (_IS, make_pair, "pair", ""),
        (_IS, make_socket, "" if port else "refuse", "allow"),
        (_LOAD, _KIND, "", ""),
        # The rest are flags.
        (_MASK, 0xF, "", ""),
        (_IS, socket.SOCK_DGRAM, "protocol", ""),
        (_IS, socket.SOCK_STREAM, "", "refuse"),
        (_LOAD, _PROTOCOL, "", ""),
        (_IS, socket.IPPROTO_UDP, "family", ""),
        (_IS, socket.IPPROTO_TCP, "family", ""),
        (_IS, 0, "", "refuse"),
        (_LOAD, _FAMILY, "", ""),
        (_IS, socket.AF_INET, "allow", ""),
        (_IS, socket.AF_INET6, "allow", "refuse"),
        *pair,
        (_ANSWER, _ALLOW, "", ""),
        (_ANSWER, _REFUSE, "", ""),
    ]
    first = {"protocol": (_LOAD, _PROTOCOL, "", ""), "family": (_LOAD, _FAMILY, "", "")}
    places = {name: steps.index(step) for name, step in first.items()}
    places |= {"pair": len(steps) - 2 - len(pair), "allow": len(steps) - 2, "refuse": len(steps) - 1}
    program = b"".join(
        struct.pack("=HBBI", code, places.get(yes, following) - following, places.get(no, following) - following, value)
        for following, (code, value, yes, no) in enumerate(steps, 1)
    )
    kept = ctypes.create_string_buffer(program, len(program))
    listed = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(kept)))
    return bool(architecture) and not ctypes.CDLL(None).prctl(_FILTER_CALLS, _BY_PROGRAM, listed, 0, 0)


def _call(number: int, *arguments: Any) -> int:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *arguments))


def _refuse_in_python(refused: Collection[Path], *allowed: Collection[Path]) -> None:
    """Refuse to open paths at or in `refused`, unless allowed by name, and to connect to other machines."""
    refused_paths = [os.path.realpath(path) for path in refused]
    open_paths = [os.path.realpath(path) for paths in allowed for path in paths]

    def within(path: str, folders: Sequence[str]) -> bool:
        return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"open", "os.listdir", "os.scandir", "sqlite3.connect", "os.link", "os.symlink", "os.rename"}:
            for name in arguments[:2]:
                if isinstance(name, str | bytes | os.PathLike):
                    path = os.path.realpath(os.fsdecode(name))
                    if within(path, refused_paths) and not within(path, open_paths):
                        raise PermissionError(13, "this process does not open this file", path)
        elif event == "socket.connect" and isinstance(arguments[1], tuple):
            raise PermissionError(13, "this process makes no connections")

    sys.addaudithook(hook)
