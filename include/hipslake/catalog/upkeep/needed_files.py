"""The files that versions need: those that their metadata names, whichever write they lie in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Margin, RecordRun
from hipslake.catalog.partitions import read_partition_sidecars, write_of
from hipslake.storage.folder import Storage

_AFTER_SLASH = chr(ord("/") + 1)


class NeededFiles:
    """Files that some versions name in some writes.

    Millions of paths, so they are one sorted Arrow column, and a folder is a slice of it.

    Parameters
    ----------
    paths : pyarrow.ChunkedArray
        Relative to the catalog's root, in any order, with or without repetition.
    """

    def __init__(self, paths: pa.ChunkedArray) -> None:
        distinct = pc.unique(paths.cast(pa.large_string()))
        self._paths = distinct.take(pc.sort_indices(distinct))

    def below(self, folder: str) -> int:
        """How many of the files lie in a folder, or anywhere below it."""
        return self._place_of(folder + _AFTER_SLASH) - self._place_of(f"{folder}/")

    def names(self, path: str) -> bool:
        """Whether a file is one of them."""
        at = self._place_of(path)
        return at < len(self._paths) and self._paths[at].as_py() == path

    def _place_of(self, text: str) -> int:
        """How many of the paths come before a text."""
        return bisect_left(range(len(self._paths)), text, key=lambda at: self._paths[at].as_py())


def needed_files(
    storage: Storage, versions: Iterable[CatalogMetadata], writes: Collection[str]
) -> NeededFiles:
    """Every file in some writes that some versions name.

    Leaf files of groups and margins, indices, key records, lists of gone objects, sidecars and rejects. Of
    the sidecars of partitions, of increments and of runs of records, only those are read that say that they
    name files in these writes, and each only once, whatever number of versions shares it.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    versions : iterable of CatalogMetadata
        Looked at one by one.
    writes : collection of str
        Write ids.

    Raises
    ------
    CatalogFormatError
        A sidecar is damaged.
    """
    wanted = pa.array(sorted(writes), pa.string())
    seen: set[str] = set()
    chunks = [pa.array([], pa.string())]
    for metadata in versions:
        columns = [_fresh_table(storage, each, writes, seen)["path"] for each in metadata.with_files]
        single = [*_single_files(metadata), *_files_of_increments(storage, metadata, writes, seen)]
        if metadata.key_records is not None:
            single += _files_of_runs(storage, metadata.key_records.all_runs, writes, seen)
        columns.append(pa.chunked_array([pa.array(single, pa.string())]))
        for column in columns:
            chunks += column.filter(pc.is_in(write_of(column), value_set=wanted)).chunks
    return NeededFiles(pa.chunked_array(chunks))


def _fresh_table(
    storage: Storage, group: GroupMetadata | Margin, writes: Collection[str], seen: set[str]
) -> pa.Table:
    """The partitions of a group that lie in the writes, and maybe others; those of sidecars only once."""
    if group.sidecars is None:
        return group.table(storage)
    fresh = [
        sidecar for sidecar in group.sidecars if sidecar.path not in seen and {*sidecar.writes} & {*writes}
    ]
    seen.update(sidecar.path for sidecar in fresh)
    return read_partition_sidecars(storage, fresh)


def _single_files(metadata: CatalogMetadata) -> Iterator[str]:
    """The files that metadata.json itself names one by one, but for those of increments."""
    for each in metadata.with_files:
        yield from (sidecar.path for sidecar in each.sidecars or ())
    yield from (path for index in metadata.indices for path in index.paths)
    for mark in metadata.co_partitioned:
        if mark.objects is not None and mark.objects.gone is not None:
            yield mark.objects.gone.path
    if metadata.earlier is not None:
        yield metadata.earlier.path
    if metadata.adopted is not None and metadata.adopted.stamps is not None:
        yield metadata.adopted.stamps.path


def _files_of_increments(
    storage: Storage, metadata: CatalogMetadata, writes: Collection[str], seen: set[str]
) -> Iterator[str]:
    """The files of increments, which lie in their writes; those of earlier ones only once."""
    increments, earlier = metadata.increments, metadata.earlier
    if earlier is not None and earlier.path not in seen and {*earlier.writes} & {*writes}:
        seen.add(earlier.path)
        increments = metadata.all_increments(storage)
    for increment in increments:
        for sidecar in (increment.coverage, increment.sources.sidecar):
            if sidecar is not None:
                yield sidecar.path
        if increment.changes is not None:
            yield from _files_of_runs(storage, (increment.changes.run,), writes, seen)
        rejects = increment.rejects.path
        if rejects is not None and rejects.partition("/")[0] in writes:
            yield from (entry.path for entry in storage.list(rejects, recursive=True))


def _files_of_runs(
    storage: Storage, runs: Iterable[RecordRun], writes: Collection[str], seen: set[str]
) -> Iterator[str]:
    """The files of runs of records, which lie in one write each, with their sidecar."""
    for run in runs:
        if run.name is None or run.write_id not in writes or run.name in seen:
            continue
        seen.add(run.name)
        yield run.name
        yield from (file.path for file in run.listed(storage))
