"""Resolve a cross-match: freeze the spec and the versions of all catalogs, and what the outcome will be."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.joining.crossmatch import Crossmatch
from hipslake.catalog.joining.pairing import Pairing
from hipslake.catalog.joining.small_sides import told_of_sides
from hipslake.catalog.metadata import Association
from hipslake.catalog.moc_files import region_of
from hipslake.errors import SpecError
from hipslake.joins.pair_scores import scoring_text
from hipslake.specs.catalog_spec import PositionSpec
from hipslake.specs.join_specs import CrossmatchSpec
from hipslake.specs.margin_spec import check_distances
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.given_files import check_region
from hipslake.steps.join.frozen_join import FrozenCrossmatch, FrozenRight, pairings_of
from hipslake.steps.join.frozen_sides import frozen_side
from hipslake.steps.join.request import ResolveCrossmatchReport, ResolveCrossmatchRequest, ResolvedRight
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
        If the spec, an override of it, a column or a filter is wrong, or a right side has no sufficient
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
        sides = opened_sides(request, spec)
        match = Crossmatch.of(pairings_of(spec, sides), region)
        first, *further = (_frozen(side, each) for side, each in zip(sides[1:], match.pairings, strict=True))

    told = None if region is None else str(region)  # a MOC file may change
    report = freeze(
        request,
        sides,
        outcome_spec(spec, sides, _place(match), _described(spec, match)),
        match.columns.schema,
        FrozenCrossmatch(
            spec=spec,
            left=frozen_side(sides[0]),
            right=first.side,
            region=told,
            shift_arcsec=first.shift_arcsec,
            radius_arcsec=first.radius_arcsec,
            builds_margin=first.builds_margin,
            without_margin=first.without_margin,
            small=first.small,
            further=tuple(further),
        ),
        phases,
        association=_association(spec, match),
        region=told,
        inputs_text=_inputs_text(match),
    )
    others = zip(match.pairings[1:], further, strict=True)
    return ResolveCrossmatchReport(
        **report.model_dump(),
        reach_arcsec=match.pairings[0].reach_arcsec,
        builds_margin=first.builds_margin is not None,
        without_margin=first.without_margin,
        small_side=first.small,
        small_side_because=_sizes(match.pairings[0]),
        further=tuple(
            ResolvedRight(
                catalog=pairing.right.metadata.catalog,
                version=right.side.version,
                reach_arcsec=pairing.reach_arcsec,
                builds_margin=right.builds_margin is not None,
                without_margin=right.without_margin,
                small_side=right.small,
                small_side_because=_sizes(pairing),
            )
            for pairing, right in others
        ),
    )


def _inputs_text(match: Crossmatch) -> str:
    """Return what decides the outcome and stands in no spec: sides without a margin, and how pairs score."""
    without = [str(at) for at, each in enumerate(match.pairings) if each.without_margin]
    scores = [each.options.score for each in match.pairings if each.options.score is not None]
    told = [f"without margins of {', '.join(without)}"] if without else []
    return " ".join([*told, *(sha256(scoring_text(score.function).encode()).hexdigest() for score in scores)])


def _frozen(side: CatalogReader, pairing: Pairing) -> FrozenRight:
    """Return what the run remembers of a right side."""
    needs_margin = not pairing.without_margin and pairing.small is None
    builds = needs_margin and not pairing.right.has_margin(pairing.reach_arcsec)
    if builds:
        _check_reach(pairing.reach_arcsec)
    return FrozenRight(
        side=frozen_side(side),
        shift_arcsec=pairing.shift_arcsec,
        radius_arcsec=None if pairing.options.radius is None else pairing.radius_arcsec,
        builds_margin=pairing.reach_arcsec if builds else None,
        without_margin=pairing.without_margin,
        small=pairing.small,
    )


def _sizes(pairing: Pairing) -> str:
    return told_of_sides(pairing.left, pairing.right)


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
    first = match.pairings[0]
    left, right = first.left.position, first.right.position
    if (columns := first.options.placed_by) is not None:
        epoch = left.epoch if left.epoch == right.epoch else None
        return PositionSpec(ra=columns[0], dec=columns[1], epoch=epoch)
    kept = match.columns.left
    return left.model_copy(update={"ra": kept[left.ra], "dec": kept[left.dec]})


def _association(spec: CrossmatchSpec, match: Crossmatch) -> Association | None:
    """Return by which columns the outcome joins its two sides, if it is to say so."""
    if spec.association is None:
        return None
    told, columns, (pairing,) = spec.association, match.columns, match.pairings
    sides = (pairing.left, told.left, columns.left), (pairing.right, told.right, columns.right)
    for side, name, kept in sides:
        if name not in kept:
            raise SpecError(
                f"association: the outcome keeps no column {name!r} of {side.metadata.catalog}; it keeps "
                f"{', '.join(kept)}"
            )
    return Association(
        primary_uri=pairing.left.storage.uri(),
        primary_column=told.left,
        primary_column_here=columns.left[told.left],
        join_uri=pairing.right.storage.uri(),
        join_column=told.right,
        join_column_here=columns.right[told.right],
        max_separation_arcsec=pairing.radius_arcsec,
    )


def _described(spec: CrossmatchSpec, match: Crossmatch) -> str:
    left = spec.left.described(match.left.metadata.catalog)
    kinds = {
        "inner": "with",
        "left": "and, where there is one,",
        "anti": "without",
        "outer": "and, side by side where they match,",
    }
    told = []
    for side, rule, pairing in zip(spec.sides[1:], spec.rules, match.pairings, strict=True):
        right = side.described(pairing.right.metadata.catalog)
        epoch = f" at J{rule.epoch:g}" if rule.epoch is not None else ""
        apart = ", inside each leaf of the latter alone" if pairing.without_margin else ""
        told.append(f"{kinds[rule.how]} {right} within {rule.within}{epoch}{apart}")
    where = f", {match.cut.region}" if match.cut is not None else ""
    return f"{left} {'; '.join(told)}{where}"
