"""What stands at a catalog's root beside the log of versions, and names the newest one."""

from __future__ import annotations

from contextlib import suppress

from hipslake.catalog.hats import has_tree
from hipslake.catalog.hats_properties import collection_properties
from hipslake.catalog.layouts import HATS
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import sha256_sums
from hipslake.errors import VersionNotFoundError
from hipslake.specs.catalog import Layout
from hipslake.storage import Storage
from hipslake.versions.files import CURRENT
from hipslake.versions.log import Pointers, VersionLog

SHA256SUMS = "SHA256SUMS"


def point_at_newest(catalog: Storage, *, hats_view: bool = False) -> int:
    """Make every pointer name the newest version; return its number.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    hats_view : bool
        Also collection.properties, which names the newest version whose HATS tree is whole.
    """
    log = VersionLog(catalog)

    def describe(data: bytes) -> Pointers:
        metadata = CatalogMetadata.from_json(data, where=catalog.uri("metadata.json"))
        tables = [metadata.partitions(group.name, catalog) for group in metadata.groups]
        files = {SHA256SUMS: sha256_sums(tables)}
        # Looked up each time: while this run built a tree, another may have built that of a newer version.
        shown = newest_with_tree(catalog, log, metadata) if hats_view else None
        if shown is not None:
            files[HATS.COLLECTION] = collection_properties(shown)
        return Pointers(files=files, links={CURRENT: metadata.write_id})

    return log.publish_pointers(describe)


def newest_with_tree(catalog: Storage, log: VersionLog, metadata: CatalogMetadata) -> CatalogMetadata | None:
    """Return a version, or else the newest one before it, that HATS readers can open; None if there is none.

    Nothing before a version of another layout counts: it is not what the catalog is now.
    """
    while metadata.layout is Layout.HATS:
        if has_tree(catalog, metadata):
            return metadata
        older = _version_before(log, metadata.version)
        if older is None:
            return None
        metadata = older
    return None


def _version_before(log: VersionLog, number: int) -> CatalogMetadata | None:
    for older in range(number - 1, 0, -1):
        with suppress(VersionNotFoundError):  # vacuumed
            return CatalogMetadata.from_json(log.read(older))
    return None
