"""Counts of tasks, stored and added up: against a plain sum in Python, at every size of number."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.steps.ingest import pixel_counts
from hipslake.steps.ingest.pixel_counts import Cells, PixelCounts, sum_parts, write_parts
from hipslake.storage.folder import Storage

ORDER = 5  # 12,288 pixels


def cells(rng: np.random.Generator, most: int) -> Cells:
    npix = np.flatnonzero(rng.random(12 << (2 * ORDER)) < 0.3).astype(np.uint32)
    return npix, rng.integers(1, most, len(npix), endpoint=True)


def added(parts: list[list[Cells]]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for npix, rows in (each for part in parts for each in part):
        for pixel, count in zip(npix.tolist(), rows.tolist(), strict=True):
            total[pixel] += count
    return dict(total)


@pytest.mark.parametrize("merged", [100, 5000, 1 << 23], ids=["merged often", "merged", "not merged"])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("most", [1, 255, 256, 65_536, 1 << 30, 1 << 34])
@pytest.mark.parametrize("place", ["disk", "memory"])
def test_the_sum_is_that_of_all_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, most: int, dense: bool, merged: int
) -> None:
    """Rows of a pixel that do not fit into the type of one part, or into 32 bits together, too."""
    monkeypatch.setattr(pixel_counts, "_MERGE_CELLS", merged)
    monkeypatch.setattr(pixel_counts, "_DENSE_ORDER", ORDER if dense else -1)
    monkeypatch.setattr(pixel_counts, "_PIECE", 1000)
    rng = np.random.default_rng(most)
    parts = [[cells(rng, most) for _ in range(3)] for _ in range(4)]
    parts.append([])  # a task without rows
    storage = Storage.at(str(tmp_path) if place == "disk" else f"memory://{uuid.uuid4().hex}")
    paths = [f"{number}.arrow" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        counts = PixelCounts(ORDER)
        for npix, rows in part:
            counts.add_cells(npix, rows)
        write_parts(storage, path, counts)
    npix, rows = sum_parts(storage, paths, ORDER).total()
    assert (np.diff(npix.astype(np.int64)) > 0).all()
    assert rows.dtype == np.int64
    assert dict(zip(npix.tolist(), rows.tolist(), strict=True)) == added(parts)


def test_a_part_takes_no_more_room_than_its_counts_need(tmp_path: Path) -> None:
    storage, rng = Storage.at(str(tmp_path)), np.random.default_rng(1)
    for most, kind in (
        (255, pa.uint8()),
        (65_535, pa.uint16()),
        (65_536, pa.uint32()),
        (1 << 32, pa.uint64()),
    ):
        counts = PixelCounts(ORDER)
        npix, rows = cells(rng, most)
        rows[0] = most
        counts.add_cells(npix, rows)
        write_parts(storage, "part.arrow", counts)
        with pa.ipc.open_stream(storage.read("part.arrow")) as stream:
            assert stream.schema.field("rows").type == kind


@pytest.mark.parametrize("order", [ORDER, 13])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.02])
def test_a_part_is_stored_in_the_form_that_takes_less_room(tmp_path: Path, order: int, share: float) -> None:
    """All pixels from the first to the last without their numbers, or the occupied ones with theirs."""
    storage, rng = Storage.at(str(tmp_path)), np.random.default_rng(3)
    first, last = 5000, 12_000
    npix = np.arange(first, last)[rng.random(last - first) < share]
    npix = np.union1d(npix, [first, last - 1]).astype(np.uint32)
    rows = rng.integers(1, 200, len(npix))
    counts = PixelCounts(order)
    counts.add_cells(npix, rows)
    write_parts(storage, "part.arrow", counts)
    stored = storage.read("part.arrow")
    assert ("npix" in pa.ipc.open_stream(stored).schema.names) == (share < 0.1)
    assert len(stored) < 1500 + min(last - first, 5 * len(npix))
    total = sum_parts(storage, ["part.arrow", "part.arrow"], order).total()
    assert np.array_equal(total[0], npix)
    assert np.array_equal(total[1], 2 * rows)
