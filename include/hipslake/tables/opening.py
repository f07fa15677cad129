"""Opens tables by their specs. No other module depends on the table formats.

What a format needs is imported when one of its tables is opened: pyiceberg takes half a second, and a folder
needs none of it.
"""

from __future__ import annotations

from hipslake.clustering.planning import ClusterMark
from hipslake.specs.table_place import DeltaSpec, TablePlace
from hipslake.tables.compaction_protocol import CompactedTable
from hipslake.tables.protocol import NamedTable
from hipslake.tables.sink_order import SinkOrder


def open_table(spec: TablePlace, warehouse: str, name: str, branch: str | None = None) -> NamedTable:
    """Open a table, which need not be there yet.

    Parameters
    ----------
    spec : IcebergSpec or DeltaSpec
        Of its catalog; or of the folder in which tables of Delta Lake lie.
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
    if isinstance(spec, DeltaSpec):
        from hipslake.tables.delta.delta_table import DeltaTable

        assert branch is None, "specs of Delta tables have none"
        return DeltaTable(spec, warehouse, name)
    from hipslake.tables.iceberg.iceberg_table import IcebergTable

    return IcebergTable(spec, warehouse, name, branch)


def table_of(order: SinkOrder) -> NamedTable:
    """Open the table of an order, on the branch that it goes to; as `open_table`."""
    return open_table(order.spec.place, order.warehouse, order.spec.table, order.spec.branch)


def is_delta_folder(uri: str) -> bool:
    """Whether a folder is a table of Delta Lake."""
    from hipslake.tables.delta.delta_log import DeltaLog

    return DeltaLog(uri).newest() is not None


def open_delta(uri: str) -> NamedTable:
    """Open the Delta table in a folder."""
    from hipslake.tables.delta.delta_table import DeltaTable

    root, _, name = uri.rstrip("/").rpartition("/")
    return DeltaTable(DeltaSpec(location=root or "/"), "", name)


def open_folder(uri: str, output: str, run: str, by: ClusterMark | None = None) -> CompactedTable:
    """Open a folder of Parquet files, to be compacted into another; as `ParquetFolder`."""
    from hipslake.tables.parquet_folder.compacted_folder import ParquetFolder

    return ParquetFolder(uri, output, run, by)
