"""Delta tables that delta-rs writes and changes, too, and what other engines read of ours."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.api.table import Table
from hipslake.errors import PlanError
from hipslake.tables.delta.delta_log import DeltaLog

from tests.tables.delta.delta_lake import (
    DeltaLake,
    by_peers,
    others,
    plain_log,
    rows,
    values,
)
from tests.tables.sinking import utc
from tests.tables.test_sink_modes import interval


@pytest.mark.peers
def test_checkpoints_are_what_other_engines_take_them_for(
    delta: DeltaLake, peers_python: str, tmp_path: Path
) -> None:
    spec = delta.spec(partition=["group"])
    for number in range(1, 24):
        delta.sink(spec, rows([number], 0, f"g{number % 3}"), **interval(number))
    delta.sink(spec, rows([100], 0, "g1"), **interval(3))  # replaces 3
    location = delta.location(spec)
    log = location / "_delta_log"
    assert [path.name[:20] for path in sorted(log.glob("*.checkpoint.parquet"))] == [
        f"{n:020d}" for n in (10, 20)
    ]
    expected = values(location)
    assert len(expected) == 23
    for number in range(20):
        (log / f"{number:020d}.json").unlink()
    key = f"hipslake:sample/{interval(5)['start'].isoformat()}"
    told = others(peers_python, location, "check", key)
    assert (told["version"], told["number"], told["rows"]) == (24, 1, 23)
    for peer, found in by_peers(peers_python, location, tmp_path / "read").items():
        assert sorted(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True)) == expected, peer
    ours = Table.open(location)
    assert sorted(zip(*(ours.read()[name].to_pylist() for name in ("id", "value")), strict=True)) == expected
    assert [each.version for each in ours.versions()] == [10, 20, 21, 22, 23, 24]
    again = delta.sink(spec, uri=delta.land(rows([100], 0, "g1")), **interval(3))
    assert not again.skipped  # other files
    assert len(plain_state(location)) == 23


def plain_state(location: Path) -> list[str]:
    state = DeltaLog(str(location)).newest()
    assert state is not None
    return sorted(state.files)


@pytest.mark.peers
def test_tables_that_delta_rs_writes_are_sunk_into(
    delta: DeltaLake, peers_python: str, tmp_path: Path
) -> None:
    spec = delta.spec(mode="upsert", key="id", partition=["group"])
    location = delta.location(spec)
    others(peers_python, location, "create", "30")
    ours = rows([3, 29, 40], 7, "g5")
    done = delta.sink(spec, ours)
    assert (done.created, done.rows_updated) == (False, 2)
    expected = {each: 7 if each in (3, 29, 40) else -1 for each in [*range(30), 40]}
    read = Table.open(location).read()
    assert dict(zip(*(read[name].to_pylist() for name in ("id", "value")), strict=True)) == expected
    assert read.num_rows == 31
    others(peers_python, location, "append", "50")
    others(peers_python, location, "delete", "id = 29")
    delta.sink(spec, rows([50], 8, "g5"), start=utc("2026-01-01T00:00:00"))
    expected |= {50: 8}
    del expected[29]
    for peer, found in by_peers(peers_python, location, tmp_path / "read").items():
        assert dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True)) == expected, peer
        assert found.num_rows == len(expected)
    over = delta.spec(
        name="over",
        mode="overwrite-interval",
        interval="ts",
        partition=["group"],
        source={"files": {"uri": "/nowhere/{{ night }}.parquet", "format": "parquet"}},
    )
    moment = utc("2026-01-02T00:00:00")
    night_rows = rows([200], 9).append_column("ts", pa.array([moment], pa.timestamp("us", "UTC")))
    delta.sink(over, night_rows, **interval(2))
    gone = {each for each in range(30) if each % 5 == 1 and expected.get(each) == -1}
    left = {each: value for each, value in expected.items() if each not in gone} | {200: 9}
    read = Table.open(location).read()
    assert dict(zip(*(read[name].to_pylist() for name in ("id", "value")), strict=True)) == left


@pytest.mark.peers
def test_rows_that_others_have_moved_or_deleted_are_found_and_changed_ones_are_told(
    delta: DeltaLake, peers_python: str
) -> None:
    spec = delta.spec()
    delta.sink(spec, rows([1, 2, 3], 0), **interval(1))
    delta.sink(spec, rows([2, 3, 4], 0), **interval(2))
    location = delta.location(spec)
    others(peers_python, location, "optimize")
    assert len(plain_log(location)) == 1
    delta.sink(spec, rows([1, 3, 9], 0), **interval(1))  # of the equal rows 2 and 3, one each goes
    assert values(location) == [(1, 0), (2, 0), (3, 0), (3, 0), (4, 0), (9, 0)]
    others(peers_python, location, "delete", "id = 9 or id = 4")
    delta.sink(spec, rows([1, 5], 0), **interval(1))
    assert values(location) == [(1, 0), (2, 0), (3, 0), (5, 0)]
    others(peers_python, location, "update", "id = 5")
    again = delta.land(rows([6], 0))
    with pytest.raises(PlanError, match="others have put 1 other rows in the place of 1 of them"):
        delta.sink(spec, uri=again, **interval(1))
    delta.sink(spec, uri=again, force=True, **interval(1))
    assert values(location) == [(2, 0), (3, 0), (5, 100), (6, 0)]
    others(peers_python, location, "optimize")
    for number in range(3, 16):  # the log is cut behind a checkpoint
        delta.sink(spec, rows([number * 100], 0), **interval(number))
    for path in sorted((location / "_delta_log").glob("*.json"))[:20]:
        path.unlink()
    with pytest.raises(PlanError, match=r"cannot be read again .*Use mode overwrite-interval or upsert$"):
        delta.sink(spec, rows([7], 0), **interval(1))


@pytest.mark.peers
def test_what_a_restore_takes_back_is_sunk_again(delta: DeltaLake, peers_python: str) -> None:
    spec = delta.spec()
    first, second = delta.land(rows([1], 0)), delta.land(rows([2], 0))
    delta.sink(spec, uri=first, **interval(1))
    delta.sink(spec, uri=second, **interval(2))
    replaced = delta.land(rows([3], 0))
    delta.sink(spec, uri=replaced, **interval(1))
    location = delta.location(spec)
    others(peers_python, location, "restore", "1")
    assert delta.sink(spec, uri=first, **interval(1)).skipped  # the first form of the night is back
    assert not delta.sink(spec, uri=second, **interval(2)).skipped
    assert sorted(told["id"] for told in Table.open(location).read().to_pylist()) == [1, 2]
    assert not delta.sink(spec, uri=replaced, **interval(1)).skipped
    assert sorted(told["id"] for told in Table.open(location).read().to_pylist()) == [2, 3]
