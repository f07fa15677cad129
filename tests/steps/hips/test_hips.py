"""The HiPS step: read back by the standard, each row once, whole or not at all."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.engine.this_process import ThisProcess
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.steps import in_process
from tests.steps.hips.hips_reader import ReadHips, check_limits, check_progress, read_hips
from tests.steps.hips.making_hips import asked, published, run


class TaskEngine(ThisProcess):
    """Runs tasks as if each were a process of its own, as Spark does."""

    @property
    def holds_exchanges(self) -> bool:
        return False


def made(warehouse: Path, run_id: str = "first", **fields: Any) -> ReadHips:
    report = run(asked(warehouse, run_id, **fields))
    hips = read_hips(Path(report.output))
    assert report.rows_in == report.rows_out == len(hips.rows)
    files = [path for path in Path(report.output).rglob("*") if path.is_file() and path.name != "hips.json"]
    assert report.files == len(files)
    assert report.bytes == sum(path.stat().st_size for path in files)
    return hips


def some_sky(rows: int, seed: int = 1) -> pa.Table:
    """Rows all over the sky, with a crowd, equal positions, and both poles."""
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    crowd = rows // 3
    ra[:crowd], dec[:crowd] = rng.normal(80, 0.2, crowd) % 360, rng.normal(30, 0.2, crowd)
    equal = min(rows // 10, 4)
    ra[crowd : crowd + equal], dec[crowd : crowd + equal] = 12.5, -60.0
    for at, pole in zip(range(max(0, rows - 6), rows), (90.0, -90.0) * 3, strict=False):
        dec[at] = pole
    mag = pa.array(np.round(rng.normal(12, 2, rows), 1), mask=rng.uniform(size=rows) < 0.1)
    return pa.table({"id": np.arange(rows), "ra": ra, "dec": dec, "mag": mag})


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("rows", "threshold", "limits"),
    [
        (1500, "100 rows", (5, 40, 12)),
        (1500, "20 rows", (5, 40, 12)),
        (1500, "5000 rows", (5, 40, 12)),
        (1500, "20 rows", (1, 1, 3)),
        (3000, "200 rows", (60, 500, 12)),
        (1500, "20 rows", (3, 10, 4)),
        (1, "20 rows", (60, 500, 12)),
        (700, "100 rows", (100_000, 100_000, 29)),
    ],
)
def test_every_row_is_in_one_tile_and_the_first_ones_are_in_coarse_tiles(
    tmp_path: Path, rows: int, threshold: str, limits: tuple[int, int, int]
) -> None:
    source = published(tmp_path, some_sky(rows), threshold=threshold)
    names = dict(zip(("allsky_rows", "tile_rows", "deepest_order"), limits, strict=True))
    for run_id, more in (("random", {}), ("mag", {"order_by": "mag"})):
        hips = made(tmp_path, run_id, **names, **more)
        assert sorted(map(int, hips.column("id"))) == source["id"].to_pylist()
        check_limits(hips, *limits)
        cells = dict(zip(map(int, hips.column("id")), hips.column("mag"), strict=True))
        assert [float(cells[each]) if cells[each] else None for each in range(rows)] == source[
            "mag"
        ].to_pylist()
    check_progress(hips, "mag")
    down = made(tmp_path, "down", **names, order_by="mag", descending=True)
    check_progress(down, "mag", descending=True)


def brute_force(
    table: pa.Table, allsky_rows: int, tile_rows: int, deepest: int
) -> dict[int, tuple[int, int]]:
    """The tile of each row by `id`: tiles are filled one after the other from the rows that are left."""
    import healpy

    ids, mags = table["id"].to_pylist(), table["mag"].to_pylist()
    left = sorted(ids, key=lambda each: (mags[each] is None, mags[each] or 0))
    ra, dec = table["ra"].to_numpy(), table["dec"].to_numpy()
    found = {}
    for order in range(1, deepest + 1):
        pixel = healpy.ang2pix(2**order, ra, dec, nest=True, lonlat=True)
        limit = len(ids) if order == deepest else allsky_rows if order <= 2 else tile_rows
        taken: dict[int, int] = {}
        for each in list(left):
            at = int(pixel[each])
            if taken.get(at, 0) < limit:
                taken[at] = taken.get(at, 0) + 1
                found[each] = (order, at)
                left.remove(each)
    return found


@settings(max_examples=examples(20))
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 400),
    threshold=st.sampled_from([5, 60, 500]),
    allsky_rows=st.integers(1, 6),
    tile_rows=st.integers(1, 30),
    deepest=st.integers(3, 7),
    task_bytes=st.sampled_from([1, 20_000, 1 << 30]),
)
def test_tiles_are_those_that_plain_loops_fill(
    tmp_path_factory: Any, seed: int, rows: int, threshold: int, **limits: int
) -> None:
    """Values differ, so that only one order is right."""
    warehouse = tmp_path_factory.mktemp("hips")
    task_bytes = limits.pop("task_bytes")
    table = some_sky(rows, seed)
    rng = np.random.default_rng(seed)
    table = table.set_column(3, "mag", pa.array(rng.permutation(rows), mask=rng.uniform(size=rows) < 0.002))
    published(warehouse, table, threshold=f"{threshold} rows")
    expected = brute_force(table, limits["allsky_rows"], limits["tile_rows"], limits["deepest"])
    fields = {"deepest_order": limits.pop("deepest"), **limits, "order_by": "mag", "task_bytes": task_bytes}
    hips = made(warehouse, **fields)
    at = next(iter(hips.tiles.values())).names.index("id")
    found = {int(row[at]): key for key, tile in hips.tiles.items() for row in tile.rows}
    assert found == expected


def test_tasks_of_an_engine_and_few_at_once_give_the_same_bytes(tmp_path: Path) -> None:
    published(tmp_path, some_sky(3000), threshold="100 rows")
    outcomes = []
    for number, (engine, task_bytes) in enumerate([(ThisProcess(1), 1 << 30), (TaskEngine(4), 4000)]):
        request = asked(tmp_path, f"{number}", task_bytes=task_bytes, order_by="mag", tile_rows=20,
                        output=f"{number}", created=datetime(2026, 1, 1, tzinfo=UTC))  # fmt: skip
        root = Path(run(request, engine).output)
        outcomes.append(
            {
                path.relative_to(root): path.read_bytes()
                for path in root.rglob("*")
                if path.is_file() and path.name not in ("hips.json", "Moc.fits")
            }
        )
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) > 100


LONG_AGO = datetime(1969, 12, 31)
THEN = datetime(2026, 1, 2, 3, 4, 5)
QUOTED = "Größe, 'quoted' \"so\""
KINDS: dict[str, pa.Array] = {
    "text": pa.array(["plain", "tab\there", "line\nend\r\n", None, "", "#no comment", QUOTED, " "]),
    "real": pa.array([1.5, float("nan"), float("inf"), -float("inf"), None, 0.1, -0.0, 1e300]),
    "single": pa.array([1.5, float("nan"), float("inf"), None, 0.1, -1e-30, 16777217.0, 2.0], pa.float32()),
    "long": pa.array([2**63 - 1, -(2**63), 0, None, 1, 2, 3, 4]),
    "unsigned": pa.array([2**64 - 1, 0, None, 1, 2, 3, 4, 5], pa.uint64()),
    "flag": pa.array([True, False, None, True, False, True, None, False]),
    "day": pa.array([date(2026, 1, 2), None, date(1969, 12, 31), *[date(2000, 1, 1)] * 5]),
    "moment": pa.array([THEN.replace(microsecond=678900), None, *[LONG_AGO] * 6], pa.timestamp("us")),
    "zoned": pa.array([THEN, None, *[LONG_AGO] * 6], pa.timestamp("s", "America/Lima")),
    "span": pa.array([timedelta(seconds=90), None, *[timedelta(days=-1)] * 6], pa.duration("s")),
    "price": pa.array([Decimal("1.50"), None, *[Decimal("-0.01")] * 6], pa.decimal128(12, 2)),
    "word": pa.array(["red", "blue", None, "red", "re\td", "", "red", "blue"]).dictionary_encode(),
}
CELLS = {
    "text": ["plain", "tab here", "line end  ", "", "", "#no comment", QUOTED, " "],
    "real": ["1.5", "NaN", "+Inf", "-Inf", "", "0.1", "-0", "1e+300"],
    "single": ["1.5", "NaN", "+Inf", "", "0.1", "-1e-30", "16777216", "2"],
    "long": [str(2**63 - 1), str(-(2**63)), "0", "", "1", "2", "3", "4"],
    "unsigned": [str(2**64 - 1), "0", "", "1", "2", "3", "4", "5"],
    "flag": ["true", "false", "", "true", "false", "true", "", "false"],
    "day": ["2026-01-02", "", "1969-12-31", *["2000-01-01"] * 5],
    "moment": ["2026-01-02T03:04:05.678900", "", *["1969-12-31T00:00:00.000000"] * 6],
    "zoned": ["2026-01-02T03:04:05", "", *["1969-12-31T00:00:00"] * 6],
    "span": ["90", "", *["-86400"] * 6],
    "price": ["1.50", "", *["-0.01"] * 6],
    "word": ["red", "blue", "", "red", "re d", "", "red", "blue"],
}


def test_cells_of_all_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    place = {"id": np.arange(8), "ra": rng.uniform(0, 360, 8), "dec": rng.uniform(-90, 90, 8)}
    nested = pa.array([[1, 2]] * 8)
    published(tmp_path, pa.table({**place, **KINDS, "nested": nested, "raw": pa.array([b"\x00"] * 8)}))
    hips = made(tmp_path)
    order = np.argsort(list(map(int, hips.column("id"))))
    for name, cells in CELLS.items():
        found = np.array(hips.column(name), object)[order].tolist()
        if name == "real":
            found[6], cells = float(found[6]), [*cells[:6], 0.0, cells[7]]
        assert found == cells, name
    assert [float(each) for each in np.array(hips.column("ra"))[order]] == place["ra"].tolist()
    assert {"nested", "raw"}.isdisjoint(field.name for field in hips.fields)
    types = {field.name: (field.datatype, field.xtype) for field in hips.fields}
    assert types["real"] == ("double", None)
    assert types["single"] == ("float", None)
    assert types["flag"] == ("boolean", None)
    assert types["long"] == ("long", None)
    assert types["moment"] == types["day"] == ("char", "timestamp")
    assert types["text"] == types["word"] == ("unicodeChar", None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["real", "single", "long", "unsigned", "flag", "day", "moment", "zoned", "span", "price"]
)
def test_rows_are_in_the_order_of_any_numbers_and_times(tmp_path: Path, name: str) -> None:
    values = KINDS[name]
    published(
        tmp_path, pa.table({"id": np.arange(8), "ra": np.full(8, 10.0), "dec": np.full(8, 5.0), name: values})
    )
    lost = [at for at, each in enumerate(values.to_pylist()) if each is None or each != each]
    for descending in (False, True):
        hips = made(tmp_path, f"{descending}", order_by=name, descending=descending, allsky_rows=3)
        found = list(map(int, hips.column("id")))
        shown = [values[at].as_py() for at in found[: len(found) - len(lost)]]
        assert shown == sorted(shown, reverse=descending)
        assert sorted(found[len(found) - len(lost) :]) == lost


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "fields",
    [
        {"layout": "hipscat"},
        {"column_groups": [{"name": "main"}, {"name": "more", "columns": ["mag"], "threshold": "90 rows"}]},
        {"column_groups": [{"name": "main", "threshold": "50 rows"}, {"name": "more", "columns": ["id"]}],
         "layout": "hipscat"},
    ],
)  # fmt: skip
def test_layouts_and_column_groups(tmp_path: Path, fields: dict[str, Any]) -> None:
    source = published(tmp_path, some_sky(2000), **fields)
    hips = made(tmp_path, order_by="mag", tile_rows=40, allsky_rows=7)
    check_progress(hips, "mag")
    check_limits(hips, 7, 40, 12)
    cells = dict(zip(map(int, hips.column("id")), hips.column("mag"), strict=True))
    assert [float(cells[at]) if cells[at] else None for at in range(2000)] == source["mag"].to_pylist()


@pytest.mark.parametrize(("unit", "frame"), [("rad", "icrs"), ("deg", "galactic")])
def test_positions_are_icrs_degrees(tmp_path: Path, unit: str, frame: str) -> None:
    from astropy.coordinates import SkyCoord

    table = in_process.write_source(tmp_path / "landing", rows=300, files=1)
    lon, lat = table["ra"].to_numpy(), table["dec"].to_numpy()
    place = SkyCoord(lon % 360, lat, unit="deg", frame=frame).icrs
    if unit == "rad":
        table = table.set_column(1, "ra", pa.array(np.radians(lon))).set_column(
            2, "dec", pa.array(np.radians(lat))
        )
    pq.write_table(table, tmp_path / "landing" / "part-0.parquet")
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    spec.write_text(
        spec.read_text().replace("{ra: ra, dec: dec}", f"{{ra: ra, dec: dec, unit: {unit}, frame: {frame}}}")
    )
    in_process.ingest(in_process.start(tmp_path, spec))
    hips = made(tmp_path)
    order = np.argsort(list(map(int, hips.column("id"))))
    found = [np.array([float(row[axis]) for row in hips.rows])[order] for axis in (0, 1)]
    away = SkyCoord(*found, unit="deg").separation(place).arcsec
    assert away.max() < 1e-6
