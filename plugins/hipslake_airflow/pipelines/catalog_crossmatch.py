"""Two catalogs are matched by position: a DAG for every spec of type crossmatch in include/specs/joins/."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.join_specs import CrossmatchSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.join_dags import join_dag
from hipslake_airflow.operators.join import CrossmatchOperator, ResolveCrossmatchOperator
from hipslake_airflow.params.joins import crossmatch_params
from hipslake_airflow.pipeline import SpecPipeline

NAME = "catalog_crossmatch"


def catalog_crossmatch(spec: CrossmatchSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG of one cross-match."""
    return join_dag(
        NAME,
        spec,
        path,
        params=crossmatch_params(spec),
        resolve=ResolveCrossmatchOperator,
        join=CrossmatchOperator,
    )


PIPELINE = SpecPipeline(NAME, CrossmatchSpec, catalog_crossmatch)
