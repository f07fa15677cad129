"""What follows the leaves of a catalog in mode upsert: its view, maps, index, vacuum, marks and readers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from hipslake import Catalog, ingest
from hipslake.api.rows_on_sky import rows_per_pixel
from hipslake.catalog.hats.point_map import MAP_ORDER, PointMap
from hipslake.catalog.layouts import HATS
from hipslake.errors import VerificationError

from tests.steps import in_process
from tests.steps.nights import FIRST
from tests.steps.upserts import Record, UpsertSurvey, rows_of, state_of, table_of

pytestmark = pytest.mark.sampled(2)


def night(number: int, keys: range, *, seq: int | None = None) -> list[Record]:
    """Records that put their keys somewhere, those that 7 divides away."""
    rng = np.random.default_rng(number)
    order = number if seq is None else seq
    return [
        Record("D", key, order, None, None, 0.0, number)
        if key % 7 == number
        else Record("U", key, order, rng.uniform(0, 90), rng.uniform(-30, 30), rng.normal(), number)
        for key in keys
    ]


def assert_map_is_right(counted: PointMap, catalog: Catalog) -> None:
    pixels = catalog.read(columns=["_healpix_29"])["_healpix_29"].to_numpy() >> (2 * (29 - MAP_ORDER))
    npix, rows = np.unique(pixels, return_counts=True)
    assert counted.order == MAP_ORDER
    assert np.array_equal(counted.npix, npix)
    assert np.array_equal(counted.rows, rows)


@pytest.mark.parametrize("unchanged", ["link", "copy"])
def test_the_view_and_its_map(tmp_path: Path, unchanged: str) -> None:
    more = f"unchanged: {unchanged}\nmargin: {{arcsec: 3600}}"
    survey = UpsertSurvey(tmp_path, threshold="40 rows", more=more)
    for number, keys in ((0, range(120)), (1, range(60, 150)), (2, range(30)), (1, range(100, 110))):
        survey.upsert(number, night(number, keys))
        catalog = survey.catalog
        counted = rows_per_pixel(catalog, MAP_ORDER)  # before it is shown
        cells = (counted.pixels.order, counted.pixels.npix, counted.rows)
        assert_map_is_right(PointMap.from_cells(*cells), catalog)
        in_process.show(survey.resolve(number))
        survey.assert_holds_the_state()
        metadata = survey.catalog.metadata
        data = survey.catalog.storage.read(HATS.view_file(metadata.write_id, "main", "point_map.fits"))
        assert_map_is_right(PointMap.from_fits(data), catalog)
        catalog.verify(all=True).raise_if_failed()


def test_rows_that_come_back_are_found_by_an_index(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, threshold="40 rows", more="index: [id]")
    survey.upsert(0, night(0, range(100)))
    survey.upsert(1, night(1, range(50, 100)))
    in_process.make_indices(survey.begin(), published=True)
    survey.upsert(1, night(1, range(90, 95)))
    survey.upsert(2, night(2, range(20, 25)))
    survey.assert_holds_the_state()
    for key in range(100):
        found = rows_of(survey.catalog.find("id", key))
        expected = survey.state.get(key)
        assert found == ([] if expected is None else [expected.row])


def test_what_was_superseded_outlives_a_vacuum(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, threshold="40 rows")
    for number in (0, 1, 2):
        survey.upsert(number, night(number, range(100)))
        survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    for number in (2, 1):
        survey.upsert(number, [])
        survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
        survey.assert_holds_the_state()
    assert {record.night for record in survey.state.values()} == {0}


def test_marks_are_held_against_what_stands(tmp_path: Path) -> None:
    more = "co_partitioned: [night]"
    survey = UpsertSurvey(tmp_path, more=more)
    survey.upsert(0, [Record("I", key, 1, 10.0, 10.0, 0.0, 0) for key in range(3)])
    survey.land(1, table_of([Record("U", 1, 2, 20.0, 10.0, 0.0, 0)]))  # a night at two places
    with pytest.raises(VerificationError, match="night"):
        survey.append(1)
    survey.upsert(2, [Record("U", key, 3, 20.0, 10.0, 0.0, 0) for key in range(3)])
    survey.assert_holds_the_state()


def test_a_program_upserts_tables(tmp_path: Path) -> None:
    spec = {
        "name": "stars",
        "position": {"ra": "ra", "dec": "dec"},
        "mode": "upsert",
        "key": "id",
        "operation": {"column": "op"},
    }
    nights = {20: night(0, range(40)), 22: night(2, range(20, 60)), 21: night(1, range(30))}
    for day, records in nights.items():
        catalog = ingest(table_of(records), spec=spec, warehouse=tmp_path, interval=f"2026-11-{day}")
    expected = state_of(nights, ordered=False)
    assert sorted(rows_of(catalog.read())) == sorted(record.row for record in expected.values())
    catalog.verify().raise_if_failed()


def test_the_first_night_deletes_only(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, more="margin: {arcsec: 600}")
    report = survey.upsert(0, [Record("D", key, 9, None, None, 0.0, 0) for key in range(3)])
    assert (report.missing_deletes, report.total_rows) == (3, 0)
    survey.assert_holds_the_state()
    survey.upsert(1, [Record("U", key, 5 + 5 * (key % 2), 10.0, 10.0, 0.0, 1) for key in range(5)])
    survey.assert_holds_the_state()
    survey.upsert(0, [])
    survey.assert_holds_the_state()


def test_nights_of_csv_files_and_thresholds_in_bytes(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, threshold="6 kB")
    survey.spec_text = survey.spec_text.replace("*.parquet", "*.csv").replace(
        "format: parquet", "format: csv"
    )
    nights = {0: night(0, range(300)), 1: night(1, range(200, 260)), 2: night(2, range(250, 400))}
    deletes = [Record("D", key, 50, None, None, 0.0, 3) for key in range(0, 300, 2)]
    for number, records in [*nights.items(), (3, deletes), (3, [])]:
        folder = Path(survey.landing) / f"night={FIRST + timedelta(days=number):%Y-%m-%d}"
        folder.mkdir(parents=True, exist_ok=True)
        csv.write_csv(table_of(records), folder / "part.csv")
        survey.append(number)
        survey.nights[number] = records
        survey.assert_holds_the_state()


def test_a_column_that_comes_later_is_null_in_rows_that_return(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path)
    survey.upsert(0, night(0, range(40)))
    survey.upsert(1, night(1, range(40)))
    later = table_of(night(2, range(100, 110)))
    survey.land(2, later.append_column("flux", pa.array(np.arange(10.0))))
    survey.append(2)
    survey.spec_text = survey.spec_text.replace(
        "format: parquet", 'format: parquet\n  missing_columns: "null"'
    )
    survey.upsert(1, [])
    survey.nights[2] = night(2, range(100, 110))
    survey.assert_holds_the_state()
    assert survey.catalog.read(columns=["flux"])["flux"].null_count == len(
        [record for record in survey.state.values() if record.night == 0]
    )


def test_rows_lie_where_their_objects_do(tmp_path: Path) -> None:
    ids = np.arange(20)
    objects = pa.table({"object": ids, "ra": 10.0 + ids, "dec": ids.astype(float)})
    place = {"ra": "ra", "dec": "dec"}
    where = {"name": "objects", "position": place, "co_partitioned": ["object"]}
    ingest(objects, spec=where, warehouse=tmp_path)
    spec = {
        "name": "sources",
        "position": place,
        "position_from": {"catalog": "objects", "on": {"object": "object"}},
        "mode": "upsert",
        "key": "id",
        "operation": {"column": "op"},
    }

    def sources(ids: list[int], objects: list[int | None], ops: str) -> pa.Table:
        return pa.table(
            {
                "id": ids,
                "object": pa.array(objects, pa.int64()),
                "op": list(ops),
                "ra": [None if each is None else 10.001 + each for each in objects],
                "dec": [None if each is None else 0.001 + each for each in objects],
            }
        )

    ingest(sources([1, 2, 3], [5, 5, 6], "III"), spec=spec, warehouse=tmp_path, interval="2026-11-20")
    night = sources([1, 2, 4], [7, None, 6], "UDI")  # one source goes to another object, one is withdrawn
    catalog = ingest(night, spec=spec, warehouse=tmp_path, interval="2026-11-21")
    catalog.verify().raise_if_failed()
    found = {row["id"]: row for row in catalog.read().to_pylist()}
    assert {key: row["object"] for key, row in found.items()} == {1: 7, 3: 6, 4: 6}
    assert found[3]["_healpix_29"] == found[4]["_healpix_29"] != found[1]["_healpix_29"]
    assert abs(found[1]["ra_object"] - 17.0) < 1e-6
    (mark,) = catalog.metadata.co_partitioned
    assert mark.objects is not None
