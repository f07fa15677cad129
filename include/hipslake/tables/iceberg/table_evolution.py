"""The evolution of a table to its spec and its rows: renames, columns, wider types, partitions, sort order.

All of it is one commit of the catalog, which rewrites no file: files of before are read by the ids of their
columns, and keep the partitions that they were written in. What would be done is known before it is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSortOrderUpdate,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedPartitionId,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.transforms import parse_transform

from hipslake.clustering.range_ids import check_clustering_columns
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.specs.partition_fields import PartitionField
from hipslake.specs.table_spec import TableSpec
from hipslake.tables.alterations import EvolutionKind, TableAlteration
from hipslake.tables.fitting import in_table
from hipslake.tables.iceberg.catalogs import without_client_retries
from hipslake.tables.iceberg.clustering_properties import CLUSTER_BY, clustered_by, property_of
from hipslake.tables.iceberg.schema_changes import arrow_type, schema_changes
from hipslake.tables.iceberg.schemas import arrow_schema, iceberg_schema
from hipslake.tables.iceberg.table_partitioning import partition_fields, sort_fields, sort_order
from hipslake.tables.iceberg.transactions import transaction_of


@dataclass
class Evolution:
    """Changes of a table that are planned, and not committed yet.

    Attributes
    ----------
    transaction : Transaction
        Holds them.
    changes : list of TableAlteration
    """

    transaction: Transaction
    changes: list[TableAlteration] = field(default_factory=list)


def planned_evolution(
    table: Table, spec: TableSpec, stored: pa.Schema | None, kinds: Iterable[EvolutionKind]
) -> Evolution:
    """Plan what makes a table fit to its spec and to rows; nothing is asked of the catalog.

    Parameters
    ----------
    table : pyiceberg.table.Table
    spec : TableSpec
    stored : pyarrow.Schema, optional
        The columns of the rows, as a table keeps them; None: they are not known.
    kinds : iterable of EvolutionKind
        What may be changed; all else that would have to be is an error.

    Raises
    ------
    SchemaMismatchError
        The table cannot be changed so, or may not.
    """
    evolution = Evolution(transaction_of(without_client_retries(table)))
    allowed = frozenset(kinds)
    _rename(evolution, spec, stored)
    if stored is not None:
        _fit_columns(evolution, spec, stored, allowed)
    known = _schema(evolution)
    lacking = [each.column for each in _wanted_fields(spec) if each.column not in _names(known)]
    if not lacking:
        _repartition(evolution, spec, allowed)
        if EvolutionKind.SORT in allowed:
            _sort(evolution, spec)
        if EvolutionKind.CLUSTER in allowed and spec.cluster_by:
            _cluster(evolution, spec)
    elif stored is not None:
        raise SchemaMismatchError(
            f"table {spec.table}: partition and sort name column {', '.join(lacking)}, which neither table "
            "nor rows have"
        )
    return evolution


def _schema(evolution: Evolution) -> Schema:
    return evolution.transaction.table_metadata.schema()


def _names(schema: Schema) -> set[str]:
    return {each.name for each in schema.fields}


def _wanted_fields(spec: TableSpec) -> list[PartitionField]:
    return [in_table(each) for each in (*spec.partition, *(sort.field for sort in spec.sort))]


def _rename(evolution: Evolution, spec: TableSpec, stored: pa.Schema | None) -> None:
    """Rename columns that still have their old names."""
    known = set(_schema(evolution).column_names)
    given = set() if stored is None else set(iceberg_schema(stored).column_names)
    if spec.rename and (still := sorted(given & set(spec.rename))):
        raise SchemaMismatchError(
            f"table {spec.table}: rename: the rows still have column {still[0]}; rename it in the source, "
            "too, or take it out of 'rename'"
        )
    todo: list[tuple[str, str]] = []
    for old, new in spec.rename.items():
        parent = old.rpartition(".")[0]
        renamed = f"{parent}.{new}" if parent else new
        if old not in known:
            continue
        if renamed in known:
            raise SchemaMismatchError(
                f"table {spec.table}: rename: it has both columns, {old} and {renamed}; take 'rename' out of "
                "the spec, or give the column another name"
            )
        if alike := [name for name in known if name.casefold() == renamed.casefold() and name != old]:
            raise SchemaMismatchError(
                f"table {spec.table}: rename: {renamed} differs by case only from column {alike[0]}; give it "
                "another name"
            )
        todo.append((old, new))
        evolution.changes.append(
            TableAlteration(EvolutionKind.RENAME, old, f"column {old} is renamed {renamed}")
        )
    if todo:
        with evolution.transaction.update_schema() as update:
            for old, new in todo:
                update.rename_column(old, new)


def _fit_columns(
    evolution: Evolution, spec: TableSpec, stored: pa.Schema, allowed: frozenset[EvolutionKind]
) -> None:
    changes = schema_changes(spec.table, _schema(evolution), stored)
    if changes.widened and EvolutionKind.WIDEN not in allowed:
        path, old, new = changes.widened[0][0], *map(arrow_type, changes.widened[0][1:])
        raise SchemaMismatchError(
            f"table {spec.table}: column {'.'.join(path)!r} is of type {old} there and {new} in the "
            "source; the table's is narrower, and would lose values. Let it be widened by 'evolve: all' in "
            "the spec or by its DAG table_evolve, change the source, or leave the column out"
        )
    for path, kind in changes.added:
        name = ".".join(path)
        evolution.changes.append(TableAlteration(EvolutionKind.ADD, name, f"column {name} is added ({kind})"))
    for path, old, new in changes.widened:
        name = ".".join(path)
        text = f"column {name} is widened from {old} to {new}"
        evolution.changes.append(TableAlteration(EvolutionKind.WIDEN, name, text))
    if changes.added or changes.widened:
        with evolution.transaction.update_schema() as update:
            for path, kind in changes.added:
                update.add_column(path, kind)
            for path, _, new in changes.widened:
                update.update_column(path, field_type=new)


def _repartition(evolution: Evolution, spec: TableSpec, allowed: frozenset[EvolutionKind]) -> None:
    """Partition what is to come as the spec says."""
    metadata, table = evolution.transaction.table_metadata, evolution.transaction._table
    shown = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    standing = [str(each) for each in partition_fields(shown)]
    wanted = [str(in_table(each)) for each in spec.partition]
    if standing == wanted:
        return
    was, now = ", ".join(standing) or "nothing", ", ".join(wanted) or "nothing"
    if EvolutionKind.PARTITION not in allowed:
        raise SchemaMismatchError(
            f"table {spec.table} is partitioned by {was}, the spec says {now}; write into the spec what "
            "the table has, or let it be partitioned anew by 'evolve: all' in the spec or by its DAG "
            "table_evolve, or sink into another table"
        )
    if metadata.format_version < 2:
        raise SchemaMismatchError(
            f"table {spec.table} is of Iceberg's format version 1, whose partitions are not changed here; "
            "upgrade it to version 2, or write into the spec what the table has"
        )
    fields = _partition_fields(metadata, [in_table(each) for each in spec.partition])
    known = next((each for each in metadata.partition_specs if each.fields == fields), None)
    number = 1 + max(each.spec_id for each in metadata.partition_specs)
    made = PartitionSpec(*fields, spec_id=number)
    requirements = (
        AssertLastAssignedPartitionId(**{"last-assigned-partition-id": metadata.last_partition_id}),
        AssertDefaultSpecId(**{"default-spec-id": metadata.default_spec_id}),
    )
    if known is not None:
        updates = (SetDefaultSpecUpdate(**{"spec-id": known.spec_id}),)
        evolution.transaction._apply(updates, requirements)
    else:
        evolution.transaction._apply(
            (AddPartitionSpecUpdate(spec=made), SetDefaultSpecUpdate(**{"spec-id": -1})), requirements
        )
    evolution.changes.append(
        TableAlteration(EvolutionKind.PARTITION, "", f"what comes is partitioned by {now}, not by {was}")
    )


def _partition_fields(metadata: TableMetadata, wanted: list[PartitionField]) -> tuple[IcebergField, ...]:
    """Fields with the ids and names that they had in earlier specs, if they were in one."""
    schema = metadata.schema()
    earlier = [each for known in metadata.partition_specs for each in known.fields]
    taken = {each.name for each in earlier} | set(schema.column_names)
    last = metadata.last_partition_id or 999
    found = []
    for each in wanted:
        source, transform = schema.find_field(each.column).field_id, parse_transform(each.iceberg_transform)
        known = next((f for f in earlier if f.source_id == source and f.transform == transform), None)
        if known is None:
            last += 1
            name = each.name
            if name in taken and not (each.name == each.column and _is_free(name, earlier)):
                name = f"{each.name}_{last}"
            known = IcebergField(source_id=source, field_id=last, transform=transform, name=name)
            taken.add(name)
        found.append(known)
    return tuple(found)


def _is_free(name: str, earlier: list[IcebergField]) -> bool:
    """Whether no field of an earlier spec has a name: that of its own column a field may have."""
    return all(each.name != name for each in earlier)


def _sort(evolution: Evolution, spec: TableSpec) -> None:
    """Sort what is to come as the spec says."""
    metadata, table = evolution.transaction.table_metadata, evolution.transaction._table
    shown = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    wanted = tuple(each.model_copy(update={"field": in_table(each.field)}) for each in spec.sort)
    standing = sort_fields(shown)
    if standing == wanted:
        return
    order = sort_order(wanted, metadata.schema())
    known = next((each for each in metadata.sort_orders if each.fields == order.fields), None)
    requirement = AssertDefaultSortOrderId(**{"default-sort-order-id": metadata.default_sort_order_id})
    if known is not None:
        update = SetDefaultSortOrderUpdate(**{"sort-order-id": known.order_id})
        evolution.transaction._apply((update,), (requirement,))
    else:
        number = 1 + max((each.order_id for each in metadata.sort_orders), default=0)
        made = SortOrder(*order.fields, order_id=number)
        evolution.transaction._apply(
            (
                AddSortOrderUpdate(**{"sort-order": made}),
                SetDefaultSortOrderUpdate(**{"sort-order-id": -1}),
            ),
            (requirement,),
        )
    said = ", ".join(map(str, wanted)) or "nothing"
    evolution.changes.append(TableAlteration(EvolutionKind.SORT, "", f"what comes is sorted by {said}"))


def _cluster(evolution: Evolution, spec: TableSpec) -> None:
    """Let the table say what it is clustered by, as the spec does."""
    metadata, table = evolution.transaction.table_metadata, evolution.transaction._table
    shown = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    check_clustering_columns(arrow_schema(metadata.schema()), spec.cluster_by)
    try:
        if clustered_by(shown) == spec.cluster_by:
            return
    except SpecError:  # what it named is gone
        pass
    evolution.transaction.set_properties({CLUSTER_BY: property_of(spec.cluster_by)})
    said = f"files are clustered by {', '.join(spec.cluster_by)}, and those that are there in steps"
    evolution.changes.append(TableAlteration(EvolutionKind.CLUSTER, "", said))
