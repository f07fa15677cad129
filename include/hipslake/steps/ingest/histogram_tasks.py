"""What the tasks of the histogram step do: count their splits, leave a part, and say what they met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from hipslake.catalog.placement import NULL_OBJECT, Placer, indexed
from hipslake.catalog.schema import schema_of_text, schema_text
from hipslake.engine.model import Counter
from hipslake.sources import Source, Split
from hipslake.sources.csv.inference import held_types
from hipslake.sources.names import takes_texts
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.angle_columns import is_text
from hipslake.sphere.pixels import coarsen
from hipslake.steps.ingest.pixel_counts import PixelCounts, write_parts
from hipslake.steps.ingest.split_rows import Chunk, chunks
from hipslake.storage.folder import Storage

RESULT = pa.schema([("report", pa.string())])

_NUMBERS = {"float64": pa.float64(), "int64": pa.int64(), "uint64": pa.uint64(), "padded": pa.float64()}
_KEYS = {"integer": pa.int64(), "uint64": pa.uint64(), "text": pa.large_string()}
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


class BadRow(Frozen):
    """A row that is not on the sky."""

    row: int  # its number in the split
    reason: int  # as `check_positions` codes it
    lon: str  # as text: NaN and infinity have no JSON
    lat: str
    id: str = ""  # of its object


class SplitCount(Frozen):
    """What a task met in one split."""

    split: int  # its place in the list of splits
    rows: int
    rejected: dict[int, int] = Field(default_factory=dict)  # reason code -> rows
    unmatched: int = 0  # rows with an id of no object, which lie at their own positions
    examples: tuple[BadRow, ...] = ()
    schema_message: str | None = None  # where only the data tell it: see `schema_text`

    def arrow_schema(self) -> pa.Schema | None:
        """The schema of the split's data, if it had to be inferred."""
        return None if self.schema_message is None else schema_of_text(self.schema_message)


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
    placer : Placer
        Tells where each row lies.
    tasks : sequence of (int, int)
        Per task, the range of splits that it reads.
    schema : pyarrow.Schema or None
        None where it must be inferred from the data.
    order : int
        Order of the pixels that are counted.
    max_examples : int
        Bad rows that are kept per split.
    done : Counter
        Rows counted so far.
    crowded : (int, int64[k]) or None
        Order and numbers, ascending, of the only pixels that count. None: all rows.
    """

    folder: Storage
    parts: str
    source: Source
    spec: CatalogSpec
    splits: tuple[Split, ...]
    placer: Placer
    tasks: tuple[tuple[int, int], ...]
    schema: pa.Schema | None
    order: int
    max_examples: int
    done: Counter
    crowded: tuple[int, NDArray[np.int64]] | None = None

    def part_path(self, task: int) -> str:
        """Where a task leaves its counts, relative to the run folder."""
        return f"{self.parts}/{task}.arrow"

    def deeper(
        self, order: int, crowded: tuple[int, NDArray[np.int64]], schema: pa.Schema, parts: str
    ) -> CountTask:
        """The same splits once more, for crowded pixels only."""
        return replace(self, order=order, crowded=crowded, schema=schema, parts=parts)

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Count the splits of a task."""
        counts = PixelCounts(self.order)
        reports = [self._count(split, counts) for split in range(*self.tasks[task])]
        write_parts(self.folder, self.part_path(task), counts)
        yield pa.record_batch({"report": [report.model_dump_json() for report in reports]})

    def _count(self, number: int, counts: PixelCounts) -> SplitCount:
        split, position, columns = self.splits[number], self.spec.position, self.placer.columns
        inferred = None if self.schema is not None else self.source.infer(split)
        schema = self.schema if inferred is None else _places_in(inferred, self.placer)
        message = None if inferred is None else schema_text(inferred)
        rows, unmatched, rejected = 0, 0, np.zeros(256, np.int64)
        examples: list[BadRow] = []
        if schema is None:  # an error, which is raised when the schemas are unified
            return SplitCount(split=number, rows=0, schema_message=message)
        for chunk in chunks(self.source, split, schema, self.placer, columns):
            rows += chunk.rows.num_rows
            reasons = chunk.placed.reasons
            if reasons is not None:
                rejected += np.bincount(reasons, minlength=256)
                examples += _examples(chunk, self.spec, self.max_examples - len(examples))
            unmatched += chunk.placed.unmatched
            counts.add_rows(self._counted(indexed(chunk.placed, position).h29))
            self.done.add(chunk.rows.num_rows)
        rejected[0] = 0
        return SplitCount(
            split=number,
            rows=rows,
            rejected={int(code): int(rejected[code]) for code in np.flatnonzero(rejected)},
            examples=tuple(examples),
            unmatched=unmatched,
            schema_message=message,
        )

    def _counted(self, h29: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.crowded is None:
            return h29
        order, pixels = self.crowded
        mine = coarsen(h29, order)
        at = np.minimum(np.searchsorted(pixels, mine), len(pixels) - 1)
        return h29[pixels[at] == mine]


def _places_in(inferred: pa.Schema, placer: Placer) -> pa.Schema | None:
    """The columns that place the rows of one split, as all splits can have them; None if they cannot.

    A split says little by itself: where it has no value, or not even the column, others may have numbers.
    """
    fields, position, given = [], placer.spec.position, placer.spec.position_from
    if given is not None and placer.objects is not None:  # ids are read as what the objects' are
        fields.append(pa.field(given.column, _KEYS[placer.objects.kind]))
    for name in (position.ra, position.dec):
        kind = inferred.field(name).type if name in inferred.names else pa.float64()
        held = held_types(inferred.field(name)) if name in inferred.names else None
        if held is not None:
            kind = next((_NUMBERS[name] for name in _NUMBERS if name in held), kind)
        as_text = is_text(kind) and takes_texts(position)
        if not (as_text or any(is_a(kind) for is_a in _NUMERIC)):
            return None
        fields.append(pa.field(name, kind))
    return pa.schema(fields, inferred.metadata)


def _examples(chunk: Chunk, spec: CatalogSpec, most: int) -> list[BadRow]:
    reasons = chunk.placed.reasons
    if reasons is None:
        return []
    return [
        BadRow(
            row=chunk.first + at,
            reason=int(reasons[at]),
            lon=_shown(chunk, spec.position.ra, chunk.placed.lon, at),
            lat=_shown(chunk, spec.position.dec, chunk.placed.lat, at),
            id=_id_of(chunk, spec, at) if reasons[at] >= NULL_OBJECT else "",
        )
        for at in np.flatnonzero(reasons)[:most].tolist()
    ]


def _shown(chunk: Chunk, column: str, values: NDArray[np.float64], at: int) -> str:
    """A coordinate as the source has it."""
    if is_text(chunk.rows.schema.field(column).type):
        return repr(chunk.rows.column(column)[at].as_py())
    return repr(float(values[at]))


def _id_of(chunk: Chunk, spec: CatalogSpec, at: int) -> str:
    assert spec.position_from is not None
    return f"{spec.position_from.column} {chunk.rows.column(spec.position_from.column)[at].as_py()!r}"
