"""The assets of the sinks that write into a table: their events say that it has changed."""

from __future__ import annotations

from airflow.sdk import Asset
from hipslake.specs.spec_folder import SpecFolder
from hipslake.specs.table_place import IcebergSpec, TablePlace
from hipslake.specs.table_spec import TableSpec

from hipslake_airflow.assets import table_asset


def assets_of_table(place: TablePlace, table: str, specs: SpecFolder) -> list[Asset]:
    """Return the assets of the sinks that write into a table; specs that cannot be read feed none.

    Parameters
    ----------
    place : IcebergSpec or DeltaSpec
        Where the table stands.
    table : str
        `namespace.table`.
    specs : SpecFolder
        That the sinks are in.
    """
    return [
        table_asset(sink.name)
        for sink in specs.loaded(TableSpec)
        if (_named(sink.place), sink.table) == (_named(place), table)
    ]


def _named(place: TablePlace) -> tuple[str, str | None]:
    """What tells the places of tables apart: the name of a catalog, or a location."""
    return ("iceberg", place.name) if isinstance(place, IcebergSpec) else ("delta", place.location)
