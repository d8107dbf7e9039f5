"""How a file is read that a declaration names, or that others can replace: never by waiting for one that is none.

Files of the custody have rules of their own, in `keyfiles`.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 64 * 2**20


def read_regular(path: Path, most: int = MOST_BYTES, *, through_links: bool = True) -> bytes:
    """The content of a regular file. Raises OSError as `open_regular`, or if it has more bytes than `most`."""
    with open_regular(path, through_links=through_links) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return content


def open_regular(path: Path, *, through_links: bool = True) -> BinaryIO:
    """A regular file to read: of a named pipe, a reader would wait for the end for ever, and some devices have none.

    Raises OSError if it cannot be read, or is something else, or a link, unless those are followed.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if through_links else os.O_NOFOLLOW)
    file = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file
