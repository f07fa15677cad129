"""A Spark DataFrame along a space-filling curve, by the functions that table compaction uses.

One job samples the clustering columns. Tasks then compute the partition of each row from these columns alone,
as Arrow arrays, and Spark's `repartitionById` moves the rows. The other columns never leave the JVM.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType

from hipslake.clustering.curves import Curve
from hipslake.clustering.file_placement import Placement, sample_size
from hipslake.clustering.range_ids import RangeBounds, check_names, is_orderable, several, unorderable
from hipslake.errors import SpecError


def cluster_frame(
    frame: DataFrame,
    columns: Sequence[str],
    curve: Curve,
    *,
    files: int | None,
    num_ranges: int,
    add_noise: bool,
    sort_within_files: bool,
    seed: int,
) -> DataFrame:
    """Repartition a DataFrame along a curve; see `hipslake.api.clustering.cluster`."""
    chosen = _resolved(frame, columns)
    if files is None:
        files = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    number = F.monotonically_increasing_id()
    sample = _sample(frame, [*chosen, number], sample_size(num_ranges, files), seed)
    *names, numbers = sample.column_names
    bounds = RangeBounds.of_sample(sample, names, num_ranges)
    placement = Placement.plan(
        bounds, curve, files, add_noise=add_noise, seed=seed, numbers=sample[numbers].to_numpy()
    )
    place = F.arrow_udf(
        _placing(placement, with_keys=sort_within_files),
        "file int, key bigint" if sort_within_files else "int",
    )
    name = f"placed_{uuid.uuid4().hex}"
    placed = frame.select("*", place(number, *chosen).alias(name))
    file = F.col(name)["file"] if sort_within_files else F.col(name)
    moved = placed.repartitionById(files, file)
    if sort_within_files:
        moved = moved.sortWithinPartitions(F.col(name)["key"])
    return moved.drop(name)


def _placing(placement: Placement, *, with_keys: bool) -> Callable[..., pa.Array]:
    """The function that tasks run: numbers of rows and the clustering columns to files, and keys."""

    def place(numbers: pa.Array, *columns: pa.Array) -> pa.Array:
        rows = pa.RecordBatch.from_arrays(list(columns), names=list(placement.bounds.names))
        files, keys = placement.place(rows, numbers.to_numpy())
        found = pa.array(files, pa.int32())
        if not with_keys:
            return found
        return pa.StructArray.from_arrays([found, pa.array(keys.view(np.int64))], names=["file", "key"])

    return place


def _sample(frame: DataFrame, columns: Sequence[Column], rows: int, seed: int) -> pa.Table:
    """Draw rows evenly: those with the smallest random numbers. It takes one pass and no count."""
    named = [column.alias(f"c{at}") for at, column in enumerate(columns)]
    drawn = frame.select(*named, F.rand(~seed).alias("draw")).orderBy("draw").limit(rows).drop("draw")
    # One row that holds all, so that it is one Arrow batch whatever the session's settings are.
    packed = F.collect_list(F.struct(*drawn.columns)).alias("rows")
    structs = drawn.agg(packed).toArrow().column("rows").combine_chunks().flatten()
    return pa.table(dict(zip(drawn.columns, structs.flatten(), strict=True)))


def _resolved(frame: DataFrame, names: Sequence[str]) -> list[Column]:
    """The columns that Spark finds by some names, all of types that have an order.

    Raises
    ------
    SpecError
        No column, one that is missing, named twice or ambiguous.
    InputError
        A column has values that have no order.
    """
    found = {name: _found(frame, name) for name in names}
    first: dict[int, str] = {}  # by what Spark found, the name that it was asked for first
    asked = [name if (one := found[name]) is None else first.setdefault(one[1], name) for name in names]
    check_names([*frame.columns, *(set(first.values()) - set(frame.columns))], asked)
    columns = []
    for name, one in found.items():
        assert one is not None, "check_names has raised"
        column, _, kind = one
        if not _is_orderable(kind):
            raise unorderable(name, kind.simpleString())
        columns.append(column.cast("string") if isinstance(kind, StringType) else column)  # no collation
    return columns


def _found(frame: DataFrame, name: str) -> tuple[Column, int, DataType] | None:
    """A column by a name as Spark reads it, or as it stands: the column, a hash of what it is, and its type.

    Raises
    ------
    SpecError
        The name may be of several columns or fields.
    """
    as_cased = str if frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true" else str.lower
    present = {as_cased(column) for column in frame.columns}
    quoted = "`" + name.replace("`", "``") + "`"
    readings = [quoted] if as_cased(name) in present else []
    if not readings or as_cased(name.split(".")[0].strip("`")) in present - {as_cased(name)}:
        readings.append(name)
    found = [one for text in readings if (one := _selected(frame, text, name)) is not None]
    if len(found) > 1:
        raise SpecError(
            f"{name} may be a column of this name or a field in one: write {quoted} for the column, and "
            "each part of the field in backticks for the field"
        )
    return found[0] if found else None


def _selected(frame: DataFrame, text: str, name: str) -> tuple[Column, int, DataType] | None:
    column = F.col(text)
    try:
        selected = frame.select(column.alias("found"))
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("AMBIGUOUS_REFERENCE"):
            raise several(name) from None
        return None
    return column, selected.semanticHash(), selected.schema[0].dataType


def _is_orderable(kind: DataType) -> bool:
    try:
        return is_orderable(to_arrow_type(kind, timezone="UTC"))
    except PySparkTypeError:  # Arrow has no such type
        return False
