"""A folder of Parquet files, plain or partitioned by `key=value` folders: compacted into a new folder.

The new folder has all rows of the old one. It is written under a name that begins with a dot, and gets its
own name when it is whole; where names cannot be changed (object stores), a file `_SUCCESS` appears last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from hipslake.clustering.planning import SORTED, ClusterMark, TableFile
from hipslake.errors import InputError, SpecError
from hipslake.sources.hive_folders import folder_values
from hipslake.sources.links import refuse_links_out
from hipslake.sources.table_formats import check_plain_folder
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.storage.addresses import is_below
from hipslake.storage.atomic import sync_folder
from hipslake.storage.calendars import without_writer
from hipslake.storage.folder import Storage
from hipslake.storage.int96 import Unit, int96_columns, int96_unit, with_int96_as
from hipslake.tables.clustering_ledger import ClusteringPoint, CountedLedger
from hipslake.tables.compaction_protocol import (
    ColumnBounds,
    CommittedExchanges,
    FileExchange,
)
from hipslake.tables.footers import FileFooter, read_footer
from hipslake.tables.new_files import NewFile
from hipslake.tables.parquet_folder.common_schema import common_schema
from hipslake.tables.parquet_folder.folder_access import MARK, FolderAccess, mark_from
from hipslake.tables.stored_files import opened_parquet

SUCCESS = "_SUCCESS"
"""In a new folder that is whole: names the run that wrote it."""

WRITING = "_WRITING"
"""Where names cannot be changed: names the run that is writing."""

_SUFFIXES = (".parquet", ".parq", ".pq")
_MAGIC = (b"PAR1", b"PARE")  # the latter of files whose footer is encrypted
_THREADS = 16  # files that are looked into at once
_COPIED_BYTES = 8 << 20


class ParquetFolder:
    """The folder, and the one that its compacted copy goes to.

    Parameters
    ----------
    uri, output : str
    run : str
        Names the run: what it has left at the output is its own.
    by : ClusterMark, optional
        What its rows are clustered by.

    Raises
    ------
    InputError
        There is no Parquet file.
    SchemaMismatchError
        The files do not have the same columns.
    SpecError
        The output lies in the folder, or the folder in it.
    """

    target_bytes: int | None = None
    unneeded_deletes: int = 0
    partition_fields: tuple[PartitionField, ...] | None = None  # no file is of older partitions

    def __init__(self, uri: str, output: str, run: str, by: ClusterMark | None = None) -> None:
        self.by = by
        self._source, self._output = Storage.at(uri), Storage.at(output)
        old, new = self._source.uri(), self._output.uri()
        if is_below(old, new) or is_below(new, old):
            raise SpecError(f"output {output} and folder {uri} lie in each other; give another place")
        self._token = hashlib.sha256(run.encode()).hexdigest()[:12]
        files = [entry.path for entry in self._source.list(recursive=True) if not entry.is_dir]
        check_plain_folder(self._source, files)
        refuse_links_out(self._source, files)
        data, self.left_out = self._told_apart(files)
        self._footers = {path: read_footer(self._source.uri(path)) for path in data}
        if not self._footers:
            others = (
                f" ({len(self.left_out)} other files, such as {self.left_out[0]})" if self.left_out else ""
            )
            raise InputError(f"{self._source.uri()} holds no Parquet file{others}; nothing can be compacted")
        self.schema  # noqa: B018  # raises if the files do not have the same columns

    @property
    def name(self) -> str:
        return self._source.uri()

    @cached_property
    def schema(self) -> pa.Schema:
        found = common_schema(
            {
                path: with_int96_as(footer.schema, footer.metadata, self._int96)
                for path, footer in self._footers.items()
            }
        )
        told = without_writer(found.metadata or {})
        told.pop(MARK, None)
        return found.with_metadata(told or None)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.partition_values.schema.names)

    @property
    def access(self) -> FolderAccess:
        return FolderAccess(self._source.uri(), self._hidden, self.schema, self._int96, self.sort_fields)

    @cached_property
    def sort_fields(self) -> tuple[SortField, ...]:
        if self.by is None or self.by.curve != SORTED:
            return ()
        return tuple(SortField.parse(text) for text in self.by.columns)

    @cached_property
    def files(self) -> tuple[TableFile, ...]:
        return tuple(
            TableFile(
                self._source.uri(path),
                footer.rows,
                footer.bytes,
                path.rpartition("/")[0],
                _mark_of(footer),
            )
            for path, footer in self._footers.items()
        )

    @cached_property
    def partition_values(self) -> pa.Table:
        found = [dict(folder_values(path)) for path in self._footers]
        names = list(dict.fromkeys(name for values in found for name in values))
        return pa.table({name: _typed([values.get(name) for values in found]) for name in names})

    def bounds(self, column: str, files: Sequence[TableFile | NewFile]) -> ColumnBounds:
        found = [read_footer(file.path).bounds(column, self.schema) for file in files]
        return ColumnBounds(
            [each.low for each in found], [each.high for each in found], [each.empty for each in found]
        )

    def begin_clustering(self) -> None:
        self.kept_clustering()

    def kept_clustering(self) -> CountedLedger:
        raise SpecError(f"{self.name} keeps nothing of its clustering: a folder is clustered by mode hilbert")

    def close(self) -> None:
        """Nothing stays open."""

    def finished(self) -> str | None:
        if not self._output.list():
            return None
        if self._is_ours(SUCCESS):
            return self._output.uri()
        if self._is_ours(WRITING):
            return None
        raise SpecError(
            f"{self._output.uri()} exists already, and was not written by this run; give another output, "
            "or remove it"
        )

    def _is_ours(self, sign: str) -> bool:
        return self._output.is_file(sign) and self._output.read(sign).decode().strip() == self._token

    def merge_manifests(self, *, dry_run: bool) -> None:
        """A folder has no lists of its files."""

    @contextmanager
    def rewriting(self, last: bool = True) -> Iterator[FolderRewrite]:
        rewrite = FolderRewrite(self)
        rewrite.clear()  # of an attempt that was killed
        rewrite.sign()
        try:
            yield rewrite
        except BaseException:
            rewrite.clear()
            raise

    @property
    def _hidden(self) -> str:
        """Where files are written to first."""
        if not self._output.is_local:
            return self._output.uri()
        output = Path(self._output.root)
        return str(output.with_name(f".{output.name}.{self._token}.tmp"))

    @cached_property
    def _int96(self) -> Unit:
        """The unit that holds the INT96 times of all files."""
        asked = [path for path, footer in self._footers.items() if int96_columns(footer.metadata)]
        with ThreadPoolExecutor(_THREADS) as pool:
            return "ns" if "ns" in pool.map(self._unit_of, asked) else "us"

    def _unit_of(self, path: str) -> Unit:
        with opened_parquet(self._source.uri(path)) as (file, parquet):
            return int96_unit(file, parquet.metadata)

    def _told_apart(self, files: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
        """The data files, and those that are left out without their names saying so.

        A file without a known suffix is one if it begins as Parquet files do: engines read such too.
        """
        data, others = [], []
        for path in files:
            *folders, name = path.split("/")
            known = name.endswith(_SUFFIXES)
            hidden = any(_is_hidden(part) for part in (*folders, name))
            if not hidden and (known or self._source.read_range(path, 0, 4) in _MAGIC):
                data.append(path)
            elif known or not hidden:
                others.append(path)
        return data, tuple(others)


class FolderRewrite:
    """A new folder that is being written."""

    def __init__(self, folder: ParquetFolder) -> None:
        self._folder = folder
        self._target = Storage.at(folder._hidden)
        self.write_id = folder._token

    @property
    def access(self) -> FolderAccess:
        folder = self._folder
        return FolderAccess(folder.name, self._target.uri(), folder.schema, folder._int96, folder.sort_fields)

    def add_partitions(self, values: Sequence[tuple[Any, ...]]) -> list[str]:
        assert not values, "no file of a folder is of older partitions"
        return []

    @property
    def work(self) -> Storage:
        return self._target.sub(".work")

    def clear(self) -> None:
        """Remove what has been written."""
        if self._target.is_local:
            target = Path(self._target.root)
            Storage.at(target.parent).delete_tree(target.name)
            return
        for entry in self._target.list(recursive=True):
            if entry.path != WRITING:
                self._target.delete(entry.path)
        self._target.delete(WRITING)

    def sign(self) -> None:
        """Mark the folder with the run that writes it, where files have their final names at once."""
        if not self._target.is_local:
            self._target.write(WRITING, self._folder._token.encode())

    def commit(
        self,
        exchanges: Sequence[FileExchange],
        point: Callable[[Sequence[FileExchange]], ClusteringPoint] | None = None,
        stepped: int = 0,
    ) -> CommittedExchanges:
        folder = self._folder
        gone = {file.path for exchange in exchanges for file in exchange.removed}
        source = folder._source
        for path in folder._footers:
            if source.uri(path) not in gone:
                self._keep(source, path)
        self._target.write(SUCCESS, folder._token.encode())
        if self._target.is_local:
            final = Path(folder._output.root)
            if final.is_dir() and not any(final.iterdir()):
                final.rmdir()
            Path(self._target.root).rename(final)
            sync_folder(final.parent)
        else:
            self._target.delete(WRITING)
        return CommittedExchanges(folder._output.uri(), {})

    def _keep(self, source: Storage, path: str) -> None:
        """Give a file that stays as it is a place in the new folder: a link, where there are such."""
        if source.is_local and self._target.is_local:
            root = Storage.at("/")
            root.link(source.uri(path).lstrip("/"), self._target.uri(path).lstrip("/"))
            return
        with source.open(path) as old, self._target.open(path, "wb") as new:
            while chunk := old.read(_COPIED_BYTES):
                new.write(chunk)


def _mark_of(footer: FileFooter) -> ClusterMark | None:
    text = (footer.metadata.metadata or {}).get(MARK)
    return mark_from(text.decode()) if text else None


def _is_hidden(part: str) -> bool:
    """Whether readers pass over a file or folder; `_healpix_5=12` is a partition, as Spark takes it."""
    return part[0] == "." or (part[0] == "_" and "=" not in part)


def _typed(values: list[str | None]) -> pa.Array:
    """Texts as numbers, where all are."""
    texts = pa.array(values, pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    return texts
