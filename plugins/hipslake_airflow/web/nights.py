"""The intervals of a catalog that grows: which are in it, which are late, failed, empty or missing. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from hipslake.specs.base import Frozen
from pendulum import instance

from hipslake_airflow.web.runs import NightRun

MOST_NIGHTS = 1000
LATE_AFTER = timedelta(hours=1)
"""How long after its end an interval may take before it is late, where the spec gives no deadline."""


class NightState(StrEnum):
    """How an interval stands."""

    IN = "in"  # its rows are in the newest version
    REPLACED = "replaced"  # they are, and took the place of earlier ones
    EMPTY = "empty"  # its run went well, and there were no files, or no rows
    FAILED = "failed"
    RUNNING = "running"  # or waiting for its files
    LATE = "late"  # the same, or due, for too long
    DUE = "due"  # its time has come, and no run has begun yet
    MISSING = "missing"  # no run, though there are later ones


class NightIncrement(NamedTuple):
    """What a version says of an interval's rows."""

    start: datetime
    end: datetime | None
    rows: int
    rejected: int
    ordinal: int
    version: int | None  # that brought them, as far as it is known
    times: int  # how often rows of the interval came


class Night(Frozen):
    """An interval of a catalog that grows."""

    start: datetime
    end: datetime | None
    label: str
    state: NightState
    rows: int | None
    rejected: int | None
    ordinal: int | None
    version: int | None
    times: int
    runs: tuple[NightRun, ...]  # newest first


def nights(
    increments: Iterable[NightIncrement],
    runs: Iterable[NightRun],
    expected: Sequence[tuple[datetime, datetime]],
    now: datetime,
    late_after: timedelta = LATE_AFTER,
    most: int = MOST_NIGHTS,
) -> list[Night]:
    """The intervals that there are, or should be; ascending, the newest ones if there are too many.

    Parameters
    ----------
    increments : iterable of NightIncrement
        Of the newest version.
    runs : iterable of NightRun
        Of the DAG that ingests; those without an interval are left out.
    expected : sequence of (datetime, datetime)
        The intervals of the schedule whose end has come.
    now : datetime
    late_after : timedelta
        How long after its end an interval is late.
    most : int
    """
    came = {each.start: each for each in increments}
    started: dict[datetime, list[NightRun]] = defaultdict(list)
    for run in runs:
        if run.interval_start is not None:
            started[run.interval_start].append(run)
    ends = dict(expected)
    starts = sorted({*came, *started, *ends})[-most:]
    last_begun = max([*came, *started], default=None)
    found = []
    for start in starts:
        increment = came.get(start)
        its = sorted(started.get(start, ()), key=lambda run: run.number, reverse=True)
        known = [increment.end if increment else None, ends.get(start), *(run.interval_end for run in its)]
        end = next((each for each in known if each is not None), None)
        late = end is not None and now > end + late_after
        passed = last_begun is not None and start < last_begun
        found.append(
            Night(
                start=start,
                end=end,
                label=label_of(start, end),
                state=_state(increment, its, late=late, passed=passed),
                rows=increment.rows if increment else None,
                rejected=increment.rejected if increment else None,
                ordinal=increment.ordinal if increment else None,
                version=increment.version if increment else None,
                times=increment.times if increment else 0,
                runs=tuple(its),
            )
        )
    return found


def label_of(start: datetime, end: datetime | None) -> str:
    """What people call an interval: its day, its month, or when it begins.

    Examples
    --------
    >>> day = datetime(2026, 10, 1, tzinfo=UTC)
    >>> label_of(day, datetime(2026, 10, 2, tzinfo=UTC)), label_of(day, datetime(2026, 11, 1, tzinfo=UTC))
    ('2026-10-01', '2026-10')
    """
    begin = start.astimezone(UTC)
    at_midnight = begin.hour == begin.minute == 0
    days = None if end is None else (end - start) / timedelta(days=1)
    if at_midnight and begin.day == 1 and end is not None and end.astimezone(UTC).day == 1 and days != 1:
        return f"{begin:%Y-%m}"
    if at_midnight or days == 1:
        return f"{begin:%Y-%m-%d}"
    return f"{begin:%Y-%m-%d %H:%M}"


def intervals_of(
    cron: str, first: datetime, now: datetime, most: int = MOST_NIGHTS
) -> list[tuple[datetime, datetime]]:
    """The intervals of a schedule from one that begins at or after a time, as far as they have ended.

    Parameters
    ----------
    cron : str
        Five fields, or a preset; in UTC.
    first, now : datetime
    most : int
        The newest ones, if there are more.
    """
    from airflow.timetables.interval import CronDataIntervalTimetable

    timetable = CronDataIntervalTimetable(cron, "UTC")
    found: list[tuple[datetime, datetime]] = []
    after = now
    while len(found) < most:
        interval = timetable.infer_manual_data_interval(run_after=instance(after))
        if interval.start < first:
            break
        found.append((interval.start, interval.end))
        after = interval.start
    return found[::-1]


def _state(
    increment: NightIncrement | None, runs: Sequence[NightRun], *, late: bool, passed: bool
) -> NightState:
    newest = runs[0].state if runs else None
    if newest in ("running", "queued"):
        return NightState.LATE if late and increment is None else NightState.RUNNING
    if increment is not None:
        if newest == "failed":  # of a later try to replace it
            return NightState.FAILED
        if increment.times > 1:
            return NightState.REPLACED
        return NightState.IN if increment.rows else NightState.EMPTY
    if newest == "failed":
        return NightState.FAILED
    if newest == "success":
        return NightState.EMPTY
    if passed:
        return NightState.MISSING
    return NightState.LATE if late else NightState.DUE
