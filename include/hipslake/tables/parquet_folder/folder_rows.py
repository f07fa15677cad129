"""The rows of a folder of Parquet files, whose folders may be named by values (`night=7`), file by file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.dataset as ds

from hipslake.engine.this_process import read_ahead
from hipslake.errors import InputError
from hipslake.sources.table_formats import check_plain_folder
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import parquet_failures
from hipslake.tables.reading_protocol import TableTotals, TableVersion

_SUFFIXES = (".parquet", ".parq", ".pq")


class FolderRows:
    """The rows of all Parquet files of a folder, as `hipslake.tables.protocol.ReadableTable` has them.

    Parameters
    ----------
    storage : Storage
        At the folder.

    Raises
    ------
    InputError
        It holds no Parquet file, or is of another table format.
    """

    version = None

    def __init__(self, storage: Storage) -> None:
        entries = [entry for entry in storage.list(recursive=True) if not entry.is_dir]
        paths = [entry.path for entry in entries]
        check_plain_folder(storage, paths)
        chosen = [entry for entry in entries if _is_data(entry.path)]
        if not chosen:
            raise InputError(f"{storage.uri()} holds no Parquet file (*.parquet, *.parq, *.pq)")
        self._storage = storage
        self._bytes = sum(entry.size for entry in chosen)
        factory = ds.FileSystemDatasetFactory(
            storage.arrow_filesystem(),
            [storage.arrow_path(entry.path) for entry in sorted(chosen, key=lambda each: each.path)],
            ds.ParquetFileFormat(),
            ds.FileSystemFactoryOptions(
                partition_base_dir=storage.arrow_path(""), partitioning=ds.HivePartitioning.discover()
            ),
        )
        with parquet_failures(storage.uri()):
            schema = factory.inspect(promote_options="permissive", fragments=None)
            self._dataset = factory.finish(schema.remove_metadata())
            self._fragments = list(self._dataset.get_fragments())

    @property
    def location(self) -> str:
        return self._storage.uri()

    @property
    def schema(self) -> pa.Schema:
        return self._dataset.schema

    @property
    def totals(self) -> TableTotals:
        with parquet_failures(self.location):
            rows = sum(read_ahead(lambda fragment: fragment.count_rows(), self._fragments))
        return TableTotals(rows, self._bytes, len(self._fragments))

    @property
    def told(self) -> Mapping[str, str]:
        return {}

    def versions(self) -> list[TableVersion]:
        return []

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        schema = self.schema

        def read(fragment: ds.Fragment) -> pa.Table:
            with parquet_failures(fragment.path):
                return fragment.to_table(schema=schema, columns=columns)

        yield from read_ahead(read, self._fragments)


def _is_data(path: str) -> bool:
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in path.split("/"))
    return not hidden and path.endswith(_SUFFIXES)
