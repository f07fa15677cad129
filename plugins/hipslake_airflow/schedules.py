"""When a DAG runs whose outcome is made of what other DAGs publish."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.sdk import Asset, AssetAny, CronTriggerTimetable
from hipslake.specs.schedule import MANUAL


def schedule_of(given: str | None, follows: Iterable[Asset], *, timetable: Any = CronTriggerTimetable) -> Any:
    """Return what Airflow takes for a schedule.

    Runs that events start are level-triggered: whichever event it was, and however many came together, a run
    looks at the newest versions, and does nothing if its outcome was made of them.

    Parameters
    ----------
    given : str or None
        Of the spec: a cron expression, `manual`, or None to follow.
    follows : iterable of Asset
        A new event of any of them starts a run. None of them: by hand.
    timetable : type
        Of the cron expression, in UTC: one that gives runs an interval, where they need one.
    """
    if given == MANUAL:
        return None
    if given:
        return timetable(given, timezone="UTC")
    assets = {asset.name: asset for asset in follows}
    return AssetAny(*assets.values()) if assets else None


def when(given: str | None, after: str) -> str:
    """Say when a DAG runs, for the page about it; `after` names what it follows, empty if nothing."""
    if given == MANUAL or not (given or after):
        return "by hand only"
    return f"by the schedule `{given}` (UTC)" if given else f"after {after}"
