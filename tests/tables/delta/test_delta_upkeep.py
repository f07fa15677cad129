"""Compactions and vacuums of Delta tables."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.api.table import Table
from hipslake.errors import VersionNotFoundError
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.upkeep.request import VacuumTableRequest
from hipslake.steps.upkeep.vacuum_table import run as vacuum_step
from hipslake.tables.delta import delta_commit
from hipslake.tables.opening import open_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tables.compaction.compacting import compact, request
from tests.tables.delta.delta_lake import (
    DeltaLake,
    by_peers,
    others,
    plain_delta_rows,
    plain_log,
    rows,
    values,
)
from tests.tables.sinking import utc
from tests.tables.test_sink_modes import interval


def points(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(random.permutation(count) + seed * 1_000_000, pa.int64()),
            "group": pa.array([None if n % 5 == 0 else f"g{n % 2}" for n in range(count)], pa.string()),
            "ra": random.random(count) * 360,
            "dec": random.random(count) * 180 - 90,
        }
    )


def touched(location: Path, seed: int = 7) -> int:
    """How many files 100 boxes touch, by the bounds in the log."""
    random = np.random.default_rng(seed)
    stats = [json.loads(told["stats"]) for told in plain_log(location).values()]
    found = 0
    for ra, dec in zip(random.random(100) * 340, random.random(100) * 160 - 90, strict=True):
        for each in stats:
            low, high = each["minValues"], each["maxValues"]
            found += (
                low["ra"] <= ra + 20 and ra <= high["ra"] and low["dec"] <= dec + 20 and dec <= high["dec"]
            )
    return found


@pytest.mark.parametrize("mode", ["binpack", "zorder", "hilbert"])
@pytest.mark.parametrize("partition", [[], ["group"]])
def test_a_compaction_keeps_the_rows_and_brings_them_in_order(
    delta: DeltaLake, mode: str, partition: list[str]
) -> None:
    spec = delta.spec(partition=partition)
    for number in range(1, 4):
        delta.sink(spec, points(2000, number), **interval(number))
    location = delta.location(spec)
    before, boxes = plain_delta_rows(location), touched(location)
    told: dict[str, object] = {"mode": mode, "table": spec.table, "format": "delta"}
    told |= (
        {"target_file_size": "1 MiB"}
        if mode == "binpack"
        else {"target_file_size": "20 KiB", "columns": ["ra", "dec"]}
    )
    asked = request(delta.root, **told)
    report = compact(asked)
    after = plain_delta_rows(location)
    key = lambda row: row["id"]  # noqa: E731
    assert sorted(after, key=key) == sorted(before, key=key)
    assert report.rows_out == 6000
    if mode != "binpack":
        assert touched(location) < boxes
        assert report.added.files > 3
        again = compact(request(delta.root, **told))
        assert again.added.files == 0  # what is clustered stays
    last = max((location / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    assert {
        told["dataChange"] for action in actions for kind, told in action.items() if kind in ("add", "remove")
    } == {False}
    assert compact(asked).rows_out == 6000  # the same run again finds what it has committed
    assert max((location / "_delta_log").glob("*.json")) == last


def test_a_night_is_replaced_after_a_compaction_of_its_files(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, rows([1, 2], 0), rows([3], 0), **interval(1))
    location = delta.location(spec)
    table = request(delta.root, table=spec.table, format="delta", mode="zorder", columns=["id"])
    compact(table)
    delta.sink(spec, rows([2], 1), **interval(1))
    assert values(location) == [(2, 1)]


def test_nights_that_a_compaction_has_mixed_are_replaced(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, rows([1, 7], 0), **interval(1))
    delta.sink(spec, rows([2, 7], 0), **interval(2))
    compact(request(delta.root, table=spec.table, format="delta"))
    location = delta.location(spec)
    assert len(plain_log(location)) == 1
    delta.sink(spec, rows([3], 0), **interval(1))
    assert values(location) == [(2, 0), (3, 0), (7, 0)]
    upsert = delta.spec(name="upsert", mode="upsert", key="id")
    delta.sink(upsert, rows([2], 5))
    assert values(location) == [(2, 5), (3, 0), (7, 0)]
    delta.sink(spec, rows([4], 0), **interval(2))  # what the upsert has replaced is its own by now
    assert values(location) == [(2, 5), (3, 0), (4, 0)]


NIGHT = st.tuples(st.just("night"), st.integers(1, 4), st.lists(st.integers(0, 9), max_size=6))
COMPACTION = st.tuples(st.just("compact"), st.sampled_from([1, 2]), st.just([]))


@pytest.mark.properties
@given(st.lists(st.one_of(NIGHT, NIGHT, COMPACTION), min_size=2, max_size=8), st.booleans())
@settings(max_examples=examples(40, part=10), deadline=None, suppress_health_check=list(HealthCheck))
def test_any_sequence_of_nights_and_compactions_leaves_each_night_as_it_came_last(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, list[int]]], parted: bool
) -> None:
    """Rows of several nights may be equal: as many go as the night brought."""
    delta = DeltaLake(tmp_path_factory.mktemp("delta"))
    spec = delta.spec(partition=["group"] if parted else [])
    nights: dict[int, list[int]] = {}
    for at, (what, number, some) in enumerate(steps):
        if what == "night":
            delta.sink(spec, rows(some, 0, f"g{at % 2}"), **interval(number))
            nights[number] = some
        elif nights:
            by = {"mode": "hilbert", "columns": ["id"]} if number == 1 else {}
            compact(request(delta.root, table=spec.table, format="delta", **by))
        if nights:
            found = sorted(row["id"] for row in plain_delta_rows(delta.location(spec)))
            assert found == sorted(each for ids in nights.values() for each in ids)


def test_a_compaction_whose_files_went_is_refused_and_others_stand(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = delta.spec(mode="upsert", key="id")
    delta.sink(spec, rows([1, 2], 0), start=utc("2026-01-01T00:00:00"))
    delta.sink(spec, rows([3, 4], 0), start=utc("2026-01-02T00:00:00"))
    real = delta_commit.create_version

    def create(*given: object) -> object:
        monkeypatch.setattr(delta_commit, "create_version", real)
        delta.sink(spec, rows([1], 9), start=utc("2026-01-03T00:00:00"))
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(delta_commit, "create_version", create)
    with pytest.raises(Exception, match="changed by another writer"):
        compact(request(delta.root, table=spec.table, format="delta"))
    assert values(delta.location(spec)) == [(1, 9), (2, 0), (3, 0), (4, 0)]


def test_a_vacuum_leaves_what_kept_versions_have(delta: DeltaLake) -> None:
    spec = delta.spec(mode="upsert", key="id", partition=["group"])
    location = delta.location(spec)
    states = {}
    for number in range(1, 9):
        delta.sink(spec, rows([100, number], number), start=utc(f"2026-01-{number:02d}T00:00:00"))
        states[number] = values(location)
    later = datetime.now(UTC) + timedelta(hours=1)
    table = open_table(spec.place, delta.warehouse, spec.table)
    planned = table.vacuum(Retention(keep_versions=3, keep_days=0), now=later)
    files = sorted((location / "data").rglob("*.parquet"))
    assert planned.kept == (6, 7, 8)
    assert planned.expired == (0, 1, 2, 3, 4, 5)
    done = table.vacuum(Retention(keep_versions=3, keep_days=0), now=later, dry_run=False)
    assert done.model_dump(exclude={"dry_run"}) == planned.model_dump(exclude={"dry_run"})
    left = sorted((location / "data").rglob("*.parquet"))
    assert len(files) - len(left) == done.files > 0
    opened = Table.open(location)
    assert [each.version for each in opened.versions()] == [6, 7, 8]
    for number in (6, 7, 8):
        read = Table.open(location, version=number).read()
        assert sorted(zip(read["id"].to_pylist(), read["value"].to_pylist(), strict=True)) == states[number]
    with pytest.raises(VersionNotFoundError):
        Table.open(location, version=5)
    again = table.vacuum(Retention(keep_versions=3, keep_days=0), now=later, dry_run=False)
    assert (again.files, again.expired) == (0, ())
    delta.sink(spec, rows([1], 99), start=utc("2026-01-20T00:00:00"))
    assert Table.open(location).rows == 9


@pytest.mark.peers
def test_others_read_and_write_what_a_vacuum_leaves(
    delta: DeltaLake, peers_python: str, tmp_path: Path
) -> None:
    spec = delta.spec()
    location = delta.location(spec)
    moment = pa.array([utc("2026-01-01T00:00:00")], pa.timestamp("us", "UTC"))
    for number in range(1, 5):
        delta.sink(spec, rows([number], 0).append_column("ts", moment), **interval(1))
    asked = VacuumTableRequest(
        run_uri=str(tmp_path / "run"),
        warehouse=delta.warehouse,
        created=datetime.now(UTC) + timedelta(hours=1),
        format="delta",
        table=spec.table,
        keep_versions=1,
        keep_days=0,
        dry_run=False,
    )
    report = vacuum_step(asked)
    assert (report.kept, report.files) == ((4,), 3)
    others(peers_python, location, "append", "9")
    for peer, found in by_peers(peers_python, location, tmp_path / "read").items():
        assert sorted(found["id"].to_pylist()) == [4, 9], peer
    assert sorted(Table.open(location).read()["id"].to_pylist()) == [4, 9]


@pytest.mark.peers
def test_a_vacuum_of_others_leaves_what_was_sunk_known(delta: DeltaLake, peers_python: str) -> None:
    spec = delta.spec(partition=["group"])
    location = delta.location(spec)
    uri = delta.land(rows([1], 0, "a/b =%"))
    delta.sink(spec, uri=uri, **interval(1))
    delta.sink(spec, rows([3], 0), **interval(2))
    delta.sink(spec, rows([2], 0), **interval(2))
    assert len(others(peers_python, location, "vacuum")) == 1
    assert values(location) == [(1, 0), (2, 0)]
    assert delta.sink(spec, uri=uri, **interval(1)).skipped
    delta.sink(spec, rows([4], 0), **interval(2))
    assert values(location) == [(1, 0), (4, 0)]
