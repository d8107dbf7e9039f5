"""The effect of file modes, for tests that may run as root, who can read all files."""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def obeying_modes(work: Callable[[], T]) -> T:
    """Run a function in a thread without the capabilities of root; return its result."""

    def attempt() -> T:
        # capset(2), version 3, for the thread that calls it.
        if ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()):
            raise OSError("capabilities cannot be given up")
        return work()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(attempt).result()
