"""Deletion vectors of other engines are honoured wherever a Delta table is read, changed and compacted."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table
from hipslake.errors import ConflictError, CorruptFileError, PlanError
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.delta.delta_compaction import DeltaRewrite
from hipslake.tables.opening import open_table

from tests.tables.compaction.compacting import compact, request
from tests.tables.delta.delta_lake import DeltaLake, by_peers, rows
from tests.tables.delta.vectors import KINDS, data_files, delete_by_vectors
from tests.tables.sinking import utc
from tests.tables.test_sink_modes import interval


def found(location: Path) -> list[tuple[int, int]]:
    read = Table.open(location).read(["id", "value"])
    assert Table.open(location).rows == read.num_rows
    return sorted(zip(read["id"].to_pylist(), read["value"].to_pylist(), strict=True))


def deleted(location: Path, ids: set[int], kind: str) -> None:
    """Let another engine delete rows by their ids."""
    gone = {}
    for path, file in data_files(location).items():
        stored = pq.ParquetFile(file).read(["id"])["id"].to_pylist()
        if at := [number for number, each in enumerate(stored) if each in ids]:
            gone[path] = at
    delete_by_vectors(location, gone, kind)


@pytest.mark.peers
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_a_vector_deletes_are_gone_for_everyone(
    delta: DeltaLake, peers_python: str, tmp_path: Path, kind: str
) -> None:
    spec = delta.spec(partition=["group"])
    delta.sink(spec, rows([*range(50)], 0, "g0"), rows([*range(50, 100)], 0, "g1"))
    location = delta.location(spec)
    gone = set(random.Random(1).sample(range(100), 30))
    deleted(location, gone, kind)
    stay = [(each, 0) for each in range(100) if each not in gone]
    assert found(location) == stay
    assert Table.open(location, version=1).rows == 100
    read = by_peers(peers_python, location, tmp_path / "read", only=("delta_rs",))["delta_rs"]
    assert sorted(zip(read["id"].to_pylist(), read["value"].to_pylist(), strict=True)) == stay


@pytest.mark.peers
@pytest.mark.parametrize(("group", "misses"), [("g-0", False), ("r/1 %", True)])
def test_polars_misses_vectors_of_escaped_paths(
    delta: DeltaLake, peers_python: str, tmp_path: Path, group: str, misses: bool
) -> None:
    """A fault of polars, told in docs/delta_tables.md: once it is mended, this fails, and both can go."""
    spec = delta.spec(partition=["group"])
    delta.sink(spec, rows([*range(50)], 0, group))
    location = delta.location(spec)
    deleted(location, {3, 4, 5}, KINDS[0])
    assert len(found(location)) == 47
    read = by_peers(peers_python, location, tmp_path / "read", only=("delta_rs", "polars"))
    assert read["delta_rs"].num_rows == 47
    assert read["polars"].num_rows == (50 if misses else 47)


@pytest.mark.parametrize("kind", KINDS)
def test_what_changes_a_table_leaves_deleted_rows_deleted(delta: DeltaLake, kind: str) -> None:
    spec = delta.spec(mode="upsert", key="id", partition=["group"], write="copy-on-write")
    delta.sink(spec, rows([*range(20)], 0, "g0"), rows([*range(20, 40)], 0, "g1"))
    location = delta.location(spec)
    deleted(location, {1, 2, 3, 21, 22}, kind)
    expected = {each: 0 for each in range(40) if each not in (1, 2, 3, 21, 22)}
    done = delta.sink(spec, rows([2, 4, 50], 1, "g0"), start=utc("2026-01-01T00:00:00"))
    assert done.rows_updated == 1  # 2 was deleted
    expected |= {2: 1, 4: 1, 50: 1}
    assert found(location) == sorted(expected.items())
    table = Table.open(location).delete([22, 23], key="id", force=True, write="copy-on-write")
    assert table.deletion is not None
    assert (table.deletion.rows, table.deletion.missing_keys) == (1, 1)
    del expected[23]
    assert found(location) == sorted(expected.items())
    deleted(location, {30, 31}, kind)
    del expected[30], expected[31]
    report = compact(request(delta.root, table=spec.table, format="delta"))
    assert report.rows_deleted == 2
    assert found(location) == sorted(expected.items())
    deleted(location, {0, 33}, kind)
    del expected[0], expected[33]
    later, keep = datetime.now(UTC) + timedelta(days=1000), Retention(keep_versions=1, keep_days=0)
    open_table(spec.place, delta.warehouse, spec.table).vacuum(keep, now=later, dry_run=False)
    assert found(location) == sorted(expected.items())
    left = list(location.rglob("deletion_vector_*.bin"))
    assert len(left) == (0 if kind == "inline" else 1)
    deleted(location, {0, 5, 33}, kind)  # a vector takes the place of another
    del expected[5]
    assert found(location) == sorted(expected.items())


def test_an_interval_is_overwritten_beside_vectors_and_append_replaces_nothing(delta: DeltaLake) -> None:
    append = delta.spec()
    delta.sink(append, rows([1, 2, 3], 0), **interval(1))
    location = delta.location(append)
    deleted(location, {2}, "inline")
    delta.sink(append, rows([9], 0), **interval(2))
    assert found(location) == [(1, 0), (3, 0), (9, 0)]
    with pytest.raises(PlanError, match=r"deletion vectors, of 1 files .* which rows they take"):
        delta.sink(append, rows([1], 1), **interval(1))
    table = Table.open(location).delete(filters="id >= 0", force=True)
    assert table.deletion is not None
    assert (table.deletion.rows, found(location)) == (3, [])


def test_groups_whose_rows_are_deleted_meanwhile_are_left_out(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = delta.spec(partition=["group"])
    for number in (1, 2):
        night = [rows([number * 10 + each], 0, f"g{each}") for each in range(2)]
        delta.sink(spec, *night, **interval(number))
    location = delta.location(spec)
    commit = DeltaRewrite.commit

    def second(self: DeltaRewrite, *told: object) -> object:
        deleted(location, {10}, "inline")
        return commit(self, *told)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaRewrite, "commit", second)
    report = compact(request(delta.root, table=spec.table, format="delta"))
    assert (report.bins, report.groups_refused) == (2, 1)
    assert found(location) == [(11, 0), (20, 0), (21, 0)]


def test_a_sink_looks_again_where_deleted_rows_may_have_come_back(
    delta: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hipslake.tables.delta import delta_commit

    spec = delta.spec(mode="upsert", key="id")
    delta.sink(spec, rows([1, 2, 3], 0))
    location = delta.location(spec)
    deleted(location, {1, 2}, "inline")
    real = delta_commit.create_version

    def create(*given: object) -> object:
        monkeypatch.setattr(delta_commit, "create_version", real)
        deleted(location, {2}, "inline")  # 1 is there again
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(delta_commit, "create_version", create)
    done = delta.sink(spec, rows([1], 7), start=utc("2026-01-01T00:00:00"))
    assert done.rows_updated == 1
    assert found(location) == [(1, 7), (3, 0)]


@pytest.mark.parametrize("how", ["gone", "damaged", "cut"])
def test_a_vector_that_cannot_be_read_is_told(delta: DeltaLake, how: str) -> None:
    spec = delta.spec()
    delta.sink(spec, rows([*range(10)], 0))
    location = delta.location(spec)
    deleted(location, {3, 4}, "relative")
    [file] = location.rglob("deletion_vector_*.bin")
    content = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(content[:-6] if how == "cut" else content[:-8] + b"\x07" + content[-7:])
    with pytest.raises(CorruptFileError, match="deletion vector"):
        Table.open(location).read()


def test_positions_in_many_containers_are_read(delta: DeltaLake) -> None:
    spec = delta.spec()
    count = 200_000
    delta.sink(spec, pa.table({"id": pa.array(range(count), pa.int64()), "value": [0] * count}))
    location = delta.location(spec)
    gone = set(random.Random(2).sample(range(count), 9000))
    deleted(location, gone, "relative")
    assert Table.open(location).read()["id"].to_pylist() == [n for n in range(count) if n not in gone]


def test_a_conflict_ends_a_compaction_of_one_group(delta: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = delta.spec()
    for number in (1, 2):
        delta.sink(spec, rows([number], 0), **interval(number))
    location = delta.location(spec)
    commit = DeltaRewrite.commit

    def second(self: DeltaRewrite, *told: object) -> object:
        deleted(location, {1}, "inline")
        return commit(self, *told)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaRewrite, "commit", second)
    with pytest.raises(ConflictError, match="are gone or have changed"):
        compact(request(delta.root, table=spec.table, format="delta"))
    assert found(location) == [(2, 0)]
