"""The assets of the sinks that write into an Iceberg table: their events say that it has changed."""

from __future__ import annotations

from contextlib import suppress

from airflow.sdk import Asset
from hipslake.specs.table_spec import IcebergSpec, TableSpec
from hipslake.specs.yaml_file import load_spec

from hipslake_airflow.assets import table_asset
from hipslake_airflow.spec_folders import spec_files


def assets_of_table(iceberg: IcebergSpec, table: str) -> list[Asset]:
    """Return the assets of the sinks that write into a table; specs that cannot be read feed none.

    Parameters
    ----------
    iceberg : IcebergSpec
        The Iceberg catalog.
    table : str
        `namespace.table`.
    """
    specs = []
    for path in spec_files(TableSpec):
        with suppress(Exception):  # its own DAG says what is wrong
            specs.append(load_spec(path, TableSpec))
    return [
        table_asset(each.name) for each in specs if (each.iceberg.name, each.table) == (iceberg.name, table)
    ]
