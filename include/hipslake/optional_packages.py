"""Packages that some readers and hand-overs need and hipslake does not: imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hipslake.errors import MissingPackageError


def imported(module: str, purpose: str, *, install: str | None = None) -> Any:
    """Import a module of a package that may not be installed.

    Parameters
    ----------
    module : str
    purpose : str
        What it is needed for, as the message names it.
    install : str, optional
        What pip calls the package, if not as the first part of the module.

    Raises
    ------
    MissingPackageError
        It is not installed; the message says how to.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise  # the package is there, and lacks one of its own
        raise MissingPackageError(
            f"{purpose} needs the Python package {package}, which is not installed: "
            f"pip install {install or package}",
            name=error.name,
        ) from None
