"""The three examples of the system's own description: join semantics, outer join, projection."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hipslake.cube.explanation import explain
from hipslake.cube.query_plan import partition_pruning
from hipslake.errors import CubeError
from hipslake.predicates.conditions import C
from hipslake.specs.cube_spec import CubeColumns

from tests.cube.memory import MemoryCube

BOTH = (C("OK") == True) & (C("SCHED") == True)  # noqa: E712
CUT = {"part": pa.int64()}


def example(
    dimensions: tuple[str, ...],
    datasets: dict[str, dict[str, Any]],
    *,
    apart: bool,
    indexed: tuple[str, ...] = (),
) -> MemoryCube:
    """A cube with everything in one partition, or with a partition for every P."""
    roles = CubeColumns(
        dimension_columns=dimensions, partition_columns=("part",), seed="db_data", index_columns=indexed
    )
    cube = MemoryCube(roles, CUT)
    for name, columns in datasets.items():
        table = pa.table(columns)
        parts = sorted(set(table["P"].to_pylist())) if apart else [None]
        files = []
        for part in parts:
            rows = table if part is None else table.filter(pa.compute.equal(table["P"], part))
            files.append((f"{name}/part={part or 0}", (part or 0,), rows))
        cube.add(name, files)
    return cube


EXAMPLE_1 = {
    "db_data": {"P": [1, 2, 3, 5, 6]},
    "data_checks": {"P": [1, 2, 3, 4, 5, 6], "OK": [True, False, True, True, True, True]},
    "schedule": {"P": [1, 2, 3, 4, 5], "SCHED": [True, True, False, True, True]},
    "predictions": {"P": [1, 2, 3, 4, 6], "PRED": [0.23, 0.12, 0.13, 0.03, 0.01]},
}
EXAMPLE_2 = {
    "db_data": {"P": [1, 1, 2, 2], "L": [1, 2, 1, 2]},
    "data_checks": {"P": [1, 1, 2, 2], "L": [1, 2, 1, 2], "OK": [True, False, True, True]},
    "schedule": {"P": [1, 2], "SCHED": [True, False]},
    "predictions": {"P": [1, 1, 2, 2], "L": [1, 2, 1, 2], "PRED": [0.23, 0.12, 0.13, 0.13]},
}
EXAMPLE_3 = {
    "db_data": {"P": [1, 1, 2, 2, 2], "L": [1, 2, 1, 2, 3]},
    "schedule": {"P": [1, 2], "SCHED": [True, False]},
    "agg": {"P": [1, 2], "AVG": [10.2, 1.34]},
}


def without_part(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "part"} for row in rows]


@pytest.mark.parametrize("apart", [False, True])
def test_cells_come_from_the_seed_and_conditions_join_inner(apart: bool) -> None:
    cube = example(("P",), EXAMPLE_1, apart=apart)
    rows = cube.rows_of(columns=["P", "PRED"], conditions=BOTH)
    assert without_part(rows) == [{"P": 1, "PRED": 0.23}, {"P": 5, "PRED": None}]


@pytest.mark.parametrize("apart", [False, True])
def test_a_dataset_of_fewer_dimensions_is_joined_on_those(apart: bool) -> None:
    cube = example(("P", "L"), EXAMPLE_2, apart=apart)
    rows = cube.rows_of(columns=["P", "L", "PRED"], conditions=BOTH)
    assert without_part(rows) == [{"P": 1, "L": 1, "PRED": 0.23}]


@pytest.mark.parametrize("apart", [False, True])
def test_a_projection_makes_cells_of_the_seed_one(apart: bool) -> None:
    cube = example(("P", "L"), EXAMPLE_3, apart=apart)
    scheduled = C("SCHED") == True  # noqa: E712
    rows = cube.rows_of(columns=["P", "AVG"], conditions=scheduled, dimension_columns=["P"])
    assert without_part(rows) == [{"P": 1, "AVG": 10.2}]


def test_every_partition_of_the_first_example_says_why_it_is_in_or_out() -> None:
    cube = example(("P",), EXAMPLE_1, apart=True, indexed=("OK", "SCHED"))
    fates = partition_pruning(cube.plan(columns=["P", "PRED"], conditions=BOTH))
    assert {row["part"]: row["fate"] for row in fates.to_pylist()} == {
        1: "included",
        2: "no file of data_checks meets OK = true",
        3: "no file of schedule meets SCHED = true",
        4: "the seed db_data is missing",
        5: "included",
        6: "schedule is missing",
    }
    rows = cube.rows_of(columns=["P", "PRED"], conditions=BOTH)
    assert without_part(rows) == [{"P": 1, "PRED": 0.23}, {"P": 5, "PRED": None}]
    assert not {label for label in cube.opened if label[-1] not in "15"}, "what is out is not opened"


@pytest.mark.parametrize(
    ("dimensions", "datasets", "query", "joins"),
    [
        (
            ("P",),
            EXAMPLE_1,
            {"columns": ["P", "PRED"], "conditions": BOTH},
            ["data_checks: inner join on P", "schedule: inner join on P", "predictions: left join on P"],
        ),
        (
            ("P", "L"),
            EXAMPLE_2,
            {"columns": ["P", "L", "PRED"], "conditions": BOTH},
            [
                "data_checks: inner join on P, L",
                "schedule: inner join on P",
                "predictions: left join on P, L",
            ],
        ),
        (
            ("P", "L"),
            EXAMPLE_3,
            {"columns": ["AVG"], "conditions": C("SCHED") == True, "dimension_columns": ["P"]},  # noqa: E712
            ["db_data: projected to P", "schedule: inner join on P", "agg: left join on P"],
        ),
    ],
)
def test_the_joins_of_an_example_are_told_in_its_order(
    dimensions: tuple[str, ...], datasets: dict[str, Any], query: dict[str, Any], joins: list[str]
) -> None:
    text = explain(example(dimensions, datasets, apart=True).plan(**query))
    told = text.partition("## Joins in every partition\n")[2].splitlines()
    assert [line for line in told if line][: 1 + len(joins)] == ["db_data: the cells", *joins]


def test_a_projection_loses_no_dimension_of_a_payload_that_is_kept() -> None:
    cube = example(("P", "L"), EXAMPLE_2, apart=False)
    with pytest.raises(CubeError, match=r"'predictions' spans L, P and cannot be projected to P.*'PRED'"):
        cube.plan(columns=["P", "PRED"], dimension_columns=["P"])
    with pytest.raises(CubeError, match=r"dataset 'data_checks'.*'OK'"):
        cube.plan(columns=["P"], conditions=C("OK") == True, dimension_columns=["P"])  # noqa: E712


def test_a_condition_on_a_dimension_that_is_projected_away_still_holds() -> None:
    cube = example(("P", "L"), EXAMPLE_3, apart=False)
    rows = cube.rows_of(columns=["AVG"], conditions=C("L") == 3, dimension_columns=["P"])
    assert without_part(rows) == [{"P": 2, "AVG": 1.34}]
