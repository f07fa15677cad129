"""What the tasks of the histogram step do: count their splits, leave a part, and say what they met."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Accumulator

from hipslake.catalog.placement import icrs_and_index
from hipslake.sources import Source, Split
from hipslake.spark.counting import PixelCounts, write_part
from hipslake.spark.row_bytes import row_bytes
from hipslake.spark.split_rows import Chunk, chunks, first_chunk
from hipslake.specs.base import Frozen
from hipslake.specs.catalog import CatalogSpec
from hipslake.sphere.pixels import coarsen
from hipslake.steps.histogram import RowBytes
from hipslake.storage import Storage

RESULT = "report string"


class BadRow(Frozen):
    """A row that is not on the sky."""

    row: int  # its number in the split
    reason: int  # as `check_positions` codes it
    lon: str  # as text: NaN and infinity have no JSON
    lat: str


class SplitCount(Frozen):
    """What a task met in one split."""

    split: int  # its place in the list of splits
    rows: int
    rejected: dict[int, int] = {}  # reason code -> rows
    examples: tuple[BadRow, ...] = ()
    schema_message: str | None = None  # where only the data tell it: an Arrow IPC schema message in base64
    weights: dict[str, RowBytes] = {}

    def arrow_schema(self) -> pa.Schema | None:
        """The schema of the split's data, if it had to be inferred."""
        if self.schema_message is None:
            return None
        return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(self.schema_message)))


@dataclass(frozen=True)
class CountTask:
    """Counts the splits of each task: rows per pixel at an order, either of all rows or of crowded pixels.

    Attributes
    ----------
    folder : Storage
        The run folder.
    parts : str
        Folder in it for the counts; task 3 leaves `<parts>/3.arrow`.
    source, spec, splits
        What is read.
    tasks : sequence of (int, int)
        Per task, the range of splits that it reads.
    schema : pyarrow.Schema or None
        None where it must be inferred from the data.
    order : int
        Order of the pixels that are counted.
    sampled : frozenset of int
        Tasks that also find out what a row weighs.
    max_examples : int
        Bad rows that are kept per split.
    done : Accumulator
        Rows counted so far.
    crowded : (int, int64[k]) or None
        Order and numbers, ascending, of the only pixels that count. None: all rows.
    """

    folder: Storage
    parts: str
    source: Source
    spec: CatalogSpec
    splits: tuple[Split, ...]
    tasks: tuple[tuple[int, int], ...]
    schema: pa.Schema | None
    order: int
    sampled: frozenset[int]
    max_examples: int
    done: Accumulator[int]
    crowded: tuple[int, NDArray[np.int64]] | None = None

    def part_path(self, task: int) -> str:
        """Where a task leaves its counts, relative to the run folder."""
        return f"{self.parts}/{task}.arrow"

    def deeper(self, order: int, crowded: tuple[int, NDArray[np.int64]], schema: pa.Schema, parts: str) -> CountTask:
        """The same splits once more, for crowded pixels only."""
        return replace(self, order=order, crowded=crowded, schema=schema, parts=parts, sampled=frozenset())

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Count the splits of a task."""
        counts = PixelCounts(self.order)
        reports = [self._count(split, counts) for split in range(*self.tasks[task])]
        if task in self.sampled:
            reports[0] = reports[0].model_copy(update={"weights": self._weigh(self.splits[reports[0].split])})
        write_part(self.folder, self.part_path(task), counts)
        yield pa.record_batch({"report": [report.model_dump_json() for report in reports]})

    def _count(self, number: int, counts: PixelCounts) -> SplitCount:
        split, position = self.splits[number], self.spec.position
        inferred = None if self.schema is not None else self.source.infer(split)
        schema = self.schema if inferred is None else inferred
        message = None if inferred is None else base64.b64encode(inferred.serialize()).decode()
        rows, rejected, examples = 0, np.zeros(256, np.int64), []
        if not _has_numbers(schema, position.ra, position.dec):
            return SplitCount(split=number, rows=0, schema_message=message)  # said when the schemas are unified
        for chunk in chunks(self.source, split, schema, position, [position.ra, position.dec]):
            rows += chunk.rows.num_rows
            lon, lat, reasons = chunk.placed.lon, chunk.placed.lat, chunk.placed.reasons
            if reasons is not None:
                rejected += np.bincount(reasons, minlength=256)
                examples += _examples(chunk, self.max_examples - len(examples))
                lon, lat = lon[reasons == 0], lat[reasons == 0]
            counts.add_rows(self._counted(icrs_and_index(lon, lat, position)[2]))
            self.done.add(chunk.rows.num_rows)
        rejected[0] = 0
        return SplitCount(
            split=number,
            rows=rows,
            rejected={int(code): int(rejected[code]) for code in np.flatnonzero(rejected)},
            examples=tuple(examples),
            schema_message=message,
        )

    def _counted(self, h29: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.crowded is None:
            return h29
        order, pixels = self.crowded
        mine = coarsen(h29, order)
        at = np.minimum(np.searchsorted(pixels, mine), len(pixels) - 1)
        return h29[pixels[at] == mine]

    def _weigh(self, split: Split) -> dict[str, RowBytes]:
        schema = self.schema if self.schema is not None else self.source.infer(split)
        chunk = first_chunk(self.source, split, schema, self.spec.position)
        return row_bytes(chunk, schema, self.spec) if chunk is not None else {}


def _has_numbers(schema: pa.Schema, *names: str) -> bool:
    kinds = [schema.field(name).type for name in names if name in schema.names]
    fit = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return len(kinds) == len(names) and all(any(is_a(kind) for is_a in fit) for kind in kinds)


def _examples(chunk: Chunk, most: int) -> list[BadRow]:
    reasons = chunk.placed.reasons
    if reasons is None:
        return []
    return [
        BadRow(
            row=chunk.first + at,
            reason=int(reasons[at]),
            lon=repr(float(chunk.placed.lon[at])),
            lat=repr(float(chunk.placed.lat[at])),
        )
        for at in np.flatnonzero(reasons)[:most].tolist()
    ]
