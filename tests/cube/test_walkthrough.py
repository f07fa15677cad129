"""The alignment walk-through of the system's own description, table by table.

Its labels slip in a few places, where the folder of a label is not that of its row. They stand corrected
here:

* `uuid5` is at P=1, Q=0, but the tables of all partitions, of the index information, and after its removal
say
  `P=1/Q=1/<uuid5>.parquet`; after the filter and from then on it is `P=1/Q=0/<uuid5>.parquet`.
* `uuid6` is at P=0, Q=0, but its label says `P=0/Q=1`.
* `uuid9` is at P=1, Q=0, but its label says `P=0/Q=1`, in the input, in the output and in both groups.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hipslake.cube.explanation import draw, explain, widths_of
from hipslake.cube.partition_tables import with_index, without_index
from hipslake.cube.query_plan import partition_pruning
from hipslake.predicates.conditions import C
from hipslake.specs.cube_spec import CubeColumns

from tests.cube.memory import MemoryCube

ALL = """
 P | Q | __cube_labels_seed
===+===+=========================
 0 | 0 | P=0/Q=0/<uuid1>.parquet
 0 | 1 | P=0/Q=1/<uuid2>.parquet
 0 | 1 | P=0/Q=1/<uuid3>.parquet
 1 | 0 | P=1/Q=0/<uuid4>.parquet
 1 | 0 | P=1/Q=0/<uuid5>.parquet
"""
JOINED = """
 P | Q | I1 | __cube_labels_seed
===+===+====+=========================
 0 | 0 |  1 | P=0/Q=0/<uuid1>.parquet
 0 | 1 |  2 | P=0/Q=1/<uuid2>.parquet
 0 | 1 |  3 | P=0/Q=1/<uuid3>.parquet
 1 | 0 |  4 | P=1/Q=0/<uuid4>.parquet
 1 | 0 |  5 | P=1/Q=0/<uuid5>.parquet
"""
FILTERED = """
 P | Q | I1 | __cube_labels_seed
===+===+====+=========================
 0 | 1 |  2 | P=0/Q=1/<uuid2>.parquet
 0 | 1 |  3 | P=0/Q=1/<uuid3>.parquet
 1 | 0 |  4 | P=1/Q=0/<uuid4>.parquet
 1 | 0 |  5 | P=1/Q=0/<uuid5>.parquet
"""
KEPT = """
 P | Q | __cube_labels_seed
===+===+=========================
 0 | 1 | P=0/Q=1/<uuid2>.parquet
 0 | 1 | P=0/Q=1/<uuid3>.parquet
 1 | 0 | P=1/Q=0/<uuid4>.parquet
 1 | 0 | P=1/Q=0/<uuid5>.parquet
"""
GROUPED = """
 P | Q | I2 | __cube_labels_seed
===+===+====+=========================
 0 | 1 |  1 | P=0/Q=1/<uuid2>.parquet
 0 | 1 |  1 | P=0/Q=1/<uuid3>.parquet
 1 | 0 |  1 | P=1/Q=0/<uuid4>.parquet
 1 | 0 |  2 | P=1/Q=0/<uuid5>.parquet
"""
COMPACT = """
 P | Q | I2 | __cube_labels_seed
===+===+====+==================================================
 0 | 1 |  1 | P=0/Q=1/<uuid2>.parquet, P=0/Q=1/<uuid3>.parquet
 1 | 0 |  1 | P=1/Q=0/<uuid4>.parquet
 1 | 0 |  2 | P=1/Q=0/<uuid5>.parquet
"""
ENRICH = """
 P | Q | __cube_labels_enrich
===+===+==================================================
 0 | 0 | P=0/Q=0/<uuid6>.parquet
 0 | 1 | P=0/Q=1/<uuid7>.parquet
 1 | 0 | P=1/Q=0/<uuid8>.parquet, P=1/Q=0/<uuid9>.parquet
 9 | 0 | P=9/Q=0/<uuid0>.parquet
"""
_HEAD = """
 P | Q | I2 | __cube_labels_seed                               | __cube_labels_enrich
===+===+====+==================================================+==================================================
"""
_FIRST = """\
 0 | 1 |  1 | P=0/Q=1/<uuid2>.parquet, P=0/Q=1/<uuid3>.parquet | P=0/Q=1/<uuid7>.parquet
 1 | 0 |  1 | P=1/Q=0/<uuid4>.parquet                          | P=1/Q=0/<uuid8>.parquet, P=1/Q=0/<uuid9>.parquet
"""  # noqa: E501
_SECOND = """\
 1 | 0 |  2 | P=1/Q=0/<uuid5>.parquet                          | P=1/Q=0/<uuid8>.parquet, P=1/Q=0/<uuid9>.parquet
"""  # noqa: E501
ALIGNED = _HEAD + _FIRST + _SECOND
GROUPS = (_HEAD + _FIRST, _HEAD + _SECOND)


def label(p: int, q: int, number: int) -> str:
    return f"P={p}/Q={q}/<uuid{number}>.parquet"


@pytest.fixture
def cube() -> MemoryCube:
    """The seed's files hold one cell each: x is the number of the file."""
    columns = CubeColumns(
        dimension_columns=("x",),
        partition_columns=("P", "Q"),
        index_columns=("I1", "I2"),
        suppress_index_on=("x",),
    )
    cube = MemoryCube(columns, {"P": pa.int64(), "Q": pa.int64()})
    places = {1: (0, 0), 2: (0, 1), 3: (0, 1), 4: (1, 0), 5: (1, 0)}
    cube.add(
        "seed",
        [
            (label(p, q, n), (p, q), pa.table({"x": [n], "I1": [n], "I2": [2 if n == 5 else 1]}))
            for n, (p, q) in places.items()
        ],
    )
    others = {6: (0, 0, 1), 7: (0, 1, 2), 8: (1, 0, 4), 9: (1, 0, 5), 0: (9, 0, 7)}
    cube.add(
        "enrich",
        [(label(p, q, n), (p, q), pa.table({"x": [x], "E": [10 * x]})) for n, (p, q, x) in others.items()],
    )
    return cube


QUERY = {"conditions": C("I1") > 1, "partition_by": "I2"}


def test_the_partition_tables_of_the_seed_are_those_of_the_description(cube: MemoryCube) -> None:
    tables = cube.plan(**QUERY).tables["seed"]
    labels = tables.dataset.labels
    joined = with_index(tables.physical, tables.indices["I1"], labels)
    met = tables.conditions.meeting(joined)
    assert draw(tables.physical) == ALL.strip("\n")
    assert draw(joined) == JOINED.strip("\n")
    assert draw(met) == FILTERED.strip("\n")
    assert draw(without_index(met, ["I1"], labels)) == KEPT.strip("\n")
    assert draw(tables.kept) == KEPT.strip("\n")
    assert draw(tables.grouped) == GROUPED.strip("\n")
    assert draw(tables.compact) == COMPACT.strip("\n")


def test_the_aligned_partitions_are_those_of_the_description(cube: MemoryCube) -> None:
    plan = cube.plan(**QUERY)
    assert draw(plan.tables["enrich"].compact) == ENRICH.strip("\n")
    assert draw(plan.aligned) == ALIGNED.strip("\n")


def test_the_groups_are_those_of_the_description(cube: MemoryCube) -> None:
    plan = cube.plan(**QUERY)
    widths = widths_of(plan.aligned)
    assert [draw(group.partitions, widths=widths) for group in plan.groups] == [
        text.strip("\n") for text in GROUPS
    ]
    assert [group.key for group in plan.groups] == [{"I2": 1}, {"I2": 2}]


def test_explain_prints_every_table_in_turn(cube: MemoryCube) -> None:
    text = explain(cube.plan(**QUERY))
    place = -1
    for table in (ALL, JOINED, FILTERED, KEPT, GROUPED, COMPACT, ENRICH, ALIGNED, *GROUPS):
        place = text.find(table.strip("\n"), place + 1)
        assert place >= 0, f"missing, or not in order: {table}\nin\n{text}"


def test_each_group_has_the_rows_of_its_files(cube: MemoryCube) -> None:
    first, second = cube.query(**QUERY)
    assert first.rows.select(["x", "P", "Q", "I2", "E"]).to_pylist() == [
        {"x": 2, "P": 0, "Q": 1, "I2": 1, "E": 20},
        {"x": 3, "P": 0, "Q": 1, "I2": 1, "E": None},
        {"x": 4, "P": 1, "Q": 0, "I2": 1, "E": 40},
    ]
    assert second.rows.select(["x", "P", "Q", "I2", "E"]).to_pylist() == [
        {"x": 5, "P": 1, "Q": 0, "I2": 2, "E": 50}
    ]


def test_partitions_that_are_dropped_say_why(cube: MemoryCube) -> None:
    fates = partition_pruning(cube.plan(**QUERY)).to_pylist()
    assert fates == [
        {"P": 0, "Q": 0, "datasets": "seed, enrich", "fate": "no file of seed meets I1 > 1"},
        {"P": 0, "Q": 1, "datasets": "seed, enrich", "fate": "included"},
        {"P": 1, "Q": 0, "datasets": "seed, enrich", "fate": "included"},
        {"P": 9, "Q": 0, "datasets": "enrich", "fate": "the seed seed is missing"},
    ]


def test_a_restricted_dataset_drops_the_partitions_that_it_lacks(cube: MemoryCube) -> None:
    cube.add("checks", [(label(0, 1, 10), (0, 1), pa.table({"x": [2, 3], "OK": [True, False]}))])
    plan = cube.plan(conditions=C("OK") == True)  # noqa: E712
    assert plan.aligned.select(["P", "Q"]).to_pylist() == [{"P": 0, "Q": 1}]
    assert [row["fate"] for row in partition_pruning(plan).to_pylist()] == [
        "checks is missing",
        "included",
        "checks is missing",
        "the seed seed is missing",
    ]
    assert [row["x"] for row in cube.rows_of(conditions=C("OK") == True)] == [2]  # noqa: E712
