"""Runs of table specs without Airflow: the steps of the sink, and the table that they leave."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder, Window, run_uri
from hipslake.steps.sink import request as sink_request
from hipslake.steps.sink import resolve_sink, sink_files
from hipslake.steps.sink import run as sink_run
from hipslake.steps.sink.request import (
    ResolveSinkReport,
    ResolveSinkRequest,
    SinkFilesReport,
    SinkFilesRequest,
)
from hipslake.tables.iceberg.catalogs import find_table, open_catalog
from pyiceberg.table import Table

from tests.steps.nights import FIRST, Survey

DAG = "iceberg_sink__stars"
COLUMNS = ("id", "ra", "dec", "mag", "night")
"""Of the nights of a survey."""

INCREMENTS = 'source: {catalog: stars, rows: increment}\npartition: ["healpix[2]", night]\n'
"""A spec that sinks them as they come."""


@dataclass
class Lake:
    """A warehouse with one table spec, `stars`."""

    place: Path
    runs: int = 0

    @property
    def warehouse(self) -> str:
        return str(self.place / "warehouse")

    @property
    def spec(self) -> Path:
        return self.place / "tables" / "stars.yaml"

    def write_spec(self, text: str) -> None:
        """Write what comes after the name, the Iceberg catalog and the table."""
        self.spec.parent.mkdir(exist_ok=True)
        catalog = f"iceberg: {{uri: 'sqlite:///{self.place}/state/iceberg.db'}}\n"
        self.spec.write_text(f"name: stars\n{catalog}table: survey.stars\n{text}")

    def resolve(self, run_id: str | None = None, **fields: object) -> RunFolder:
        """Start a run."""
        self.runs += 1
        run_id = run_id or f"run-{self.runs}"
        request = ResolveSinkRequest.model_validate(
            {
                "run_uri": run_uri(self.warehouse, DAG, run_id),
                "dag_id": DAG,
                "run_id": run_id,
                "warehouse": self.warehouse,
                "spec_file": str(self.spec),
            }
            | fields
        )
        perform(resolve_sink.run, request, ResolveSinkReport)
        return request.folder

    def sink(self, folder: RunFolder) -> sink_request.SinkReport:
        """Sink what a run froze."""
        request = sink_request.SinkRequest(run_uri=folder.uri)
        return perform(lambda asked: sink_run.run(asked, ThisProcess(2)), request, sink_request.SinkReport)

    def run(self, **fields: object) -> sink_request.SinkReport:
        """A whole run of a spec that sinks a catalog."""
        return self.sink(self.resolve(**fields))

    def run_files(self, **fields: object) -> sink_request.SinkReport:
        """A whole run of a spec that sinks files."""
        folder = self.resolve(**fields)
        request = SinkFilesRequest(run_uri=folder.uri)
        perform(sink_files.run, request, SinkFilesReport)
        return self.sink(folder)

    @property
    def table(self) -> Table:
        """The table; there has to be one."""
        spec = load_spec(self.spec, TableSpec)
        found = find_table(open_catalog(spec.iceberg, self.warehouse), spec.table)
        assert found is not None
        return found

    def rows(self, *columns: str) -> pa.Table:
        """What pyiceberg reads of some columns, by id."""
        return self.table.scan().to_arrow().sort_by("id").select(list(columns))

    def snapshots(self) -> int:
        """How many commits the table has seen."""
        return len(self.table.snapshots())


def told(folder: RunFolder) -> sink_request.FrozenOrders:
    """What a run is to sink."""
    return sink_request.SinkRequest(run_uri=folder.uri).orders()


def landed(survey: Survey, *numbers: int) -> pa.Table:
    """What the nights brought."""
    return pa.concat_tables([survey.landed[number] for number in numbers]).sort_by("id").combine_chunks()


def interval(number: int, nights: int = 1, origin: str = "data_interval") -> Window:
    """Nights of a run, counted from the first."""
    start = FIRST + timedelta(days=number)
    return Window.model_validate({"start": start, "end": start + timedelta(days=nights), "origin": origin})
