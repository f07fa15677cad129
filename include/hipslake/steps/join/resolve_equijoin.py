"""Resolve an equi-join: freeze the spec and the versions of both catalogs, and what the outcome will be."""

from __future__ import annotations

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.placement import icrs_position
from hipslake.specs.join_specs import EquijoinSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.join.frozen_join import FrozenEquijoin, join_of
from hipslake.steps.join.frozen_sides import frozen_side
from hipslake.steps.join.request import ResolveEquijoinReport, ResolveEquijoinRequest
from hipslake.steps.join.resolve_join import freeze, opened_sides, outcome_spec
from hipslake.steps.report import Phases


def run(request: ResolveEquijoinRequest) -> ResolveEquijoinReport:
    """Freeze the run.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        If a side is not published.
    CoPartitionError
        If the keys are not known to share their pixels.
    SpecError, SchemaMismatchError, FilterError
        If the spec, an override of it, a column or a filter is wrong.
    NotWritableError, NoSpaceError
        If the warehouse cannot take a catalog.
    """
    phases = Phases()
    with phases("spec"):
        spec = request.spec or load_spec(request.spec_file, EquijoinSpec)
        spec = spec.with_overrides(threshold=request.threshold)
    with phases("catalogs"):
        left, right = opened_sides(request, spec)
        columns = _with_place(spec.left.columns, left)
        join = join_of(spec, left, right, columns)
    place, kept = icrs_position(left.metadata), join.columns.left
    place = place.model_copy(update={"ra": kept[place.ra], "dec": kept[place.dec]})
    report = freeze(
        request,
        (left, right),
        outcome_spec(spec, (left, right), place, _described(spec, left, right)),
        join.columns.schema,
        FrozenEquijoin(spec=spec, left=frozen_side(left), right=frozen_side(right), left_columns=columns),
        phases,
    )
    return ResolveEquijoinReport(**report.model_dump())


def _described(spec: EquijoinSpec, left: CatalogReader, right: CatalogReader) -> str:
    kinds = {"inner": "with", "left": "and, where there are any,", "anti": "without"}
    kind = "with nested" if spec.nested else kinds[spec.how]
    return f"{spec.left.described(left.name)} {kind} {spec.right.described(right.name)}"


def _with_place(columns: tuple[str, ...] | None, left: CatalogReader) -> tuple[str, ...] | None:
    """The columns that are kept of the left side, and those that say where its rows lie."""
    if columns is None:
        return None
    place = icrs_position(left.metadata)
    return tuple(dict.fromkeys([*columns, place.ra, place.dec]))
