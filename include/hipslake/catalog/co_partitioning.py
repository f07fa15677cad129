"""The marks of co-partitioned columns: what a version says of them, and when two columns share their pixels.

A column is marked if all its rows of equal values have one `_healpix_29`: then they lie in one pixel at every
order, so in one leaf, whatever the leaves of the catalog are. That alone does not say where the values of
another catalog lie. So a mark also says whose positions placed the values: those of objects, in certain
increments of their catalog, or the catalog's own. Of two columns whose values were placed by the same
objects, equal values have the same `_healpix_29`, and are found in leaves that overlap.

Objects may go, and their sources stay where they lie. What matters is that no object comes again at another
place than that of rows which it placed before. Where increments do not tell it, the objects of then and now
are compared (`hipslake.catalog.changed_objects`), and a mark keeps the objects that are gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from hipslake.catalog.metadata import CatalogMetadata, CoPartitioned, PlacingObjects
from hipslake.errors import ConflictError, CoPartitionError
from hipslake.specs.catalog_spec import CatalogSpec


@dataclass(frozen=True)
class MarkAfter:
    """The mark of a column whose rows were held against objects that changed since they were placed.

    Attributes
    ----------
    column : str
    before : PlacingObjects
        That the rows had been placed by.
    objects : PlacingObjects
        Those of now, where each of them that has rows lies where these do.
    version : int or None
        The version whose rows were looked at. None: no object has moved, so that any rows fit.
    """

    column: str
    before: PlacingObjects
    objects: PlacingObjects
    version: int | None


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


def marks_after(
    base: CatalogMetadata | None, marks: tuple[CoPartitioned, ...], compared: MarkAfter | None = None
) -> tuple[CoPartitioned, ...]:
    """The marks of a version that comes after another by an increment which alone would have `marks`.

    Parameters
    ----------
    base : CatalogMetadata or None
        The version before it.
    marks : tuple of CoPartitioned
    compared : MarkAfter, optional
        Where the objects are not those that rows of the version before were placed by: what came of it when
        they were compared.

    Raises
    ------
    ConflictError
        They have to be compared with those of the version before.
    """
    if base is None:
        return marks
    found = []
    for mark in marks:
        standing = base.mark_of(mark.column)
        if standing is None:  # rows before it have ids of no object
            continue
        if mark.objects is None:
            found.append(mark.model_copy(update={"objects": None}))
            continue
        objects = _together(standing.objects, mark.objects)
        if objects is None:
            if compared is None or compared.before != standing.objects:
                raise ConflictError("the objects were compared with those of another version")
            if compared.version not in (None, base.version):
                raise ConflictError("objects have moved, and rows of another version were looked at")
            objects = compared.objects
        found.append(mark.model_copy(update={"objects": objects}))
    return tuple(found)


def has_other_objects(base: CatalogMetadata, mark: CoPartitioned) -> bool:
    """Whether the objects of a mark are to be compared with those that placed the rows of a version."""
    standing = base.mark_of(mark.column)
    if standing is None or mark.objects is None:
        return False
    return _together(standing.objects, mark.objects) is None


def placed_by(metadata: CatalogMetadata, column: str) -> PlacingObjects | None:
    """The objects that placed the values of a column; its own rows if none did. None: it has no mark."""
    mark = metadata.mark_of(column)
    if mark is None:
        return None
    own = PlacingObjects(
        catalog=metadata.catalog,
        column=column,
        writes=metadata.increment_writes,
        moves=True if metadata.rows_move else None,
    )
    return mark.objects or own


def known_together(left: CatalogMetadata, right: CatalogMetadata, on: tuple[str, str]) -> bool:
    """Whether versions alone tell that equal values of a column of each have the same `_healpix_29`."""
    first, second = placed_by(left, on[0]), placed_by(right, on[1])
    if first is None or second is None:
        return False
    both_gone = first.gone is not None and second.gone is not None
    return _together(first, second) is not None and not both_gone


def check_marked(left: CatalogMetadata, right: CatalogMetadata, on: tuple[str, str]) -> None:
    """Whether both columns of a join are marked, and rows of one catalog placed their values.

    Parameters
    ----------
    left, right : CatalogMetadata
    on : (str, str)
        The column of each.

    Raises
    ------
    CoPartitionError
        They are not; the message names the column and the ways out.
    """
    sides = ((left, on[0]), (right, on[1]))
    for metadata, column in sides:
        if metadata.mark_of(column) is None:
            marked = ", ".join(mark.column for mark in metadata.co_partitioned) or "none"
            raise CoPartitionError(
                f"column {column!r} of catalog {metadata.catalog}, version {metadata.version}, is not marked "
                f"as co-partitioned (marked: {marked}), so its equal values may lie in any pixel. "
                f"{ways_out(left, right, on)}"
            )
    first, second = (placed_by(metadata, column) for metadata, column in sides)
    assert first is not None
    assert second is not None
    if (first.catalog, first.column) != (second.catalog, second.column):
        raise CoPartitionError(
            f"{left.catalog}.{on[0]} lies where {first.catalog}.{first.column} does, and "
            f"{right.catalog}.{on[1]} where {second.catalog}.{second.column} does: equal values need not be "
            f"near each other. {ways_out(left, right, on)}"
        )


def ways_out(left: CatalogMetadata, right: CatalogMetadata, on: tuple[str, str]) -> str:
    """What to do about a join whose equal values may lie in leaves that do not overlap."""
    return (
        f"Two ways out: ingest {right.catalog} with 'position_from: {{catalog: {left.catalog}, "
        f"on: {{{on[1]}: {on[0]}}}}}' (and {left.catalog} with 'co_partitioned: [{on[0]}]'), or give "
        "shuffle=True, which finds every pair at the cost of a shuffle. Where the rows of "
        f"{right.catalog} fit into memory, gather=True ('gather: true' in a spec) finds every pair, too"
    )


def _together(first: PlacingObjects | None, second: PlacingObjects | None) -> PlacingObjects | None:
    """The larger of two sets of increments of the same objects, if it has all of the other; else None.

    Where increments move objects, or some are gone, only equal sets place them alike.
    """
    if first is None or second is None or first.catalog != second.catalog or first.column != second.column:
        return None
    if set(first.writes) == set(second.writes):
        return first if first.gone is not None else second
    if first.moves or second.moves or first.gone is not None or second.gone is not None:
        return None
    if set(first.writes) <= set(second.writes):
        return second
    return first if set(second.writes) <= set(first.writes) else None
