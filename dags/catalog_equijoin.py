"""Two catalogs are joined on a key: a DAG for every spec of type equijoin in include/specs/joins/."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.join_specs import EquijoinSpec
from hipslake.specs.yaml_file import find_specs, load_equijoin_spec, spec_type
from hipslake_airflow.documents import equijoin_document
from hipslake_airflow.join_dags import join_dag
from hipslake_airflow.operators.equijoin import EquiJoinOperator, ResolveEquijoinOperator
from hipslake_airflow.params.joins import join_params
from hipslake_airflow.spec_dags import dags_of
from hipslake_airflow.spec_folders import JOIN_SPECS

PIPELINE = "catalog_equijoin"


def catalog_equijoin(spec: EquijoinSpec, path: Path) -> DAG:
    """Return the DAG of one join."""
    return join_dag(
        PIPELINE,
        spec,
        path,
        document=equijoin_document(spec, path),
        params=join_params(spec),
        resolve=ResolveEquijoinOperator,
        join=EquiJoinOperator,
    )


paths = [path for path in find_specs(JOIN_SPECS) if spec_type(path) == "equijoin"]
globals().update(dags_of(PIPELINE, paths, load_equijoin_spec, catalog_equijoin))
