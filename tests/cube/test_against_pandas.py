"""Whole queries on random cubes, held against a brute-force join with pandas."""

from __future__ import annotations

from random import Random

from hipslake.cube.explanation import explain
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.cube.memory import MemoryCube
from tests.cube.random_cubes import KINDS, RandomCube, brute_force, random_cube, random_query
from tests.examples import examples

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed makes no smaller cube


def in_memory(cube: RandomCube, random: Random) -> MemoryCube:
    """The cube as files: each partition is cut into one to three."""
    memory = MemoryCube(cube.cube, {name: KINDS[cube.kinds[name]][0] for name in cube.cube.partition_columns})
    for dataset in cube.datasets:
        parts: dict[tuple[object, ...], list[dict[str, object]]] = {}
        pieces = random.randint(1, 3)
        for row in dataset.rows:
            place = (*(row[name] for name in dataset.partition_columns), random.randrange(pieces))
            parts.setdefault(place, []).append(row)
        table = cube.table(dataset).select([*dataset.dimensions, *dataset.payload])
        files = [
            (f"{dataset.name}/{place}", place[:-1], table.from_pylist(rows, table.schema))
            for place, rows in parts.items()
        ]
        memory.add(dataset.name, files, partition_columns=dataset.partition_columns, schema=table.schema)
    return memory


@settings(max_examples=examples(150), phases=UNSHRUNK)
@given(seed=st.integers(0, 1 << 32))
def test_a_query_gives_what_a_join_of_whole_datasets_gives(seed: int) -> None:
    random = Random(seed)
    cube = random_cube(random)
    memory = in_memory(cube, random)
    for _ in range(3):
        query = random_query(random, cube)
        found = memory.query(**query.arguments)
        assert [(group.key, group.rows.to_pylist()) for group in found] == brute_force(cube, query)


@settings(max_examples=examples(25), phases=UNSHRUNK)
@given(seed=st.integers(0, 1 << 32))
def test_every_query_can_be_explained(seed: int) -> None:
    random = Random(seed)
    cube = random_cube(random)
    memory = in_memory(cube, random)
    assert "## Alignment" in explain(memory.plan(**random_query(random, cube).arguments))
