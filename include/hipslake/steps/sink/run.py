"""The sink step of a run: each order of the run becomes a commit, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from hipslake.engine.model import Engine
from hipslake.errors import HipslakeError
from hipslake.specs.table_writing import TableMode
from hipslake.steps.sink.request import (
    RefusedInterval,
    SinkReport,
    SinkRequest,
    SunkInterval,
    describe_landed,
    describe_refused,
)
from hipslake.steps.sink.sink_table import sink
from hipslake.storage.folder import Storage
from hipslake.tables.sink_order import SinkOrder, SinkOutcome, VersionRows
from hipslake.versions.pins import keep_for_reading

log = logging.getLogger(__name__)

_SUMS = (
    "rows_in",
    "rows_out",
    "delete_records",
    "bytes",
    "expected_files",
    "files_removed",
    "delete_files",
    "rows_updated",
    "rows_deleted",
    "missing_deletes",
    "outdated",
    "rows_rewritten",
)


def run(request: SinkRequest, engine: Engine) -> SinkReport:
    """Sink what a run froze.

    Run again, also after it was killed, it does what is not done yet. An interval that cannot be sunk as it
    is keeps no other out, but in mode upsert, where the later one is to have the last word: there those
    behind it are left for another run. The report names them; only where nothing landed is it an error.

    Raises
    ------
    VersionNotFoundError
        The version of the catalog was vacuumed since the run began.
    HipslakeError
        As of `hipslake.steps.sink.sink_table.sink`.
    """
    orders = request.orders().orders
    landed: list[tuple[SinkOrder, SinkOutcome]] = []
    refused: list[tuple[SinkOrder, HipslakeError]] = []
    left = list(orders)
    with _keeping(orders):
        while left and not (refused and _in_turn(refused[0][0])):
            order = left.pop(0)
            try:
                landed.append((order, sink(order, engine)))
            except HipslakeError as error:
                if len(orders) == 1:
                    raise
                if error.retryable:
                    raise _cut_short(error, order, landed, left) from error
                log.error("%s is not sunk: %s", order.key, error)
                refused.append((order, error))
    report = _report(landed, [*(_refused(*each) for each in refused), *map(_refused, left)])
    if refused and not landed:
        raise type(refused[0][1])(describe_refused((), report.refused)) from refused[0][1]
    return report


def _in_turn(order: SinkOrder) -> bool:
    """Whether intervals have to be sunk in the order of time: the later one has the last word."""
    return order.spec.mode is TableMode.UPSERT


def _cut_short(
    error: HipslakeError,
    order: SinkOrder,
    landed: Sequence[tuple[SinkOrder, SinkOutcome]],
    left: Sequence[SinkOrder],
) -> HipslakeError:
    """An error that may pass, with what the run had done by then."""
    return type(error)(
        f"{order.key}: {error}. Of {len(landed) + 1 + len(left)} intervals, {len(landed)} are in the table; "
        "a retry begins with this one"
    )


def _refused(order: SinkOrder, error: HipslakeError | None = None) -> RefusedInterval:
    """An order that was refused; without an error, one that was not tried."""
    kind, message = (type(error).__name__, str(error)) if error else ("", "")
    return RefusedInterval(key=order.key, start=order.start, end=order.end, kind=kind, message=message)


@contextmanager
def _keeping(orders: Sequence[SinkOrder]) -> Iterator[None]:
    """No vacuum takes the versions that are read while the block runs."""
    versions = {(o.rows.uri, o.rows.version) for o in orders if isinstance(o.rows, VersionRows)}
    with ExitStack() as stack:
        for uri, version in sorted(versions):
            keep_for_reading(stack, Storage.at(uri), version)
        yield


def _report(
    landed: Sequence[tuple[SinkOrder, SinkOutcome]], refused: Sequence[RefusedInterval]
) -> SinkReport:
    intervals = tuple(_interval(*each) for each in landed)
    outcomes = [outcome for _, outcome in landed]
    seconds: dict[str, float] = {}
    for outcome in outcomes:
        for phase, value in outcome.seconds.items():
            seconds[phase] = round(seconds.get(phase, 0.0) + value, 4)
    total = {name: sum(getattr(each, name) for each in outcomes) for name in _SUMS}
    snapshots = [interval.snapshot_id for interval in intervals if interval.snapshot_id is not None]
    return SinkReport(
        **total,
        rows_rejected=sum(each.rows_left_out for each in outcomes),
        files=sum(each.files_added for each in outcomes),
        table=landed[0][0].spec.table if landed else "",
        location=outcomes[0].location if outcomes else "",
        snapshot_id=snapshots[-1] if snapshots else None,
        created=any(each.created for each in outcomes),
        columns_added=", ".join(name for each in outcomes for name in each.columns_added),
        changes=tuple(dict.fromkeys(text for each in outcomes for text in each.changes)),
        commits=sum(each.snapshot_id is not None for each in outcomes),
        rows_in_table=sum(interval.rows for interval in intervals),
        intervals=intervals,
        refused=tuple(refused),
        refusals=len(refused),
        complete=not refused,
        swept=tuple(sorted({path for each in outcomes for path in each.swept})),
        text="\n".join(
            [describe_landed(intervals), *([describe_refused(intervals, refused)] if refused else [])]
        ),
        seconds=seconds,
    )


def _interval(order: SinkOrder, outcome: SinkOutcome) -> SunkInterval:
    shared = {name: value for name, value in outcome if name in SunkInterval.model_fields}
    found = {"snapshot_id": outcome.found_snapshot_id, "rows": outcome.found_rows}
    made = {"snapshot_id": outcome.snapshot_id, "rows": outcome.rows_out}
    told = {**shared, **(found if outcome.skipped else made)}
    told["attempts"] = outcome.attempts if outcome.snapshot_id is not None else 0
    return SunkInterval(key=order.key, start=order.start, end=order.end, **told)
