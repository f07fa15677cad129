"""What stands at a catalog's root beside the log of versions, and names the newest one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain

import pyarrow as pa

from hipslake.catalog.hats.properties import collection_properties
from hipslake.catalog.layouts import HATS
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import sha256_sums
from hipslake.catalog.view_tree import has_tree
from hipslake.errors import CatalogFormatError, VersionNotFoundError
from hipslake.specs.catalog_spec import Layout, Unchanged
from hipslake.storage.folder import Storage
from hipslake.versions.log import RootPointers, SeenPointers, VersionLog
from hipslake.versions.log_files import CURRENT

SHA256SUMS = "SHA256SUMS"
WHERE_TO_LOOK = f"{CURRENT}.txt"
"""Stands where there is no `current`, and says what to read."""
TREE_POINTERS = (HATS.COLLECTION, CURRENT, WHERE_TO_LOOK)
"""What leads readers to trees."""


def point_at_newest(
    catalog: Storage,
    *,
    hats_view: bool = False,
    unchanged: Unchanged | None = None,
    known: int | None = None,
    committed: bytes | None = None,
    whole: CatalogMetadata | None = None,
    seen: SeenPointers | None = None,
    later: Callable[[Callable[[], object]], object] | None = None,
) -> int:
    """Make every pointer name the newest version; return its number.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    hats_view, unchanged
        As for `pointers_of`.
    known : int, optional
        A version that stands, and is most likely the newest.
    committed : bytes, optional
        Its metadata, where the caller has just committed it.
    whole : CatalogMetadata, optional
        That version, where the caller has just found its tree whole, or made it so.
    seen, later
        As for `VersionLog.publish_pointers`.
    """

    def describe(data: bytes) -> RootPointers:
        metadata = CatalogMetadata.from_json(data, where=catalog.uri("metadata.json"))
        return pointers_of(catalog, metadata, hats_view=hats_view, unchanged=unchanged, tree=whole)

    watched, likely = _looked_at(catalog, hats_view)
    return VersionLog(catalog).publish_pointers(
        describe,
        watched=watched,
        likely=likely,
        known=known,
        committed=committed,
        seen=seen,
        later=later,
    )


def look_at_pointers(catalog: Storage, known: int) -> SeenPointers:
    """Look at what stands, before `point_at_newest` with `hats_view`; parameters as of that."""
    watched, likely = _looked_at(catalog, hats_view=True)
    return VersionLog(catalog).look_at_pointers([*watched, *likely], known)


def _looked_at(catalog: Storage, hats_view: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The pointers that depend on more than the log, and others that a store is asked for from the first."""
    watched = ((CURRENT,) if catalog.is_local else ()) + ((HATS.COLLECTION,) if hats_view else ())
    if catalog.is_local:
        return watched, ()
    return watched, (SHA256SUMS, WHERE_TO_LOOK) if hats_view else (SHA256SUMS,)


def pointers_of(
    catalog: Storage,
    metadata: CatalogMetadata,
    *,
    hats_view: bool = True,
    unchanged: Unchanged | None = None,
    tree: CatalogMetadata | None = None,
) -> RootPointers:
    """Return what should stand at a catalog's root beside metadata.json, as things are now.

    `current` leads to the newest version whose tree is whole: never to a part. After a commit that is the
    version before, until the step `view` has built the tree of the newest. Where none will be built, and
    where the newest version has no row, there is no `current`, and `current.txt` says where to look. The same
    holds of collection.properties, by which HATS readers open a catalog.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root. Looked at each time: while one run built a tree, another may have built that of
        a newer version.
    metadata : CatalogMetadata
        Of the newest version.
    hats_view : bool
        Also collection.properties, which names the newest version whose HATS tree is whole.
    unchanged : Unchanged, optional
        What the run that asks does about trees; as the version's own run did if not given.
    tree : CatalogMetadata, optional
        A version whose tree was just seen to be whole: if it is this one, a store is not asked again.

    Returns
    -------
    RootPointers
        Files with their content, links with their target, and what should not stand there.
    """
    files = {SHA256SUMS: checksums(metadata)}
    links: dict[str, str] = {}
    absent: list[str] = []
    hats = hats_view and metadata.layout is Layout.HATS
    refers, whole = False, None
    is_seen = tree is not None and tree == metadata and not catalog.is_local
    if is_seen:
        whole = metadata
    elif hats or catalog.is_local:
        refers = _refers(catalog, metadata, unchanged)
        if not refers:
            whole = newest_with_tree(catalog, VersionLog(catalog), metadata)
        elif metadata.total_rows and has_tree(catalog, metadata):
            whole = metadata
    if hats and whole is not None:
        files[HATS.COLLECTION] = collection_properties(whole)
    elif hats_view or (refers and whole is None):  # it would name another version than the newest
        absent.append(HATS.COLLECTION)
    if catalog.is_local:  # elsewhere there are no links
        if whole is not None:
            links[CURRENT] = whole.write_id
        else:
            absent.append(CURRENT)
    if catalog.is_local or hats:
        if whole is not None:
            absent.append(WHERE_TO_LOOK)
        else:
            files[WHERE_TO_LOOK] = where_to_look(metadata)
    at_once = not catalog.is_local and (is_seen or not hats)
    return RootPointers(files=files, links=links, absent=tuple(absent), at_once=at_once)


def where_to_look(metadata: CatalogMetadata) -> bytes:
    """Return the content of `current.txt`: what to read where no folder holds all of the newest version.

    Parameters
    ----------
    metadata : CatalogMetadata
        Of the newest version.
    """
    called = f"version {metadata.version} of catalog {metadata.catalog}, the newest"
    if not metadata.total_rows:
        return f"There is no `current` here: {called}, has no row.\n".encode()
    return f"""\
There is no `current` here: no folder holds all files of {called}.

- In Python, Catalog.open("<this folder>").read() gives its rows; to_spark() a Spark data frame.
- metadata.json names every file: the `path` of the `partitions` of each column group, below this folder;
  where there are thousands, in the Parquet tables that `sidecars` names.
- For a folder that other readers can take by a glob, set `unchanged: link` (or copy) in the catalog's spec.
  The step `view` of the next run builds it, `current` leads there, and HATS readers open this folder again.
""".encode()


def checksums(metadata: CatalogMetadata) -> bytes:
    """Return the content of `SHA256SUMS`: the leaf files of a version, and those of its margins.

    Of a column group with sidecars, those are listed, and they list the files: so what a night has to write
    does not grow with the catalog.
    """
    tables = []
    for group in metadata.with_files:
        files = group.partitions if group.sidecars is None else group.sidecars
        if group in metadata.groups and metadata.mounts:  # whose files are of others
            files = group.sidecars
        columns = {name: [getattr(file, name) for file in files or ()] for name in ("path", "sha256")}
        tables.append(pa.table(columns, schema=pa.schema([("path", pa.string()), ("sha256", pa.string())])))
    return sha256_sums(tables)


def newest_with_tree(catalog: Storage, log: VersionLog, metadata: CatalogMetadata) -> CatalogMetadata | None:
    """Return a version, or else the newest one before it, whose tree is whole; None if there is none.

    Nothing before a version of another layout counts, or before one without rows: it is not what the catalog
    is now.
    """
    for version in chain([metadata], _versions_before(log, metadata.version)):
        if version.layout is not metadata.layout or not version.total_rows:
            return None
        if has_tree(catalog, version):
            return version
    return None


def _refers(catalog: Storage, metadata: CatalogMetadata, unchanged: Unchanged | None) -> bool:
    """Whether no tree will be built of the newest version, or of those before it none was."""
    if unchanged is not None:
        return unchanged is Unchanged.REFERENCE
    if unchanged_of(metadata) is Unchanged.REFERENCE:
        return True
    return catalog.is_local and catalog.is_file(WHERE_TO_LOOK)


def unchanged_of(metadata: CatalogMetadata) -> Unchanged:
    """How the run that made a version got leaf files of older writes into its tree."""
    return Unchanged(metadata.spec.get("unchanged", Unchanged.LINK))


def _versions_before(log: VersionLog, number: int) -> Iterator[CatalogMetadata]:
    """The versions before a number, the newest first; those that were vacuumed or damaged are left out."""
    for older in range(number - 1, 0, -1):
        with suppress(VersionNotFoundError, CatalogFormatError):
            yield CatalogMetadata.from_json(log.read(older))
