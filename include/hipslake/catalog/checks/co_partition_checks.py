"""Checks that each value of a co-partitioned column lies in one pixel: exact, in bounded memory.

Each leaf gives its distinct pairs of value and `_healpix_29`; the exchange brings the pairs of equal values
together, those of the objects that placed them too. Values travel as 64-bit codes. What the codes show to be
wrong is read once more by value, so that two texts which share a code are no finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.checks.findings import Problem, ProblemKind, or_unread
from hipslake.catalog.checks.leaf_lists import tasks_for
from hipslake.catalog.column_files import ColumnFiles
from hipslake.catalog.gone_objects import gone_files
from hipslake.catalog.metadata import CatalogMetadata, CoPartitioned, PlacingObjects
from hipslake.engine.model import Block, Counter, Engine, Routed, by_target
from hipslake.errors import VersionNotFoundError
from hipslake.joins.key_codes import key_codes, plain_keys
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

PASS_PAIRS = 32 << 20  # pairs that an engine which holds them all is given at once, 20 bytes each
_TARGETS_PER_CORE = 4
_SHOWN = 100  # codes per reduce task that are looked at again
_EXAMPLES = 3
_PAIRS = pa.schema([("code", pa.uint64()), ("h29", pa.int64()), ("is_object", pa.bool_())])
_RESULT = pa.schema([("code", pa.int64()), ("unknown", pa.bool_())])  # engines may have no uint64


def co_partition_problems(
    storage: Storage, metadata: CatalogMetadata, engine: Engine, *, with_objects: bool
) -> Iterator[Problem]:
    """What is wrong with the marks of a version.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    engine : Engine
        Runs the exchange; one that holds all its rows gets them in several passes.
    with_objects : bool
        Whether it is a problem that no version of the objects is left to hold the rows against. A catalog
        that was verified with them stays right when they go.
    """
    for mark in metadata.co_partitioned:
        wrong = _mark_problems(storage, metadata, mark, engine, with_objects)
        yield from or_unread(wrong, f"column {mark.column!r} was not checked")


def objects_root(storage: Storage, placing: PlacingObjects) -> Storage:
    """The root of the catalog of objects that placed rows; it lies beside that of the rows."""
    return Storage.at(storage.uri().rpartition("/")[0]).sub(placing.catalog)


def objects_of(storage: Storage, placing: PlacingObjects) -> tuple[Storage, CatalogMetadata] | None:
    """The newest version of a catalog beside this one that has all objects which placed rows, if any has."""
    root = objects_root(storage, placing)
    versions = VersionLog(root)
    numbers = versions.numbers()
    for number in reversed(numbers):
        with suppress(VersionNotFoundError):
            metadata = CatalogMetadata.from_json(versions.read(number))
            writes, theirs = set(placing.writes), set(metadata.increment_writes)
            moves = placing.moves or metadata.rows_move or placing.gone is not None
            if writes == theirs or (writes <= theirs and not moves):
                return root, metadata
    return None


class ColumnSide(NamedTuple):
    """A column of a catalog, and whether it is that of the objects."""

    files: ColumnFiles
    is_object: bool


@dataclass(frozen=True)
class PairsTask:
    """Both halves of the exchange.

    Attributes
    ----------
    sides : tuple of ColumnSide
        The files that each map task reads.
    targets : int
        Reduce tasks of all passes.
    now : (int, int)
        Those of this pass.
    needs_object : bool
        Whether every value has to be an object's.
    most : int or None
        Codes that a reduce task gives; None: all.
    done : Counter
        Rows read so far.
    """

    sides: tuple[ColumnSide, ...]
    targets: int
    now: tuple[int, int]
    needs_object: bool
    most: int | None
    done: Counter

    def route(self, number: int) -> Iterator[Routed]:
        """Send the distinct pairs of some leaves to where their values are brought together."""
        side = self.sides[number]
        for batch in side.files.batches():
            self.done.add(batch.num_rows)
            codes, h29 = _pairs(batch, side.files.column)
            first, stop = self.now
            for to, chosen in by_target(_share_of(codes, self.targets) - first, stop - first):
                is_object = np.full(len(chosen), side.is_object)
                yield to, pa.record_batch([codes[chosen], h29[chosen], is_object], schema=_PAIRS)

    def compare(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Give the codes of values that have several pixels, or are no object's; the first of them."""
        table = pa.Table.from_batches([block.rows for block in blocks], _PAIRS)
        blocks.clear()
        codes, h29 = table["code"].to_numpy(), table["h29"].to_numpy()
        is_object = table["is_object"].to_numpy()
        order = np.argsort(codes, kind="stable")
        codes, h29, is_object = codes[order], h29[order], is_object[order]
        first = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        apart = np.minimum.reduceat(h29, first) != np.maximum.reduceat(h29, first)
        has_object = np.logical_or.reduceat(is_object, first)
        of_rows = ~np.logical_and.reduceat(is_object, first)
        unknown = of_rows & ~has_object if self.needs_object else np.zeros(len(first), bool)
        wrong = np.flatnonzero((apart & of_rows) | unknown)[: self.most]
        yield pa.record_batch([codes[first][wrong].view(np.int64), unknown[wrong]], schema=_RESULT)


def _mark_problems(
    storage: Storage, metadata: CatalogMetadata, mark: CoPartitioned, engine: Engine, with_objects: bool
) -> Iterator[Problem]:
    rows = ColumnSide(ColumnFiles.of(storage, metadata, mark.column), is_object=False)
    sides, pairs, objects = [rows], metadata.total_rows, None
    if mark.objects is not None:
        objects = objects_of(storage, mark.objects)
        if objects is not None:
            sides.append(ColumnSide(ColumnFiles.of(*objects, mark.objects.column), is_object=True))
            pairs += objects[1].total_rows
            if (listed := mark.objects.gone) is not None:
                files = gone_files(storage, metadata, mark.column, listed.path)
                sides.append(ColumnSide(files, is_object=True))
                pairs += listed.rows
        elif with_objects:
            gone = (
                f"column {mark.column!r}: the objects of {mark.objects.catalog} that placed its rows are gone"
            )
            mend = "start a new run, which takes the objects that there are now"
            yield Problem.of(ProblemKind.CO_PARTITIONING, "", gone, mend)
            return
    codes, unknown = _suspects(sides, pairs, engine, needs_object=objects is not None)
    if len(codes):
        yield from _confirmed(sides, mark, codes, unknown)


def compared_whole(
    rows: list[ColumnFiles], objects: ColumnFiles, pairs: int, engine: Engine
) -> tuple[pa.Table, pa.Table]:
    """Hold the values of rows against objects, all of both.

    Parameters
    ----------
    rows : list of ColumnFiles
    objects : ColumnFiles
    pairs : int
        Rows of all of them, about.
    engine : Engine

    Returns
    -------
    gone : pyarrow.Table
        The values that are no object's: `id`, and their `_healpix_29`; sorted.
    moved : pyarrow.Table
        Those whose object is elsewhere: `id`, `_healpix_29`, and where the object is.
    """
    sides = [*(ColumnSide(each, is_object=False) for each in rows), ColumnSide(objects, is_object=True)]
    codes, _ = _suspects(sides, pairs, engine, needs_object=True, most=None)
    here, there = (_spans_of(sides, codes, is_object=is_object) for is_object in (False, True))
    at = pc.index_in(here["key"], value_set=there["key"].combine_chunks())
    found = pa.table({"id": here["key"], HEALPIX_COLUMN: here["low"], "back": there["low"].take(at)})
    moved = found.filter(pc.and_(pc.is_valid(at), pc.not_equal(found[HEALPIX_COLUMN], found["back"])))
    return found.filter(pc.is_null(at)).select(["id", HEALPIX_COLUMN]), moved


def _suspects(
    sides: list[ColumnSide],
    pairs: int,
    engine: Engine,
    *,
    needs_object: bool,
    most: int | None = _SHOWN,
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Codes of values with several pixels, and of those that are no object's (True)."""
    passes = -(-pairs // PASS_PAIRS) if engine.holds_exchanges else 1
    each = _TARGETS_PER_CORE * engine.cores
    parts = tasks_for(engine)
    work = tuple(ColumnSide(part, side.is_object) for side in sides for part in side.files.cut(parts))
    found = []
    for number in range(max(1, passes)):
        now = (number * each, (number + 1) * each)
        task = PairsTask(work, max(1, passes) * each, now, needs_object, most, engine.counter())
        with engine.progress("co-partitioning", rows=pairs, done=task.done):
            found.append(
                engine.exchange(
                    sources=len(work), mapper=task.route, targets=each, reducer=task.compare, result=_RESULT
                )
            )
    table = pa.concat_tables(found).sort_by("code")
    return table["code"].to_numpy().view(np.uint64), table["unknown"].to_numpy()


def _confirmed(
    sides: list[ColumnSide], mark: CoPartitioned, codes: NDArray[np.uint64], unknown: NDArray[np.bool_]
) -> Iterator[Problem]:
    """Read the rows of suspect codes again, by value."""
    table = _spans_of(sides, codes, is_object=False)
    objects = _spans_of(sides, codes, is_object=True) if any(side.is_object for side in sides) else None
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    wrong = low != high
    lost = np.zeros(len(low), bool)
    if objects is not None:
        at = pc.index_in(table["key"], objects["key"].combine_chunks())
        lost = at.is_null().to_numpy(zero_copy_only=False) if len(low) else lost
        there = np.flatnonzero(~lost)
        home = objects["low"].to_numpy()[at.drop_null().to_numpy()]
        wrong[there] |= (low[there] != home) | (high[there] != home)
        wrong &= ~lost
    for mask, what in (
        (wrong, "are in more than one pixel, or not in their object's"),
        (lost, "are of no object"),
    ):
        if mask.any():
            several = "" if int(mask.sum()) < _SHOWN else " at least"
            shown = "; ".join(
                f"{row['key']!r} at _healpix_29 {row['low']}"
                + (f" and {row['high']}" if row["high"] != row["low"] else "")
                for row in table.filter(pa.array(mask)).slice(0, _EXAMPLES).to_pylist()
            )
            yield Problem.of(
                ProblemKind.CO_PARTITIONING,
                "",
                f"column {mark.column!r} is marked as co-partitioned, but{several} {int(mask.sum())} of its "
                f"values {what}; the first: {shown}",
            )


def _spans_of(sides: list[ColumnSide], codes: NDArray[np.uint64], *, is_object: bool) -> pa.Table:
    """As `_spans`, of all sides of objects, or of all others."""
    found = [_spans(side, codes) for side in sides if side.is_object == is_object]
    return found[0] if len(found) == 1 else _least_and_greatest(pa.concat_tables(found)).sort_by("key")


def _spans(side: ColumnSide, codes: NDArray[np.uint64]) -> pa.Table:
    """Per value of the given codes, its least and its greatest `_healpix_29`: key, low, high."""
    found: list[pa.Table] = []
    for batch in side.files.batches():
        keys = plain_keys(batch.column(side.files.column))
        there = keys.is_valid()
        keys, h29 = keys.drop_null(), batch.column(HEALPIX_COLUMN).filter(there)
        mine = pa.array(np.isin(key_codes(keys), codes))
        rows = pa.table({"key": keys.filter(mine), "low": h29.filter(mine), "high": h29.filter(mine)})
        if rows.num_rows or not found:
            found.append(_least_and_greatest(rows))
    return _least_and_greatest(pa.concat_tables(found)).sort_by("key")


def _least_and_greatest(rows: pa.Table) -> pa.Table:
    grouped = rows.group_by("key").aggregate([("low", "min"), ("high", "max")])
    return grouped.select(["key", "low_min", "high_max"]).rename_columns(["key", "low", "high"])


def _pairs(batch: pa.RecordBatch, column: str) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Distinct pairs of code and pixel; rows come along the curve, so those of a pixel stand together."""
    keys, h29 = plain_keys(batch.column(column)), batch.column(HEALPIX_COLUMN)
    if keys.null_count:
        there = keys.is_valid()
        keys, h29 = keys.filter(there), h29.filter(there)
    codes, pixels = key_codes(keys), h29.to_numpy()
    order = np.lexsort((codes, pixels))
    codes, pixels = codes[order], pixels[order]
    fresh = np.append(True, (codes[1:] != codes[:-1]) | (pixels[1:] != pixels[:-1]))[: len(codes)]
    return codes[fresh], pixels[fresh]


def _share_of(codes: NDArray[np.uint64], shares: int) -> NDArray[np.int64]:
    """An equal share of the codes for each of some tasks."""
    return ((codes >> np.uint64(32)) * np.uint64(shares) >> np.uint64(32)).astype(np.int64)
