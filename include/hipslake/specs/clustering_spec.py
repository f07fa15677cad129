"""How a clustered table is kept in order: a part of the specs of sinks and compactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from hipslake.specs.base import Frozen, repeated
from hipslake.specs.partition_fields import PartitionField, SortField, TransformName
from hipslake.specs.threshold import Bytes, Threshold, ThresholdUnit

MOST_COLUMNS = 63
"""To cluster by: each needs a bit of a key."""

Amplification = Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)]


class ClusteringSpec(Frozen):
    """How files of a clustered table are rewritten as others come.

    Attributes
    ----------
    curve : str
        That rows follow.
    max_amplification : float
        No more bytes are rewritten than so many times those that came in, over all runs together.
    step_size : Threshold
        What one run may rewrite beyond that of what was clustered by other columns, or not at all.
    """

    curve: Literal["hilbert", "zorder"] = "hilbert"
    max_amplification: Amplification = 5.0
    step_size: Bytes = Threshold(value=1 << 30, unit=ThresholdUnit.BYTES)


def check_cluster_by(
    columns: Sequence[str],
    clustering: ClusteringSpec,
    partition: Sequence[PartitionField],
    sort: Sequence[SortField],
) -> None:
    """Raise `ValueError` where a table cannot be clustered as its spec says."""
    if not columns:
        if clustering != ClusteringSpec():
            raise ValueError("clustering: is of a table with 'cluster_by'; leave it out, or name the columns")
        return
    if sort:
        raise ValueError("sort: rows of a table with 'cluster_by' follow a curve; leave one of the two out")
    if twice := repeated(columns):
        raise ValueError(f"cluster_by: {', '.join(twice)} stands twice")
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"cluster_by: names {len(columns)} columns; there is room for {MOST_COLUMNS}")
    whole = {field.column for field in partition if field.iceberg_transform == TransformName.IDENTITY.value}
    if alone := sorted(whole & set(columns)):
        raise ValueError(
            f"cluster_by: the table is partitioned by {', '.join(alone)}, so each file has one value of it; "
            "leave it out"
        )
