"""Batches that are read ahead from a store are those of the disk, and so are errors."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError
from hipslake.sources import Source, Split, open_source
from hipslake.sources.reading_ahead import read_splits
from hipslake.specs.source_spec import SourceSpec
from hipslake.storage.folder import Storage


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": np.arange(first, first + count), "name": [f"star {at}" for at in range(count)]})


@pytest.fixture(params=["disk", "store"])
def landing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    above = Storage.at(tmp_path if request.param == "disk" else "memory://ahead")
    name = uuid.uuid4().hex
    yield above.sub(name)
    above.delete_tree(name)


def put(storage: Storage, *counts: int) -> tuple[Source, list[Split]]:
    first = 0
    for number, count in enumerate(counts):
        sink = pa.BufferOutputStream()
        pq.write_table(rows(first, count), sink, row_group_size=100)
        storage.write(f"{number}.parquet", sink.getvalue().to_pybytes())
        first += count
    source = open_source(SourceSpec.model_validate({"uri": storage.uri("*.parquet"), "format": "parquet"}))
    return source, source.splits(source.list_files(), 3000)


def test_all_rows_come_in_order_with_their_splits(landing: Storage) -> None:
    source, splits = put(landing, 450, 0, 1, 320)
    assert len(splits) > 5
    schema = rows(0, 1).schema
    found = list(read_splits(source, iter(splits), schema))
    expected = [(split, batch) for split in splits for batch in source.read(split, schema)]
    assert [split for split, _ in found] == [split for split, _ in expected]
    assert all(mine.equals(other) for (_, mine), (_, other) in zip(found, expected, strict=True))
    assert pa.Table.from_batches([batch for _, batch in found])["id"].to_pylist() == list(range(771))
    assert list(read_splits(source, iter([]), schema)) == []
    only = list(read_splits(source, iter(splits), schema, ["id"]))
    assert {tuple(batch.schema.names) for _, batch in only} == {("id",)}


def test_an_error_comes_after_the_rows_before_it(landing: Storage) -> None:
    source, splits = put(landing, 100, 100, 100)
    landing.delete("1.parquet")
    came: list[pa.RecordBatch] = []
    reading = read_splits(source, iter(splits), rows(0, 1).schema)
    with pytest.raises(InputError, match=r"1\.parquet"):
        came.extend(batch for _, batch in reading)
    assert sum(batch.num_rows for batch in came) == 100


def test_of_a_store_the_next_split_is_opened_once_rows_of_one_are_there(landing: Storage) -> None:
    """And no further one; of a disk, none."""
    source, splits = put(landing, 300, 300, 300, 300)
    by_file = [next(split for split in splits if split.file.ordinal == at) for at in range(4)]
    ahead = 0 if landing.is_local else 1
    begun: list[int] = []
    changed = threading.Condition()

    class Watched:
        def read(self, split: Split, *given: Any) -> Iterator[pa.RecordBatch]:
            with changed:
                begun.append(split.file.ordinal)
                changed.notify_all()
            yield from source.read(split, *given)

    reading = read_splits(Watched(), iter(by_file), rows(0, 1).schema)  # type: ignore[arg-type]
    for most in (1, 2, 3, 4):
        next(reading)
        opened = min(most + ahead, 4)
        with changed:
            changed.wait_for(lambda opened=opened: len(begun) >= opened, timeout=10)
        assert begun == list(range(opened))
    reading.close()


def test_who_stops_early_leaves_no_thread(landing: Storage) -> None:
    source, splits = put(landing, 100, 100, 100)
    reading = read_splits(source, iter(splits), rows(0, 1).schema)
    next(reading)
    reading.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


@pytest.mark.parametrize("content", [b"", b"no Parquet file", bytes(4000), None], ids=str)
def test_of_a_file_that_was_changed_that_is_told(landing: Storage, content: bytes | None) -> None:
    source, splits = put(landing, 250, 100)
    data = landing.read("0.parquet") + b"longer" if content is None else content
    landing.write("0.parquet", data)
    with pytest.raises(InputError, match=r"0\.parquet was changed after the run listed it"):
        list(read_splits(source, iter(splits), rows(0, 1).schema))
