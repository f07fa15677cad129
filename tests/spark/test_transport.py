"""Blocks arrive as they were sent, whichever way they take."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.engine.model import Block
from hipslake.spark.exchange import _map_task, _reduce_task, collected, exchange
from hipslake.spark.transport import ThroughFiles, ThroughShuffle, Transport
from pyspark.sql import SparkSession

DICTIONARY = pa.dictionary(pa.int8(), pa.string())


@pytest.fixture(params=["shuffle", "files", "files that are written out"])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Transport:
    if request.param == "shuffle":
        return ThroughShuffle()
    return ThroughFiles(str(tmp_path), 3, write_out=request.param == "files that are written out")


def batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = list(range(first, first + rows))
    return pa.record_batch(
        {
            "n": pa.array(numbers, pa.int64()),
            "name": pa.array([None if n % 3 == 0 else f"star {n}" for n in numbers]),
            "band": pa.array([f"b{n % 4}" for n in numbers]).dictionary_encode().cast(DICTIONARY),
            "fluxes": pa.array([[float(n)] * (n % 5) for n in numbers], pa.list_(pa.float64())),
        }
    )


def test_a_block_is_unpacked_as_it_was_packed(transport: Transport) -> None:
    sent = [batch(0, 1000), batch(1000, 1), batch(7, 333).slice(11, 40)]
    with transport.packing(3) as pack:
        payloads = [pack(target, rows) for target, rows in enumerate(sent)]
    received = transport.unpacked(payloads[::-1])
    assert [rows.to_pylist() for rows in received] == [rows.to_pylist() for rows in reversed(sent)]
    assert all(rows.schema == sent[0].schema for rows in received)


def test_blocks_of_several_schemas_take_turns(transport: Transport) -> None:
    """With dictionaries, at the top or within lists, and without; and with metadata of their own."""
    whole = batch(0, 50)
    nested = pa.ListArray.from_arrays(pa.array([0, 20, 50], pa.int32()), whole.column("band"))
    kinds = [
        whole.select(["n", "name"]),
        whole,
        pa.record_batch({"bands": nested}),
        whole.select(["n", "name"]).replace_schema_metadata({"unit": "mag"}),
        whole.select(["fluxes", "n"]).slice(3, 9),
        pa.record_batch({"id": pa.array([bytes(16), bytes(range(16))], pa.uuid())}),
        whole.select(["n"]).slice(0, 0),
    ]
    sent = [*kinds, *kinds[::-1]]
    with transport.packing(0) as pack:
        payloads = [pack(at % 3, rows) for at, rows in enumerate(sent)]
    received = transport.unpacked(payloads)
    for got, given in zip(received, sent, strict=True):
        assert got.schema.equals(given.schema, check_metadata=True)
        assert got.to_pylist() == given.to_pylist()


def test_reduce_tasks_get_their_blocks_in_source_order(transport: Transport) -> None:
    def mapper(task: int) -> list[tuple[int, pa.RecordBatch]]:
        return [(target, batch(1000 * task + 100 * target, 50)) for target in (1, 0, 1)]

    def reducer(target: int, blocks: list[Block]) -> list[pa.RecordBatch]:
        return [block.rows.select(["n"]) for block in blocks]

    numbers = iter([pa.record_batch({"id": pa.array([task])}) for task in range(4)])
    sent = list(_map_task(mapper, 2000, transport)(numbers))
    for target in (0, 1):
        mine = [rows.filter(pc.equal(rows.column(0), target)) for rows in reversed(sent)]
        out = list(_reduce_task(reducer, transport)(iter(mine)))
        times = 2 if target == 1 else 1
        start = 100 * target
        expected = [
            n
            for task in range(4)
            for _ in range(times)
            for n in range(1000 * task + start, 1000 * task + start + 50)
        ]
        assert [n for rows in out for n in rows.column(0).to_pylist()] == expected


def test_attempts_at_one_map_task_do_not_meet(tmp_path: Path) -> None:
    transport = ThroughFiles(str(tmp_path), 8)
    with transport.packing(0) as first, transport.packing(0) as second:
        lost, kept = first(5, batch(0, 10)), second(5, batch(0, 10))
    assert len(list((tmp_path / "5").iterdir())) == 2
    first_rows, second_rows = transport.unpacked([lost, kept])
    assert first_rows.equals(second_rows)


def test_an_attempt_that_nobody_waits_for_leaves_no_blocks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that still runs when its exchange has ended, and writes on while the folder is being removed."""
    folder, refused = tmp_path / "write" / "blocks", []
    remove = shutil.rmtree

    def interrupted(path: Path, **options: bool) -> None:
        try:
            pack(1, batch(0, 10))
        except FileNotFoundError:
            refused.append(path)
        pack(0, batch(10, 10))  # to a file that it has open
        remove(path, **options)

    with (
        ThroughFiles(str(folder), 2).packing(0) as pack,
        ThroughFiles.freeing(spark.sparkContext, folder, 2),
    ):
        pack(0, batch(0, 10))
        monkeypatch.setattr(shutil, "rmtree", interrupted)
    assert len(refused) == 1
    assert not list(folder.parent.iterdir())


def test_blocks_are_removed_once_the_tasks_of_their_group_have_succeeded(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, go_on = tmp_path / "blocks", tmp_path / "go on"

    def reducer(target: int, blocks: list[Block]) -> list[pa.RecordBatch]:
        deadline = time.monotonic() + 30
        while target == 2 and not go_on.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return [block.rows.select(["n"]) for block in blocks]

    # Groups of two targets; of each, one gets nothing.
    with ThroughFiles.freeing(spark.sparkContext, folder, 32) as transport, ThreadPoolExecutor(1) as pool:
        frame = exchange(
            spark,
            sources=2,
            mapper=lambda task: [(target, batch(10 * task + target, 5)) for target in (0, 2)],
            targets=32,
            reducer=reducer,
            result="n bigint",
            transport=transport,
        )
        rows = pool.submit(lambda: collected(frame).num_rows)
        deadline = time.monotonic() + 60
        while {path.name for path in folder.iterdir()} != {"1"} and time.monotonic() < deadline:
            time.sleep(0.05)
        assert {path.name for path in folder.iterdir()} == {"1"}
        assert len(list((folder / "1").iterdir())) == 2
        go_on.touch()
        assert rows.result() == 20
    assert not folder.exists()
