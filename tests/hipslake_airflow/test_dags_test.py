"""The last lines of `airflow dags test`: what was published, why nothing was, or what failed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from hipslake import Catalog
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder
from hipslake_airflow import dags_test
from hipslake_airflow.dags_test import RunOutcome, told_at_the_end
from hipslake_airflow.operators.catalog import FreezeInputsOperator, PublishCatalogOperator

from tests.steps import in_process


class _Events(dict):  # type: ignore[type-arg]
    """Takes what is said of any asset."""

    def __missing__(self, key: object) -> object:
        return SimpleNamespace(extra=None)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    in_process.write_source(tmp_path / "landing")
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    return in_process.start(tmp_path / "warehouse", spec)


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> RunOutcome:
    """That of a process that runs `airflow dags test`."""
    fresh = RunOutcome()
    monkeypatch.setattr(sys, "argv", ["/bin/airflow", "dags", "test", "catalog_ingest__stars"])
    monkeypatch.setattr(dags_test, "_OUTCOME", fresh)
    monkeypatch.setattr(dags_test.atexit, "register", lambda told: told)
    return fresh


def context() -> Any:
    pushed = SimpleNamespace(xcom_push=lambda **_: None)
    run = SimpleNamespace(dag_id="catalog_ingest__stars", run_id="first")
    return {"dag_run": run, "ti": pushed, "outlet_events": _Events()}


def execute(operator: Any) -> None:
    operator.execute.__wrapped__(operator, context())


def publish(folder: RunFolder) -> None:
    execute(PublishCatalogOperator(task_id="publish", run_uri=folder.uri, catalog="stars"))


def test_what_was_published_is_told_as_the_catalog_has_it(folder: RunFolder, outcome: RunOutcome) -> None:
    for step in (in_process.freeze, in_process.count, in_process.make_plan, in_process.write_leaves):
        step(folder)
    in_process.check(folder)
    publish(folder)
    publish(folder)  # a retry tells it once
    catalog = Catalog.open(FrozenRun.of(folder).catalog_uri)
    (group,) = catalog.metadata.groups
    told = dict(line.split(maxsplit=1) for line in outcome.lines()[1:])
    assert outcome.lines()[0] == "hipslake: catalog_ingest__stars, run first, ended well"
    assert told == {
        "published": "catalog stars, version 1",
        "rows": f"{len(catalog.read()):,}",
        "partitions": str(group.leaves),
        "size": f"{catalog.metadata.total_bytes / (1 << 20):,.1f} MiB in {group.files} files",
        "uri": FrozenRun.of(folder).catalog_uri,
        "reports": f"{folder.uri}/reports",
    }


def test_a_run_with_nothing_to_do_says_why(folder: RunFolder, outcome: RunOutcome, tmp_path: Path) -> None:
    in_process.ingest(folder)
    again = in_process.start(tmp_path / "warehouse", tmp_path / "stars.yaml", "second")
    with pytest.raises(AirflowSkipException):
        execute(FreezeInputsOperator(task_id="inputs", run_uri=again.uri))
    lines = "\n".join(outcome.lines())
    assert "ended well" in lines
    assert "published       nothing" in lines
    assert "skipped inputs  Version 1 was made of exactly these files" in lines


def test_what_failed_is_told_unless_a_later_try_went_well(folder: RunFolder, outcome: RunOutcome) -> None:
    with pytest.raises(AirflowFailException):
        publish(folder)
    lines = "\n".join(outcome.lines())
    assert "run first, failed" in lines
    assert "failed in publish" in lines
    for step in (in_process.freeze, in_process.count, in_process.make_plan, in_process.write_leaves):
        step(folder)
    in_process.check(folder)
    publish(folder)
    assert "ended well" in outcome.lines()[0]


def test_other_processes_keep_nothing(folder: RunFolder, outcome: RunOutcome, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/airflow", "scheduler"])
    with pytest.raises(AirflowFailException):
        publish(folder)
    with pytest.raises(ValueError, match="x"), told_at_the_end("task", context()):
        raise ValueError("x")
    assert outcome == RunOutcome()
