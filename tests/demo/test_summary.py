"""The last words of the demo: the numbers are those of the metadata and the reports, also after a reuse."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment, Partition, Position, Sources
from hipslake.catalog.partitions import Sidecar
from hipslake.cube.store.operations import build
from hipslake.specs.catalog_spec import CatalogSpec, Layout
from hipslake.specs.cube_spec import CubeColumns
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.report import Report
from hipslake.steps.run import RunFolder, run_uri
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake_demo.outcome import outcome_of, why_it_failed
from hipslake_demo.summary import cube_at, how_to_open, reuse, table, table_of_iceberg

from tests.tables.sinking import Lake

DAG = "catalog_ingest__stars"
SPEC = CatalogSpec.model_validate(
    {
        "name": "stars",
        "source": {"uri": "x", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec"},
        "threshold": "400 rows",
    }
)


def add_run(warehouse: Path, run_id: str, write_id: str, hour: int, reports: list[Report]) -> None:
    """Leave a run folder as the steps leave it."""
    folder = RunFolder(run_uri(str(warehouse), DAG, run_id))
    frozen = FrozenRun(
        dag_id=DAG,
        run_id=run_id,
        run_uri=folder.uri,
        warehouse=str(warehouse),
        catalog="stars",
        spec=SPEC,
        write_id=write_id,
        created=datetime(2026, 11, 21, hour, tzinfo=UTC),
        library_version="0.1.0",
    )
    folder.write(RunFolder.RUN, frozen)
    for report in reports:
        folder.write(RunFolder.report_path(report.step), report)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse with one published version and the run that built it."""
    group = GroupMetadata(
        name="main",
        rows=1234,
        bytes=3 << 20,
        leaves=3,
        files=3,
        threshold=SPEC.threshold_of("main"),
        parquet=SPEC.parquet,
        columns=(),
        arrow_schema="",
        pixels={1: "4-5", 2: "7"},
        partitions=tuple(
            Partition(order=order, npix=npix, path="p", rows=1, bytes=1, sha256="")
            for order, npix in ((2, 7), (1, 4), (1, 5))
        ),
    )
    metadata = CatalogMetadata(
        catalog="stars",
        version=1,
        write_id="20261121T0100-aaaa",
        created=datetime(2026, 11, 21, 1, tzinfo=UTC),
        fingerprint="f",
        library_version="0.1.0",
        attribution="the stars themselves",
        layout=Layout.HATS,
        position=Position(ra="ra", dec="dec", unit="deg", frame="icrs"),
        total_rows=1234,
        total_bytes=3 << 20,
        groups=(group,),
        increments=(
            Increment(
                ordinal=0,
                rows=1234,
                write_id="20261121T0100-aaaa",
                fingerprint="f",
                sources=Sources(files=1, rows=1234, bytes=1),
                coverage=Sidecar(path="c", rows=1, sha256=""),
            ),
        ),
        spec={},
    )
    log = VersionLog(Storage.at(f"{tmp_path}/catalogs/stars"))
    assert log.commit(1, metadata.to_json(), metadata.write_id) == "committed"
    reports = [
        Report(step="plan", reused=True, seconds={"read": 1.0, "plan": 0.5}),
        Report(step="write", seconds={"write": 7.25}),
    ]
    add_run(tmp_path, "first", metadata.write_id, 1, reports)
    return tmp_path


def line_of(text: str, label: str) -> list[str]:
    """Return the cells of the line that starts with a label."""
    (line,) = (line for line in text.splitlines() if line.startswith(label))
    return line.removeprefix(label).split()


def test_the_table_holds_rows_partitions_per_order_and_seconds(warehouse: Path) -> None:
    outcome = outcome_of(str(warehouse), DAG, "stars", seconds_now=12.0)
    text = table([outcome, outcome])
    assert line_of(text, "rows") == ["1,234", "1,234"]
    assert line_of(text, "files") == ["3", "3"]
    assert line_of(text, "MiB") == ["3.0", "3.0"]
    assert line_of(text, "partitions of 'main', order 1") == ["2", "2"]
    assert line_of(text, "partitions of 'main', order 2") == ["1", "1"]
    assert line_of(text, "seconds of plan") == ["1.5", "1.5"]
    assert line_of(text, "seconds of this run in all") == ["12.0", "12.0"]


def test_it_says_what_was_reused(warehouse: Path) -> None:
    built = outcome_of(str(warehouse), DAG, "stars")
    assert reuse(built) == "stars: built version 1, reused the finished steps plan"
    add_run(warehouse, "second", "20261121T0200-bbbb", 2, [Report(step="inputs")])
    again = outcome_of(str(warehouse), DAG, "stars")
    assert "stars: reused version 1;" in reuse(again)
    assert line_of(table([again]), "seconds of write") == ["7.2"]


def test_what_a_run_froze_is_shown_where_it_is_signed(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_RUN_KEY", "k" * 64)
    add_run(warehouse, "second", "20261121T0200-bbbb", 2, [])
    assert "signature" in next((warehouse / "_runs" / DAG / "second").glob("run.json")).read_text()
    assert not outcome_of(str(warehouse), DAG, "stars").built_now


def test_it_says_how_to_open_the_catalog_and_whom_to_credit(warehouse: Path) -> None:
    root = f"{warehouse}/catalogs/stars"
    text = how_to_open(outcome_of(str(warehouse), DAG, "stars"))
    assert f"lsdb.open_catalog('{root}')" in text
    assert (
        f"spark.read.parquet('{root}/20261121T0100-aaaa/main/dataset/Norder=*/Dir=*/Npix=*.parquet')" in text
    )
    assert line_of(text, "  credit") == ["the", "stars", "themselves"]


def opened(text: str, label: str) -> object:
    """What the line of a label gives, run as it stands."""
    [line] = [line for line in text.splitlines() if line.startswith(f"  {label} ")]
    *statements, expression = line.removeprefix(f"  {label} ").strip().split("; ")
    names: dict[str, object] = {}
    exec("\n".join(statements), names)
    return eval(expression, names)


def test_it_says_what_a_table_holds_and_how_to_open_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for first in (0, 3):
        lake.sink(lake.spec(), pa.table({"id": [first, first + 1, first + 2]}))
    text = table_of_iceberg(lake.spec(), lake.warehouse)
    assert "6 rows in 2 files" in text
    assert sorted(opened(text, "pyiceberg")["id"].to_pylist()) == list(range(6))  # type: ignore[index]


def test_it_says_what_a_cube_holds_and_how_to_open_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "cubes" / "sky")
    rows = pa.table({"source_id": [1, 2, 3], "pixel": [0, 0, 5], "HIP": [10, 2000, 30]})
    roles = CubeColumns(dimension_columns=("source_id",), partition_columns=("pixel",))
    build(Storage.at(uri), "sky", roles, {"seed": rows})
    text = cube_at(uri)
    assert text.startswith(f"sky: {uri}\n  holds     seed: 3 rows in 2 partitions\n")
    assert opened(text, "hipslake")["HIP"].to_pylist() == [10, 30]  # type: ignore[index]


def test_a_failed_run_is_explained_by_its_report_or_else_by_its_log(warehouse: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("a line\nhipslake.errors.SpecError: no such column\n2026-11-21 [info] the end\n")
    assert (
        why_it_failed(str(warehouse), DAG, log.read_text().splitlines())
        == "hipslake.errors.SpecError: no such column"
    )
    failure = {"kind": "PlanError", "message": "too crowded", "retryable": False}
    report = Report.model_validate({"step": "plan", "ok": False, "error": failure})
    add_run(warehouse, "third", "20261121T0300-cccc", 3, [report])
    assert why_it_failed(str(warehouse), DAG, log.read_text().splitlines()) == "plan: PlanError: too crowded"
