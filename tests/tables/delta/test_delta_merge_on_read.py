"""Sinks and deletes that write deletion vectors, by the protocol: beside other writers, and after a crash."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hipslake.api.table import Table
from hipslake.errors import PlanError, SpecError
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.sink.sink_table import sink
from hipslake.tables.delta.delta_log import DeltaLog
from hipslake.tables.delta.delta_protocol import with_features
from hipslake.tables.delta.delta_vector_writer import DeltaVectorWriter, with_wide_bounds
from hipslake.tables.opening import open_table

from tests.tables.compaction.compacting import compact, request
from tests.tables.delta.delta_lake import (
    DeltaLake,
    by_peers,
    plain_delta_rows,
    plain_log,
    rows,
    values,
)
from tests.tables.delta.vectors import positions_of
from tests.tables.sinking import utc
from tests.tables.test_commit import Interrupted
from tests.tables.test_sink_modes import interval

UPSERT: dict[str, Any] = {"mode": "upsert", "key": "id", "write": "merge-on-read"}
ENABLED = "delta.enableDeletionVectors"
AGAIN = {"start": utc("2026-01-01T00:00:00")}


def check(location: Path, expected: dict[int, int]) -> None:
    """What we read, and what plain Python reads."""
    wanted = sorted(expected.items())
    assert values(location) == wanted
    assert found(location) == wanted
    assert Table.open(location).rows == len(wanted)


def actions(location: Path, version: int) -> list[dict[str, Any]]:
    """Those of a commit."""
    path = location / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in path.read_text().splitlines()]


def found(location: Path, version: int | None = None) -> list[tuple[int, int]]:
    """What we read."""
    read = Table.open(location, version=version).read(["id", "value"])
    return sorted(zip(read["id"].to_pylist(), read["value"].to_pylist(), strict=True))


def vector_files(location: Path) -> set[Path]:
    """The files of vectors that lie in the table's folder."""
    return {*location.rglob("deletion_vector_*.bin")}


def test_an_upsert_names_the_rows_that_it_replaces(delta: DeltaLake) -> None:
    spec = delta.spec(**UPSERT, partition=["group"])
    delta.sink(spec, rows([*range(5000)], 0, "g0"), rows([*range(5000, 5100)], 0, "g1"))
    location = delta.location(spec)
    assert actions(location, 0)[1] == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    before = plain_log(location)
    again = [*range(0, 5000, 2), 5050, 6000]
    done = delta.sink(spec, rows(again, 1, "g0"), **AGAIN)
    assert (done.rows_updated, done.rows_rewritten, done.files_removed) == (2501, 0, 0)
    assert (done.files_added, done.delete_files) == (1, 2)
    check(location, dict.fromkeys(range(5100), 0) | dict.fromkeys(again, 1))
    assert [row["value"] for row in plain_delta_rows(location, 1)] == [0] * 5100
    assert Table.open(location, version=1).rows == 5100
    after = plain_log(location)
    assert before.keys() < after.keys()
    kinds = set()
    for path, old in before.items():
        new = after[path]
        vector, stats = new["deletionVector"], json.loads(new["stats"])
        assert stats.pop("tightBounds") is False
        assert stats == json.loads(old["stats"])
        untouched = ("path", "size", "modificationTime", "partitionValues")
        assert [new[name] for name in untouched] == [old[name] for name in untouched]
        wanted = [50] if "g1" in path else [*range(0, 5000, 2)]
        assert positions_of(vector, location) == wanted
        kinds.add(vector["storageType"])
    assert kinds == {"i", "u"}  # small ones stand in the log
    [file] = vector_files(location)
    assert file.parts[-3] == "_vectors"
    commit = actions(location, 2)
    [protocol] = [each["protocol"] for each in commit if "protocol" in each]
    assert protocol == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "deletionVectors", "invariants"],
    }
    assert commit[0]["commitInfo"]["isBlindAppend"] is False
    assert [each["remove"]["path"] for each in commit if "remove" in each] == [*before]


def test_rows_of_a_file_go_one_upsert_after_the_other_until_it_goes(delta: DeltaLake) -> None:
    spec = delta.spec(**UPSERT)
    delta.sink(spec, rows([*range(6)], 0))
    location = delta.location(spec)
    [first] = plain_log(location)
    expected = dict.fromkeys(range(6), 0)
    for night, some in enumerate(([1, 4], [0, 5], [2]), 1):
        delta.sink(spec, rows(some, night), start=utc(f"2026-11-0{night}T00:00"))
        expected |= dict.fromkeys(some, night)
        check(location, expected)
        assert first in plain_log(location)
        assert len([1 for each in actions(location, night + 1) if "metaData" in each]) == (night == 1)
    last = delta.sink(spec, rows([3], 9), start=utc("2026-11-09T00:00"))
    assert (last.files_removed, last.delete_files) == (1, 0)  # no row of it is left
    assert first not in plain_log(location)
    check(location, expected | {3: 9})
    deleted = Table.open(location).delete([1], key="id", force=True, write="merge-on-read").deletion
    assert deleted is not None
    assert deleted.rows == 1
    report = compact(request(delta.root, table=spec.table, format="delta", delete_file_threshold=1))
    assert report.rows_deleted == 1
    del expected[1]
    check(location, expected | {3: 9})
    assert not any(told.get("deletionVector") for told in plain_log(location).values())


@pytest.mark.parametrize(
    ("told", "write", "on_read"),
    [
        (None, None, False),
        (None, "merge-on-read", True),
        ("true", None, True),
        ("true", "copy-on-write", False),
        ("false", None, False),
    ],
)
def test_spec_and_table_say_how_rows_go(
    delta: DeltaLake, told: str | None, write: str | None, on_read: bool
) -> None:
    properties = {} if told is None else {ENABLED: told}
    spec = delta.spec(mode="upsert", key="id", properties=properties, write=write)
    delta.sink(spec, rows([*range(10)], 0))
    location = delta.location(spec)
    [protocol] = [each["protocol"] for each in actions(location, 0) if "protocol" in each]
    assert protocol["minReaderVersion"] == (3 if told == "true" else 1)
    done = delta.sink(spec, rows([1], 1), **AGAIN)
    assert done.delete_files == int(on_read)
    assert done.rows_rewritten == (0 if on_read else 9)
    table = Table.open(location).delete([2], key="id", force=True)
    assert table.deletion is not None
    marked = sum("deletionVector" in each for each in plain_log(location).values())
    assert marked == int(on_read or told == "true")  # the first vector sets the property
    check(location, {number: int(number == 1) for number in range(10) if number != 2})


def test_what_the_owner_of_a_table_forbids_is_refused(delta: DeltaLake) -> None:
    spec = delta.spec(mode="upsert", key="id", properties={ENABLED: "false"})
    delta.sink(spec, rows([1, 2], 0))
    location = delta.location(spec)
    with pytest.raises(SpecError, match=f"takes no deletion vectors, by its property {ENABLED}; write copy"):
        Table.open(location).delete([1], key="id", force=True, write="merge-on-read")
    with pytest.raises(SpecError, match="takes no deletion vectors"):
        delta.sink(delta.spec(**UPSERT), rows([1], 1), **AGAIN)
    check(location, {1: 0, 2: 0})
    append = delta.spec(name="only", table="survey.only", properties={"delta.appendOnly": "true"})
    delta.sink(append, rows([1, 2], 0))
    only = Table.open(delta.location(append))
    with pytest.raises(PlanError, match=r"delta\.appendOnly is set"):
        only.delete(filters="id < 2", force=True, write="merge-on-read")


def test_mode_append_replaces_nothing_that_vectors_may_have_taken(delta: DeltaLake) -> None:
    spec = delta.spec()
    delta.sink(spec, rows([1, 2, 3], 0), **interval(1))
    location = delta.location(spec)
    Table.open(location).delete([2], key="id", force=True, write="merge-on-read")
    delta.sink(spec, rows([9], 0), **interval(2))
    check(location, {1: 0, 3: 0, 9: 0})
    with pytest.raises(PlanError, match=r"deletion vectors, of 1 files"):
        delta.sink(spec, rows([1], 1), **interval(1))


@pytest.mark.parametrize("how", ["merge-on-read", "copy-on-write", "compaction", "append"])
def test_who_changes_the_same_file_meanwhile_makes_an_upsert_look_again(delta: DeltaLake, how: str) -> None:
    spec = delta.spec(**UPSERT)
    delta.sink(spec, rows([*range(10)], 0))
    location = delta.location(spec)
    expected = dict.fromkeys(range(10), 0)

    def act() -> None:
        if how == "compaction":
            compact(request(delta.root, table=spec.table, format="delta", full=True))
        elif how == "append":  # whose key comes, too
            delta.sink(delta.spec(name="more"), rows([20], 5))
        else:
            Table.open(location).delete([4, 5, 6], key="id", force=True, write=how)

    other = DeltaLake(delta.root / "other", Interrupted(act))
    other.warehouse = delta.warehouse
    done = other.sink(spec, rows([6, 7, 20], 2), **AGAIN)
    if how in ("merge-on-read", "copy-on-write"):
        expected = {number: value for number, value in expected.items() if number not in (4, 5, 6)}
    assert done.rows_updated == {"compaction": 2, "append": 3}.get(how, 1)
    check(location, expected | {6: 2, 7: 2, 20: 2})
    named = {location / "_vectors" for told in plain_log(location).values() if told.get("deletionVector")}
    assert named
    assert vector_files(location) == set()  # all of them are small


def test_vectors_of_another_partition_are_no_conflict(delta: DeltaLake) -> None:
    spec = delta.spec(**UPSERT, partition=["group"])
    delta.sink(spec, rows([*range(10)], 0, "g0"), rows([*range(10, 20)], 0, "g1"))
    location = delta.location(spec)
    opened = Table.open(location)
    opened.delete([0, 10], key="id", force=True, write="merge-on-read")
    act = lambda: Table.open(location).delete([12, 13], key="id", force=True, write="merge-on-read")  # noqa: E731
    other = DeltaLake(delta.root / "other", Interrupted(act))
    other.warehouse = delta.warehouse
    done = other.sink(spec, rows([3], 1, "g0"), **AGAIN)
    assert (done.snapshot_id, done.attempts) == (4, 1)  # the others were there before it tried
    assert done.rows_updated == 1
    check(location, {number: int(number == 3) for number in range(20) if number not in (0, 10, 12, 13)})


def test_a_write_that_died_before_its_commit_leaves_nothing(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = delta.spec(**UPSERT)
    delta.sink(spec, rows([*range(5000)], 0))
    location = delta.location(spec)
    real = DeltaVectorWriter.write_deletes
    some = rows([*range(0, 5000, 2)], 1)

    def killed(self: DeltaVectorWriter, *given: Any) -> Any:
        real(self, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeltaVectorWriter, "write_deletes", killed)
        with pytest.raises(KeyboardInterrupt):
            delta.sink(spec, some, **AGAIN)
    check(location, dict.fromkeys(range(5000), 0))
    [left] = vector_files(location)
    done = sink(delta.order(spec, some, **AGAIN), delta.engine, stale_after=0.0)
    assert str(left.relative_to(location)) in done.swept
    check(location, {number: int(number % 2 == 0) for number in range(5000)})
    assert not left.exists()
    assert len(vector_files(location)) == 1


def test_a_vacuum_keeps_the_vectors_that_versions_need(delta: DeltaLake) -> None:
    properties = {"delta.checkpointInterval": "3"}
    spec = delta.spec(**UPSERT, properties=properties)
    delta.sink(spec, rows([*range(6000)], 0))
    location = delta.location(spec)
    expected = dict.fromkeys(range(6000), 0)
    for night in (1, 2, 3):
        some = [*range(night, 6000, 4)]
        delta.sink(spec, rows(some, night), start=utc(f"2026-11-0{night}T00:00"))
        expected |= dict.fromkeys(some, night)
    assert len(vector_files(location)) == 3
    before = sorted(
        zip(*Table.open(location, version=3).read(["id", "value"]).to_pydict().values(), strict=True)
    )
    table = open_table(spec.place, delta.warehouse, spec.table)
    later = datetime.now(UTC) + timedelta(days=1000)
    table.vacuum(Retention(keep_versions=2, keep_days=0), now=later, dry_run=False, orphan_days=0)
    assert len(vector_files(location)) == 2
    assert found(location, 3) == before
    log = DeltaLog(str(location))
    assert min(log.versions()) == 3  # of which there is a checkpoint, with a vector
    lost = next(iter(vector_files(location))).with_name(f"deletion_vector_{uuid.uuid4()}.bin")
    lost.write_bytes(b"\x01")
    done = table.vacuum(Retention(keep_versions=1, keep_days=0), now=later, dry_run=False, orphan_days=0)
    assert (len(done.orphans), lost.exists()) == (1, False)
    assert len(vector_files(location)) == 1
    assert found(location) == sorted(expected.items())


@pytest.mark.peers
@pytest.mark.parametrize("partition", [[], ["group"]])
def test_other_engines_read_the_rows_that_are_left(
    delta: DeltaLake, peers_python: str, tmp_path: Path, partition: list[str]
) -> None:
    spec = delta.spec(**UPSERT, partition=partition)
    delta.sink(spec, rows([*range(70_000)], 0, "g0"), rows([*range(70_000, 70_100)], 0, "g1"))
    location = delta.location(spec)
    gone = [*range(30_000, 40_000), *range(0, 30_000, 7), 69_999, 70_003]
    Table.open(location).delete(gone, key="id", force=True, write="merge-on-read")
    delta.sink(spec, rows([1, 2, 70_004, 90_000], 1, "g0"), **AGAIN)
    expected = dict.fromkeys(range(70_100), 0) | {1: 1, 2: 1, 70_004: 1, 90_000: 1}
    for number in gone:
        del expected[number]
    expected |= {1: 1}
    check(location, expected)
    read = by_peers(peers_python, location, tmp_path / "read", only=("delta_rs", "polars"))
    assert read.keys() == {"delta_rs", "polars"}
    for table in read.values():
        found = sorted(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))
        assert found == sorted(expected.items())


def test_features_that_older_protocols_imply_are_kept() -> None:
    vectors = {"deletionVectors"}
    old = with_features({"minReaderVersion": 2, "minWriterVersion": 5}, vectors)
    assert old["readerFeatures"] == ["columnMapping", "deletionVectors"]
    assert old["writerFeatures"] == [
        *("appendOnly", "changeDataFeed", "checkConstraints", "columnMapping"),
        *("deletionVectors", "generatedColumns", "invariants"),
    ]
    newer = {"minReaderVersion": 3, "minWriterVersion": 7}
    newer |= {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
    assert with_features(newer, vectors)["writerFeatures"] == ["deletionVectors", "timestampNtz"]
    writers_only = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]}
    found = with_features(writers_only, vectors)
    assert (found["readerFeatures"], found["minReaderVersion"]) == (["deletionVectors"], 3)


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ("", '{"numRecords":7,"tightBounds":false}'),
        ("no JSON", '{"numRecords":7,"tightBounds":false}'),
        ("[1]", '{"numRecords":7,"tightBounds":false}'),
        ('{"numRecords":7}', '{"tightBounds":false,"numRecords":7}'),
        (
            ' {"minValues":{"a":0.10000000000000000555}}',
            '{"numRecords":7,"tightBounds":false,"minValues":{"a":0.10000000000000000555}}',
        ),
        ('{"numRecords":7,"tightBounds":false}', '{"numRecords":7,"tightBounds":false}'),
        (
            '{"numRecords":7,"tightBounds" : true,"minValues":{"a":1e300}}',
            '{"numRecords":7,"tightBounds":false,"minValues":{"a":1e300}}',
        ),
        (
            '{"numRecords":7,"tightBounds":true,"nullCount":{"tightBounds":1}}',
            '{"numRecords":7,"tightBounds":false}',
        ),
    ],
)
def test_bounds_stay_as_they_are_told(stats: str, expected: str) -> None:
    assert with_wide_bounds(stats, 7) == expected
    json.loads(expected)
