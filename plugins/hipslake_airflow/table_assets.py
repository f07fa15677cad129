"""The assets of the sinks that write into an Iceberg table: their events say that it has changed."""

from __future__ import annotations

from airflow.sdk import Asset
from hipslake.specs.spec_folder import SpecFolder
from hipslake.specs.table_spec import IcebergSpec, TableSpec

from hipslake_airflow.assets import table_asset


def assets_of_table(iceberg: IcebergSpec, table: str, specs: SpecFolder) -> list[Asset]:
    """Return the assets of the sinks that write into a table; specs that cannot be read feed none.

    Parameters
    ----------
    iceberg : IcebergSpec
        The Iceberg catalog.
    table : str
        `namespace.table`.
    specs : SpecFolder
        That the sinks are in.
    """
    return [
        table_asset(sink.name)
        for sink in specs.loaded(TableSpec)
        if (sink.iceberg.name, sink.table) == (iceberg.name, table)
    ]
