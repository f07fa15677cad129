"""Commits of Delta tables beside other writers, and where answers are lost."""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hipslake.api.table import Table
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import ConflictError, PlanError
from hipslake.steps.sink.sink_table import sink
from hipslake.storage.access import StoreAccess, asked_as
from hipslake.tables.delta import delta_commit
from hipslake.tables.delta.delta_log import DeltaLog, commit_path
from hipslake.tables.delta.delta_table import delta_location
from hipslake.tables.delta.delta_writes import sweep_delta_writes

from tests.stores.proxy import running_proxy
from tests.stores.s3_server import S3Server
from tests.tables.delta.delta_lake import (
    DeltaLake,
    plain_delta_rows,
    rows,
    values,
)
from tests.tables.sinking import utc
from tests.tables.test_sink_modes import interval, night


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
