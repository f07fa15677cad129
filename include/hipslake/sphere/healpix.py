"""healpy's pixel functions without the rest of healpy.

`import healpy` brings matplotlib and astropy along and takes over a second, which every process of a Spark
job would spend for two functions. They stand in a module of their own, `healpy.pixelfunc`, that needs numpy
only; it is loaded here as part of a package whose `__init__` does nothing.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_ALONE = f"{__name__}_alone"


@cache
def pixel_functions() -> Any:
    """Return the module `healpy.pixelfunc`; its functions are those of `healpy`."""
    found = find_spec("healpy")
    if found is None or found.submodule_search_locations is None:
        raise ModuleNotFoundError("healpy is not installed", name="healpy")
    package = ModuleType(_ALONE)
    package.__path__ = list(found.submodule_search_locations)
    sys.modules[_ALONE] = package
    return import_module(f"{_ALONE}.pixelfunc")
