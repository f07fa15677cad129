"""Rows of a key that have the same order: of those that are equal one stays, others are an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.clustering.checksum import row_hashes
from hipslake.engine.model import Block, Engine, Routed
from hipslake.errors import InputError
from hipslake.sources import Source
from hipslake.specs.newest_spec import NewestSpec
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.ingest.superseded_rows import PLACES, found_path, read_rows, ties_path, write_rows
from hipslake.steps.row_routing import runs_of, to_targets
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage

EQUAL = "equal"
"""The round of rows that others are equal to."""

_EXAMPLES = 3
_RESULT = pa.schema([("number", pa.int64()), ("differ", pa.int64()), ("examples", pa.list_(pa.int64()))])


@dataclass(frozen=True)
class TiesTask:
    """Both halves of an exchange: tied rows of a piece are hashed, and the hashes of each tie compared.

    Attributes
    ----------
    folder : Storage
        The run folder.
    source, splits, schema
        What is read: all columns of the source.
    pieces : tuple of int
        That have ties.
    """

    folder: Storage
    source: Source
    splits: SplitList
    schema: pa.Schema
    pieces: tuple[int, ...]

    def route(self, number: int) -> Iterator[Routed]:
        """Read the tied rows of a piece whole, and send the hash of each to the task of its key."""
        ties = read_rows(self.folder, ties_path(self.pieces[number])).combine_chunks()
        splits, rows = ties["split"].to_numpy(), ties["row"].to_numpy()
        for first, last in runs_of(splits):
            split = int(splits[first])
            before = 0
            for batch in self.source.read(self.splits[split], self.schema):
                low, high = (
                    first + int(np.searchsorted(rows[first:last], row))
                    for row in (before, before + batch.num_rows)
                )
                if high > low:
                    hashes = row_hashes(batch.take(pa.array(rows[low:high] - before)))
                    some = ties.slice(low, high - low).combine_chunks().to_batches()[0]
                    some = some.append_column("hash", pa.array(hashes.view(np.int64)))
                    yield from to_targets(some, some.column("source").to_numpy())
                before += batch.num_rows

    def compare(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Keep the first of the rows of each tie; leave the others, if they are equal to it."""
        rows = pa.Table.from_batches([block.rows for block in blocks])
        blocks.clear()
        rows = rows.sort_by([(name, "ascending") for name in ("tie", "split", "row")]).combine_chunks()
        tie, hashes = rows["tie"].to_numpy(), rows["hash"].to_numpy()
        is_first = np.append(True, tie[1:] != tie[:-1])
        first_of = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        differs = np.flatnonzero(hashes != hashes[first_of])
        _, one_each = np.unique(tie[differs], return_index=True)
        shown = differs[one_each][:_EXAMPLES]
        pairs = np.stack([first_of[shown], shown], axis=1).ravel()
        places = np.stack([rows["split"].to_numpy()[pairs], rows["row"].to_numpy()[pairs]], axis=1).ravel()
        equal = rows.filter(pa.array(~is_first)).select(["split", "row"])
        equal = equal.append_column("tie", pa.array(np.full(equal.num_rows, -1)))
        write_rows(self.folder, found_path(EQUAL, target), equal.cast(PLACES))
        yield pa.record_batch([[target], [len(one_each)], [places.tolist()]], schema=_RESULT)


def settle_ties(
    folder: RunFolder,
    source: Source,
    splits: SplitList,
    schema: pa.Schema,
    newest: NewestSpec,
    pieces: tuple[int, ...],
    targets: int,
    engine: Engine,
) -> tuple[int, ...]:
    """Find which tied rows are equal to an earlier one; give the tasks that have left such rows.

    All columns of the splits with such rows are read. Rows are compared by hashes of 64 bits, and values by
    their bits.

    Parameters
    ----------
    folder : RunFolder
    source, splits, schema
        What is read.
    newest : NewestSpec
    pieces : tuple of int
        Of the list of splits, that have ties.
    targets : int
        Of the exchange that found them.
    engine : Engine

    Raises
    ------
    InputError
        Tied rows are not equal; the message shows some: key, order, files and rows.
    """
    task = TiesTask(folder.storage, source, splits, schema, pieces)
    with engine.progress("ties"):
        found = engine.exchange(
            sources=len(pieces), mapper=task.route, targets=targets, reducer=task.compare, result=_RESULT
        ).sort_by("number")
    differ = pc.sum(found["differ"]).as_py() or 0
    if differ:
        places = np.array([place for some in found["examples"].to_pylist() for place in some]).reshape(
            -1, 2, 2
        )
        shown = "; ".join(_told(source, splits, schema, newest, pair) for pair in places[:_EXAMPLES].tolist())
        raise InputError(
            f"newest: {differ} keys have rows that share their {newest.order} and differ elsewhere, so that "
            f"none is the newest: {shown}. Take a column for newest.order that tells them apart, a longer "
            "newest.key, or mend the files"
        )
    return tuple(found["number"].to_pylist())


def _told(
    source: Source, splits: SplitList, schema: pa.Schema, newest: NewestSpec, pair: list[list[int]]
) -> str:
    """Two rows for people: key, order, and where they stand."""
    names = [*newest.key, newest.order]
    values: list[dict[str, Any]] = []
    places = []
    for split, row in pair:
        values.append(_row(source, splits, schema, names, split, row))
        places.append(f"{splits.uri_of(split)}, row {row + 1 + rows_before(source, splits, schema, split)}")
    key = ", ".join(f"{name} {values[0][name]!r}" for name in newest.key)
    return f"{key} with {newest.order} {values[0][newest.order]!r} in {' and '.join(places)}"


def _row(
    source: Source, splits: SplitList, schema: pa.Schema, names: list[str], split: int, row: int
) -> dict[str, Any]:
    before = 0
    for batch in source.read(splits[split], schema, names):
        if row < before + batch.num_rows:
            found: dict[str, Any] = batch.slice(row - before, 1).to_pylist()[0]
            return found
        before += batch.num_rows
    raise InputError(f"{splits.uri_of(split)} has changed; start a new run")


def rows_before(source: Source, splits: SplitList, schema: pa.Schema, split: int) -> int:
    """Rows of the file of a split that stand before it."""
    files = splits.file_ordinals
    first = int(np.searchsorted(files, files[split]))
    name = schema.names[:1]
    return sum(
        batch.num_rows for each in splits.between(first, split) for batch in source.read(each, schema, name)
    )
