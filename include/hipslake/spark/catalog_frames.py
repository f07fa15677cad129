"""A catalog as a Spark DataFrame: the needed leaf files, through Spark's own Parquet reader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hipslake.catalog.leaf import read_footer
from hipslake.catalog.leaf_form import LeafForm, form_of
from hipslake.catalog.leaf_opening import read_errors
from hipslake.catalog.leaf_rows import leaf_files
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.reading import parts
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import RegionCut, check_placed, select
from hipslake.sphere.coordinates import positions
from hipslake.sphere.intervals import Intervals, PixelLike
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER, order29
from hipslake.sphere.regions import Region
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage

if TYPE_CHECKING:
    from hipslake.catalog.catalog_reader import CatalogReader

log = logging.getLogger(__name__)

VECTORIZED = "spark.sql.parquet.enableVectorizedReader"
_DECODES_SPLIT_FLOATS = (4, 3)  # the first Spark whose vectorized reader does
_MOST_RANGES = 50  # of `_healpix_29` that are written into the plan of a query


def read_spark(
    catalog: CatalogReader,
    spark: SparkSession,
    *,
    columns: Sequence[str] | None = None,
    pixels: Iterable[PixelLike] | None = None,
    group: str | None = None,
    region: Region | str | None = None,
) -> DataFrame:
    """Rows of a catalog, lazily. Several column groups are joined by `_row`.

    Spark before 4.3 cannot decode BYTE_STREAM_SPLIT (which a spec may ask for) in its vectorized Parquet
    reader. Where the files use it, the session's `spark.sql.parquet.enableVectorizedReader` is turned off
    there, and the log says so.

    Parameters
    ----------
    catalog : CatalogReader
    spark : SparkSession
    columns, pixels, group, region
        As for `Catalog.read`.

    Raises
    ------
    SchemaMismatchError
        There is no such column.
    RegionError
        The text is no region.
    """
    if pixels is not None or region is not None:
        check_placed(catalog.metadata)
    within = None if region is None else region_of(region)
    selection = select(catalog.metadata, columns, None, group, within)
    cut = selection.cut
    given = None if pixels is None else list(pixels)
    chosen = parts(
        catalog.storage,
        catalog.metadata,
        list(selection.columns),
        selection.inside(None if given is None else Intervals.of(given)),
    )
    frames = []
    for name, taken in selection.columns.items():
        paths = [path for part in chosen for path in part.paths[name]]
        if not paths:  # no leaf lies there; one file gives the schema
            paths = catalog.metadata.partitions(name, catalog.storage)["path"][:1].to_pylist()
        leaves = catalog.metadata.schema_of(name)
        paths = [file for path in paths for file in leaf_files(catalog.storage, path, leaves)]
        _check_encodings(spark, catalog.storage, paths[0])
        frame = _reader(spark, catalog, name, paths[0]).parquet(
            *(_spark_path(catalog.storage, path) for path in paths)
        )
        if (form := form_of(leaves)) is not None:
            frame = _placed(frame, form)
        if given is not None:
            frame = frame.where(_inside(given))
        if cut is not None:
            frame = frame.where(_near(cut.cover.intervals))
            place = [cut.position.ra, cut.position.dec]
            if set(place) <= set(taken):
                frame = frame.where(_cut_by(cut)(*map(quoted, (HEALPIX_COLUMN, *place))))
        join_key = [ROW_COLUMN] if len(selection.columns) > 1 and ROW_COLUMN not in taken else []
        frames.append(frame.select(*map(quoted, [*taken, *join_key])))
    joined = reduce(lambda left, right: left.join(right, on=ROW_COLUMN), frames)
    return joined.select(*map(quoted, selection.schema.names))


def _reader(spark: SparkSession, catalog: CatalogReader, group: str, path: str) -> DataFrameReader:
    """A reader that gives every column of a group, null where a file is older than the column."""
    if len(catalog.metadata.increment_writes) == 1 and not catalog.metadata.is_foreign:
        return spark.read
    found = spark.read.parquet(_spark_path(catalog.storage, path)).schema
    schema = catalog.schema_of(group)
    form = form_of(catalog.metadata.schema_of(group))
    computed = {HEALPIX_COLUMN} if form is not None and form.healpix == "computed" else set()
    missing = [field for field in schema if field.name not in {*found.names, *computed}]
    return spark.read.schema(StructType([*found.fields, *from_arrow_schema(pa.schema(missing)).fields]))


def _placed(frame: DataFrame, form: LeafForm) -> DataFrame:
    """Rows of files of others with `_healpix_29` as ours have it, where there is one."""
    if form.healpix == "none":
        return frame
    if form.healpix == "stored":
        return frame.withColumn(HEALPIX_COLUMN, F.col(HEALPIX_COLUMN).cast("bigint"))

    def placed(ra: pa.Array, dec: pa.Array) -> pa.Array:
        return pa.array(order29(*positions(ra, dec)))

    place: Callable[..., Column] = F.arrow_udf(placed, "bigint")
    return frame.withColumn(HEALPIX_COLUMN, place(quoted(form.ra), quoted(form.dec)))


def _inside(pixels: list[PixelLike]) -> Column:
    """The rows inside the pixels: one comparison per order."""
    per_order: dict[int, list[int]] = {}
    for order, npix in pixels:
        per_order.setdefault(int(order), []).append(int(npix))
    index = F.col(HEALPIX_COLUMN)
    conditions = [
        F.shiftright(index, 2 * (MAX_ORDER - order)).isin(npix) for order, npix in sorted(per_order.items())
    ]
    return reduce(lambda left, right: left | right, conditions, F.lit(False))


def _near(intervals: Intervals) -> Column:
    """The rows in or near some intervals: a few comparisons, by which Parquet readers skip row groups."""
    index = F.col(HEALPIX_COLUMN)
    few = intervals.at_most(_MOST_RANGES)
    ranges = zip(few.start.tolist(), few.stop.tolist(), strict=True)
    conditions = [(index >= start) & (index < stop) for start, stop in ranges]
    return reduce(lambda left, right: left | right, conditions, F.lit(False))


def _cut_by(cut: RegionCut) -> Callable[..., Column]:
    """The exact cut, as a function of index, ra and dec that runs on the executors."""

    def kept(index: pa.Array, ra: pa.Array, dec: pa.Array) -> pa.Array:
        return pa.array(cut.keeps(index.to_numpy(zero_copy_only=False), ra, dec))

    cuts: Callable[..., Column] = F.arrow_udf(kept, "boolean")
    return cuts


def _check_encodings(spark: SparkSession, storage: Storage, path: str) -> None:
    version = tuple(map(int, spark.version.split(".")[:2]))
    if version >= _DECODES_SPLIT_FLOATS or spark.conf.get(VECTORIZED) != "true":
        return
    footer = read_footer(storage, path)
    chunks = ColumnChunks(footer)
    with read_errors(storage, path):
        split = any("BYTE_STREAM_SPLIT" in chunks(0, index).encodings for index in range(footer.num_columns))
    if split:
        log.warning(
            "Turning %s off for this session: the vectorized reader of Spark %s cannot decode "
            "BYTE_STREAM_SPLIT.",
            VECTORIZED,
            spark.version,
        )
        spark.conf.set(VECTORIZED, "false")


def _spark_path(storage: Storage, path: str) -> str:
    """Spark takes a path without a scheme for one of its default file system."""
    return f"file://{storage.uri(path)}" if storage.is_local else storage.uri(path)


def quoted(name: str) -> Column:
    """The column of a name, which may hold any characters."""
    return F.col("`" + name.replace("`", "``") + "`")
