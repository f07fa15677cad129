"""Runs of nights are named by the interval that they stand for, once each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.types import DagRunType
from hipslake_airflow.night_timetable import NightTimetable
from pendulum import instance

START = instance(datetime(2026, 10, 1, tzinfo=UTC))


def runs(cron: str, many: int) -> list[tuple[str, DataInterval]]:
    """The ids and intervals of the first runs of a schedule, as the scheduler makes them of a stored DAG."""
    timetable = decode_timetable(encode_timetable(NightTimetable(cron, timezone="UTC")))
    plain = CronDataIntervalTimetable(cron, timezone="UTC")
    found, last = [], None
    for _ in range(many):
        limits = TimeRestriction(earliest=START, latest=None, catchup=True)
        info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=limits)
        assert info == plain.next_dagrun_info(last_automated_data_interval=last, restriction=limits)
        assert info is not None
        last = info.data_interval
        made = timetable.generate_run_id(
            run_type=DagRunType.SCHEDULED, run_after=info.run_after, data_interval=last, partition_key=None
        )
        found.append((made, last))
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("cron", "first"),
    [
        ("0 0 * * *", "scheduled__night_2026-10-01"),
        ("0 12 * * *", "scheduled__night_2026-10-01T12:00:00"),
        ("30 3 * * 1", "scheduled__night_2026-10-05T03:30:00"),
        ("@monthly", "scheduled__night_2026-10-01"),
        ("0 */6 * * *", "scheduled__from_2026-10-01T00:00:00+00:00"),
        ("*/5 * * * *", "scheduled__from_2026-10-01T00:00:00+00:00"),
        ("0 6,18 * * *", "scheduled__from_2026-10-01T06:00:00+00:00"),
        ("0 0,1 * * *", "scheduled__from_2026-10-01T00:00:00+00:00"),
    ],
)
def test_an_id_says_when_the_interval_begins_and_is_of_one_run_only(cron: str, first: str) -> None:
    found = runs(cron, 400)
    ids = [made for made, _ in found]
    assert ids[0] == first
    assert len(set(ids)) == len(ids)
    for made, interval in found:
        assert f"{interval.start:%Y-%m-%d}" in made
    # No id is one that Airflow would have given to any run.
    assert not {f"scheduled__{interval.end.isoformat()}" for _, interval in found} & set(ids)


def test_runs_by_hand_and_by_assets_are_named_as_ever() -> None:
    timetable = NightTimetable("0 0 * * *", timezone="UTC")
    night = DataInterval(START, START + timedelta(days=1))
    known = {"run_after": night.end, "data_interval": night, "partition_key": None}
    made = timetable.generate_run_id(run_type=DagRunType.MANUAL, **known)
    assert made == "manual__2026-10-02T00:00:00+00:00"
    made = timetable.generate_run_id(run_type=DagRunType.ASSET_TRIGGERED, run_after=START, data_interval=None)
    assert made == "asset_triggered__2026-10-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("0 2 * * *", "0 3 * * *"),
        ("@daily", "0 12 * * *"),
        ("0 2 * * *", "30 2 * * *"),
        ("0 3 * * MON", "0 4 * * MON"),
        ("@daily", "@weekly"),
        ("0 5 * * *", "0 4 * * *"),
        ("@hourly", "@daily"),
    ],
)
def test_ids_are_of_one_run_only_where_a_schedule_has_changed(before: str, after: str) -> None:
    """Of a second run with an id that is there, Airflow's scheduler dies."""
    found = dict[str, datetime]()
    for made, interval in [*runs(before, 40), *runs(after, 40)]:
        assert found.setdefault(made, interval.start) == interval.start
