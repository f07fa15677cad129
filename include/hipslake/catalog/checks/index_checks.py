"""Checks of indices: every file by itself, and all entries against all rows of the catalog.

Entries and rows are compared by a sum of 64-bit hashes of value and `_healpix_29`, which any wrong, missing
or needless entry changes but for a chance of 2^-64. So one pass over two columns is enough, and nothing is
held. Where leaf files came or went since the index was built, neither count: there it is not asked.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.checks.findings import Problem, ProblemKind, or_unread
from hipslake.catalog.checks.leaf_lists import tasks_for
from hipslake.catalog.checks.sidecar_checks import partition_sidecar_problems
from hipslake.catalog.checks.view_checks import hats_index_problems
from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.index import ROWS_COLUMN, leaves_digest
from hipslake.catalog.index_cuts import CUTS, CutRule, entry_hashes, ranks_as_text, ranks_of
from hipslake.catalog.indexed_leaves import knows_all_rows, leaves_apart
from hipslake.catalog.metadata import CatalogMetadata, Index, IndexFile
from hipslake.catalog.partitions import PartitionSidecar, pixels_in
from hipslake.engine.model import Engine
from hipslake.joins.key_codes import plain_keys
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER
from hipslake.storage.folder import Storage

_WORD = 1 << 64
_MEND = "build the index anew"
_RESULT = pa.schema([("total", pa.int64()), ("rows", pa.int64())])  # engines may have no uint64
_DAMAGE = (pa.ArrowException, OSError, ValueError)


def index_problems(
    storage: Storage,
    metadata: CatalogMetadata,
    engine: Engine,
    *,
    seen: Container[str] = (),
    against_rows: bool = True,
) -> Iterator[Problem]:
    """What is wrong with the indices of a version.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    engine : Engine
        Reads the rows that indices have to know. Of those that older libraries built, and that do not cover
        all rows, only the files are looked at.
    seen : container of str
        Paths of files that were looked at before, and are passed over.
    against_rows : bool
        Whether to hold entries against the rows of the catalog.
    """
    for index in metadata.indices:
        if not (index.others and index.others[0] in seen):
            yield from hats_index_problems(storage, index)
        damaged = partition_sidecar_problems(storage, _lists_of_leaves(metadata, index, seen))
        yield from damaged
        unasked = _unasked(storage, metadata, index) if against_rows and not damaged else None
        digest, last = _Digest(unasked), None
        whole = unasked is not None
        for file in index.files:
            if file.path in seen:
                whole = False
                continue
            try:
                table = _checked(storage, file, index.column)
            except (*_DAMAGE, _WrongError) as error:
                yield Problem.of(ProblemKind.UNREADABLE, file.path, f"{error}", _MEND)
                whole = False
                continue
            for wrong in (*_disorder(metadata, index, file, table, last), *_miscut(index, file, table)):
                yield Problem.of(ProblemKind.INDEX_ENTRIES, file.path, wrong, _MEND)
            last = file.last
            digest.add(plain_keys(table[index.column]), table[HEALPIX_COLUMN], table[ROWS_COLUMN])
        if whole:
            differing = _against_rows(storage, metadata, index, engine, digest)
            yield from or_unread(differing, f"the index of {index.column!r} was not checked")


def _lists_of_leaves(metadata: CatalogMetadata, index: Index, seen: Container[str]) -> list[PartitionSidecar]:
    """The lists of the leaf files that an index was built of which are looked at with nothing else."""
    others = {sidecar.path for group in metadata.groups for sidecar in group.sidecars or ()}
    listed = () if index.built_of is None else index.built_of.sidecars
    return [sidecar for sidecar in listed if sidecar.path not in others and sidecar.path not in seen]


def _unasked(storage: Storage, metadata: CatalogMetadata, index: Index) -> Intervals | None:
    """Where entries need not be those of the rows; None: anywhere."""
    if knows_all_rows(metadata, index):
        return Intervals.together(())
    return None if index.built_of is None else leaves_apart(storage, metadata, index.built_of).places


class _Digest:
    """The sum of the hashes of entries, modulo 2^64, and of their rows, outside of some places."""

    def __init__(self, unasked: Intervals | None) -> None:
        self.unasked = Intervals.together(()) if unasked is None else unasked
        self.total = self.rows = 0

    def add(
        self, keys: pa.Array, h29: pa.ChunkedArray | pa.Array, rows: pa.ChunkedArray | None = None
    ) -> None:
        """Add entries, or rows; nulls among the keys are passed over."""
        pixels = h29.to_numpy()
        counts = np.ones(len(pixels), np.int64) if rows is None else rows.to_numpy()
        chosen = keys.is_valid().to_numpy(zero_copy_only=False) & ~self.unasked.hold(pixels)
        if not chosen.all():
            keys, pixels, counts = keys.filter(pa.array(chosen)), pixels[chosen], counts[chosen]
        weighted = entry_hashes(keys, pixels) * counts.view(np.uint64)
        self.total = (self.total + int(weighted.sum(dtype=np.uint64))) % _WORD
        self.rows += int(counts.sum())


class _WrongError(Exception):
    """A file is not the one that metadata.json names."""


@dataclass(frozen=True)
class DigestTask:
    """Adds up the hashes of the rows of each task's files."""

    files: tuple[ColumnFiles, ...]
    unasked: Intervals

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give the sum, modulo 2^64, and the rows with a value."""
        digest = _Digest(self.unasked)
        for batch in self.files[task].batches():
            digest.add(plain_keys(batch.column(1)), batch.column(0))
        sums = np.array([digest.total], np.uint64).view(np.int64)
        yield pa.record_batch([sums, np.array([digest.rows])], schema=_RESULT)


def _against_rows(
    storage: Storage, metadata: CatalogMetadata, index: Index, engine: Engine, found: _Digest
) -> Iterator[Problem]:
    parts = tuple(ColumnFiles.of(storage, metadata, index.column).cut(tasks_for(engine)))
    with engine.progress("verify the index"):
        sums = engine.run(DigestTask(parts, found.unasked), tasks=len(parts), result=_RESULT)
    total = int(sums["total"].to_numpy().view(np.uint64).sum(dtype=np.uint64)) if sums.num_rows else 0
    rows = int(sums["rows"].to_numpy().sum()) if sums.num_rows else 0
    if (total, rows) != (found.total, found.rows):
        yield Problem.of(
            ProblemKind.INDEX_ENTRIES,
            index.files[0].path if index.files and not len(found.unasked) else "",
            f"the entries of the index of {index.column!r} count {found.rows} rows, and the catalog has "
            f"{rows} with a value there"
            if rows != found.rows
            else f"the index of {index.column!r} does not say where all values lie, or says it wrongly",
            _MEND,
        )


def _checked(storage: Storage, file: IndexFile, column: str) -> pa.Table:
    """The entries of a file that is the one that was written."""
    if storage.sha256(file.path) != file.sha256:
        raise _WrongError("its SHA-256 is not the one that metadata.json says")
    table = pq.ParquetFile(storage.arrow_path(file.path), filesystem=storage.arrow_filesystem()).read()
    if table.schema.names != [column, HEALPIX_COLUMN, ROWS_COLUMN, "Norder", "Npix"]:
        raise _WrongError(f"its columns are {', '.join(table.schema.names)}: it is no index of {column!r}")
    if table.num_rows != file.rows:
        raise _WrongError(f"it has {table.num_rows} entries, metadata.json says {file.rows}")
    return table


def _disorder(
    metadata: CatalogMetadata, index: Index, file: IndexFile, table: pa.Table, last: int | str | None
) -> Iterator[str]:
    """What is wrong with the order of the entries, and with the leaves that they name."""
    keys = table[index.column]
    order, npix = (table[name].to_numpy().astype(np.int64) for name in ("Norder", "Npix"))
    h29 = table[HEALPIX_COLUMN].to_numpy()
    names = [index.column, "Norder", "Npix", HEALPIX_COLUMN]
    if not table.select(names).equals(table.select(names).sort_by([(name, "ascending") for name in names])):
        yield "its entries are not sorted by value and leaf"
    if (keys[0].as_py(), keys[-1].as_py()) != (file.first, file.last):
        yield f"its values run from {keys[0]} to {keys[-1]}, metadata.json says {file.first} to {file.last}"
    if last is not None and file.first < last:  # type: ignore[operator]
        yield f"its first value {file.first!r} comes before {last!r}, the last one of the file before"
    if np.any(h29 >> (2 * (MAX_ORDER - order)) != npix):
        yield "an entry names a leaf that its _healpix_29 does not lie in"
    elif index.leaves == leaves_digest(metadata.groups[0]):
        tree = PixelTree(*pixels_in(metadata.groups[0].pixels))
        at = tree.find(h29)
        if np.any((at < 0) | (tree.order[at] != order)):
            yield "an entry names a pixel that is no leaf of the catalog"


def _miscut(index: Index, file: IndexFile, table: pa.Table) -> Iterator[str]:
    """What is wrong with what metadata.json says of the entries at which files may begin."""
    if index.built_of is None or index.built_of.cuts != CUTS:
        return
    along = table.sort_by([(index.column, "ascending"), (HEALPIX_COLUMN, "ascending")])
    h29 = along[HEALPIX_COLUMN].to_numpy()
    if h29[0] != file.pixel:
        yield f"its least _healpix_29 is {h29[0]}, metadata.json says {file.pixel}"
    hashes = entry_hashes(plain_keys(along[index.column]), h29)
    chosen = CutRule(index.built_of.file_entries).candidates(hashes)
    if ranks_as_text(ranks_of(hashes[chosen])) != file.ranks:
        yield "the entries at which files may begin are not those that metadata.json says"
