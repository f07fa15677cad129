"""What a catalog has published, as far as a run needs to know before it adds to it."""

from __future__ import annotations

from hipslake.storage import Storage
from hipslake.versions.files import head
from hipslake.versions.log import VersionLog


def newest_fingerprint(catalog: Storage) -> tuple[int | None, str | None]:
    """Return number and fingerprint of the newest version; None twice if nothing is published."""
    log = VersionLog(catalog)
    newest = log.newest()
    if newest is None:
        return None, None
    where = f"{catalog.uri()}, version {newest}"
    return newest, head(log.read(newest), where).get("fingerprint")


def names_write(catalog: Storage, write_id: str) -> bool:
    """Return whether any version names the write's folder; no file in it may be written again then."""
    log = VersionLog(catalog)
    return log.find(write_id) is not None or any(write_id.encode() in text for text in log.texts())
