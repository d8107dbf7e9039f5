"""Reports of faults: a foreign error keeps its kind and trace, never its message, and a crash leaves no memory on disk.

A message of a library or a server may quote a value, a key or a password. Refusals, with our own messages, are in
`mechanisms.refusal`.
"""

import errno
import os
from resource import RLIMIT_CORE, getrlimit, setrlimit

_NUMBERS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENOSPC, errno.EDQUOT),
    *(errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ECONNREFUSED),
)
_CAUSES = (
    *map(os.strerror, _NUMBERS),
    "disabled by configuration",
    *("password authentication failed", "permission denied for database", "could not translate host name"),
    "HTTP 403",
    "does not exist",
)
"""Causes in the words of the system, DuckDB, PostgreSQL and S3: the parts of messages that may be repeated."""

OF_CERTIFICATES = {
    "SSL peer certificate or SSH remote key was not OK": "the certificate of the S3 server has expired, is of another "
    "host, or is signed by no authority of this machine or of AWS_CA_BUNDLE",
    "Problem with the SSL CA cert": "AWS_CA_BUNDLE is not a file with readable certificates",
}
"""Causes in our words, by parts of messages of DuckDB's HTTP client: they do not pass by themselves."""

_OURS = ("mechanisms", "assets", "resources", "orchestration", "stirred")


class FaultError(Exception):
    """An unexpected error, a fault in the code. It has the original error's trace, but not its message."""


def forbid_core_files() -> None:
    """Prevent core files of this process and the processes that it starts: their memory has records and keys.

    The soft limit is 1 byte, not 0. Linux writes no file that small, and only with the limit 1 does it not pass the
    memory to a crash handler either. With any other limit, such a handler, which distributions and container hosts
    have, may store the memory (core(5)).
    """
    _, most = getrlimit(RLIMIT_CORE)
    setrlimit(RLIMIT_CORE, (1 if most else 0, most))


def name_error(error: BaseException) -> str:
    """The kind of an error, and its cause if that is listed above; never its own message."""
    text = str(error)
    causes = [words for part, words in OF_CERTIFICATES.items() if part in text]
    causes += [cause for cause in _CAUSES if cause in text]
    return f"{type(error).__name__}{f' ({causes[0]})' if causes else ''}"


def conceal(error: Exception) -> FaultError:
    """The fault to raise, `from None`, instead of an unexpected error.

    The message of an error defined in this project, such as a mechanism's, is our own and stays.
    """
    if type(error).__module__.split(".")[0] in _OURS:
        words = f"{type(error).__name__}: {error}"
    else:
        words = f"{name_error(error)}; its message is not shown, because it may quote a value or a key"
    return FaultError(words).with_traceback(error.__traceback__)
