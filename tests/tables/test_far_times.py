"""Times beyond the years 1 to 9999, such as Postgres' infinity: sunk, compacted and clustered as others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import PlanError
from hipslake.specs.table_writing import TableMode

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact, files_in
from tests.tables.sinking import Lake

INFINITY = 9_223_371_331_199_999_999  # of Postgres: microseconds of the year 294276
FAR = [INFINITY, -210_866_803_200_000_000, 0, 253_402_300_800_000_000, -62_135_596_800_000_001, None]
DAYS = [2**31 - 1, -(2**31), 0, 2_932_897, -719_163, None]


def rows() -> pa.Table:
    return pa.table(
        {
            "id": range(6),
            "t": pa.array(FAR, pa.timestamp("us")),
            "z": pa.array(FAR, pa.timestamp("us", "UTC")),
            "d": pa.array(DAYS, pa.int32()).cast(pa.date32()),
        }
    )


def numbers(table: pa.Table) -> dict[str, list[int | None]]:
    table = table.sort_by("id")
    return {
        "t": table["t"].cast(pa.int64()).to_pylist(),
        "z": table["z"].cast(pa.int64()).to_pylist(),
        "d": table["d"].cast(pa.int32()).to_pylist(),
    }


def stored(lake: Lake) -> pa.Table:
    return pa.concat_tables(pq.read_table(path, partitioning=None) for path in lake.live(lake.spec()))


EXPECTED = {"t": FAR, "z": FAR, "d": DAYS}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"partition": ["bucket[2](t)"]},
        {"sort": ["t desc", "d"]},
        {"mode": TableMode.UPSERT, "key": ["id"]},
        {"mode": TableMode.UPSERT, "key": ["t", "id"]},
    ],
    ids=str,
)
def test_far_times_are_sunk_twice_and_compacted(tmp_path: Path, given: dict) -> None:
    lake = Lake(tmp_path)
    chosen = rows() if "t" not in given.get("key", ()) else rows().slice(0, 5)
    lake.sink(lake.spec(**given), chosen)
    lake.sink(lake.spec(**given), chosen.slice(0, 3).set_column(0, "id", pa.array([0, 1, 2])))
    iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
    compact(compacting.request(lake.root, table="survey.sample", iceberg=iceberg, full=True))
    found = numbers(stored(lake))
    for name, values in EXPECTED.items():
        assert set(found[name]) == set(values[: chosen.num_rows])


def test_a_partition_of_a_far_time_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with pytest.raises(PlanError, match="before the year 1 or after 9999 is a partition value"):
        lake.sink(lake.spec(partition=["t"]), rows())


@pytest.mark.parametrize("columns", [["t"], ["d", "z"], ["t", "id"]])
@pytest.mark.parametrize("mode", ["zorder", "hilbert"])
def test_folders_are_clustered_by_far_times(tmp_path: Path, mode: str, columns: list[str]) -> None:
    (tmp_path / "in").mkdir()
    for at in range(3):
        pq.write_table(rows().slice(2 * at, 2), tmp_path / "in" / f"{at}.parquet")
    places = {"uri": str(tmp_path / "in"), "output": str(tmp_path / "out")}
    report = compact(compacting.request(tmp_path, full=True, mode=mode, columns=columns, folder=places))
    assert report.after is not None
    found = pa.concat_tables(pq.read_table(path) for path in files_in(tmp_path / "out"))
    assert numbers(found) == EXPECTED


def test_tables_are_clustered_by_far_times(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for at in range(3):
        lake.sink(lake.spec(), rows().slice(2 * at, 2))
    iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
    asked = {"mode": "hilbert", "columns": ["t", "d"], "full": True}
    compact(compacting.request(lake.root, table="survey.sample", iceberg=iceberg, **asked))
    assert numbers(stored(lake)) == EXPECTED
