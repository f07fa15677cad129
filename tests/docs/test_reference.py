"""Tables of the reference name what there is, all of it and nothing else."""

from __future__ import annotations

import inspect
import re
from typing import Any

import hipslake.errors

from tests import airflow_home
from tests.docs.blocks import PAGES, ROOT

INTERNAL = re.compile(r"HIPSLAKE_(ROOT|SERVICE|AT_\w*|BENCH_\w+)")
"""Variables that scripts tell each other; nobody sets them."""


def test_every_error_and_its_mend_are_told() -> None:
    told = {*re.findall(r"`(\w+Error)`", (ROOT / "docs" / "howto" / "when_a_run_fails.md").read_text())}
    cubes = {*re.findall(r"`(\w+Error)`", (ROOT / "docs" / "cube_queries.md").read_text())}
    classes = {
        name for name, found in inspect.getmembers(hipslake.errors, inspect.isclass) if name.endswith("Error")
    }
    assert classes - told - cubes == {"HipslakeError"}  # what all of them are
    assert told <= classes


def test_every_variable_is_told_and_read() -> None:
    assert airflow_home.HOME.exists()  # Airflow is imported below, and has to be that of the tests
    from tests.docs.variables import PROJECT, read_in

    told = {
        name for page in PAGES for name in re.findall(r"\bHIPSLAKE_[A-Z0-9_]+", (ROOT / page).read_text())
    }
    assert told <= read_in(*PROJECT, "tests")
    assert {name for name in read_in(*PROJECT) - told if not INTERNAL.fullmatch(name)} == set()


def test_every_dag_of_a_spec_is_told_with_its_tasks_and_its_form(dags: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| `(\w+)__<name>`(.*?) \| (.*?) \| (.*?) ?\|$", page, re.MULTILINE)
    assert len(rows) >= 8
    for pipeline, _, tasks, form in rows:
        made = [dag for dag_id, dag in dags.items() if dag_id.startswith(f"{pipeline}__")]
        fitting = [dag for dag in made if {*dag.task_ids} <= words(tasks) and {*dag.params} <= words(form)]
        assert fitting, f"{pipeline}: no DAG has tasks and params of {tasks} and {form}"
        assert {name for dag in made for name in dag.params} <= words(
            "".join(row[3] for row in rows if row[0] == pipeline)
        )


def words(cell: str) -> set[str]:
    """The words in a cell that stand as code."""
    return {*re.findall(r"`(\w+)`", cell)}
