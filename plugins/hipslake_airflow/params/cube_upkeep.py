"""The forms of the DAGs that see to cubes."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param

from hipslake_airflow.params.cube_query import cube_field, names_field, uri_field
from hipslake_airflow.params.fields import text_field


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
        "overwrite": Param(
            False,
            type="boolean",
            title="Overwrite",
            description="Replace datasets that the target has, as a version of it.",
        ),
    }


def stats_params(cubes: Sequence[str]) -> dict[str, Param]:
    """Return the params of a weighing."""
    return {
        "cube": cube_field(cubes),
        "version": Param(
            None, type=["null", "integer"], minimum=1, title="Version", description="Empty: the newest."
        ),
    }


def _dry_run(what: str) -> Param:
    return Param(True, type="boolean", title="Dry run", description=f"Only log what would be {what}.")
