"""A cube of three cells, for tests of what is done to cubes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

ROLES = CubeColumns(
    dimension_columns=("x",), partition_columns=("p",), index_columns=("i",), suppress_index_on=("x",)
)
SEED = pa.table({"p": [0, 0, 1], "x": [1, 2, 3], "i": [7, 7, 8]})
MORE = pa.table({"p": [0, 1], "x": [1, 3], "w": [0.5, 1.5]})


def everything(place: Storage) -> dict[str, str]:
    return {entry.path: place.sha256(entry.path) for entry in place.list(recursive=True)}


def replaced(table: pa.Table, **columns: Any) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, [values])
    return table
