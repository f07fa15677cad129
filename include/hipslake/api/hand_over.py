"""Scans for polars, DuckDB and dask: each asks for rows when a query of its own runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hipslake.catalog.reading import Part, PartReader
from hipslake.optional_packages import imported

if TYPE_CHECKING:
    import pandas as pd

    from hipslake.api.scan import Scan


def to_polars(scan: Scan) -> Any:
    """A lazy frame of a scan; as `Scan.to_polars`."""
    polars = imported("polars", "Scan.to_polars")
    plugins = imported("polars.io.plugins", "Scan.to_polars")

    def frames(
        columns: list[str] | None, predicate: Any, most: int | None, batch_rows: int | None
    ) -> Iterator[Any]:
        """What polars asks a source for: `most` rows, of which those that meet the predicate are given."""
        narrowed = scan if columns is None else scan.select(columns)
        left = most
        for table in narrowed.tables():
            rows = table if left is None else table.slice(0, left)
            frame = polars.from_arrow(rows)
            yield frame if predicate is None else frame.filter(predicate)
            if left is not None:
                left -= rows.num_rows
                if not left:
                    return

    scan.to_batches()
    schema = polars.from_arrow(scan.schema.empty_table()).schema
    return plugins.register_io_source(frames, schema=schema, is_pure=True)


def to_duckdb(scan: Scan, connection: Any) -> Any:
    """A relation of a scan; as `Scan.to_duckdb`."""
    duckdb = imported("duckdb", "Scan.to_duckdb")
    return (duckdb if connection is None else connection).from_arrow(scan.to_dataset())


def to_dask(scan: Scan) -> Any:
    """A data frame of dask of a scan; as `Scan.to_dask`."""
    frames = imported("dask.dataframe", "Scan.to_dask", install="'dask[dataframe]'")
    empty = _arrow_backed(scan.schema.empty_table())
    partitions = list(scan.partitions())
    if not partitions:
        return frames.from_pandas(empty, npartitions=1)
    parts = [partition.part for partition in partitions]
    return frames.from_map(_read_part, parts, args=[partitions[0].reader], meta=empty, label="hipslake")


def _read_part(part: Part, reader: PartReader) -> pd.DataFrame:
    return _arrow_backed(reader.read(part))


def _arrow_backed(rows: pa.Table) -> pd.DataFrame:
    """A data frame whose types do not depend on which values are null."""
    import pandas as pd

    return rows.to_pandas(types_mapper=pd.ArrowDtype)
