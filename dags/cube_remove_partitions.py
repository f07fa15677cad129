"""Partitions of a cube go. One DAG; its form says which."""

from __future__ import annotations

from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.cube_documents import REMOVE_DOCUMENT
from hipslake_airflow.operators.cube import RemoveCubePartitionsOperator
from hipslake_airflow.params.cube import remove_partitions_params
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.spec_folders import CUBE_SPECS

with pipeline_dag(
    dag_id="cube_remove_partitions",
    description="Remove partitions of a cube",
    doc_md=REMOVE_DOCUMENT,
    params=remove_partitions_params([path.stem for path in find_specs(CUBE_SPECS)]),
    tags=["hipslake", "cube", "versions"],
):
    RemoveCubePartitionsOperator(task_id="remove")
