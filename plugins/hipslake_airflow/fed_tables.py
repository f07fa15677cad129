"""Which specs feed which Iceberg tables: whose events say that a table has news."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import Asset
from hipslake.specs.table_spec import IcebergSpec, TableSpec
from hipslake.specs.yaml_file import find_specs, load_table_spec

from hipslake_airflow.assets import table_asset


def assets_of_table(iceberg: IcebergSpec, table: str, folder: Path) -> list[Asset]:
    """Return the assets of the sinks that write into a table; specs that cannot be read feed none.

    Parameters
    ----------
    iceberg : IcebergSpec
        The Iceberg catalog.
    table : str
        `namespace.table`.
    folder : Path
        Of the specs of tables.
    """
    specs = (spec for spec in map(_table_spec, find_specs(folder)) if spec is not None)
    return [
        table_asset(each.name) for each in specs if (each.iceberg.name, each.table) == (iceberg.name, table)
    ]


def _table_spec(path: Path) -> TableSpec | None:
    try:
        return load_table_spec(path)
    except Exception:  # it has a DAG of its own that says what is wrong, or is a compaction's
        return None
