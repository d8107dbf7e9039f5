"""What loading the deployment sets for its process: large arrays go back to the system when they are freed."""

import platform
import subprocess
import sys

import pytest

ARRAY = 20

SCRIPT = f"""
import sys
import numpy as np
{{loaded}}

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) // 1024

np.ones({ARRAY} << 20, dtype=np.uint8)  # The C library moves its limit when it frees this one, if nothing holds it.
before = resident()
for _ in range(3):
    np.ones({ARRAY} << 20, dtype=np.uint8)
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library moves the limit")
@pytest.mark.parametrize(("loaded", "kept"), [("", True), ("import orchestration", False)])
def test_freed_arrays_go_back_to_the_system(loaded: str, kept: bool) -> None:
    """Without the setting, memory of the size of the array is kept, which shows that the test can tell."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(loaded=loaded)], check=True, capture_output=True, text=True
    )
    assert (int(ran.stdout) > ARRAY // 2) == kept
