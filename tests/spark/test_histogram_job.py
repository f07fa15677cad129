"""The histogram step: counts against healpy and numpy, bad rows, schemas that only the data tell."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hipslake.errors import (
    BadRowsError,
    CorruptFileError,
    EmptySourceError,
    PlanError,
    ReservedColumnError,
    SchemaMismatchError,
)
from hipslake.steps.run import RunFolder
from pyspark.sql import SparkSession

from tests.spark.running import Run, land, pixels, stars, uniform

CSV = {"format": "csv"}


def counted(run: Run, path: str = RunFolder.HISTOGRAM) -> dict[tuple[int, int], int]:
    """Rows per (order, pixel)."""
    table = run.table(path)
    keys = zip(table["order"].to_pylist(), table["npix"].to_pylist(), strict=True)
    return dict(zip(keys, table["rows"].to_pylist(), strict=True))


def brute(h29: np.ndarray, order: int) -> dict[tuple[int, int], int]:
    """Rows per pixel of one order, by healpy and numpy."""
    npix, rows = np.unique(h29 >> 2 * (29 - order), return_counts=True)
    return {(order, pixel): count for pixel, count in zip(npix.tolist(), rows.tolist(), strict=True)}


def test_counts_are_healpys_at_every_order(spark: SparkSession, tmp_path: Path) -> None:
    ra, dec = uniform(4000)
    ra[::7] -= 360  # the index wraps
    ra[::11] += 360
    land(tmp_path, stars(ra, dec))
    run = Run.start(spark, tmp_path)
    report = run.count(split_target_bytes=20_000)
    h29 = pixels(ra, dec)
    assert report.splits > 3
    assert (report.rows_in, report.rows_out, report.rows_rejected) == (4000, 4000, 0)
    assert counted(run) == brute(h29, 6)
    assert counted(run, RunFolder.PER_ORDER) == {
        cell: rows for order in range(6) for cell, rows in brute(h29, order).items()
    }
    for path in (RunFolder.HISTOGRAM, RunFolder.PER_ORDER):
        table = run.table(path)
        expected = table["rows"].to_numpy() * report.row_bytes["main"].disk
        assert np.array_equal(table["bytes_main"].to_numpy(), expected.astype(np.int64))


@pytest.mark.parametrize("orders", [{"mapping_order": 0}, {"mapping_order": 3, "lowest_order": 8}])
def test_the_histogram_is_never_above_the_lowest_order(
    spark: SparkSession, tmp_path: Path, orders: dict[str, int]
) -> None:
    ra, dec = uniform(300)
    land(tmp_path, stars(ra, dec), files=1)
    run = Run.start(spark, tmp_path, **orders)
    run.count()
    assert counted(run) == brute(pixels(ra, dec), max(orders.values()))


def test_a_crowded_pixel_is_counted_deeper_and_nothing_else_is(spark: SparkSession, tmp_path: Path) -> None:
    ra, dec = uniform(1500)
    rng = np.random.default_rng(4)
    ra[:900], dec[:900] = 80 + rng.normal(0, 1e-4, 900), 30 + rng.normal(0, 1e-4, 900)
    land(tmp_path, stars(ra, dec))
    run = Run.start(spark, tmp_path, threshold="20 rows")
    report = run.count(split_target_bytes=30_000)
    h29, cells = pixels(ra, dec), counted(run)
    assert {order for order, _ in cells} <= {6, *report.crowded}
    assert max(cells)[0] == report.highest_order > 11
    shallow = {cell: rows for cell, rows in brute(h29, 6).items() if rows <= 20}
    assert {cell: rows for cell, rows in cells.items() if cell[0] == 6} == shallow
    assert all(rows <= 20 for rows in cells.values())
    for (order, npix), rows in cells.items():
        assert np.count_nonzero(h29 >> 2 * (29 - order) == npix) == rows
    assert sum(cells.values()) == 1500  # disjoint, as each is right and none is missing
    per_order = counted(run, RunFolder.PER_ORDER)
    for order in range(7):
        assert {cell: rows for cell, rows in per_order.items() if cell[0] == order} == brute(h29, order)


def test_rows_one_order_29_pixel_apart_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    import healpy

    centre = int(pixels(np.array([123.4]), np.array([-5.0]))[0]) & ~3
    ra, dec = healpy.pix2ang(2**29, centre + np.arange(4).repeat(5), nest=True, lonlat=True)
    land(tmp_path, stars(ra, dec), files=1)
    run = Run.start(spark, tmp_path, threshold="5 rows")
    run.count()
    assert counted(run) == {(29, centre + child): 5 for child in range(4)}
    assert run.plan().files == 4


def test_too_many_rows_on_one_position_fail_the_plan_by_name(spark: SparkSession, tmp_path: Path) -> None:
    ra, dec = uniform(100)
    ra[40:60], dec[40:60] = 201.365, -43.019
    land(tmp_path, stars(ra, dec))
    run = Run.start(spark, tmp_path, threshold="19 rows")
    run.count()
    with pytest.raises(PlanError, match=r"201\.365.*-43\.019.* 20 rows"):
        run.plan()
    again = Run.start(spark, tmp_path, run_id="again", threshold="20 rows")
    again.count()
    assert again.plan().rows_out == 100


BAD = {
    5: (None, 1.0, "null"),
    6: (np.nan, 1.0, "null"),
    2500: (1.0, np.inf, "infinite"),
    2501: (-np.inf, 0.0, "infinite"),
    2700: (1.0, 90.0001, "dec"),
    3999: (720.5, 0.0, "ra outside"),
}


@pytest.fixture
def with_bad_rows(tmp_path: Path) -> pa.Table:
    """4,000 rows in three files of 1,334 and fewer; six of them are nowhere."""
    ra, dec = (list(values) for values in uniform(4000))
    for at, (lon, lat, _) in BAD.items():
        ra[at], dec[at] = lon, lat
    table = pa.table(
        {"id": range(4000), "ra": pa.array(ra, pa.float64()), "dec": pa.array(dec, pa.float64())}
    )
    land(tmp_path, table)
    return table


def test_bad_rows_fail_the_run_with_counts_and_first_examples(
    spark: SparkSession, tmp_path: Path, with_bad_rows: pa.Table
) -> None:
    run = Run.start(spark, tmp_path)
    with pytest.raises(BadRowsError) as caught:
        run.count(split_target_bytes=10_000, max_examples=4)
    message = str(caught.value)
    assert message.startswith("6 of 4000 rows")
    for count, reason in [(2, "null or NaN"), (2, "infinite"), (1, "dec outside"), (1, "ra outside")]:
        assert f"{count} with " in message
        assert reason in message
    # 5 is row 6 of the first file; 2500 is row 2500 - 1334 + 1 of the second.
    for place in (
        "part-0.parquet, row 6:",
        "part-0.parquet, row 7:",
        "part-1.parquet, row 1167:",
        "row 1168:",
    ):
        assert place in message
    assert "row 1367" not in message  # the fifth


def test_quarantine_keeps_bad_rows_apart_up_to_its_fraction(
    spark: SparkSession, tmp_path: Path, with_bad_rows: pa.Table
) -> None:
    allowed = {"policy": "quarantine", "max_fraction": 6 / 4000}
    run = Run.start(spark, tmp_path, bad_rows=allowed)
    report = run.count(split_target_bytes=10_000)
    assert (report.rows_in, report.rows_out, report.rows_rejected) == (4000, 3994, 6)
    assert sorted(report.rejected.values()) == [1, 1, 2, 2]
    good = np.setdiff1d(np.arange(4000), list(BAD))
    ra, dec = (with_bad_rows[name].to_numpy()[good] for name in ("ra", "dec"))
    assert counted(run) == brute(pixels(ra, dec), 6)
    stricter = Run.start(spark, tmp_path, run_id="stricter", bad_rows=allowed | {"max_fraction": 5 / 4000})
    with pytest.raises(BadRowsError, match=r"more than bad_rows\.max_fraction"):
        stricter.count()


def test_rows_that_are_all_bad_are_no_catalog(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, stars(np.full(10, np.nan), np.zeros(10)), files=2)
    run = Run.start(spark, tmp_path, bad_rows={"policy": "quarantine", "max_fraction": 1.0})
    with pytest.raises(EmptySourceError, match=r"10 rows.*not one"):
        run.count()


def test_an_empty_source_is_an_error_and_an_empty_file_is_none(spark: SparkSession, tmp_path: Path) -> None:
    ra, dec = uniform(50)
    table = stars(ra, dec)
    land(tmp_path, table.slice(0, 0), files=1)
    with pytest.raises(EmptySourceError, match="1 files"):
        Run.start(spark, tmp_path).count()
    pq.write_table(table, tmp_path / "landing" / "part-1.parquet")
    run = Run.start(spark, tmp_path, run_id="again")
    assert run.count().rows_out == 50
    assert counted(run) == brute(pixels(ra, dec), 6)


def csv_run(spark: SparkSession, place: Path, **spec: object) -> Run:
    """A run on the CSV files of the landing folder."""
    return Run.start(spark, place, source={"uri": f"{place}/landing/*.csv*", **CSV}, **spec)


def write_csv(place: Path, *texts: str | bytes) -> None:
    """Write CSV files in order."""
    (place / "landing").mkdir()
    for number, text in enumerate(texts):
        data = text.encode() if isinstance(text, str) else text
        name = f"part-{number}.csv" + (".gz" if data[:2] == b"\x1f\x8b" else "")
        (place / "landing" / name).write_bytes(data)


def test_csv_types_are_found_in_all_of_the_data(spark: SparkSession, tmp_path: Path) -> None:
    ra, dec = uniform(900)
    kinds = [str(number) if number < 880 else f"{number}.5" for number in range(900)]
    lines = ["ra,dec,flux,name,empty"] + [
        f"{a!r},{d!r},{kind},s{kind}," for a, d, kind in zip(ra.tolist(), dec.tolist(), kinds, strict=True)
    ]
    head, tail = "\n".join(lines[:500]) + "\n", "\n".join([lines[0], *lines[500:]]) + "\n"
    write_csv(tmp_path, head, gzip.compress(tail.encode(), mtime=0), lines[0] + "\n", "")
    run = csv_run(spark, tmp_path)
    report = run.count(split_target_bytes=1000)
    assert report.splits > 10
    assert run.folder.schema().types == [pa.float64(), pa.float64(), pa.float64(), pa.string(), pa.string()]
    assert counted(run) == brute(pixels(ra, dec), 6)


def test_csv_positions_may_be_whole_numbers_in_one_part_and_missing_in_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What a part of the data looks like by itself must not decide whether its rows count."""
    write_csv(
        tmp_path,
        "id,ra,dec\n" + "".join(f"{n},{n},{n - 30}\n" for n in range(60)),
        "id,ra,dec\n" + "".join(f"{n},{n}.25,-3.5\n" for n in range(60, 120)),
        "id,ra,dec\n" + "".join(f"{n},,\n" for n in range(120, 160)),
    )
    run = csv_run(spark, tmp_path, bad_rows={"policy": "quarantine", "max_fraction": 0.5})
    report = run.count(split_target_bytes=100)
    assert (report.rows_in, report.rows_out, report.rows_rejected) == (160, 120, 40)
    ra = np.append(np.arange(60.0), np.arange(60.0, 120) + 0.25)
    dec = np.append(np.arange(60.0) - 30, np.full(60, -3.5))
    assert counted(run) == brute(pixels(ra, dec), 6)


@pytest.mark.parametrize("text", ["id\n1\n2\n", "id,ra\n1,3.5\n2,4\n"])
def test_files_without_positions_are_bad_rows_where_columns_may_be_missing(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    write_csv(tmp_path, "id,ra,dec\n" + "".join(f"{n},{n}.5,0.25\n" for n in range(60)), text)
    quarantine = {"policy": "quarantine", "max_fraction": 0.5}
    source = {"uri": f"{tmp_path}/landing/*.csv", **CSV, "missing_columns": "null"}
    report = Run.start(spark, tmp_path, source=source, bad_rows=quarantine).count()
    assert (report.rows_in, report.rows_out, report.rows_rejected) == (62, 60, 2)


def test_positions_that_are_no_numbers_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    write_csv(tmp_path, "id,ra,dec\n1,10.5,20.5\n2,10.5,20.5\n", "id,ra,dec\n3,10h15m,-3.5\n")
    with pytest.raises(SchemaMismatchError, match="'ra'"):
        csv_run(spark, tmp_path).count()


def test_schemas_that_widen_are_unified_and_others_are_named(spark: SparkSession, tmp_path: Path) -> None:
    table = stars(*uniform(60))
    narrow = table.set_column(0, "id", table["id"].cast(pa.int16()))
    (tmp_path / "landing").mkdir()
    pq.write_table(narrow, tmp_path / "landing" / "a.parquet")
    pq.write_table(table, tmp_path / "landing" / "b.parquet")
    run = Run.start(spark, tmp_path)
    assert run.count().rows_out == 120
    assert run.folder.schema().field("id").type == pa.int64()
    pq.write_table(table.drop_columns("mag"), tmp_path / "landing" / "c.parquet")
    with pytest.raises(SchemaMismatchError, match=r"c\.parquet has no column 'mag'"):
        Run.start(spark, tmp_path, run_id="lacking").count()
    pq.write_table(table.rename_columns(["id", "ra", "dec", "Norder"]), tmp_path / "landing" / "c.parquet")
    source = {"uri": f"{tmp_path}/landing/c.parquet", "format": "parquet"}
    reserved = Run.start(spark, tmp_path, run_id="reserved", source=source)
    with pytest.raises(ReservedColumnError, match="Norder"):
        reserved.count()


def test_a_damaged_file_is_named_and_is_not_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, stars(*uniform(3000)))
    path = tmp_path / "landing" / "part-1.parquet"
    data = bytearray(path.read_bytes())
    data[2000:6000] = bytes(4000)
    path.write_bytes(data)
    run = Run.start(spark, tmp_path)
    with pytest.raises(CorruptFileError, match=r"part-1\.parquet is damaged") as caught:
        run.count()
    assert not caught.value.retryable
    report = run.folder.storage.read(RunFolder.report_path("histogram")).decode()
    assert '"kind": "CorruptFileError"' in report or '"kind":"CorruptFileError"' in report


def test_row_numbers_do_not_depend_on_the_splits(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, stars(*uniform(3000)), files=2, row_group_rows=100)
    tables = []
    for run_id, size in [("coarse", 1 << 28), ("fine", 5000)]:
        run = Run.start(spark, tmp_path, run_id=run_id)
        run.count(split_target_bytes=size)
        tables.append(run.table(RunFolder.SPLITS))
    coarse, fine = tables
    assert coarse["row_start"].to_pylist() == [0, 1500]
    assert len(fine) > 10
    assert fine["row_start"].to_pylist() == [0, *np.cumsum(fine["rows"].to_numpy())[:-1].tolist()]
    second = fine.filter(pc.equal(fine["file"], 1))
    assert second["row_start"][0].as_py() == 1500  # of the second file, whatever the first was cut into


def test_row_sizes_do_not_depend_on_the_splits(spark: SparkSession, tmp_path: Path) -> None:
    """Thresholds in bytes are planned with them, so the plan would depend on who did the work."""
    rng = np.random.default_rng(1)
    texts = ["x" * 5 if at < 2000 else rng.bytes(40).hex() for at in range(4000)]
    land(tmp_path, stars(*uniform(4000), text=texts), files=2, row_group_rows=500)
    weights = []
    for run_id, size in [("coarse", 1 << 28), ("fine", 5000), ("finest", 1)]:
        run = Run.start(spark, tmp_path, run_id=run_id)
        weights.append(run.count(split_target_bytes=size).row_bytes)
    assert weights[0] == weights[1] == weights[2]


def test_rows_are_weighed_by_good_ones(spark: SparkSession, tmp_path: Path) -> None:
    """Files may begin with rows that are nowhere; the plan still needs to know what a row weighs."""
    ra, dec = uniform(40_000)
    ra[:39_000] = np.nan
    land(tmp_path, stars(ra, dec), files=1, row_group_rows=40_000)
    run = Run.start(spark, tmp_path, bad_rows={"policy": "quarantine", "max_fraction": 1.0})
    assert run.count().row_bytes["main"].rows == 1000
    assert run.plan().rows_out == 1000
