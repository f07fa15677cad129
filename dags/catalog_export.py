"""Rows of a catalog go to one Parquet, CSV or FITS file. One DAG; its form says which rows, and where to."""

from __future__ import annotations

from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.documents import EXPORT_DOCUMENT
from hipslake_airflow.operators.catalog import ExportCatalogOperator
from hipslake_airflow.params.export import export_params
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.spec_folders import CATALOG_SPECS

with pipeline_dag(
    dag_id="catalog_export",
    description="Export rows of a catalog",
    doc_md=EXPORT_DOCUMENT,
    params=export_params([path.stem for path in find_specs(CATALOG_SPECS)]),
    tags=["hipslake", "catalog", "export"],
):
    ExportCatalogOperator(task_id="export")
