"""The two-process program partitions rightly, or it would be no limit to measure against."""

from __future__ import annotations

from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.leaf_files import LeafFiles, differences
from benchmarks.milky_way import write_part
from benchmarks.two_process import partition

ROWS, THRESHOLD = 6000, 400


def leaves_by_recursion(pixels: np.ndarray, order: int = 0, npix: int = 0) -> dict[tuple[int, int], int]:
    """Split one pixel the slow way; `pixels` are its rows' order-10 pixels."""
    if len(pixels) == 0:
        return {}
    if len(pixels) <= THRESHOLD:
        return {(order, npix): len(pixels)}
    children = pixels >> 2 * (9 - order)
    found = {}
    for child in range(4 * npix, 4 * npix + 4):
        found |= leaves_by_recursion(pixels[children == child], order + 1, child)
    return found


def test_leaves_are_those_of_a_recursive_split_and_every_row_is_in_one(tmp_path: Path) -> None:
    source, output = tmp_path / "source", tmp_path / "output"
    source.mkdir()
    tables = [pq.read_table(write_part(source, part, ROWS // 2)) for part in (0, 1)]
    report = partition(source, output, threshold=THRESHOLD, level=1, ra="ra", dec="dec")

    rows = pa.concat_tables(tables)
    pixels = healpy.ang2pix(2**10, rows["ra"].to_numpy(), rows["dec"].to_numpy(), nest=True, lonlat=True)
    expected: dict[tuple[int, int], int] = {}
    for base in range(12):
        expected |= leaves_by_recursion(pixels[pixels >> 20 == base], 0, base)
    assert LeafFiles.of(output).rows == expected
    assert report["leaves"] == len(expected)

    written = [pq.read_table(path, partitioning=None) for path in sorted(output.rglob("*.parquet"))]
    for table in written:
        assert (np.diff(table["_healpix_29"].to_numpy()) >= 0).all()
    together = pa.concat_tables(written).drop_columns("_healpix_29").sort_by("source_id")
    assert together.equals(rows.sort_by("source_id"))
    assert not list(output.rglob("*.arrow"))


def test_outputs_that_differ_are_told(tmp_path: Path) -> None:
    def wrote(name: str, npix: int, rows: int, codec: str) -> LeafFiles:
        path = tmp_path / name / "Norder=2" / "Dir=0" / f"Npix={npix}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"a": np.arange(rows)}), path, compression=codec)
        return LeafFiles.of(tmp_path / name)

    one = wrote("one", 7, 100, "zstd")
    assert differences(one, one) == []
    assert "1 leaves differ" in differences(one, wrote("two", 7, 101, "zstd"))[0]
    assert "2 leaves differ" in differences(one, wrote("three", 8, 100, "zstd"))[0]
    assert "ZSTD" in differences(one, wrote("four", 7, 100, "snappy"))[0]
