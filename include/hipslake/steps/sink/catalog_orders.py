"""What a table lacks of a catalog: the rows of a version, or of some of its increments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import select
from hipslake.catalog.validity import validity_of
from hipslake.errors import SpecError
from hipslake.predicates.predicate_tree import And, IsNull, Predicate
from hipslake.specs.environment import expand
from hipslake.specs.table_rows import CatalogRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import TableMode
from hipslake.steps.run import catalog_uri
from hipslake.steps.sink.catalog_rows import content_of, content_of_increment, schema_of_catalog
from hipslake.steps.sink.changed_rows import changes_since
from hipslake.steps.sink.request import FrozenOrders, FrozenSink
from hipslake.steps.sink.sink_columns import check_rows
from hipslake.tables.marks import same_digest
from hipslake.tables.protocol import Marks, TableState
from hipslake.tables.sink_order import SinkOrder, VersionRows


def freeze_orders(frozen: FrozenSink, table: TableState | None) -> tuple[int, FrozenOrders]:
    """Open the catalog that feeds a table, hold it against the spec, and say what the table lacks of it.

    Parameters
    ----------
    frozen : FrozenSink
        Of a spec whose source is a catalog.
    table : TableState or None
        None: there is none yet.

    Returns
    -------
    (int, FrozenOrders)
        The version that rows are taken from, and what is missing.

    Raises
    ------
    SpecError
        If the catalog does not fit to the spec: it has no increments, its key does not tell rows apart, or it
        is one of others and changes are asked for.
    CatalogNotFoundError, VersionNotFoundError
        If the catalog, or that version of it, is not published.
    SchemaMismatchError
        If the catalog lacks a column that the spec names, or Iceberg has no type for one.
    FilterError
        If the filters are not understood.
    PlanError
        If changes are asked for, and it is not known what changed since the table was fed.
    """
    spec, source = frozen.spec, frozen.spec.source
    assert isinstance(source, CatalogRowsSpec)
    catalog = _opened(source, frozen.warehouse)
    columns = source.columns
    if spec.follows_changes and catalog.metadata.is_foreign:
        raise SpecError(
            f"{spec.name}: source: {catalog.name} is a catalog of others, opened where it lies, "
            "which has no versions to tell changes between; adopt it, or write 'rows: all'"
        )
    wanted = select(catalog.metadata, columns, source.filters)  # tells what is wrong with them
    _check_key(spec, catalog.metadata, wanted.filter)
    check_rows(schema_of_catalog(catalog.metadata, columns), columns, spec)
    return catalog.version, orders_of_catalog(frozen, catalog, table)


def orders_of_catalog(frozen: FrozenSink, catalog: CatalogReader, table: TableState | None) -> FrozenOrders:
    """What a table lacks of a catalog.

    Parameters
    ----------
    frozen : FrozenSink
    catalog : Catalog
        The version that rows are taken from.
    table : TableState or None
        None: there is none yet.

    Raises
    ------
    SpecError
        If increments are asked for and the catalog has none, or it is not known where one ends.
    PlanError
        If changes are asked for, and it is not known what changed since the table was fed.
    """
    metadata, source = catalog.metadata, frozen.spec.source
    assert isinstance(source, CatalogRowsSpec)
    whole = source.rows == "all"
    some: Sequence[Increment | None] = [None] if whole else _in_window(frozen, _nights(catalog, frozen.spec))
    orders = [(_order(frozen, catalog, increment), increment) for increment in some]
    marks = None if table is None else table.marks
    wanted = [each for each in orders if frozen.force or not _stands(marks, each[0])]
    rows = sum(metadata.total_rows if increment is None else increment.rows for _, increment in wanted)
    size = round(metadata.total_bytes * rows / max(metadata.total_rows, 1))
    if wanted and frozen.spec.follows_changes and not frozen.force:
        size = _bytes_changed(wanted[0][0], marks, size)
    return FrozenOrders.of(
        [order for order, _ in wanted],
        library_version=frozen.library_version,
        total_bytes=size,
        why_none="" if wanted else _why_none(frozen, metadata, len(orders)),
    )


def _check_key(spec: TableSpec, metadata: CatalogMetadata, passes: Predicate | None) -> None:
    """Refuse a key that does not tell the rows of a catalog with intervals of validity apart."""
    validity = validity_of(metadata)
    if not spec.follows_changes or validity is None or {validity.begin, ROW_COLUMN} & set(spec.key):
        return
    parts = passes.parts if isinstance(passes, And) else (passes,)
    if IsNull(validity.end) in parts:  # only rows of now come into the table
        return
    raise SpecError(
        f"{spec.name}: key: catalog {metadata.catalog} keeps all rows that a key ever had, and tells them "
        f"apart by {validity.begin} (`validity` in its spec); write key: "
        f"[{', '.join([*spec.key, validity.begin])}], or take the rows of now alone by filters: "
        f"'{validity.end} is null'"
    )


def _opened(source: CatalogRowsSpec, warehouse: str) -> CatalogReader:
    named = "/" not in source.catalog
    uri = catalog_uri(warehouse, source.catalog) if named else expand(source.catalog)
    return CatalogReader.open(uri, source.version)


def _nights(catalog: CatalogReader, spec: TableSpec) -> list[Increment]:
    """The increments that are of an interval, in the order of time."""
    nights = [each for each in catalog.increments if each.key is not None]
    if not nights:
        raise SpecError(
            f"{spec.name}: source: catalog {catalog.name} has no increments, as its spec is of mode "
            "replace; write 'rows: all'"
        )
    if catalog.metadata.key_records is not None:
        raise SpecError(
            f"{spec.name}: source: catalog {catalog.name} is of mode upsert, whose nights also change "
            "and delete rows of others, so that a night alone says too little; write 'changes: true', or "
            "'rows: all'"
        )
    return sorted(nights, key=_start)


def _in_window(frozen: FrozenSink, nights: list[Increment]) -> list[Increment]:
    """Those that a run is to look at: of the window asked for, or all until the end of its interval."""
    window = frozen.window
    if window.origin == "none" or window.start is None:
        return nights
    if window.origin == "data_interval":
        return [each for each in nights if window.end is None or _start(each) < window.end]
    if window.end is None:
        return [each for each in nights if _start(each) == window.start]
    return [each for each in nights if window.start <= _start(each) < window.end]


def _order(frozen: FrozenSink, catalog: CatalogReader, increment: Increment | None) -> SinkOrder:
    source = frozen.spec.source
    assert isinstance(source, CatalogRowsSpec)
    metadata = catalog.metadata
    content = content_of(metadata) if increment is None else content_of_increment(metadata, increment)
    return SinkOrder(
        spec=frozen.spec,
        warehouse=frozen.warehouse,
        rows=VersionRows(
            uri=catalog.opened_at,
            version=catalog.version,
            increment=increment.key if increment is not None else None,
            content=content,
            columns=source.columns,
            filters=source.filters,
        ),
        start=_start(increment) if increment is not None else None,
        end=_end(frozen, catalog.metadata, increment) if increment is not None else None,
        whole=increment is None,
        write_id=frozen.write_id,
        force=frozen.force,
    )


def _stands(marks: Marks | None, order: SinkOrder) -> bool:
    """Whether a table has the rows of an order, sunk by this spec or an earlier form of it."""
    if marks is None:
        return False
    known = marks.of(order.key)
    if known is None:  # of very old ones, it is known that they were sunk
        return marks.was_sunk_earlier(order.key, order.start)
    return same_digest(known.content, order.rows.content)


def _bytes_changed(order: SinkOrder, marks: Marks | None, size: int) -> int:
    """The bytes of the leaf files that are compared; of a table that has nothing yet, of all."""
    before = None if marks is None else marks.of(order.key)
    return size if before is None else changes_since(order, before).feed.bytes


def _start(increment: Increment) -> datetime:
    assert increment.key is not None
    return datetime.fromisoformat(increment.key)


def _end(frozen: FrozenSink, metadata: CatalogMetadata, increment: Increment) -> datetime | None:
    """The end of an increment's interval; needed where the interval is replaced."""
    if increment.end is not None:
        return datetime.fromisoformat(increment.end)
    if frozen.window.start == _start(increment) and frozen.window.end is not None:
        return frozen.window.end
    if frozen.spec.mode is TableMode.OVERWRITE_INTERVAL:
        raise SpecError(
            f"{frozen.spec.name}: mode overwrite-interval replaces the rows of an interval, and catalog "
            f"{metadata.catalog} does not know where the one from {increment.key} ends; give window_start "
            "and window_end in the form, or ingest it again with a window_end"
        )
    return None


def _why_none(frozen: FrozenSink, metadata: CatalogMetadata, looked_at: int) -> str:
    have = f"version {metadata.version} of {metadata.catalog}"
    if not looked_at:
        return f"{have} has no increment in the window of this run."
    return (
        f"The table has what {have} holds. Set force to sink it again"
        + (", with a window for a part of it." if frozen.spec.needs_interval else ".")
    )  # fmt: skip
