"""Sink and compaction as whole DAGs on Iceberg catalogs that a connection names: PostgreSQL, and REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.specs.table_place import IcebergSpec
from hipslake.steps.compact_table.request import CompactTableReport
from hipslake.steps.run import run_uri
from hipslake.tables.iceberg.catalogs import open_catalog, open_table

from tests.dags.dag_runs import Load
from tests.steps.nights import Survey
from tests.stores.iceberg_catalogs import KINDS, Service, running_service

SINK = """\
name: sources
table: survey.sources
source: {catalog: stars, rows: increment}
partition: ["healpix[0]"]
target_file_size: 8 KiB
"""
COMPACTION = """\
name: packed
type: compaction
table: survey.sources
mode: hilbert
columns: [ra, dec, mag]
target_file_size: 8 KiB
"""


@pytest.fixture(params=[KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    with running_service(request.param, tmp_path) as running:
        yield running


@pytest.mark.system
def test_nights_are_sunk_and_compacted_and_nothing_is_done_twice(
    service: Service,
    airflow: Path,
    load: Load,
    specs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SURVEY", json.dumps(service.connection))
    for name in service.environment:
        monkeypatch.setenv(name, "another's")  # put back after the test
    tables = specs.parent / "tables"
    tables.mkdir()
    for name, text in (("sources", SINK), ("packed", COMPACTION)):
        (tables / f"{name}.yaml").write_text(f"{text}iceberg: {json.dumps(service.iceberg)}\n")
    warehouse, survey = str(tmp_path / "warehouse"), Survey(tmp_path)

    def rows() -> pa.Table:
        catalog = open_catalog(IcebergSpec.model_validate(service.iceberg), warehouse)
        found = open_table(catalog, "survey.sources").scan().to_arrow().sort_by("id")
        catalog.close()
        return found.select(["id", "ra", "dec", "mag", "night"])

    def landed() -> pa.Table:
        return pa.concat_tables(survey.landed.values()).combine_chunks()

    def ran(dag_id: str, **conf: Any) -> tuple[dict[str, str], Path]:
        run = load()[dag_id].test(run_conf=conf)  # a DAG keeps the params of its last test
        states = {instance.task_id: str(instance.state) for instance in run.get_task_instances()}
        return states, Path(run_uri(warehouse, dag_id, run.run_id))

    def compacted(**conf: Any) -> CompactTableReport:
        states, folder = ran("table_compact__packed", **conf)
        assert states == {"resolve": "success", "compact_table": "success"}
        return CompactTableReport.model_validate_json((folder / "reports/compact_table.json").read_text())

    survey.night(0)
    survey.night(1)
    states, _ = ran("iceberg_sink__sources")
    assert states == {"resolve": "success", "sink": "success", "confirm": "success"}
    assert rows().equals(landed())

    planned = compacted(dry_run=True)
    assert (planned.version, planned.removed.files) == ("", planned.files_considered)
    part = compacted(partitions="_healpix_0 = 4")
    assert (part.partitions, part.rows_in, bool(part.version)) == (1, part.rows_out, True)
    assert 0 < part.removed.files == part.files_considered < planned.files_considered
    done = compacted()
    assert done.rows_in == 800 - part.rows_in
    assert done.removed.files == planned.files_considered - part.removed.files
    assert done.added.min_bytes <= done.added.avg_bytes <= done.added.max_bytes <= done.added.total_bytes
    assert done.before is not None and done.after is not None  # noqa: PT018
    assert done.after.files_touched / done.after.files < done.before.files_touched / done.before.files
    assert Path(done.picture).read_bytes().startswith(b"<svg ")
    assert rows().equals(landed())
    nothing = compacted(partitions="_healpix_0 = 11")
    assert "no file matches the filter; nothing to do" in nothing.text

    states, _ = ran("iceberg_sink__sources")
    assert (states["sink"], states["confirm"]) == ("skipped", "skipped")
    survey.night(2)
    states, _ = ran("iceberg_sink__sources")
    assert states["sink"] == "success"
    assert rows().equals(landed())

    secret = service.connection["password"]
    assert secret not in "".join(capfd.readouterr())
    told = [path for path in Path(warehouse, "_runs").rglob("*.json") if secret in path.read_text()]
    assert told == []
