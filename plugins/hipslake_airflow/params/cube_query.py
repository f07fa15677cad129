"""The form of the DAG that queries cubes, and fields that others have too."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param
from hipslake.specs.export_formats import ExportFormat

from hipslake_airflow.params.fields import text_field

_LONGEST_URI = 2000
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_CONDITIONS = (
    "ok and mag between 9 and 12 and HIP in (1, 2) and period is not null; columns whose names are no words "
    'stand in double quotes: "B-V" > 0.5. '
)


def query_params(cubes: Sequence[str]) -> dict[str, Param]:
    """Return the params of a query; the cubes of the specs are proposed, others may be typed."""
    return {
        "cube": cube_field(cubes),
        "version": Param(
            None, type=["null", "integer"], minimum=1, title="Version", description="Empty: the newest."
        ),
        "columns": names_field("Columns", "Payload that is wanted, one per line. Empty: all."),
        "conditions": text_field("Conditions", f"Which rows: {_CONDITIONS}Empty: all.", 10_000),
        "partition_by": names_field(
            "Partition by", "Indexed columns: every group of their values gets a folder of its own."
        ),
        "dimension_columns": names_field(
            "Dimension columns", "Fewer than the cube's, for a projection. Empty: all."
        ),
        "datasets": names_field("Datasets", "Only what these know; the seed is one of them. Empty: all."),
        "format": Param(
            ExportFormat.PARQUET.value,
            type="string",
            enum=[each.value for each in ExportFormat],
            title="Format",
            description="Of the files.",
        ),
        "output": uri_field(
            "Output",
            "Path or URI of a folder that is not there yet. A relative path, bright, lies below exports/ of "
            "the warehouse.",
        ),
    }


def cube_field(cubes: Sequence[str]) -> Param:
    """Which cube, by its name or URI."""
    return Param(
        type="string",
        minLength=1,
        maxLength=_LONGEST_URI,
        examples=list(cubes),
        title="Cube",
        description="The name of a cube of the warehouse, or the URI of one.",
    )


def uri_field(title: str, help_text: str) -> Param:
    """A path or URI that has to be given."""
    return Param(type="string", minLength=1, maxLength=_LONGEST_URI, title=title, description=help_text)


def names_field(title: str, help_text: str) -> Param:
    """Names, one per line; none at all is null."""
    return Param(
        None, type=["null", "array"], items=_NAME, maxItems=10_000, title=title, description=help_text
    )
