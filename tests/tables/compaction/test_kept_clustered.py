"""Tables that are kept clustered: sinks write along the curve, and runs rewrite files within a bound."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table as OpenTable
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.errors import InputError, SpecError
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.compact_table.request import CompactTableReport, CompactTableRequest
from hipslake.tables.clustering_ledger import ClusteringLedger
from hipslake.tables.iceberg.clustering_properties import CLUSTER_BY, LEDGER
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite

from tests.system.sinks import orphans
from tests.tables.compaction.compacting import compact, request
from tests.tables.sinking import Lake, utc

BY: dict[str, Any] = {"cluster_by": ["ra", "dec", "time"], "target_file_size": "16 KiB"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def night(number: int, rows: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng([seed, number])
    time = (number * 86_400 + random.uniform(0, 30_000, rows)) * 1e6
    return pa.table(
        {
            "id": pa.array(np.arange(rows) + number * 1_000_000),
            "ra": random.uniform(0, 360, rows),
            "dec": random.uniform(-90, 90, rows),
            "time": pa.array(time.astype("int64"), pa.timestamp("us")),
            "mag": random.normal(20, 3, rows),
            "band": [("g", "r")[at % 2] for at in range(rows)],
        }
    )


def keep(lake: Lake, spec: TableSpec, *, full: bool = False, dry_run: bool = False) -> CompactTableReport:
    """The run behind a sink."""
    asked = request(lake.root, table=spec.table, full=full, dry_run=dry_run)
    return compact(asked.model_copy(update={"spec": CompactionSpec.keeping(spec)}))


def ledger(lake: Lake, spec: TableSpec) -> ClusteringLedger:
    return ClusteringLedger.model_validate_json(lake.table(spec).properties[LEDGER])


def counted(table: pa.Table) -> Counter[str]:
    columns = [each.to_pylist() for each in table.columns]
    for at, column in enumerate(table.columns):
        if pa.types.is_nested(column.type):
            columns[at] = [json.dumps(value, sort_keys=True, default=str) for value in columns[at]]
    return Counter(map(repr, zip(*columns, strict=True)))


def check(lake: Lake, spec: TableSpec, wanted: pa.Table, *, listed: bool = True) -> None:
    """Plain pyarrow, from the files on disk, and pyiceberg have these rows; and nothing else lies there."""
    plain = pa.concat_tables([pq.read_table(path) for path in lake.live(spec)], promote_options="permissive")
    assert counted(plain.select(wanted.column_names)) == counted(wanted)
    assert counted(lake.table(spec).scan().to_arrow().select(wanted.column_names)) == counted(wanted)
    assert not listed or [path for path in orphans(lake.table(spec)) if path.endswith(".parquet")] == []


def opened(lake: Lake, spec: TableSpec, columns: list[str], side: float = 0.1) -> float:
    """Files that a box of a part of each column's range touches, by the values in the files themselves."""
    files = [pq.read_table(path, columns=columns) for path in lake.live(spec)]
    points = [np.stack([each[name].cast("float64").to_numpy() for name in columns], 1) for each in files]
    everything = np.concatenate(points)
    least, width = everything.min(axis=0), np.ptp(everything, axis=0)
    boxes = FileBoxes(
        np.array([(each.min(axis=0) - least) / width for each in points]),
        np.array([(each.max(axis=0) - least) / width for each in points]),
    )
    low = np.random.default_rng(0).uniform(0, 1 - side, (1000, len(columns)))
    return float(boxes.touched(low, low + side).mean())


def test_a_sink_writes_its_files_along_the_curve(lake: Lake) -> None:
    rows = night(0, 6000)
    spec, plain = lake.spec(**BY), lake.spec(table="survey.plain", name="plain", target_file_size="16 KiB")
    done = lake.sink(spec, rows)
    lake.sink(plain, rows)
    assert done.files_added > 5
    check(lake, spec, rows)
    columns = ["ra", "dec"]
    clustered = [path for path in lake.live(spec) if "/sample/" in str(path)]
    assert len(clustered) == done.files_added
    assert opened(lake, spec, columns) < 0.5 * opened(lake, plain, columns)
    assert json.loads(lake.table(spec).properties[CLUSTER_BY]) == BY["cluster_by"]
    sizes = [pq.ParquetFile(path).metadata.num_rows for path in clustered]
    assert max(sizes) < 1.5 * min(sizes)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("partition", [[], ["band"]])
def test_nights_are_kept_clustered_within_the_bound(lake: Lake, partition: list[str]) -> None:
    spec = lake.spec(**BY, partition=partition)
    everything = [night(0, 4000)]
    lake.sink(spec, everything[0], start=utc("2026-01-01T00:00"))
    assert keep(lake, spec).version == ""  # what a sink wrote is clustered already
    came = rewritten = 0
    for number in range(1, 13):
        everything.append(night(number % 4, 300, seed=number))  # also among the times that are there
        done = lake.sink(spec, everything[-1], start=utc(f"2026-01-{number + 1:02d}T00:00"))
        came += done.bytes
        report = keep(lake, spec)
        told = report.clustering
        assert told is not None
        rewritten += told.rewritten_bytes
        assert rewritten <= 5 * came
        assert told.rewritten_bytes == report.removed.total_bytes <= told.most_bytes
        assert (told.total_came_bytes, told.total_rewritten_bytes) == (came, rewritten)
        assert told.amplification == pytest.approx(rewritten / came, abs=1e-4)
        assert report.rows_in == report.rows_out
        check(lake, spec, pa.concat_tables(everything))
    assert rewritten > 0
    points = ledger(lake, spec).points
    assert sum(point.rewritten for point in points) == rewritten
    assert all(sum(point.after) < sum(point.before) for point in points)
    whole = opened(lake, spec, ["ra", "dec"])
    assert keep(lake, spec, full=True).version
    check(lake, spec, pa.concat_tables(everything))
    assert whole < 1.5 * opened(lake, spec, ["ra", "dec"])
    assert (ledger(lake, spec).came, ledger(lake, spec).rewritten) == (0, 0)


def test_a_night_that_is_sunk_again_is_known_after_its_files_were_rewritten(lake: Lake) -> None:
    spec = lake.spec(**BY)
    nights = [night(number % 3, 500, seed=number) for number in range(8)]
    uris = [lake.land(each) for each in nights]
    for number, uri in enumerate(uris):
        lake.sink(spec, uri=uri, start=utc(f"2026-01-{number + 1:02d}T00:00"))
        keep(lake, spec)
    assert ledger(lake, spec).rewritten > 0
    for number, uri in enumerate(uris):
        assert lake.sink(spec, uri=uri, start=utc(f"2026-01-{number + 1:02d}T00:00")).skipped
    nights[2] = night(2, 400, seed=99)
    lake.sink(spec, nights[2], start=utc("2026-01-03T00:00"))
    keep(lake, spec)
    check(lake, spec, pa.concat_tables(nights))


def test_other_columns_are_clustered_by_in_steps(lake: Lake) -> None:
    rows = pa.concat_tables([night(number, 1200) for number in range(12)])
    lake.sink(lake.spec(**BY), rows)
    step = 100_000
    changed = BY | {"cluster_by": ["mag", "dec"], "clustering": {"step_size": f"{step} B"}}
    spec = lake.spec(**changed)
    lake.sink(spec, night(20, 100), start=utc("2026-01-02T00:00"))
    assert json.loads(lake.table(spec).properties[CLUSTER_BY]) == ["mag", "dec"]
    before, steps, older = opened(lake, spec, ["mag", "dec"]), 0, 0
    while (report := keep(lake, spec)).version:
        told = report.clustering
        assert told is not None
        assert told.columns == ("mag", "dec")
        assert 0 < told.rewritten_bytes <= step + 5 * told.total_came_bytes
        assert told.rewritten_bytes < 0.8 * told.older_bytes  # never all at once
        older = told.older_bytes
        steps += 1
        assert steps < 30
    assert steps > 1
    assert ledger(lake, spec).older_rewritten <= 5 * older
    assert opened(lake, spec, ["mag", "dec"]) < 0.6 * before
    check(lake, spec, pa.concat_tables([rows, night(20, 100)]))


def test_a_table_that_was_not_clustered_comes_to_be(lake: Lake) -> None:
    rows = [night(number, 500) for number in range(8)]
    plain = lake.spec(target_file_size="16 KiB")
    for number, each in enumerate(rows):
        lake.sink(plain, each, start=utc(f"2026-01-{number + 1:02d}T00:00"))
    before = opened(lake, plain, ["ra", "dec"])
    spec = lake.spec(**BY)
    asked = request(
        lake.root, table=spec.table, iceberg=spec.iceberg, target_file_size="16 KiB", mode="liquid"
    )
    with pytest.raises(SpecError, match="does not say what it is clustered by"):
        compact(asked)
    with lake.table(spec).transaction() as transaction:
        transaction.set_properties({CLUSTER_BY: "ra, dec"})
    while compact(again(asked)).version:
        pass
    assert opened(lake, spec, ["ra", "dec"]) < 0.6 * before
    check(lake, spec, pa.concat_tables(rows))
    new = night(9, 3000)
    files = set(lake.live(plain))
    lake.sink(plain, new, start=utc("2026-02-01T00:00"))  # finds the property
    assert all("-by-" in path.name for path in set(lake.live(plain)) - files)
    check(lake, spec, pa.concat_tables([*rows, new]))


def again(asked: CompactTableRequest) -> CompactTableRequest:
    """The same, as a run of its own."""
    return asked.model_copy(update={"run_uri": f"{asked.run_uri}-{uuid.uuid4().hex[:6]}"})


def every_type(rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    whole = random.integers(-(10**6), 10**6, rows)

    def holey(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if at % 11 == 3 else value for at, value in enumerate(values)], kind)

    numbers = whole.tolist()
    days = [date(2020, 1, 1).toordinal() + number % 3000 for number in numbers]
    place = [
        None if at % 13 == 5 else {"ra": float(number % 360), "name.of": str(number)}
        for at, number in enumerate(numbers)
    ]
    real = random.normal(0, 10, rows)
    real[::17] = np.nan
    return pa.table(
        {
            "id": pa.array(range(seed * 100_000, seed * 100_000 + rows)),
            "u": holey([uuid.UUID(int=(number + 10**6) << 100).bytes for number in numbers], pa.uuid()),
            "d": holey([Decimal(number) / 100 for number in numbers], pa.decimal128(20, 2)),
            "place": pa.array(place, pa.struct([("ra", pa.float64()), ("name.of", pa.string())])),
            "text": holey([f"star {number % 500:05d} é" for number in numbers], pa.string()),
            "raw": holey([number.to_bytes(4, "big", signed=True) for number in numbers], pa.binary()),
            "flag": holey([number % 2 == 0 for number in numbers], pa.bool_()),
            "day": holey([date.fromordinal(day) for day in days], pa.date32()),
            "when": holey(
                [datetime.fromtimestamp(1e9 + number, UTC) for number in numbers], pa.timestamp("us", "UTC")
            ),
            "real": pa.array(real),
            "Single": pa.array(real.astype("float32")),
        }
    )


EVERY = ["u", "d", "place.ra", "text", "raw", "flag", "day", "when", "real", "Single", "place.name.of"]


@pytest.mark.parametrize("curve", ["hilbert", "zorder"])
def test_columns_of_every_type_and_fields_of_structs(lake: Lake, curve: str) -> None:
    spec = lake.spec(cluster_by=EVERY, target_file_size="32 KiB", clustering={"curve": curve})
    everything = []
    for number in range(4):
        everything.append(every_type(1500 if number == 0 else 200, number))
        lake.sink(spec, everything[-1], start=utc(f"2026-01-{number + 1:02d}T00:00"))
        report = keep(lake, spec)
        assert report.clustering is not None
        assert [each.columns for each in report.clustering.before] == [
            *((name,) for name in EVERY),
            tuple(EVERY),
        ]
        # pyiceberg does not list files with bounds of UUIDs
        check(lake, spec, pa.concat_tables(everything), listed=False)
    assert keep(lake, spec, full=True).version
    check(lake, spec, pa.concat_tables(everything), listed=False)


@pytest.mark.parametrize("name", EVERY)
def test_files_are_apart_by_one_column_of_any_type(lake: Lake, name: str) -> None:
    """As of a plain sort: nulls first, NaN last."""
    spec = lake.spec(cluster_by=[name], target_file_size="4 KiB")
    lake.sink(spec, every_type(1000, 1))
    found = []
    column, _, part = name.partition(".")
    for path in lake.live(spec):
        values = pq.read_table(path, columns=[column])[column].to_pylist()
        values = [value[part] if part and value is not None else value for value in values]
        keys = sorted(_key(value) for value in values)
        found.append((keys[0], keys[-1]))
    found.sort()
    assert len(found) > 3
    overlaps = sum(first[1] > second[0] for first, second in pairwise(found))
    assert overlaps <= len(found) // 2 or name in ("flag", "text"), (
        found
    )  # rows of a range may lie in two files


def _key(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    return (2, 0) if value != value else (1, value)


def test_deleted_rows_do_not_come_back(lake: Lake) -> None:
    spec = lake.spec(**BY, mode="upsert", key="id", write="merge-on-read")
    nights = [
        pa.concat_tables([night(number, 300), night(number - 1, 100, seed=number)]) for number in range(1, 8)
    ]
    wanted: dict[int, dict[str, Any]] = {}
    table = None
    for number, each in enumerate(nights):
        lake.sink(spec, each, start=utc(f"2026-01-{number + 1:02d}T00:00"))
        wanted |= {row["id"]: row for row in each.to_pylist()}
        table = OpenTable.open(spec.table, iceberg=spec.iceberg, warehouse=lake.warehouse)
        gone = sorted(wanted)[number::37]
        table.delete(keys=gone, key="id", force=True)
        for key in gone:
            del wanted[key]
        keep(lake, spec)
        assert counted(lake.table(spec).scan().to_arrow()) == counted(
            pa.Table.from_pylist(list(wanted.values()), each.schema)
        )
    assert ledger(lake, spec).rewritten > 0


def test_rows_that_others_bring_between_plan_and_commit_stay(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = lake.spec(**BY)
    rows = [night(0, 300, seed=number) for number in range(8)]
    for number, each in enumerate(rows[:-2]):
        lake.sink(spec, each, start=utc(f"2026-01-{number + 1:02d}T00:00"))
        if number == 0:
            keep(lake, spec)
    meanwhile = [*rows[-2:]]
    committed = IcebergRewrite._committed

    def interrupted(self: IcebergRewrite, *given: Any) -> str:
        if meanwhile:
            lake.sink(spec, meanwhile.pop(), start=utc(f"2026-02-{len(meanwhile) + 1:02d}T00:00"))
        return committed(self, *given)

    monkeypatch.setattr(IcebergRewrite, "_committed", interrupted)
    first = keep(lake, spec)
    assert first.version
    assert first.clustering is not None
    kept = ledger(lake, spec)
    assert kept.rewritten == first.clustering.rewritten_bytes
    second = keep(lake, spec).clustering
    assert second is not None
    assert second.came_bytes > 0
    lake.sink(spec, *meanwhile, start=utc("2026-02-01T00:00")) if meanwhile else None
    check(lake, spec, pa.concat_tables(rows))
    assert ledger(lake, spec).rewritten <= 5 * ledger(lake, spec).came


def test_a_run_again_does_nothing_and_a_dry_one_neither(lake: Lake) -> None:
    spec = lake.spec(**BY)
    for number in range(8):
        lake.sink(spec, night(0, 300, seed=number), start=utc(f"2026-01-{number + 1:02d}T00:00"))
        if number == 0:
            keep(lake, spec)
    asked = request(lake.root, table=spec.table, run="one")
    asked = asked.model_copy(update={"spec": CompactionSpec.keeping(spec)})
    before = lake.live(spec)
    dry = compact(asked.model_copy(update={"dry_run": True}))
    assert dry.removed.files > 1
    assert lake.live(spec) == before
    done = compact(asked)
    after = lake.live(spec)
    assert done.removed == dry.removed
    assert after != before
    assert compact(asked.model_copy(update={"run_uri": asked.run_uri})).version == done.version
    assert lake.live(spec) == after


def test_columns_are_known_after_a_rename(lake: Lake) -> None:
    spec = lake.spec(**BY)
    lake.sink(spec, night(0, 1000))
    keep(lake, spec)
    begun = ledger(lake, spec)
    with lake.table(spec).update_schema() as update:
        update.rename_column("ra", "right_ascension")
    asked = request(lake.root, table=spec.table, iceberg=spec.iceberg, mode="liquid")
    told = compact(asked).clustering
    assert told is not None
    assert told.columns == ("right_ascension", "dec", "time")
    assert ledger(lake, spec).by == begun.by


def test_what_cannot_be_clustered_by_is_told(lake: Lake) -> None:
    rows = night(0, 10).append_column("tags", pa.array([[1]] * 10))
    with pytest.raises(SpecError, match="no column RA to cluster by; there are id, ra"):
        lake.sink(lake.spec(cluster_by=["RA"]), rows)
    with pytest.raises(InputError, match="column tags is list"):
        lake.sink(lake.spec(cluster_by=["tags"]), rows)
    spec = lake.spec(cluster_by=["ra"])
    lake.sink(spec, rows)
    with lake.table(spec).transaction() as transaction:
        transaction.set_properties({CLUSTER_BY: '["gone"]'})
    with pytest.raises(SpecError, match="names gone, which is no column of it"):
        lake.sink(lake.spec(name="other"), rows)
    lake.sink(lake.spec(name="other", cluster_by=["dec"]), rows)
    assert lake.table(spec).properties[CLUSTER_BY] == '["dec"]'
