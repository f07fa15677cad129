"""The DAG of cube queries: its form, and a whole run of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from hipslake.api.cube import Cube

from tests.dags.dag_runs import Load, check_form
from tests.steps.cubes import cube_in, everything

FIELDS = [
    "cube",
    "version",
    "columns",
    "conditions",
    "partition_by",
    "dimension_columns",
    "datasets",
    "format",
    "output",
]


@pytest.fixture
def warehouse(specs: Path, tmp_path: Path) -> Path:
    cube_in(tmp_path / "warehouse")
    return tmp_path / "warehouse"


def test_there_is_one_with_a_form_that_explains_itself(load: Load, specs: Path) -> None:
    dag = load()["cube_query"]
    assert [task.task_id for task in dag.tasks] == ["query"]
    assert '(C("ok") == True)' in dag.doc_md
    assert list(dag.params) == FIELDS
    check_form(dag.params)


OUT_OF_BOUNDS: list[tuple[str, Any]] = [
    ("cube", ""),
    ("cube", None),
    ("cube", "x" * 2001),
    ("version", 0),
    ("version", "1"),
    ("columns", "mag"),
    ("columns", [1]),
    ("columns", [""]),
    ("conditions", "x" * 10_001),
    ("conditions", ["i == 1"]),
    ("partition_by", [["i"]]),
    ("datasets", {"seed": 1}),
    ("format", "hdf5"),
    ("output", ""),
    ("output", None),
]


def test_params_out_of_bounds_are_refused(load: Load, specs: Path) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = load()["cube_query"].params
    for name, value in OUT_OF_BOUNDS:
        with pytest.raises(ParamValidationError):
            params.get_param(name).resolve(value)


def executed(dag: Any, **params: Any) -> dict[str, Any]:
    run = SimpleNamespace(dag_id="cube_query", run_id="by hand")
    found: dict[str, Any] = dag.get_task("query").execute({"params": params, "dag_run": run})
    return found


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"cube": "nobody"}, "CatalogNotFoundError"),
    ({"cube": "../../etc"}, "SpecError: cube '../../etc' is neither"),
    ({"conditions": "os.system('id')"}, "ConditionError: .* is no condition"),
    ({"conditions": "magg < 3.0"}, "CubeError: conditions: the cube has no column 'magg'"),
    ({"conditions": "mag < 'x'"}, "ConditionTypeError: .*compare it with a number"),
    ({"columns": ["magg"]}, "CubeError"),
    ({"output": "../cubes/sky/x"}, "SpecError: output .* lies in the warehouse"),
]


def test_what_makes_no_sense_fails_at_once(load: Load, warehouse: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    dag, before = load()["cube_query"], everything(warehouse)
    for params, message in SENSELESS:
        with pytest.raises(AirflowFailException, match=message):
            executed(dag, **({"cube": "sky", "output": "x"} | params))
        assert everything(warehouse) == before


@pytest.mark.system
def test_a_run_of_the_form_writes_what_the_library_answers(
    airflow: Path, load: Load, warehouse: Path
) -> None:
    asked = {
        "cube": "sky",
        "columns": ["mag"],
        "conditions": "ok == True\nand kind == 'k/0'",
        "partition_by": ["i"],
        "output": "bright",
    }
    run = load()["cube_query"].test(run_conf=asked)
    assert {task.task_id: str(task.state) for task in run.get_task_instances()} == {"query": "success"}
    expected = Cube.open(f"{warehouse}/cubes/sky").query(["mag", "i"], asked["conditions"])
    found = pq.read_table(warehouse / "exports" / "bright")
    assert sorted(found["x"].to_pylist()) == sorted(expected["x"].to_pylist())
    assert sorted(map(int, found["i"].to_pylist())) == sorted(expected["i"].to_pylist())
    assert sorted(path.parent.name for path in (warehouse / "exports" / "bright").rglob("*.parquet")) == [
        f"i={i}" for i in range(4)
    ]
