"""The forms of the DAGs that join catalogs."""

from __future__ import annotations

from airflow.sdk import Param
from hipslake.specs.error_columns import MAX_SIGMAS
from hipslake.specs.join_specs import MAX_RADIUS_ARCSEC, CrossmatchSpec, JoinSpec

from hipslake_airflow.params.fields import force_field, region_field, switch_field, threshold_field


def crossmatch_params(spec: CrossmatchSpec) -> dict[str, Param]:
    """Return the params of a cross-match, with types, bounds and help."""
    return {
        **_radius_params(spec),
        "missing_margin": Param(
            spec.missing_margin,
            type="string",
            enum=["refuse", "build", "none"],
            title="Where a right catalog has no such margin",
            description="Fail and say what to build, build one for this run alone, beside it, or do without: "
            "then partners in other leaves of that catalog are missing, and the report says of how many "
            "rows at most.",
        ),
        "region": region_field("Only rows of the left catalog in a part of the sky"),
        **join_params(spec),
    }


def _radius_params(spec: CrossmatchSpec) -> dict[str, Param]:
    """Return the param that says how near rows have to be: a radius, or sigmas of their errors."""
    if spec.radius is None:
        return {
            "radius_arcsec": Param(
                spec.radius_arcsec,
                type="number",
                exclusiveMinimum=0,
                maximum=MAX_RADIUS_ARCSEC,
                title="Radius (arcsec)",
                description="Largest separation of a pair. The right catalog needs a margin of at least "
                "that.",
            )
        }
    return {
        "sigmas": Param(
            spec.radius.sigmas,
            type="number",
            exclusiveMinimum=0,
            maximum=MAX_SIGMAS,
            title="Sigmas",
            description="How many times the position errors count that say the radius of each pair. The "
            "right catalog needs a margin of at least the largest such radius.",
        )
    }


def join_params(spec: JoinSpec) -> dict[str, Param]:
    """Return the params of any join of catalogs."""
    return {
        "threshold": threshold_field(f"Empty: as the spec says ({spec.threshold})."),
        "full": switch_field(
            "Join all rows",
            "Also those that the last version has as they are. Else only what may have changed is joined, "
            "which gives the same.",
        ),
        "force": force_field("all catalogs, spec and library are unchanged"),
    }
