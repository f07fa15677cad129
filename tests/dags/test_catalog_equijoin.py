"""The DAGs of equi-joins: a spec each, run without Spark, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.dags.dag_runs import Load
from tests.steps.sources_of_objects import Lake, objects_table, sources_table

SPEC = """\
name: curves
type: equijoin
left: {catalog: objects}
right: {catalog: sources, filters: flux > 100 or time < 60500}
on: {id: object_id}
nested: {time: time}
margin: {arcsec: 60}
index: [id]
"""


def test_light_curves_are_made_once(
    load: Load, told: Callable[[], str], specs: Path, tmp_path: Path, airflow: Path
) -> None:
    lake = Lake(tmp_path)
    objects = objects_table(rows=300)
    lake.ingest_objects(objects)
    lake.ingest_sources(sources_table(objects, rows=900))
    joins = specs.parent / "joins"
    joins.mkdir()
    (joins / "curves.yaml").write_text(SPEC)
    (joins / "broken.yaml").write_text(SPEC.replace("curves", "broken").replace("left:", "links:"))
    dags = load()
    assert "catalog_equijoin__broken" not in dags
    assert "broken.yaml:3: links: unknown key; known keys are name, " in told()
    dag = dags["catalog_equijoin__curves"]
    tasks = ["resolve", "equijoin", "margin", "index", "verify", "publish", "view"]
    assert [task.task_id for task in dag.topological_sort()] == tasks
    assert set(dag.params) == {"threshold", "full", "force"}
    assert "| left | `objects`, by `id` |" in dag.doc_md
    assert "| right | `sources`, by `object_id`, rows with `flux > 100 or time < 60500` |" in dag.doc_md
    assert str(dag.test().state) == "success"
    assert lake.open("curves").schema.field("sources").type.num_fields == 5
    made = lake.open("curves")
    assert [margin.radius_arcsec for margin in made.metadata.margins] == [60.0]
    some = made.read(["id"])["id"].slice(0, 3)
    assert made.find("id", some).num_rows == 3
    again = load()["catalog_equijoin__curves"].test()
    states = {instance.task_id: str(instance.state) for instance in again.get_task_instances()}
    assert states["equijoin"] == "skipped"
    assert lake.open("curves").version == 1
