"""Trees of HATS that others wrote are sources: their own columns are dropped, rows and values stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import ReservedColumnError
from hipslake.sphere.pixels import coarsen, order29

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
