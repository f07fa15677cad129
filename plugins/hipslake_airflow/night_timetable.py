"""The schedule of nights: a cron timetable whose runs are named by the interval that they stand for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.timetables.base import DataInterval
from airflow.timetables.interval import CronDataIntervalTimetable

_A_DAY = timedelta(days=1)


class NightTimetable(CronDataIntervalTimetable):
    """Data intervals by a cron expression, each run with an id that says when its interval begins.

    Airflow's own ids say when a run may start, which is the end of its interval: the run of the night of
    October 1 would have October 2 in its id. Of a day or longer it is `scheduled__night_2026-10-01`, the date
    that `{{ night }}` is, with the time if that is not midnight; of shorter ones
    `scheduled__from_2026-10-01T06:00:00+00:00`. No id of before can be one of these. Runs of a backfill are
    named by Airflow itself; `run_notes` tells which night they are.
    """

    def generate_run_id(
        self, *, run_type: Any, run_after: Any, data_interval: DataInterval | None, **extra: Any
    ) -> str:
        """Return the id of a run; of one started by hand, whose form names its interval, Airflow's."""
        if data_interval is None or run_type.value == "manual":
            return super().generate_run_id(
                run_type=run_type, run_after=run_after, data_interval=data_interval, **extra
            )
        start, end = data_interval
        if end - start < _A_DAY:
            return run_type.generate_run_id(suffix=f"from_{start.isoformat()}")
        # Of two runs with one id Airflow's scheduler dies, and a schedule that moves to later in the day
        # begins with a night of the same date: so the time is part of the id.
        midnight = (start.hour, start.minute, start.second) == (0, 0, 0)
        return run_type.generate_run_id(
            suffix=f"night_{start:%Y-%m-%d}" if midnight else f"night_{start:%Y-%m-%dT%H:%M:%S}"
        )
