"""The exchange: every row exactly once at its target, in source order, in blocks of bounded size."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hipslake.engine.model import Block, cut
from hipslake.errors import CorruptFileError
from hipslake.spark import exchange as engine
from hipslake.spark.served_blocks import ThroughServers
from hipslake.spark.transport import ThroughFiles, ThroughShuffle, Transport
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.examples import examples
from tests.spark import routing
from tests.spark.routing import Case
from tests.spark.served_exchange import ServedExchange

WIDTHS = st.sampled_from([0, 1, 3, 60, 400, 5000])
ROWS = st.lists(st.tuples(st.integers(0, 5), WIDTHS), max_size=25).map(tuple)
CASES = st.builds(Case, st.lists(ROWS, min_size=1, max_size=4).map(tuple), st.integers(1, 30))


@given(
    case=CASES,
    block_bytes=st.sampled_from([1, 50, 300, 2000, 1 << 20]),
    way=st.sampled_from(["shuffle", "files", "servers"]),
    data=st.data(),
)
@settings(max_examples=examples(60))
def test_every_row_arrives_once_in_source_order_however_blocks_travel(
    case: Case, block_bytes: int, way: str, data: st.DataObject
) -> None:
    folder, opened = TemporaryDirectory(), ExitStack()
    transport: Transport = ThroughFiles(folder.name, 100) if way == "files" else ThroughShuffle()
    served = None
    if way == "servers":
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        served = ServedExchange(Path(folder.name), patch)
        opened.callback(served.end)
        transport = served.transport
    sent = []
    for number in range(len(case.sources)):
        if served is not None:
            served.at(data.draw(st.sampled_from("ab")))
        batches = iter([pa.record_batch({"id": [number]})])
        sent += engine._map_task(case.route, block_bytes, transport)(batches)
    if served is not None:
        served.at(data.draw(st.sampled_from("abc")))
    shuffled = data.draw(st.permutations(sent))

    arrived: dict[int, list[dict[str, object]]] = {}

    def keep(target: int, blocks: list[Block]) -> list[pa.RecordBatch]:
        assert target not in arrived
        arrived[target] = list(chain.from_iterable(block.rows.to_pylist() for block in blocks))
        return []

    with folder, opened:
        assert list(engine._reduce_task(keep, transport)(iter(shuffled))) == []
    assert served is None or served.finished.targets == sorted(arrived)
    widths = case.widths()
    assert arrived == {
        target: [routing.row(number, widths[number]) for number in rows]
        for target, rows in case.expected().items()
    }


@given(case=CASES, block_bytes=st.sampled_from([1, 50, 300, 2000]))
@settings(max_examples=examples(40))
def test_blocks_are_cut_to_size_but_hold_a_row(case: Case, block_bytes: int) -> None:
    for number in range(len(case.sources)):
        for _, rows in case.route(number):
            parts = list(cut(rows, block_bytes))
            assert pa.Table.from_batches(parts).to_pylist() == rows.to_pylist()
            assert all(part.num_rows == 1 or part.nbytes <= block_bytes for part in parts)


def test_no_rows_are_one_slice() -> None:
    [part] = cut(routing.made([]), 10)
    assert part.num_rows == 0


def test_numbers_are_cut_into_few_blocks() -> None:
    rows = pa.record_batch({"a": np.arange(10_000), "b": np.arange(10_000.0)})
    parts = list(cut(rows, 16_000))
    assert [part.num_rows for part in parts] == [1000] * 10


def test_a_long_dictionary_does_not_travel_with_every_block() -> None:
    words = pa.array([f"a word of some length, number {number}" for number in range(5000)])
    rows = pa.record_batch({"word": pa.DictionaryArray.from_arrays(np.arange(5000, dtype=np.int32), words)})
    parts = [part for at in range(0, 5000, 500) for part in cut(rows.slice(at, 500), 8000)]
    assert pa.Table.from_batches(parts).to_pylist() == rows.to_pylist()
    assert sum(part.nbytes for part in parts) < 2 * rows.nbytes
    assert {part.schema for part in parts} == {rows.schema}


@pytest.fixture(scope="module")
def many() -> Case:
    """Many distributions in one: all to one target, one each, none for some, wide rows, empty sources."""
    rng = np.random.default_rng(3)
    sources: list[tuple[tuple[int, int], ...]] = [
        (),
        tuple((0, 3) for _ in range(500)),
        tuple((target, 10) for target in range(20)),
        tuple((19 - target, 200) for target in range(20)),
        ((7, 3_000_000), (7, 0), (8, 2_000_000)),
        (),
        tuple((int(target), 5) for target in np.minimum(rng.geometric(0.2, 400), 19)),
        tuple(
            (int(target), int(width))
            for target, width in zip(rng.integers(10, 15, 300), rng.integers(0, 900, 300), strict=True)
        ),
        ((19, 1),),
    ]
    return Case(tuple(sources), batch_rows=64)


@pytest.mark.parametrize("way", ["files", "shuffle", "servers"])
@pytest.mark.parametrize("block_bytes", [2000, engine.MAX_BLOCK_BYTES])
def test_spark_moves_every_row_once_in_source_order(
    spark: SparkSession, tmp_path: Path, many: Case, block_bytes: int, way: str
) -> None:
    with ExitStack() as opened:
        transport: Transport = ThroughFiles(str(tmp_path), 24) if way == "files" else ThroughShuffle()
        if way == "servers":
            transport = opened.enter_context(ThroughServers.serving(spark.sparkContext, 24))
        frame = engine.exchange(
            spark,
            sources=len(many.sources),
            mapper=many.route,
            targets=24,  # the last four get nothing
            reducer=routing.described,
            result=routing.RESULT,
            block_bytes=block_bytes,
            transport=transport,
        )
        found = frame.toArrow().sort_by([("target", "ascending"), ("place", "ascending")])
    arrived: dict[int, list[int]] = {}
    for target, number in zip(found["target"].to_pylist(), found["id"].to_pylist(), strict=True):
        arrived.setdefault(target, []).append(number)
    assert arrived == many.expected()
    texts = dict(zip(found["id"].to_pylist(), found["text"].to_pylist(), strict=True))
    assert texts == {number: routing.row(number, width)["text"] for number, width in enumerate(many.widths())}


def test_every_target_is_a_task_of_its_own(spark: SparkSession) -> None:
    """Chosen, not hashed: also with adaptive execution, which would gather small tasks."""
    frame = engine.exchange(
        spark,
        sources=2,
        mapper=routing.one_row_to_each,
        targets=12,
        reducer=routing.task_of,
        result="target int, task int",
    )
    found = frame.toArrow()
    assert sorted(found["target"].to_pylist()) == list(range(12))
    assert len(set(found["task"].to_pylist())) == 12


def test_run_tasks_calls_every_number_once(spark: SparkSession) -> None:
    found = engine.run_tasks(spark, sources=9, task=routing.numbers_below, result="number bigint").toArrow()
    assert sorted(found["number"].to_pylist()) == sorted(n for task in range(9) for n in range(task))


def test_errors_of_tasks_come_out_as_they_were_raised(spark: SparkSession) -> None:
    frame = engine.run_tasks(
        spark,
        sources=2,
        task=partial(routing.damaged, what="stars.csv is damaged\nin line 7"),
        result="number bigint",
    )
    with pytest.raises(CorruptFileError) as caught:
        engine.collected(frame)
    assert str(caught.value) == "stars.csv is damaged\nin line 7"
    assert not caught.value.retryable
