"""Locations of outputs, which users give as a path or a URI."""

from __future__ import annotations

import os
from contextlib import suppress

from hipslake.errors import SpecError, StorageError
from hipslake.specs.environment import expand
from hipslake.storage.addresses import is_below, normal_address
from hipslake.storage.folder import Storage
from hipslake.versions.log_files import VERSIONS

EXPORTS = "exports"
"""The folder of the warehouse for outputs that are given by a relative path."""
OUTPUTS = "HIPSLAKE_OUTPUTS"
"""The variable that lists, between blanks, where else outputs may lie; unset: wherever a task may write."""


def output_uri(warehouse: str, output: str) -> str:
    """The URI of an output; a relative path lies below `exports/` of the warehouse.

    Parameters
    ----------
    warehouse : str
        Its URI.
    output : str
        As a user has given it.

    Returns
    -------
    str
        Normal, so that what is written is what was looked at.

    Raises
    ------
    SpecError
        It is no name, or it lies among the catalogs or other things of a warehouse.
    """
    given = output.strip()
    if "://" not in given and not given.startswith(("/", "~")):
        given = f"{warehouse.rstrip('/')}/{EXPORTS}/{given}"
    try:
        folder, name = Storage.of_file(given)
    except ValueError as error:
        raise SpecError(f"output {error}") from None
    uri, root = normal_address(folder.uri(name)), normal_address(Storage.at(warehouse).uri())
    check_allowed(uri, root)
    if is_below(uri, root) and not is_below(uri, f"{root}/{EXPORTS}", itself=False):
        raise SpecError(
            f"output {output!r} lies in the warehouse, among what is published; give a relative path for "
            f"what is to lie below {root}/{EXPORTS}, or a place outside of it"
        )
    return uri


def check_allowed(uri: str, warehouse: str) -> None:
    """Refuse a place outside of the warehouse that `HIPSLAKE_OUTPUTS` does not list.

    Parameters
    ----------
    uri, warehouse : str
        In any form; compared as `hipslake.storage.addresses` does.

    Raises
    ------
    SpecError
    """
    allowed = os.environ.get(OUTPUTS, "").split()
    if allowed and not is_below(uri, warehouse) and not is_listed(uri):
        raise SpecError(f"{uri} lies where nothing is written to; {OUTPUTS} lists {', '.join(allowed)}")


def is_listed(uri: str) -> bool:
    """Whether `HIPSLAKE_OUTPUTS` lists a place, or one above it."""
    allowed = os.environ.get(OUTPUTS, "").split()
    return any(is_below(uri, Storage.at(expand(place)).uri()) for place in allowed)


def refuse_published(uri: str) -> None:
    """Refuse a place in a catalog or a cube, of whichever warehouse; asks the store for each folder above.

    Parameters
    ----------
    uri : str
        Normal.

    Raises
    ------
    SpecError
    """
    scheme, separator, path = uri.rpartition("://")
    parts = path.split("/")
    for depth in range(len(parts) - 1, 0, -1):
        above = f"{scheme}{separator}{'/'.join(parts[:depth])}"
        if not above or above.endswith("://"):
            return
        with suppress(StorageError):  # who may not list it there cannot tell
            if Storage.at(above).list(VERSIONS):
                raise SpecError(
                    f"output {uri} lies in {above}, which is published with versions; give another place"
                )
