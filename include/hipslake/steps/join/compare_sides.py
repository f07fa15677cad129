"""What of the last outcome a run can take over, by the versions of the sides that it was made of."""

from __future__ import annotations

from contextlib import ExitStack

from hipslake.catalog.changed_places import changed_places, has_columns_of
from hipslake.catalog.hats.point_map import MAP_ORDER
from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.kept_files import why_not_kept
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import check_columns
from hipslake.errors import (
    CatalogFormatError,
    ConflictError,
    HipslakeError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.join.frozen_join import FrozenCrossmatch, FrozenEquijoin
from hipslake.steps.join.frozen_sides import open_side
from hipslake.steps.join.standing_outcome import StandingOutcome
from hipslake.steps.join.state import only_group
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import keep_for_reading

MOST_CHANGED = 0.6
"""Of the rows of the outcome: where more may have changed, all are joined anew, which takes about as long."""


def standing_outcome(
    held: ExitStack, frozen: FrozenRun, told: FrozenCrossmatch | FrozenEquijoin, join: CatalogJoin
) -> StandingOutcome | str:
    """Return the last version of the outcome, and where it is joined anew; or why all rows are to be joined.

    Metadata alone are read, a listing of the leaves of the outcome, and the footer of one; for motions and
    for errors of positions the footers of all leaves of the sides, as they bound how far rows reach.

    Parameters
    ----------
    held : ExitStack
        Keeps the versions that are read from vacuums, as long as it is open.
    frozen : FrozenRun
    told : FrozenCrossmatch or FrozenEquijoin
    join : CatalogJoin
        As it was opened of the frozen join.
    """
    last = told.base.last
    if last is None:
        return told.base.full_because or "the run has frozen no earlier version"
    if join.sees_all_rows is not None:
        return join.sees_all_rows
    catalog = Storage.at(frozen.catalog_uri)
    try:
        keep_for_reading(held, catalog, last.version)
        metadata = CatalogMetadata.from_json(VersionLog(catalog).read(last.version))
        if (other := _other_leaves(metadata, frozen.spec, join)) is not None:
            return other
        if (lost := why_not_kept(catalog, metadata.groups[0], f"version {metadata.version}")) is not None:
            return lost
        for side in last.sides:
            keep_for_reading(held, Storage.at(side.uri), side.version)
        before, now = ([open_side(side) for side in sides] for sides in (last.sides, told.sides))
    except (VersionNotFoundError, ConflictError, CatalogFormatError, VerificationError) as error:
        return f"the last version, or one that it was made of, cannot be opened: {error}"
    changes = []
    for then, opened in zip(before, now, strict=True):
        if not has_columns_of(then.metadata, opened.metadata):
            return f"{opened.uri} had other columns in version {then.version}"
        changes.append(changed_places(opened.storage, then.metadata, opened.metadata))
    try:
        joined_before = told.of_other_versions(before)
    except HipslakeError as error:
        return f"the versions that the last one was made of cannot be joined: {error}"
    if joined_before.sees_all_rows is not None:
        return f"of the versions that the last one was made of, {joined_before.sees_all_rows}"
    return _with_changes(StandingOutcome(catalog, metadata, join.touched_by(changes, joined_before)), frozen)


def _with_changes(standing: StandingOutcome, frozen: FrozenRun) -> StandingOutcome | str:
    """The outcome with whole cells of its coverage as changed."""
    cells, spec = standing.coverage, frozen.spec
    order = min(MAP_ORDER, max(spec.mapping_order, spec.lowest_order))
    if (cells.order != order).any() or spec.lowest_order > order:
        return f"version {standing.metadata.version} does not tell at order {order} where rows lie"
    whole = StandingOutcome(standing.catalog, standing.metadata, standing.changed.in_pixels_of(order))
    if whole.share > MOST_CHANGED:
        return f"{100 * whole.share:.0f}% of its rows lie where they may have changed"
    return whole


def _other_leaves(metadata: CatalogMetadata, spec: CatalogSpec, join: CatalogJoin) -> str | None:
    """Why this run would write a leaf otherwise than that version has it, though its rows were the same."""
    which, name = f"version {metadata.version}", only_group(spec)
    schema = check_columns(spec, join.columns.schema)[name]
    if [group.name for group in metadata.groups] != [name] or metadata.gathers:
        return f"{which} has other column groups, or several files in a leaf"
    (group,) = metadata.groups
    if not group.to_arrow().equals(schema, check_metadata=True):
        return f"the columns of {which} are not those of the outcome, or described in other words"
    if group.parquet != spec.parquet or group.threshold != spec.threshold_of(name):
        return f"{which} has another threshold, or files of another form"
    return None
