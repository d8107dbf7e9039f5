"""The kernels that Numba compiles in a separate process: `python -m tests.kernels set-up` and `… releases <folder>`.

Both commands print their findings as JSON, for `test_compilation`.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from numba.core import event
from numba.extending import is_jitted
from numba.np.ufunc.dufunc import DUFunc

from mechanisms.compilation import compile_kernels
from tests import deployments, pair_swapping_deployments, phsafe_deployments, topdown_deployments

ROOT = Path(__file__).resolve().parents[1]


def kernels(root: Path, package: str) -> dict[str, Any]:
    """Every kernel that the modules of a package under `root` define, by its full name."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for name, value in vars(import_module(module)).items():
            if (is_jitted(value) or isinstance(value, DUFunc)) and value.__module__ == module:
                found[f"{module}.{name}"] = value
    return found


def uncompiled(found: dict[str, Any]) -> list[str]:
    """The names of the kernels for which this process neither compiled nor loaded machine code."""
    return [
        name
        for name, kernel in found.items()
        if not (kernel.types if isinstance(kernel, DUFunc) else kernel.signatures)
    ]


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The functions that Numba compiles in this context. Loading cached code does not count."""
    names: list[str] = []
    with event.install_recorder("numba:run_pass") as recorder:
        yield names
    names += sorted({f"{each.data['module']}.{each.data['qualname']}" for _, each in recorder.buffer})


def set_up() -> list[str]:
    """The kernels that the set-up does not compile."""
    compile_kernels()
    return uncompiled(kernels(ROOT, "mechanisms"))


def releases(folder: Path) -> list[str]:
    """The kernels that Numba compiles in this process while it repeats the set-up and makes a release of every kind."""
    with compilations() as names:
        compile_kernels()
        assert deployments.small_deployment(folder / "swapping").run().success
        paired = pair_swapping_deployments.pair_swapping_deployment(folder / "pairs")
        assert paired.run(*pair_swapping_deployments.TO_PUBLICATION).success
        exact = phsafe_deployments.phsafe_deployment(folder / "phsafe")
        assert exact.run(*phsafe_deployments.TO_PUBLICATION).success
        # This process estimates levels with one parent; workers estimate all others.
        fitted = topdown_deployments.topdown_deployment(folder / "topdown", processes=2)
        assert fitted.run(*topdown_deployments.TO_PUBLICATION).success
    return names


if __name__ == "__main__":
    print(json.dumps(set_up() if sys.argv[1] == "set-up" else releases(Path(sys.argv[2]))))
