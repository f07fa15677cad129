"""Trees: whether every leaf file of a version lies in one folder, where a glob finds all of them.

A run that writes every leaf has its tree from the start. A version that was appended to, or rolled back to,
names leaf files in older writes; the step `view` gives these a second name in the version's own write.
"""

from __future__ import annotations

import json
from contextlib import suppress

from hipslake.catalog.hats.properties import primary_table_url
from hipslake.catalog.hats.view_files import hats_markers
from hipslake.catalog.layouts import HATS, tree_marker
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import TreeNotFoundError
from hipslake.specs.catalog_spec import Layout, Unchanged
from hipslake.storage.folder import Storage
from hipslake.versions.log_files import CURRENT
from hipslake.versions.write_id import write_ids_in


def has_tree(storage: Storage, metadata: CatalogMetadata) -> bool:
    """Whether the tree in a version's own write is whole; in layout hats, for HATS readers too.

    A version without rows has none.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    """
    return metadata.total_rows > 0 and all(storage.is_file(marker) for marker in tree_markers(metadata))


def tree_markers(metadata: CatalogMetadata) -> list[str]:
    """The files that stand once the tree in a version's own write is whole, if it has to be built."""
    if metadata.layout is Layout.HATS:
        return hats_markers(metadata)
    return [] if lies_in_own_write(metadata) else [tree_marker(metadata.write_id)]


def marker_text(metadata: CatalogMetadata) -> bytes:
    """The content of the marker of a tree of layout hipscat."""
    files = sum(each.files for each in metadata.with_files)
    return json.dumps({"version": metadata.version, "files": files}).encode()


def check_tree(storage: Storage, metadata: CatalogMetadata) -> None:
    """Raise `TreeNotFoundError` unless a version has a tree; parameters as of `has_tree`."""
    if metadata.is_foreign or metadata.adopted is not None or has_tree(storage, metadata):
        return
    where = f"{storage.uri()}, version {metadata.version}"
    if not metadata.total_rows:
        raise TreeNotFoundError(f"{where}: the version has no row, so there is no folder of its files")
    built = storage.is_local or metadata.layout is Layout.HATS
    raise TreeNotFoundError(
        f"{where}: no folder holds all of version {metadata.version}, as some of its files lie where older "
        "writes put them. Read it with Catalog.read, or by the paths in metadata.json. For a folder, set "
        f"`unchanged: {Unchanged.LINK if built else Unchanged.COPY}` in the spec of the catalog, and run the "
        "step `view` (the last of each of its DAGs), which builds that of the newest version"
    )


def writes_of_pointers(storage: Storage) -> set[str]:
    """The writes that readers are led to without the log."""
    found = write_ids_in((storage.symlink_target(CURRENT) or "").encode())
    with suppress(FileNotFoundError):
        found |= write_ids_in(primary_table_url(storage.read(HATS.COLLECTION)))
    return found


def lies_in_own_write(metadata: CatalogMetadata) -> bool:
    """Whether a version wrote all leaf files itself, those of margins included; no file is looked at."""
    own = {metadata.write_id}
    for each in metadata.with_files:
        for sidecar in each.sidecars or ():
            if not own.issuperset(sidecar.writes):
                return False
        if not all(file.path.startswith(f"{metadata.write_id}/") for file in each.partitions or ()):
            return False
    return True


def wants_tree(storage: Storage, metadata: CatalogMetadata, unchanged: Unchanged) -> bool:
    """Whether the step `view` builds the tree of a version that has none.

    Copies in a store cost as much as the data, each time: in layout hipscat they are only made if asked for.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    unchanged : Unchanged
        How leaf files of older writes get into the tree.
    """
    if metadata.adopted is not None:  # HATS readers open what was adopted, where it lies
        return False
    if not metadata.total_rows:
        return False
    if lies_in_own_write(metadata):  # only what goes with the leaves is missing
        return True
    if unchanged is Unchanged.REFERENCE:
        return False
    return metadata.layout is Layout.HATS or storage.is_local or unchanged is Unchanged.COPY
