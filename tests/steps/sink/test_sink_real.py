"""The table that ships: Gaia as an Iceberg table, one file per pixel, the pixels as healpy has them."""

from __future__ import annotations

from pathlib import Path

import healpy
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.specs.spec_folder import find_specs, load_spec, spec_type
from hipslake.specs.table_place import IcebergSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake.tables.iceberg.data_files import live_files

from tests.steps.real_skies import SPECS, copy_real_catalog
from tests.steps.sinks import Lake


def test_the_specs_of_tables_that_ship_can_be_read() -> None:
    paths = [path for path in find_specs(SPECS / "tables") if spec_type(path) is None]
    assert [load_spec(path, TableSpec).name for path in paths] == ["gaia_dr3"]


def test_gaia_lies_by_sky_and_by_magnitude(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_STATE", str(tmp_path / "state"))
    root = copy_real_catalog("gaia_dr3", tmp_path_factory, tmp_path / "warehouse")
    lake = Lake(tmp_path)
    report = lake.run(spec_file=str(SPECS / "tables" / "gaia_dr3.yaml"))
    assert (report.rows_out, report.files) == (482_176, 48)

    table = open_table(open_catalog(IcebergSpec(), lake.warehouse), "survey.gaia_dr3")
    rows = table.scan().to_arrow()
    pixels = healpy.ang2pix(2, rows["ra"].to_numpy(), rows["dec"].to_numpy(), nest=True, lonlat=True)
    assert np.array_equal(rows["_healpix_1"].to_numpy(), pixels)
    expected = Catalog.open(root).read()
    names = expected.column_names
    assert rows.select(names).sort_by("source_id").equals(expected.sort_by("source_id"))
    for file in live_files(table):
        magnitude = pq.read_table(file.file_path.removeprefix("file://"))["phot_g_mean_mag"]
        assert pc.min_max(magnitude)["max"].as_py() == magnitude[-1].as_py()
        assert np.all(np.diff(magnitude.to_numpy()) >= 0)
