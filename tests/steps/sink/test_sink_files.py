"""Sinks of files in place of a catalog: the table has what the files of an interval hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError, SourceNotFoundError, SpecError
from hipslake.steps.run import Window

from tests.steps.nights import FIRST
from tests.steps.sinks import Lake, interval


def write(tmp_path: Path, name: str, rows: int, start: int = 0) -> None:
    path = tmp_path / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    seen = [FIRST + timedelta(seconds=second) for second in range(rows)]
    columns = {"id": range(start, start + rows), "seen": pa.array(seen, pa.timestamp("us", tz="UTC"))}
    pq.write_table(pa.table(columns), path)


def test_files_without_an_interval_are_what_the_table_has_of_them(lake: Lake, tmp_path: Path) -> None:
    lake.write_spec(f"source: {{files: {{uri: '{tmp_path}/landing/*.parquet', format: parquet}}}}\n")
    write(tmp_path, "a.parquet", 10)
    assert lake.run_files().rows_out == 10
    assert lake.run_files().snapshot_id is None
    write(tmp_path, "b.parquet", 5, start=10)
    assert lake.run_files().rows_updated == 10
    assert lake.rows("id")["id"].to_pylist() == list(range(15))


def test_the_columns_of_a_sink_of_files_may_be_derived(lake: Lake, tmp_path: Path) -> None:
    for band in "gr":
        write(tmp_path, f"band={band}/a.parquet", 3)
    lake.write_spec(
        f"source: {{files: {{uri: '{tmp_path}/landing/**/*.parquet', format: parquet, folders: [band], "
        "columns: {drop: [seen], derive: {mjd: mjd_of_time(seen), twice: id * 2}}}}\n"
    )
    assert lake.run_files().rows_out == 6
    found = lake.rows("id", "band", "mjd", "twice").sort_by([("band", "ascending"), ("id", "ascending")])
    assert found["band"].to_pylist() == ["g"] * 3 + ["r"] * 3
    assert found["twice"].to_pylist() == [0, 2, 4] * 2
    first = (FIRST - datetime(1858, 11, 17, tzinfo=UTC)).days
    assert found["mjd"].to_pylist() == [first + second / 86_400 for second in (0, 1, 2)] * 2


def test_the_files_of_an_interval_replace_it_and_an_empty_one_has_to_be_allowed(
    lake: Lake, tmp_path: Path
) -> None:
    lake.write_spec(
        f"source: {{files: {{uri: '{tmp_path}/landing/{{{{ night }}}}.parquet', format: parquet}}}}\n"
        "mode: overwrite-interval\ninterval: seen\n"
    )
    window = interval(0)
    with pytest.raises(SpecError, match="give window_start and window_end"):
        lake.resolve()
    with pytest.raises(SpecError, match=r"does not say where the one from 2026-10-01T00:00:00.* ends"):
        lake.resolve(window=Window(start=FIRST, origin="params"))  # it would replace all that came later
    with pytest.raises(SourceNotFoundError):
        lake.run_files(window=window)
    assert lake.run_files(window=window, allow_empty=True).snapshot_id is None
    write(tmp_path, "2026-10-01.parquet", 10)
    assert lake.run_files(window=window).rows_out == 10
    write(tmp_path, "2026-10-01.parquet", 4)
    assert lake.run_files(window=window).rows_updated == 10
    (tmp_path / "landing" / "2026-10-01.parquet").unlink()
    gone = lake.run_files(window=window, allow_empty=True)
    assert (gone.rows_out, gone.rows_updated) == (0, 4)
    assert lake.rows("id").num_rows == 0


def test_files_with_nothing_in_them_empty_their_interval(lake: Lake, tmp_path: Path) -> None:
    lake.write_spec(
        f"source: {{files: {{uri: '{tmp_path}/landing/{{{{ night }}}}.csv', format: csv, "
        "options: {types: {seen: 'timestamp[us]'}}}}\n"
        "mode: overwrite-interval\ninterval: seen\n"
    )
    place = tmp_path / "landing" / "2026-10-01.csv"
    place.parent.mkdir()
    place.write_text("id,seen\n1,2026-10-01T01:00:00\n2,2026-10-01T02:00:00\n")
    assert lake.run_files(window=interval(0)).rows_out == 2
    place.write_text("")
    gone = lake.run_files(window=interval(0))
    assert (gone.rows_out, gone.rows_updated) == (0, 2)
    assert lake.rows("id").num_rows == 0


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_records_of_files_insert_update_and_delete(lake: Lake, tmp_path: Path, kind: str) -> None:
    def land(night: str, *records: tuple[str, int, int]) -> None:
        op, ids, order = zip(*records, strict=True)
        table = pa.table({"op": op, "id": ids, "v": order})
        (tmp_path / "landing").mkdir(exist_ok=True)
        if kind == "csv":
            csv.write_csv(table, tmp_path / "landing" / f"{night}.csv")
        else:
            pq.write_table(table, tmp_path / "landing" / f"{night}.parquet")

    lake.write_spec(
        f"source: {{files: {{uri: '{tmp_path}/landing/{{{{ night }}}}.{kind}', format: {kind}}}}}\n"
        "mode: upsert\nkey: id\norder_by: v\noperation: {column: op}\nwrite: merge-on-read\n"
    )
    land("2026-10-01", *(("I", number, 1) for number in range(5)))
    land("2026-10-02", ("U", 1, 3), ("D", 2, 3), ("D", 77, 3), ("I", 9, 3), ("U", 3, 0), ("U", 9, 2))
    assert lake.run_files(window=interval(0)).rows_out == 5
    report = lake.run_files(window=interval(1))
    wanted = {"id": [0, 1, 3, 4, 9], "v": [1, 3, 1, 1, 3]}
    assert lake.rows("id", "v").to_pydict() == wanted
    assert (report.rows_in, report.rows_out, report.rows_rejected, report.delete_records) == (6, 2, 2, 2)
    assert (report.rows_updated, report.rows_deleted, report.outdated) == (1, 1, 1)
    assert (report.missing_deletes, report.delete_files) == (1, 1)
    assert lake.run_files(window=interval(1)).snapshot_id is None
    again = lake.run_files(window=interval(1), force=True)
    assert (again.rows_updated, again.rows_deleted, again.missing_deletes) == (2, 0, 2)
    assert lake.rows("id", "v").to_pydict() == wanted
    land("2026-10-02", ("X", 1, 9))
    with pytest.raises(InputError, match="column 'op' is 'X'"):
        lake.run_files(window=interval(1))
    assert lake.rows("id", "v").to_pydict() == wanted
