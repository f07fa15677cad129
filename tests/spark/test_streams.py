"""Streams in Spark: files that come by and by, and `foreachBatch` with `hipslake.sink`, over deaths."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Table, sink
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import (
    CorruptFileError,
    InputError,
    PlanError,
    SchemaMismatchError,
    SpecError,
    StepError,
    StorageError,
)
from hipslake.spark.engine import SparkEngine
from hipslake.spark.stream_drains import paths_of_batch
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.compact_table import run as compaction
from hipslake.steps.compact_table.request import CompactTableRequest, FrozenCompaction
from hipslake.steps.registry import STEPS
from hipslake.steps.run import RunFolder
from hipslake.steps.stream import run as draining
from hipslake.steps.stream.arrived_files import arriving_files, has_new_files
from hipslake.tables.iceberg import commit as committing
from pyspark.sql import DataFrame, SparkSession

from tests.tables.landing import NAME, Landing


class Killed(Exception):  # noqa: N818
    """Stands for the end of a process."""


def test_a_run_drains_what_has_come_since_the_last_one(spark: SparkSession, tmp_path: Path) -> None:
    lands = Landing(tmp_path, SparkEngine(spark))
    assert not has_new_files(lands.spec, lands.warehouse)
    assert lands.drain().batches == 0
    lands.land("a b%20c.parquet", 0)
    lands.land("_hidden.parquet", 50)
    assert has_new_files(lands.spec, lands.warehouse)
    done = lands.drain()
    assert (done.batches, done.source_files, done.rows_out, done.created) == (1, 1, 3, True)
    assert [Path(each).name for each in done.passed_over] == ["_hidden.parquet"]
    assert done.committed is not None
    assert not has_new_files(lands.spec, lands.warehouse)
    nothing = lands.drain()
    assert (nothing.batches, nothing.snapshot_id) == (0, None)
    lands.land("late.parquet", 3, age=30 * 86400)  # older by far than what was there
    lands.land("new.parquet", 6)
    assert has_new_files(lands.spec, lands.warehouse)
    done = lands.drain()
    assert (done.batches, done.source_files) == (1, 2)
    assert lands.ids() == list(range(9))
    request = lands.request()
    told = done.committed(request.run_uri)
    assert told is not None
    assert told.version == str(done.snapshot_id)
    [origin] = done.origins(request.run_uri)
    assert origin.uri == str(lands.landing)


def test_batches_have_as_many_files_as_the_spec_says(spark: SparkSession, tmp_path: Path) -> None:
    lands = Landing(tmp_path, SparkEngine(spark), stream={"max_files": 2})
    for number in range(5):
        lands.land(f"{number}.parquet", 3 * number)
    done = lands.drain()
    assert (done.batches, done.source_files, done.rows_out) == (3, 5, 15)
    assert [each.number for each in done.last] == [0, 1, 2]
    assert lands.ids() == list(range(15))


@pytest.mark.parametrize("moment", ["before the commit", "after the commit", "before the checkpoint says it"])
def test_a_run_that_died_is_taken_up(
    spark: SparkSession, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lands = Landing(tmp_path, SparkEngine(spark), stream={"max_files": 1})
    for number in range(3):
        lands.land(f"{number}.parquet", 3 * number, age=10 - number)
    once, calls = committing._commit_once, []

    def die(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) != 2:
            once(*arguments)
        elif moment == "after the commit":
            once(*arguments)
            raise Killed
        elif moment == "before the commit":
            raise Killed
        else:
            once(*arguments)

    monkeypatch.setattr(committing, "_commit_once", die)
    if moment == "before the checkpoint says it":
        assert lands.drain().batches == 3
        lands.forget(2)
    else:
        with pytest.raises(Killed):
            lands.drain()
    monkeypatch.setattr(committing, "_commit_once", once)
    found = {"before the commit": 0, "after the commit": 1, "before the checkpoint says it": 1}[moment]
    lands.land("3.parquet", 9)
    if found:  # files of a batch that the table has are not needed any more
        (lands.landing / ("2.parquet" if moment == "before the checkpoint says it" else "1.parquet")).unlink()
    done = lands.drain()
    assert done.found == found
    assert lands.ids() == list(range(12))


def test_a_lost_or_older_checkpoint_is_told(spark: SparkSession, tmp_path: Path) -> None:
    lands = Landing(tmp_path, SparkEngine(spark), stream={"max_files": 1})
    for number in range(3):
        lands.land(f"{number}.parquet", 3 * number, age=10 - number)
    lands.drain()
    for batch in (1, 2):
        lands.forget(batch)
        for part in ("offsets", "sources/0"):
            (lands.checkpoint / part / str(batch)).unlink()
            (lands.checkpoint / part / f".{batch}.crc").unlink(missing_ok=True)
    with pytest.raises(PlanError, match="up to 2, and this is batch 1; was the checkpoint put back"):
        lands.drain()
    lands.checkpoint.rename(tmp_path / "lost")
    with pytest.raises(PlanError, match="of another one"):
        lands.drain()
    assert lands.ids() == list(range(9))
    assert lands.drain(force=True).batches == 3  # all is read anew, as was asked for
    assert lands.ids() == sorted([*range(9), *range(9)])


def test_the_log_of_files_is_read_where_it_was_compacted(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "sources" / "0").mkdir(parents=True)

    def entry(number: int) -> str:
        return json.dumps({"path": f"file:///in/{number}%20%25.csv", "timestamp": 1, "batchId": number})

    for number in range(12):
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{number}}}')
    for number in (8, 10, 11):
        (tmp_path / "sources/0" / str(number)).write_text("\n".join(["v1", entry(number), entry(number)]))
    (tmp_path / "sources/0/9.compact").write_text("\n".join(["v1", *map(entry, range(10))]))
    assert paths_of_batch(str(tmp_path), 8) == ["/in/8 %.csv", "/in/8 %.csv"]
    assert paths_of_batch(str(tmp_path), 9) == ["/in/9 %.csv"]
    (tmp_path / "offsets" / "11").write_text('v1\n{}\n{"logOffset":11}')
    (tmp_path / "offsets" / "10").write_text('v1\n{}\n{"logOffset":9}')
    assert len(paths_of_batch(str(tmp_path), 11)) == 4  # two entries of the log
    (tmp_path / "sources/0/11").write_text("v2\n{}")
    with pytest.raises(StorageError, match="is of version 'v2'"):
        paths_of_batch(str(tmp_path), 11)
    (tmp_path / "sources/0/11").unlink()
    with pytest.raises(StorageError, match="does not tell the files of batch 11"):
        paths_of_batch(str(tmp_path), 11)


def test_any_format_and_glob_is_read_by_our_readers(spark: SparkSession, tmp_path: Path) -> None:
    lands = Landing(tmp_path, SparkEngine(spark), uri="landing/**/[ab]*.csv")
    lands.land("a.csv", 0)
    lands.land("deep/er/b[1].csv", 3)
    lands.land("deep/c.csv", 100)
    lands.land("deep/.a.csv", 200)
    assert lands.drain().source_files == 2
    lands.land("other/c.csv", 300)
    assert lands.drain().batches == 0
    lands.land("other/b.csv", 6)
    assert lands.drain().source_files == 1
    assert lands.ids() == list(range(9))


def test_a_batch_that_cannot_be_sunk_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    lands = Landing(tmp_path, SparkEngine(spark))
    lands.land("0.parquet", 0)
    lands.drain()
    bad = lands.landing / "1.parquet"
    bad.write_bytes(b"PAR1 no file PAR1")
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=r"1\.parquet"):
            lands.drain()
    pq.write_table(pa.table({"id": ["x"], "night": [0]}), bad)
    with pytest.raises(SchemaMismatchError):
        lands.drain()
    bad.unlink()
    with pytest.raises(InputError, match="was deleted before it was sunk"):
        lands.drain()
    lands.land("1.parquet", 3)
    assert lands.drain().batches == 1
    assert lands.ids() == list(range(6))


def test_small_files_are_packed_after_the_drain(spark: SparkSession, tmp_path: Path) -> None:
    lands = Landing(
        tmp_path, SparkEngine(spark), stream={"max_files": 1, "compact": True}, partition=["bucket[2](id)"]
    )
    for number in range(5):
        lands.land(f"{number}.parquet", 20 * number, 20, age=10 - number)
    request = lands.request()
    draining.run(request, lands.engine)
    assert len(lands.table.inspect.files()) == 10
    folder = RunFolder(f"{request.run_uri}/compact")
    frozen = folder.read(RunFolder.RUN, FrozenCompaction)
    assert frozen.spec == CompactionSpec(
        name="alerts", type="compaction", table=NAME, iceberg=lands.spec.iceberg
    )
    packed = CompactTableRequest(run_uri=folder.uri, warehouse=lands.warehouse, spec=frozen.spec)
    report = compaction.run(packed, ThisProcess())
    assert len(lands.table.inspect.files()) == 2
    assert report.committed(folder.uri) is not None
    lands.land("5.parquet", 100, 20)
    assert lands.drain().batches == 1
    assert lands.ids() == list(range(120))


def test_upserts_by_files_in_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "IN_SPARK", 0)
    lands = Landing(tmp_path, SparkEngine(spark), mode="upsert", key=["id"], stream={"max_files": 1})
    lands.land("0.parquet", 0, age=2)
    lands.land("1.parquet", 1, age=1)
    assert (done := lands.drain()).rows_updated == 2
    assert done.rows_in == done.rows_out == 6
    assert lands.ids() == [0, 1, 2, 3]


def test_only_spark_drains(spark: SparkSession, tmp_path: Path) -> None:
    lands = Landing(tmp_path, SparkEngine(spark))
    with pytest.raises(StepError, match="drained by Spark"):
        STEPS["drain"].perform(lands.request())


@pytest.mark.parametrize(
    ("warehouse", "uri", "says"),
    [
        ("s3://bucket/warehouse", "/landing/*.parquet", "keeps its checkpoint in the warehouse"),
        ("/warehouse", "s3://bucket/landing/*.parquet", "is of files on disks"),
    ],
)
def test_what_spark_does_not_reach_is_told(warehouse: str, uri: str, says: str) -> None:
    given = {
        "name": "alerts",
        "table": NAME,
        "source": {"files": {"uri": uri, "format": "parquet"}},
        "stream": {"trigger": "available_now", "source": "files"},
    }
    with pytest.raises(SpecError, match=says):
        arriving_files(TableSpec.model_validate(given), warehouse)


def _query(spark: SparkSession, root: Path, batch: Callable[[DataFrame, int], None]) -> None:
    """A query of a program: two rows a batch, up to the batch that an earlier one planned, or one more."""
    frame = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 2)
        .option("startTimestamp", 0)
        .option("advanceMillisPerBatch", 1000)
        .load()
    )
    writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", str(root / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_batches_of_a_query_are_sunk_once(
    spark: SparkSession, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "upsert":  # as large batches are, by the session of the batch
        monkeypatch.setattr("hipslake.api.sinking._IN_SPARK", 0)
    place: dict[str, Any] = {
        "warehouse": tmp_path / "warehouse",
        "iceberg": {"uri": f"sqlite:///{tmp_path}/state/iceberg.db"},
    }
    outcomes: dict[int, list[bool]] = {}

    def batch(frame: DataFrame, number: int, *, dies: str = "") -> None:
        if dies == "before":
            raise Killed
        done = sink(
            frame,
            table=NAME,
            key=("rate", number),
            mode=mode,
            by="value" if mode == "upsert" else (),
            partition=["bucket[2](value)"],
            **place,
        )
        outcomes.setdefault(number, []).append(done.skipped)
        if dies == "after":
            raise Killed

    expected = 0
    for dies in ("", "before", "", "after", "after", ""):
        if dies:
            with pytest.raises(Exception, match="Killed"):
                _query(spark, tmp_path, lambda frame, number, dies=dies: batch(frame, number, dies=dies))
        else:
            _query(spark, tmp_path, batch)
        if outcomes:
            expected = 2 * (max(outcomes) + 1)
        table = Table.open(NAME, **place)
        assert sorted(table.read(["value"])["value"].to_pylist()) == list(range(expected))
    assert any(len(each) > 1 for each in outcomes.values())
    assert all(each == [False, *[True] * (len(each) - 1)] for each in outcomes.values())
    with pytest.raises(Exception, match="of another one"):  # a new checkpoint, which begins anew
        _query(spark, tmp_path / "anew", batch)
    assert table.read(["value"]).num_rows == expected
