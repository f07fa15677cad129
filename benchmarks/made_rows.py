"""Rows that are made while they are read: sources of any number of rows, of which no file holds a row.

A row depends on its number alone. A source file is a line that says which rows it stands for; it is a sparse
file as long as one that held them, since sizes of files decide how an ingest is cut into tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from hipslake.sources import formats
from hipslake.sources.file_listing import located
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_reader import SPLIT_BYTES, Source

from benchmarks.milky_way import GALACTIC_TO_ICRS

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("ra", pa.float64()),
        ("dec", pa.float64()),
        ("mag", pa.float32()),
        ("colour", pa.float32()),
    ]
)
ROW_BYTES = 32
FILE_ROWS = 1_000_000
BLOCK_ROWS = 250_000  # that are made at once; where files begin and end, a block does
FORMAT = "parquet"
"""The format whose reader gives way to that of this module, in processes that call `register`."""

_SEED = 20261129
_DISC, _HEIGHT = 0.4, 4.0  # the share of rows near the galactic plane, and how near, degrees
_MAX_SHIFT = 0.5  # arcsec: of a companion from the row of its number


class Stretch(NamedTuple):
    """The rows that a file stands for: numbers [first, first + rows), or the companions of these."""

    first: int
    rows: int
    companions: bool = False


def block(number: int, *, companions: bool = False) -> pa.RecordBatch:
    """Make 250,000 rows.

    Parameters
    ----------
    number : int
        Of the block.
    companions : bool
        Each lies within half an arcsecond of the row of its number.

    Returns
    -------
    pyarrow.RecordBatch
        As `SCHEMA`: positions in ICRS degrees, 40% of them near the galactic plane, the others all over.
    """
    rng = np.random.default_rng([_SEED, number])
    z = rng.uniform(-1, 1, BLOCK_ROWS)
    near = rng.uniform(size=BLOCK_ROWS) < _DISC
    height = rng.laplace(0, np.radians(_HEIGHT), BLOCK_ROWS).clip(-1.5, 1.5)
    z[near] = np.sin(height[near])
    around = rng.uniform(0, 2 * np.pi, BLOCK_ROWS)
    radius = np.sqrt(1 - z * z)
    towards = np.stack([radius * np.cos(around), radius * np.sin(around), z])  # galactic
    x, y, z = GALACTIC_TO_ICRS @ towards
    ra = np.degrees(np.arctan2(y, x)) % 360.0
    ra[ra >= 360.0] = 0.0  # -1e-15 % 360 rounds up to 360
    dec = np.degrees(np.arcsin(z.clip(-1, 1)))
    if companions:
        other = np.random.default_rng([_SEED, number, 1])
        shift = other.uniform(0, _MAX_SHIFT, BLOCK_ROWS) / 3600
        angle = other.uniform(0, 2 * np.pi, BLOCK_ROWS)
        away = np.cos(np.radians(dec)).clip(1e-6)
        inside = np.abs(dec) < 89.9  # where steps along ra and dec are steps on the sphere
        ra = np.where(inside, (ra + shift * np.sin(angle) / away) % 360, ra)
        dec = np.where(inside, dec + shift * np.cos(angle), dec)
    first = number * BLOCK_ROWS
    columns = [
        np.arange(first, first + BLOCK_ROWS),
        ra,
        dec,
        (25 - rng.exponential(2, BLOCK_ROWS)).astype(np.float32),
        rng.normal(1, 0.4, BLOCK_ROWS).astype(np.float32),
    ]
    return pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)


def lay_out(folder: Path, stretch: Stretch) -> None:
    """Write the files that stand for rows: a million each.

    Parameters
    ----------
    folder : Path
        Is made.
    stretch : Stretch
        Whose ends are multiples of a million.
    """
    folder.mkdir(parents=True)
    for first in range(stretch.first, stretch.first + stretch.rows, FILE_ROWS):
        path = folder / f"{first // FILE_ROWS:06d}.made"
        path.write_text(json.dumps(stretch._replace(first=first, rows=FILE_ROWS)) + "\n")
        with path.open("r+b") as file:
            file.truncate(FILE_ROWS * ROW_BYTES)


class MadeSource(Source):
    """Reads files that stand for rows, by making these."""

    format: ClassVar[str] = FORMAT

    @property
    def tells_types(self) -> bool:
        return True

    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        found: list[Split] = []
        most = max(1, target_bytes // ROW_BYTES // BLOCK_ROWS) * BLOCK_ROWS
        for file in files:
            for start in range(0, FILE_ROWS, most):
                stop = min(start + most, FILE_ROWS)
                found.append(Split(len(found), file, "rows", start, stop))
        return found

    def schema(self, files: Sequence[SourceFile]) -> pa.Schema:
        return SCHEMA

    def infer(self, split: Split) -> pa.Schema:
        return SCHEMA

    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        storage, name = located(split.file)
        with storage.open(name) as file:
            stretch = Stretch(*json.loads(file.readline()))
        first = (stretch.first + split.start) // BLOCK_ROWS
        for number in range(first, first + (split.stop - split.start) // BLOCK_ROWS):
            made = block(number, companions=stretch.companions).select(wanted.names)
            for at in range(0, BLOCK_ROWS, batch_rows):
                yield made.slice(at, batch_rows)


def register() -> None:
    """Let this process read such files where a spec says that they are Parquet."""
    formats.READERS[FORMAT] = f"{__name__}.MadeSource"
