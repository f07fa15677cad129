"""The form of the DAG that makes a HiPS of a catalog."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param
from hipslake.specs.hips_spec import HipsOptions

from hipslake_airflow.params.fields import (
    LONGEST_URI,
    columns_field,
    filters_field,
    region_field,
    switch_field,
)
from hipslake_airflow.params.versions import proposed_versions, version_param

_MOST_ROWS = 100_000
_IVOID = r"^ivo://[A-Za-z0-9][A-Za-z0-9._-]{2,}(/\S*)?(?!\n)$"
_URL = r"^https?://[^\s@]+(?!\n)$"
_TILES, _PUBLISHING = "Tiles", "Publishing"


def hips_params(name: str, asked: HipsOptions | None = None) -> dict[str, Param]:
    """Return the params of a HiPS of a catalog; by default they are what its spec asks for."""
    fields = _fields(name)
    for key, value in (asked or HipsOptions()).model_dump(mode="json", include=set(fields)).items():
        fields[key].value = value
    return fields


def _fields(name: str) -> dict[str, Param]:
    return {
        "version": version_param("Empty: the newest.", proposed_versions("catalogs", name)),
        "order_by": Param(
            None,
            type=["null", "string"],
            maxLength=1000,
            title="Order by",
            description="The column whose smallest values are shown first, such as a magnitude. Empty: rows "
            "are shown at random.",
        ),
        "descending": switch_field("Descending", "Show the largest values first."),
        "columns": columns_field("all. The position is always there"),
        "filters": filters_field(),
        "region": region_field("The part of the sky"),
        "tile_rows": _number(
            500,
            1,
            _MOST_ROWS,
            "Rows of a tile",
            "At most, of order 3 and finer; all that are left, of the last.",
        ),
        "allsky_rows": _number(
            60,
            1,
            _MOST_ROWS,
            "Rows of a coarse tile",
            "At most, of orders 1 and 2, which clients load at once.",
        ),
        "deepest_order": _number(
            12,
            3,
            29,
            "Last order",
            "Of the finest tiles: 12 is 52 arcsec. Where few rows are left, tiles end before.",
        ),
        "coverage_order": _number(10, 0, 29, "Order of the coverage", "Of the MOC: 10 is 3.4 arcmin."),
        "output": _text(
            "Output",
            "Path or URI of the folder that holds a folder for each version. Empty: "
            f"exports/hips/{name} of the warehouse; other relative paths lie below exports/, too.",
        ),
        "service_url": _text(
            "Service URL",
            "Where the output is served, for the list of HiPS: https://example.org/hips/stars.",
            pattern=_URL,
        ),
        "creator_did": _text(
            "Identifier",
            f"The IVOA identifier of the HiPS. Empty: ivo://UNK.AUTH/C/{name}, of no authority.",
            pattern=_IVOID,
        ),
        "public": Param(
            False,
            type="boolean",
            title="Public",
            description="Whether hips_status says public, and not private.",
            section=_PUBLISHING,
        ),
        "keep_versions": _number(
            2, 1, 1000, "Versions that stay", "The HiPS of so many of the newest versions stay.", _PUBLISHING
        ),
    }


def _number(default: int, least: int, most: int, title: str, help_text: str, section: str = _TILES) -> Param:
    return Param(
        default,
        type="integer",
        minimum=least,
        maximum=most,
        title=title,
        description=help_text,
        section=section,
    )


def _text(title: str, help_text: str, **more: Any) -> Param:
    return Param(
        None,
        type=["null", "string"],
        maxLength=LONGEST_URI,
        title=title,
        description=help_text,
        section=_PUBLISHING,
        **more,
    )
