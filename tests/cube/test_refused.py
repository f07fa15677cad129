"""What is refused before anything is read or written: queries, schemas, rows and sets of datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.cube.cube_rules import (
    check_cells,
    check_datasets,
    check_index_columns,
    check_no_nulls,
    check_schema,
)
from hipslake.cube.store.operations import build
from hipslake.errors import ConditionTypeError, CubeError, CubeRowsError
from hipslake.predicates.conditions import C
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

from tests.cube.memory import MemoryCube

ROLES = CubeColumns(
    dimension_columns=("x", "y"),
    partition_columns=("P", "Q"),
    seed="stars",
    index_columns=("i",),
    suppress_index_on=("y",),
)
KEYS = [("P", pa.int64()), ("Q", pa.int64()), ("x", pa.int64()), ("y", pa.int64())]


@pytest.fixture(scope="module")
def cube() -> MemoryCube:
    cube = MemoryCube(ROLES, {"P": pa.int64(), "Q": pa.int64()})
    stars = pa.table({"x": [1], "y": [1], "mag": [9.5]})
    cube.add("stars", [("s", (0, 0), stars)])
    cube.add("lines", [("l", (0, 0), pa.table({"x": [1], "y": [1], "i": [3], "width": [0.1]}))])
    return cube


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            {"columns": ["mag", "nope", "none"]},
            "columns: the cube has no column 'none', 'nope'; it has 'P', 'Q'",
        ),
        ({"conditions": C("nope") == 1}, "conditions: the cube has no column 'nope'"),
        ({"partition_by": ["nope"]}, "partition_by: the cube has no column 'nope'"),
        (
            {"partition_by": "mag"},
            "partition_by: 'mag' has no index; the indexed columns are 'P', 'Q', 'i', 'x'",
        ),
        ({"partition_by": ["y"]}, "partition_by: 'y' has no index"),
        ({"partition_by": ["i", "i"]}, "partition_by: 'i' is named twice"),
        ({"dimension_columns": ["x", "mag"]}, "dimension_columns: 'mag' spans no dimension of the cube"),
        ({"dimension_columns": []}, "dimension_columns is empty; name some of x, y"),
        ({"dimension_columns": ["x", "x"]}, "dimension_columns: 'x' is named twice"),
        (
            {"dimension_columns": ["x"]},
            "dataset 'lines' spans x, y and cannot be projected to x while its 'i'",
        ),
        ({"dimension_columns": ["x"], "columns": ["y"]}, "'y' is asked for, but projected away"),
        (
            {"dimension_columns": ["y"], "columns": [], "partition_by": ["x"]},
            "'x' is asked for, but projected",
        ),
        ({"columns": [7]}, "columns: 7 is no column"),
        ({"datasets": ["lines"]}, "the seed 'stars' is missing"),
    ],
)
def test_a_query_for_what_the_cube_lacks_is_refused(
    cube: MemoryCube, query: dict[str, Any], said: str
) -> None:
    with pytest.raises(CubeError, match=said):
        cube.plan(**query)


def test_a_condition_of_another_type_is_refused_whichever_dataset_has_the_column(cube: MemoryCube) -> None:
    for wrong in (C("mag") > 9, C("width") == 1, C("P") == 1.0, C("x").isin([1, 2.0])):
        with pytest.raises(ConditionTypeError, match=r"column .* is"):
            cube.plan(conditions=wrong)


@pytest.mark.parametrize(
    ("name", "fields", "cut", "said"),
    [
        ("stars", KEYS[:3], None, "the seed 'stars' has no dimension column 'y'"),
        ("lines", KEYS[:2], None, r"dataset .lines. has none of the dimension columns \(x, y\)"),
        ("lines", KEYS[1:], None, "dataset 'lines' has no partition column 'P'"),
        ("lines", KEYS, ("P",), "dataset 'lines' has the partition column 'Q', but is not cut by it"),
        (
            "lines",
            [*KEYS, ("i", pa.int8()), ("i", pa.int8())],
            None,
            "dataset 'lines': column 'i' comes twice",
        ),
        (
            "lines",
            [*KEYS, ("i", pa.list_(pa.int8()))],
            None,
            "column 'i' is list.*, which cannot be compared",
        ),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(name: str, fields: Any, cut: Any, said: str) -> None:
    with pytest.raises(CubeRowsError, match=said):
        check_schema(ROLES, name, pa.schema(fields), cut)


def test_a_dataset_may_have_fewer_dimensions_and_be_cut_by_fewer_columns() -> None:
    check_schema(ROLES, "lines", pa.schema([*KEYS[:1], KEYS[3]]), ("P",))
    check_schema(ROLES, "lines", pa.schema(KEYS[3:]), ())


@pytest.mark.parametrize(
    ("column", "role", "value"),
    [("P", "partition", None), ("x", "dimension", None), ("i", "index", float("nan"))],
)
def test_null_in_a_key_is_refused(column: str, role: str, value: Any) -> None:
    rows = {"P": [1, 2], "Q": [1, 1], "x": [1, 1], "y": [1, 1], "i": [1.0, 2.0], "v": [None, 1]}
    rows[column] = [rows[column][0], value]
    with pytest.raises(
        CubeRowsError, match=f"dataset 'stars': {role} column '{column}' is null in 1 of 2 rows"
    ):
        check_no_nulls(ROLES, "stars", pa.table(rows), ("P", "Q"))
    check_no_nulls(ROLES, "stars", pa.table(rows).slice(0, 1), ("P", "Q"))


def test_a_cell_that_comes_twice_is_shown_with_what_differs() -> None:
    rows = pa.table({"P": [1, 2, 1, 1], "x": [5, 5, 5, 6], "v": ["a", "b", "c", "d"], "w": [1, 1, 1, 1]})
    with pytest.raises(
        CubeRowsError, match=r"1 cells come more than once, such as P=1, x=5 with 2 rows.*in 'v'"
    ):
        check_cells("stars", rows, ["P", "x"])
    with pytest.raises(CubeRowsError, match="which are alike"):
        check_cells("stars", pa.concat_tables([rows[:1], rows[:1]]), ["P", "x"])


def test_cells_are_sorted_when_they_are_checked() -> None:
    rows = pa.table({"P": [2, 1, 1], "x": [5, 6, 5], "v": ["a", "b", "c"]})
    assert check_cells("stars", rows, ["P", "x"])["v"].to_pylist() == ["c", "b", "a"]


def test_datasets_that_are_no_cube_together_are_refused() -> None:
    stars = pa.schema([*KEYS, ("mag", pa.float64())])
    with pytest.raises(CubeError, match="the seed 'stars' is missing; there is 'lines'"):
        check_datasets(ROLES, {"lines": stars})
    with pytest.raises(CubeError, match="'mag' is in lines and stars"):
        check_datasets(ROLES, {"stars": stars, "lines": stars})
    odd = pa.schema([*KEYS[:3], ("y", pa.string())])
    with pytest.raises(CubeError, match="column 'y' joins datasets, but is string in lines, int64 in stars"):
        check_datasets(ROLES, {"stars": stars, "lines": odd})
    with pytest.raises(CubeError, match="index_columns: no dataset has 'i'"):
        check_index_columns(ROLES, {"stars": stars})


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("us", "UTC")])
def test_partitions_of_times_that_no_folder_can_be_named_by(kind: pa.DataType, tmp_path: Path) -> None:
    far = pa.array([2_932_897, 0], pa.int32()).cast(pa.date32())  # the year 10000
    rows = pa.table({"P": far.cast(kind), "x": [1, 2]})
    roles = CubeColumns(dimension_columns=("x",), partition_columns=("P",))
    with pytest.raises(CubeRowsError, match=r"'seed': partition column 'P' .* years 1 to 9999"):
        build(Storage.at(tmp_path / "cube"), "cube", roles, {"seed": rows})
