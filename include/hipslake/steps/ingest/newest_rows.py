"""Of the rows of a run with the same key, the newest: which others it takes the place of.

Keys go through the exchange to the task of their hash, each with its order and its place in the files, about
50 bytes a row; what the tasks find becomes bits per split (`hipslake.steps.ingest.superseded_rows`). So the
files are read once more, but only the columns of key, order and position, and no whole row travels. Rows
without a place on the sky are left out before: none of them takes the place of another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.placement import Placer
from hipslake.engine.model import Block, Counter, Engine, Routed
from hipslake.engine.reordering import wide_decimals
from hipslake.engine.scratch import blocks_in_folder
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.sources import Source
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.newest_spec import NewestSpec
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.ingest.split_rows import CHUNK_BYTES, Chunk, chunks
from hipslake.steps.ingest.superseded_rows import (
    FOLDER,
    PLACES,
    RESULT,
    PieceCounts,
    SupersededRows,
    found_path,
    pieces_of,
    store_counts,
    store_masks,
    write_rows,
)
from hipslake.steps.ingest.tied_rows import EQUAL, settle_ties
from hipslake.steps.row_routing import to_targets
from hipslake.steps.run import RunFolder
from hipslake.tables.row_keys import check_key, joint_codes, key_hashes

log = logging.getLogger(__name__)

_OLDER = "older"
_TARGET_BYTES = 256 << 20  # of source files, whose keys one reduce task gets
_MIN_BLOCK_BYTES = 64 << 10
_MAX_CHUNK_BYTES = 256 << 20
_ORDERED = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_temporal,
    pa.types.is_string,
    pa.types.is_large_string,
)


def check_newest(spec: CatalogSpec, schema: pa.Schema) -> None:
    """Hold the columns of `newest` against those of the source.

    Raises
    ------
    SchemaMismatchError
        One is missing, or of a type that has no order, or of which equality says little.
    """
    given = spec.newest
    if given is None:
        return
    where = f"spec {spec.name!r}, newest"
    for key, names in (("key", given.key), ("order", (given.order,))):
        if missing := [name for name in names if name not in schema.names]:
            raise SchemaMismatchError(
                f"{where}.{key}: the source has no column {', '.join(map(repr, missing))}; there are "
                + ", ".join(schema.names)
            )
    try:
        check_key(pa.schema([_plain_type(schema.field(name)) for name in given.key]), given.key)
    except SpecError as error:
        raise SchemaMismatchError(f"{where}.{error}") from None
    kind = _plain_type(schema.field(given.order)).type
    if not any(is_a(kind) for is_a in _ORDERED) or pa.types.is_interval(kind):
        raise SchemaMismatchError(
            f"{where}.order: column {given.order!r} is of type {kind}; take one of numbers, times or texts"
        )


def find_superseded(
    folder: RunFolder,
    source: Source,
    splits: SplitList,
    schema: pa.Schema,
    placer: Placer,
    engine: Engine,
) -> SupersededRows:
    """Find which rows of a run newer ones take the place of, and leave that in its folder.

    Parameters
    ----------
    folder : RunFolder
    source, splits
        The run's files.
    schema : pyarrow.Schema
        Of the source, all its columns.
    placer : Placer
    engine : Engine
        One that holds all rows of an exchange holds all keys.

    Raises
    ------
    InputError
        Rows of a key have the same order and are not equal.
    """
    spec, storage = placer.spec, folder.storage
    newest = spec.newest
    assert newest is not None, "all rows stay"
    storage.delete_tree(FOLDER)
    bounds = pieces_of(splits)
    targets = max(engine.cores, -(-splits.file_bytes // _TARGET_BYTES))
    task = NewestTask(
        folder, source, splits, schema, placer, splits.runs(engine.cores), targets, engine.counter()
    )
    with engine.progress("newest", done=task.done):
        found = engine.exchange(
            sources=len(task.tasks),
            mapper=task.route,
            targets=targets,
            reducer=task.find,
            result=RESULT,
            scratch=blocks_in_folder(storage, f"{FOLDER}/exchange", splits.file_bytes),
        )
    rows: dict[str, dict[int, int]] = {}
    if found.num_rows:
        pieces = store_masks(storage, _OLDER, tuple(sorted(found["number"].to_pylist())), bounds, engine)
        rows[_OLDER] = counts_of(pieces)
        tied = sorted(pieces.filter(pc.greater(pieces["tied"], 0))["number"].to_pylist())
        if tied:
            equal = settle_ties(folder, source, splits, schema, newest, tuple(tied), targets, engine)
            rows[EQUAL] = counts_of(store_masks(storage, EQUAL, equal, bounds, engine))
    superseded = store_counts(folder, PieceCounts(bounds=bounds, rows=rows))
    log.info("Of the rows, %s stays: %d are superseded.", newest, superseded.counts.total)
    return superseded


def counts_of(pieces: pa.Table) -> dict[int, int]:
    """The superseded rows of each piece that has any, of a table as `RESULT`."""
    some = pieces.filter(pc.greater(pieces["superseded"], 0)).sort_by("number")
    return dict(zip(some["number"].to_pylist(), some["superseded"].to_pylist(), strict=True))


@dataclass(frozen=True)
class NewestTask:
    """Both halves of the exchange: map tasks read keys and orders, reduce tasks look at the rows of each key.

    Attributes
    ----------
    folder : RunFolder
    source, splits, schema, placer
        What is read.
    tasks : tuple of (int, int)
        Per map task, the range of splits that it reads.
    targets : int
        Reduce tasks.
    done : Counter
        Rows read so far.
    """

    folder: RunFolder
    source: Source
    splits: SplitList
    schema: pa.Schema
    placer: Placer
    tasks: tuple[tuple[int, int], ...]
    targets: int
    done: Counter

    @property
    def newest(self) -> NewestSpec:
        """What the spec says."""
        assert self.placer.spec.newest is not None
        return self.placer.spec.newest

    def route(self, number: int) -> Iterator[Routed]:
        """Send the keys of splits to the tasks of their hashes."""
        names = list(dict.fromkeys([*self.placer.columns, *self.newest.key, self.newest.order]))
        size = min(max(CHUNK_BYTES, self.targets * _MIN_BLOCK_BYTES), _MAX_CHUNK_BYTES)
        splits = self.splits.between(*self.tasks[number])
        for chunk in chunks(self.source, splits, self.schema, self.placer, names, chunk_bytes=size):
            self.done.add(chunk.rows.num_rows)
            rows = self._keyed(chunk)
            if rows.num_rows:
                hashes = key_hashes(rows, [_key(at) for at in range(len(self.newest.key))])
                yield from to_targets(rows, (hashes % np.uint64(self.targets)).astype(np.int64))

    def find(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Find, for the keys of a task, which rows have a newer one, and which are tied with others."""
        rows = pa.Table.from_batches([block.rows for block in blocks]).combine_chunks()
        blocks.clear()
        keys = [_key(at) for at in range(len(self.newest.key))]
        _, codes = joint_codes(rows.slice(0, 0), rows, keys)
        older, tie = _compared(codes, rows["order"].combine_chunks())
        there = older | (tie >= 0)
        if not there.any():
            return
        at = pa.array(np.flatnonzero(there))
        columns = [rows["split"].take(at), rows["row"].take(at), pa.array(tie[there])]
        write_rows(self.folder.storage, found_path(_OLDER, target), pa.table(columns, schema=PLACES))
        yield pa.record_batch([[target], [int(older.sum())], [int((tie >= 0).sum())]], schema=RESULT)

    def _keyed(self, chunk: Chunk) -> pa.RecordBatch:
        """The rows of a chunk that are on the sky and have a key: key, order, split, and row in it."""
        keys = [_signed(plain_column(chunk.rows.column(name))) for name in self.newest.key]
        stands = np.ones(chunk.rows.num_rows, bool)
        if chunk.placed.bad is not None:
            stands &= ~chunk.placed.bad
        for column in keys:
            if column.null_count:
                stands &= column.is_valid().to_numpy(zero_copy_only=False)
        split, row = chunk.places
        columns = {_key(at): column for at, column in enumerate(keys)}
        columns["order"] = _without_nan(plain_column(chunk.rows.column(self.newest.order)))
        columns |= {"split": pa.array(split, pa.int64()), "row": pa.array(row, pa.int64())}
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return rows if stands.all() else rows.take(pa.array(np.flatnonzero(stands)))


def plain_column(column: pa.Array) -> pa.Array:
    """The values of a column, of dictionaries and extensions spelt out, in a type that computes."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    return wide_decimals(column)


def _signed(column: pa.Array) -> pa.Array:
    """Numbers of uint64 by their bits, as int64: hashes are of signed ones."""
    return column.view(pa.int64()) if pa.types.is_uint64(column.type) else column


def _plain_type(field: pa.Field) -> pa.Field:
    return field.with_type(plain_column(pa.nulls(0, field.type)).type)


def _key(at: int) -> str:
    return f"key{at}"


def _without_nan(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


def _compared(codes: NDArray[np.int64], order: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which rows have a newer one of their key, bool[n]; and the number of the tie of each, or -1, int64[n].

    Parameters
    ----------
    codes : int64[n]
        Of the keys.
    order : pyarrow.Array of n
        Null is before every value.
    """
    by = pa.table({"code": codes, "known": pc.is_valid(order), "order": order})
    along = pc.sort_indices(by, sort_keys=[(name, "ascending") for name in by.column_names]).to_numpy()
    ordered = codes[along]
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    last_of = np.flatnonzero(is_last)[np.cumsum(is_last) - is_last]  # of each row, the last row of its key
    values = order.take(pa.array(along))
    top = values.take(pa.array(last_of))
    same = pc.equal(values, top).fill_null(False).to_numpy(zero_copy_only=False)
    same |= (pc.is_null(values).to_numpy(zero_copy_only=False)) & pc.is_null(top).to_numpy(
        zero_copy_only=False
    )
    number = np.cumsum(is_last) - is_last  # of the key
    tops = np.bincount(number, same, minlength=1)[number] > 1
    older, tie = np.empty(len(codes), bool), np.empty(len(codes), np.int64)
    older[along] = ~same
    tie[along] = np.where(same & tops, number, -1)
    return older, tie
