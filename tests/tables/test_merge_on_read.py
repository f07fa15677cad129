"""Sinks that write position deletes: by the published format, beside other writers, and after a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table as OpenTable
from hipslake.errors import HipslakeError, PlanError, SpecError
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg.delete_index import files_of_snapshot
from hipslake.tables.iceberg.delete_writer import DeleteWriter
from pyiceberg.table import Table

from tests.system.sinks import orphans
from tests.tables.compaction.compacting import compact
from tests.tables.compaction.iceberg import request
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.sinking import Lake, utc
from tests.tables.test_commit import Interrupted

UPSERT: dict[str, Any] = {"mode": "upsert", "key": "id", "write": "merge-on-read"}
PATH, POSITION = 2147483546, 2147483545


def rows(ids: Any, band: str | list[str], value: float = 0.0) -> pa.Table:
    bands = [band] * len(ids) if isinstance(band, str) else band
    return pa.table({"id": pa.array(ids, pa.int64()), "band": bands, "x": [value] * len(ids)})


def deletes(table: Table) -> list[dict[str, Any]]:
    """The entries of delete files in the manifests of the newest snapshot, read by fastavro."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = []
    for manifest in avro(snapshot.manifest_list):
        if manifest["content"] == 1:
            with Path(manifest["manifest_path"]).open("rb") as file:
                reader = fastavro.reader(file)
                assert reader.metadata["content"] == "deletes"
                assert reader.metadata["format-version"] == "2"
                found += [entry for entry in reader if entry["status"] != 2]  # type: ignore[call-overload, index]
    return [entry["data_file"] for entry in found]


def avro(path: str) -> list[dict[str, Any]]:
    with Path(path).open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


def told(bounds: list[dict[str, Any]]) -> dict[int, bytes]:
    return {each["key"]: each["value"] for each in bounds}


def check(lake: Lake, spec: TableSpec, wanted: pa.Table) -> None:
    """Three readers have these rows: ours, pyiceberg, and one in plain Python."""
    table = lake.table(spec)
    expected = counted(wanted.to_pylist())
    opened = OpenTable.open(spec.table, iceberg=spec.iceberg, warehouse=lake.warehouse)
    assert counted(opened.read().to_pylist()) == expected
    assert counted(table.scan().to_arrow().to_pylist()) == expected
    assert counted(plain_rows(table)) == expected
    assert orphans(table) == []


def test_an_upsert_names_the_rows_that_it_replaces(lake: Lake) -> None:
    spec = lake.spec(**UPSERT, partition=["band"])
    bands = [("g", "r")[number % 2] for number in range(100)]
    lake.sink(spec, rows(range(100), bands))
    lake.sink(spec.model_copy(update={"name": "more"}), rows(range(100, 120), "g"))
    data = set(lake.live(spec))
    done = lake.sink(spec, rows([4, 3, 7, 110, 200], "g", 1.0), start=utc("2026-11-20T00:00"))
    assert (done.rows_updated, done.rows_rewritten, done.files_removed) == (4, 0, 0)
    assert (done.files_added, done.delete_files) == (1, 2)
    assert set(lake.live(spec)) > data
    found = deletes(lake.table(spec))
    assert len(found) == 2
    for each in found:
        assert (each["content"], each["file_format"]) == (1, "PARQUET")
        stored = pq.read_table(each["file_path"])
        assert [int(field.metadata[b"PARQUET:field_id"]) for field in stored.schema] == [PATH, POSITION]
        assert stored.column_names == ["file_path", "pos"]
        assert each["record_count"] == stored.num_rows
        assert each["file_size_in_bytes"] == Path(each["file_path"]).stat().st_size
        pairs = [(row["file_path"].encode(), row["pos"]) for row in stored.to_pylist()]
        assert pairs == sorted(set(pairs))
        low, high = told(each["lower_bounds"]), told(each["upper_bounds"])
        assert (low[PATH], high[PATH]) == (pairs[0][0], pairs[-1][0])
        paths = {path for path, _ in pairs}
        assert each["referenced_data_file"] == (paths.pop().decode() if len(paths) == 1 else None)
        assert each["equality_ids"] is None
    assert {each["partition"]["band"] for each in found} == {"g", "r"}
    several = next(each for each in found if each["partition"]["band"] == "g")
    assert several["referenced_data_file"] is None  # of two files
    kept = [number for number in range(120) if number not in (3, 4, 7, 110)]
    whole = [*bands, *["g"] * 20]
    wanted = [rows(kept, [whole[number] for number in kept]), rows([4, 3, 7, 110, 200], "g", 1.0)]
    check(lake, spec, pa.concat_tables(wanted))
    snapshot = lake.table(spec).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    told_by = snapshot.summary.additional_properties
    assert (told_by["added-position-deletes"], told_by["total-delete-files"]) == ("4", "2")


def test_rows_of_a_file_go_one_upsert_after_the_other_until_it_goes(lake: Lake) -> None:
    spec = lake.spec(**UPSERT)
    lake.sink(spec, rows(range(6), "g"))
    [first] = lake.live(spec)
    for night, some in enumerate(([1, 4], [0, 5], [2]), 1):
        lake.sink(spec, rows(some, "r", float(night)), start=utc(f"2026-11-0{night}T00:00"))
        assert first in lake.live(spec)
    last = lake.sink(spec, rows([3], "r", 4.0), start=utc("2026-11-09T00:00"))
    assert (last.files_removed, last.delete_files) == (1, 0)  # no row of it is left
    assert first not in lake.live(spec)
    assert files_of_snapshot(lake.table(spec)).deletes == []  # none is needed any more
    wanted = [rows([1, 4], "r", 1.0), rows([0, 5], "r", 2.0), rows([2], "r", 3.0), rows([3], "r", 4.0)]
    check(lake, spec, pa.concat_tables(wanted))
    compact(request(lake, delete_file_threshold=1, full=True))
    check(lake, spec, pa.concat_tables(wanted))


@pytest.mark.parametrize(
    ("properties", "write", "on_read"),
    [
        ({}, None, False),
        ({"write.merge.mode": "merge-on-read"}, None, True),
        ({"write.merge.mode": "MERGE-ON-READ"}, "copy-on-write", False),
        ({"write.merge.mode": "copy-on-write"}, "merge-on-read", True),
        ({"write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}, None, False),
        ({"write.merge.mode": "merge-on-read", "format-version": "1"}, None, False),
    ],
)
def test_spec_and_table_say_how_rows_go(
    lake: Lake, properties: dict[str, str], write: str | None, on_read: bool
) -> None:
    spec = lake.spec(mode="upsert", key="id", properties=properties, write=write)
    lake.sink(spec, rows(range(10), "g"))
    done = lake.sink(spec, rows([1], "r"), start=utc("2026-11-20T00:00"))
    assert done.delete_files == int(on_read)
    assert done.rows_rewritten == (0 if on_read else 9)


def test_what_makes_no_sense_is_refused(lake: Lake) -> None:
    spec = lake.spec(**UPSERT, properties={"format-version": "1"})
    with pytest.raises(SpecError, match="format version 1, which has no delete files"):
        lake.sink(spec, rows([1], "r"), start=utc("2026-11-20T00:00"))
    other = lake.spec(
        table="survey.other", mode="upsert", key="id", properties={"write.merge.mode": "somehow"}
    )
    with pytest.raises(SpecError, match=r"write.merge.mode is 'somehow'; it can be copy-on-write or"):
        lake.sink(other, rows([1], "r"))


def test_an_interval_is_overwritten_by_naming_its_rows(lake: Lake) -> None:
    times = np.datetime64("2026-11-01", "us") + np.arange(48) * np.timedelta64(1, "h")
    table = pa.table({"id": range(48), "t": times})
    lake.sink(lake.spec(), table, whole=True)
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    spec = lake.spec(
        name="nights", mode="overwrite-interval", interval="t", source=source, write="merge-on-read"
    )
    new = pa.table({"id": pa.array([100], pa.int64()), "t": times[24:25]})
    done = lake.sink(spec, new, start=utc("2026-11-02T00:00"), end=utc("2026-11-03T00:00"))
    assert (done.rows_updated, done.delete_files, done.files_removed) == (24, 1, 0)
    check(lake, spec, pa.concat_tables([table.slice(0, 24), new]))
    with pytest.raises(PlanError, match="has delete files"):  # not of which sink these rows were
        lake.sink(lake.spec(), table.slice(0, 3), whole=True)


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_the_table_says_how_an_interval_is_overwritten(lake: Lake, mode: str) -> None:
    times = np.datetime64("2026-11-01", "us") + np.arange(48) * np.timedelta64(1, "h")
    properties = {"write.update.mode": mode, "write.merge.mode": "copy-on-write"}
    lake.sink(lake.spec(properties=properties), pa.table({"id": range(48), "t": times}), whole=True)
    source = {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}}
    spec = lake.spec(name="nights", mode="overwrite-interval", interval="t", source=source)
    new = pa.table({"id": pa.array([100], pa.int64()), "t": times[24:25]})
    done = lake.sink(spec, new, start=utc("2026-11-02T00:00"), end=utc("2026-11-03T00:00"))
    assert done.delete_files == (1 if mode == "merge-on-read" else 0)
    assert lake.rows(spec)["id"].to_pylist() == [*range(24), 100]


def test_two_upserts_at_once_leave_one_row_of_a_key(lake: Lake) -> None:
    spec = lake.spec(**UPSERT)
    lake.sink(spec, rows(range(10), "g"))
    second = lake.spec(**UPSERT | {"name": "second"})
    engine = Interrupted(lambda: lake.sink(second, rows([4, 5, 20], "r", 1.0)))
    other = Lake(lake.root / "other", engine)
    other.warehouse = lake.warehouse
    done = other.sink(spec, rows([5, 6, 20], "i", 2.0), start=utc("2026-11-20T00:00"))
    assert done.rows_updated == 3
    kept = [number for number in range(10) if number not in (4, 5, 6)]
    wanted = [rows(kept, "g"), rows([4], "r", 1.0), rows([5, 6, 20], "i", 2.0)]
    check(lake, spec, pa.concat_tables(wanted))


def test_others_may_delete_rows_of_the_same_file_meanwhile(lake: Lake) -> None:
    spec = lake.spec(**UPSERT)
    lake.sink(spec, rows(range(10), "g"))
    opened = OpenTable.open(spec.table, iceberg=spec.iceberg, warehouse=lake.warehouse)
    engine = Interrupted(lambda: opened.delete([4, 5, 6], key="id", force=True, write="merge-on-read"))
    other = Lake(lake.root / "other", engine)
    other.warehouse = lake.warehouse
    done = other.sink(spec, rows([6, 7], "i", 2.0), start=utc("2026-11-20T00:00"))
    assert done.attempts == 1
    check(lake, spec, pa.concat_tables([rows([0, 1, 2, 3, 8, 9], "g"), rows([6, 7], "i", 2.0)]))


def test_a_compaction_meanwhile_makes_an_upsert_look_again(lake: Lake) -> None:
    spec = lake.spec(**UPSERT)
    lake.sink(spec, rows(range(10), "g"))
    lake.sink(spec.model_copy(update={"name": "more"}), rows(range(10, 20), "g"))
    before = set(lake.live(spec))

    def act() -> None:
        compact(request(lake))
        assert not before & set(lake.live(spec))

    other = Lake(lake.root / "other", Interrupted(act))
    other.warehouse = lake.warehouse
    done = other.sink(spec, rows([6, 17], "i", 2.0), start=utc("2026-11-20T00:00"))
    assert (done.rows_updated, done.delete_files) == (2, 1)
    kept = [number for number in range(20) if number not in (6, 17)]
    check(lake, spec, pa.concat_tables([rows(kept, "g"), rows([6, 17], "i", 2.0)]))


def test_a_write_that_died_before_its_commit_leaves_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = lake.spec(**UPSERT)
    lake.sink(spec, rows(range(10), "g"))
    before = lake.table(spec).current_snapshot()
    real = DeleteWriter.write_deletes

    def killed(self: DeleteWriter, *given: Any) -> Any:
        real(self, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeleteWriter, "write_deletes", killed)
        with pytest.raises(KeyboardInterrupt):
            lake.sink(spec, rows([5], "r", 1.0), start=utc("2026-11-20T00:00"))
    assert lake.table(spec).current_snapshot() == before
    assert any("/deletes/" in path for path in orphans(lake.table(spec)))
    from hipslake.steps.sink.sink_table import sink

    order = lake.order(spec, rows([5], "r", 1.0), start=utc("2026-11-20T00:00"))
    done = sink(order, lake.engine, stale_after=0.0)
    assert any(path.endswith("deletes/000000.parquet") for path in done.swept)
    kept = [number for number in range(10) if number != 5]
    check(lake, spec, pa.concat_tables([rows(kept, "g"), rows([5], "r", 1.0)]))


def test_an_upsert_of_few_keys_writes_few_bytes(lake: Lake) -> None:
    count = 400_000
    chosen = np.random.default_rng(3)
    large = pa.table({"id": np.arange(count), "x": chosen.normal(size=count), "y": chosen.normal(size=count)})
    keys = np.sort(chosen.choice(count, 50, replace=False))
    some = pa.table({"id": keys, "x": np.zeros(50), "y": np.zeros(50)})
    size = {}
    for write in ("copy-on-write", "merge-on-read"):
        spec = lake.spec(
            table=f"survey.{write[:4]}", mode="upsert", key="id", write=write, target_file_size="1 MiB"
        )
        lake.sink(spec, large)
        done = lake.sink(spec, some, start=utc("2026-11-20T00:00"))
        assert done.rows_updated == 50
        size[write] = done.bytes
        found = lake.rows(spec)
        assert found.num_rows == count
        assert found["x"].to_numpy()[keys].tolist() == [0.0] * 50
    assert size["merge-on-read"] * 10 < size["copy-on-write"], json.dumps(size)


def test_deletes_of_a_partition_spec_that_is_gone(lake: Lake) -> None:
    spec = lake.spec(**UPSERT, partition=["band"])
    lake.sink(spec, rows(range(10), [("g", "r")[number % 2] for number in range(10)]))
    table = lake.table(spec)
    with table.update_spec() as update:
        update.remove_field("band")
    now = lake.spec(**UPSERT)
    done = lake.sink(now, rows([3, 4], "i", 1.0), start=utc("2026-11-20T00:00"))
    assert (done.rows_updated, done.delete_files) == (2, 2)
    bands = [("g", "r")[number % 2] for number in range(10)]
    kept = [number for number in range(10) if number not in (3, 4)]
    wanted = [rows(kept, [bands[number] for number in kept]), rows([3, 4], "i", 1.0)]
    check(lake, now, pa.concat_tables(wanted))


def test_a_conflict_leaves_the_error_of_ours(lake: Lake) -> None:
    spec = lake.spec(**UPSERT, order_by="x")
    with pytest.raises(HipslakeError, match="share key and x"):
        lake.sink(spec, pa.table({"id": [1, 1], "band": ["g", "r"], "x": [1.0, 1.0]}))
