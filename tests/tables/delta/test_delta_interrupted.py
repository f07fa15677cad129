"""Runs on Delta tables that are killed at any change of the store, or at their commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hipslake.api.table import Table
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.steps.run import run_uri
from hipslake.steps.sink.sink_table import sink
from hipslake.steps.table_delete import run as delete_table_rows_run
from hipslake.steps.table_delete.request import DeleteTableRowsRequest
from hipslake.storage.folder import Storage
from hipslake.tables.delta import delta_commit, delta_vector_writer
from hipslake.tables.delta.delta_log import DeltaLog, commit_path
from hipslake.tables.delta.delta_vectors import vector_path
from hipslake.tables.delta.delta_writes import sweep_delta_writes, writes_below
from hipslake.tables.opening import open_table

from tests.examples import ALL
from tests.tables.compaction.compacting import request
from tests.tables.delta.delta_lake import (
    DeltaLake,
    plain_delta_rows,
    plain_log,
    rows,
)
from tests.tables.test_sink_modes import interval, night


class Killed(BaseException):
    """Ends a process as a kill would."""


CHANGES = ("write", "create", "delete", "delete_tree")


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> bool:
    """Let a kill come before the change of a store with this number; False if there are no so many."""
    left = [number]

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if threading.current_thread() is threading.main_thread() and "/landing" not in given[0].root:
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
            return real(*given, **named)

        return call

    with monkeypatch.context() as patched:
        for name in CHANGES:
            patched.setattr(Storage, name, guarded(getattr(Storage, name)))
        try:
            work()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("mode", ["append", "upsert", "on_read", "compaction", "parts", "delete", "vacuum"])
def test_a_run_that_is_killed_at_any_change_of_a_store_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """After each kill what dead runs have left is swept, and the run comes again: it is there once."""
    at = 0
    monkeypatch.setattr(delta_vector_writer, "_INLINE_BYTES", 0)  # all vectors are in files
    while True:
        delta = DeltaLake(tmp_path / f"{at:03d}", ThisProcess(1))
        key = {"mode": "upsert", "key": "id", "duplicates": "last by value"}
        key = key if mode in ("upsert", "on_read") else {}
        key |= {"write": "merge-on-read"} if mode == "on_read" else {}
        spec = delta.spec(partition=["group"], properties={"delta.checkpointInterval": "2"}, **key)
        delta.sink(spec, rows([1, 2], 0), **interval(1))
        delta.sink(spec, rows([5], 0), **interval(3))
        location = delta.location(spec)
        expected = [(1, 0), (2, 0), (5, 0)]
        if mode == "parts":
            for number in (4, 5):
                delta.sink(spec, rows([number * 10], 0, "g1"), **interval(number))
            expected += [(40, 0), (50, 0)]
        if mode in ("append", "upsert", "on_read"):
            uri = delta.land(rows([2, 3], 1))
            order = delta.order(spec, uri=uri, **interval(2))
            expected = sorted([(1, 0), (2, 1), (3, 1), (5, 0)] + ([(2, 0)] if mode == "append" else []))

            def work(order: Any = order, delta: DeltaLake = delta) -> object:
                return sink(order, delta.engine, stale_after=0.0)

        elif mode in ("compaction", "parts"):
            commits = 2 if mode == "parts" else 1
            asked = request(delta.root, table=spec.table, format="delta", run="again", max_commits=commits)

            def work(asked: Any = asked, delta: DeltaLake = delta) -> object:
                return compact_table_run.run(asked, delta.engine)

        elif mode == "delete":
            going = DeleteTableRowsRequest(
                run_uri=run_uri(delta.warehouse, "table_delete__sample", "again"),
                warehouse=delta.warehouse,
                format="delta",
                table=spec.table,
                keys=(1,),
                key=("id",),
                force=True,
            )
            expected = [(2, 0), (5, 0)]

            def work(going: Any = going) -> object:
                return delete_table_rows_run.run(going)

        else:
            later, keep = datetime.now(UTC) + timedelta(hours=1), Retention(keep_versions=1, keep_days=0)
            delta.sink(spec, rows([2, 1], 7), **interval(1))
            expected = [(1, 7), (2, 7), (5, 0)]
            table = open_table(spec.place, delta.warehouse, spec.table)

            def work(table: Any = table, later: datetime = later, keep: Retention = keep) -> object:
                return table.vacuum(keep, now=later, dry_run=False)

        killed = killed_at(at, monkeypatch, work)
        sweep_delta_writes(DeltaLog(str(location)), 0.0)
        work()
        sweep_delta_writes(DeltaLog(str(location)), 0.0)  # what may have been on its way before
        opened = Table.open(location).read()
        found = sorted(zip(opened["id"].to_pylist(), opened["value"].to_pylist(), strict=True))
        assert found == expected, (at, mode)
        state = DeltaLog(str(location)).newest()
        assert state is not None
        named = [*state.files.values(), *(() if mode == "vacuum" else state.removed.values())]
        lying = {str(path.relative_to(location)) for path in (location / "data").rglob("*.parquet")}
        assert lying == {unquote(told["path"]) for told in named}, (at, mode)
        vectors = {str(path.relative_to(location)) for path in (location / "_vectors").rglob("*.bin")}
        assert vectors == {vector_path(told) for told in named} - {None}, (at, mode)
        left = [entry.path for entry in writes_below(str(location)).list() if entry.is_dir]
        assert [name for name in left if not name.startswith("_")] == [], (at, mode)
        assert list(writes_below(str(location)).list("_versions/intents")) == [], (at, mode)
        if not killed:
            break
        at += 1 if ALL else 3
    assert at > (3 if mode == "vacuum" else 6)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_sink_that_is_killed_at_its_commit_is_there_once_or_not_at_all(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    spec = delta.spec()
    delta.sink(spec, night(1, [1]), **interval(1))
    uri = delta.land(night(2, [2, 3]))
    real = delta_commit.create_version

    def create(*given: Any) -> Any:
        if moment == "after":
            real(*given)
        raise Killed

    monkeypatch.setattr(delta_commit, "create_version", create)
    with pytest.raises(Killed):
        delta.sink(spec, uri=uri, **interval(2))
    monkeypatch.setattr(delta_commit, "create_version", real)
    location = delta.location(spec)
    assert len(plain_delta_rows(location)) == (3 if moment == "after" else 1)
    left = list(writes_below(str(location)).list())
    assert sum(entry.is_dir and not entry.path.startswith("_") for entry in left) == 1
    swept = sweep_delta_writes(DeltaLog(str(location)), 0.0)
    assert len(swept) == (0 if moment == "after" else 1)
    done = delta.sink(spec, uri=uri, **interval(2))
    assert done.skipped is (moment == "after")
    assert sorted(row["id"] for row in plain_delta_rows(location)) == [1, 2, 3]
    named = {str(location / path) for path in plain_log(location)}
    assert {str(path) for path in (location / "data").rglob("*.parquet")} == named


def test_a_commit_that_may_still_land_keeps_its_files(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer is stopped between its last look and its commit, and a sweeper comes by."""
    spec = delta.spec()
    delta.sink(spec, night(1, [1]), **interval(1))
    location = delta.location(spec)
    log = DeltaLog(str(location))
    swept: list[list[str]] = []
    real = type(log.storage).create

    def create(storage: Any, path: str, data: bytes) -> bool:
        if path == commit_path(2) and not swept:
            swept.append(sweep_delta_writes(DeltaLog(str(location)), 0.0))
        return real(storage, path, data)

    monkeypatch.setattr(type(log.storage), "create", create)
    delta.sink(spec, night(2, [2]), **interval(2))
    assert swept == [[]]
    assert sorted(row["id"] for row in plain_delta_rows(location)) == [1, 2]
