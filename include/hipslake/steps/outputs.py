"""Where what leaves the warehouse goes to: outputs that are given as a path or a URI."""

from __future__ import annotations

import os

from hipslake.errors import SpecError
from hipslake.specs.environment import expand
from hipslake.storage import Storage

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

    Raises
    ------
    SpecError
        It is no name, or it lies among the catalogs or other things of the warehouse.
    """
    given = output.strip()
    if "://" not in given and not given.startswith(("/", "~")):
        given = f"{warehouse.rstrip('/')}/{EXPORTS}/{given}"
    try:
        folder, name = Storage.of_file(given)
    except ValueError as error:
        raise SpecError(f"output {error}") from None
    uri, root = normal(folder.uri(name)), normal(Storage.at(warehouse).uri())
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
        Normal, as `normal` makes them.

    Raises
    ------
    SpecError
    """
    allowed = os.environ.get(OUTPUTS, "").split()
    if not allowed or is_below(uri, warehouse):
        return
    if not any(is_below(uri, normal(Storage.at(expand(place)).uri())) for place in allowed):
        raise SpecError(f"{uri} lies where nothing is written to; {OUTPUTS} lists {', '.join(allowed)}")


def is_below(uri: str, root: str, *, itself: bool = True) -> bool:
    """Whether a normal URI lies below another, or is it.

    Examples
    --------
    >>> is_below("/data/cubes/sky", "/data/cubes"), is_below("/data/cubes2", "/data/cubes")
    (True, False)
    """
    return uri.startswith(f"{root}/") or (itself and uri == root)


def normal(uri: str) -> str:
    """A path or URI without `..` and doubled slashes; a local path also without links.

    Examples
    --------
    >>> normal("s3://bucket//a/../b")
    's3://bucket/b'
    """
    scheme, separator, path = uri.rpartition("://")
    if not separator:
        return os.path.realpath(path)
    return f"{scheme}{separator}{os.path.normpath(path)}"
