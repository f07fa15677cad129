"""The form of the DAG that exports."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param
from hipslake.specs.base import FORM_NAME_PATTERN
from hipslake.specs.export_formats import ExportFormat

from hipslake_airflow.params.fields import (
    columns_field,
    filters_field,
    listed_columns_field,
    region_field,
    switch_field,
    uri_field,
)
from hipslake_airflow.params.versions import proposed_versions, version_param


def export_params(catalogs: Sequence[str]) -> dict[str, Param]:
    """Return the params of an export; the catalogs of the specs are proposed, others may be typed."""
    return {
        "catalog": Param(
            type="string",
            pattern=FORM_NAME_PATTERN,
            maxLength=200,
            examples=list(catalogs),
            title="Catalog",
            description="The name of a published catalog.",
        ),
        "version": version_param("Empty: the newest.", proposed_versions("catalogs", *catalogs)),
        "changes_since": version_param(
            "Not the rows, but what changed in them since this version. Empty: the rows.",
            proposed_versions("catalogs", *catalogs),
            title="Changes since version",
        ),
        "key": listed_columns_field(
            "Key",
            "Of changes: columns that tell rows apart, so that updates are told. One per line. Empty: those "
            "of the catalog's spec, if it has a key.",
        ),
        "region": region_field("The part of the sky"),
        "columns": columns_field(),
        "filters": filters_field(),
        "format": Param(
            None,
            type=["null", "string"],
            enum=[None, *(each.value for each in ExportFormat)],
            title="Format",
            description="Empty: by the ending of the output.",
        ),
        "output": uri_field(
            "Output",
            "Path or URI of the file. A relative path, bright.parquet, lies below exports/ of the warehouse.",
        ),
        "overwrite": switch_field("Overwrite", "Replace what lies at the output."),
    }
