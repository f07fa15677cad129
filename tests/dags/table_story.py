"""Tables that whole DAGs feed, change and look after, beside dicts of what must be in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.steps.run import run_uri
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from tests.dags.dag_runs import Load
from tests.stores.iceberg_catalogs import Service

Row = tuple[int, int, float]  # id, seq, mag
BEGIN = datetime(2026, 1, 1)
FILES = "source: {{files: {{uri: '{landing}/{name}/night={{{{ night }}}}/*.parquet', format: parquet}}}}\n"


def night_of(number: int) -> str:
    """The day of a night, as forms and templates have it."""
    return f"{BEGIN + timedelta(days=number):%Y-%m-%d}"


def rows_of(night: int, rows: Iterable[Row], ops: str | None = None, mag: str = "mag") -> pa.Table:
    """Rows of a night, each a minute after the one before; `ops` are a letter for each."""
    found = list(rows)
    start = BEGIN + timedelta(days=night)
    columns: dict[str, Any] = {
        "id": pa.array([row[0] for row in found], pa.int64()),
        "seq": pa.array([row[1] for row in found], pa.int32()),
        mag: pa.array([row[2] for row in found], pa.float64()),
        "ts": pa.array([start + timedelta(minutes=at) for at in range(len(found))], pa.timestamp("us")),
    }
    if ops is not None:
        columns["op"] = list(ops)
    return pa.table(columns)


@dataclass
class Story:
    """A folder of specs, DAGs by name, and the catalog that all tables stand in.

    Attributes
    ----------
    service : Service
    load : callable
        Loads the DAGs.
    specs : Path
        The folder of the specs of tables.
    warehouse : str
    landing : Path
    """

    service: Service
    load: Load
    specs: Path
    warehouse: str
    landing: Path
    runs: list[str] = field(default_factory=list)

    def spec(self, name: str, text: str, *, files: bool = True) -> None:
        """Write the spec of a sink, or with `files=False` of anything else."""
        head = f"name: {name}\ntable: survey.{name}\n{FILES.format(landing=self.landing, name=name)}"
        catalog = f"iceberg: {json.dumps(self.service.iceberg)}\n"
        (self.specs / f"{name}.yaml").write_text((head if files else "") + text + catalog)

    def land(self, name: str, night: int, rows: pa.Table) -> None:
        """Put the files of a night, in the place of those before."""
        folder = self.landing / name / f"night={night_of(night)}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / "part.parquet")

    def run(self, dag_id: str, **conf: Any) -> dict[str, str]:
        """Run a DAG whole; the states of its tasks."""
        done = self.load()[dag_id].test(run_conf=conf)  # a DAG keeps the params of its last test
        self.runs.append(run_uri(self.warehouse, dag_id, done.run_id))
        return {each.task_id: str(each.state) for each in done.get_task_instances()}

    def sink(self, name: str, night: int, **conf: Any) -> dict[str, str]:
        """Run a sink of one night; the states of its tasks that do something."""
        when = {"window_start": night_of(night), "window_end": night_of(night + 1)}
        states = self.run(f"iceberg_sink__{name}", **when, wait_minutes=0, **conf)
        return {task: state for task, state in states.items() if task not in ("resolve", "wait", "inputs")}

    def report(self, step: str) -> dict[str, Any]:
        """The report of a step of the last run."""
        found: dict[str, Any] = json.loads(Path(self.runs[-1], "reports", f"{step}.json").read_text())
        return found

    def catalog(self) -> Catalog:
        """The catalog as plain pyiceberg opens it, with none of this library."""
        told = {
            name.removeprefix("PYICEBERG_CATALOG__SURVEY__").lower().replace("_", "-"): value
            for name, value in self.service.environment.items()
        }
        kind = {"type": self.service.iceberg["type"]}
        named = (
            {"warehouse": self.service.iceberg["warehouse"]} if "warehouse" in self.service.iceberg else {}
        )
        if (endpoint := os.environ.get("AWS_ENDPOINT_URL_S3")) is not None:
            told |= {"s3.endpoint": endpoint, "s3.region": os.environ["AWS_DEFAULT_REGION"]}
        return load_catalog("survey", **kind, **named, **told)

    def table(self, name: str) -> Table:
        return self.catalog().load_table(f"survey.{name}")

    def read(self, name: str, mag: str = "mag") -> list[Row]:
        """The rows by plain pyiceberg, which have to be those by DuckDB on the files that the table names."""
        table = self.table(name)
        columns = ("id", "seq", mag)
        read = table.scan(selected_fields=columns).to_arrow()
        found = sorted(zip(*(read[each].to_pylist() for each in columns), strict=True))
        assert found == self.by_duckdb(table, columns)
        return found

    def by_duckdb(self, table: Table, columns: tuple[str, ...]) -> list[Row]:
        """The rows of the data files less those that the files of position deletes name, by DuckDB."""
        place = self.landing.parent / "seen"
        found: list[Row] = []
        known = {each.field_id: each.name for each in table.schema().fields}
        for at, task in enumerate(table.scan().plan_files()):
            path = _copied(table, task.file.file_path, place, f"{at}.parquet")
            names = {each: path_ids(path).get(each) for each in known}
            taken = ", ".join(
                f'"{names[number]}"' if names[number] else "NULL"
                for column in columns
                for number in [next(number for number, name in known.items() if name == column)]
            )
            gone = [
                _copied(table, each.file_path, place, f"{at}-{n}.parquet")
                for n, each in enumerate(task.delete_files)
            ]
            but = "".join(
                f" AND file_row_number NOT IN (SELECT pos FROM read_parquet('{each}') "
                f"WHERE file_path = '{task.file.file_path}')"
                for each in gone
            )
            asked = f"SELECT {taken} FROM read_parquet('{path}', file_row_number=true) WHERE true{but}"
            found += duckdb.sql(asked).fetchall()
        return sorted(found)


def path_ids(path: Path) -> dict[int, str]:
    """The names of a file's columns by their field ids."""
    schema = pq.read_schema(path)
    return {int(each.metadata[b"PARQUET:field_id"]): each.name for each in schema if each.metadata}


def _copied(table: Table, uri: str, place: Path, name: str) -> Path:
    """A file of a table, wherever it lies, as a local one."""
    place.mkdir(exist_ok=True)
    path = place / name
    with table.io.new_input(uri).open() as file:
        path.write_bytes(file.read())
    return path
