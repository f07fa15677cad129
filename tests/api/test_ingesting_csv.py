"""CSV files become catalogs in which no two ids are one, and whose columns keep their types over nights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hipslake
import pyarrow as pa
import pytest
from hipslake.errors import SchemaMismatchError

SPEC: dict[str, Any] = {
    "name": "stars",
    "position": {"ra": "ra", "dec": "dec"},
    "threshold": "200 rows",
    "mapping_order": 6,
}


def test_ids_with_leading_zeros_stay_apart_and_positions_with_them_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,ra,dec\n7,10.5,-7\n8,11,20\n")
    (tmp_path / "b.csv").write_text("id,ra,dec\n007,005,-05\n07,05.5,00\n")
    spec = SPEC | {"source": {"uri": f"{tmp_path}/*.csv", "format": "csv"}, "index": ["id"]}
    catalog = hipslake.ingest(spec=spec, warehouse=tmp_path / "warehouse", spark=False)
    rows = catalog.read(["id", "ra", "dec"]).sort_by("ra")
    assert rows.schema.field("id").type == pa.string()
    assert rows.to_pydict() == {
        "id": ["007", "07", "7", "8"],
        "ra": [5.0, 5.5, 10.5, 11.0],
        "dec": [-5.0, 0.0, -7.0, 20.0],
    }
    assert catalog.find("id", ["7"])["ra"].to_pylist() == [10.5]


@pytest.mark.parametrize(("first", "then"), [("7", "007"), ("007", "7")])
def test_a_night_whose_ids_are_of_another_type_is_refused_and_the_spec_can_tell_it(
    tmp_path: Path, first: str, then: str
) -> None:
    source: dict[str, Any] = {"uri": f"{tmp_path}/{{{{ night }}}}.csv", "format": "csv"}
    spec = SPEC | {"source": source, "mode": "append"}
    for night, name in (("2026-11-20", first), ("2026-11-21", then)):
        (tmp_path / f"{night}.csv").write_text(f"id,ra,dec\n{name},10.5,20\n")

    def ingest(night: str, **options: Any) -> hipslake.Catalog:
        told = spec | {"source": source | {"options": options}}
        return hipslake.ingest(
            spec=told, warehouse=tmp_path / f"w{len(options)}", interval=night, spark=False
        )

    ingest("2026-11-20")
    with pytest.raises(SchemaMismatchError, match=r"or write source\.options\.types: \{id: (string|int64)\}"):
        ingest("2026-11-21")
    ingest("2026-11-20", types={"id": "string"})
    catalog = ingest("2026-11-21", types={"id": "string"})
    assert sorted(catalog.read(["id"])["id"].to_pylist()) == ["007", "7"]
