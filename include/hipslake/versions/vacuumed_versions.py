"""Reads of a version that is vacuumed while it is read, or after it was opened: they say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hipslake.errors import CatalogFormatError, VerificationError, VersionNotFoundError
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog


@contextmanager
def vacuum_told(storage: Storage, version: int) -> Iterator[None]:
    """Turn errors about files that are missing into one about their version, if that was vacuumed.

    The log is looked at only after an error, so a read that goes well costs nothing.

    Parameters
    ----------
    storage : Storage
        At the root of the catalog, or of whatever keeps the log.
    version : int
        To which the files belong that are read in the block.

    Raises
    ------
    VersionNotFoundError
        If something is missing or damaged, and the version was vacuumed: when, and what the vacuum kept, as
        far as the log knows.
    """
    try:
        yield
    except (VerificationError, CatalogFormatError, FileNotFoundError) as error:
        gone = VersionLog(storage).vacuumed_error(version)
        if gone is None:
            raise
        raise VersionNotFoundError(
            f"{gone}. It was opened before that, and files of it are gone: open another one, or ingest the "
            "rows again. Versions stay longer with larger keep_versions and keep_days (`vacuum` in the spec)"
        ) from error
