"""Files that are asked for again and again are read once, while there is room for them."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from hipslake.catalog.checks.margin_checks import RecentFiles

ROWS = 1000
BYTES = 8 * ROWS  # of each file's rows


class Reader:
    """Counts how often files are read; each has its own number in every row."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, path: str, size: int) -> list[pa.RecordBatch]:
        self.paths.append(path)
        return [pa.record_batch({"number": np.full(ROWS, int(path))})]


def test_a_file_is_read_once_while_there_is_room() -> None:
    reader = Reader()
    files = RecentFiles(reader, most_bytes=10 * BYTES)
    for _ in range(3):
        for number in range(10):
            [batch] = files.batches(str(number), 1)
            assert set(batch["number"].to_pylist()) == {number}
    assert reader.paths == [str(number) for number in range(10)]


def test_what_was_not_asked_for_longest_makes_room() -> None:
    reader = Reader()
    files = RecentFiles(reader, most_bytes=2 * BYTES)
    for path in ("1", "2", "1", "3", "1", "2"):
        files.batches(path, 1)
    assert reader.paths == ["1", "2", "3", "2"]


def test_a_file_that_is_larger_than_all_the_room_is_read_each_time() -> None:
    reader = Reader()
    files = RecentFiles(reader, most_bytes=BYTES - 1)
    assert [files.batches("1", 1)[0].num_rows for _ in range(3)] == [ROWS] * 3
    assert reader.paths == ["1"] * 3


def test_threads_get_the_rows_of_the_file_that_they_ask_for() -> None:
    files = RecentFiles(Reader(), most_bytes=5 * BYTES)
    asked = random.Random(1).choices(range(20), k=400)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: files.batches(str(number), 1), asked))
    assert [batch["number"][0].as_py() for [batch] in found] == asked
