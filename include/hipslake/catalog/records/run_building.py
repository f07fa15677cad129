"""Runs of many records: an exchange by ranges of keys, so that memory is bounded whatever comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hipslake.catalog.metadata import RecordFile, RecordRun
from hipslake.catalog.metadata.key_records import described_run
from hipslake.catalog.records.key_columns import KeyColumns
from hipslake.catalog.records.key_ranges import SAMPLES, KeyRanges, sampled
from hipslake.catalog.records.run_files import FILE_ROWS, run_folder, write_run_files
from hipslake.engine.model import Block, Counter, Engine, Routed
from hipslake.storage.folder import Storage

WRITTEN = pa.schema([("number", pa.int64()), ("file", pa.string())])
"""What the tasks that write the files of a run give: the number of the range, and a file as JSON."""

_KEYS = pa.schema([("keys", pa.binary())])
ReadPart = Callable[[int], Iterable[pa.Table]]
"""Gives the entries of one part, table by table; the same at each call."""


@dataclass(frozen=True)
class KeySampleTask:
    """Takes some keys of each part, evenly, as Arrow IPC streams."""

    read: ReadPart
    by: KeyColumns
    most: int

    def __call__(self, part: int) -> Iterator[pa.RecordBatch]:
        """Give the keys of a part."""
        keys = sampled(self.read(part), self.by, self.most)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, keys.schema) as stream:
            stream.write_table(keys)
        yield pa.record_batch([[sink.getvalue().to_pybytes()]], schema=_KEYS)


@dataclass(frozen=True)
class RunTask:
    """Both halves of the exchange.

    Attributes
    ----------
    read : callable
    schema : pyarrow.Schema
        Of the entries.
    ranges : KeyRanges
    storage : Storage
        At the catalog's root.
    folder : str
        Of the run.
    done : Counter
        Entries read so far.
    """

    read: ReadPart
    schema: pa.Schema
    ranges: KeyRanges
    storage: Storage
    folder: str
    done: Counter

    def route(self, part: int) -> Iterator[Routed]:
        """Send the entries of a part to the tasks of their ranges."""
        for table in self.read(part):
            self.done.add(table.num_rows)
            yield from self.ranges.route(table)

    def write(self, number: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the files of a range, and say what they are."""
        table = pa.Table.from_batches([block.rows for block in blocks], self.schema)
        blocks.clear()
        yield written(number, write_run_files(self.storage, self.folder, number, table, self.ranges.by))


def build_run(
    storage: Storage,
    engine: Engine,
    read: ReadPart,
    *,
    parts: int,
    rows: int,
    schema: pa.Schema,
    by: KeyColumns,
    write_id: str,
    name: str,
    ordinals: Iterable[int],
    file_rows: int = FILE_ROWS,
) -> RecordRun:
    """Make a run of entries in any order; they are read twice where they fill more than one file.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    engine : Engine
    read : callable
        Gives the entries of a part.
    parts : int
        Number of parts.
    rows : int
        Of all parts together, about.
    schema : pyarrow.Schema
        Of the entries, with the key columns in their plain types.
    by : KeyColumns
    write_id : str
        The write that the files belong to.
    name : str
        Of the run in the write; a letter and then letters, digits and underscores.
    ordinals : iterable of int
        Increments that the entries are of.
    file_rows : int
        Entries of a file, about, and of what a task holds; a key with more records is held whole.
    """
    ranges = KeyRanges.one(by)
    number = -(-rows // file_rows)
    if number > 1:
        ranges = sampled_ranges(engine, read, parts=parts, by=by, number=number)
    folder = run_folder(write_id, name)
    storage.delete_tree(folder)  # of an attempt before
    task = RunTask(read, schema, ranges, storage, folder, engine.counter())
    with engine.progress(name, rows=rows, done=task.done):
        found = engine.exchange(
            sources=parts, mapper=task.route, targets=len(ranges), reducer=task.write, result=WRITTEN
        )
    return described_run(storage, write_id, name, files_in(found), ordinals)


def sampled_ranges(engine: Engine, read: ReadPart, *, parts: int, by: KeyColumns, number: int) -> KeyRanges:
    """About so many ranges with about as many entries in each, by some keys of all parts.

    Parameters
    ----------
    engine : Engine
    read : callable
        As of `build_run`; of the tables only the key columns are looked at.
    parts : int
    by : KeyColumns
    number : int
    """
    task = KeySampleTask(read, by, -(-SAMPLES * number // max(parts, 1)))
    found = engine.run(task, tasks=parts, result=_KEYS)["keys"].to_pylist()
    tables = [pa.ipc.open_stream(data).read_all() for data in found]
    return KeyRanges.even(by, pa.concat_tables([by.schema.empty_table(), *tables]), number)


def written(number: int, files: Iterable[RecordFile]) -> pa.RecordBatch:
    """What a task says of the files of a range, as `WRITTEN`."""
    texts = [file.model_dump_json() for file in files]
    return pa.record_batch([[number] * len(texts), texts], schema=WRITTEN)


def files_in(found: pa.Table) -> list[RecordFile]:
    """The files that tasks have told of by `written`, ascending by key."""
    texts = found.select(WRITTEN.names).sort_by("number").to_pylist()
    files = [(row["number"], RecordFile.model_validate_json(row["file"])) for row in texts]
    return [file for _, file in sorted(files, key=lambda each: (each[0], each[1].path))]
