"""A stream whose process is killed again and again: every row comes into the table, and none of them twice.

`make test-slow ARGS="tests/system/test_stream_killed.py -s"` says at its end how many were lost, and twice.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hipslake import Table
from hipslake.sources import open_source
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.steps.compact_table import run as compaction
from hipslake.steps.compact_table.request import CompactTableRequest, FrozenCompaction
from hipslake.steps.run import RunFolder
from hipslake.steps.sink.sink_table import sink
from hipslake.tables.marks import PREFIX
from hipslake.tables.sink_order import FileRows, SinkOrder
from pyiceberg.types import StringType

from tests.system.dying_drain import MOMENTS
from tests.system.environment import environment
from tests.tables.compaction import compacting
from tests.tables.landing import NAME, Landing

pytestmark = [pytest.mark.slow, pytest.mark.system]

BATCHES, KILLS, ROWS = 200, 30, 20
_SECONDS = 300


def drain(lands: Landing, moment: str = "", after: int = 0) -> int:
    """A run in a process of its own, which dies at a moment of a batch, if one is named; its code."""
    command = [sys.executable, "-m", "tests.system.dying_drain", lands.request().run_uri, moment, str(after)]
    with (lands.root / "log").open("ab") as log:
        done = subprocess.run(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(HIPSLAKE_SPARK_MASTER="local[2]"),
            start_new_session=True,
            timeout=_SECONDS,
            check=False,
        )
    return done.returncode


def change_by_others(lands: Landing, number: int) -> set[int]:
    """What others do to the table between two runs; the ids of rows that they delete."""
    place = {"warehouse": lands.warehouse, "iceberg": lands.spec.iceberg}
    if number == 8:
        iceberg = lands.spec.iceberg.model_dump(mode="json")
        compacting.compact(compacting.request(lands.root, table=NAME, iceberg=iceberg, full=True))
    elif number == 14:
        Table.open(NAME, **place).delete(filters="id < 5", force=True)
        return set(range(5))
    elif number == 20:
        lands.table.update_schema().add_column("remark", StringType()).commit()
    return set()


def test_thirty_kills_lose_no_row_and_bring_none_twice(
    tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    lands = Landing(tmp_path, partition=["bucket[4](id)"], stream={"max_files": 1, "compact": True})
    for number in range(BATCHES):
        lands.land(f"{number:03d}.parquet", ROWS * number, ROWS, age=2 * BATCHES - number)
    chance, deleted, seen = random.Random(22), set[int](), 0
    for number in range(KILLS):
        moment = MOMENTS[number % len(MOMENTS)]
        assert drain(lands, moment, chance.randrange(3, 9)) == -signal.SIGKILL, moment
        found = lands.ids()  # by plain Python, and by pyiceberg
        batches = {each // ROWS for each in found}
        assert batches == set(range(max(batches) + 1))  # whole batches, each in its turn
        assert len(found) >= seen - len(deleted)
        whole = [each for each in range(ROWS * len(batches)) if each not in deleted]
        assert found == whole, moment
        seen = len(found)
        deleted |= change_by_others(lands, number)
    assert len(batches) < BATCHES, "it was over before the last kill"
    assert drain(lands) == 0
    counted = Counter(lands.ids())
    lost = set(range(ROWS * BATCHES)) - deleted - counted.keys()
    twice = [each for each, times in counted.items() if times > 1]
    assert (lost, twice, counted.keys() & deleted) == (set(), [], set())
    assert len([name for name in lands.table.properties if name.startswith(PREFIX)]) == 1
    runs = Path(lands.warehouse, "_runs", "iceberg_sink__alerts")
    folder = RunFolder(str(runs / str(KILLS + 1) / "compact"))
    frozen = folder.read(RunFolder.RUN, FrozenCompaction)
    request = CompactTableRequest(run_uri=folder.uri, warehouse=lands.warehouse, spec=frozen.spec)
    compaction.run(request, lands.engine)
    assert Counter(lands.ids()) == counted
    files, at_once = len(lands.table.inspect.files()), in_one_batch(lands)
    told = (
        f"{KILLS} kills of a stream of {BATCHES} batches: {len(lost)} rows lost, {len(twice)} twice; {files} "
        f"files after its compaction, {at_once} of one sink of all rows"
    )
    record_property("outcome", told)
    print(told)
    assert files <= 1.2 * at_once


def in_one_batch(lands: Landing) -> int:
    """The files that one sink of all rows leaves."""
    assert isinstance(lands.spec.source, FileRowsSpec)
    source = lands.spec.source.files
    files = tuple(open_source(source).list_files())
    spec = lands.spec.model_copy(update={"name": "at_once", "table": "survey.at_once", "stream": None})
    order = SinkOrder(
        spec=spec,
        warehouse=lands.warehouse,
        rows=FileRows(source=source, files=files),
        write_id="20261127T0000-0123456789ab",
    )
    return sink(order, lands.engine).files_added
