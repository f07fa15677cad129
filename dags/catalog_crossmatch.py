"""Two catalogs are matched by position: a DAG for every spec of type crossmatch in include/specs/joins/."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.join_specs import CrossmatchSpec
from hipslake.specs.yaml_file import find_specs, load_crossmatch_spec, spec_type
from hipslake_airflow.documents import crossmatch_document
from hipslake_airflow.join_dags import join_dag
from hipslake_airflow.operators.crossmatch import CrossmatchOperator, ResolveCrossmatchOperator
from hipslake_airflow.params.joins import crossmatch_params
from hipslake_airflow.spec_dags import dags_of
from hipslake_airflow.spec_folders import JOIN_SPECS

PIPELINE = "catalog_crossmatch"


def catalog_crossmatch(spec: CrossmatchSpec, path: Path) -> DAG:
    """Return the DAG of one cross-match."""
    return join_dag(
        PIPELINE,
        spec,
        path,
        document=crossmatch_document(spec, path),
        params=crossmatch_params(spec),
        resolve=ResolveCrossmatchOperator,
        join=CrossmatchOperator,
    )


paths = [path for path in find_specs(JOIN_SPECS) if spec_type(path) == "crossmatch"]
globals().update(dags_of(PIPELINE, paths, load_crossmatch_spec, catalog_crossmatch))
