"""Commits of Delta tables beside other writers, after kills, and where answers are lost."""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hipslake.api.table import Table
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import ConflictError, PlanError
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.steps.run import run_uri
from hipslake.steps.sink.sink_table import sink
from hipslake.steps.table_delete import run as delete_table_rows_run
from hipslake.steps.table_delete.request import DeleteTableRowsRequest
from hipslake.storage.access import StoreAccess, asked_as
from hipslake.storage.folder import Storage
from hipslake.tables.delta import delta_commit, delta_vector_writer
from hipslake.tables.delta.delta_log import DeltaLog, commit_path
from hipslake.tables.delta.delta_table import delta_location
from hipslake.tables.delta.delta_vectors import vector_path
from hipslake.tables.delta.delta_writes import sweep_delta_writes, writes_below
from hipslake.tables.opening import open_table

from tests.peers.running import run_peer
from tests.stores.proxy import running_proxy
from tests.stores.s3_server import S3Server
from tests.tables.compaction.compacting import request
from tests.tables.delta.delta_lake import DeltaLake, by_peers, plain_delta_rows, plain_log
from tests.tables.sinking import utc
from tests.tables.test_sink_modes import interval, night

OTHERS = Path(__file__).with_name("others_write_delta.py")


def others(python: str, location: Path | str, *what: str) -> Any:
    """Let delta-rs write, or look."""
    return json.loads(run_peer(python, OTHERS, str(location), *what))


def values(location: Path) -> list[tuple[int, int]]:
    return sorted((row["id"], row["value"]) for row in plain_delta_rows(location))


def rows(keys: list[int], value: int, group: str = "g0") -> pa.Table:
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "group": pa.array([group] * len(keys), pa.string()),
            "value": pa.array([value] * len(keys), pa.int64()),
        }
    )


@pytest.fixture
def before_commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What happens, one by one, right before each of the next commits."""
    waiting: list[Callable[[], object]] = []
    real = delta_commit.create_version

    def create(*given: Any) -> Any:
        if waiting:
            waiting.pop(0)()
        return real(*given)

    monkeypatch.setattr(delta_commit, "create_version", create)
    yield waiting
    assert waiting == []


def test_an_append_is_committed_on_top_of_others(
    delta: DeltaLake, before_commit: list[Callable[[], object]]
) -> None:
    spec = delta.spec()
    delta.sink(spec, night(1, [1]), **interval(1))
    before_commit.append(lambda: delta.sink(spec, night(2, [2]), **interval(2)))
    done = delta.sink(spec, night(3, [3]), **interval(3))
    assert (done.snapshot_id, done.attempts) == (3, 2)
    assert [row["id"] for row in plain_delta_rows(delta.location(spec))] == [1, 2, 3]


def test_two_runs_of_one_interval_leave_its_rows_once(
    delta: DeltaLake, before_commit: list[Callable[[], object]]
) -> None:
    spec = delta.spec()
    uri = delta.land(night(1, [1, 2]))
    before_commit.append(lambda: delta.sink(spec, uri=uri, **interval(1)))
    done = delta.sink(spec, uri=uri, **interval(1))
    assert done.skipped
    assert [row["id"] for row in plain_delta_rows(delta.location(spec))] == [1, 2]


def test_rows_of_a_key_that_others_insert_meanwhile_are_replaced_too(
    delta: DeltaLake, before_commit: list[Callable[[], object]]
) -> None:
    """An insert by others removes no file that was read: it is the keys that conflict."""
    upsert = delta.spec(mode="upsert", key="id")
    other = delta.spec(name="other")
    delta.sink(upsert, rows([1, 2], 0))
    before_commit.append(lambda: delta.sink(other, rows([2, 3], 1)))
    done = delta.sink(upsert, rows([3, 4], 2))
    assert done.rows_updated == 1
    assert values(delta.location(upsert)) == [(1, 0), (2, 0), (2, 1), (3, 2), (4, 2)]
    before_commit.append(lambda: delta.sink(other, rows([100], 1), start=utc("2026-01-01T00:00:00")))
    assert delta.sink(upsert, rows([4], 3)).attempts == 2  # other keys: no conflict
    assert values(delta.location(upsert))[-2:] == [(4, 3), (100, 1)]


def test_files_that_others_take_away_are_looked_up_again(
    delta: DeltaLake, before_commit: list[Callable[[], object]]
) -> None:
    spec = delta.spec(mode="upsert", key="id")
    delta.sink(spec, rows([1, 2], 0))
    before_commit.append(lambda: delta.sink(spec, rows([2], 1), start=utc("2026-01-01T00:00:00")))
    delta.sink(spec, rows([1, 3], 2))
    assert values(delta.location(spec)) == [(1, 2), (2, 1), (3, 2)]


def test_many_writers_at_once_lose_nothing(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, night(1, [1]), **interval(1))
    orders = [delta.order(spec, night(number, [number]), **interval(number)) for number in range(2, 10)]
    failed: list[BaseException] = []

    def work(order: Any) -> None:
        try:
            sink(order, ThisProcess(1), stale_after=3600)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(row["id"] for row in plain_delta_rows(delta.location(spec))) == list(range(1, 10))


def test_nothing_is_committed_behind_a_log_that_was_cut(
    delta: DeltaLake, before_commit: list[Callable[[], object]]
) -> None:
    """A writer stops before its commit, until the number that it asks for is free again, and far behind."""
    spec = delta.spec(mode="upsert", key="id")
    delta.sink(spec, rows([1], 0))
    location = delta.location(spec)

    def go_on() -> None:
        for number in range(2, 12):
            delta.sink(spec, rows([1], number), **interval(number))
        for number in range(10):
            (location / commit_path(number)).unlink()

    before_commit.append(go_on)
    done = delta.sink(spec, rows([2], 0), **interval(20))
    assert done.snapshot_id == 12
    read = Table.open(location).read()
    assert sorted(zip(read["id"].to_pylist(), read["value"].to_pylist(), strict=True)) == [(1, 11), (2, 0)]
    assert [path.stem for path in sorted((location / "_delta_log").glob("*.json"))] == [
        f"{number:020d}" for number in (10, 11, 12)
    ]


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
        at += 1
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


def test_a_taken_name_may_be_our_own_success(delta: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may lose its answer to a commit that stands, and say "taken" to the client that asks again."""
    spec = delta.spec()
    delta.sink(spec, night(1, [1]), **interval(1))
    storage = type(DeltaLog(str(delta.location(spec))).storage)
    real = storage.create

    def create(where: Any, path: str, data: bytes) -> bool:
        return real(where, path, data) and path != commit_path(2)

    monkeypatch.setattr(storage, "create", create)
    done = delta.sink(spec, night(2, [2]), **interval(2))
    assert (done.snapshot_id, done.attempts) == (2, 1)
    assert sorted(row["id"] for row in plain_delta_rows(delta.location(spec))) == [1, 2]


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


def test_a_lost_answer_of_a_store_is_a_commit(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    delta = DeltaLake(tmp_path, ThisProcess(1))
    delta.warehouse = f"{bucket}/{uuid.uuid4().hex}"
    spec = delta.spec(mode="upsert", key="id")
    delta.sink(spec, rows([1], 0))
    order = delta.order(spec, rows([1, 2], 1), start=utc("2026-01-01T00:00:00"))
    with running_proxy(s3_server.endpoint) as proxy, asked_as(StoreAccess(endpoint=proxy.endpoint)):
        lost = proxy.drop_answers("PUT", r"_delta_log/0+2\.json", times=math.inf)
        done = sink(order, delta.engine, stale_after=3600)
    assert (lost.met >= 1, done.snapshot_id, done.rows_updated) == (True, 2, 1)
    assert sink(order, delta.engine, stale_after=3600).skipped
    read = Table.open(spec.table, warehouse=delta.warehouse, delta={}).read()
    assert sorted(zip(*(read[name].to_pylist() for name in ("id", "value")), strict=True)) == [(1, 1), (2, 1)]


def test_a_table_in_an_object_store_is_sunk_read_and_swept(tmp_path: Path, bucket: str) -> None:
    delta = DeltaLake(tmp_path)
    delta.warehouse = f"{bucket}/{uuid.uuid4().hex}"
    spec = delta.spec(partition=["group"], mode="upsert", key="id")
    delta.sink(spec, rows([1, 2], 0))
    done = delta.sink(spec, rows([2, 3], 1, "g/1 %"))
    assert done.location.startswith("s3://")
    assert done.rows_updated == 1
    location = delta_location(spec.delta, delta.warehouse, spec.table)
    read = Table.open(spec.table, warehouse=delta.warehouse, delta={}).read()
    assert sorted(zip(*(read[name].to_pylist() for name in ("id", "value")), strict=True)) == [
        (1, 0),
        (2, 1),
        (3, 1),
    ]
    log = DeltaLog(location)
    assert sweep_delta_writes(log, 0.0) == []
    assert delta.sink(spec, uri=delta.land(rows([3], 2)), start=utc("2026-01-01T00:00:00")).snapshot_id == 3


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}, "version 4"),
        (
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": ["x"],
                    "writerFeatures": [],
                }
            },
            "know x",
        ),
    ],
)
def test_features_that_are_not_known_are_refused(delta: DeltaLake, action: dict[str, Any], why: str) -> None:
    spec = delta.spec()
    delta.sink(spec, night(1, [1]), **interval(1))
    path = delta.location(spec) / commit_path(2)
    path.write_text(json.dumps(action) + "\n")
    with pytest.raises(PlanError, match=why):
        Table.open(delta.location(spec))
    with pytest.raises(PlanError, match=why):
        delta.sink(spec, night(2, [2]), **interval(2))


def test_a_table_that_is_append_only_keeps_its_rows(delta: DeltaLake) -> None:
    spec = delta.spec(mode="upsert", key="id", properties={"delta.appendOnly": "true"})
    delta.sink(spec, rows([1], 0))
    delta.sink(spec, rows([2], 0))
    with pytest.raises(PlanError, match="appendOnly"):
        delta.sink(spec, rows([2], 1))
    assert values(delta.location(spec)) == [(1, 0), (2, 0)]


def test_a_run_that_is_overtaken_too_often_says_so(delta: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = delta.spec()
    delta.sink(spec, night(1, [1]), **interval(1))
    monkeypatch.setattr(delta_commit, "COMMIT_TRIES", 2)
    monkeypatch.setattr(delta_commit, "create_version", lambda *given: "conflict")
    monkeypatch.setattr("hipslake.steps.sink.sink_table.REPLANS", 1)
    with pytest.raises(ConflictError, match="committed first 2 times"):
        delta.sink(spec, night(2, [2]), **interval(2))
    assert [row["id"] for row in plain_delta_rows(delta.location(spec))] == [1]
    assert list((delta.location(spec) / "data").iterdir()).__len__() == 1
