"""Metrics: what a real StatsD socket gets of steps, and of the versions that they commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.request import PublishReport
from hipslake.steps.report import Report
from hipslake.steps.run import RunFolder
from hipslake_airflow import metrics
from hipslake_airflow.operators.catalog import PublishCatalogOperator

from tests.receivers import statsd
from tests.steps import in_process


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run that has been verified."""
    in_process.write_source(tmp_path / "landing")
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    folder = in_process.start(tmp_path / "warehouse", spec)
    for step in (in_process.freeze, in_process.count, in_process.make_plan, in_process.write_leaves):
        step(folder)
    in_process.check(folder)
    return folder


class _Events(dict):  # type: ignore[type-arg]
    """Takes what is said of any asset."""

    def __missing__(self, key: object) -> object:
        return type("Event", (), {"extra": None})()


def publish(folder: RunFolder) -> PublishCatalogOperator:
    operator = PublishCatalogOperator(task_id="publish", run_uri=folder.uri, catalog="stars")
    operator.execute.__wrapped__(operator, {"outlet_events": _Events()})  # type: ignore[attr-defined]
    return operator


def test_a_publish_tells_what_the_step_did_and_what_the_version_holds(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with statsd(monkeypatch) as receiver:
        operator = publish(folder)
        found = receiver.received()
    metadata = Catalog.open(FrozenRun.of(folder).catalog_uri).metadata
    step = f"airflow.hipslake.step.{operator.dag_id}.publish"
    duration = found.pop(f"{step}.duration")
    assert [each.endswith("|ms") for each in duration] == [True]
    assert found == {
        f"{step}.rows_in": ["3000|c"],
        f"{step}.rows_out": ["3000|c"],
        f"{step}.rows_rejected": ["0|c"],
        f"{step}.rows_superseded": ["0|c"],
        f"{step}.bytes": [f"{metadata.total_bytes}|c"],
        f"{step}.files": [f"{metadata.groups[0].files}|c"],
        "airflow.hipslake.catalog.stars.rows": ["3000|g"],
        "airflow.hipslake.catalog.stars.bytes": [f"{metadata.total_bytes}|g"],
        "airflow.hipslake.catalog.stars.files": [f"{metadata.groups[0].files}|g"],
        "airflow.hipslake.catalog.stars.partitions": [f"{metadata.groups[0].leaves}|g"],
    }


def test_receivers_that_know_tags_get_names_without_values(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with statsd(monkeypatch, statsd_influxdb_enabled="True") as receiver:
        dag_id = publish(folder).dag_id
        found = receiver.received()
    assert found["airflow.hipslake.catalog.rows,catalog=stars"] == ["3000|g"]
    assert found[f"airflow.hipslake.step.rows_out,dag_id={dag_id},step=publish"] == ["3000|c"]


def test_a_step_that_is_taken_over_is_not_counted_twice(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(folder)
    with statsd(monkeypatch) as receiver:
        publish(folder)
        found = receiver.received()
    assert {name.rpartition(".")[2] for name in found} == set(metrics.HELD)
    assert all(told[0].endswith("|g") for told in found.values())


def test_a_step_that_commits_nothing_tells_of_itself_only(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with statsd(monkeypatch) as receiver:
        metrics.send_step(Report(step="plan", rows_in=3, rows_rejected=1), "a.dag with blanks")
        found = receiver.received()
    assert found["airflow.hipslake.step.a__dag_with_blanks.plan.rows_rejected"] == ["1|c"]
    assert len(found) == len(metrics.COUNTED) + 1


def test_a_version_that_cannot_be_read_costs_its_metrics_and_not_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = PublishCatalogOperator(task_id="publish", run_uri=str(tmp_path), catalog="stars")
    report = PublishReport(version=7, catalog_uri=str(tmp_path / "nowhere"))
    with statsd(monkeypatch) as receiver:
        assert operator.push_report(lambda: report)["version"] == 7
        found = receiver.received()
    assert len(found) == len(metrics.COUNTED) + 1


def test_nothing_is_sent_where_airflow_sends_no_metrics() -> None:
    assert not metrics.are_sent()
