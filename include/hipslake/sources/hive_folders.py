"""Columns that stand in the names of folders, `band=r/night=2026-11-20/a.parquet`, as Hive writes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar
from urllib.parse import unquote

import pyarrow as pa

from hipslake.errors import SchemaMismatchError
from hipslake.predicates.type_names import arrow_type
from hipslake.sources.conforming import conform
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_over_files import SourceOverFiles
from hipslake.sources.source_reader import BATCH_ROWS, Source, selected

_NOTHING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_HEXADECIMAL = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,15})")


def folder_values(path: str) -> Iterator[tuple[str, str | None]]:
    """Yield names and values of the folders of a file that have such; None for null.

    Examples
    --------
    >>> dict(folder_values("/survey/band=r/night=2026%2D11/a.parquet"))
    {'band': 'r', 'night': '2026-11'}
    """
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals:
            yield unquote(name), None if value == _NOTHING else unquote(value)


class FolderSource(SourceOverFiles):
    """Adds to the columns of files those that the spec finds in the names of their folders.

    Parameters
    ----------
    files : Source
        The reader of the files.
    """

    format: ClassVar[str] = "folders"

    def __init__(self, files: Source) -> None:
        super().__init__(files)
        assert files.spec.folders, "there is no folder to look at"
        self._kinds = dict(files.spec.folders)

    def peek(self, files: Sequence[SourceFile], numbers: Collection[str] = ()) -> pa.Schema:
        return self._over(self._files.peek(files, numbers), files)

    def infer(self, split: Split) -> pa.Schema:
        found = self._files.infer(split)
        return self._with_folders(found, [split.file.uri]) if found.names else found

    def unify(self, found: Sequence[tuple[str, pa.Schema]], numbers: Collection[str] = ()) -> pa.Schema:
        files = [(uri, self._of_files(schema)) for uri, schema in found]
        return self._with_folders(self._files.unify(files, numbers), [uri for uri, _ in found])

    def read(
        self,
        split: Split,
        schema: pa.Schema,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        wanted, files = selected(schema, columns), self._of_files(schema)
        values = self._values(split.file.uri)
        folders = {
            field.name: self._scalar(split.file.uri, field.name, values[field.name], field.type)
            for field in wanted
            if field.name in self._kinds
        }
        names = [name for name in wanted.names if name not in self._kinds]
        if not names:  # of the rows alone their number counts
            files = files if files.names else self._files.infer(split)
            names = files.names[:1]
        for batch in self._files.read(split, files, names, batch_rows=batch_rows):
            made = dict(zip(batch.schema.names, batch.columns, strict=True))
            made |= {name: pa.repeat(value, batch.num_rows) for name, value in folders.items()}
            yield conform(pa.RecordBatch.from_pydict(made), wanted, split.file.uri)

    def _over(self, schema: pa.Schema, files: Sequence[SourceFile]) -> pa.Schema:
        return self._with_folders(schema, [file.uri for file in files])

    def _of_files(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([field for field in schema if field.name not in self._kinds], schema.metadata)

    def _with_folders(self, files: pa.Schema, uris: Iterable[str]) -> pa.Schema:
        if taken := [name for name in self._kinds if name in files.names]:
            raise SchemaMismatchError(
                f"source.folders names {', '.join(taken)}, which the files have as a column too; leave it "
                "out of source.folders"
            )
        found: dict[str, set[str | None]] = {name: set() for name in self._kinds}
        for uri in uris:
            for name, value in self._values(uri).items():
                found[name].add(value)
        fields = [pa.field(name, self._kind(name, values)) for name, values in found.items()]
        return pa.schema([*files, *fields], files.metadata)

    def _values(self, uri: str) -> dict[str, str | None]:
        """The texts in the names of a file's folders, per column."""
        values = list(folder_values(uri))
        found: dict[str, str | None] = {}
        for name in self._kinds:
            mine = list(dict.fromkeys(value for key, value in values if key == name))
            if len(mine) > 1:
                raise SchemaMismatchError(
                    f"{uri} lies in two folders {name}=, with different values; move it"
                )
            if not mine and self.spec.missing_columns == "error":
                raise SchemaMismatchError(
                    f"{uri} lies in no folder {name}=..., which source.folders names; move it there, or set "
                    "source.missing_columns: null"
                )
            found[name] = mine[0] if mine else None
        return found

    def _kind(self, name: str, values: set[str | None]) -> pa.DataType:
        declared = self._kinds[name]
        if declared == "hex":
            return pa.int64()
        if declared != "auto":
            return arrow_type(declared)
        known = [value for value in values if value is not None]
        return pa.int64() if known and all(map(_WHOLE.fullmatch, known)) else pa.string()

    def _scalar(self, uri: str, name: str, value: str | None, kind: pa.DataType) -> pa.Scalar:
        if value is None:
            return pa.scalar(None, kind)
        declared = self._kinds[name]
        try:
            if declared != "hex":
                return pa.scalar(value, pa.string()).cast(kind)
            match = _HEXADECIMAL.fullmatch(value)
            if match is not None:
                return pa.scalar(int(match[1], 16), pa.int64()).cast(kind)
        except (ValueError, pa.ArrowException):
            pass
        wanted = "a hexadecimal number" if declared == "hex" else f"a value of {kind}"
        raise SchemaMismatchError(
            f"{uri}: the folder {name}={value} is not {wanted}; declare another type: "
            f"source: {{folders: {{{name}: string}}}}"
        )
