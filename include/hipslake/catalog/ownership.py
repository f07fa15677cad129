"""A catalog is of one spec: what another one would publish into it is refused."""

from __future__ import annotations

from contextlib import suppress

from hipslake.catalog.metadata import CatalogMetadata, Owner
from hipslake.errors import CatalogFormatError, SpecError, VersionNotFoundError
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog


def check_owner(catalog: Storage, owner: Owner, *, newest: int | None = None) -> None:
    """Refuse a spec that a catalog is not of.

    Of a catalog without versions, or whose every version is damaged, every spec is welcome.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    owner : Owner
        The spec that is to publish.
    newest : int, optional
        The newest version, or 0, if it is known; then a store is asked for that one alone.

    Raises
    ------
    SpecError
        The newest version that can be read is of another spec.
    """
    log = VersionLog(catalog)
    standing = _owners(log, (log.newest() or 0) if newest is None else newest)
    if standing and owner not in standing:
        raise SpecError(
            f"{catalog.uri()} is published by the spec {standing[0]}, and {owner} would replace its rows by "
            "others; give that one another name, or move the catalog away first"
        )


def _owners(log: VersionLog, newest: int) -> tuple[Owner, ...]:
    if not newest:
        return ()
    with suppress(CatalogFormatError, VersionNotFoundError):
        return CatalogMetadata.from_json(log.read(newest)).owners
    for text in log.texts():  # the newest is damaged; the next version replaces it
        with suppress(CatalogFormatError):
            return CatalogMetadata.from_json(text).owners
    return ()
