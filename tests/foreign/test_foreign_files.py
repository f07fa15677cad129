"""Files of others at every door: rows come in as they are, or an error says which file or column is wrong."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import HipslakeError

from tests.foreign.doors import SOURCES, TABLES, Door, compact_folder, cube, ingest, land, sink, upsert
from tests.foreign.odd_files import DAMAGED, ODD, damaged, odd_schemas

pytestmark = pytest.mark.sampled(2)

_TYPES = {"struct of nothing", "durations", "wide decimals", "tensors", "json", "nulls"}  # that Iceberg lacks
_KEYS = {"numbers are lists", "numbers are structs", "partition is a list"}
_NAMES = {"column twice", "other columns"}
REFUSED: dict[Door, set[str]] = {
    ingest: {
        *_NAMES,
        "names alike but for case",
        "reserved name",
        "positions are texts",
        "positions are lists",
        "all others missing",
        "no column",
        "no row",
        "nulls",
    },
    compact_folder: set(),
    sink: {
        *(_NAMES | _TYPES | _KEYS),
        "names alike but for case",
        "column missing",
        "all others missing",
        "no column",
    },
    upsert: {
        *(_NAMES | _TYPES | _KEYS),
        "names alike but for case",
        "positions are texts",
        "positions are lists",
        "partition is a text",
    },
    cube: {
        *(_NAMES | _KEYS),
        "column missing",
        "all others missing",
        "no column",
        "no row",
        "nulls",
    },
}
"""What comes in at no door, and is told; all else keeps its values."""


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("door", [*SOURCES, *TABLES])
def test_damage_is_told_with_the_file(tmp_path: Path, door: Door, kind: str) -> None:
    folder = land(tmp_path, damaged()[kind])
    with pytest.raises(HipslakeError, match=r"odd\.parquet"):
        door(folder, tmp_path / "lake")


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("door", SOURCES)
def test_values_come_in_as_they_are_or_the_column_is_told(tmp_path: Path, door: Door, kind: str) -> None:
    content = odd_schemas()[kind]
    folder = land(tmp_path, content, beside=None)
    if kind in REFUSED[door]:
        told = "no rows|not one row|is empty|" if kind in ("no row", "no column") else ""
        with pytest.raises(HipslakeError, match=f"{told}column"):
            door(folder, tmp_path / "lake")
        return
    found, odd = door(folder, tmp_path / "lake"), pq.ParquetFile(io.BytesIO(content)).read()
    if kind == "column twice":
        assert found.equals(odd)
    elif kind not in ("no column", "no row"):
        assert values(found, odd.column_names) == values(odd, odd.column_names)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("door", [ingest, compact_folder, sink, cube, *TABLES])
def test_beside_plain_files_no_row_is_lost_or_the_column_is_told(
    tmp_path: Path, door: Door, kind: str
) -> None:
    folder = land(tmp_path, odd_schemas()[kind])
    others = 20 if door in TABLES else 10
    try:
        rows = door(folder, tmp_path / "lake").num_rows
    except HipslakeError as error:
        told = str(error)
    else:
        told, others = "column", others if rows == others + 10 or kind in ("no column", "no row") else -1
    assert "column" in told
    assert others > 0


def values(table: pa.Table, names: list[str]) -> list[Any]:
    """Rows in an order that depends on them alone."""
    rows = [[plain(table[name][at].as_py()) for name in names] for at in range(table.num_rows)]
    return sorted(rows, key=repr)


def plain(value: Any) -> Any:
    """Arrays as lists, which compare."""
    return value.tolist() if hasattr(value, "tolist") else value
