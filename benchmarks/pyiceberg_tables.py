"""The peer: pyiceberg's own append and upsert, in one process. Runs in the peers' environment.

$HIPSLAKE_PEERS_PYTHON -m benchmarks.pyiceberg_tables --task sink --source S --output O --rows 2M \
    --report R
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, YearTransform

from benchmarks import table_task as task

NAMESPACE, NAME = "sky", "stars"
TABLE = f"{NAMESPACE}.{NAME}"
PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": str(task.LEVEL),
}


def open_catalog(state: Path, warehouse: Path) -> Catalog:
    """The SQL catalog on SQLite in a folder."""
    state.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{state / 'iceberg.db'}"
    return load_catalog("hipslake", type="sql", uri=uri, warehouse=warehouse.as_uri())


def files_of(table: Table) -> list[str]:
    """The data files of a table's newest snapshot."""
    paths = table.inspect.data_files()["file_path"].to_pylist()
    return sorted(path.removeprefix("file://") for path in paths)


def sink(options: Any, watch: task.Stopwatch) -> list[str]:
    """Append the rows to a new table with a partition per sky pixel and year."""
    catalog = open_catalog(options.output / "state", options.output / "warehouse")
    catalog.create_namespace(NAMESPACE)
    rows = ds.dataset(options.source, format="parquet").to_table()
    sky = pc.shift_right(rows["_healpix_29"], pa.scalar(task.SKY_SHIFT, pa.int64()))
    rows = rows.append_column(task.SKY, sky)
    watch.lap("read")
    table = catalog.create_table(TABLE, rows.schema, properties=PROPERTIES)
    with table.update_spec() as update:
        update.add_field(task.SKY, IdentityTransform(), task.SKY)
        update.add_field(task.TIME, YearTransform(), f"{task.TIME}_year")
    table.append(rows)
    watch.lap("append")
    return files_of(table)


def upsert(options: Any, watch: task.Stopwatch) -> list[str]:
    """Upsert a batch of rows into the table that stands in the output folder."""
    table = open_catalog(options.output / "state", options.output / "warehouse" / "tables").load_table(TABLE)
    batch = pq.read_table(options.source)
    watch.lap("read")
    table.upsert(batch, join_cols=[task.KEY])
    watch.lap("upsert")
    return files_of(table)


def prepare(output: Path, rows: pa.Table) -> None:
    """Make a table of rows, not partitioned, by one append."""
    catalog = open_catalog(output / "state", output / "warehouse" / "tables")
    catalog.create_namespace(NAMESPACE)
    catalog.create_table(TABLE, rows.schema, properties=PROPERTIES).append(rows)


def read_sorted(output: Path) -> pa.Table:
    """All rows of the table in a folder, by key."""
    table = open_catalog(output / "state", output / "warehouse" / "tables").load_table(TABLE)
    return table.scan().to_arrow().sort_by(task.KEY)


if __name__ == "__main__":
    task.perform({"sink": sink, "upsert": upsert})
