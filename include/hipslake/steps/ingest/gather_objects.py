"""Gathering the pixels of objects from their catalog, for a run that places its rows by them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.object_pixels import (
    ObjectPixels,
    forget_pieces,
    piece_of,
    piece_path,
    piece_schema,
    pieces_for,
)
from hipslake.catalog.placement import Placer
from hipslake.engine.model import Block, Engine, Routed
from hipslake.errors import InputError, VersionNotFoundError
from hipslake.joins.key_codes import KeyKind, key_codes, key_kind, plain_keys
from hipslake.sources import Source
from hipslake.steps.ingest.frozen_objects import GatheredObjects
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.row_routing import to_targets
from hipslake.steps.run import FrozenObjects, RunFolder
from hipslake.storage.folder import Storage
from hipslake.versions.pins import pinning

log = logging.getLogger(__name__)

SMALL_SOURCE_BYTES = 256 << 20  # of sources below this, the ids are gathered first, and only their objects
_TASKS_PER_CORE = 4
_CODES = pa.schema([("code", pa.uint64())])
_FOUND = pa.schema([("code", pa.int64())])  # the same bits: Spark has no unsigned numbers
_RESULT = pa.schema([("objects", pa.int64())])
_WANTED = f"{ObjectPixels.FOLDER}/wanted.arrow"


def gather_object_pixels(
    folder: RunFolder, source: Source, splits: SplitList, schema: pa.Schema | None, engine: Engine
) -> ObjectPixels:
    """Leave the ids and pixels of the run's objects in its folder, sorted by code; return how to find them.

    Where the source is small, first its ids are gathered, and then only their objects are kept: a night needs
    the memory of a night, however many objects there are. They are still all read, two columns of them.

    Parameters
    ----------
    folder : RunFolder
    source, splits
        The run's files.
    schema : pyarrow.Schema or None
        Of the source; None where its data must tell.
    engine : Engine

    Raises
    ------
    InputError
        Two objects have the same id.
    VersionNotFoundError
        The version of the objects was vacuumed since the run began.
    """
    run = folder.run()
    frozen, given = run.objects, run.spec.position_from
    assert frozen is not None
    assert given is not None
    folder.storage.delete_tree(ObjectPixels.FOLDER)
    forget_pieces(folder.storage)
    try:
        with pinning(Storage.at(frozen.uri)) as pin:
            pin.hold(frozen.version)
            objects = CatalogReader.open(frozen.uri, frozen.version)
            kind = key_kind(objects.schema.field(given.key).type, f"column {given.key!r}")
            field = pa.field(given.column, objects.schema.field(given.key).type)
            if schema is not None:
                Placer(run.spec, ObjectPixels(folder.storage, kind, 1)).check(schema)
                field = schema.field(given.column)
            rows = most = objects.metadata.total_rows
            small = splits.file_bytes < SMALL_SOURCE_BYTES
            if small:
                most = min(rows, _store_wanted(folder.storage, source, splits, field, engine))
            pieces = pieces_for(most)
            files = ColumnFiles.of(objects.storage, objects.metadata, given.key)
            parts = tuple(files.cut(_TASKS_PER_CORE * engine.cores))
            task = GatherTask(folder.storage, kind, frozen, pieces, parts, small)
            with engine.progress("objects"):
                found = engine.exchange(
                    sources=len(parts), mapper=task.route, targets=pieces, reducer=task.store, result=_RESULT
                )
    except VersionNotFoundError as error:
        raise VersionNotFoundError(
            f"{error}; it went while this run was at work: clear the run from its first task"
        ) from error
    gathered = GatheredObjects(
        kind=kind, pieces=pieces, objects=pc.sum(found["objects"]).as_py() or 0, objects_of=rows
    )
    folder.write(RunFolder.OBJECTS, gathered)
    log.info(
        "Rows are placed by %d of %d objects of %s, version %d.",
        gathered.objects,
        rows,
        frozen.catalog,
        frozen.version,
    )
    return ObjectPixels(folder.storage, kind, pieces)


@dataclass(frozen=True)
class GatherTask:
    """Both halves of the exchange: map tasks read ids and pixels, reduce tasks sort and store a piece each.

    Attributes
    ----------
    folder : Storage
        The run folder.
    kind : str
        Of the ids.
    objects : FrozenObjects
    pieces : int
    files : tuple of ColumnFiles
        Per map task, the ids that it reads.
    only_wanted : bool
        Whether only ids of the run's own rows count.
    """

    folder: Storage
    kind: KeyKind
    objects: FrozenObjects
    pieces: int
    files: tuple[ColumnFiles, ...]
    only_wanted: bool

    def route(self, number: int) -> Iterator[Routed]:
        """Send every piece its objects."""
        wanted = None
        if self.only_wanted:
            with self.folder.open(_WANTED) as file:
                wanted = pa.ipc.open_file(file).get_batch(0).column(0).to_numpy()
        for batch in self.files[number].batches():
            found = coded(batch, self.kind)
            if wanted is not None:
                found = found.filter(pa.array(_among(found.column(0).to_numpy(), wanted)))
            yield from to_targets(found, piece_of(found.column(0).to_numpy(), self.pieces))

    def store(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Sort the objects of a piece, hold their ids against each other, and store them."""
        table = pa.Table.from_batches([block.rows for block in blocks], piece_schema(self.kind))
        blocks.clear()
        keys = [("code", "ascending"), *([("id", "ascending")] if self.kind == "text" else [])]
        table = table.sort_by(keys).combine_chunks()
        self._check_distinct(table)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        self.folder.write(piece_path(target), sink.getvalue(), durable=False)
        yield pa.record_batch([[table.num_rows]], schema=_RESULT)

    def _check_distinct(self, table: pa.Table) -> None:
        codes = table["code"].to_numpy()
        twice = codes[1:] == codes[:-1]
        if self.kind == "text" and twice.any():
            ids = table["id"].combine_chunks()
            twice &= pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False)
        if twice.any():
            first = self._id_of(table, int(np.argmax(twice)))
            raise InputError(
                f"catalog {self.objects.catalog!r}, version {self.objects.version}: at least "
                f"{int(twice.sum())} objects have an id in column {self.files[0].column!r} that another has "
                f"too, so it does not tell whose a row is; the first: {first}"
            )

    def _id_of(self, table: pa.Table, at: int) -> str:
        """The id of a row as people know it; of integers, only the code was kept."""
        if self.kind == "text":
            return repr(table["id"][at].as_py())
        code = np.uint64(table["code"][at].as_py())
        for files in self.files:
            for batch in files.batches():
                keys = plain_keys(batch.column(files.column)).drop_null()
                same = np.flatnonzero(key_codes(keys) == code)
                if len(same):
                    return str(keys[int(same[0])].as_py())
        return "(it is gone)"


@dataclass(frozen=True)
class WantedTask:
    """Reads the ids of the splits of each task; gives the codes of the distinct ones."""

    source: Source
    splits: SplitList
    tasks: tuple[tuple[int, int], ...]
    field: pa.Field

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give the codes of a task."""
        found = [np.empty(0, np.uint64)]
        for split in self.splits.between(*self.tasks[task]):
            for batch in self.source.read(split, pa.schema([self.field]), [self.field.name]):
                found.append(np.unique(key_codes(plain_keys(batch.column(0)).drop_null())))
        yield pa.record_batch([np.unique(np.concatenate(found)).view(np.int64)], schema=_FOUND)


def _store_wanted(folder: Storage, source: Source, splits: SplitList, field: pa.Field, engine: Engine) -> int:
    """Leave the codes of all ids of the source in the run folder, ascending; return how many there are."""
    task = WantedTask(source, splits, splits.runs(engine.cores), field)
    with engine.progress("ids"):
        found = engine.run(task, tasks=len(task.tasks), result=_FOUND)
    codes = np.unique(found["code"].to_numpy().view(np.uint64))
    with folder.open(_WANTED, "wb", durable=False) as file, pa.ipc.new_file(file, _CODES) as writer:
        writer.write_batch(pa.record_batch([codes], schema=_CODES))
    return len(codes)


def coded(batch: pa.RecordBatch, kind: KeyKind) -> pa.RecordBatch:
    """Pixels and ids as `piece_schema`, without those that are null."""
    h29, keys = batch.column(0), plain_keys(batch.column(1))
    there = keys.is_valid()
    if keys.null_count:
        keys, h29 = keys.filter(there), h29.filter(there)
    columns = [pa.array(key_codes(keys)), h29, *([keys] if kind == "text" else [])]
    return pa.RecordBatch.from_arrays(columns, schema=piece_schema(kind))


def _among(codes: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    if not len(wanted):
        return np.zeros(len(codes), bool)
    at = np.minimum(np.searchsorted(wanted, codes), len(wanted) - 1)
    among: NDArray[np.bool_] = wanted[at] == codes
    return among
