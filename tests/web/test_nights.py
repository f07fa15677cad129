"""The calendar of nights: how each interval stands, and what people call it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hipslake_airflow.web.nights import NightIncrement, NightState, intervals_of, label_of, nights
from hipslake_airflow.web.runs import NightRun

DAY = timedelta(days=1)
FIRST = datetime(2026, 10, 1, tzinfo=UTC)
NOW = FIRST + 10 * DAY + timedelta(hours=3)


def came(day: int, rows: int = 5, times: int = 1) -> NightIncrement:
    start = FIRST + day * DAY
    return NightIncrement(start, start + DAY, rows, 0, day, day + 1, times)


def ran(day: int | None, state: str, number: int = 1) -> NightRun:
    start = None if day is None else FIRST + day * DAY
    return NightRun(
        dag_id="d", run_id=f"r{number}", number=number, state=state, start=None, end=None,
        interval_start=start, interval_end=None if start is None else start + DAY,
    )  # fmt: skip


def states(*given: Any, expected: int = 10, **more: Any) -> list[NightState]:
    increments = [each for each in given if isinstance(each, NightIncrement)]
    runs = [each for each in given if isinstance(each, NightRun)]
    due = [(FIRST + day * DAY, FIRST + (day + 1) * DAY) for day in range(expected)]
    return [each.state for each in nights(increments, runs, due, NOW, **more)]


def test_each_interval_of_the_schedule_stands_as_its_runs_and_rows_say() -> None:
    found = states(
        came(0),
        came(1, times=2),
        ran(1, "success"),
        ran(2, "failed"),
        ran(3, "success"),
        came(4, rows=0),
        came(5),
        ran(5, "failed", 7),
        ran(5, "success", 6),
        ran(7, "running"),
        ran(8, "queued"),
    )
    assert found == [
        "in", "replaced", "failed", "empty", "empty", "failed", "missing", "late", "late", "late",
    ]  # fmt: skip


def test_a_later_run_of_an_interval_makes_good_for_a_failed_one() -> None:
    assert states(ran(0, "failed", 1), ran(0, "success", 2), came(0), expected=1) == ["in"]
    assert states(ran(0, "success", 1), ran(0, "failed", 2), expected=1) == ["failed"]


def test_a_night_is_late_only_after_its_time() -> None:
    (fresh,) = states(ran(9, "running"), expected=0, late_after=timedelta(hours=5))
    (late,) = states(ran(9, "running"), expected=0, late_after=timedelta(hours=1))
    assert (fresh, late) == ("running", "late")
    last = nights([came(0)], [], [(FIRST + 9 * DAY, FIRST + 10 * DAY)], NOW, timedelta(hours=5))[-1]
    assert last.state == "due"


def test_a_catalog_without_a_schedule_has_the_nights_that_there_are() -> None:
    assert states(came(3), ran(1, "failed"), ran(None, "success"), expected=0) == ["failed", "in"]


def test_the_newest_nights_are_kept_and_tell_rows_and_runs() -> None:
    found = nights(
        [came(day) for day in range(9)], [ran(8, "success", 4), ran(8, "failed", 3)], [], NOW, most=4
    )
    assert [each.label for each in found] == [f"2026-10-0{day}" for day in (6, 7, 8, 9)]
    assert (found[-1].rows, found[-1].version, found[-1].end) == (5, 9, FIRST + 9 * DAY)
    assert [run.number for run in found[-1].runs] == [4, 3]


@pytest.mark.parametrize(
    ("cron", "step"),
    [("@daily", DAY), ("30 2 * * *", DAY), ("0 * * * *", timedelta(hours=1)), ("0 0 * * 0", 7 * DAY)],
)
def test_intervals_follow_each_other_up_to_now(cron: str, step: timedelta) -> None:
    found = intervals_of(cron, FIRST, NOW)
    assert found[0][0] >= FIRST
    assert found[0][0] - step < FIRST
    assert all(end == start + step for start, end in found)
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert NOW - step < found[-1][1] <= NOW
    assert intervals_of(cron, FIRST, NOW, most=3) == found[-3:]


@pytest.mark.parametrize(
    ("start", "end", "label"),
    [
        (FIRST, FIRST + DAY, "2026-10-01"),
        (FIRST, None, "2026-10-01"),
        (FIRST, datetime(2026, 11, 1, tzinfo=UTC), "2026-10"),
        (FIRST + timedelta(hours=12), FIRST + timedelta(hours=36), "2026-10-01"),
        (FIRST + timedelta(hours=5), FIRST + timedelta(hours=6), "2026-10-01 05:00"),
        (FIRST, FIRST + 7 * DAY, "2026-10-01"),
    ],
)
def test_labels_are_what_people_call_an_interval(start: datetime, end: datetime | None, label: str) -> None:
    assert label_of(start, end) == label
