"""The forms of the DAGs that build cubes, and align them."""

from __future__ import annotations

from airflow.sdk import Param
from hipslake.specs.cube_spec import CubeSpec

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
        "overwrite": Param(
            False,
            type="boolean",
            title="Overwrite",
            description="Whether the modes build and extend may replace what stands.",
        ),
        **align_params(spec),
    }


def align_params(spec: CubeSpec) -> dict[str, Param]:
    """Return the params of a run that aligns a cube."""
    return {
        "force": Param(
            False,
            type="boolean",
            title="Force",
            description=(
                "Read all sources again, also those that have not changed. Only partitions that come out "
                "other than they stand are replaced."
            ),
        )
    }
