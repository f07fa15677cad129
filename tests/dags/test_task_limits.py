"""Nothing that a form or a landing holds keeps a task at work for ever."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hipslake.catalog import moc_files
from hipslake.catalog.moc_files import region_of
from hipslake.errors import PathError, RegionError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.given_files import check_region
from hipslake.storage.folder import Storage
from hipslake_airflow.retries import RETRIES, task_limit

from tests.dags.dag_runs import Load


@contextmanager
def within(seconds: int) -> Iterator[None]:
    def over(*_: object) -> None:
        raise AssertionError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_every_task_of_every_dag_has_an_end(load: Load, stars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("hipslake_airflow.pipelines.catalog_ingest.ingest_params", fails)
    dags = load()
    assert [dag.dag_id for dag in dags.values() if "failing" in dag.tags] == ["catalog_ingest__stars"]
    without = [
        f"{dag.dag_id}.{task.task_id}"
        for dag in dags.values()
        for task in dag.tasks
        if not task.execution_timeout or task.execution_timeout > timedelta(hours=24)
    ]
    assert without == []


@pytest.mark.parametrize(
    ("said", "hours"), [("", 24), ("2.5", 2.5), ("0", 24), ("-1", 24), ("inf", 24), ("nan", 24), ("soon", 24)]
)
def test_the_deployment_says_how_long_a_task_may_work(
    monkeypatch: pytest.MonkeyPatch, said: str, hours: float
) -> None:
    monkeypatch.setenv("HIPSLAKE_TASK_HOURS", said)
    assert task_limit() == timedelta(hours=hours)


FIELDS: dict[str, dict[str, Any]] = {
    "catalogs/stars": {
        "source": {"uri": "/data/*.parquet", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec"},
    },
    "joins/pairs": {
        "type": "crossmatch",
        "left": {"catalog": "a"},
        "right": {"catalog": "b"},
        "radius_arcsec": 1,
    },
    "tables/sunk": {"source": {"catalog": "stars"}, "table": "sky.stars"},
    "tables/packed": {
        "type": "compaction",
        "table": "sky.stars",
        "mode": "hilbert",
        "columns": ["ra", "dec"],
    },
    "cubes/sky": {
        "dimension_columns": ["x"],
        "partition_columns": ["p"],
        "seed": "base",
        "datasets": {"base": {"catalog": "stars"}},
    },
}


@pytest.mark.parametrize(
    ("said", "deployment", "hours"), [(0.5, "24", 0.5), (48, "24", 24), (48, "72", 48), (None, "2", 2)]
)
def test_a_spec_says_how_long_its_tasks_may_work(
    load: Load,
    specs: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: float | None,
    deployment: str,
    hours: float,
) -> None:
    monkeypatch.setenv("HIPSLAKE_TASK_HOURS", deployment)
    monkeypatch.setitem(RETRIES, "execution_timeout", task_limit())
    for name, fields in FIELDS.items():
        path = specs.parent / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        more = {} if said is None else {"task_hours": said}
        path.write_text(yaml.safe_dump({"name": path.stem, **fields, **more}))
    dags = load()
    assert [dag.doc_md for dag in dags.values() if "failing" in dag.tags] == []
    made = (
        "catalog_ingest__stars",
        "catalog_crossmatch__pairs",
        "iceberg_sink__sunk",
        "table_compact__packed",
    )
    for dag_id in (*made, "cube_build__sky", "cube_align__sky", "catalog_rollback__stars"):
        limits = {task.execution_timeout for task in dags[dag_id].tasks}
        assert limits == {timedelta(hours=hours)}, dag_id


@pytest.mark.parametrize("said", ["0", "-1", ".inf", ".nan", "9000", "soon"])
def test_hours_that_are_none_are_refused(told: Callable[[], str], specs: Path, said: str) -> None:
    text = yaml.safe_dump({"name": "stars", **FIELDS["catalogs/stars"]})
    (specs / "stars.yaml").write_text(f"{text}task_hours: {said}\n")
    assert "task_hours" in told()


def test_how_long_tasks_may_work_makes_no_other_version(tmp_path: Path) -> None:
    fields = {"name": "stars", **FIELDS["catalogs/stars"]}
    one, other = (CatalogSpec.model_validate({**fields, "task_hours": hours}) for hours in (None, 3))
    assert one.fingerprint_text() == other.fingerprint_text()
    assert "task_hours" not in one.fingerprint_text()


def test_a_region_that_is_a_device_or_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for place in ("/dev/zero", "/dev/stdin", f"{tmp_path}/pipe", f"{tmp_path}/link", f"{tmp_path}", "/proc"):
        with within(10), pytest.raises(RegionError):
            region_of(f"moc {place}")


def test_a_region_of_a_file_without_measure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moc_files, "MOST_BYTES", 1 << 20)
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(1 << 40)  # nothing of it is on the disk
    with within(10), pytest.raises(RegionError, match="more than 1 MiB"):
        region_of(f"moc {tmp_path}/large.txt")


def test_a_store_is_read_as_far_as_it_may_be() -> None:
    place = Storage.at("memory://limits")
    place.write("x", b"a" * 100)
    assert place.read_plain("x", 100) == b"a" * 100
    with pytest.raises(PathError):
        place.read_plain("x", 99)


def test_a_form_names_files_of_the_landing_and_the_warehouse_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_LANDING", str(tmp_path / "landing"))
    monkeypatch.delenv("HIPSLAKE_INPUTS", raising=False)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "link").symlink_to("/etc")
    warehouse = str(tmp_path / "warehouse")
    files = (f"moc {tmp_path}/landing/a.fits", f"moc {warehouse}/a.fits")
    for allowed in (*files, "moc 3/1", "cone 1 2 3deg", None):
        check_region(allowed, warehouse)
    landing = tmp_path / "landing"
    elsewhere = ("/etc/passwd", f"{landing}/link/passwd", f"{landing}/../x", "s3://b/x", "file:///x")
    for place in elsewhere:
        with pytest.raises(RegionError, match="forms do not read"):
            check_region(f"moc {place}", warehouse)
    monkeypatch.setenv("HIPSLAKE_INPUTS", "s3://b/public /etc")
    check_region("moc s3a://b/public/x", warehouse)
    check_region("MOC  /etc/passwd", warehouse)
    with pytest.raises(RegionError, match="forms do not read"):
        check_region(f"moc {tmp_path}/landing/a.fits", warehouse)
