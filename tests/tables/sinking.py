"""Small sinks for tests: rows as Parquet files, a table on SQLite, and the table's content again."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.sources import open_source
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.sink.sink_table import sink
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake.tables.iceberg.data_files import live_files
from hipslake.tables.sink_order import FileRows, SinkOrder, SinkOutcome
from pyiceberg.table import Table


class Exchanging(ThisProcess):
    """Does not let threads of this process do the work of tasks."""

    @property
    def on_this_machine(self) -> bool:
        return False


class Lake:
    """A warehouse with a catalog of its own."""

    def __init__(self, root: Path, engine: Engine | None = None) -> None:
        self.root = root
        self.warehouse = str(root / "warehouse")
        self.engine = engine or ThisProcess(2)
        self._files = 0

    def spec(self, **given: Any) -> TableSpec:
        """A spec whose source is put in later."""
        usual = {
            "name": "sample",
            "table": "survey.sample",
            "source": {"files": {"uri": "/nowhere/*.parquet", "format": "parquet"}},
            "iceberg": {"uri": f"sqlite:///{self.root}/state/iceberg.db"},
        }
        return TableSpec.model_validate(usual | given)

    def land(self, *tables: pa.Table) -> str:
        """Store tables as Parquet files, one each; return the pattern that finds them."""
        folder = self.root / "landing" / f"{self._files:04d}"
        self._files += 1
        folder.mkdir(parents=True)
        for at, table in enumerate(tables):
            pq.write_table(table, folder / f"{at:04d}.parquet")
        return str(folder / "*.parquet")

    def order(self, spec: TableSpec, *tables: pa.Table, uri: str | None = None, **given: Any) -> SinkOrder:
        """The order to sink tables."""
        source = SourceSpec.model_validate({"uri": uri or self.land(*tables), "format": "parquet"})
        files = tuple(open_source(source).list_files())
        columns = getattr(spec.source, "columns", None)
        return SinkOrder(
            spec=spec,
            warehouse=self.warehouse,
            rows=FileRows(source=source, files=files, columns=columns),
            write_id="20261122T0000-0123456789ab",
            **given,
        )

    def sink(self, spec: TableSpec, *tables: pa.Table, **given: Any) -> SinkOutcome:
        """Sink tables."""
        return sink(self.order(spec, *tables, **given), self.engine, stale_after=3600)

    def table(self, spec: TableSpec) -> Table:
        """The table of a spec."""
        return open_table(open_catalog(spec.iceberg, self.warehouse), spec.table)

    def rows(self, spec: TableSpec, by: str = "id") -> pa.Table:
        """What pyiceberg reads, sorted."""
        found = self.table(spec).scan().to_arrow()
        return found.sort_by(by)

    def files(self, spec: TableSpec) -> list[Path]:
        """The data files on disk."""
        return sorted((Path(self.warehouse) / "tables").rglob("data/**/*.parquet"))

    def live(self, spec: TableSpec) -> list[Path]:
        """The data files that the table names."""
        return sorted(Path(file.file_path) for file in live_files(self.table(spec)))


def utc(text: str) -> datetime:
    """A moment of UTC."""
    return datetime.fromisoformat(text + "+00:00")
