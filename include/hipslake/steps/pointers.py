"""What stands at a catalog's root beside the log of versions, and names the newest one."""

from __future__ import annotations

from hipslake.catalog.hats_properties import collection_properties
from hipslake.catalog.layouts import HATS
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import sha256_sums
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
        Also collection.properties: once the HATS tree of the newest version is whole.
    """

    def describe(data: bytes) -> Pointers:
        metadata = CatalogMetadata.from_json(data, where=catalog.uri("metadata.json"))
        tables = [metadata.partitions(group.name, catalog) for group in metadata.groups]
        files = {SHA256SUMS: sha256_sums(tables)}
        if hats_view and metadata.layout is Layout.HATS:
            files[HATS.COLLECTION] = collection_properties(metadata)
        return Pointers(files=files, links={CURRENT: metadata.write_id})

    return VersionLog(catalog).publish_pointers(describe)
