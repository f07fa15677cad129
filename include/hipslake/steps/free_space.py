"""Whether a warehouse can take the files of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

from hipslake.errors import NoSpaceError
from hipslake.storage.folder import Storage

MIN_FREE_BYTES = 64 << 20  # below this not even the run folder's own files are safe


def check_free_space(storage: Storage) -> None:
    """Check that a local warehouse has some room left; object stores have no such number."""
    if not storage.is_local:
        return
    place = Path(storage.root)
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < MIN_FREE_BYTES:
        raise NoSpaceError(
            f"{place}: only {free >> 20} MiB are free, and a run needs {MIN_FREE_BYTES >> 20} MiB at least; "
            "free some space, or move the warehouse with HIPSLAKE_WAREHOUSE"
        )
