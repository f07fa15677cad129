"""Opens tables by their specs. No other module depends on the table formats."""

from __future__ import annotations

from hipslake.clustering.planning import ClusterMark
from hipslake.specs.table_spec import IcebergSpec
from hipslake.tables.compaction_protocol import CompactedTable
from hipslake.tables.iceberg.iceberg_table import IcebergTable
from hipslake.tables.parquet_folder.compacted_folder import ParquetFolder
from hipslake.tables.protocol import NamedTable
from hipslake.tables.sink_order import SinkOrder


def open_table(spec: IcebergSpec, warehouse: str, name: str, branch: str | None = None) -> NamedTable:
    """Open a table, which need not be there yet.

    Parameters
    ----------
    spec : IcebergSpec
        Of its catalog.
    warehouse : str
    name : str
        Namespace and table.
    branch : str, optional
        That is looked at and sunk into; by default main.

    Raises
    ------
    StorageError
        The catalog cannot be reached.
    SpecError
        Its address makes no sense.
    """
    return IcebergTable(spec, warehouse, name, branch)


def table_of(order: SinkOrder) -> NamedTable:
    """Open the table of an order, on the branch that it goes to; as `open_table`."""
    return open_table(order.spec.iceberg, order.warehouse, order.spec.table, order.spec.branch)


def open_folder(uri: str, output: str, run: str, by: ClusterMark | None = None) -> CompactedTable:
    """Open a folder of Parquet files, to be compacted into another; as `ParquetFolder`."""
    return ParquetFolder(uri, output, run, by)
