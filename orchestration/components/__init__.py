"""The components: every kind of dataset and release, and the settings, that a deployment can declare in YAML.

A component is registered by its class in a module of this package and its example in `examples`, both under its name.
"""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

__all__ = sorted(path.stem for path in Path(__file__).with_name("examples").glob("*.yaml"))

_modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
globals().update({name: getattr(module, name) for module in _modules for name in __all__ if hasattr(module, name)})


def __getattr__(name: str) -> Any:
    """Refuse any other name. From this function, type checkers learn that the components exist."""
    raise AttributeError(f"there is no component {name}; there are {', '.join(__all__)}")
