"""The statistics of a sink: how many distinct values columns have in the table once it has committed.

Tasks sketch the rows that they write. Of the rows that stay in files which the sink leaves as they are, the
sketches of an earlier version serve, if all files that it had are among them: then only those that came since
are read, none if that version is the newest. Where rows go, no earlier sketch serves, since none can be
taken out of one; then the columns of all files that stay are read, and nothing else of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from hipslake.errors import CorruptFileError, InputError, PlanError, SpecError
from hipslake.steps.sink.replaced import Replaced
from hipslake.steps.sink.sink_try import NO_POSITIONS, RowPositions, SinkTry, without
from hipslake.tables.protocol import LiveFile
from hipslake.tables.stored_files import StoredFile, read_data_file
from hipslake.tables.value_sketches import (
    Sketch,
    counted_column,
    sketches_of,
    sketches_package,
    united,
    united_by_name,
)

log = logging.getLogger(__name__)

_RESULT = pa.schema([("column", pa.string()), ("sketch", pa.binary())])
_TASKS_PER_CORE = 4
_MOST_VERSIONS = 10
"""That are looked at for sketches: of each that is not the newest, all files are listed."""


def check_counted(columns: Sequence[str], *schemas: pa.Schema) -> None:
    """Look whether the distinct values of columns can be counted.

    Parameters
    ----------
    columns : sequence of str
        As a spec has them.
    *schemas : pyarrow.Schema
        Of the rows of a sink, and of its table; one of them has to have each column.

    Raises
    ------
    SpecError
        There is no such column, or it is nested.
    MissingPackageError
        The package that makes sketches is not installed.
    """
    if not columns:
        return
    sketches_package()
    for name in columns:
        found = next((each for schema in schemas if (each := counted_column(schema, name))), None)
        if found is None:
            there = ", ".join(sorted({field.name for schema in schemas for field in schema}))
            raise SpecError(
                f"statistics.ndv: there is no column {name!r}, and no part {name!r} of a struct; there are "
                f"{there}"
            )
        if pa.types.is_nested(found.field.type):
            part = "a part of it, as struct.part" if pa.types.is_struct(found.field.type) else "other columns"
            raise SpecError(
                f"statistics.ndv: column {name!r} is of type {found.field.type}, whose values are not "
                f"counted; name {part}, or leave it out"
            )


class _Kept(NamedTuple):
    """A file of which rows stay where they are; and its number in `RowPositions`, if some of them go."""

    file: LiveFile
    number: int | None = None


@dataclass(frozen=True)
class SketchFilesTask:
    """Sketches columns of the rows that stay in data files.

    Attributes
    ----------
    files : tuple of (StoredFile, int or None)
        And the number of each in `gone`.
    gone : RowPositions
    schema : pyarrow.Schema
        Of the table.
    columns : tuple of str
    tasks : int
        Among which the files are dealt out.
    """

    files: tuple[tuple[StoredFile, int | None], ...]
    gone: RowPositions
    schema: pa.Schema
    columns: tuple[str, ...]
    tasks: int

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Sketch the files of a task."""
        counted = [found for name in self.columns if (found := counted_column(self.schema, name))]
        whole = list(dict.fromkeys(each.path[0] for each in counted))
        batches = (
            batch
            for file, gone in self.files[number :: self.tasks]
            for batch in without(
                read_data_file(file, self.schema, whole), None if gone is None else self.gone.of(gone)
            )
        )
        made = sketches_of(batches, counted)
        yield pa.record_batch([list(made), list(made.values())], schema=_RESULT)


def sketches_of_staying(tried: SinkTry, replaced: Replaced) -> dict[str, Sketch] | None:
    """The sketches of the rows that a sink leaves where they are.

    Parameters
    ----------
    tried : SinkTry
    replaced : Replaced
        What goes; of files that are written anew, tasks sketch what stays.

    Returns
    -------
    dict of str to bytes, or None
        By column; one of which they are not known is missing. None: the spec asks for no statistics.
    """
    asked = tried.order.spec.statistics
    if asked is None:
        return None
    try:
        return _Staying(tried, replaced, asked.recompute).sketches(asked.ndv)
    except (PlanError, InputError, CorruptFileError) as error:  # the rows that come do not depend on these
        log.warning("Table %s: statistics are left out: %s", tried.order.spec.table, error)
        return {}


class _Staying:
    """The files of a table that a sink leaves as they are."""

    def __init__(self, tried: SinkTry, replaced: Replaced, recompute: bool) -> None:
        self._tried, self._replaced, self._recompute = tried, replaced, recompute
        self._all_stay = not (replaced.removed or replaced.deleted)

    def sketches(self, columns: Sequence[str]) -> dict[str, Sketch]:
        """As `sketches_of_staying`."""
        found: dict[str, Sketch] = {}
        left = list(columns)
        for earlier in islice(self._tried.table.sketched(), _MOST_VERSIONS):
            told = [name for name in left if name in earlier.sketches]
            if told and (since := self._since(earlier.version)) is not None:
                left = [name for name in left if name not in told]
                read = self._read(since, told)
                found |= {name: united([earlier.sketches[name], sketch]) for name, sketch in read.items()}
            if not left:
                return found
        return found | self._read(self._files, left)

    def _since(self, version: int) -> list[_Kept] | None:
        """The files that stay and came after a version; None if it had others, which do not stay."""
        table = self._tried.table
        if version == table.version:
            return [] if self._all_stay else None
        staying = {_rows_of(each): each for each in self._files if each.number is None}
        had = {_rows_of(_Kept(file)) for file in table.at(version).files}
        if not had <= set(staying):
            return None
        return [each for each in self._files if each.number is not None or _rows_of(each) not in had]

    @cached_property
    def _files(self) -> list[_Kept]:
        gone = {file.path for file in self._replaced.removed}
        cut = {file.path: number for number, file in enumerate(self._replaced.deleted)}
        return [_Kept(file, cut.get(file.path)) for file in self._tried.table.files if file.path not in gone]

    def _read(self, files: Sequence[_Kept], columns: Sequence[str]) -> dict[str, Sketch]:
        """The sketches of columns in files; none if they are not to be read."""
        if not files:
            return {name: united(()) for name in columns}
        name = self._tried.order.spec.table
        if not columns:
            return {}
        if not self._recompute:
            log.info(
                "Table %s: no statistics of %s, as no earlier ones tell of all rows that stay.",
                name,
                ", ".join(columns),
            )
            return {}
        engine = self._tried.engine
        log.info("Table %s: %s is read in %d files for statistics.", name, ", ".join(columns), len(files))
        task = SketchFilesTask(
            tuple((each.file.stored, each.number) for each in files),
            self._replaced.deleted_gone if self._replaced.deleted else NO_POSITIONS,
            self._tried.table.schema,
            tuple(columns),
            min(len(files), _TASKS_PER_CORE * engine.cores),
        )
        with engine.progress("statistics"):
            read = engine.run(task, tasks=task.tasks, result=_RESULT)
        return united_by_name(zip(read["column"].to_pylist(), read["sketch"].to_pylist(), strict=True))


def _rows_of(kept: _Kept) -> tuple[str, frozenset[object]]:
    """What tells which rows a file has: its path, and the deletes that apply to it."""
    return kept.file.path, frozenset(kept.file.stored.deletes)
