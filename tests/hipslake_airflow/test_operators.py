"""Operators are made in every way that Airflow makes them: alone, mapped, and read from a stored DAG."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, Asset, BaseOperator
from airflow.serialization.serialized_objects import DagSerialization
from hipslake_airflow.operators.catalog import (
    AppendIncrementOperator,
    BuildHatsViewOperator,
    CompactCatalogOperator,
    FreezeInputsOperator,
    HistogramCatalogOperator,
    PlanPixelsOperator,
    PublishCatalogOperator,
    ResolveRunOperator,
    RollbackCatalogOperator,
    VacuumCatalogOperator,
    VerifyCatalogOperator,
    WritePartitionsOperator,
)
from hipslake_airflow.operators.cube import CleanUpCubeOperator
from hipslake_airflow.operators.table import (
    FreezeSinkFilesOperator,
    IcebergSinkOperator,
    ResolveSinkOperator,
)

OF_A_RUN: list[tuple[type[BaseOperator], dict[str, Any]]] = [
    (FreezeInputsOperator, {}),
    (HistogramCatalogOperator, {"spark_above_bytes": 1}),
    (PlanPixelsOperator, {}),
    (WritePartitionsOperator, {"conn_id": "cluster"}),
    (VerifyCatalogOperator, {"version": 3}),
    (PublishCatalogOperator, {"catalog": "stars"}),
    (AppendIncrementOperator, {"catalog": "stars", "spark_above_bytes": 1}),
    (CompactCatalogOperator, {}),
    (BuildHatsViewOperator, {}),
    (RollbackCatalogOperator, {"catalog": "stars"}),
    (FreezeSinkFilesOperator, {}),
    (IcebergSinkOperator, {"table": "stars", "spark_above_bytes": 1}),
]
PUBLISHING = (PublishCatalogOperator, AppendIncrementOperator, RollbackCatalogOperator)


@pytest.mark.parametrize(("kind", "arguments"), OF_A_RUN)
def test_operators_are_mapped_over_runs(kind: type[BaseOperator], arguments: dict[str, Any]) -> None:
    with DAG("mapped", schedule=None) as dag:
        kind.partial(task_id="step", **arguments).expand(run_uri=["a", "b"])
    task = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("step")
    assert task.is_mapped
    assert list(task.template_fields) == ["run_uri"]


@pytest.mark.parametrize(
    ("kind", "arguments", "templated"),
    [(kind, {"run_uri": "a", **arguments}, ["run_uri"]) for kind, arguments in OF_A_RUN]
    + [
        (ResolveRunOperator, {"spec_file": "stars.yaml", "warehouse": "s3://sky"}, []),
        (ResolveSinkOperator, {"spec_file": "stars.yaml"}, []),
        (VacuumCatalogOperator, {"catalog": "stars"}, []),
        (CleanUpCubeOperator, {"cube": "stars"}, []),
    ],
)
def test_stored_operators_keep_their_templates_and_outlets(
    kind: type[BaseOperator], arguments: dict[str, Any], templated: list[str]
) -> None:
    mine = Asset(name="mine", uri="x://mine")
    with DAG("stored", schedule=None) as dag:
        kind(task_id="step", outlets=[mine], **arguments)
    task = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("step")
    assert list(task.template_fields) == templated
    names = {outlet.name for outlet in task.outlets}
    own = (
        {"table/stars"} if kind is IcebergSinkOperator else {"catalog/stars"} if kind in PUBLISHING else set()
    )
    assert names == {"mine"} | own


@pytest.mark.parametrize("kind", PUBLISHING)
def test_who_publishes_has_to_say_what(kind: type[BaseOperator]) -> None:
    with pytest.raises(TypeError, match="catalog"):
        kind(task_id="step", run_uri="a")
