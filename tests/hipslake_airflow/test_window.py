"""The time that a run stands for: what was asked for, never silently another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from airflow.models import DagRun
from airflow.sdk import Context
from hipslake.errors import SpecError
from hipslake.steps.run import Window
from hipslake_airflow.operators.window import window_of

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def window(run_type: str, logical_date: datetime, start: datetime, end: datetime, **params: Any) -> Window:
    run = DagRun(
        dag_id="catalog_ingest__stars",
        run_id="one",
        run_type=run_type,
        logical_date=logical_date,
        data_interval=(start, end),
    )
    return window_of(cast("Context", {"dag_run": run, "params": params}))


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
def test_the_scheduler_says_the_interval_whatever_the_form_says(run_type: str) -> None:
    found = window(run_type, NOON, NOON, NOON + DAY, window_start="2026-01-01T12:00:00")
    assert (found.start, found.end, found.origin) == (NOON, NOON + DAY, "data_interval")


def test_a_run_by_hand_takes_the_window_of_the_form() -> None:
    asked = {"window_start": "2026-01-01T12:00:00", "window_end": "2026-01-02T12:00:00"}
    found = window("manual", NOON + 1.5 * DAY, NOON, NOON + DAY, **asked)
    first = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert (found.start, found.end, found.origin) == (first, first + DAY, "params")


def test_a_run_by_hand_takes_the_interval_that_ended_last() -> None:
    found = window("manual", NOON + 1.5 * DAY, NOON, NOON + DAY, window_start=None)
    assert (found.start, found.end) == (NOON, NOON + DAY)


def test_a_logical_date_that_airflow_did_not_heed_is_told() -> None:
    with pytest.raises(
        SpecError, match=r"triggered for 2026-11-17T12:00:00.* the interval from 2026-11-20T12"
    ):
        window("manual", NOON - 3 * DAY, NOON, NOON + DAY)


def test_without_a_schedule_the_logical_date_says_the_time() -> None:
    now = NOON + 9 * DAY
    assert window("manual", NOON, now, now).start == NOON
