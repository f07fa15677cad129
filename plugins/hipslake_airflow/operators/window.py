"""The time window of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

if TYPE_CHECKING:
    from hipslake.steps.run import Window


def wait_of(params: Mapping[str, Any]) -> float:
    """Return for how many minutes a run waits for its files.

    Raises
    ------
    SpecError
        If it is no time that could pass: JSON as Python reads it knows NaN, and no bound keeps that out.
    """
    from hipslake.errors import SpecError

    minutes = float(params.get("wait_minutes", 60))
    if not math.isfinite(minutes):
        raise SpecError(f"wait_minutes: {minutes} is no number of minutes; give one from 0 on")
    return minutes


def window_of(context: Context) -> Window:
    """Return the time window of a run, from its context.

    Airflow gives a run that was triggered by hand the last interval that had ended, though nobody asked for
    it; so there, a window in the form goes before it.

    Raises
    ------
    SpecError
        If the run was triggered for a logical date, but got an interval that begins after it: as
        `airflow dags trigger --logical-date` does, which looks at the clock.
    """
    from hipslake.errors import SpecError
    from hipslake.steps.ingest.resolve import resolve_window

    run = context["dag_run"]
    params: Mapping[str, Any] = context["params"]
    given = (params.get("window_start"), params.get("window_end"))
    start, end, asked = run.data_interval_start, run.data_interval_end, run.logical_date
    if run.run_type == "manual" and given[0]:
        start = end = None
    elif run.run_type == "manual" and start is not None and asked is not None and asked < start:
        if start != end:
            raise SpecError(
                f"the run was triggered for {asked.isoformat()}, but Airflow gave it the interval from "
                f"{start.isoformat()} on; give window_start and window_end in the form or in --conf"
            )
        start = end = asked  # without a schedule it gives the present moment
    return resolve_window(
        partition_key=getattr(run, "partition_key", None), interval=(start, end), given=given
    )
