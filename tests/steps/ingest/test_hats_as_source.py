"""HATS trees of others are sources: their own columns are dropped or verified, rows and values stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import healpy
import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import BadRowsError, ReservedColumnError, SchemaMismatchError, SpecError
from hipslake.specs.base import validated
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.sphere.pixels import coarsen, order29
from hipslake.sphere.stored_pixels import lie_elsewhere

from tests.hats_writers.trees import TREES, Tree, expected, unpacked

ROWS = 900
DROPPED = ["_healpix_29", "Norder", "Dir", "Npix"]


def tree(place: Path, *, own_columns: bool) -> pa.Table:
    """A tree as hats-import writes it; older ones have the columns of the partition in the files, too."""
    rng = np.random.default_rng(5)
    ra, dec = rng.uniform(0, 360, ROWS), np.degrees(np.arcsin(rng.uniform(-1, 1, ROWS)))
    h29 = order29(ra, dec)
    table = pa.table({"_healpix_29": h29, "id": np.arange(ROWS), "ra": ra, "dec": dec}).sort_by("_healpix_29")
    pixels = coarsen(table["_healpix_29"].to_numpy(), 1)
    for pixel in np.unique(pixels):
        part = table.filter(pa.array(pixels == pixel))
        if own_columns:
            for name, value in {"Norder": 1, "Dir": 0, "Npix": int(pixel)}.items():
                part = part.append_column(name, pa.array(np.full(part.num_rows, value, np.int64)))
        folder = place / "dataset" / "Norder=1" / "Dir=0"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, folder / f"Npix={pixel}.parquet")
    return table.drop_columns("_healpix_29")


def spec(place: Path, **source: Any) -> dict[str, Any]:
    return {
        "name": "theirs",
        "source": {"uri": f"{place}/theirs/dataset/**/Npix=*.parquet", "format": "parquet"} | source,
        "position": {"ra": "ra", "dec": "dec"},
        "threshold": "200 rows",
        "mapping_order": 4,
    }


@pytest.mark.parametrize("own_columns", [False, True])
def test_a_tree_of_others_is_ingested_without_its_own_columns(tmp_path: Path, own_columns: bool) -> None:
    rows = tree(tmp_path / "theirs", own_columns=own_columns)
    with pytest.raises(ReservedColumnError, match=r"write source: \{columns: \{drop: \[_healpix_29"):
        hipslake.ingest(spec=spec(tmp_path), warehouse=tmp_path / "warehouse", spark=False)
    given = spec(tmp_path, columns={"drop": DROPPED})
    catalog = hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    found = catalog.read().sort_by("id")
    for name in rows.column_names:
        assert found[name].to_pylist() == rows.sort_by("id")[name].to_pylist()
    assert catalog.verify().problems == ()


def test_pixels_of_their_folders_may_be_columns(tmp_path: Path) -> None:
    tree(tmp_path / "theirs", own_columns=False)
    given = spec(
        tmp_path,
        folders={"Norder": "int8"},
        columns={"drop": ["_healpix_29"], "rename": {"Norder": "their_order"}},
    )
    catalog = hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    assert set(catalog.read()["their_order"].to_pylist()) == {1}


@pytest.mark.parametrize(
    ("own_columns", "folders"), [(True, {}), (False, {"folders": ["Norder"]})], ids=["columns", "folders"]
)
def test_pixels_that_are_verified_need_no_drop(
    tmp_path: Path, own_columns: bool, folders: dict[str, Any]
) -> None:
    rows = tree(tmp_path / "theirs", own_columns=own_columns)
    given = spec(tmp_path, healpix="verify", **folders)
    catalog = hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    assert catalog.schema.names == ["_healpix_29", "id", "ra", "dec"]
    found = catalog.read().sort_by("id")
    for name in rows.column_names:
        assert found[name].to_pylist() == rows.sort_by("id")[name].to_pylist()
    assert catalog.verify().problems == ()


SPOILED = {
    "_healpix_29": (
        r"ra, dec, or say that they lie in another pixel .*1 with _healpix_29 of another position; ",
        1,
    ),
    "Norder": (r"1 with Norder, Dir or Npix of another pixel; ", 40),
    "Dir": (r"1 with Norder, Dir or Npix of another pixel; ", 10_000),
    "Npix": (r"1 with Norder, Dir or Npix of another pixel; ", 0),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("column", SPOILED)
def test_rows_that_say_they_lie_elsewhere_are_told_or_kept_apart(tmp_path: Path, column: str) -> None:
    tree(tmp_path / "theirs", own_columns=True)
    path = sorted((tmp_path / "theirs").rglob("Npix=*.parquet"))[1]
    table = pq.read_table(path, partitioning=None)
    message, value = SPOILED[column]
    values = table[column].to_pylist()
    values[3] = value
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, pa.array(values, pa.int64())), path)
    with pytest.raises(
        BadRowsError, match=f"1 of {ROWS} rows .*{message}.*{path.name}, row 4: .*{column} {value}"
    ):
        hipslake.ingest(spec=spec(tmp_path, healpix="verify"), warehouse=tmp_path / "warehouse", spark=False)
    given = spec(tmp_path, healpix="verify") | {"bad_rows": {"policy": "quarantine"}}
    catalog = hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    assert set(catalog.read()["id"].to_pylist()) == set(range(ROWS)) - {table["id"][3].as_py()}
    [increment] = catalog.increments
    kept = pq.read_table(catalog.storage.uri(str(increment.rejects.path)))
    assert kept[column].to_pylist() == [value]
    assert kept["_reject_row"].to_pylist() == [4]
    assert catalog.verify().problems == ()


def test_a_null_pixel_is_none(tmp_path: Path) -> None:
    tree(tmp_path / "theirs", own_columns=False)
    path = sorted((tmp_path / "theirs").rglob("Npix=*.parquet"))[0]
    table = pq.read_table(path, partitioning=None)
    nulls = pa.array([None, *table["_healpix_29"].to_pylist()[1:]], pa.int64())
    pq.write_table(table.set_column(0, "_healpix_29", nulls), path)
    with pytest.raises(BadRowsError, match=r"row 1: .* with _healpix_29 null"):
        hipslake.ingest(spec=spec(tmp_path, healpix="verify"), warehouse=tmp_path / "warehouse", spark=False)


@pytest.mark.parametrize("seed", range(3))
def test_a_neighbour_is_let_pass_only_at_the_border(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360, 4000), np.degrees(np.arcsin(rng.uniform(-1, 1, 4000)))
    near = 10 ** rng.uniform(-11, -6, 4000)  # radians
    moved = np.clip(dec + np.degrees(near) * np.where(dec > 0, -1, 1), -90, 90)
    told = lie_elsewhere(ra, dec, order29(ra, moved))
    assert not told[near < 1e-9].any()  # half a pixel, whatever border lies between
    assert told[near > 8e-9].all()
    assert lie_elsewhere(ra[:3], dec[:3], np.array([-1, 12 << 58, 1 << 62])).all()


@pytest.mark.parametrize("one", [each for each in TREES if each.kind in ("object", "source")], ids=str)
@pytest.mark.sampled(26)
def test_pixels_of_other_writers_are_those_of_their_positions(
    one: Tree, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = unpacked(tmp_path_factory)
    rows = expected(one, place)
    if "_healpix_29" not in rows.column_names or not {"ra", "dec"} <= set(rows.column_names):
        pytest.skip("it holds no such pixels")
    are_files = any(path.is_file() for path in (place / one.name).rglob("Npix=*"))
    ending = "*" if are_files else "*/*"  # whatever the leaves are named
    given = spec(tmp_path, uri=f"{place}/{one.name}/**/Npix={ending}", healpix="verify")
    catalog = hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    ours, theirs = (
        table.select(["ra", "dec", "_healpix_29"]).sort_by([("ra", "ascending"), ("dec", "ascending")])
        for table in (catalog.read(), rows)
    )
    assert ours["ra"].equals(theirs["ra"])
    lon, lat = (np.radians(ours[name].to_numpy()) for name in ("ra", "dec"))
    own, stored = (table["_healpix_29"].to_numpy() for table in (ours, theirs))
    at = np.flatnonzero(own != stored)  # on borders, where theirs (cdshealpix) rounds otherwise
    assert len(at) < 9
    vectors = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])[:, at]
    centers = np.stack(healpy.pix2vec(1 << 29, stored[at], nest=True))
    assert (np.linalg.norm(vectors - centers, axis=0) < 4e-9).all()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["_healpix_29"], "the files have no column _healpix_29, which would be held"),
        (["Norder"], "a column Npix and no Norder"),
        (["Npix"], "a column Dir and no Npix"),
    ],
)
def test_pixels_that_are_not_there_cannot_be_verified(
    tmp_path: Path, columns: list[str], message: str
) -> None:
    tree(tmp_path / "theirs", own_columns=True)
    for path in (tmp_path / "theirs").rglob("Npix=*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(columns), path)
    with pytest.raises(SchemaMismatchError, match=message):
        hipslake.ingest(spec=spec(tmp_path, healpix="verify"), warehouse=tmp_path / "warehouse", spark=False)


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        ({"columns": {"drop": ["Npix"]}}, {}, r"reads Npix and leaves them out .*columns\.drop"),
        ({"columns": {"select": ["ra", "dec", "_healpix_29"]}}, {}, r"reads _healpix_29 .*columns\.select"),
        (
            {},
            {"position_from": {"catalog": "o", "on": {"id": "id"}}},
            "holds pixels against a row's own position",
        ),
    ],
)
def test_specs_that_ask_for_both_are_refused(
    tmp_path: Path, source: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    given = spec(tmp_path, healpix="verify", **source) | more
    with pytest.raises(SpecError, match=message):
        hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    with pytest.raises(SpecError, match="against positions, which a table has not"):
        validated(FileRowsSpec, {"files": given["source"] | {"columns": None}}, "source")


def test_pixels_are_verified_whatever_columns_are_chosen(tmp_path: Path) -> None:
    tree(tmp_path / "theirs", own_columns=True)
    path = sorted((tmp_path / "theirs").rglob("Npix=*.parquet"))[0]
    given = spec(tmp_path, healpix="verify", columns={"select": ["ra", "dec"]})
    catalog = hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)
    assert catalog.schema.names == ["_healpix_29", "ra", "dec"]
    table = pq.read_table(path, partitioning=None)
    pq.write_table(
        table.set_column(
            0, "_healpix_29", table["_healpix_29"].take(pa.array([*range(1, table.num_rows), 0]))
        ),
        path,
    )
    with pytest.raises(BadRowsError, match=f"{table.num_rows} with _healpix_29 of another position"):
        hipslake.ingest(spec=given, warehouse=tmp_path / "warehouse", spark=False)


def test_pixels_of_nights_are_verified(tmp_path: Path) -> None:
    given = {
        "name": "nights",
        "mode": "append",
        "source": {
            "uri": f"{tmp_path}/{{{{ night }}}}/**/Npix=*.parquet",
            "format": "parquet",
            "healpix": "verify",
        },
        "position": {"ra": "ra", "dec": "dec"},
        "newest": {"key": "id", "order": "dec"},
    }
    for night in ("2026-11-20", "2026-11-21"):
        tree(tmp_path / night, own_columns=night == "2026-11-21")
        interval = (night, night[:-1] + str(int(night[-1]) + 1))
        catalog = hipslake.ingest(
            spec=given, interval=interval, warehouse=tmp_path / "warehouse", spark=False
        )
    assert catalog.schema.names == ["_healpix_29", "id", "ra", "dec", "_row"]
    assert sorted(catalog.read()["id"].to_pylist()) == sorted([*range(ROWS)] * 2)
    path = sorted((tmp_path / "2026-11-21").rglob("Npix=*.parquet"))[0]
    table = pq.read_table(path, partitioning=None)
    wrong = pa.array(np.full(table.num_rows, 3))
    pq.write_table(table.set_column(table.column_names.index("Npix"), "Npix", wrong), path)
    with pytest.raises(BadRowsError, match=f"{table.num_rows} with Norder, Dir or Npix of another pixel"):
        hipslake.ingest(spec=given, interval=interval, warehouse=tmp_path / "warehouse", spark=False)
