"""The packages of PyPI that hold the data of the demo."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from hipslake.errors import InputError


def packaged_file(module: str, distribution: str) -> Path:
    """Return the catalog file of a package.

    Raises
    ------
    InputError
        If it is not installed.
    """
    try:
        package = import_module(module)
    except ImportError:
        raise InputError(f"the package {distribution} is missing; pip install 'hipslake[demo]'") from None
    return Path(package.catalog_path())
