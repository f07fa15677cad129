"""Clustering of any DataFrame along a space-filling curve.

Range ids, keys and file numbers are expressions of the JVM. No row goes through Python, whatever the
session's Arrow settings are, and one job draws the sample that ranges and file bounds come of.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from hipslake.clustering import range_ids
from hipslake.clustering.curves import Curve, interleave_bits
from hipslake.clustering.file_placement import NOISE_BITS, FileBounds
from hipslake.clustering.hilbert_states import MAX_COLUMNS, hilbert_states
from hipslake.clustering.range_ids import NUM_RANGES
from hipslake.errors import SpecError
from hipslake.spark.range_expressions import (
    InOrder,
    check_orderable,
    comparable,
    in_order,
    indexed,
    let,
    number_array,
    number_below,
)

_ROWS_PER_RANGE = 40
_ROWS_PER_FILE = 100
_MOST_SAMPLED = 200_000
_LARGEST_TABLE = 1 << 13  # entries of the table that holds the curve's transitions


@dataclass(frozen=True)
class RangeBounds(range_ids.RangeBounds):
    """The ranges of columns of a DataFrame.

    Attributes
    ----------
    types : tuple of pyspark.sql.types.DataType
        Of the columns.
    noise : int64[m]
        The noise of the sampled rows; the same rows draw it again when they are placed.
    """

    types: tuple[DataType, ...] = ()
    noise: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def sample(
        cls,
        df: DataFrame,
        cols: Sequence[str],
        num_ranges: int = NUM_RANGES,
        seed: int = 0,
        *,
        rows: int | None = None,
    ) -> Self:
        """Draw one sample for all columns, in one job, and find their ranges in it.

        Parameters
        ----------
        df : DataFrame
        cols : sequence of str
            Names of columns, the most significant first.
        num_ranges : int
            The most ranges of a column, at least 2.
        seed : int
            The same seed gives the same ranges, as long as the DataFrame has the same partitions.
        rows : int, optional
            Size of the sample; by default 40 per range, at most 200,000.

        Raises
        ------
        SpecError
            No column, one that is missing or named twice, or too few ranges.
        InputError
            A column has values that have no order.
        """
        check_orderable(df.schema, cols)
        size = rows or min(_ROWS_PER_RANGE * num_ranges, _MOST_SAMPLED)
        sampled, noise = _sample(df, cols, size, seed)
        found = range_ids.RangeBounds.of_sample(sampled, cols, num_ranges)
        known = {attribute.name: getattr(found, attribute.name) for attribute in fields(found)}
        return cls(**known, types=tuple(df.schema[name].dataType for name in cols), noise=noise)


class MultiDimClustering(ABC):
    """Brings rows that are alike in several columns into the same partitions."""

    @abstractmethod
    def cluster(self, df: DataFrame, col_names: Sequence[str], approx_num_partitions: int) -> DataFrame:
        """Repartition a DataFrame so that its partitions, and the files made of them, skip well.

        Parameters
        ----------
        df : DataFrame
        col_names : sequence of str
            The columns to cluster by.
        approx_num_partitions : int

        Returns
        -------
        DataFrame
            The same rows and columns.
        """


class SpaceFillingCurveClustering(MultiDimClustering):
    """Clusters along a curve through the ranges of the columns' values.

    Parameters
    ----------
    num_ranges : int
        The most ranges of a column.
    add_noise : bool
        Rows with equal keys may go to several partitions, by chance. Without it one partition holds all of
        them, and others may stay empty.
    sort_within_files : bool
        Sort each partition along the curve too, so that row groups within a file skip.
    seed : int
        Of the sample and of the noise: the same seed gives the same partitions, as long as the DataFrame's
        own partitions and their order are the same.
    """

    curve: Curve

    def __init__(
        self,
        *,
        num_ranges: int = NUM_RANGES,
        add_noise: bool = True,
        sort_within_files: bool = False,
        seed: int = 0,
    ) -> None:
        self.num_ranges = num_ranges
        self.add_noise = add_noise
        self.sort_within_files = sort_within_files
        self.seed = seed

    @abstractmethod
    def get_clustering_expression(self, cols: Sequence[Column], bounds: RangeBounds) -> Column:
        """Return the place on the curve, a bigint.

        Parameters
        ----------
        cols : sequence of Column
            In the order of the bounds, and of the same types.
        bounds : RangeBounds
        """

    def cluster(self, df: DataFrame, col_names: Sequence[str], approx_num_partitions: int) -> DataFrame:
        """Repartition a DataFrame along the curve; see `MultiDimClustering.cluster`.

        Raises
        ------
        SpecError
            No column, one that is missing or named twice, less than one partition, too few ranges.
        InputError
            A column has values that have no order.
        """
        if approx_num_partitions < 1:
            raise SpecError(f"{approx_num_partitions} partitions: there has to be at least one")
        rows = max(_ROWS_PER_RANGE * self.num_ranges, _ROWS_PER_FILE * approx_num_partitions)
        bounds = RangeBounds.sample(df, col_names, self.num_ranges, self.seed, rows=min(rows, _MOST_SAMPLED))
        keys = bounds.keys_of_ids(bounds.sample_ids, self.curve)
        sampled_noise = bounds.noise if self.add_noise else np.zeros_like(bounds.noise)
        files = FileBounds.of_sample(keys, sampled_noise, approx_num_partitions)
        key, noise, target = (f"rpKey_{role}_{uuid.uuid4().hex}" for role in ("curve", "noise", "file"))
        drawn = _noise(self.seed) if self.add_noise else F.lit(0).cast("bigint")
        columns = [F.col(quoted(name)) for name in col_names]
        keyed = df.select("*", self.get_clustering_expression(columns, bounds).alias(key), drawn.alias(noise))
        placed = keyed.withColumn(target, _file_number(F.col(key), F.col(noise), files))
        moved = placed.repartitionById(approx_num_partitions, target)
        if self.sort_within_files:
            moved = moved.sortWithinPartitions(key)
        return moved.drop(key, noise, target)


class ZOrderClustering(SpaceFillingCurveClustering):
    """Clusters along the Morton curve: the bits of the range ids, interleaved."""

    curve = Curve.Z_ORDER

    def get_clustering_expression(self, cols: Sequence[Column], bounds: RangeBounds) -> Column:
        return _interleaved(_checked(cols, bounds), bounds, bounds.bits)


class HilbertClustering(SpaceFillingCurveClustering):
    """Clusters along the Hilbert curve, which never jumps; by up to 4 columns."""

    curve = Curve.HILBERT

    def get_clustering_expression(self, cols: Sequence[Column], bounds: RangeBounds) -> Column:
        columns = len(_checked(cols, bounds))
        if columns > MAX_COLUMNS:
            raise SpecError(
                f"{columns} columns to cluster by: the Hilbert curve takes up to {MAX_COLUMNS} on a "
                "DataFrame; take fewer, or z-order"
            )
        once = hilbert_states(columns)
        fitting = [
            n
            for n in range(1, bounds.bits + 1)
            if once.digit.size * 2 ** (columns * (n - 1)) <= _LARGEST_TABLE
        ]
        levels = max(fitting, default=1)
        states = once.over_levels(levels)
        width, state_mask = columns * levels, (1 << states.state_bits) - 1
        # An entry: digit of the key << bits of a state | next state.
        table = number_array((states.digit << states.state_bits | states.state).ravel())
        # The curve through finer cells starts with the same digits, so the bits may be filled up with zeros.
        rounds = -(-bounds.bits // levels)

        def key(morton: Column) -> Column:
            def descend(reached: Column, shift: Column) -> Column:
                digit = F.call_function("shiftright", morton, shift).bitwiseAND(F.lit((1 << width) - 1))
                state = reached.getField("state")
                found = indexed(table, F.shiftleft(state, width).bitwiseOR(digit))
                return let(
                    found,
                    lambda entry: F.struct(
                        F.shiftleft(reached.getField("key"), width)
                        .bitwiseOR(F.shiftright(entry, states.state_bits))
                        .alias("key"),
                        entry.bitwiseAND(F.lit(state_mask)).alias("state"),
                    ),
                )

            zero = F.lit(0).cast("bigint")
            shifts = F.array(*[F.lit(width * number) for number in reversed(range(rounds))])
            return F.aggregate(shifts, F.struct(zero.alias("key"), zero.alias("state")), descend).getField(
                "key"
            )

        spare = columns * (rounds * levels - bounds.bits)
        morton = F.shiftleft(_interleaved(cols, bounds, bounds.bits), spare)
        return F.shiftright(let(morton, key), spare)


def quoted(name: str) -> str:
    """A column's name as Spark takes it for a plain one, whatever it is made of."""
    return "`" + name.replace("`", "``") + "`"


def _checked(cols: Sequence[Column], bounds: RangeBounds) -> Sequence[Column]:
    if len(cols) != len(bounds.columns):
        raise SpecError(
            f"{len(cols)} columns and bounds of {len(bounds.columns)}: give bounds of these columns"
        )
    return cols


def _interleaved(cols: Sequence[Column], bounds: RangeBounds, bits: int) -> Column:
    """The Morton key. A table per column holds the spread bits of each range: columns do not share bits."""
    key = F.lit(0).cast("bigint")
    for at, (column, found, kind) in enumerate(zip(cols, bounds.columns, bounds.types, strict=True)):
        ids = np.zeros((found.count, len(cols)), np.uint64)
        ids[:, at] = np.arange(found.count, dtype=np.uint64) * np.uint64(1 << bits) // np.uint64(found.count)
        spread = number_array(interleave_bits(ids, bits).astype(np.int64))
        number = number_below(in_order(found.bounds, kind), comparable(column, kind)) + F.lit(
            int(found.nulls)
        )
        key = key.bitwiseOR(indexed(spread, F.coalesce(number, F.lit(0))))
    return key


def _file_number(key: Column, noise: Column, files: FileBounds) -> Column:
    """`FileBounds.files_of` as an expression."""
    if not len(files.ends):
        return F.lit(int(files.files[0]))
    keys = files.keys.astype(np.int64)
    below = number_below(InOrder.of_numbers(keys), key)
    ends_here = F.coalesce(indexed(number_array(keys), below) == key, F.lit(False))
    place = F.lit(2) * below.cast("bigint") + ends_here.cast("bigint")
    packed = F.shiftleft(place, NOISE_BITS).bitwiseOR(noise)
    return indexed(number_array(files.files), number_below(InOrder.of_numbers(files.ends), packed)).cast(
        "int"
    )


def _noise(seed: int) -> Column:
    return F.floor(F.rand(seed) * 2**NOISE_BITS)


def _sample(df: DataFrame, cols: Sequence[str], rows: int, seed: int) -> tuple[pa.Table, NDArray[np.int64]]:
    """Draw rows evenly: those with the smallest random numbers. It takes one pass and no count."""
    columns = [F.col(quoted(name)).alias(f"c{at}") for at, name in enumerate(cols)]
    drawn = df.select(*columns, _noise(seed).alias("noise"), F.rand(~seed).alias("draw"))
    packed = F.collect_list(F.struct(*[name for name in drawn.columns if name != "draw"]))
    # One row that holds all: so it is one batch on its way, whatever size batches have in this session.
    rows_of = drawn.orderBy("draw").limit(rows).agg(packed.alias("rows")).toArrow().column("rows")
    structs = rows_of.combine_chunks().flatten()
    found = {name: structs.field(at) for at, name in enumerate(cols)}
    return pa.table(found), structs.field(len(cols)).to_numpy()
