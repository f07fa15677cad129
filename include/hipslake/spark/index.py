"""The index step: every value of a column to the file of its range, sorted; bounded memory, one pass or two.

A sample of the column gives the bounds of the ranges. Bounds are pairs of value and `_healpix_29`, so that a
value which stands everywhere fills several files, not the memory of one task.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.committing import commit_next, committed_before, newest_version
from hipslake.catalog.hats.files import write_hats_index
from hipslake.catalog.index import (
    ROWS_COLUMN,
    encode_index,
    index_file_path,
    index_schema,
    leaves_digest,
)
from hipslake.catalog.layouts import index_root
from hipslake.catalog.metadata import CatalogMetadata, Index, IndexFile
from hipslake.catalog.partitions import pixels_in
from hipslake.engine.model import Block, Counter, Engine, Routed
from hipslake.errors import CatalogNotFoundError, VerificationError
from hipslake.specs.catalog import Layout
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.tree import PixelTree
from hipslake.steps.attempts import FrozenState, attempts_of, note_attempt
from hipslake.steps.draft import draft_leaves
from hipslake.steps.index import INDEX_ATTEMPTS, BuildIndexReport, BuildIndexRequest, BuiltIndices
from hipslake.steps.pointers import point_at_newest
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, now_utc
from hipslake.storage import Storage
from hipslake.versions.heartbeat import HEARTBEAT, Heartbeat, claim_write
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.pins import Pin

log = logging.getLogger(__name__)

_TASKS_PER_CORE = 4
_SAMPLE = pa.schema([("rows", pa.binary())])
_WRITTEN = pa.schema([("file", pa.string())])
_SAMPLES = 200  # per file of the index, over all tasks


def run(request: BuildIndexRequest, engine: Engine) -> BuildIndexReport:
    """Build the indices that the run's spec asks for.

    Raises
    ------
    CatalogNotFoundError
        If the newest version is to be indexed, and there is none.
    VerificationError
        If the entries do not count the rows that the catalog has.
    """
    return _of_published(request, engine) if request.published else _of_run(request, engine)


def _of_run(request: BuildIndexRequest, engine: Engine) -> BuildIndexReport:
    """Index what the run wrote and is about to publish."""
    phases, folder = Phases(), request.folder
    frozen = folder.run()
    catalog = Storage.at(frozen.catalog_uri)
    folder.write(RunFolder.INDICES, BuiltIndices())  # of no earlier attempt
    draft = draft_leaves(folder)  # margins may be made at the same time
    with phases("index"), Heartbeat(catalog, frozen.write_id):
        indices = _indices(catalog, draft, frozen.spec.index, engine, frozen.write_id, request.file_rows)
    folder.write(RunFolder.INDICES, BuiltIndices(indices=indices))
    return _report(draft, indices, catalog, phases)


def _of_published(request: BuildIndexRequest, engine: Engine) -> BuildIndexReport:
    """Index the newest version, and commit it with its indices as the next one."""
    phases, folder = Phases(), request.folder
    frozen = folder.run()
    catalog = Storage.at(frozen.catalog_uri)
    state = FrozenState.of(frozen)
    committed = committed_before(catalog, attempts_of(folder, INDEX_ATTEMPTS, state))
    if committed is None:
        write_id = claim_write(catalog, now_utc())
        note_attempt(folder, INDEX_ATTEMPTS, write_id, state)
        with (
            Heartbeat(catalog, write_id, rest=False) as heartbeat,
            Pin(catalog, write_id) as pin,
        ):
            base = newest_version(catalog, pin)
            if base is None:
                raise CatalogNotFoundError(
                    f"{catalog.uri()}: nothing is published here that could be indexed"
                )
            with phases("index"):
                indices = _indices(catalog, base, frozen.spec.index, engine, write_id, request.file_rows)
            with phases("commit"):
                delete_temporary_files(catalog, write_id, 0, recursive=True)
                # Rows that others add meanwhile are not covered, and the index says so: it fits all the same.
                committed = commit_next(
                    catalog,
                    heartbeat,
                    lambda: _with_indices(newest_version(catalog), indices, write_id),
                )
    with phases("pointers"):
        point_at_newest(catalog)
    catalog.delete(catalog.join(frozen.write_id, HEARTBEAT))  # that folder was never written into
    folder.write(RunFolder.INDICES, BuiltIndices(indices=committed.indices))
    report = _report(committed, committed.indices, catalog, phases)
    return report.model_copy(update={"version": committed.version})


def _with_indices(
    newest: CatalogMetadata | None, indices: tuple[Index, ...], write_id: str
) -> CatalogMetadata:
    assert newest is not None  # versions do not go away
    built = {index.column for index in indices}
    others = [index for index in newest.indices if index.column not in built]
    return newest.model_copy(
        update={
            "version": newest.version + 1,
            "parent": newest.version,
            "write_id": write_id,
            "created": now_utc(),
            "indices": (*others, *indices),
        }
    )


def _report(
    metadata: CatalogMetadata, indices: tuple[Index, ...], catalog: Storage, phases: Phases
) -> BuildIndexReport:
    rows = metadata.total_rows * len(indices)
    return BuildIndexReport(
        rows_in=rows,
        rows_out=rows,
        bytes=sum(index.bytes for index in indices),
        files=sum(len(index.files) for index in indices),
        columns=tuple(index.column for index in indices),
        entries=sum(index.rows for index in indices),
        catalog_uri=catalog.uri(),
        total_rows=metadata.total_rows,
        seconds=phases.seconds,
    )


def _indices(
    catalog: Storage,
    metadata: CatalogMetadata,
    columns: tuple[str, ...],
    engine: Engine,
    write_id: str,
    file_rows: int,
) -> tuple[Index, ...]:
    return tuple(
        build_index(catalog, metadata, column, engine, write_id=write_id, file_rows=file_rows)
        for column in columns
    )


def build_index(
    storage: Storage,
    metadata: CatalogMetadata,
    column: str,
    engine: Engine,
    *,
    write_id: str,
    file_rows: int = 4 << 20,
) -> Index:
    """Index a column of a version.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Published, or about to be.
    column : str
        Integers or texts; nulls have no entries.
    engine : Engine
    write_id : str
        The write that the files belong to.
    file_rows : int
        Entries of a file, about.
    """
    storage.delete_tree(index_root(write_id, column))
    field = metadata.schema_of(metadata.group_with(column)).field(column)
    parts = tuple(ColumnFiles.of(storage, metadata, column).cut(_TASKS_PER_CORE * engine.cores))
    targets = -(-metadata.total_rows // file_rows)
    schema = index_schema(field)
    bounds = schema.empty_table().select([column, HEALPIX_COLUMN])
    if targets > 1:
        sample = SampleTask(parts, bounds.schema, -(-_SAMPLES * targets // max(1, len(parts))))
        taken = engine.run(sample, tasks=len(parts), result=_SAMPLE)["rows"].to_pylist()
        tables = [pa.ipc.open_stream(payload).read_all() for payload in taken]
        bounds = _bounds(pa.concat_tables([bounds, *tables]), targets)
    task = IndexTask(
        parts, schema, bounds, dict(metadata.groups[0].pixels), storage, write_id, engine.counter()
    )
    with engine.progress("index", tasks=len(parts), rows=metadata.total_rows, done=task.done):
        found = engine.exchange(
            sources=len(parts),
            mapper=task.route,
            targets=bounds.num_rows + 1,
            reducer=task.write,
            result=_WRITTEN,
        )
    written = sorted((json.loads(text) for text in found["file"].to_pylist()), key=lambda file: file["path"])
    return _described(storage, metadata, column, written, write_id)


def _described(
    storage: Storage,
    metadata: CatalogMetadata,
    column: str,
    written: list[dict[str, Any]],
    write_id: str,
) -> Index:
    indexed = sum(file.pop("of_rows") for file in written)
    if indexed > metadata.total_rows:
        raise VerificationError(
            f"index of {column!r}: its entries count {indexed} rows, but there are {metadata.total_rows}; "
            "nothing is published. Run Catalog.verify()"
        )
    files = tuple(IndexFile.model_validate(file) for file in written)
    index = Index(
        column=column,
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
        files=files,
        writes=metadata.increment_writes,
        leaves=leaves_digest(metadata.groups[0]),
    )
    log.info("Indexed %d rows by %s: %d entries, %d files.", indexed, column, index.rows, len(files))
    if metadata.layout is not Layout.HATS or not files:
        return index
    return index.model_copy(update={"others": write_hats_index(storage, metadata, index, write_id)})


@dataclass(frozen=True)
class SampleTask:
    """Takes some values of the files of each task, evenly."""

    files: tuple[ColumnFiles, ...]
    schema: pa.Schema
    most: int

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give values and their pixels, as an Arrow IPC stream: engines do not know all types."""
        kept: list[pa.RecordBatch] = []
        for batch in self.files[task].batches():
            rows = _keyed(batch, self.schema.field(0).type)
            chosen = np.unique(np.linspace(0, rows.num_rows - 1, min(self.most, rows.num_rows)).astype(int))
            kept += [rows.take(pa.array(chosen, pa.int64()))]
        if kept:
            table = pa.Table.from_batches(kept)
            chosen = np.unique(np.linspace(0, table.num_rows - 1, min(self.most, table.num_rows)).astype(int))
            found = pa.Table.from_arrays(table.take(pa.array(chosen, pa.int64())).columns, schema=self.schema)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.schema) as writer:
                writer.write_table(found)
            yield pa.record_batch([[sink.getvalue().to_pybytes()]], schema=_SAMPLE)


@dataclass(frozen=True)
class IndexTask:
    """Both halves of the exchange.

    Attributes
    ----------
    files : tuple of ColumnFiles
        Per map task.
    schema : pyarrow.Schema
        Of an index file.
    bounds : pyarrow.Table
        Value and pixel at which each reduce task but the first begins, ascending.
    pixels : dict of int to str
        The leaves of the catalog, per order as ranges.
    storage : Storage
        At the catalog's root.
    write_id : str
    done : Counter
        Rows read so far.
    """

    files: tuple[ColumnFiles, ...]
    schema: pa.Schema
    bounds: pa.Table
    pixels: dict[int, str]
    storage: Storage
    write_id: str
    done: Counter

    @property
    def column(self) -> str:
        """The column that is indexed."""
        return self.schema.names[0]

    @cached_property
    def tree(self) -> PixelTree:
        """The leaves of the catalog."""
        return PixelTree(*pixels_in(self.pixels))

    def route(self, number: int) -> Iterator[Routed]:
        """Send the entries of some leaves to the files of their ranges."""
        for batch in self.files[number].batches():
            self.done.add(batch.num_rows)
            rows = pa.Table.from_batches([_keyed(batch, self.schema.field(0).type)])
            entries = _summed(rows.append_column(ROWS_COLUMN, pa.array(np.ones(rows.num_rows, np.int64))))
            entries = entries.sort_by([("key", "ascending"), (HEALPIX_COLUMN, "ascending")])
            cuts = [0, *_places(entries, self.bounds).tolist(), entries.num_rows]
            for target, (low, high) in enumerate(pairwise(cuts)):
                for part in entries.slice(low, high - low).combine_chunks().to_batches():
                    if part.num_rows:
                        yield target, part

    def write(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the index file of a range, and say what is in it."""
        table = _summed(pa.Table.from_batches([block.rows for block in blocks]))
        blocks.clear()
        h29 = table[HEALPIX_COLUMN].to_numpy()
        at = self.tree.find(h29)
        columns = [*table.columns, pa.array(self.tree.order[at]), pa.array(self.tree.npix[at])]
        table = pa.table(columns, names=self.schema.names).cast(self.schema)
        keys = [self.column, "Norder", "Npix", HEALPIX_COLUMN]
        table = table.sort_by([(name, "ascending") for name in keys]).combine_chunks()
        content = encode_index(table)
        path = index_file_path(self.write_id, self.column, target)
        self.storage.write(path, content)
        row = {
            "path": path,
            "rows": table.num_rows,
            "bytes": content.size,
            "sha256": hashlib.sha256(content).hexdigest(),
            "first": table[self.column][0].as_py(),
            "last": table[self.column][-1].as_py(),
            "of_rows": pc.sum(table[ROWS_COLUMN]).as_py(),
        }
        yield pa.record_batch([[json.dumps(row)]], schema=_WRITTEN)


def _keyed(batch: pa.RecordBatch, kind: pa.DataType) -> pa.RecordBatch:
    """Rows with a value, as columns `key` and `_healpix_29`."""
    h29, keys = batch.column(0), batch.column(1).cast(kind)
    if keys.null_count:
        there = keys.is_valid()
        h29, keys = h29.filter(there), keys.filter(there)
    return pa.record_batch([keys, h29], names=["key", HEALPIX_COLUMN])


def _summed(rows: pa.Table) -> pa.Table:
    """One entry for each pair of value and pixel: key, `_healpix_29`, rows."""
    grouped = rows.group_by(["key", HEALPIX_COLUMN], use_threads=False).aggregate([(ROWS_COLUMN, "sum")])
    return grouped.select(["key", HEALPIX_COLUMN, f"{ROWS_COLUMN}_sum"]).rename_columns(
        ["key", HEALPIX_COLUMN, ROWS_COLUMN]
    )


def _bounds(sample: pa.Table, targets: int) -> pa.Table:
    """Where the files of an index begin, but for the first: distinct, ascending."""
    names = sample.column_names
    ordered = sample.sort_by([(name, "ascending") for name in names])
    chosen = np.unique(np.arange(1, targets) * ordered.num_rows // targets)
    taken = ordered.take(pa.array(chosen[chosen < ordered.num_rows], pa.int64()))
    return taken.group_by(names, use_threads=False).aggregate([]).combine_chunks()


def _places(entries: pa.Table, bounds: pa.Table) -> NDArray[np.int64]:
    """For each bound, the place of the first entry at or after it; entries are sorted."""
    value, pixel = bounds.columns[0].to_numpy(), bounds.columns[1].to_numpy()
    keys, h29 = entries["key"].to_numpy(), entries[HEALPIX_COLUMN].to_numpy()
    low, high = np.searchsorted(keys, value, side="left"), np.searchsorted(keys, value, side="right")
    within = [
        int(first) + int(np.searchsorted(h29[first:last], at))
        for first, last, at in zip(low, high, pixel, strict=True)
    ]
    return np.array(within, np.int64)
