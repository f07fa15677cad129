"""Bits of superseded rows against sets of rows: any splits, any stretches of them, two rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import StepError
from hipslake.steps.ingest.newest_rows import counts_of
from hipslake.steps.ingest.superseded_rows import (
    PLACES,
    PieceCounts,
    SupersededRows,
    found_path,
    store_masks,
    write_rows,
)
from hipslake.storage.folder import Storage

BOUNDS = (0, 4, 5, 11, 12)
ROWS = 200


def left(folder: Storage, rng: np.random.Generator) -> tuple[dict[int, set[int]], PieceCounts]:
    """Rows of twelve splits, some without any, as three tasks of two rounds leave them."""
    expected: dict[int, set[int]] = {split: set() for split in range(12)}
    counts: dict[str, dict[int, int]] = {}
    for name, low in (("older", 0), ("equal", 1)):  # no row is found twice
        for task in range(3):
            splits = rng.choice([0, 1, 3, 6, 7, 10], 90)
            rows = 6 * rng.integers(0, ROWS // 6, 90) + 2 * task + low
            pairs = sorted(set(zip(splits.tolist(), rows.tolist(), strict=True)))
            for split, row in pairs:
                expected[split].add(row)
            named = [{"split": split, "row": row, "tie": -1} for split, row in pairs]
            table = pa.Table.from_pylist(named, PLACES)
            write_rows(folder, found_path(name, task), table.take(pa.array(rng.permutation(len(pairs)))))
        counts[name] = counts_of(store_masks(folder, name, (0, 1, 2), BOUNDS, ThisProcess(2)))
    return expected, PieceCounts(bounds=BOUNDS, rows=counts)


@pytest.mark.parametrize("seed", range(3))
def test_a_stretch_of_a_split_has_the_rows_that_were_left(tmp_path: Path, seed: int) -> None:
    rng, folder = np.random.default_rng(seed), Storage.at(tmp_path)
    expected, counts = left(folder, rng)
    assert counts.total == sum(map(len, expected.values())) > 100
    assert set(counts.rows["older"]) == {0, 2}
    masks = SupersededRows(folder, counts).reader()
    for _ in range(300):
        split, (first, stop) = int(rng.integers(12)), sorted(rng.integers(0, ROWS + 40, 2).tolist())
        found = masks.mask(split, first, stop - first)
        assert (np.flatnonzero(found) + first).tolist() == sorted(expected[split] & set(range(first, stop)))
        assert len(found) == stop - first


def test_what_is_lost_is_told(tmp_path: Path) -> None:
    folder = Storage.at(tmp_path)
    _, counts = left(folder, np.random.default_rng(4))
    folder.delete("newest/bits/older-000002.arrow")
    masks = SupersededRows(folder, counts).reader()
    assert not masks.mask(4, 0, 9).any()
    with pytest.raises(StepError, match=r"older-000002\.arrow is gone, which says what rows are superseded"):
        masks.mask(6, 0, 9)
