"""The answer to a query as files has the rows of the answer in memory, in its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.cube.conditions import C
from hipslake.cube.store.answers import write_answer
from hipslake.cube.store.cube import Cube
from hipslake.cube.store.operations import build
from hipslake.errors import CubeError
from hipslake.specs.cube import CubeColumns
from hipslake.storage import Storage

ROLES = CubeColumns(dimension_columns=("x",), partition_columns=("p",), index_columns=("i",))


@pytest.fixture
def cube(tmp_path: Path) -> Cube:
    x = np.random.default_rng(3).permutation(300)
    seed = pa.table({"p": x // 10, "x": x, "i": x % 7})
    more = pa.table({"p": x[:200] // 10, "x": x[:200], "w": x[:200] / 2})
    place = Storage.at(tmp_path / "cube")
    build(place, "c", ROLES, {"seed": seed, "more": more})
    return Cube.open(place.uri())


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ({}, 30),
        ({"conditions": C("w") >= 10.0, "columns": ["i"]}, None),
        ({"partition_by": "i"}, 7),
        ({"partition_by": "i", "conditions": C("i").isin([2, 5]) & (C("p") < 3)}, 2),
        ({"conditions": C("x") > 1000}, 0),
    ],
)
def test_files_hold_the_rows_of_the_answer_in_its_order(
    cube: Cube, tmp_path: Path, query: dict[str, Any], files: int | None
) -> None:
    target = Storage.at(tmp_path / "answer")
    written = write_answer(cube, target, **query)
    expected = cube.query(**query)
    assert files is None or written.num_rows == files
    tables = [pq.read_table(tmp_path / "answer" / path) for path in written["__path"].to_pylist()]
    assert [table.num_rows for table in tables] == written["__rows"].to_pylist()
    found = pa.concat_tables([expected.slice(0, 0), *tables])
    assert found.equals(expected)  # partitions follow each other as x does


def test_each_group_has_a_file_of_its_own(cube: Cube, tmp_path: Path) -> None:
    written = write_answer(cube, Storage.at(tmp_path / "answer"), partition_by="i")
    groups = [pq.read_table(tmp_path / "answer" / path)["i"] for path in written["__path"].to_pylist()]
    assert [group.unique().to_pylist() for group in groups] == [[number] for number in range(7)]


def test_a_query_that_the_cube_cannot_answer_writes_nothing(cube: Cube, tmp_path: Path) -> None:
    with pytest.raises(CubeError, match="no column 'z'"):
        write_answer(cube, Storage.at(tmp_path / "answer"), ["z"])
    assert not (tmp_path / "answer").exists()
