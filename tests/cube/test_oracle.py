"""540 queries on 180 cubes, held against what kartothek 5.3.0 answered: rows, columns, order and dtypes.

`oracle/generate.py` made the answers. The cubes have integers, texts, booleans, floats and times, partitions
that datasets lack, cells that were appended again, and partitions that were removed. Beside them there are
120 builds that break a rule, which both refuse. Where the two differ on purpose:

* A query without rows is an empty table here, and no frame at all there.
* After an append, conditions here are asked of the last write of a cell. There they are asked of all writes,
  so a row that was replaced comes back where only the old one meets them; these answers are kept, to differ.
* Null meets no comparison here, as the reference's documentation says. Its readers let null floats pass `!=`.
* Where a dataset has no rows in a partition, its columns keep their types here; there they become float32.
* A comparison of texts that breaks inside numpy there is answered here.
* A value of a wrong type for a column of times is told here; there, the message itself fails.
* A projection has to name its columns in these cases: without, there, dimension columns that are projected
  away stay, each with the value of any of the cells. Here they go.
* A dataset may be cut by a column that is no partition column of the cube there. Here it may not.
* Booleans as partition columns all come back as True there, so no cube of these has any; here they stay what
  they are (`test_against_pandas.py`).
* Null tests are of this cube only: there, a comparison with null is refused, as it is here.
"""

from __future__ import annotations

import datetime
import gzip
import json
import operator
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pyarrow as pa
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store.operations import append, build
from hipslake.cube.store.removal import remove_partitions
from hipslake.errors import ConditionTypeError, CubeError, CubeRowsError
from hipslake.predicates.conditions import C, Condition, Conjunction
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

ANSWERS = Path(__file__).parent / "oracle" / "answers.json.gz"
BROKEN = "not supported between instances of"
NO_MESSAGE = "AttributeError"
KINDS = {
    "int": pa.int64(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "real": pa.float64(),
    "time": pa.timestamp("ns"),
}
ORACLE = json.loads(gzip.decompress(ANSWERS.read_bytes()))
CASES, BREACHES = ORACLE["queries"], ORACLE["breaches"]
ALLOWED_THERE = "cut"


def table(cube: dict[str, Any], dataset: dict[str, Any], rows: list[dict[str, Any]]) -> pa.Table:
    names = [*dataset["partition_columns"], *dataset["dimensions"], *dataset["payload"]]
    kinds = cube["kinds"] | dataset.get("retyped", {})
    schema = pa.schema(
        [(name, KINDS[kinds[name]]) for name in names if name not in dataset.get("without", ())]
    )
    times = [name for name in schema.names if kinds[name] == "time"]
    return pa.Table.from_pylist([row | {name: time(row[name]) for name in times} for row in rows], schema)


OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def time(value: Any) -> Any:
    """The time that a text of the oracle stands for; other values as they are."""
    if isinstance(value, str) and value[4:5] == "-":
        return datetime.datetime.fromisoformat(value)
    return value


def conditions(given: list[dict[str, Any]]) -> Conjunction:
    return Conjunction.of([condition(each) for each in given])


def condition(given: dict[str, Any]) -> Condition:
    column = C(given["column"])
    if given["type"] == "IsIn":
        return column.isin([time(value) for value in given["values"]])
    if given["type"] == "InInterval":
        return column.in_interval(time(given["start"]), time(given["stop"]))
    comparisons = {
        "==": C.__eq__,
        "!=": C.__ne__,
        "<": C.__lt__,
        "<=": C.__le__,
        ">": C.__gt__,
        ">=": C.__ge__,
    }
    return comparisons[given["op"]](column, time(given["value"]))


def roles(cube: dict[str, Any]) -> CubeColumns:
    names = ("dimension_columns", "partition_columns", "index_columns", "suppress_index_on")
    return CubeColumns(**{role: cube[role] for role in names})


def built(place: Storage, cube: dict[str, Any]) -> None:
    build(
        place,
        "c",
        roles(cube),
        {each["name"]: table(cube, each, each["rows"]) for each in cube["datasets"]},
        partition_columns={each["name"]: each["partition_columns"] for each in cube["datasets"]},
    )


@pytest.fixture(scope="module")
def built_once() -> Iterator[Callable[[dict[str, Any]], Cube]]:
    """Builds a cube and appends to it, in memory, which is the quickest; the cube of several cases once."""
    root = f"memory://{uuid.uuid4().hex}"
    found: dict[str, Cube] = {}

    def built_cube(cube: dict[str, Any]) -> Cube:
        key = json.dumps(cube)
        if key in found:
            return found[key]
        place = Storage.at(f"{root}/{len(found)}")
        built(place, cube)
        later = {
            each["name"]: table(cube, each, each["appended"]) for each in cube["datasets"] if each["appended"]
        }
        if later:
            append(place, later)
        if cube["removed"] is not None:
            remove_partitions(
                place, conditions(cube["removed"]["conditions"]), datasets=cube["removed"]["datasets"]
            )
        found[key] = Cube.open(place.uri())
        return found[key]

    yield built_cube
    store = fsspec.filesystem("memory").store
    for path in [each for each in store if each.startswith(root.removeprefix("memory:/"))]:
        del store[path]


def asked(cube: Cube, query: dict[str, Any]) -> list[pd.DataFrame]:
    return list(
        cube.frames(
            columns=query["columns"],
            conditions=conditions(query["conditions"]),
            partition_by=query["partition_by"],
            dimension_columns=query["dimension_columns"],
            datasets=query["datasets"],
        )
    )


def told(frames: list[pd.DataFrame]) -> list[dict[str, Any]]:
    return [
        {
            "columns": list(each.columns),
            "dtypes": [str(kind) for kind in each.dtypes],
            "rows": [
                [None if pd.isnull(value) else plain(value) for value in row]
                for row in each.astype(object).values.tolist()
            ],
        }
        for each in frames
        if len(each)
    ]


def plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def without_nulls_that_pass(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The reference's answer, with float32 as float64, less the rows whose null passed `!=`."""
    unequal = [each["column"] for each in case["query"]["conditions"] if each.get("op") == "!="]
    found = []
    for frame in case["answer"]["frames"]:
        places = [frame["columns"].index(name) for name in unequal if name in frame["columns"]]
        rows = [row for row in frame["rows"] if all(row[at] is not None for at in places)]
        dtypes = ["float64" if kind == "float32" else kind for kind in frame["dtypes"]]
        if rows:
            found.append(frame | {"rows": rows, "dtypes": dtypes})
    return found


@pytest.mark.parametrize(
    "number",  # three queries of each cube come one after the other; building it costs most
    [pytest.param(at, marks=pytest.mark.slow if at // 3 % 4 else ()) for at in range(len(CASES))],
)
def test_a_query_is_answered_as_the_reference_answers_it(
    built_once: Callable[[dict[str, Any]], Cube], number: int
) -> None:
    case = CASES[number]
    cube, query, answer = built_once(case["cube"]), case["query"], case["answer"]
    if BROKEN in answer.get("said", ""):
        expected = [] if query["partition_by"] else [0]
        assert [len(each) for each in asked(cube, query)] >= expected
        return
    if "error" in answer:
        wanted = ConditionTypeError if answer["error"] in ("TypeError", NO_MESSAGE) else CubeError
        with pytest.raises(wanted):
            asked(cube, query)
        return
    found = told(asked(cube, query))
    assert found == without_nulls_that_pass(case)
    if "after_append" in answer:
        assert found != answer["after_append"].get("frames")


@pytest.mark.parametrize("number", range(len(BREACHES)))
def test_a_build_that_the_reference_refuses_is_refused_and_leaves_nothing(number: int) -> None:
    breach = BREACHES[number]
    assert (breach["refusal"] is None) == (breach["rule"] == ALLOWED_THERE)
    place = Storage.at(f"memory://{uuid.uuid4().hex}")
    with pytest.raises((CubeError, CubeRowsError)) as error:
        built(place, breach["cube"])
    assert place.list(recursive=True) == []
    named = set(re.findall(r"'([^']*)'", str(error.value)))
    cube = breach["cube"]
    known = {column for each in cube["datasets"] for column in [*each["partition_columns"], *cube["kinds"]]}
    assert named & {"seed", *known, *(each["name"] for each in cube["datasets"])}, "the message names nothing"


def test_the_cases_are_many_and_of_all_kinds() -> None:
    answers = [case["answer"] for case in CASES]
    queries = [case["query"] for case in CASES]
    assert len(CASES) >= 500
    assert len({breach["rule"] for breach in BREACHES}) == 8
    assert sum(case["cube"]["removed"] is not None for case in CASES) >= 50
    assert sum(query["partition_by"] is not None for query in queries) >= 100
    assert sum(query["datasets"] is not None for query in queries) >= 50
    assert {each["type"] for query in queries for each in query["conditions"]} == {
        "Comparison",
        "IsIn",
        "InInterval",
    }
    assert sum("error" in each for each in answers) >= 10
    assert sum("after_append" in each for each in answers) >= 5
    assert sum(len(each.get("frames", ())) > 1 for each in answers) >= 20
    assert sum(case["query"]["dimension_columns"] is not None for case in CASES) >= 20
