"""Catalogs whose columns are derived: placed, indexed, filtered and appended by them, as numpy has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import yaml
from hipslake.errors import SchemaMismatchError
from hipslake.sphere.pixels import order29
from hipslake.steps.ingest.request import PlanReport
from hipslake.steps.run import RunFolder

from tests.steps import in_process

ROWS = 4000


def sky(rows: int = ROWS, seed: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "source": np.arange(rows) * 7,
        "ra_hours": rng.uniform(0, 24, rows),
        "dec_rad": np.arcsin(rng.uniform(-1, 1, rows)),
        "ra": rng.uniform(0, 360, rows),  # of something else: nobody may take it for the position
        "flux": rng.lognormal(3, 2, rows),
        "mjd": rng.uniform(60_000, 60_100, rows),
    }


COLUMNS = {
    "drop": ["ra"],
    "rename": {"source": "object_id"},
    "derive": {
        "ra": "ra_hours * 15",
        "dec": "degrees(dec_rad)",
        "mag": "31.4 - 2.5 * log10(flux)",
        "seen": "time_of_mjd(mjd)",
        "half": "object_id // 2",
    },
}


def expected(table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        "object_id": table["source"],
        "ra": table["ra_hours"] * 15,
        "dec": np.degrees(table["dec_rad"]),
        "mag": 31.4 - 2.5 * np.log10(table["flux"]),
        "half": table["source"] // 2,
    }


def spec(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "stars",
        "source": {"format": "parquet", "columns": COLUMNS} | source,
        "position": {"ra": "ra", "dec": "dec"},
        "threshold": "500 rows",
        "mapping_order": 5,
    } | more


def land(folder: Path, table: dict[str, np.ndarray], kind: str = "parquet", files: int = 4) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = len(table["ra"])
    for number in range(files):
        some = slice(number * rows // files, (number + 1) * rows // files)
        part = pa.table({name: values[some] for name, values in table.items()})
        (pcsv.write_csv if kind == "csv" else pq.write_table)(part, folder / f"{number}.{kind}")


def alike(found: pa.Table, table: dict[str, np.ndarray]) -> None:
    found = found.sort_by("object_id")
    for name, values in expected(table).items():
        np.testing.assert_array_equal(found[name], values, name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_catalog_is_placed_found_and_filtered_by_derived_columns(tmp_path: Path, kind: str) -> None:
    table = sky()
    land(tmp_path / "in", table, kind)
    catalog = hipslake.ingest(
        spec=spec(
            {"uri": f"{tmp_path}/in/*", "format": kind},
            index=["half"],
            columns={"mag": {"unit": "mag", "ucd": "phot.mag"}},
            margin={"arcsec": [3600]},
        ),
        warehouse=tmp_path / "warehouse",
        spark=False,
    )
    alike(catalog.read(), table)
    assert "ra_icrs" not in catalog.read().column_names
    wanted = expected(table)
    assert sorted(catalog.find("half", [7, 14])["object_id"].to_pylist()) == [14, 28]
    bright = catalog.read(columns=["object_id"], filters="mag < 22 and ra > 100")
    mask = (wanted["mag"] < 22) & (wanted["ra"] > 100)
    assert 0 < mask.sum() < ROWS
    assert sorted(bright["object_id"].to_pylist()) == wanted["object_id"][mask].tolist()
    leaves = ds.dataset(sorted(Path(catalog.path("main")).rglob("Npix=*.parquet"))).to_table()
    alike(leaves, table)
    assert leaves.schema.field("mag").metadata[b"unit"] == b"mag"
    assert not any(key.startswith(b"hipslake.files") for key in leaves.schema.metadata or {})
    assert catalog.verify().problems == ()


def test_the_plan_shows_what_is_derived(tmp_path: Path) -> None:
    land(tmp_path / "in", sky())
    path = tmp_path / "stars.yaml"
    path.write_text(yaml.safe_dump(spec({"uri": f"{tmp_path}/in/*"})))
    folder = in_process.start(tmp_path / "warehouse", path)
    in_process.freeze(folder)
    in_process.count(folder)
    report = in_process.make_plan(folder)
    assert isinstance(report, PlanReport)
    assert "column mag (double) = 31.4 - 2.5 * log10(flux)\n" in report.text
    assert "column half (int64) = object_id // 2\n" in report.text
    assert "column object_id = column source of the files\n" in report.text
    assert "columns left out: ra\n" in report.text
    assert folder.storage.read(RunFolder.PLAN_SUMMARY).decode() == report.text


def test_rows_of_a_program_are_shaped_too(tmp_path: Path) -> None:
    table = sky()
    catalog = hipslake.ingest(pa.table(table), spec=spec({}), warehouse=tmp_path / "warehouse", spark=False)
    alike(catalog.read(), table)


def test_nights_are_appended_by_derived_columns_and_types_stay(tmp_path: Path) -> None:
    tables = [sky(800, seed) for seed in (1, 2)]
    for number, table in enumerate(tables, start=1):
        table["source"] = table["source"] + number * 1_000_000
        if number == 2:  # an instrument that stores integers from now on
            table["ra_hours"] = np.floor(table["ra_hours"]).astype(np.int32)
        land(tmp_path / f"night=2026-10-0{number}", table, files=2)
    given = spec({"uri": f"{tmp_path}/night={{{{ night }}}}/*.parquet"}, mode="append", threshold="2000 rows")
    for day in ("2026-10-01", "2026-10-02"):
        catalog = hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", interval=day, spark=False)
    found = catalog.read()
    assert found.num_rows == 1600
    whole = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    alike(found, whole)


def test_bad_rows_are_those_of_the_derived_position(tmp_path: Path) -> None:
    table = sky()
    table["ra_hours"][:3] = [np.nan, 1e9, np.inf]
    land(tmp_path / "in", table)
    given = spec({"uri": f"{tmp_path}/in/*"}, bad_rows={"policy": "quarantine"})
    catalog = hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    kept = catalog.read().sort_by("object_id")
    assert kept["object_id"].to_pylist() == table["source"][3:].tolist()


def test_a_wrong_expression_is_told_by_inputs(tmp_path: Path) -> None:
    land(tmp_path / "in", sky())
    given = spec({"uri": f"{tmp_path}/in/*", "columns": {"derive": {"mag": "31.4 - log10(flx)"}}})
    path = tmp_path / "stars.yaml"
    path.write_text(yaml.safe_dump(given))
    with pytest.raises(SchemaMismatchError, match=r"mag, at line 1, column 14: .*did you mean 'flux'"):
        in_process.freeze(in_process.start(tmp_path / "warehouse", path))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_sources_lie_where_their_objects_do_by_a_derived_key(tmp_path: Path, kind: str) -> None:
    objects = sky(300)
    land(tmp_path / "objects", objects)
    given = spec({"uri": f"{tmp_path}/objects/*"}, name="objects", co_partitioned=["key"])
    given["source"]["columns"] = COLUMNS | {"derive": COLUMNS["derive"] | {"key": "object_id // 7"}}
    hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    rng = np.random.default_rng(3)
    mine = rng.integers(0, 300, 2000)
    table = {
        "code": mine * 100 + rng.integers(0, 100, 2000),
        "ra": objects["ra_hours"][mine] * 15 + 0.01,
        "dec": np.clip(np.degrees(objects["dec_rad"][mine]), -89.9, 89.9),
    }
    land(tmp_path / "seen", table, kind)
    sources = {
        "name": "seen",
        "source": {
            "uri": f"{tmp_path}/seen/*",
            "format": kind,
            "columns": {"derive": {"key": "code // 100"}},
        },
        "position": {"ra": "ra", "dec": "dec"},
        "position_from": {"catalog": "objects", "on": {"key": "key"}},
        "threshold": "400 rows",
        "mapping_order": 5,
    }
    catalog = hipslake.ingest(spec=sources, warehouse=tmp_path / "warehouse", spark=False)
    found = catalog.read()
    assert sorted(found["code"].to_pylist()) == sorted(table["code"].tolist())
    assert found["key"].to_pylist() == [code // 100 for code in found["code"].to_pylist()]
    place = order29(objects["ra_hours"] * 15, np.degrees(objects["dec_rad"]))
    assert found["_healpix_29"].to_pylist() == place[found["key"].to_numpy()].tolist()
