"""Rows that are read early are those that would be read later, whoever asks for them, and when."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import CorruptFileError
from hipslake.sources import Source, Split, open_source, prefetching
from hipslake.sources.prefetching import first_prefetched, prefetched
from hipslake.sources.source_reader import DescribedSource
from hipslake.specs.source_spec import SourceSpec

SPLIT_BYTES = 3000


def put(folder: Path, *counts: int) -> SourceSpec:
    folder.mkdir(exist_ok=True)
    first = 0
    for number, count in enumerate(counts):
        ids = np.arange(first, first + count)
        names = pa.array([None if at % 7 == 3 else f"star {at}" for at in ids.tolist()], pa.string())
        table = pa.table({"id": ids, "name": names, "mag": np.where(ids % 5, ids / 3, np.nan)})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=100)
        first += count
    return SourceSpec.model_validate({"uri": f"{folder}/*.parquet", "format": "parquet"})


def opened(spec: SourceSpec) -> tuple[Source, list[Split], pa.Schema]:
    source = open_source(spec)
    assert isinstance(source, DescribedSource)
    files = source.list_files()
    return source, source.splits(files, SPLIT_BYTES), source.schema(files)


def rows(batches: Sequence[pa.RecordBatch]) -> str:
    """All rows as text, in which NaN is itself."""
    table = pa.Table.from_batches(batches)
    return f"{table.schema}{table.to_pylist()}"


def wait_for(split: Split) -> None:
    """Until a split is read to its end, or the thread waits within it."""
    prefetch = prefetching._prefetching[-1]
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with prefetch._changed:
            found = prefetch._splits.get(split)
            if found is not None and (found.is_complete or prefetch._held >= prefetching.MOST_BYTES):
                return
        time.sleep(0.001)
    raise AssertionError("nothing was read")


@pytest.mark.parametrize("most", [1, 5_000, 1 << 28], ids=["one batch", "some", "all"])
@pytest.mark.parametrize("seed", range(4))
def test_threads_that_ask_in_any_order_get_all_rows_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, seed: int
) -> None:
    monkeypatch.setattr(prefetching, "MOST_BYTES", most)
    rng = np.random.default_rng(seed)
    spec = put(tmp_path, 450, 0, 1, 320, int(rng.integers(1, 500)))
    source, splits, schema = opened(spec)
    columns = [["id", "name", "mag"], ["mag", "id"]][seed % 2]
    order = rng.permutation(len(splits)) if seed > 1 else np.arange(len(splits))
    early = []

    def read(number: int) -> list[pa.RecordBatch]:
        split = splits[number]
        first = first_prefetched(split, schema, columns)
        found = prefetched(split, schema, columns)
        early.append(found is not None)
        batches = list(found if found is not None else source.read(split, schema, columns))
        assert first is None or (found is not None and first is batches[0])
        assert prefetched(split, schema, columns) is None, "they are taken once"
        return batches

    with prefetching.prefetching(spec, columns, split_bytes=SPLIT_BYTES):
        wait_for(splits[0])
        with ThreadPoolExecutor(1 + seed % 3) as pool:
            found = dict(zip(order.tolist(), pool.map(read, order.tolist()), strict=True))
    assert any(early)
    for number, split in enumerate(splits):
        expected = list(source.read(split, schema, columns))
        assert rows(found[number]) == rows(expected)
    assert not prefetching._prefetching


def test_others_than_were_read_are_not_given(tmp_path: Path) -> None:
    spec = put(tmp_path, 300)
    _, splits, schema = opened(spec)
    with prefetching.prefetching(spec, ["id", "mag"], split_bytes=SPLIT_BYTES):
        wait_for(splits[0])
        assert prefetched(splits[0], schema, ["id"]) is None
        assert first_prefetched(splits[0], schema, ["id"]) is None
        wider = schema.set(0, pa.field("id", pa.float64()))
        assert prefetched(splits[0], wider, ["id", "mag"]) is None
        # Another file by now, of which the same part is asked for.
        table = pq.read_table(tmp_path / "0.parquet")
        pq.write_table(table.set_column(0, "id", pa.array(range(1000, 1300))), tmp_path / "0.parquet")
        os.utime(tmp_path / "0.parquet", (1, 1))
        source, anew, _ = opened(spec)
        assert prefetched(anew[0], schema, ["id", "mag"]) is None
        assert next(source.read(anew[0], schema, ["id", "mag"]))["id"][0].as_py() == 1000
        assert prefetched(splits[0], schema, ["mag", "id"]) is not None
    assert prefetched(splits[0], schema, ["id", "mag"]) is None
    assert first_prefetched(splits[0], schema, ["id", "mag"]) is None


def test_what_is_wrong_with_a_file_is_told_to_who_asks_for_its_rows(tmp_path: Path) -> None:
    spec = put(tmp_path, 100, 100)
    content = bytearray((tmp_path / "1.parquet").read_bytes())
    content[4:400] = bytes(396)
    (tmp_path / "1.parquet").write_bytes(content)
    source, splits, schema = opened(spec)
    with pytest.raises(CorruptFileError) as expected:
        list(source.read(splits[-1], schema))
    names = schema.names
    with prefetching.prefetching(spec, split_bytes=SPLIT_BYTES):
        wait_for(splits[-1])
        assert first_prefetched(splits[-1], schema, names) is None
        found = prefetched(splits[-1], schema, names)
        assert found is not None
        with pytest.raises(CorruptFileError) as raised:
            list(found)
        assert str(raised.value) == str(expected.value)
        good = prefetched(splits[0], schema, names)
        assert good is not None
        assert sum(batch.num_rows for batch in good) > 0


def test_files_that_cannot_be_listed_or_read_early_hinder_nothing(tmp_path: Path) -> None:
    spec = put(tmp_path, 100)
    nothing = SourceSpec.model_validate({"uri": f"{tmp_path}/no/*.parquet", "format": "parquet"})
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "0.parquet").write_bytes(b"PAR1 or not")
    damaged = SourceSpec.model_validate({"uri": f"{tmp_path}/bad/*.parquet", "format": "parquet"})
    for given, columns in ((nothing, None), (damaged, None), (spec, ["no_such"])):
        with prefetching.prefetching(given, columns, split_bytes=SPLIT_BYTES):
            pass
    _, splits, schema = opened(spec)
    with prefetching.prefetching(spec, split_bytes=SPLIT_BYTES, most_bytes=1):
        prefetching._prefetching[-1]._thread.join(30)
        assert prefetched(splits[0], schema, schema.names) is None


def test_a_store_is_not_asked_and_files_that_do_not_tell_their_types_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    asked = []
    monkeypatch.setattr(Source, "list_files", asked.append)
    for uri, form in (("memory://early/*.parquet", "parquet"), (f"{tmp_path}/*.csv", "csv")):
        spec = SourceSpec.model_validate({"uri": uri, "format": form})
        with prefetching.prefetching(spec, split_bytes=SPLIT_BYTES):
            pass
    assert not asked


def test_the_thread_ends_with_the_block_though_nobody_has_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetching, "MOST_BYTES", 1)
    spec = put(tmp_path, 500)
    _, splits, _ = opened(spec)

    def fail() -> None:
        with prefetching.prefetching(spec, split_bytes=SPLIT_BYTES):
            wait_for(splits[0])
            raise KeyError("the program's own")

    with pytest.raises(KeyError, match="the program's own"):
        fail()
    assert not [each for each in threading.enumerate() if each.name == "prefetch"]
