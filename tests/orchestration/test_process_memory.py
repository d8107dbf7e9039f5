"""The memory settings made by loading the deployment: freed large arrays go back to the system."""

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
{loaded}

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) // 1024

np.ones(20 << 20, dtype=np.uint8)  # Freed, it moves the limit of the C library, if nothing holds it.
before = resident()
for _ in range(3):
    kept = [np.ones((1 << 20) + 1, dtype=np.uint8) for _ in range(16)]
    del kept
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library moves the limit")
@pytest.mark.parametrize(("loaded", "kept"), [("", True), ("import orchestration", False)])
def test_freed_arrays_from_one_mebibyte_on_go_back_to_the_system(loaded: str, kept: bool) -> None:
    """Without the setting, memory of the size of the arrays is kept, which shows that the test can tell."""
    own = ("MALLOC_", "GLIBC_")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(loaded=loaded)],
        check=True,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith(own)},
    )
    assert (int(ran.stdout) > 8) == kept
