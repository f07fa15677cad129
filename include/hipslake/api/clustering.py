"""Rows along a space-filling curve: Spark DataFrames and Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

from hipslake.clustering.curves import Curve
from hipslake.clustering.file_placement import along_curve
from hipslake.clustering.range_ids import NUM_RANGES, check_num_ranges
from hipslake.engine.reordering import in_order
from hipslake.errors import InputError, SpecError

Rows = TypeVar("Rows")
"""A `pyspark.sql.DataFrame` or a `pyarrow.Table`."""


def cluster(
    rows: Rows,
    columns: Sequence[str],
    *,
    curve: str = "hilbert",
    files: int | None = None,
    num_ranges: int = NUM_RANGES,
    add_noise: bool = True,
    sort_within_files: bool = False,
    seed: int = 0,
) -> Rows:
    """Bring rows that are alike in several columns together, so that files made of them skip well.

    A DataFrame is repartitioned along the curve: each partition, and the file that Spark writes of it, has
    small bounds in all of the columns. A table is put in the order of the curve.

    Parameters
    ----------
    rows : pyspark.sql.DataFrame or pyarrow.Table
    columns : sequence of str
        What to cluster by, the most significant first: up to 63. For a DataFrame, names as Spark resolves
        them, of columns or of fields of structs.
    curve : str
        `hilbert` or `zorder`.
    files : int, optional
        Of a DataFrame: how many partitions to make; by default the session's `spark.sql.shuffle.partitions`.
    num_ranges : int
        The most ranges that the values of a column are cut into, at least 2.
    add_noise : bool
        Of a DataFrame: rows with equal keys may go to several partitions, by chance. Without it one
        partition holds all of them, and others may stay empty.
    sort_within_files : bool
        Of a DataFrame: sort each partition along the curve too, so that row groups within a file skip.
    seed : int
        Of the sample and of the noise: the same seed gives the same result, as long as the DataFrame's own
        partitions and the order of their rows are the same.

    Returns
    -------
    pyspark.sql.DataFrame or pyarrow.Table
        The same rows and columns.

    Raises
    ------
    SpecError
        No column, one that is missing, named twice or ambiguous; no such curve; less than one partition; too
        few ranges; `files` for a table.
    InputError
        A column has values that have no order; or `rows` is neither a DataFrame nor a table.

    Examples
    --------
    >>> table = pa.table({"x": [1, 0, 1, 0], "y": [0, 1, 1, 0]})
    >>> cluster(table, ["x", "y"]).to_pydict()
    {'x': [0, 0, 1, 1], 'y': [0, 1, 1, 0]}
    """
    if curve not in [known.value for known in Curve]:
        raise SpecError(f"there is no curve {curve!r}: take {' or '.join(known.value for known in Curve)}")
    check_num_ranges(num_ranges)
    if files is not None and files < 1:
        raise SpecError(f"files is {files}: there has to be at least one")
    if isinstance(rows, pa.Table):
        if files is not None:
            raise SpecError(f"files is {files}: a table is put in order as a whole; leave files out")
        return in_order(rows, along_curve(rows, columns, Curve(curve), num_ranges=num_ranges, seed=seed))
    if not type(rows).__module__.startswith("pyspark.sql."):
        raise InputError(
            f"{type(rows).__module__}.{type(rows).__name__}: rows to cluster are a Spark DataFrame or a "
            "pyarrow.Table; make one of them"
        )
    from hipslake.spark.clustered_frames import cluster_frame

    return cluster_frame(
        rows,
        columns,
        Curve(curve),
        files=files,
        num_ranges=num_ranges,
        add_noise=add_noise,
        sort_within_files=sort_within_files,
        seed=seed,
    )
