"""Metrics of steps, and of what they commit, through Airflow's own: StatsD, Datadog or OpenTelemetry.

Whatever `[metrics]` of Airflow's configuration says holds for them too. Where the receiver knows tags, these
say which DAG, step, catalog, table or cube a number is of; for a plain StatsD the names of metrics do.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats

if TYPE_CHECKING:
    from hipslake.steps.committed import CommittedVersion
    from hipslake.steps.report import Report

STEP = "hipslake.step"
COUNTED = ("rows_in", "rows_out", "rows_rejected", "rows_superseded", "bytes", "files")
"""Fields of a report that are added to counters."""
HELD = ("rows", "bytes", "files", "partitions")
"""What a version holds, as gauges."""
_SENDING = ("statsd_on", "statsd_datadog_enabled", "otel_on")


def are_sent() -> bool:
    """Whether Airflow sends metrics at all."""
    return any(conf.getboolean("metrics", name, fallback=False) for name in _SENDING)


def send_step(report: Report, dag_id: str) -> None:
    """Send the metrics of a step that succeeded.

    Nothing of a report that was taken over from an earlier attempt: that attempt has sent it.

    Parameters
    ----------
    report : Report
    dag_id : str
    """
    if report.reused:
        return
    of_step = {"dag_id": dag_id, "step": report.step}
    for name in COUNTED:
        stat, tags = _named(STEP, of_step, name)
        stats.incr(stat, int(getattr(report, name)), tags=tags)
    stat, tags = _named(STEP, of_step, "duration")
    stats.timing(stat, timedelta(seconds=sum(report.seconds.values())), tags=tags)


def send_committed(committed: CommittedVersion) -> None:
    """Send what the version holds that a step has committed."""
    for name in HELD:
        value = getattr(committed, name)
        if value is not None:
            stat, tags = _named(f"hipslake.{committed.kind}", {committed.kind: committed.name}, name)
            stats.gauge(stat, value, tags=tags)


def _named(prefix: str, of: dict[str, str], name: str) -> tuple[str, dict[str, Any] | None]:
    """The name of a metric and its tags; dots in a name would be levels of it."""
    if _tags_are_known():
        return f"{prefix}.{name}", dict(of)
    levels = (stats.normalize_name_for_stats(each.replace(".", "__"), False) for each in of.values())
    return ".".join([prefix, *levels, name]), None


def _tags_are_known() -> bool:
    """Whether the receiver of metrics takes tags; asked in the order in which Airflow picks a receiver."""
    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return conf.getboolean("metrics", "statsd_datadog_metrics_tags", fallback=True)
    if conf.getboolean("metrics", "statsd_on", fallback=False):
        return conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False)
    return conf.getboolean("metrics", "otel_on", fallback=False)
