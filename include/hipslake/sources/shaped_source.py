"""A source whose columns a spec shapes: the files are read by the reader of their format."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

from hipslake.errors import SchemaMismatchError
from hipslake.sources.column_shaping import ColumnShaping
from hipslake.sources.csv.inference import TYPES, chosen, held_types
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_over_files import SourceOverFiles
from hipslake.sources.source_reader import BATCH_ROWS, Source, selected

FILES = b"hipslake.files"
"""Metadata of a shaped schema as a whole: the schema of the files that it was made of."""

_NUMBERS = ("int64", "uint64", "float64", "padded")


class ShapedSource(SourceOverFiles):
    """Reads only the columns of the files that are needed, and makes of them those that are wanted.

    Its schemas carry those of the files along, as `read` has to have them; without, it looks into the file.

    Parameters
    ----------
    files : Source
        The reader of the files.
    """

    format: ClassVar[str] = "shaped"

    def __init__(self, files: Source) -> None:
        super().__init__(files)
        assert files.spec.taken is not None, "there is nothing to shape"
        self._shaping = ColumnShaping(files.spec.taken, files.spec.uri)

    def peek(self, files: Sequence[SourceFile], numbers: Collection[str] = ()) -> pa.Schema:
        found = self._files.peek(files, self._shaping.numbers(numbers))
        return self._shaped(found)

    def infer(self, split: Split) -> pa.Schema:
        found = self._files.infer(split)
        try:
            return self._shaped(found)
        except SchemaMismatchError:  # other splits may have what this one lacks: `unify` tells
            return pa.schema([], {FILES: found.serialize().to_pybytes()})

    def unify(self, found: Sequence[tuple[str, pa.Schema]], numbers: Collection[str] = ()) -> pa.Schema:
        files = [(uri, files_schema(schema) or pa.schema([])) for uri, schema in found]
        return self._shaped(self._files.unify(files, self._shaping.numbers(numbers)))

    def read(
        self,
        split: Split,
        schema: pa.Schema,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        wanted = selected(schema, columns)
        there = files_schema(schema)
        if there is None:
            there = self._files.infer(split)
        files = self._decided(there, wanted)
        if not files.names:
            return
        names = self._shaping.needed(wanted.names, files.names) or files.names[:1]
        for batch in self._files.read(split, files, names, batch_rows=batch_rows):
            yield self._shaping.apply(batch, wanted, split.file.uri)

    def shaping_lines(self, schema: pa.Schema) -> list[str]:
        there = files_schema(schema)
        return [] if there is None else self._shaping.lines(there)

    def _over(self, schema: pa.Schema, files: Sequence[SourceFile]) -> pa.Schema:
        return self._shaped(schema)

    def _shaped(self, files: pa.Schema) -> pa.Schema:
        """The columns of the source; those taken as they are say which types they can come to have."""
        shaped, fixed = self._shaping.shaped(self._decided(files)), self._shaping.fixed
        taken = {self._shaping.name_of(field.name): field for field in files if held_types(field) is not None}
        fields = [
            taken[field.name].with_name(field.name) if field.name in taken.keys() - fixed else field
            for field in shaped
        ]
        return pa.schema(fields, {**(shaped.metadata or {}), FILES: files.serialize().to_pybytes()})

    def _decided(self, files: pa.Schema, wanted: pa.Schema | None = None) -> pa.Schema:
        """The columns of files with a type each, a number if it can be where more rows may change it."""
        fields = []
        for field in files:
            held = held_types(field)
            if held is None:
                fields.append(field)
                continue
            name = self._shaping.name_of(field.name)
            number = next((each for each in _NUMBERS if each in held), None)
            kind = TYPES[number] if number else chosen(held)
            if wanted is not None and name in wanted.names and name not in self._shaping.fixed:
                kind = wanted.field(name).type
            fields.append(pa.field(field.name, kind))
        return pa.schema(fields)


def files_schema(schema: pa.Schema) -> pa.Schema | None:
    """The schema of the files that a shaped schema was made of; None where it does not say."""
    carried = (schema.metadata or {}).get(FILES)
    return None if carried is None else pa.ipc.read_schema(pa.BufferReader(carried))
