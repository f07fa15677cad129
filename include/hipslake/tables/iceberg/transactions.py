"""Transactions on a table whose metadata are put together once for each change.

pyiceberg does so at each look, some twenty times a commit, and copies all snapshots of the table each time.
"""

from __future__ import annotations

from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate


def transaction_of(table: Table) -> Transaction:
    """Begin a transaction, as `Table.transaction` does; nobody writes into the metadata that it shows."""
    return _Transaction(table)


class _Transaction(Transaction):
    _shown: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata of the table with all changes so far."""
        base, updates = self._table.metadata, self._updates
        if self._shown is None or self._shown[0] is not base or self._shown[1] is not updates:
            self._shown = (base, updates, super().table_metadata)
        return self._shown[2]
