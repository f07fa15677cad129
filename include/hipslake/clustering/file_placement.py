"""Which file each row goes to: runs of the curve that hold about equal numbers of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.clustering.checksum import mix_in_place
from hipslake.clustering.column_values import columns_of
from hipslake.clustering.curves import Curve
from hipslake.clustering.lookup import SortedNumbers
from hipslake.clustering.range_ids import NUM_RANGES, RangeBounds, check_clustering_columns
from hipslake.sphere.curve import curve_order

NOISE_BITS = 31
_FILE_SHIFT = 40  # room for the rows of a file
_SIGNED_BITS = 63
_ROWS_PER_RANGE = 40
_ROWS_PER_FILE = 100
_MOST_SAMPLED = 200_000
NoiseAt = Callable[[NDArray[np.int64]], NDArray[np.int64]]
_CHUNK_ROWS = 1 << 16  # what is computed on the way to a key stays in the processor's cache


@dataclass(frozen=True)
class FileBounds:
    """Where on a curve a file ends and the next one starts.

    Attributes
    ----------
    keys : uint64[b]
        Distinct keys at which a file ends, ascending.
    ends : int64[c]
        Where files end: (2 * place in `keys` + 1) << 31 | noise, up to which rows belong to the file.
        Distinct, ascending.
    files : int64[c + 1]
        The file of what lies up to each end, and behind the last.
    """

    keys: NDArray[np.uint64]
    ends: NDArray[np.int64]
    files: NDArray[np.int64]

    @classmethod
    def of_sample(cls, keys: NDArray[np.uint64], noise: NDArray[np.int64], num_files: int) -> FileBounds:
        """Cut a sample into files of equal numbers of rows.

        Parameters
        ----------
        keys, noise : uint64[m], int64[m]
            Of the sampled rows; noise in [0, 2**31).
        num_files : int
        """
        size = len(keys)
        order = np.lexsort((noise, keys))
        last = -(-np.arange(1, num_files) * size // num_files) - 1
        rows = order[last] if size else order
        distinct, place = np.unique(keys[rows], return_inverse=True)
        packed = (2 * place.astype(np.int64) + 1) << NOISE_BITS | noise[rows]
        ends, first = np.unique(packed, return_index=True)
        return cls(distinct, ends, np.append(first, len(rows)).astype(np.int64))

    def files_of(self, keys: NDArray[np.uint64], noise: NoiseAt) -> NDArray[np.int64]:
        """Return the number of the file of each row, from its key and its noise in [0, 2**31).

        Parameters
        ----------
        keys : uint64[n]
        noise : callable
            The noise of the rows at some places; only asked for those at whose keys files end.
        """
        place = self._sorted.below(keys)
        found = self._between.take(place)
        at_end = np.flatnonzero(self._padded.take(place) == keys)
        if len(at_end):
            packed = (2 * place[at_end] + 1) << NOISE_BITS | noise(at_end)
            found[at_end] = self.files[np.searchsorted(self.ends, packed, side="left")]
        return found

    @cached_property
    def _sorted(self) -> SortedNumbers:
        return SortedNumbers.of(self.keys)

    @cached_property
    def _between(self) -> NDArray[np.int64]:
        """The file of what lies between two of the keys, by how many of them lie below."""
        places = np.arange(len(self.keys) + 1, dtype=np.int64)
        return self.files[np.searchsorted(self.ends, 2 * places << NOISE_BITS, side="left")]

    @cached_property
    def _padded(self) -> NDArray[np.uint64]:
        """The keys, and one that no row has."""
        return np.append(self.keys, np.uint64(2**64 - 1))


@dataclass(frozen=True)
class Placement:
    """Range ids, a curve, and where files end on it: all that a task needs to place its rows.

    Attributes
    ----------
    bounds : RangeBounds
    curve : Curve
    files : FileBounds
    add_noise : bool
        Rows with equal keys may go to several files.
    seed : int
    """

    bounds: RangeBounds
    curve: Curve
    files: FileBounds
    add_noise: bool
    seed: int

    @classmethod
    def plan(
        cls,
        bounds: RangeBounds,
        curve: Curve,
        num_files: int,
        *,
        add_noise: bool = True,
        seed: int = 0,
        numbers: NDArray[np.int64] | None = None,
    ) -> Placement:
        """Place the sample of some ranges into files.

        Parameters
        ----------
        bounds : RangeBounds
            With its sample.
        curve : Curve
        num_files : int
            At least 1.
        add_noise : bool
            Without it all rows with the same key go to one file, and other files may stay empty.
        seed : int
            Of the noise.
        numbers : int64[m], optional
            Those that `place` is given for the sampled rows, where they are known: the sample is then placed
            exactly evenly.
        """
        keys = bounds.keys_of_ids(bounds.sample_ids, curve)
        numbers = np.arange(len(keys)) if numbers is None else numbers
        noise = noise_of(numbers, seed) if add_noise else np.zeros(len(keys), np.int64)
        return cls(
            bounds.without_sample(), curve, FileBounds.of_sample(keys, noise, num_files), add_noise, seed
        )

    def place(
        self, rows: pa.Table | pa.RecordBatch, numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the file and the key of each row.

        Parameters
        ----------
        rows : pyarrow.Table or RecordBatch
        numbers : int64[n]
            Tells equal rows apart: the noise of a row comes of its number, so that a task that runs twice
            places its rows twice alike.

        Returns
        -------
        int64[n], uint64[n]
        """
        keys = np.empty(rows.num_rows, np.uint64)
        files = np.empty(rows.num_rows, np.int64)
        rows = rows.select(list(columns_of(rows.schema, self.bounds.names)))
        for start in range(0, rows.num_rows, _CHUNK_ROWS):
            chunk = slice(start, start + _CHUNK_ROWS)
            keys[chunk] = found = self.bounds.keys(rows.slice(start, _CHUNK_ROWS), self.curve)
            files[chunk] = self.files.files_of(found, partial(self._noise_at, numbers[chunk]))
        return files, keys

    def _noise_at(self, numbers: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
        return noise_of(numbers.take(places), self.seed) if self.add_noise else np.zeros_like(places)

    def order(self, files: NDArray[np.int64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the order by file and then by key, in which equal rows stay as they are; int64[n]."""
        if self.key_bits + int(self.files.files[-1]).bit_length() > _SIGNED_BITS:
            return np.lexsort((keys, files))
        return curve_order(files << self.key_bits | keys.view(np.int64))

    @property
    def key_bits(self) -> int:
        """Bits of a key."""
        return self.bounds.bits * len(self.bounds.columns)


def along_curve(
    rows: pa.Table, columns: Sequence[str], curve: Curve, *, num_ranges: int = NUM_RANGES, seed: int = 0
) -> NDArray[np.int64]:
    """Return the order of rows along a curve, int64[n]; equal ones stay as they are.

    Parameters
    ----------
    rows : pyarrow.Table
    columns : sequence of str
    curve : Curve
    num_ranges : int
    seed : int
        Of the sample that the ranges come of.

    Raises
    ------
    SpecError, InputError
        As `RangeBounds.of_sample`.
    """
    check_clustering_columns(rows.schema, columns)
    rows = rows.select(list(columns_of(rows.schema, columns)))
    numbers = np.arange(rows.num_rows)
    share = min(1.0, sample_size(num_ranges, 1) / max(1, rows.num_rows))
    chosen = drawn_places(0, 0, rows.num_rows, share, seed)
    bounds = RangeBounds.of_sample(rows.take(pa.array(chosen)), columns, num_ranges)
    _, keys = Placement.plan(bounds, curve, 1).place(rows, numbers)
    return curve_order(keys.view(np.int64))


def sample_size(num_ranges: int, num_files: int) -> int:
    """Return how many sampled rows tell the ranges of columns and the ends of files well enough."""
    return min(max(_ROWS_PER_RANGE * num_ranges, _ROWS_PER_FILE * num_files), _MOST_SAMPLED)


def drawn(numbers: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Choose about a share of rows by their numbers, evenly; bool[n]."""
    return noise_of(numbers, ~seed) < int(share * 2**NOISE_BITS)


def drawn_places(file: int, first: int, count: int, share: float, seed: int) -> NDArray[np.int64]:
    """Choose about a share of consecutive rows of a file, evenly; their places among these, ascending.

    Parameters
    ----------
    file : int
        Number of the file.
    first : int
        Rows of it that come before these.
    count : int
    share : float
        In [0, 1].
    seed : int
    """
    generator = np.random.default_rng([seed & (2**64 - 1), file, first])
    number = int(generator.binomial(count, share))
    return np.sort(generator.choice(count, number, replace=False, shuffle=False))


def row_numbers(file: int, first: int, count: int) -> NDArray[np.int64]:
    """Numbers of rows of a file, from its number and their places in it; int64[count]."""
    return (file << _FILE_SHIFT) + np.arange(first, first + count)


def noise_of(numbers: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Evenly distributed numbers in [0, 2**31): SplitMix64 (Steele, Lea and Flood 2014), its highest bits."""
    state = np.uint64(seed & (2**64 - 1)) ^ np.uint64(0x5851F42D4C957F2D)
    numbered = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + state
    return (mix_in_place(numbered) >> np.uint64(64 - NOISE_BITS)).astype(np.int64)
