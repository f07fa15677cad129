"""Changes of cubes that break a rule: what is said, and that nothing is left of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store import row_sources, upkeep
from hipslake.cube.store.operations import append, build, extend
from hipslake.cube.store.removal import delete_cube, delete_datasets, remove_partitions
from hipslake.errors import (
    CatalogNotFoundError,
    ConditionTypeError,
    CubeError,
    CubeRowsError,
)
from hipslake.predicates.conditions import C
from hipslake.storage.folder import Storage

from tests.cube.small_cube import MORE, ROLES, SEED, everything, replaced

WRONG_BUILDS: list[tuple[Any, type[Exception], str]] = [
    ({"more": MORE}, CubeError, "the seed 'seed' is missing; there is 'more'"),
    ({}, CubeError, "no dataset is given"),
    ({"seed": SEED.drop(["x"])}, CubeRowsError, "the seed 'seed' has no dimension column 'x'"),
    ({"seed": SEED.drop(["p"])}, CubeRowsError, "dataset 'seed' has no partition column 'p'"),
    ({"seed": SEED, "more": MORE.drop(["x"])}, CubeRowsError, "'more' has none of the dimension columns"),
    ({"seed": SEED, "more": MORE.rename_columns(["p", "x", "i"])}, CubeError, "'i' is in more and seed"),
    ({"seed": replaced(SEED, x=[1, None, 3])}, CubeRowsError, "dimension column 'x' is null in 1 of 3 rows"),
    ({"seed": replaced(SEED, p=[None, 0, 1])}, CubeRowsError, "partition column 'p' is null"),
    ({"seed": replaced(SEED, i=[None, 0, 1])}, CubeRowsError, "index column 'i' is null"),
    ({"seed": replaced(SEED, x=[1, 1, 3])}, CubeRowsError, "such as p=0, x=1 with 2 rows, which are alike"),
    ({"seed": SEED.slice(0, 0)}, CubeRowsError, "dataset 'seed' has no rows"),
    (
        {"seed": SEED, "more": replaced(MORE, x=["1", "3"])},
        CubeError,
        "'x' joins datasets, but is string in more",
    ),
    ({"seed": [1, 2]}, CubeError, "not as list"),
    ({"seed": SEED, "../more": MORE}, CubeError, "'../more' is no name of a dataset"),
    ({"seed": SEED, "more/w": MORE}, CubeError, "'more/w' is no name of a dataset"),
    ({"seed": SEED, 7: MORE}, CubeError, "7 is no name of a dataset"),
    (
        {"seed": pd.DataFrame({"p": [0], "x": [1], "i": pd.arrays.SparseArray([1])})},
        CubeRowsError,
        "column 'i' is sparse",
    ),
    ({"seed": pd.DataFrame([[0, 1, 2, 3]], columns=["p", "x", "i", "i"])}, CubeRowsError, "'i' comes twice"),
]


@pytest.mark.parametrize(("data", "error", "said"), WRONG_BUILDS, ids=[said for *_, said in WRONG_BUILDS])
def test_a_build_that_breaks_a_rule_leaves_nothing(
    place: Storage, data: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        build(place, "c", ROLES, data)
    assert everything(place) == {}


@pytest.mark.parametrize("name", ["", "..", "a/b", "Sky", "c\n", "x" * 64, None])
def test_a_cube_with_no_name_is_not_built_and_no_copy_is_called_so(cube: Storage, name: Any) -> None:
    place = Storage.at(cube.uri() + "_other")
    with pytest.raises(CubeError, match="is no name of a cube"):
        build(place, name, ROLES, {"seed": SEED})
    if name is not None:
        with pytest.raises(CubeError, match="is no name of a cube"):
            upkeep.copy(cube, place, name=name)
    assert everything(place) == {}


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda at: build(at, "c", ROLES, {"seed": SEED}), CubeError, "is built here already, as version 1"),
        (lambda at: build(at, "c", ROLES, {"seed": SEED}, overwrite=True), CubeError, "'more' of the cube"),
        (lambda at: extend(at, {"seed": SEED}), CubeError, "the seed 'seed' is not extended"),
        (lambda at: extend(at, {"more": MORE}), CubeError, "'more' already"),
        (lambda at: extend(at, {"new": MORE}), CubeError, "'w' is in more and new"),
        (
            lambda at: extend(at, {"new": MORE.drop(["p", "w"])}, partition_columns={"new": ["q"]}),
            CubeError,
            "'q' is none of the cube's partition columns",
        ),
        (
            lambda at: extend(at, {"new": MORE.drop(["w"])}, partition_columns={"new": ["p", "p"]}),
            CubeError,
            "dataset 'new': partition column 'p' is named twice",
        ),
        (
            lambda at: build(at, "c", ROLES, {"seed": SEED}, partition_columns={"seed": []}, overwrite=True),
            CubeError,
            r"the seed 'seed' is cut by all partition columns \(p\)",
        ),
        (
            lambda at: extend(at, {"new": MORE}, partition_columns={"old": []}),
            CubeError,
            "'old' is none of the datasets",
        ),
        (lambda at: append(at, {"new": MORE}), CubeError, "no dataset 'new'; it has 'more', 'seed'"),
        (lambda at: append(at, {"more": MORE.drop(["w"])}), CubeRowsError, "column 'w' is missing"),
        (lambda at: append(at, {"more": MORE.append_column("z", [[1, 2]])}), CubeRowsError, "'z' is new"),
        (
            lambda at: append(at, {"more": replaced(MORE, w=["a", "b"])}),
            CubeRowsError,
            "'w' is string, but double",
        ),
        (lambda at: append(at, {"more": replaced(MORE, x=[3, 3], p=[1, 1])}), CubeRowsError, "differ in 'w'"),
        (lambda at: remove_partitions(at, C("x") == 1), CubeError, "not on 'x'"),
        (lambda at: remove_partitions(at, None), CubeError, "no condition says"),
        (lambda at: remove_partitions(at, C("p") == 1.5), ConditionTypeError, "is int64, but 1.5 is a float"),
        (lambda at: remove_partitions(at, C("p") == 1, datasets=["new"]), CubeError, "no dataset 'new'"),
        (lambda at: delete_datasets(at, ["seed"]), CubeError, "the seed 'seed' is not deleted alone"),
        (lambda at: delete_datasets(at, ["new"]), CubeError, "no dataset 'new'"),
    ],
)
def test_a_change_that_is_refused_leaves_the_cube_as_it_is(
    cube: Storage, change: Any, error: type[Exception], said: str
) -> None:
    before = everything(cube)
    with pytest.raises(error, match=said):
        change(cube)
    assert everything(cube) == before


@pytest.mark.parametrize("kind", ["integers", "texts", "times"])
def test_cells_that_come_twice_are_found_before_any_file_is_written(
    place: Storage, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also where the twins lie far apart, in parts that different tasks read, in few of many partitions."""
    monkeypatch.setattr(row_sources, "PART_ROWS", 1000)
    numbers = np.arange(20_000)
    numbers[[7, 19_000]] = [12_345, 3]
    x = {
        "integers": pa.array(numbers),
        "texts": pa.array([f"star {n}" for n in numbers]),
        "times": pa.array(numbers).cast(pa.timestamp("s")),
    }[kind]
    seed = pa.table({"p": numbers % 50, "x": x, "i": numbers % 3, "v": np.arange(20_000)})
    written = []
    write = Storage.write

    def seen(self: Storage, path: str, data: Any, *, durable: bool = True) -> None:
        written.append(path)
        write(self, path, data, durable=durable)

    monkeypatch.setattr(Storage, "write", seen)
    with pytest.raises(CubeRowsError, match=r"2 cells come more than once.* 2 rows, which differ in 'v'"):
        build(place, "c", ROLES, {"seed": seed})
    assert not [path for path in written if path.endswith(".parquet")]


def test_partitions_of_a_dataset_that_is_not_cut_by_the_column_are_not_removed(cube: Storage) -> None:
    whole = pa.table({"x": [1, 3], "u": [1, 2]})
    extend(cube, {"whole": whole}, partition_columns={"whole": []})
    with pytest.raises(CubeError, match=r"'whole' not by 'p'.*would lose rows of other partitions"):
        remove_partitions(cube, C("p") == 0)
    assert upkeep.stats(cube)["whole"].rows == 2


def test_where_there_is_no_cube_it_is_said(place: Storage) -> None:
    for change in (
        lambda: extend(place, {"more": MORE}),
        lambda: append(place, {"seed": SEED}),
        lambda: remove_partitions(place, C("p") == 1),
    ):
        with pytest.raises(CubeError, match="no cube is built here"):
            change()
    for look in (lambda: Cube.open(place.uri()), lambda: upkeep.stats(place), lambda: delete_cube(place)):
        with pytest.raises(CatalogNotFoundError):
            look()
