"""What tasks make of a query has the rows of the answer in memory, in its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store.operations import build
from hipslake.cube.store.query_tasks import AnswerTasks
from hipslake.predicates.conditions import C
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

ROLES = CubeColumns(dimension_columns=("x",), partition_columns=("p",), index_columns=("i",))


@pytest.fixture
def cube(tmp_path: Path) -> Cube:
    x = np.random.default_rng(3).permutation(300)
    seed = pa.table({"p": x // 10, "x": x, "i": x % 7})
    more = pa.table({"p": x[:200] // 10, "x": x[:200], "w": x[:200] / 2})
    place = Storage.at(tmp_path / "cube")
    build(place, "c", ROLES, {"seed": seed, "more": more})
    return Cube.open(place.uri())


def tables_of(cube: Cube, **query: Any) -> list[pa.Table]:
    """What tasks for two cores read and join, task by task; those without rows are left out."""
    work = AnswerTasks.of(cube.storage, cube.plan(**query), cores=2)
    found = [table for task in range(len(work.tasks)) for table in work.tables(task)]
    return [table for table in found if table.num_rows]


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ({}, 30),
        ({"conditions": C("w") >= 10.0, "columns": ["i"]}, None),
        ({"partition_by": "i"}, 7),
        ({"partition_by": "i", "conditions": C("i").isin([2, 5]) & (C("p") < 3)}, 2),
        ({"conditions": C("x") > 1000}, 0),
    ],
)
def test_tasks_have_the_rows_of_the_answer_in_its_order(
    cube: Cube, query: dict[str, Any], tables: int | None
) -> None:
    expected, found = cube.query(**query), tables_of(cube, **query)
    assert tables is None or len(found) == tables
    assert pa.concat_tables([expected.slice(0, 0), *found]).equals(
        expected
    )  # partitions follow each other as x does


def test_each_group_is_a_table_of_its_own(cube: Cube) -> None:
    groups = [table["i"].unique().to_pylist() for table in tables_of(cube, partition_by="i")]
    assert groups == [[number] for number in range(7)]


def test_tasks_are_some_for_each_core_and_no_group_is_in_two(cube: Cube) -> None:
    plain = AnswerTasks.of(cube.storage, cube.plan(), cores=2)
    assert [len(reads) for reads in plain.tasks] == [4] * 7 + [2]
    grouped = AnswerTasks.of(cube.storage, cube.plan(partition_by="i"), cores=2)
    groups = [{read.group for read in reads} for reads in grouped.tasks]
    assert set.union(*groups) == set(range(7))
    assert sum(map(len, groups)) == 7
