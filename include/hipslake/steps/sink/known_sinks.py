"""What of earlier sinks a table still knows, and what is refused where it does not."""

from __future__ import annotations

from hipslake.errors import PlanError
from hipslake.specs.table_writing import TableMode
from hipslake.steps.sink.stream_batches import check_batches_known
from hipslake.tables.marks import KEPT
from hipslake.tables.protocol import TableState
from hipslake.tables.sink_order import SinkOrder


def check_not_sunk_earlier(order: SinkOrder, state: TableState) -> None:
    """Look that rows cannot come twice, or back, where it is not known any more which were sunk before.

    Raises
    ------
    PlanError
        They might.
    """
    if order.batch is not None:
        check_batches_known(order.batch, order.key, state.marks, order.spec.table, force=order.force)
        return
    mode = order.spec.mode
    if mode is TableMode.OVERWRITE_INTERVAL or (mode is TableMode.UPSERT and order.force):
        return
    if state.marks.may_stand(order.key):
        raise PlanError(
            f"table {order.spec.table}: it was taken back to a snapshot of which it is not known any more "
            f"what stands of {order.key}, as others have expired; replace it once in mode overwrite-interval"
        )
    if state.marks.was_sunk_earlier(order.key, order.start):
        mend = "set force, if no later rows are to stay" if mode is TableMode.UPSERT else "leave it as it is"
        raise PlanError(
            f"table {order.spec.table}: {order.key} was sunk before, and {KEPT} others after it, so the "
            f"table does not keep any more from which rows; {mend}, or replace it in mode overwrite-interval"
        )
