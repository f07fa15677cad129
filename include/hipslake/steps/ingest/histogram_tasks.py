"""What the tasks of the histogram step do: count their splits, leave a part, and say what they met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from hipslake.catalog.claimed_pixels import claims_text
from hipslake.catalog.placement import DELETING, NULL_OBJECT, OTHER_CLAIM, SUPERSEDED, Placer, indexed
from hipslake.catalog.schema import schema_of_text, schema_text
from hipslake.engine.model import Counter as RowCounter
from hipslake.sources import Source, Split
from hipslake.sources.csv.inference import held_types
from hipslake.sources.names import takes_texts
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.angle_columns import is_text
from hipslake.sphere.pixels import coarsen
from hipslake.steps.ingest.pixel_counts import PixelCounts, write_parts
from hipslake.steps.ingest.sorted_rows import KeptByTask, SortedRows
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.ingest.split_rows import CHUNK_BYTES, Chunk, Piece, chunks
from hipslake.steps.ingest.superseded_rows import SupersededRows
from hipslake.storage.folder import Storage

RESULT = pa.schema(
    [("split", pa.int64()), ("rows", pa.int64()), ("like", pa.int64()), ("found", pa.string())]
)
"""Of each split its rows, the split whose finding tells its schema, and a `SplitFinding` if there is any."""

_NUMBERS = {"float64": pa.float64(), "int64": pa.int64(), "uint64": pa.uint64(), "padded": pa.float64()}
_KEYS = {"integer": pa.int64(), "uint64": pa.uint64(), "text": pa.large_string()}
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


class BadRow(Frozen):
    """A row that is not on the sky."""

    row: int  # its number in the split
    reason: int  # as `check_positions` codes it
    lon: str  # as text: NaN and infinity have no JSON
    lat: str
    id: str = ""  # of its object, or the pixel that it says it lies in


class SplitFinding(Frozen):
    """What a task met in one split, beside rows that are on the sky."""

    split: int  # its place in the list of splits
    rejected: dict[int, int] = Field(default_factory=dict)  # reason code -> rows
    superseded: int = 0  # rows that newer ones of the same key take the place of
    deletes: int = 0  # records that delete the row of their key
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
    superseded : SupersededRows or None
        Rows that do not count, since newer ones take their place.
    sorted_rows : SortedRows or None
        How rows are kept for the write step. None: they are not.
    """

    folder: Storage
    parts: str
    source: Source
    spec: CatalogSpec
    splits: SplitList
    placer: Placer
    tasks: tuple[tuple[int, int], ...]
    schema: pa.Schema | None
    order: int
    max_examples: int
    done: RowCounter
    crowded: tuple[int, NDArray[np.int64]] | None = None
    superseded: SupersededRows | None = None
    sorted_rows: SortedRows | None = None

    def part_path(self, task: int) -> str:
        """Where a task leaves its counts, relative to the run folder."""
        return f"{self.parts}/{task}.arrow"

    def deeper(
        self, order: int, crowded: tuple[int, NDArray[np.int64]], schema: pa.Schema, parts: str
    ) -> CountTask:
        """The same splits once more, for crowded pixels only."""
        return replace(self, order=order, crowded=crowded, schema=schema, parts=parts, sorted_rows=None)

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Count the splits of a task."""
        first, last = self.tasks[task]
        counts, found = PixelCounts(self.order), _Found(first, last)
        if self.sorted_rows is None or self.sorted_rows.stopped.exists():
            self._count(first, last, counts, found)
        else:
            assert self.schema is not None, "rows are kept as leaf files have them"
            with self.sorted_rows.keeping(task, first) as kept:
                self._count(first, last, counts, found, kept)
        write_parts(self.folder, self.part_path(task), counts)
        yield found.reports()

    def _count(
        self, first: int, last: int, counts: PixelCounts, found: _Found, kept: KeptByTask | None = None
    ) -> None:
        for schema, splits in groupby(self.splits.between(first, last), self._read_as(found)):
            if schema is None:  # an error, which is raised when the schemas are unified
                continue
            columns = None if kept is not None else self.placer.columns
            if self.schema is None:  # operations are read once the types of all columns are known
                columns = [name for name in self.placer.columns if name in self.placer.reading(schema).names]
            read = chunks(
                self.source,
                splits,
                schema,
                self.placer,
                columns,
                superseded=self.superseded,
                chunk_bytes=CHUNK_BYTES if self.sorted_rows is None else self.sorted_rows.chunk_bytes,
            )
            for chunk in read:
                found.add(chunk, self.spec, self.max_examples)
                if kept is not None:
                    h29 = kept.add(chunk)
                else:
                    h29 = self._counted(indexed(chunk.placed, self.spec.position).h29)
                counts.add_rows(h29)
                self.done.add(chunk.rows.num_rows)

    def _read_as(self, found: _Found) -> Callable[[Split], pa.Schema | None]:
        """The columns that a split is read with: its data may have to tell them, and may be unable to."""

        def schema_of(split: Split) -> pa.Schema | None:
            if self.schema is not None:
                return self.schema
            inferred = self.source.infer(split)
            found.note_schema(split.ordinal, schema_text(inferred))
            return _places_in(inferred, self.placer)

        return schema_of

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


class _Found:
    """What a task has met so far in the splits [first, last)."""

    def __init__(self, first: int, last: int) -> None:
        self._schemas: dict[str, int] = {}  # each text that was inferred, and the first split with it
        self._like: list[int | None] = [None] * (last - first)
        self._first = first
        self._rows = np.zeros(last - first, np.int64)
        self._findings: dict[int, SplitFinding] = {}

    def note_schema(self, split: int, text: str) -> None:
        """Note the schema of a split, as `schema_text` gives it; of very many that are alike one is kept."""
        self._like[split - self._first] = self._schemas.setdefault(text, split)

    def add(self, chunk: Chunk, spec: CatalogSpec, most_examples: int) -> None:
        """Note the rows of a chunk, and which of them have no place."""
        for piece in chunk.pieces:
            self._rows[piece.split - self._first] += piece.rows
        reasons, bad_rows, start = chunk.placed.reasons, chunk.placed.bad, 0
        if unmatched := chunk.placed.unmatched:
            self._change(chunk.pieces[0].split, unmatched=unmatched)
        if reasons is None or bad_rows is None:
            return
        if superseded := int((reasons == SUPERSEDED).sum()):
            self._change(chunk.pieces[0].split, superseded=superseded)
        if deletes := int((reasons == DELETING).sum()):
            self._change(chunk.pieces[0].split, deletes=deletes)
        for piece in chunk.pieces:
            bad = start + np.flatnonzero(bad_rows[start : start + piece.rows])
            start += piece.rows
            if len(bad):
                codes, rows = np.unique(reasons[bad], return_counts=True)
                shown = self._of(piece.split).examples
                shown += _examples(chunk, piece, bad[: most_examples - len(shown)], start - piece.rows, spec)
                self._change(piece.split, dict(zip(codes.tolist(), rows.tolist(), strict=True)), shown)

    def reports(self) -> pa.RecordBatch:
        """What was found, as `RESULT`."""
        for text, split in self._schemas.items():
            self._findings[split] = self._of(split).model_copy(update={"schema_message": text})
        splits = range(self._first, self._first + len(self._rows))
        found = [self._findings.get(split) for split in splits]
        texts = [None if each is None else each.model_dump_json() for each in found]
        columns = [pa.array(splits, pa.int64()), self._rows, pa.array(self._like, pa.int64()), texts]
        return pa.record_batch(columns, schema=RESULT)

    def _of(self, split: int) -> SplitFinding:
        return self._findings.get(split) or SplitFinding(split=split)

    def _change(
        self,
        split: int,
        rejected: Mapping[int, int] = MappingProxyType({}),
        examples: tuple[BadRow, ...] | None = None,
        unmatched: int = 0,
        superseded: int = 0,
        deletes: int = 0,
    ) -> None:
        before = self._of(split)
        self._findings[split] = before.model_copy(
            update={
                "rejected": dict(Counter(before.rejected) + Counter(rejected)),
                "unmatched": before.unmatched + unmatched,
                "superseded": before.superseded + superseded,
                "deletes": before.deletes + deletes,
                "examples": before.examples if examples is None else examples,
            }
        )


def _examples(
    chunk: Chunk, piece: Piece, bad: NDArray[np.int64], start: int, spec: CatalogSpec
) -> tuple[BadRow, ...]:
    """Some bad rows of a piece, which begins with row `start` of the chunk."""
    reasons = chunk.placed.reasons
    assert reasons is not None
    return tuple(
        BadRow(
            row=piece.first + at - start,
            reason=int(reasons[at]),
            lon=_shown(chunk, spec.position.ra, chunk.placed.lon, at),
            lat=_shown(chunk, spec.position.dec, chunk.placed.lat, at),
            id=_id_of(chunk, spec, at) if reasons[at] >= NULL_OBJECT else "",
        )
        for at in bad.tolist()
    )


def _shown(chunk: Chunk, column: str, values: NDArray[np.float64], at: int) -> str:
    """A coordinate as the source has it."""
    if is_text(chunk.rows.schema.field(column).type):
        return repr(chunk.rows.column(column)[at].as_py())
    return repr(float(values[at]))


def _id_of(chunk: Chunk, spec: CatalogSpec, at: int) -> str:
    reasons = chunk.placed.reasons
    if reasons is not None and reasons[at] >= OTHER_CLAIM:
        shown = (
            _shown(chunk, spec.position.ra, chunk.placed.lon, at),
            _shown(chunk, spec.position.dec, chunk.placed.lat, at),
        )
        return f"{', '.join(shown)} with {claims_text(chunk.rows, at)}"
    assert spec.position_from is not None
    return f"{spec.position_from.column} {chunk.rows.column(spec.position_from.column)[at].as_py()!r}"
