"""Leaves that gathered many files get one sorted file each: a DAG per spec of mode append, add_file."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.operators.catalog import CompactCatalogOperator
from hipslake_airflow.params.catalog import compact_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.schedules import schedule_of
from hipslake_airflow.shared_dags import catalog_dag

NAME = "catalog_compact"


def catalog_compact(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG | None:
    """Return the DAG that compacts one catalog; None where leaves never gather files."""
    if not spec.gathers:
        return None
    return catalog_dag(
        NAME,
        spec,
        path,
        CompactCatalogOperator,
        description=f"Compact {spec.name}",
        tag="compact",
        params=compact_params(spec),
        schedule=schedule_of(spec.compact.schedule, [catalog_asset(spec.name)]),
    )


PIPELINE = SpecPipeline(NAME, CatalogSpec, catalog_compact)
