"""The DAGs of catalogs that are adopted: a version for each state, and no leaf copied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hipslake import Catalog
from hipslake_airflow.triggers.adopted_catalog import AdoptedCatalogTrigger

from tests.catalog.foreign_trees import tree_of
from tests.catalog.publishing import publish
from tests.dags.dag_runs import Load
from tests.steps.sources_of_objects import Lake

SPEC = """\
name: theirs
adopt: {uri: URI}
description: stars of others
margin: {arcsec: 60}
index: [id]
"""


def test_each_state_is_adopted_once(
    load: Load, told: Callable[[], str], specs: Path, tmp_path: Path, airflow: Path
) -> None:
    lake = Lake(tmp_path)
    tree = tree_of(publish(tmp_path / "published", rows=600), tmp_path / "tree")
    text = SPEC.replace("URI", str(tree))
    (specs / "theirs.yaml").write_text(text)
    (specs / "wrong.yaml").write_text(text.replace("theirs", "wrong").replace("index", "indeks"))
    dags = load()
    assert "catalog_adopt__wrong" not in dags
    assert "wrong.yaml:5: indeks: unknown key" in told()
    assert "catalog_ingest__theirs" not in dags
    assert {"catalog_verify__theirs", "catalog_vacuum__theirs"} <= set(dags)
    dag = dags["catalog_adopt__theirs"]
    assert [task.task_id for task in dag.topological_sort()] == ["watch", "resolve", "adopt", "view"]
    assert set(dag.params) == {"force", "wait_minutes"}
    assert f"| catalog of others | `{tree}`, whose leaves stay there |" in dag.doc_md
    assert str(dag.test().state) == "success"
    made = lake.open("theirs")
    assert made.metadata.total_rows == 600
    assert made.read(["id"]).num_rows == 600
    assert [margin.radius_arcsec for margin in made.metadata.margins] == [60.0]
    again = load()["catalog_adopt__theirs"].test()
    states = {instance.task_id: str(instance.state) for instance in again.get_task_instances()}
    assert states["watch"] == "skipped"
    assert lake.open("theirs").version == 1
    for name in ("properties", "hats.properties"):
        (tree / name).write_text((tree / name).read_text() + "hats_creation_date=2026-11-26T00:00UTC\n")
    assert str(load()["catalog_adopt__theirs"].test().state) == "success"
    assert lake.open("theirs").version == 2


def test_the_trigger_fires_when_the_catalog_changes(tmp_path: Path, airflow: Path) -> None:
    tree = tree_of(publish(tmp_path / "published", rows=600), tmp_path / "tree")
    spec = {"name": "theirs", "adopt": {"uri": str(tree)}}
    deadline = (datetime.now(UTC) + timedelta(seconds=0)).isoformat()
    trigger = AdoptedCatalogTrigger(spec=spec, warehouse=str(tmp_path / "lake"), deadline=deadline)
    kind, arguments = trigger.serialize()
    assert kind.endswith("AdoptedCatalogTrigger")
    assert asyncio.run(_first(AdoptedCatalogTrigger(**arguments))) == {"changed": True}
    from hipslake import adopt

    adopt(spec, warehouse=tmp_path / "lake")
    assert Catalog.open(tmp_path / "lake" / "catalogs" / "theirs").version == 1
    assert asyncio.run(_first(trigger)) == {"changed": False}
    (tree / "properties").unlink()
    (tree / "hats.properties").unlink()
    failure = asyncio.run(_first(trigger))["failure"]
    assert failure["kind"] == "CatalogNotFoundError"


async def _first(trigger: AdoptedCatalogTrigger) -> Any:
    async for event in trigger.run():
        return event.payload
    return None
