"""Joins by keys, leaf by leaf: the sides, and what such joins have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.joining.stretches import Stretches
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import joined_schema, select
from hipslake.joins.key_codes import key_kind
from hipslake.predicates.predicate_tree import Predicate
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage

PIECE_ROWS = 500_000  # of either side that are joined at once, about
_BATCH_ROWS = 1 << 16


class Keyed(NamedTuple):
    """A side of a join: a catalog, its key, the columns that are kept of it, and which rows take part."""

    storage: Storage
    metadata: CatalogMetadata
    key: str
    kept: tuple[str, ...]
    filter: Predicate | None = None  # rows that do not pass are not joined; None: all are
    also: tuple[str, ...] = ()  # read as well, but not kept

    @classmethod
    def of(
        cls,
        storage: Storage,
        metadata: CatalogMetadata,
        key: str,
        columns: Sequence[str] | None,
        filters: Any = None,
    ) -> Keyed:
        """A side whose columns are known to be there; `SchemaMismatchError` names those that are not."""
        chosen = select(metadata, [key], filters)
        if columns is None:
            whole = joined_schema(metadata).names
            columns = [name for name in whole if name not in (HEALPIX_COLUMN, ROW_COLUMN)]
        select(metadata, columns)
        return cls(storage, metadata, key, tuple(columns), chosen.filter)

    @property
    def kind(self) -> str:
        """What kind of key it is; only keys of one kind can be equal."""
        field = joined_schema(self.metadata).field(self.key)
        return key_kind(field.type, f"{self.metadata.catalog}.{self.key}")

    @property
    def stretches(self) -> Stretches:
        """Reads the key, the columns that are kept and those that are needed besides, of rows that pass."""
        needed = [
            name for name in dict.fromkeys([self.key, *self.kept, *self.also]) if name != HEALPIX_COLUMN
        ]
        return Stretches(self.storage, self.metadata, needed, self.filter)

    @property
    def schema(self) -> pa.Schema:
        """The columns that are kept."""
        whole = joined_schema(self.metadata)
        return pa.schema([whole.field(name) for name in self.kept])


class KeyedJoin(CatalogJoin):
    """A join that holds all rows of a stretch, of both sides, in memory at once."""

    @property
    def task_rows(self) -> int:
        """Rows of either side that are joined at once, about."""
        return PIECE_ROWS

    @abstractmethod
    def table(self, start: int, stop: int) -> pa.Table:
        """The outcome for the left rows in [start, stop), order-29 pixels, in their order."""

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """As `table`, in batches of bounded size."""
        yield from self.table(start, stop).combine_chunks().to_batches(_BATCH_ROWS)
