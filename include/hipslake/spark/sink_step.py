"""The sink step of a run: each order of the run becomes a commit, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from hipslake.engine.model import Engine
from hipslake.errors import HipslakeError
from hipslake.spark.sink import sink
from hipslake.specs.table import TableMode
from hipslake.steps.sink import SinkReport, SinkRequest, SunkInterval
from hipslake.storage import Storage
from hipslake.tables.order import CatalogRows, SinkOrder, SinkOutcome
from hipslake.versions.pins import pinning

log = logging.getLogger(__name__)


def run(request: SinkRequest, engine: Engine) -> SinkReport:
    """Sink what a run froze.

    Run again, also after it was killed, it does what is not done yet. An interval that cannot be sunk as it
    is keeps no other out, but in mode upsert, where the later one is to have the last word.

    Raises
    ------
    VersionNotFoundError
        The version of the catalog was vacuumed since the run began.
    HipslakeError
        As of `hipslake.spark.sink.sink`.
    """
    orders = request.orders().orders
    outcomes: list[SinkOutcome] = []
    refused: list[tuple[SinkOrder, HipslakeError]] = []
    with _keeping(orders):
        for order in orders:
            try:
                outcomes.append(sink(order, engine))
            except HipslakeError as error:
                if error.retryable or order.spec.mode is TableMode.UPSERT or len(orders) == 1:
                    raise
                log.error("%s is not sunk: %s", order.key, error)
                refused.append((order, error))
    if refused:
        first, why = refused[0]
        raise type(why)(
            f"{first.key}: {why}. Of {len(orders)} intervals, {len(orders) - len(refused)} are in the "
            f"table, and these are not: {', '.join(order.key for order, _ in refused)}"
        ) from why
    return _report(orders, outcomes)


@contextmanager
def _keeping(orders: Sequence[SinkOrder]) -> Iterator[None]:
    """No vacuum takes the versions that are read while the block runs."""
    versions = {(o.rows.uri, o.rows.version) for o in orders if isinstance(o.rows, CatalogRows)}
    with ExitStack() as stack:
        for uri, version in sorted(versions):
            stack.enter_context(pinning(Storage.at(uri))).hold(version)
        yield


def _report(orders: Sequence[SinkOrder], outcomes: Sequence[SinkOutcome]) -> SinkReport:
    intervals = tuple(_interval(*each) for each in zip(orders, outcomes, strict=True))
    seconds: dict[str, float] = {}
    for outcome in outcomes:
        for phase, value in outcome.seconds.items():
            seconds[phase] = round(seconds.get(phase, 0.0) + value, 4)
    committed = [each for each in outcomes if each.snapshot_id is not None]
    return SinkReport(
        rows_in=sum(each.rows_in for each in outcomes),
        rows_out=sum(each.rows_out for each in outcomes),
        rows_rejected=sum(each.rows_left_out for each in outcomes),
        files=sum(each.files_added for each in outcomes),
        bytes=sum(each.bytes for each in outcomes),
        table=orders[0].spec.table if orders else "",
        location=outcomes[0].location if outcomes else "",
        snapshot_id=committed[-1].snapshot_id if committed else None,
        created=any(each.created for each in outcomes),
        columns_added=", ".join(name for each in outcomes for name in each.columns_added),
        commits=len(committed),
        expected_files=sum(each.expected_files for each in outcomes),
        files_removed=sum(each.files_removed for each in outcomes),
        rows_updated=sum(each.rows_updated for each in outcomes),
        rows_rewritten=sum(each.rows_rewritten for each in outcomes),
        intervals=intervals,
        text="\n".join(_told(each) for each in intervals),
        seconds=seconds,
    )


def _interval(order: SinkOrder, outcome: SinkOutcome) -> SunkInterval:
    return SunkInterval(
        key=order.key,
        start=order.start,
        end=order.end,
        skipped=outcome.skipped,
        snapshot_id=outcome.snapshot_id,
        rows=outcome.rows_out,
        rows_left_out=outcome.rows_left_out,
        rows_updated=outcome.rows_updated,
        rows_rewritten=outcome.rows_rewritten,
        case=outcome.case,
        plan=outcome.plan,
        expected_files=outcome.expected_files,
        files_added=outcome.files_added,
        files_removed=outcome.files_removed,
        bytes=outcome.bytes,
        attempts=outcome.attempts if outcome.snapshot_id is not None else 0,
    )


def _told(interval: SunkInterval) -> str:
    if interval.skipped:
        return f"{interval.key}: these rows are in the table already."
    return f"{interval.key}: {interval.plan}"
