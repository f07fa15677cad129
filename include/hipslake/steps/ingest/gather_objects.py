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
from hipslake.catalog.finding import find_values
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
from hipslake.sphere.intervals import Intervals
from hipslake.steps.frozen_run import FrozenObjects, FrozenRun
from hipslake.steps.ingest.frozen_objects import GatheredObjects
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.row_routing import to_targets
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage
from hipslake.versions.pins import pinning

log = logging.getLogger(__name__)

SMALL_SOURCE_BYTES = 256 << 20  # of sources below this, the ids are gathered first, and only their objects
_TASKS_PER_CORE = 4
_CODES = pa.schema([("code", pa.uint64())])
_BATCH_KEYS = 1 << 20
_RESULT = pa.schema([("objects", pa.int64())])
_WANTED = f"{ObjectPixels.FOLDER}/wanted.arrow"
_LOOKED_UP = 10  # from so many objects for each id on, an index is asked where the objects lie


def gather_object_pixels(
    folder: RunFolder, source: Source, splits: SplitList, schema: pa.Schema | None, engine: Engine
) -> ObjectPixels:
    """Leave the ids and pixels of the run's objects in its folder, sorted by code; return how to find them.

    Where the source is small, first its ids are gathered, and then only their objects are kept: a night needs
    the memory of a night, however many objects there are. Where the catalog of the objects has an index of
    their ids, only leaves are read that hold those objects; else two columns of all objects are.

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
    run = FrozenRun.of(folder)
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
            places = None
            if small:
                wanted = _wanted_keys(
                    WantedTask(source, splits, splits.runs(engine.cores), field, kind), engine
                )
                _store_wanted(folder.storage, wanted)
                most = min(rows, len(wanted))
                places = _places_of(objects, given.key, wanted)
            pieces = pieces_for(most)
            files = ColumnFiles.of(objects.storage, objects.metadata, given.key, meeting=places)
            parts = tuple(files.cut(_TASKS_PER_CORE * engine.cores)) or (files,)
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
    """Reads the ids of the splits of each task; gives the distinct ones.

    Attributes
    ----------
    source : Source
    splits : SplitList
    tasks : tuple of (int, int)
        Per task, the splits that it reads.
    field : pyarrow.Field
        The column of ids in the source.
    kind : str
        Of the ids.
    """

    source: Source
    splits: SplitList
    tasks: tuple[tuple[int, int], ...]
    field: pa.Field
    kind: KeyKind

    @property
    def result(self) -> pa.Schema:
        """What a task gives: integers as the int64 of their bits, as Spark has no unsigned ones."""
        return pa.schema([("id", pa.large_string() if self.kind == "text" else pa.int64())])

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give the ids of a task."""
        found = []
        for split in self.splits.between(*self.tasks[task]):
            for batch in self.source.read(split, pa.schema([self.field]), [self.field.name]):
                keys = plain_keys(batch.column(0)).drop_null().unique()
                found.append(keys.view(pa.int64()) if self.kind == "uint64" else keys)
        ids = pa.chunked_array(found, self.result.field("id").type).unique()
        yield from pa.table([ids], schema=self.result).to_batches(max_chunksize=_BATCH_KEYS)


def _wanted_keys(task: WantedTask, engine: Engine) -> pa.Array:
    """The distinct ids of the source, as `plain_keys` gives them."""
    with engine.progress("ids"):
        found = engine.run(task, tasks=len(task.tasks), result=task.result)
    keys = found["id"].unique()
    return keys.view(pa.uint64()) if task.kind == "uint64" else keys


def _store_wanted(folder: Storage, keys: pa.Array) -> None:
    """Leave the codes of ids in the run folder, ascending."""
    codes = np.unique(key_codes(keys))
    with folder.open(_WANTED, "wb", durable=False) as file, pa.ipc.new_file(file, _CODES) as writer:
        writer.write_batch(pa.record_batch([codes], schema=_CODES))


def _places_of(objects: CatalogReader, column: str, keys: pa.Array) -> Intervals | None:
    """Where objects with some ids can lie, by the index of their ids; None if all are read as well."""
    metadata = objects.metadata
    if metadata.index_of(column) is None or len(keys) * _LOOKED_UP > metadata.total_rows:
        return None
    return find_values(objects.storage, metadata, column, keys)[0]


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
