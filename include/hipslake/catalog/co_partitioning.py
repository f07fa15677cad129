"""The marks of co-partitioned columns: what a version says of them, and when two columns share their pixels.

A column is marked if all its rows of equal values have one `_healpix_29`: then they lie in one pixel at every
order, so in one leaf, whatever the leaves of the catalog are. That alone does not say where the values of
another catalog lie. So a mark also says whose positions placed the values: those of objects, in certain
increments of their catalog, or the catalog's own. Of two columns whose values were placed by the same
objects, equal values have the same `_healpix_29`, and are found in leaves that overlap.
"""

from __future__ import annotations

from hipslake.catalog.metadata import CatalogMetadata, CoPartitioned, PlacingObjects
from hipslake.errors import CoPartitionError, SpecError
from hipslake.specs.catalog_spec import CatalogSpec


def marks_of(
    spec: CatalogSpec, objects_writes: tuple[str, ...] | None, *, objects_move: bool = False, unmatched: int
) -> tuple[CoPartitioned, ...]:
    """The marks of a version that one run makes.

    Parameters
    ----------
    spec : CatalogSpec
    objects_writes : tuple of str or None
        The increments of the objects that rows were placed by; None where the spec has no `position_from`.
    objects_move : bool
        Whether increments of theirs may move objects.
    unmatched : int
        Rows with an id of no object, which were placed by their own positions: they leave the column
        unmarked.
    """
    marks = [CoPartitioned(column=column) for column in spec.co_partitioned]
    given = spec.position_from
    if given is not None and objects_writes is not None and not unmatched:
        objects = PlacingObjects(
            catalog=given.catalog,
            column=given.key,
            writes=objects_writes,
            moves=True if objects_move else None,
        )
        marks.append(CoPartitioned(column=given.column, objects=objects))
    return tuple(marks)


def marks_after(base: CatalogMetadata | None, marks: tuple[CoPartitioned, ...]) -> tuple[CoPartitioned, ...]:
    """The marks of a version that comes after another by an increment which alone would have `marks`.

    Raises
    ------
    SpecError
        The objects are no longer those that the rows before were placed by.
    """
    if base is None:
        return marks
    found = []
    for mark in marks:
        standing = base.mark_of(mark.column)
        if standing is None:  # rows before it have ids of no object
            continue
        objects = _together(standing.objects, mark.objects)
        if mark.objects is not None and objects is None:
            raise SpecError(
                f"the rows of {base.catalog}, version {base.version}, lie where the objects of catalog "
                f"{mark.objects.catalog} were, and those were replaced since; ingest {base.catalog} anew, or "
                f"roll {mark.objects.catalog} back"
            )
        found.append(mark.model_copy(update={"objects": objects}))
    return tuple(found)


def check_joinable(left: CatalogMetadata, right: CatalogMetadata, on: tuple[str, str]) -> None:
    """Whether equal values of two columns are in leaves that overlap, by what the versions say.

    Parameters
    ----------
    left, right : CatalogMetadata
    on : (str, str)
        The column of each.

    Raises
    ------
    CoPartitionError
        It is not known; the message names the column and the ways out.
    """
    sides = ((left, on[0]), (right, on[1]))
    ways_out = _ways_out(*sides[0], *sides[1])
    for metadata, column in sides:
        if metadata.mark_of(column) is None:
            marked = ", ".join(mark.column for mark in metadata.co_partitioned) or "none"
            raise CoPartitionError(
                f"column {column!r} of catalog {metadata.catalog}, version {metadata.version}, is not marked "
                f"as co-partitioned (marked: {marked}), so its equal values may lie in any pixel. {ways_out}"
            )
    first, second = (_placing(metadata, column) for metadata, column in sides)
    if (first.catalog, first.column) != (second.catalog, second.column):
        raise CoPartitionError(
            f"{left.catalog}.{on[0]} lies where {first.catalog}.{first.column} does, and "
            f"{right.catalog}.{on[1]} where {second.catalog}.{second.column} does: equal values need not be "
            f"near each other. {ways_out}"
        )
    if _together(first, second) is None:
        raise CoPartitionError(
            f"{left.catalog}.{on[0]}, version {left.version}, and {right.catalog}.{on[1]}, version "
            f"{right.version}, were placed by different rows of {first.catalog}: they were replaced in "
            f"between. {ways_out}"
        )


def _together(first: PlacingObjects | None, second: PlacingObjects | None) -> PlacingObjects | None:
    """The larger of two sets of increments of the same objects, if it has all of the other; else None.

    Where increments move objects, only equal sets place them alike.
    """
    if first is None or second is None or first.catalog != second.catalog or first.column != second.column:
        return None
    if (first.moves or second.moves) and set(first.writes) != set(second.writes):
        return None
    if set(first.writes) <= set(second.writes):
        return second
    return first if set(second.writes) <= set(first.writes) else None


def _placing(metadata: CatalogMetadata, column: str) -> PlacingObjects:
    """The objects that placed the values of a marked column; its own rows if none did."""
    mark = metadata.mark_of(column)
    assert mark is not None
    own = PlacingObjects(
        catalog=metadata.catalog,
        column=column,
        writes=metadata.increment_writes,
        moves=True if metadata.rows_move else None,
    )
    return mark.objects or own


def _ways_out(left: CatalogMetadata, key: str, right: CatalogMetadata, column: str) -> str:
    return (
        f"Two ways out: ingest {right.catalog} with 'position_from: {{catalog: {left.catalog}, "
        f"on: {{{column}: {key}}}}}' (and {left.catalog} with 'co_partitioned: [{key}]'), or give "
        "shuffle=True, which finds every pair at the cost of a shuffle. Where the rows of "
        f"{right.catalog} fit into memory, gather=True ('gather: true' in a spec) finds every pair, too"
    )
