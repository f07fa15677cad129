"""Rows of a catalog go to a Parquet, CSV, FITS or VOTable file. One DAG; its form says which and where to."""

from __future__ import annotations

from functools import partial

from hipslake_airflow.operators.exports import ExportCatalogOperator
from hipslake_airflow.params.export import export_params
from hipslake_airflow.shared_dags import form_pipeline

PIPELINE = form_pipeline(
    "catalog_export",
    export_params,
    partial(ExportCatalogOperator, task_id="export"),
    description="Export rows of a catalog",
    tag="export",
)
