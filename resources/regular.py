"""Reading of files that a declaration names or that other users can replace, without waiting for pipes and devices.

Files of the custody have their own rules, in `keyfiles`.
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
    """A regular file to read: a reader of a named pipe would wait for its end for ever, and some devices have no end.

    Raises OSError if the file cannot be read, is not regular, or is a link, unless links are followed.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if through_links else os.O_NOFOLLOW)
    file = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file
