"""Positions in hours, as numbers and as sexagesimal texts, become catalogs with ICRS degrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from astropy import units
from astropy.coordinates import Angle, SkyCoord
from hipslake.errors import BadRowsError, SchemaMismatchError, SpecError

ROWS = 1500


def sky() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(12)
    return rng.uniform(0, 360, ROWS), np.degrees(np.arcsin(rng.uniform(-1, 1, ROWS)))


def texts(values: np.ndarray, unit: Any, sep: str) -> list[str]:
    return list(Angle(values, units.deg).to_string(unit=unit, sep=sep, precision=3, pad=True))


def spec(place: Path, kind: str, **position: Any) -> dict[str, Any]:
    return {
        "name": "stars",
        "source": {"uri": f"{place}/in/*", "format": kind},
        "position": {"ra": "RAJ2000", "dec": "DEJ2000"} | position,
        "threshold": "400 rows",
        "mapping_order": 5,
    }


def land(place: Path, kind: str, ra: Any, dec: Any, files: int = 2) -> None:
    (place / "in").mkdir()
    table = pa.table({"id": np.arange(len(ra)), "RAJ2000": ra, "DEJ2000": dec})
    for number in range(files):
        some = table.slice(number * ROWS // files, ROWS // files)
        (pcsv.write_csv if kind == "csv" else pq.write_table)(some, place / "in" / f"{number}.{kind}")


def ingest(place: Path, given: dict[str, Any]) -> hipslake.Catalog:
    return hipslake.ingest(spec=given, warehouse=place / "warehouse", spark=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("sep", [":", " ", "hms"])
def test_sexagesimal_texts_are_placed_where_astropy_places_them(tmp_path: Path, kind: str, sep: str) -> None:
    ra, dec = sky()
    lon, lat = texts(ra, units.hourangle, sep), texts(dec, units.deg, sep.replace("h", "d"))
    land(tmp_path, kind, lon, lat)
    catalog = ingest(tmp_path, spec(tmp_path, kind, unit="hour"))
    found = catalog.read().sort_by("id")
    assert found["RAJ2000"].to_pylist() == lon
    assert found["DEJ2000"].to_pylist() == lat
    np.testing.assert_allclose(found["ra_icrs"], Angle(lon, units.hourangle).deg, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found["dec_icrs"], Angle(lat, units.deg).deg, rtol=0, atol=1e-11)
    near = catalog.read(["id"], region="cone 120 10 20deg")["id"].to_pylist()
    away = SkyCoord(ra, dec, unit="deg").separation(SkyCoord(120, 10, unit="deg")).deg
    assert sorted(near) == np.flatnonzero(away < 20).tolist()
    assert catalog.verify().problems == ()


def test_hours_as_numbers_come_to_the_same_place_as_degrees(tmp_path: Path) -> None:
    ra, dec = sky()
    land(tmp_path, "parquet", ra / 15, dec)
    found = ingest(tmp_path, spec(tmp_path, "parquet", unit="hour")).read().sort_by("id")
    np.testing.assert_array_equal(found["RAJ2000"], ra / 15)
    np.testing.assert_allclose(found["ra_icrs"], ra, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found["dec_icrs"], dec)


def test_declinations_may_be_texts_beside_hours_as_numbers(tmp_path: Path) -> None:
    ra, dec = sky()
    lat = texts(dec, units.deg, ":")
    land(tmp_path, "parquet", ra / 15, lat)
    found = ingest(tmp_path, spec(tmp_path, "parquet", unit="hour")).read().sort_by("id")
    np.testing.assert_allclose(found["dec_icrs"], Angle(lat, units.deg).deg, rtol=0, atol=1e-11)


def test_texts_that_could_be_degrees_are_refused(tmp_path: Path) -> None:
    ra, dec = sky()
    land(tmp_path, "parquet", texts(ra, units.hourangle, ":"), dec)
    with pytest.raises(SchemaMismatchError, match=r"05:34:31\.9 .* write position: \{unit: hour\}"):
        ingest(tmp_path, spec(tmp_path, "parquet"))
    with pytest.raises(SpecError, match="galactic longitudes are in degrees"):
        ingest(tmp_path, spec(tmp_path, "parquet", unit="hour", frame="galactic"))
    with pytest.raises(SchemaMismatchError, match="name a column of numbers"):
        ingest(tmp_path, spec(tmp_path, "parquet", unit="hour") | {"layout": "hipscat"})


def test_a_text_that_is_no_angle_is_a_bad_row_that_is_shown(tmp_path: Path) -> None:
    ra, dec = sky()
    lon = texts(ra, units.hourangle, ":")
    lon[3] = "05:99:00"
    land(tmp_path, "parquet", lon, dec)
    given = spec(tmp_path, "parquet", unit="hour")
    with pytest.raises(BadRowsError, match=r"0\.parquet, row 4: '05:99:00', "):
        ingest(tmp_path, given)
    kept = ingest(tmp_path, given | {"bad_rows": {"policy": "quarantine"}}).read()
    assert sorted(kept["id"].to_pylist()) == [number for number in range(ROWS) if number != 3]


def test_columns_that_say_hours_are_refused_where_the_spec_says_degrees(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    ra, dec = sky()
    fields = [pa.field("RAJ2000", pa.float64(), metadata={"unit": "h"}), pa.field("DEJ2000", pa.float64())]
    pq.write_table(pa.table([ra / 15, dec], schema=pa.schema(fields)), tmp_path / "in" / "a.parquet")
    with pytest.raises(SchemaMismatchError, match=r"write position: \{unit: hour\}"):
        ingest(tmp_path, spec(tmp_path, "parquet"))
    assert ingest(tmp_path, spec(tmp_path, "parquet", unit="hour")).read().num_rows == ROWS
