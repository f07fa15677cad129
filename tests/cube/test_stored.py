"""Cubes on disk answer as the same data in memory does, whatever was appended and removed before."""

from __future__ import annotations

import uuid
from random import Random
from typing import Any

import fsspec
import pyarrow as pa
from hipslake.api.cube import Cube
from hipslake.cube.store.operations import append, build, extend
from hipslake.cube.store.removal import remove_partitions
from hipslake.predicates.conditions import C
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cube.random_cubes import RandomCube, brute_force, random_cube, random_query
from tests.cube.test_against_pandas import UNSHRUNK
from tests.examples import examples

ROLES = CubeColumns(dimension_columns=("x",), partition_columns=("p",), index_columns=("i",))


def numbers(xs: list[int], start: int = 0, **more: Any) -> pa.Table:
    return pa.table({"p": [x // 10 for x in xs], "x": xs, "v": [start + x for x in xs], **more})


@settings(max_examples=examples(25), phases=UNSHRUNK)
@given(seed=st.integers(0, 1 << 32))
def test_a_stored_cube_gives_what_a_join_of_whole_datasets_gives(seed: int) -> None:
    random = Random(seed)
    cube = random_cube(random)
    cube.datasets = [each for each in cube.datasets if each.rows]
    place = Storage.at(f"memory://{uuid.uuid4().hex}")
    _written_in_turns(place, cube, random)
    stored = Cube.open(place.uri())
    for _ in range(3):
        query = random_query(random, cube)
        found = [(group.key, group.rows.to_pylist()) for group in stored.groups(**query.arguments)]
        assert found == brute_force(cube, query)
    fsspec.filesystem("memory").rm(place.uri(), recursive=True)


def _written_in_turns(place: Storage, cube: RandomCube, random: Random) -> None:
    """Build with some rows, some of them wrong; the rest, and the right ones, are appended."""
    first, later = {}, {}
    for dataset in cube.datasets:
        rows = [dict(row) for row in dataset.rows]
        early = rows[: random.randint(1, len(rows))]
        wrong = random.sample(early, random.randint(0, len(early)))
        late = [*(dict(row) for row in wrong), *rows[len(early) :]]
        others = {name: [row[name] for row in rows] for name in dataset.payload}
        for row in wrong:
            row |= {name: random.choice(values) for name, values in others.items()}
        schema = cube.schema(dataset)
        first[dataset.name] = pa.Table.from_pylist(early, schema)
        if late:
            later[dataset.name] = pa.Table.from_pylist(late, schema)
    cut = {each.name: each.partition_columns for each in cube.datasets}
    added = sorted(set(first) - {"seed"}) if random.random() < 0.5 else []
    build(
        place,
        "c",
        cube.cube,
        {name: rows for name, rows in first.items() if name not in added},
        partition_columns={name: columns for name, columns in cut.items() if name not in added},
        file_rows=random.choice([1, 3, 100]),
    )
    if added:
        extend(place, {n: first[n] for n in added}, partition_columns={n: cut[n] for n in added})
    if later:
        append(place, later)


def test_the_last_write_wins_cell_by_cell(place: Storage) -> None:
    build(place, "c", ROLES, {"seed": numbers(list(range(30)), i=[1] * 30)})
    append(place, {"seed": numbers([5, 25, 31], start=1000, i=[2, 2, 2])})
    rows = Cube.open(place.uri()).query(columns=["v", "i"]).to_pylist()
    assert {row["x"]: row["v"] for row in rows} == {x: x for x in range(30)} | {5: 1005, 25: 1025, 31: 1031}
    old = Cube.open(place.uri()).query(columns=["v"], conditions=C("i") == 1)
    assert not {5, 25} & set(old["x"].to_pylist()), "a condition brought a replaced row back"
    assert Cube.open(place.uri(), version=1).query().num_rows == 30


def test_an_append_writes_only_the_files_that_hold_its_cells_again(place: Storage) -> None:
    before = build(place, "c", ROLES, {"seed": numbers(list(range(40)), i=[1] * 40)}, file_rows=5)
    after = append(place, {"seed": numbers([7, 39], i=[2, 2])})
    old, new = (set(paths(place, each)) for each in (before, after))
    assert len(old) == 8
    assert len(old - new) == 2  # those of 7 and of 39
    assert len(new - old) == 4  # what is left of these, and a file of new rows for each partition


def paths(place: Storage, metadata: Any, dataset: str = "seed") -> list[str]:
    from hipslake.cube.store.cube_files import PATH, read_files

    found: list[str] = read_files(place, metadata.dataset(dataset))[PATH].to_pylist()
    return found


def test_files_that_cannot_match_are_never_opened(place: Storage) -> None:
    xs = list(range(500))
    build(
        place,
        "c",
        ROLES,
        {
            "seed": numbers(xs, i=[x % 250 for x in xs]),
            "more": numbers(xs).drop(["v"]).append_column("w", [xs]),
        },
    )
    cube = Cube.open(place.uri())
    conditions = (C("p") < 25) & (C("i") == 77)
    plan = cube.plan(columns=["v", "w"], conditions=conditions)
    assert plan.files == 2
    needed = {label for read in plan.reads() for labels in read.labels.values() for label in labels}
    for dataset in ("seed", "more"):
        for path in paths(place, cube.metadata, dataset):
            if path not in needed:
                place.delete(path)
    rows = cube.query(columns=["v", "w"], conditions=conditions).to_pylist()
    assert rows == [{"p": 7, "v": 77, "w": 77, "x": 77}]


def test_only_the_indices_that_a_query_needs_are_read(place: Storage) -> None:
    metadata = build(place, "c", ROLES, {"seed": numbers([1, 11], i=[1, 2])})
    (index,) = (each for each in metadata.dataset("seed").indices if each.column == "x")
    for path in index.parts:
        place.delete(path)
    cube = Cube.open(place.uri())
    assert cube.query(conditions=C("i") == 2)["x"].to_pylist() == [11]
    assert cube.query(conditions=C("p") == 0)["x"].to_pylist() == [1]


def test_partitions_are_removed_and_nothing_else(place: Storage) -> None:
    build(
        place,
        "c",
        ROLES,
        {"seed": numbers(list(range(30)), i=[1] * 30), "all": pa.table({"x": [1, 11], "w": [1, 2]})},
        partition_columns={"all": []},
    )
    remove_partitions(place, C("p") == 1, datasets=["seed"])
    rows = Cube.open(place.uri()).query(conditions=C("i") == 1)
    assert rows["x"].to_pylist() == [*range(10), *range(20, 30)]
    assert Cube.open(place.uri()).metadata.dataset("all").rows == 2


def test_pixels_are_computed_and_align_catalogs_on_the_sky(place: Storage) -> None:
    from hipslake.sphere.pixels import order29

    sky = order29([10.0, 200.0, 10.1], [5.0, -40.0, 5.0])
    roles = CubeColumns(dimension_columns=("id",), partition_columns=("pixel",), pixel_orders={"pixel": 2})
    stars = pa.table({"_healpix_29": sky, "id": [1, 2, 3], "mag": [9.0, 8.0, 7.0]})
    matches = pa.table({"_healpix_29": sky[:2], "id": [1, 2], "HIP": [100, 200]})
    build(place, "c", roles, {"seed": stars, "match": matches})
    rows = Cube.open(place.uri()).query(conditions=C("HIP") > 0).to_pylist()
    assert rows == [
        {"HIP": hip, "_healpix_29": int(h), "id": n, "mag": mag, "pixel": int(h) >> 54}
        for hip, h, n, mag in [(100, sky[0], 1, 9.0), (200, sky[1], 2, 8.0)]
    ]


def test_a_cube_lies_on_any_store(storage: Storage) -> None:
    """POSIX files, objects in memory, and objects behind a real server."""
    build(storage, "c", ROLES, {"seed": numbers(list(range(30)), i=[n % 3 for n in range(30)])})
    append(storage, {"seed": numbers([5, 31], start=100, i=[7, 7])})
    remove_partitions(storage, C("p") == 2)
    rows = Cube.open(storage.uri()).query(columns=["v"], conditions=(C("p") >= 0) & C("i").isin([0, 7]))
    assert rows["v"].to_pylist() == [0, 3, 105, 6, 9, 12, 15, 18, 131]
