"""Formats whose files say themselves which columns they hold: in a header, or a footer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from hipslake.sources.model import SourceFile, Split
from hipslake.sources.reader import HEADER_THREADS, Source
from hipslake.specs.source import SourceSpec


class Described(Protocol):
    """What a file says of itself, as small as tens of thousands of files need it."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns; none if it is empty."""


class Columns(NamedTuple):
    """What a file says of itself where that is its columns and no more."""

    schema: pa.Schema


HeadT = TypeVar("HeadT", bound=Described)


class DescribedSource(Source, Generic[HeadT]):
    """Files that describe themselves; each is asked once."""

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec)
        self._known: dict[SourceFile, HeadT] = {}

    @abstractmethod
    def read_head(self, file: SourceFile) -> HeadT:
        """Read what a file says of itself.

        Raises
        ------
        CorruptFileError
            When the file is damaged there.
        """

    def heads(self, files: Sequence[SourceFile]) -> list[HeadT]:
        """Return what each of the files says of itself."""
        unknown = [file for file in files if file not in self._known]
        if len(unknown) == 1:
            self._known[unknown[0]] = self.read_head(unknown[0])
        elif unknown:
            with ThreadPoolExecutor(HEADER_THREADS) as pool:
                self._known.update(zip(unknown, pool.map(self.read_head, unknown), strict=True))
        return [self._known[file] for file in files]

    def schema(self, files: Sequence[SourceFile]) -> pa.Schema:
        heads = self.heads(files)
        return self.unify([(file.uri, head.schema) for file, head in zip(files, heads, strict=True)])

    def infer(self, split: Split) -> pa.Schema:
        return self.heads([split.file])[0].schema
