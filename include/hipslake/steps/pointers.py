"""What stands at a catalog's root beside the log of versions, and names the newest one."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from hipslake.catalog.hats.files import has_tree
from hipslake.catalog.hats.properties import collection_properties
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
        files = {SHA256SUMS: checksums(metadata)}
        # Looked up each time: while this run built a tree, another may have built that of a newer version.
        shown = newest_with_tree(catalog, log, metadata) if hats_view else None
        if shown is not None:
            files[HATS.COLLECTION] = collection_properties(shown)
        return Pointers(files=files, links={CURRENT: metadata.write_id})

    return log.publish_pointers(describe)


def checksums(metadata: CatalogMetadata) -> bytes:
    """Return the content of `SHA256SUMS`: the leaf files of a version, and those of its margins.

    Of a column group with sidecars, those are listed, and they list the files: so what a night has to write
    does not grow with the catalog.
    """
    tables = []
    for group in metadata.with_files:
        files = group.partitions if group.sidecars is None else group.sidecars
        columns = {name: [getattr(file, name) for file in files or ()] for name in ("path", "sha256")}
        tables.append(pa.table(columns, schema=pa.schema([("path", pa.string()), ("sha256", pa.string())])))
    return sha256_sums(tables)


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
