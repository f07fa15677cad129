"""The export step: the same file with and without the tasks of an engine, whole or not at all."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from astropy.table import Table
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import (
    CatalogNotFoundError,
    FilterError,
    NotWritableError,
    RegionError,
    SchemaMismatchError,
    SpecError,
    StorageError,
    VersionNotFoundError,
)
from hipslake.exports.writers import ParquetTables
from hipslake.steps.export import run as export_run
from hipslake.steps.export.request import ExportReport, ExportRequest
from hipslake.steps.report import perform
from hipslake.steps.run import now_utc, run_uri
from hipslake.steps.upkeep.old_runs import old_runs
from hipslake.storage.folder import Storage

from tests.steps.in_process import ingest, start, write_spec
from tests.steps.nights import Survey

CONE = "cone 80 30 3deg"


@pytest.fixture
def root(warehouse: Path, spec_file: Path) -> Path:
    """The catalog `stars` with one version."""
    ingest(start(warehouse, spec_file))
    return warehouse / "catalogs" / "stars"


def asked(warehouse: Path, run_id: str = "export", **fields: Any) -> ExportRequest:
    return ExportRequest.model_validate(
        {
            "run_uri": run_uri(str(warehouse), "catalog_export", run_id),
            "warehouse": str(warehouse),
            "catalog": "stars",
            "output": "out.parquet",
            **fields,
        }
    )


class TaskEngine(ThisProcess):
    """Runs tasks as if each were a process of its own, as Spark does."""

    @property
    def holds_exchanges(self) -> bool:
        return False


def run(request: ExportRequest) -> ExportReport:
    return perform(lambda given: export_run.run(given, ThisProcess()), request, ExportReport)


def run_by_tasks(request: ExportRequest) -> ExportReport:
    return perform(lambda given: export_run.run(given, TaskEngine()), request, ExportReport)


@pytest.mark.parametrize("way", [run, run_by_tasks])
@pytest.mark.parametrize("output", ["out.parquet", "deep/out.csv", "out.fits"])
def test_the_file_holds_the_rows_of_the_read(root: Path, warehouse: Path, way: Any, output: str) -> None:
    before = files_below(root)
    wanted = {"region": CONE, "columns": ("id", "mag", "ra"), "filters": "mag < 13 and id > 100"}
    report = way(asked(warehouse, output=output, task_bytes=5000, **wanted))
    expected = Catalog.open(root).read(["id", "mag", "ra"], wanted["filters"], region=CONE)
    path = warehouse / "exports" / output
    assert 0 < expected.num_rows < 1000
    assert (report.rows_in, report.rows_out, report.files) == (expected.num_rows, expected.num_rows, 1)
    assert (report.bytes, report.output, report.version) == (path.stat().st_size, str(path), 1)
    assert read_back(path).equals(expected.replace_schema_metadata(None))
    assert sorted(each.name for each in path.parent.iterdir() if each.is_file()) == [path.name]
    assert not Storage.at(warehouse / "_runs/catalog_export/export").list(export_run.PIECES)
    assert files_below(root) == before


def files_below(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def read_back(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path).replace_schema_metadata(None)
    if path.suffix == ".csv":
        return pacsv.read_csv(path)
    table = Table.read(path)
    return pa.table(
        {name: table[name].astype(table[name].dtype.newbyteorder("=")).tolist() for name in table.colnames}
    )


def test_both_ways_give_the_same_bytes(root: Path, warehouse: Path) -> None:
    for kind in ("parquet", "csv", "fits"):
        run(asked(warehouse, f"a{kind}", output=f"a.{kind}", region=CONE))
        run_by_tasks(asked(warehouse, f"b{kind}", output=f"b.{kind}", region=CONE, task_bytes=9000))
        a, b = ((warehouse / "exports" / f"{name}.{kind}") for name in "ab")
        assert read_back(a).equals(read_back(b))
        assert kind == "parquet" or a.read_bytes() == b.read_bytes()


def test_everything_of_an_older_version(root: Path, warehouse: Path, spec_file: Path, tmp_path: Path) -> None:
    write_spec(spec_file, f"{tmp_path}/landing/part-0.parquet")
    ingest(start(warehouse, spec_file, "second"))
    assert run(asked(warehouse, "new")).rows_out == 1000
    request = asked(warehouse, "old", version=1, output=str(tmp_path / "all.parquet"))
    assert (run(request).rows_out, run(request).version) == (3000, 1)
    table = pq.read_table(tmp_path / "all.parquet")
    assert table.schema.names == Catalog.open(root).schema.names
    told = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    assert told["hipslake.catalog"] == "stars"
    assert told["hipslake.version"] == "1"
    assert told["hipslake.description"] == "stars made up for tests"


def test_nothing_is_replaced_unless_asked(root: Path, warehouse: Path, tmp_path: Path) -> None:
    output = tmp_path / "mine.csv"
    output.write_text("precious")
    with pytest.raises(NotWritableError, match=r"mine\.csv exists; give another URI, or overwrite"):
        run(asked(warehouse, output=str(output)))
    assert output.read_text() == "precious"
    assert run(asked(warehouse, "again", output=str(output), overwrite=True)).rows_out == 3000
    assert output.read_text().startswith('"_healpix_29","id"')


@pytest.mark.parametrize("way", [run, run_by_tasks])
def test_a_retry_may_replace_what_its_run_has_written(
    root: Path, warehouse: Path, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the file and the report, or in mid-file: the retry completes it."""
    write = ParquetTables.write

    def broken(self: Any, file: Any, schema: Any, tables: Any, origin: Any) -> int:
        file.write(b"half")
        raise ConnectionError("the store went away")

    monkeypatch.setattr(ParquetTables, "write", broken)
    with pytest.raises(StorageError, match="the store went away"):
        way(asked(warehouse))
    assert list((warehouse / "exports").iterdir()) == []
    monkeypatch.setattr(ParquetTables, "write", write)
    assert way(asked(warehouse)).rows_out == 3000
    folder = Storage.at(asked(warehouse).run_uri)
    for _ in range(2):
        folder.delete("reports/export.json")
        assert not way(asked(warehouse)).reused
        assert way(asked(warehouse)).reused
    with pytest.raises(NotWritableError):
        way(asked(warehouse, "another"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"catalog": "starz"}, CatalogNotFoundError, "nothing is published"),
        ({"version": 7}, VersionNotFoundError, "version 7"),
        ({"region": "cone 1 2"}, RegionError, "write cone"),
        ({"region": "moc /nowhere/x.fits"}, RegionError, "forms do not read"),
        ({"filters": "mga < 3"}, FilterError, "did you mean 'mag'"),
        ({"filters": "mag = 'bright'"}, FilterError, "compare it with a number"),
        ({"columns": ("idd",)}, SchemaMismatchError, "did you mean 'id'"),
        ({"columns": ("id", "id")}, SchemaMismatchError, "asked for twice"),
        ({"columns": ()}, SchemaMismatchError, "no column is asked for"),
        ({"output": "out"}, SpecError, "none of parquet, csv, fits, votable; give a format"),
        ({"output": "out.txt"}, SpecError, "the ending of .*out.txt"),
        ({"output": "out.parquet", "format": "ecsv"}, SpecError, "format 'ecsv' is none of"),
        ({"output": "out/"}, SpecError, "is no file"),
        ({"output": "s3://bucket"}, SpecError, "is no file"),
        ({"output": "../catalogs/stars/metadata.csv"}, SpecError, "lies in the warehouse"),
        ({"output": "a/../../_runs/x.csv"}, SpecError, "lies in the warehouse"),
        (
            {"output": "https://example.org/x.csv"},
            NotWritableError,
            "through a web server",
        ),
    ],
)
def test_what_cannot_be_exported_is_told_before_anything_is_written(
    root: Path, warehouse: Path, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = files_below(root)
    for way in (run, run_by_tasks):
        with pytest.raises(error, match=message):
            way(asked(warehouse, **fields))
    assert not (warehouse / "exports").exists()
    assert not (warehouse / "catalogs" / "starz").exists()
    assert files_below(root) == before


def test_absolute_outputs_in_the_warehouse_are_refused(root: Path, warehouse: Path) -> None:
    for output in (f"{root}/x.csv", f"{warehouse}/x.csv", f"{warehouse}//catalogs/./x.csv"):
        with pytest.raises(SpecError, match="lies in the warehouse"):
            run(asked(warehouse, output=output))


def test_no_row_is_a_file_without_rows(root: Path, warehouse: Path) -> None:
    for kind in ("parquet", "csv", "fits"):
        for way in (run, run_by_tasks):
            for number, nothing in enumerate(({"filters": "id < 0"}, {"region": "moc 0/"})):
                name = f"{way.__name__}{number}.{kind}"
                assert way(asked(warehouse, name, output=name, **nothing)).rows_out == 0
    table = pq.read_table(warehouse / "exports/run0.parquet")
    assert table.schema.names == Catalog.open(root).schema.names
    assert len(Table.read(warehouse / "exports/run1.fits")) == 0


def test_the_library_exports_too(root: Path, tmp_path: Path) -> None:
    catalog = Catalog.open(root)
    done = catalog.export(tmp_path / "x.fits", region=CONE, columns=["id"])
    assert done.rows == len(Table.read(io.BytesIO((tmp_path / "x.fits").read_bytes()), hdu=1)) > 0
    assert done.bytes == (tmp_path / "x.fits").stat().st_size
    with pytest.raises(NotWritableError, match="exists"):
        catalog.export(tmp_path / "x.fits")
    assert catalog.export(tmp_path / "x", format="csv", overwrite=True).rows == 3000


def test_old_run_folders_of_exports_are_found(root: Path, warehouse: Path) -> None:
    run(asked(warehouse))
    now = now_utc()
    folder = "_runs/catalog_export/export"
    assert folder in old_runs(str(warehouse), "stars", now + timedelta(days=1))
    assert folder not in old_runs(str(warehouse), "stars", now - timedelta(days=1))
    assert folder not in old_runs(str(warehouse), "others", now + timedelta(days=1))


class TestChanges:
    @pytest.fixture
    def survey(self, tmp_path: Path) -> Survey:
        """Two nights, and the first one again with other values."""
        survey = Survey(tmp_path, threshold="80 rows")
        for number in (0, 1):
            survey.night(number, rows=200)
        rows = survey.landed[0]
        survey.land(0, rows.set_column(2, "dec", pc.negate(rows["dec"])).slice(20))
        survey.append(0)
        return survey

    @pytest.mark.parametrize("way", [run, run_by_tasks])
    @pytest.mark.parametrize("key", [None, ("id",)])
    def test_the_file_holds_what_changed(self, survey: Survey, way: Any, key: tuple[str, ...] | None) -> None:
        place = Path(survey.warehouse)
        for number, (since, version, more) in enumerate(
            ((1, None, {}), (3, 2, {"filters": "mag < 18", "columns": ("id", "mag")}))
        ):
            request = asked(
                place, f"run-{number}", version=version, changes_since=since, key=key, overwrite=True, **more
            )
            report = way(request)
            found = pq.read_table(report.output)
            expected = survey.catalog.changes(since, version, key=key or (), **more).to_arrow()
            assert found.equals(expected)
            assert (report.rows_out, report.changes_since) == (expected.num_rows, since)
            assert ("update_after" in found["_change"].to_pylist()) is (key is not None)
            assert found.schema.metadata[b"hipslake.changes_since"] == str(since).encode()

    def test_a_key_is_of_changes(self, survey: Survey) -> None:
        place = Path(survey.warehouse)
        with pytest.raises(SpecError, match="key: tells updates among changes"):
            run(asked(place, key=("id",)))
        with pytest.raises(VersionNotFoundError, match="version 9"):
            run(asked(place, "other", changes_since=9))
