"""Three catalogs are matched by two specs, of which the second has the outcome of the first on its left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hipslake import Catalog, publish

from tests.catalog.matching import nearest_pairs, published, rows_at, separations
from tests.joins.skies import placed

ROWS = 300


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_third_catalog_is_matched_with_the_positions_of_the_first(tmp_path: Path, how: str) -> None:
    rng = np.random.default_rng(6)
    tables = {}
    for name in "abc":
        place = placed(0.02 * rng.normal(size=ROWS), 88 + 0.02 * rng.normal(size=ROWS))
        tables[name] = rows_at(place.ra, place.dec)
        margin = None if name == "a" else 60.0
        published(tmp_path / "catalogs", name, tables[name], threshold="60 rows", margin_arcsec=margin)
    told = {name: separations(tables["a"], tables[name]) for name in "bc"}
    partner = {name: dict(nearest_pairs(told[name], 20.0, 1)) for name in "bc"}
    columns = ["id", "ra", "dec"]
    for left, right, sides in (("a", "b", ("", "_b")), ("a_x_b", "c", ("", "_c"))):
        spec = {
            "name": f"{left}_x_{right}",
            "left": left,
            "right": {"catalog": right, "columns": columns},
            "radius_arcsec": 20,
            "how": how,
            "suffixes": sides,
            "separation": f"apart_{right}",
            "position_angle": f"toward_{right}",
            "threshold": "50 rows",
        }
        publish(spec, warehouse=tmp_path, spark=False)
    rows = Catalog.open(tmp_path / "catalogs" / "a_x_b_x_c").read().to_pylist()
    found = {row["id"]: (row["id_b"], row["id_c"]) for row in rows}
    assert len(found) == len(rows)
    expected = {row: (partner["b"].get(row), partner["c"].get(row)) for row in range(ROWS)}
    if how == "inner":
        expected = {row: both for row, both in expected.items() if None not in both}
    assert found == expected
    assert len(found) > 30
    for row in rows:
        for name in "bc":
            if row[f"id_{name}"] is not None:
                assert row[f"apart_{name}"] == pytest.approx(
                    told[name][row["id"], row[f"id_{name}"]], abs=1e-6
                )
