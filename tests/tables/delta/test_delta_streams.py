"""`hipslake.sink` into Delta tables: a batch of a stream comes once, whatever is killed or done again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake import Table, sink
from hipslake.errors import PlanError
from hipslake.tables.delta import delta_commit

from tests.peers.running import run_peer
from tests.tables.compaction.compacting import compact, request
from tests.tables.delta.delta_lake import OTHERS, plain_delta_rows
from tests.tables.delta.test_delta_interrupted import Killed

NAME = "survey.alerts"


def batch(root: Path, rows: pa.Table, number: int, **given: Any) -> Any:
    usual = {"table": NAME, "key": ("alerts", number), "checkpoint": "first", "delta": {}}
    return sink(rows, warehouse=root / "warehouse", **(usual | given))


def rows(first: int, value: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + 3), "value": [value] * 3})


def found(root: Path) -> list[tuple[int, int]]:
    location = root / "warehouse" / "delta" / "survey" / "alerts"
    read = Table.open(NAME, warehouse=root / "warehouse", delta={}).read(["id", "value"])
    told = sorted((row["id"], row["value"]) for row in plain_delta_rows(location))
    assert told == sorted(zip(read["id"].to_pylist(), read["value"].to_pylist(), strict=True))
    return told


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_batch_comes_once_over_deaths_and_compactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    expected: list[tuple[int, int]] = []
    for number in range(6):
        real = delta_commit.create_version

        def create(*given: Any, real: Any = real) -> Any:
            monkeypatch.setattr(delta_commit, "create_version", real)
            if moment == "after the commit":
                real(*given)
            raise Killed

        if number % 2:
            monkeypatch.setattr(delta_commit, "create_version", create)
            with pytest.raises(Killed):
                batch(tmp_path, rows(3 * number), number)
        done = batch(tmp_path, rows(3 * number), number)
        assert done.skipped is (bool(number % 2) and moment == "after the commit")
        expected += [(3 * number + at, 0) for at in range(3)]
        assert found(tmp_path) == expected
        if number == 3:
            compact(request(tmp_path, table=NAME, format="delta"))
        assert batch(tmp_path, rows(3 * number), number).skipped
    with pytest.raises(PlanError, match="up to 5, and this is batch 4"):
        batch(tmp_path, rows(0), 4)
    with pytest.raises(PlanError, match="of checkpoint first, and this is batch 6 of another one"):
        batch(tmp_path, rows(0), 6, checkpoint="second")
    assert found(tmp_path) == expected


def test_batches_of_change_data_meet_the_rows_of_earlier_ones(tmp_path: Path) -> None:
    given = {"mode": "upsert", "by": "id", "operation": {"column": "op"}, "order_by": "value"}
    first = rows(0, 1).append_column("op", [["I", "I", "I"]])
    batch(tmp_path, first, 0, **given)
    done = batch(tmp_path, rows(1, 2).append_column("op", [["D", "U", "I"]]), 1, **given)
    assert (done.rows_deleted, done.rows_updated) == (1, 1)
    assert found(tmp_path) == [(0, 1), (2, 2), (3, 2)]


@pytest.mark.peers
def test_batches_that_a_restore_takes_back_come_again(tmp_path: Path, peers_python: str) -> None:
    for number in range(3):
        batch(tmp_path, rows(3 * number), number)
    location = tmp_path / "warehouse" / "delta" / "survey" / "alerts"
    run_peer(peers_python, OTHERS, str(location), "restore", "2")
    assert batch(tmp_path, rows(3), 1).skipped
    assert not batch(tmp_path, rows(6), 2).skipped
    read = Table.open(location).read()
    assert sorted(read["id"].to_pylist()) == list(range(9))
