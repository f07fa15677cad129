"""Batches of streams: which the table has, by the one mark that it keeps of each stream.

A streaming query writes down which rows are in its batch n before it hands them on, and that n is done
after. A query that died between the commit and that note hands on batch n once more. So it is enough that a
table knows the newest batch of each query; the commit itself sets it.
"""

from __future__ import annotations

from hipslake.errors import PlanError
from hipslake.tables.marks import SinkMark
from hipslake.tables.protocol import Marks
from hipslake.tables.sink_order import StreamBatch


def has_batch(newest: SinkMark, batch: StreamBatch, table: str, *, force: bool = False) -> bool:
    """Whether a table has a batch of a stream.

    Parameters
    ----------
    newest : SinkMark
        Of the newest batch of the stream that the table has.
    batch : StreamBatch
    table : str
        Its name, for errors.
    force : bool
        Take what is read from another checkpoint than before. It makes no batch of one checkpoint come twice.

    Raises
    ------
    PlanError
        The batch is older than the newest one, or of another checkpoint: its rows may be in the table.
    """
    known = newest.batch
    if known is None:
        raise PlanError(
            f"table {table}: the mark {newest.key} is of no stream, but was set by a sink; give the query "
            "another name"
        )
    if None not in (known.checkpoint, batch.checkpoint) and known.checkpoint != batch.checkpoint:
        if force:
            return False
        raise PlanError(
            f"table {table}: it has the batches of query {batch.query} up to {known.number}, of checkpoint "
            f"{known.checkpoint}, and this is batch {batch.number} of another one, {batch.checkpoint}; what "
            "was read from the first would come twice. Go on from that checkpoint; or set force, if what "
            "this one reads is not in the table"
        )
    if batch.number < known.number:
        raise PlanError(
            f"table {table}: it has the batches of query {batch.query} up to {known.number}, and this is "
            f"batch {batch.number}; was the checkpoint put back to an older state? Go on from the newest "
            "one, or give the query another name, if what it reads is not in the table"
        )
    return batch.number == known.number


def check_batches_known(batch: StreamBatch, key: str, marks: Marks, table: str, *, force: bool) -> None:
    """Look that a table without a mark of a stream has no batch of it of which it is not known any more.

    Raises
    ------
    PlanError
        It may have one: it was taken back to an old snapshot, and the marks of that time are gone.
    """
    if marks.may_stand(key) and not force:
        raise PlanError(
            f"table {table}: it was taken back to a snapshot of which it is not known any more what "
            f"batches of query {batch.query} it has, as others have expired; set force if batch "
            f"{batch.number} is not among them"
        )
