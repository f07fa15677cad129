"""What every reader does: list files, cut them into splits, find the schema, read a split.

`DescribedSource` is the base of formats whose files hold a schema, in a header or a footer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from hipslake.sources.file_listing import FileListing, check_unchanged, list_files, located
from hipslake.sources.held_sources import checking
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.unification import unify
from hipslake.specs.source_spec import SourceSpec
from hipslake.storage.small_files import in_threads

SPLIT_BYTES = 256 << 20
BATCH_BYTES = 64 << 20
BATCH_ROWS = 1 << 20
HEADER_THREADS = 16  # files whose headers are read at once


class Source(ABC):
    """A set of files of one format, read as one table whose rows have an order.

    The order is: files by URI, rows as they stand in the file. It does not depend on how the files are split.
    A reader is picklable, so that it can be sent to the tasks that read the splits.

    Parameters
    ----------
    spec
        The source of a catalog spec.
    """

    format: ClassVar[str]

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self._options: Any = spec.options

    @property
    def tells_types(self) -> bool:
        """Whether headers say of which types the columns are; else only all of the data do."""
        return False

    def shaping_lines(self, schema: pa.Schema) -> list[str]:
        """Return what is made of the columns of the files, for people; nothing where none is changed.

        `schema` is the unified one.
        """
        return []

    def listing(self) -> FileListing:
        """Return the files that match the spec's glob, sorted by URI, and what matches it and is not read.

        Raises
        ------
        SourceNotFoundError
            When there is none.
        """
        return list_files(self.spec.uri)

    def list_files(self) -> list[SourceFile]:
        """Return the files of `listing`."""
        return self.listing().files

    @abstractmethod
    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        """Cut files into parts that hold about `target_bytes`, so that one big file uses every core.

        Files without rows give no split.

        Parameters
        ----------
        files
            As `list_files` gave them.
        target_bytes
            Uncompressed size of a split, in bytes.

        Raises
        ------
        CorruptFileError
            When a file is damaged where its size is looked up.
        """

    @abstractmethod
    def schema(self, files: Sequence[SourceFile]) -> pa.Schema | None:
        """Return the schema that all files have together; None when only the data tell: see `infer`.

        Raises
        ------
        SchemaMismatchError
            When the files do not fit together; the message names file and column.
        EmptySourceError
            When no file has a schema, since all are empty.
        """

    def peek(self, files: Sequence[SourceFile], numbers: Collection[str] = ()) -> pa.Schema:
        """Return the schema of files as far as their beginnings tell it, which takes no pass over the data.

        A field whose type the rest of the data may change says of which types it can be: see
        `hipslake.sources.csv.inference.held_types`. `numbers` is as for `unify`.

        Raises
        ------
        SchemaMismatchError, EmptySourceError, CorruptFileError
            As for `schema`.
        """
        found = self.schema(files)
        assert found is not None, "a format whose schema is in the data overrides this"
        return found

    @abstractmethod
    def infer(self, split: Split) -> pa.Schema:
        """Return the schema of one split, found from all of its data; pass those of all splits to `unify`."""

    def unify(self, found: Sequence[tuple[str, pa.Schema]], numbers: Collection[str] = ()) -> pa.Schema:
        """Return the schema that holds the data of all splits.

        Parameters
        ----------
        found
            For every split its file's URI and the schema from `infer`, in the order of the splits.
        numbers
            Columns that are numbers, also where the format would take numbers with leading zeros for text.

        Raises
        ------
        SchemaMismatchError, EmptySourceError
            As for `schema`.
        """
        return unify(found, self.spec.missing_columns, source=self.spec.uri)

    def read(
        self,
        split: Split,
        schema: pa.Schema,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, in source order.

        Parameters
        ----------
        split
            One of `splits`.
        schema
            The unified schema: columns are cast to it, and come in its order; what the file lacks is null.
        columns
            Names of the columns that are wanted; None: all.
        batch_rows
            Most rows of a batch, where the format leaves a choice.

        Yields
        ------
        pa.RecordBatch
            At most about 64 MB or a million rows each.

        Raises
        ------
        CorruptFileError
            When the file is damaged; the message names the file and where in it.
        SchemaMismatchError
            When a value does not fit the schema's type.
        InputError
            When the file is not the one that was listed.
        """
        batches = self.batches(split, selected(schema, columns), batch_rows)
        if split.file.is_local:
            check_unchanged(split.file)
            yield from batches
            check_unchanged(split.file)  # others may have written into it meanwhile
            return
        looks = checking(split.file)  # it is asked while the rows come
        try:
            batch = looks.during(batches)
        finally:
            looks.wait()  # tells more than what a changed file made of the reading
        try:
            while batch is not None:
                yield batch
                batch = looks.during(batches)
                if batch is None:
                    looks.end()
        finally:
            if isinstance(batches, Generator):
                batches.close()  # and its file

    @abstractmethod
    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split with the columns of `wanted`, as `read` does."""


def selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of the wanted columns, in the order of the schema."""
    if columns is None:
        return schema.remove_metadata()
    wanted = set(columns)
    if unknown := wanted - set(schema.names):
        raise KeyError(f"no column {', '.join(sorted(unknown))}; there are {', '.join(schema.names)}")
    return pa.schema([field for field in schema if field.name in wanted])


class Described(Protocol):
    """The header of a file, reduced to what is needed: sources may have tens of thousands of files."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns; none if it is empty."""


class Columns(NamedTuple):
    """The header of a file where only the columns are needed."""

    schema: pa.Schema


HeadT = TypeVar("HeadT", bound=Described)


class DescribedSource(Source, Generic[HeadT]):
    """Files with a schema in their header; each header is read once."""

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec)
        self._known: dict[SourceFile, HeadT] = {}

    @property
    def tells_types(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        """What goes to tasks: each of them reads few files, and no header need travel to it."""
        return {**self.__dict__, "_known": {}}

    @abstractmethod
    def read_head(self, file: SourceFile) -> HeadT:
        """Read the header of a file.

        Raises
        ------
        CorruptFileError
            When the file is damaged there.
        """

    def heads(self, files: Sequence[SourceFile]) -> list[HeadT]:
        """Return the headers of the files."""
        unknown = [file for file in files if file not in self._known]
        if unknown:
            storage, _ = located(unknown[0])
            self._known.update(zip(unknown, in_threads(storage, self.read_head, unknown), strict=True))
        return [self._known[file] for file in files]

    def schema(self, files: Sequence[SourceFile]) -> pa.Schema:
        heads = self.heads(files)
        distinct: dict[int, tuple[str, pa.Schema]] = {}  # very many files may share one schema
        for file, head in zip(files, heads, strict=True):
            distinct.setdefault(id(head.schema), (file.uri, head.schema))
        return self.unify([*distinct.values()])

    def infer(self, split: Split) -> pa.Schema:
        return self.heads([split.file])[0].schema
