"""Two catalogs are joined on a key: a DAG for every spec of type equijoin in include/specs/joins/."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.join_specs import EquijoinSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.join_dags import join_dag
from hipslake_airflow.operators.join import EquiJoinOperator, ResolveEquijoinOperator
from hipslake_airflow.params.joins import join_params
from hipslake_airflow.pipeline import SpecPipeline

NAME = "catalog_equijoin"


def catalog_equijoin(spec: EquijoinSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG of one join."""
    return join_dag(
        NAME,
        spec,
        path,
        params=join_params(spec),
        resolve=ResolveEquijoinOperator,
        join=EquiJoinOperator,
    )


PIPELINE = SpecPipeline(NAME, EquijoinSpec, catalog_equijoin)
