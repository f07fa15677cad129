"""Rows and files become catalogs without Airflow and Spark, and the same ones as the DAG makes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import yaml
from astropy.io import fits
from astropy.table import Table
from astropy.time import Time
from hipslake.api import given_rows
from hipslake.api.given_rows import format_of, rows_of, stage
from hipslake.api.ingesting import ingested
from hipslake.api.run_interval import window_of_interval
from hipslake.errors import (
    BadRowsError,
    EmptySourceError,
    HipslakeError,
    InputError,
    ReservedColumnError,
    SchemaMismatchError,
    SourceNotFoundError,
    SpecError,
    VerificationError,
)
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep.old_runs import old_runs
from hipslake.storage.folder import Storage
from hipslake_airflow.web.catalog_store import CatalogStore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.published_files import data_files, folders, leaves
from tests.steps import in_process
from tests.steps.nights import Survey, night_rows

SPEC: dict[str, Any] = {
    "name": "stars",
    "position": {"ra": "ra", "dec": "dec"},
    "threshold": "200 rows",
    "mapping_order": 6,
}
MORE = "margin: {arcsec: [3600]}\nindex: [id]"


def by_dag(place: Path, spec_file: Path) -> hipslake.Catalog:
    """The catalog that the steps of the DAG make, each performed as its task does it."""
    folder = in_process.start(place, spec_file)
    for step in (in_process.freeze, in_process.count, in_process.make_plan, in_process.write_leaves):
        step(folder)
    spec = load_spec(spec_file, CatalogSpec)
    if spec.margin.arcsec:
        in_process.make_margins(folder)
    if spec.index:
        in_process.make_indices(folder)
    for step in (in_process.check, in_process.commit, in_process.show):
        step(folder)
    return hipslake.Catalog.open(place / "catalogs" / "stars")


@pytest.mark.parametrize("layout", ["hats", "hipscat"])
@pytest.mark.parametrize(
    "more",
    [
        "",
        MORE,
        "column_groups: [{name: main, columns: [id, ra, dec]}, "
        "{name: other, columns: '*', threshold: 90 rows}]",
        "co_partitioned: [id]\nbad_rows: {policy: quarantine}",
    ],
    ids=["plain", "margin and index", "groups", "marked"],
)
@pytest.mark.sampled(2)
def test_it_publishes_what_the_dag_publishes(tmp_path: Path, stars: pa.Table, layout: str, more: str) -> None:
    spec_file = in_process.write_spec(
        tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", layout=layout, more=more
    )
    expected = data_files(by_dag(tmp_path / "one", spec_file))
    assert len(expected) > 20
    from_spec = hipslake.ingest(spec=spec_file, warehouse=tmp_path / "two", spark=False)
    assert data_files(from_spec) == expected
    from_spec.verify().raise_if_failed()
    from_rows = hipslake.ingest(stars, spec=spec_file, warehouse=tmp_path / "three", spark=False)
    assert data_files(from_rows) == expected
    assert sorted(from_rows.read().sort_by("id")["id"].to_pylist()) == stars["id"].to_pylist()


CONTAINERS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "chunks": lambda rows: pa.Table.from_batches(rows.to_batches(max_chunksize=7)),
    "batch": lambda rows: rows.combine_chunks().to_batches()[0],
    "reader": lambda rows: rows.to_reader(max_chunksize=1000),
    "dataset": ds.dataset,
    "pandas": lambda rows: rows.to_pandas(),
    "pandas with an index": lambda rows: rows.to_pandas().set_index(np.arange(7, rows.num_rows + 7)),
    "astropy": lambda rows: Table({name: rows[name].to_numpy() for name in rows.column_names}),
    "structured array": lambda rows: rows.to_pandas().to_records(index=False),
    "stream": lambda rows: Stream(rows),
}


class Stream:
    """What any other library hands over: nothing but the protocol of Arrow."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)


def test_rows_may_come_in_whatever_holds_them(
    tmp_path: Path, stars: pa.Table, caplog: pytest.LogCaptureFixture
) -> None:
    first = hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    for name, container in CONTAINERS.items():
        caplog.clear()
        again = hipslake.ingest(container(stars), spec=SPEC, warehouse=tmp_path, spark=False)
        assert again.version == first.version == 1, name
        assert "nothing to do" in caplog.text


def test_a_part_of_another_catalog_is_rows_too(tmp_path: Path, stars: pa.Table) -> None:
    whole = hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    part = whole.scan(columns=["id", "ra", "dec"], region="cone 80 30 2deg")
    found = hipslake.ingest(part, spec=SPEC | {"name": "part"}, warehouse=tmp_path, spark=False)
    assert 100 < found.metadata.total_rows < 1500
    assert sorted(found.read(["id"])["id"].to_pylist()) == sorted(part.to_arrow()["id"].to_pylist())
    with pytest.raises(ReservedColumnError, match="_healpix_29"):
        hipslake.ingest(whole.scan(), spec=SPEC | {"name": "other"}, warehouse=tmp_path, spark=False)


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    for data in (7, object(), {"ra": [1.0]}, [pa.table({"ra": [1.0]})], []):
        with pytest.raises(SpecError, match="data: "):
            hipslake.ingest(data, spec=SPEC, warehouse=tmp_path)
    assert not (tmp_path / "catalogs").exists()


def test_units_of_a_table_of_astropy_are_kept() -> None:
    table = Table({"ra": [1.0, 2.0], "flux": [[1, 2], [3, 4]], "name": np.array([b"a", b"b"])})
    table["ra"].unit, table["ra"].description = "deg", "right ascension"
    schema = rows_of(table).schema
    assert schema.field("ra").metadata == {b"unit": b"deg", b"description": b"right ascension"}
    assert schema.field("flux").type == pa.list_(pa.int64(), 2)
    assert schema.field("name").type == pa.string()


def test_masked_values_of_astropy_are_nulls() -> None:
    table = Table({"mag": [1.0, 2.0]}, masked=True)
    table["mag"].mask[1] = True
    assert rows_of(table).read_all()["mag"].to_pylist() == [1.0, None]


B = {"ra": [1.0, 2.0], "dec": [3.0, 4.0]}
UNFIT: dict[str, Any] = {
    "objects": pd.DataFrame({**B, "x": [object(), 1]}),
    "mixed types": pd.DataFrame({**B, "x": [1, "a"]}),
    "a name twice": pa.Table.from_arrays([pa.array([1.0])] * 4, ["ra", "dec", "x", "x"]),
    "two positions": pa.Table.from_arrays([pa.array([1.0])] * 3, ["ra", "dec", "ra"]),
    "names that differ by case": pa.table({**B, "RA": [1, 2]}),
    "a reserved name": pa.table({**B, "_healpix_29": [1, 2]}),
    "nothing in a struct": pa.table({**B, "x": pa.array([{}, {}])}),
    "names of two parts": pd.DataFrame({("a", "ra"): [1.0], ("b", "dec"): [2.0]}),
    "no column": pa.table({}),
}


@pytest.mark.parametrize("name", UNFIT)
def test_rows_that_do_not_fit_are_our_errors(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        hipslake.ingest(UNFIT[name], spec=SPEC, warehouse=tmp_path, spark=False)
    assert folders(tmp_path / "catalogs" / "stars") == set()
    assert not list(tmp_path.glob("_runs/*/*/given"))


FIT: dict[str, pa.Array] = {
    "words": pa.array(["a", "b"]).dictionary_encode(),
    "views": pa.array(["a", "b"], pa.string_view()),
    "large texts": pa.array(["a", None], pa.large_string()),
    "durations": pa.array([1, 2], pa.duration("s")),
    "half floats": pa.array([1, 2], pa.float16()),
    "maps": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "structs": pa.array([{"a": 1}, None]),
    "lists": pa.array([[1.5], []]),
    "nothing": pa.nulls(2),
    "times": pa.array([1, 2], pa.timestamp("us", "UTC")),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FIT)
def test_values_of_all_types_come_back(tmp_path: Path, name: str) -> None:
    rows = pa.table({**B, "x": FIT[name]})
    found = hipslake.ingest(rows, spec=SPEC, warehouse=tmp_path, spark=False).read(["ra", "x"])
    assert found.sort_by("ra")["x"].to_pylist() == rows["x"].to_pylist()


def test_rows_of_a_fits_file_are_a_structured_array(tmp_path: Path) -> None:
    names = np.array([b"a", b"bb"])
    fits.BinTableHDU(Table({**B, "name": names})).writeto(tmp_path / "stars.fits")
    rows = fits.getdata(tmp_path / "stars.fits")
    found = hipslake.ingest(rows, spec=SPEC, warehouse=tmp_path, spark=False).read(["ra", "name"])
    assert found.sort_by("ra").to_pydict() == {"ra": [1.0, 2.0], "name": ["a", "bb"]}


def test_the_dag_sees_what_was_published_as_its_own(tmp_path: Path, stars: pa.Table) -> None:
    spec_file = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    hipslake.ingest(spec=spec_file, warehouse=tmp_path / "here", spark=False)
    assert in_process.freeze(in_process.start(tmp_path / "here", spec_file)).unchanged_version == 1
    by_dag(tmp_path / "there", spec_file)
    found = ingested(None, spec=spec_file, warehouse=tmp_path / "there", spark=False)
    assert found.nothing_to_do
    assert found.catalog.versions() == [1]


def test_the_page_shows_what_was_published_and_a_vacuum_finds_its_runs(
    tmp_path: Path, stars: pa.Table
) -> None:
    found = ingested(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    store = CatalogStore(str(tmp_path))
    assert store.names() == ["stars"]
    assert [(each.version, each.rows) for each in store.history("stars", None, 9)] == [(1, 3000)]
    run = found.run_uri.removeprefix(f"{tmp_path}/")
    now = datetime.now(UTC)
    assert old_runs(str(tmp_path), "stars", now - timedelta(days=1)) == []
    assert old_runs(str(tmp_path), "stars", now + timedelta(days=1)) == [run]


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_programs_that_publish_at_once_all_get_a_version(tmp_path: Path, mode: str) -> None:
    spec = SPEC | {"mode": mode, "mapping_order": 4}

    def publish(number: int) -> int:
        interval = {"interval": 61000 + number} if mode == "append" else {}
        rows = night_rows(number)
        return hipslake.ingest(rows, spec=spec, warehouse=tmp_path, spark=False, **interval).version

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(publish, range(3))) == [1, 2, 3]
    catalog = hipslake.Catalog.open(tmp_path / "catalogs" / "stars")
    catalog.verify(all=True).raise_if_failed()
    assert catalog.metadata.total_rows == (400 if mode == "replace" else 1200)


def test_a_warehouse_in_an_object_store(stars: pa.Table, bucket: str) -> None:
    bucket = f"{bucket}/of-programs"
    catalog = hipslake.ingest(stars, spec=SPEC, warehouse=bucket, spark=False)
    assert catalog.uri == f"{bucket}/catalogs/stars"
    catalog.verify(all=True).raise_if_failed()
    assert hipslake.ingest(stars, spec=SPEC, warehouse=bucket, spark=False).version == 1
    files = Storage.at(bucket).list("_runs", recursive=True)
    assert [each.path for each in files if "/given/" in each.path] == []
    with pytest.raises(EmptySourceError):
        hipslake.ingest(stars.slice(0, 0), spec=SPEC | {"name": "none"}, warehouse=bucket, spark=False)


def test_files_are_named_one_by_one_by_glob_and_relative_to_here(
    tmp_path: Path, stars: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = sorted((tmp_path / "landing").glob("*.parquet"))
    whole = hipslake.ingest("landing/*.parquet", spec=SPEC, warehouse="one", spark=False)
    assert Path(whole.uri) == tmp_path / "one" / "catalogs" / "stars"
    listed = hipslake.ingest([*reversed(names), names[0]], spec=SPEC, warehouse="two", spark=False)
    assert data_files(listed) == data_files(whole)
    part = hipslake.ingest(names[0], spec=SPEC, warehouse="three", spark=False)
    assert part.metadata.total_rows == pq.read_metadata(names[0]).num_rows


def test_a_file_of_a_list_that_is_missing_is_an_error(tmp_path: Path, stars: pa.Table) -> None:
    there = tmp_path / "landing" / "part-0.parquet"
    for more in ({}, {"mode": "append", "on_empty": "skip"}):
        interval = {"interval": "2026-11-20"} if more else {}
        with pytest.raises(SourceNotFoundError, match=r"none\.parquet"):
            hipslake.ingest(
                [there, tmp_path / "none.parquet"], spec=SPEC | more, warehouse=tmp_path, **interval
            )


def test_the_format_is_that_of_the_names_and_options_are_the_specs(tmp_path: Path, stars: pa.Table) -> None:
    pa.csv.write_csv(stars, tmp_path / "stars.csv", pa.csv.WriteOptions(delimiter=";"))
    source = {"format": "csv", "options": {"delimiter": ";"}}
    spec = SPEC | {"source": source}
    catalog = hipslake.ingest(tmp_path / "stars.csv", spec=spec, warehouse=tmp_path, spark=False)
    assert catalog.metadata.total_rows == stars.num_rows
    rows = hipslake.ingest(stars, spec=spec, warehouse=tmp_path / "rows", spark=False)
    assert rows.read(["id", "mag"]).equals(catalog.read(["id", "mag"]))


def test_a_name_that_says_no_format_needs_a_spec_that_does(tmp_path: Path, stars: pa.Table) -> None:
    place = (tmp_path / "landing" / "part-0.parquet").rename(tmp_path / "stars.data")
    with pytest.raises(SpecError, match=r"stars\.data: its name does not say its format"):
        hipslake.ingest(place, spec=SPEC, warehouse=tmp_path)
    spec = SPEC | {"source": {"format": "parquet"}}
    assert hipslake.ingest(place, spec=spec, warehouse=tmp_path, spark=False).version == 1
    assert format_of(["a.VOT.GZ", "b.xml"]) == "votable"


def test_a_second_call_builds_a_version_only_by_force(tmp_path: Path, stars: pa.Table) -> None:
    spec = SPEC | {"source": {"uri": f"{tmp_path}/landing/*.parquet", "format": "parquet"}}

    def versions(**more: Any) -> list[int]:
        return hipslake.ingest(spec=spec, warehouse=tmp_path, spark=False, **more).versions()

    assert versions() == versions() == [1]
    assert versions(force=True) == [1, 2]
    assert versions(threshold="100 rows") == [1, 2, 3]
    pq.write_table(stars.slice(0, 10), tmp_path / "landing" / "more.parquet")
    assert versions(threshold="100 rows") == [1, 2, 3, 4]
    assert len(hipslake.Catalog.open(tmp_path / "catalogs/stars").pixels) > 20


def test_rows_that_differ_are_another_version(tmp_path: Path, stars: pa.Table) -> None:
    other = stars.set_column(0, "id", pa.array(np.arange(3000) + 1))
    found = [hipslake.ingest(rows, spec=SPEC, warehouse=tmp_path, spark=False) for rows in (stars, other)]
    assert [each.version for each in found] == [1, 2]


class TestAppend:
    SPEC = SPEC | {"mode": "append", "threshold": "300 rows", "mapping_order": 4}

    @pytest.mark.parametrize("append", ["rewrite", "add_file"])
    def test_nights_are_what_the_dag_makes_of_them(self, tmp_path: Path, append: str) -> None:
        survey = Survey(tmp_path, more=f"append: {append}")
        for seed, number in enumerate((0, 2, 1, 2)):
            survey.night(number, seed=seed)
            start = datetime(2026, 10, 1, tzinfo=UTC) + timedelta(days=number)
            of_rows = hipslake.ingest(
                survey.landed[number],
                spec=self.SPEC | {"append": append},
                warehouse=tmp_path / "rows",
                interval=start,
                spark=False,
            )
            of_files = hipslake.ingest(
                spec=survey.spec,
                warehouse=tmp_path / "files",
                interval=(start, start + timedelta(days=1)),
                spark=False,
            )
            assert leaves(of_files) == leaves(of_rows) == leaves(survey.catalog)
        keys = [each.key for each in survey.catalog.increments]
        assert [each.key for each in of_rows.increments] == [each.key for each in of_files.increments] == keys
        of_rows.verify(all=True).raise_if_failed()

    def test_an_interval_that_is_given_again_replaces_its_rows(self, tmp_path: Path) -> None:
        for number, rows in ((1, 300), (2, 200), (1, 100)):
            catalog = hipslake.ingest(
                night_rows(number, rows),
                spec=self.SPEC,
                warehouse=tmp_path,
                interval=61000 + number,
                spark=False,
            )
        assert catalog.metadata.total_rows == 300
        assert catalog.version == 3

    def test_files_are_not_added_under_two_intervals(self, tmp_path: Path, stars: pa.Table) -> None:
        files = f"{tmp_path}/landing/*.parquet"
        hipslake.ingest(files, spec=self.SPEC, warehouse=tmp_path, interval=61000, spark=False)
        with pytest.raises(InputError, match="holds 3 files of this run already"):
            hipslake.ingest(files, spec=self.SPEC, warehouse=tmp_path, interval=61001, spark=False)
        assert hipslake.Catalog.open(tmp_path / "catalogs/stars").versions() == [1]

    def test_it_needs_an_interval_and_mode_replace_has_none(self, tmp_path: Path, stars: pa.Table) -> None:
        with pytest.raises(SpecError, match="give one"):
            hipslake.ingest(stars, spec=self.SPEC, warehouse=tmp_path)
        with pytest.raises(SpecError, match="leave the interval out"):
            hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, interval=61000)

    def test_a_night_without_files_leaves_the_newest_version(self, tmp_path: Path) -> None:
        survey = Survey(tmp_path)
        with pytest.raises(EmptySourceError, match="the interval has no files"):
            hipslake.ingest(spec=survey.spec, warehouse=survey.warehouse, interval="2026-10-01")
        survey.night(0)
        catalog = hipslake.ingest(spec=survey.spec, warehouse=survey.warehouse, interval="2026-10-02")
        assert catalog.version == 1

    def test_no_rows_at_all_are_no_catalog(self, tmp_path: Path, stars: pa.Table) -> None:
        with pytest.raises(EmptySourceError, match="no row has come"):
            hipslake.ingest(
                stars.slice(0, 0), spec=self.SPEC, warehouse=tmp_path, interval=61000, spark=False
            )
        with pytest.raises(EmptySourceError, match="not one row"):
            hipslake.ingest(stars.slice(0, 0), spec=SPEC, warehouse=tmp_path, spark=False)


class TestFailures:
    """Whatever happens on the way: nothing is left in the catalog, and the next run goes well."""

    def nothing_is_left(self, place: Path, rows: Any, spec: Any = SPEC) -> None:
        root = place / "catalogs" / "stars"
        assert folders(root) == set()
        assert not list(place.glob("_runs/*/*/given/**/*.parquet"))
        assert hipslake.ingest(rows, spec=spec, warehouse=place, spark=False).version == 1

    def test_columns_that_are_not_there(self, tmp_path: Path, stars: pa.Table) -> None:
        with pytest.raises(SchemaMismatchError, match="decl"):
            hipslake.ingest(
                stars,
                spec=SPEC | {"position": {"ra": "ra", "dec": "decl"}},
                warehouse=tmp_path,
                spark=False,
            )
        self.nothing_is_left(tmp_path, stars)

    def test_rows_that_are_not_on_the_sky(self, tmp_path: Path, stars: pa.Table) -> None:
        bad = stars.set_column(2, "dec", pa.array(np.full(stars.num_rows, 91.0)))
        with pytest.raises((BadRowsError, EmptySourceError)):
            hipslake.ingest(bad, spec=SPEC, warehouse=tmp_path, spark=False)
        self.nothing_is_left(tmp_path, stars)

    def test_a_mark_that_does_not_hold(self, tmp_path: Path, stars: pa.Table) -> None:
        rows = stars.set_column(0, "id", pa.array(np.arange(3000) % 5))
        with pytest.raises(VerificationError):
            hipslake.ingest(rows, spec=SPEC | {"co_partitioned": ["id"]}, warehouse=tmp_path, spark=False)
        self.nothing_is_left(tmp_path, stars)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("after", ["inputs", "histogram", "plan"])
    def test_a_source_file_that_changes_meanwhile(self, tmp_path: Path, stars: pa.Table, after: str) -> None:
        spec = SPEC | {"source": {"uri": f"{tmp_path}/landing/*.parquet", "format": "parquet"}}

        def told(step: str, report: Any) -> None:
            if step == after and report is not None:
                pq.write_table(stars, tmp_path / "landing" / "part-1.parquet")

        with pytest.raises(InputError, match="changed after the run listed it"):
            ingested(None, spec=spec, warehouse=tmp_path, spark=False, told=told)
        self.nothing_is_left(tmp_path, None, spec)

    def test_a_leaf_that_is_damaged_before_it_is_verified(self, tmp_path: Path, stars: pa.Table) -> None:
        def told(step: str, report: Any) -> None:
            if step == "write" and report is not None:
                leaf = next((tmp_path / "catalogs/stars").rglob("Npix=*.parquet"))
                leaf.write_bytes(leaf.read_bytes()[:-9] + b"123456789")

        with pytest.raises(VerificationError):
            ingested(stars, spec=SPEC, warehouse=tmp_path, spark=False, told=told)
        self.nothing_is_left(tmp_path, stars)

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("at", ["inputs", "histogram", "plan", "write", "margin", "index", "verify"])
    def test_an_interrupt(self, tmp_path: Path, stars: pa.Table, at: str) -> None:
        def told(step: str, report: Any) -> None:
            if step == at and report is not None:
                raise KeyboardInterrupt

        spec = SPEC | {"margin": {"arcsec": [60]}, "index": ["id"]}
        with pytest.raises(KeyboardInterrupt):
            ingested(stars, spec=spec, warehouse=tmp_path, spark=False, told=told)
        self.nothing_is_left(tmp_path, stars, spec)

    def test_an_interrupt_after_the_commit_keeps_the_version(self, tmp_path: Path, stars: pa.Table) -> None:
        def told(step: str, report: Any) -> None:
            if step == "publish" and report is not None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ingested(stars, spec=SPEC, warehouse=tmp_path, spark=False, told=told)
        catalog = hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
        assert catalog.version == 1
        catalog.verify(all=True).raise_if_failed()

    def test_versions_of_others_stay_whole(self, tmp_path: Path, stars: pa.Table) -> None:
        def told(step: str, report: Any) -> None:
            if step == "verify" and report is not None:
                hipslake.ingest(stars.slice(0, 1000), spec=SPEC, warehouse=tmp_path, spark=False)

        found = ingested(stars, spec=SPEC, warehouse=tmp_path, spark=False, told=told).catalog
        assert (found.version, found.metadata.total_rows) == (2, 3000)
        found.verify(all=True).raise_if_failed()

    def test_a_name_that_another_kind_of_spec_publishes(self, tmp_path: Path, stars: pa.Table) -> None:
        catalog = hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
        match = {"left": catalog, "right": catalog, "radius_arcsec": 1, "name": "stars"}
        with pytest.raises(SpecError):
            hipslake.publish(match, warehouse=tmp_path)
        assert catalog.versions() == [1]


def test_a_run_leaves_the_reports_that_the_dag_leaves(tmp_path: Path, stars: pa.Table) -> None:
    told: list[str] = []
    found = ingested(
        stars,
        spec=SPEC | {"index": ["id"]},
        warehouse=tmp_path,
        spark=False,
        told=lambda step, report: told.append(step),
    )
    steps = ["resolve", "inputs", "histogram", "plan", "write", "index", "verify", "publish", "view"]
    assert told == [step for step in steps for _ in range(2)]
    folder = RunFolder(found.run_uri)
    assert folder.run().dag_id == "catalog_ingest__stars"
    for step in steps:
        assert folder.storage.is_file(RunFolder.report_path(step)), step
    assert not folder.storage.exists("given")


def test_a_spec_may_be_a_file_a_dict_or_a_model(tmp_path: Path, stars: pa.Table) -> None:
    plain = SPEC | {"source": {"uri": f"{tmp_path}/landing/*.parquet", "format": "parquet"}}
    (tmp_path / "stars.yaml").write_text(yaml.safe_dump(plain))
    for spec in (plain, str(tmp_path / "stars.yaml"), CatalogSpec.model_validate(plain)):
        assert hipslake.ingest(spec=spec, warehouse=tmp_path, spark=False).version == 1


WRONG = [
    ({}, "name"),
    (SPEC | {"position": {"ra": "ra", "dec": "ra"}}, "position"),
    (SPEC | {"threshold": "many"}, "threshold"),
    (SPEC | {"colour": "red"}, "colour"),
    (SPEC | {"source": "nowhere"}, "source"),
    (SPEC | {"source": {"format": "excel"}}, "source"),
    (7, "spec: is a int"),
    ("/no/such/stars.yaml", "stars.yaml"),
]


@pytest.mark.parametrize(("spec", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_wrong_spec_is_an_error_of_ours(tmp_path: Path, stars: pa.Table, spec: Any, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        hipslake.ingest(stars, spec=spec, warehouse=tmp_path)
    assert not (tmp_path / "catalogs").exists()


DAY = datetime(2025, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    "start",
    [
        61000,
        61000.0,
        np.int64(61000),
        np.float32(61000),
        "2025-11-21",
        "2025-11-21T00:00:00+00:00",
        date(2025, 11, 21),
        datetime(2025, 11, 21),
        np.datetime64("2025-11-21"),
        Time("2025-11-21", scale="utc"),
        (61000, "2025-11-22"),
    ],
    ids=repr,
)
def test_times_of_all_kinds_are_the_same_interval(start: Any) -> None:
    window = window_of_interval(start)
    assert (window.start, window.end) == (DAY, DAY + timedelta(days=1))


@given(st.floats(15_020, 88_069))
def test_a_number_is_a_modified_julian_date(mjd: float) -> None:
    start = window_of_interval(mjd).start
    assert start is not None
    assert abs(Time(start).mjd - mjd) * 86400 < 2e-3


@pytest.mark.parametrize(
    "interval",
    [
        None,
        True,
        "soon",
        float("nan"),
        1e12,
        2026,
        202611,
        2461000.5,
        (1,),
        (1, 2, 3),
        (61001, 61000),
        (61000, 61000),
        object(),
        [],
    ],
)
def test_what_is_no_interval_is_refused(interval: Any) -> None:
    with pytest.raises(SpecError, match="interval"):
        window_of_interval(interval)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 400), max_size=12), st.integers(1, 50), st.integers(9, 15))
def test_the_same_rows_are_staged_as_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], seed: int, bits: int
) -> None:
    monkeypatch.setattr(given_rows, "_FILE_BYTES", 1 << bits)
    monkeypatch.setattr(given_rows, "_MEASURED_ROWS", 64)
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    rows = pa.table(
        {
            "x": pa.array(rng.normal(size=total), mask=rng.random(total) < 0.3),
            "s": pa.array(rng.choice(["a", "bb", None], total), pa.string()),
        }
    )
    starts = np.cumsum([0, *sizes])
    batches = [
        batch
        for start, size in zip(starts, sizes, strict=False)
        for batch in rows.slice(start, size).to_batches()
    ]
    folder = Storage.at(f"memory://given-{seed}-{total}")
    whole = stage(folder, rows.to_reader())
    cut = stage(folder, pa.RecordBatchReader.from_batches(rows.schema, batches), "other")
    assert whole.digest == cut.digest
    assert len(whole.uris) == len(cut.uris)
    parts = [folder.read(f"other/rows-{number:06d}.parquet") for number in range(len(cut.uris))]
    found = pa.concat_tables(pq.read_table(pa.BufferReader(part)) for part in parts)
    assert found.combine_chunks().equals(rows.combine_chunks())
    assert len(parts) == 1 or total > 64


def test_many_small_batches_and_wide_rows_are_staged_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_rows, "_FILE_BYTES", 4 << 20)
    wide = pa.table({f"c{number}": np.random.default_rng(number).normal(size=5000) for number in range(400)})
    staged = stage(Storage.at(tmp_path), wide.to_reader(max_chunksize=3))
    sizes = [Path(uri).stat().st_size for uri in staged.uris]
    assert len(sizes) >= 4
    assert max(sizes) < 6 << 20
    assert sum(pq.read_metadata(uri).num_rows for uri in staged.uris) == 5000


def test_rows_that_fail_while_they_are_read_are_our_error(tmp_path: Path) -> None:
    def batches() -> Any:
        yield pa.record_batch({"ra": [1.0], "dec": [2.0]})
        raise pa.ArrowInvalid("the line is cut")

    schema = pa.schema([("ra", pa.float64()), ("dec", pa.float64())])
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(HipslakeError, match="the line is cut"):
        hipslake.ingest(reader, spec=SPEC, warehouse=tmp_path)
    assert not list(tmp_path.glob("_runs/*/*/given/**/*.parquet"))


def test_the_warning_is_logged_once(
    tmp_path: Path, stars: pa.Table, caplog: pytest.LogCaptureFixture
) -> None:
    hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "nothing to do" in warnings[0].getMessage()


def test_times_that_are_none_and_masks_of_arrays_are_nulls() -> None:
    rows = np.zeros(3, dtype=[("seen", "M8[us]"), ("took", "m8[s]")])
    rows["seen"] = ["NaT", "2020-01-01", "2021-01-01"]
    rows["took"] = [1, "NaT", 3]
    found = rows_of(rows).read_all()
    assert found["seen"].to_pylist() == [None, datetime(2020, 1, 1), datetime(2021, 1, 1)]
    assert found["took"].to_pylist() == [timedelta(seconds=1), None, timedelta(seconds=3)]
    masked = np.ma.MaskedArray([[1.0, -999.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    found = rows_of(Table({"mag": masked})).read_all()
    assert found["mag"].to_pylist() == [[1.0, None], [3.0, 4.0]]
