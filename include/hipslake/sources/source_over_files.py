"""Sources that change what the reader of a format gives: columns of folders, columns that a spec shapes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa

from hipslake.sources.file_listing import FileListing
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_reader import SPLIT_BYTES, Source


class SourceOverFiles(Source):
    """A source over another one, with its files and splits, and columns of its own.

    Parameters
    ----------
    files : Source
        The reader of the files.
    """

    def __init__(self, files: Source) -> None:
        super().__init__(files.spec)
        self._files = files

    @property
    def tells_types(self) -> bool:
        return self._files.tells_types

    def listing(self) -> FileListing:
        return self._files.listing()

    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        return self._files.splits(files, target_bytes)

    def schema(self, files: Sequence[SourceFile]) -> pa.Schema | None:
        found = self._files.schema(files)
        return None if found is None else self._over(found, files)

    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        return self.read(split, wanted, batch_rows=batch_rows)

    @abstractmethod
    def _over(self, schema: pa.Schema, files: Sequence[SourceFile]) -> pa.Schema:
        """The columns of this source, where those of some files are as `schema` says."""
