"""Rows and files become catalogs without Airflow and Spark, and the same ones as the DAG makes."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from hipslake.api.given_rows import format_of
from hipslake.api.ingesting import ingested
from hipslake.errors import (
    EmptySourceError,
    SourceNotFoundError,
    SpecError,
)
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep.old_runs import old_runs
from hipslake.storage.folder import Storage
from hipslake_airflow.web.catalog_store import CatalogStore

from tests.api.published_files import data_files
from tests.api.stars_spec import SPEC
from tests.steps import in_process
from tests.steps.nights import night_rows

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
@pytest.mark.sampled(4)
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
    assert format_of(["a.avro", "b.AVRO"]) == "avro"


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
    assert FrozenRun.of(folder).dag_id == "catalog_ingest__stars"
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


def test_the_warning_is_logged_once(
    tmp_path: Path, stars: pa.Table, caplog: pytest.LogCaptureFixture
) -> None:
    hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "nothing to do" in warnings[0].getMessage()
