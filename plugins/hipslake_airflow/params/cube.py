"""The forms of the DAGs of cubes."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.export_formats import ExportFormat

from hipslake_airflow.params.fields import LONGEST_URI, switch_field, text_field, uri_field
from hipslake_airflow.params.versions import proposed_versions, version_param

_MODES = {
    "align": "align: add what is missing, read again what has changed",
    "build": "build: write all datasets anew",
    "extend": "extend: write the chosen datasets anew",
    "append": "append: add the rows of the chosen datasets, the last write wins",
}


def build_params(spec: CubeSpec) -> dict[str, Param]:
    """Return the params of a run that builds a cube."""
    names = sorted(spec.datasets)
    return {
        "mode": Param(
            "align",
            type="string",
            enum=list(_MODES),
            values_display=_MODES,
            title="Mode",
            description="What becomes of the datasets. All of it is one version.",
        ),
        "datasets": Param(
            [],
            type="array",
            items={"type": "string", "enum": names},
            examples=names,
            uniqueItems=True,
            title="Datasets",
            description="Those that the mode is about. Empty: all of the spec.",
        ),
        "overwrite": switch_field("Overwrite", "Whether the modes build and extend may replace what stands."),
        **align_params(spec),
    }


def align_params(spec: CubeSpec) -> dict[str, Param]:
    """Return the params of a run that aligns a cube."""
    return {
        "force": switch_field(
            "Force",
            "Read all sources again, also those that have not changed. Only partitions that come out "
            "other than they stand are replaced.",
        )
    }


_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_CONDITIONS = (
    "ok and mag between 9 and 12 and HIP in (1, 2) and period is not null; columns whose names are no words "
    'stand in double quotes: "B-V" > 0.5. '
)


def query_params(cubes: Sequence[str]) -> dict[str, Param]:
    """Return the params of a query; the cubes of the specs are proposed, others may be typed."""
    return {
        "cube": cube_field(cubes),
        "version": version_param("Empty: the newest.", proposed_versions("cubes", *cubes)),
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
        maxLength=LONGEST_URI,
        examples=list(cubes),
        title="Cube",
        description="The name of a cube of the warehouse, or the URI of one.",
    )


def names_field(title: str, help_text: str) -> Param:
    """Names, one per line; none at all is null."""
    return Param(
        None, type=["null", "array"], items=_NAME, maxItems=10_000, title=title, description=help_text
    )


def remove_partitions_params(cubes: Sequence[str]) -> dict[str, Param]:
    """Return the params of a removal of partitions."""
    return {
        "cube": cube_field(cubes),
        "conditions": text_field(
            "Conditions",
            "Which partitions: conditions on partition columns, such as pixel in (12, 13) and night < 400.",
            10_000,
        ),
        "datasets": names_field(
            "Datasets", "Of which datasets; each is partitioned by the columns of the conditions. Empty: all."
        ),
        "dry_run": _dry_run("removed"),
    }


def delete_params(cubes: Sequence[str]) -> dict[str, Param]:
    """Return the params of a deletion."""
    return {
        "cube": cube_field(cubes),
        "datasets": names_field(
            "Datasets",
            "Only these, not the seed: the next version is without them, and older ones stay. Empty: the "
            "whole cube, with all versions and files.",
        ),
        "confirm": Param(
            "",
            type="string",
            maxLength=200,
            title="Name once more",
            description="The name of the cube; of a URI, its last part.",
        ),
        "dry_run": _dry_run("deleted"),
    }


def copy_params(cubes: Sequence[str]) -> dict[str, Param]:
    """Return the params of a copy."""
    return {
        "cube": cube_field(cubes),
        "target": uri_field(
            "Target", "The name that the copy gets in the warehouse, or the URI of its folder."
        ),
        "datasets": names_field(
            "Datasets", "Only these; the seed is one of them, unless the target has it. Empty: all."
        ),
        "overwrite": switch_field("Overwrite", "Replace datasets that the target has, as a version of it."),
    }


def stats_params(cubes: Sequence[str]) -> dict[str, Param]:
    """Return the params of a weighing."""
    return {
        "cube": cube_field(cubes),
        "version": version_param("Empty: the newest.", proposed_versions("cubes", *cubes)),
    }


def _dry_run(what: str) -> Param:
    return switch_field("Dry run", f"Only log what would be {what}.", on=True)
