"""Files that forms name: only those that who fills in forms may have read."""

from __future__ import annotations

import os

from hipslake.catalog.moc_files import file_of_region
from hipslake.errors import RegionError
from hipslake.sources.links import INPUTS
from hipslake.specs.environment import expand
from hipslake.storage.addresses import is_below
from hipslake.storage.folder import Storage


def check_region(region: str | None, warehouse: str) -> None:
    """Refuse a region that names a file which lies where forms may not read.

    Parameters
    ----------
    region : str, optional
        As a user has given it.
    warehouse : str
        Its URI.

    Raises
    ------
    RegionError
        The file lies elsewhere, or a link below such a place leads to it.
    """
    place = None if region is None else file_of_region(region)
    if place is None:
        return
    given = os.environ.get(INPUTS, "").split() or ["${HIPSLAKE_LANDING}", warehouse]
    allowed = [expand(each) for each in given]
    try:
        folder, name = Storage.of_file(place)
    except ValueError as error:
        raise RegionError(f"MOC {error}") from None
    if not any(is_below(folder.uri(name), each) for each in allowed):
        raise RegionError(
            f"MOC {folder.uri(name)} lies where forms do not read; put it below {' or '.join(allowed)}, "
            f"or have {INPUTS} list its place"
        )
