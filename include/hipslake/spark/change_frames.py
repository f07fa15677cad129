"""The changes between two versions of a catalog as a Spark DataFrame."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from hipslake.catalog.changes.change_feed import ChangeFeed
from hipslake.catalog.changes.change_rows import (
    CHANGE_COLUMN,
    DELETE,
    INSERT,
    KEY_DIGEST,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    not_unique,
)
from hipslake.spark.catalog_frames import quoted
from hipslake.spark.joined_frames import as_spark_has_it, by_stretches


def changes_frame(spark: SparkSession, feed: ChangeFeed) -> DataFrame:
    """The changes of a feed, lazily: tasks compare stretches of the curve, and read what they compare.

    Parameters
    ----------
    spark : SparkSession
    feed : ChangeFeed
        With a key, rows that differ are sent to the task of their key, which tells the updates.
    """
    schema = from_arrow_schema(as_spark_has_it(feed.carried_schema))
    frame = by_stretches(spark, feed.carried, feed.stretches, schema)
    if not feed.key:
        return frame
    by_key = Window.partitionBy(*map(quoted, KEY_DIGEST))

    def rows(kind: str) -> Column:
        return F.count(F.when(quoted(CHANGE_COLUMN) == kind, 1)).over(by_key)

    counted = frame.withColumn(_WENT, rows(DELETE)).withColumn(_CAME, rows(INSERT))
    key = ", ".join(feed.key)
    kind = F.when(quoted(_WENT) > 1, _refused(key, feed.old.version))
    kind = kind.when(quoted(_CAME) > 1, _refused(key, feed.new.version))
    kind = kind.when(quoted(_WENT) + quoted(_CAME) < 2, quoted(CHANGE_COLUMN))
    kind = kind.when(quoted(CHANGE_COLUMN) == DELETE, UPDATE_BEFORE).otherwise(UPDATE_AFTER)
    others = [quoted(name) for name in feed.schema.names if name != CHANGE_COLUMN]
    return counted.select(kind.alias(CHANGE_COLUMN), *others)


_WENT, _CAME = "hipslake rows that went", "hipslake rows that came"  # no columns of ours have spaces


def _refused(key: str, version: int) -> Column:
    return F.raise_error(F.lit(str(not_unique(key, version))))
