"""A folder that files come into, the spec of a stream of them, and its runs."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.library_version import __version__
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.run import RunFolder
from hipslake.steps.sink.request import FrozenSink
from hipslake.steps.stream import run as draining
from hipslake.steps.stream.request import DrainReport, DrainRequest
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake.versions.write_id import new_write_id

from tests.tables.plain_reader import plain_rows

NAME = "survey.alerts"


class Landing:
    """A stream in a warehouse of its own."""

    def __init__(
        self, root: Path, engine: Engine | None = None, uri: str = "landing/*.parquet", **given: Any
    ) -> None:
        self.root, self.engine = root, engine or ThisProcess()
        self.landing = root / "landing"
        self.landing.mkdir(exist_ok=True)
        self.warehouse = str(root / "warehouse")
        usual: dict[str, Any] = {
            "name": "alerts",
            "table": NAME,
            "source": {"files": {"uri": str(root / uri), "format": uri.rpartition(".")[2]}},
            "iceberg": {"uri": f"sqlite:///{root}/state/iceberg.db"},
            "stream": {"trigger": "available_now", "source": "files", **given.pop("stream", {})},
        }
        self.spec = TableSpec.model_validate(usual | given)
        self._runs = 0

    def land(self, name: str, first: int, count: int = 3, *, age: float = 0.0) -> Path:
        path = self.landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = pa.table({"id": range(first, first + count), "night": [first // 10] * count})
        write = pa.csv.write_csv if name.endswith("csv") else pq.write_table
        write(rows, path)
        moment = time.time() - age
        os.utime(path, (moment, moment))
        return path

    def request(self, *, force: bool = False) -> DrainRequest:
        """A run of its own, as `resolve` leaves it."""
        self._runs += 1
        uri = f"{self.warehouse}/_runs/iceberg_sink__alerts/{self._runs}"
        now = datetime.now(UTC)
        frozen = FrozenSink(
            dag_id="iceberg_sink__alerts",
            run_id=str(self._runs),
            run_uri=uri,
            warehouse=self.warehouse,
            created=now,
            library_version=__version__,
            table=self.spec.name,
            spec=self.spec,
            spec_file="alerts.yaml",
            write_id=new_write_id(now),
            force=force,
        )
        RunFolder(uri).write(RunFolder.RUN, frozen)
        return DrainRequest(run_uri=uri)

    def drain(self, *, force: bool = False) -> DrainReport:
        return draining.run(self.request(force=force), self.engine)

    @property
    def table(self) -> Any:
        return open_table(open_catalog(self.spec.iceberg, self.warehouse), NAME)

    def ids(self) -> list[int]:
        found = sorted(row["id"] for row in plain_rows(self.table))
        assert sorted(self.table.scan().to_arrow()["id"].to_pylist()) == found
        return found

    @property
    def checkpoint(self) -> Path:
        return Path(self.warehouse, "_streams", "alerts", "checkpoint")

    def forget(self, batch: int) -> None:
        """Leave the checkpoint as a process does that dies before it says that a batch is done."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)
