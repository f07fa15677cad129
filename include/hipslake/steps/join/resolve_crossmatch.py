"""Resolve a cross-match: freeze the spec and the versions of both catalogs, and what the outcome will be."""

from __future__ import annotations

from typing import Any

from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.catalog.metadata import Association
from hipslake.catalog.moc_files import region_of
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import PositionSpec
from hipslake.specs.join_specs import CrossmatchSpec
from hipslake.specs.margin_spec import check_distances
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.given_files import check_region
from hipslake.steps.join.frozen_join import FrozenCrossmatch
from hipslake.steps.join.frozen_sides import frozen_side
from hipslake.steps.join.request import ResolveCrossmatchReport, ResolveCrossmatchRequest
from hipslake.steps.join.resolve_join import freeze, opened_sides, outcome_spec
from hipslake.steps.report import Phases


def run(request: ResolveCrossmatchRequest) -> ResolveCrossmatchReport:
    """Freeze the run.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        If a side is not published.
    RegionError
        If the region is none.
    SpecError, SchemaMismatchError, FilterError
        If the spec, an override of it, a column or a filter is wrong, or the right side has no sufficient
        margin.
    NotWritableError, NoSpaceError
        If the warehouse cannot take a catalog.
    """
    phases = Phases()
    with phases("spec"):
        spec = request.spec or load_spec(request.spec_file, CrossmatchSpec)
        spec = spec.with_overrides(
            radius_arcsec=request.radius_arcsec,
            radius=_with_sigmas(spec, request.sigmas),
            threshold=request.threshold,
            missing_margin=request.missing_margin,
        )
    check_region(request.region, request.warehouse)
    region = None if request.region is None else region_of(request.region)
    with phases("catalogs"):
        left, right = opened_sides(request, spec)
        match = Crossmatch.of(
            (left.storage, left.metadata),
            (right.storage, right.metadata),
            spec.options,
            columns=(spec.left.columns, spec.right.columns),
            motions=(spec.left.motion, spec.right.motion),
            region=region,
            filters=(spec.left.filters, spec.right.filters),
            missing_margin=spec.missing_margin,
        )
        builds = not match.without_margin and not match.right.has_margin(match.reach_arcsec)
        if builds:
            _check_reach(match.reach_arcsec)

    told = None if region is None else str(region)  # a MOC file may change
    report = freeze(
        request,
        (left, right),
        outcome_spec(spec, (left, right), _place(match), _described(spec, match)),
        match.columns.schema,
        FrozenCrossmatch(
            spec=spec,
            left=frozen_side(left),
            right=frozen_side(right),
            region=told,
            shift_arcsec=match.shift_arcsec,
            radius_arcsec=None if spec.radius is None else match.radius_arcsec,
            builds_margin=match.reach_arcsec if builds else None,
            without_margin=match.without_margin,
        ),
        phases,
        association=_association(spec, match),
        region=told,
        inputs_text="without a margin" if match.without_margin else "",
    )
    return ResolveCrossmatchReport(
        **report.model_dump(),
        reach_arcsec=match.reach_arcsec,
        builds_margin=builds,
        without_margin=match.without_margin,
    )


def _with_sigmas(spec: CrossmatchSpec, sigmas: float | None) -> dict[str, Any] | None:
    """Return the radius of the spec with other sigmas; None where nothing is overridden."""
    if sigmas is None:
        return None
    if spec.radius is None:
        raise SpecError(f"{spec.name}: sigmas: the spec has one radius for all pairs; give radius_arcsec")
    return spec.radius.model_dump() | {"sigmas": sigmas}


def _check_reach(arcsec: float) -> None:
    """Refuse to build a margin that reaches too far for one."""
    try:
        check_distances((arcsec,))
    except ValueError as error:
        raise SpecError(f"missing_margin: {error}; match rows that move less, or a smaller radius") from None


def _place(match: Crossmatch) -> PositionSpec:
    """Return where rows of the outcome lie: where the left ones do, or by what an outer match adds."""
    left, right = match.left.position, match.right.position
    if (columns := match.options.placed_by) is not None:
        epoch = left.epoch if left.epoch == right.epoch else None
        return PositionSpec(ra=columns[0], dec=columns[1], epoch=epoch)
    kept = match.columns.left
    return left.model_copy(update={"ra": kept[left.ra], "dec": kept[left.dec]})


def _association(spec: CrossmatchSpec, match: Crossmatch) -> Association | None:
    """Return by which columns the outcome joins its two sides, if it is to say so."""
    if spec.association is None:
        return None
    told, columns = spec.association, match.columns
    for side, name, kept in ((match.left, told.left, columns.left), (match.right, told.right, columns.right)):
        if name not in kept:
            raise SpecError(
                f"association: the outcome keeps no column {name!r} of {side.metadata.catalog}; it keeps "
                f"{', '.join(kept)}"
            )
    return Association(
        primary_uri=match.left.storage.uri(),
        primary_column=told.left,
        primary_column_here=columns.left[told.left],
        join_uri=match.right.storage.uri(),
        join_column=told.right,
        join_column_here=columns.right[told.right],
        max_separation_arcsec=match.radius_arcsec,
    )


def _described(spec: CrossmatchSpec, match: Crossmatch) -> str:
    left = spec.left.described(match.left.metadata.catalog)
    right = spec.right.described(match.right.metadata.catalog)
    kinds = {
        "inner": "with",
        "left": "and, where there is one,",
        "anti": "without",
        "outer": "and, side by side where they match,",
    }
    epoch = f" at J{spec.epoch:g}" if spec.epoch is not None else ""
    where = f", {match.cut.region}" if match.cut is not None else ""
    apart = ", inside each leaf of the latter alone" if match.without_margin else ""
    return f"{left} {kinds[spec.how]} {right} within {spec.within}{epoch}{where}{apart}"
