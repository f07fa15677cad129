"""What a table is clustered by, and what was done to keep it so, in properties of the table."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from hipslake.clustering.planning import ClusterMark
from hipslake.errors import SpecError
from hipslake.storage.plain_json import plain_json
from hipslake.tables.clustering_ledger import ClusteringLedger, CountedFile, CountedLedger
from hipslake.tables.iceberg.catalog_answers import unknown_outcome
from hipslake.tables.iceberg.catalogs import open_table, reaching
from hipslake.tables.iceberg.compaction_access import digest_of, is_clustered_by

log = logging.getLogger(__name__)

CLUSTER_BY = "hipslake.cluster-by"
"""Property of a table: the columns that its rows are clustered by, as a list in JSON, or with commas."""

LEDGER = "hipslake.clustering"
"""Property of a table: its `ClusteringLedger`."""


def property_of(columns: Sequence[str]) -> str:
    """The text of the property for some columns."""
    return json.dumps(list(columns), ensure_ascii=False)


def names_in_property(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that the property names, as it stands; empty without it."""
    told = properties.get(CLUSTER_BY, "").strip()
    if not told.startswith("["):
        return tuple(name.strip() for name in told.split(",") if name.strip())
    try:
        return tuple(str(name) for name in plain_json(told.encode()))
    except ValueError:
        raise SpecError(
            f"property {CLUSTER_BY} is {told!r}, neither a list in JSON nor names with commas between them; "
            "mend it"
        ) from None


def clustered_by(table: Table) -> tuple[str, ...]:
    """The columns that a table is clustered by, by their present names; empty if it is not.

    Raises
    ------
    SpecError
        The property names no column of the table, nor one that it had under that name before.
    """
    schema = table.schema()
    earlier = [each for _, each in sorted(table.schemas().items(), reverse=True)]
    return tuple(_present_name(table, name, schema, earlier) for name in names_in_property(table.properties))


def _present_name(table: Table, name: str, schema: Schema, earlier: Sequence[Schema]) -> str:
    for each in (schema, *earlier):
        if name in each.column_names:
            present = schema.find_column_name(each.find_field(name).field_id)
            if present is not None:
                return present
    raise SpecError(
        f"table {'.'.join(table.name())}: its property {CLUSTER_BY} names {name}, which is no column of it; "
        f"mend it: there are {', '.join(schema.column_names)}"
    )


def ledger_of(
    table: Table, by: ClusterMark, files: Sequence[tuple[DataFile, int]], upto: int
) -> CountedLedger:
    """What was kept of a table's clustering, with the files that came up to a sequence number.

    Parameters
    ----------
    table : Table
    by : ClusterMark
        What it is clustered by.
    files : sequence of (DataFile, int)
        Live files with their data sequence numbers.
    upto : int
        The sequence number of the snapshot that has them.
    """
    digest = digest_of(by, table.schema())
    found = [
        CountedFile(file.file_size_in_bytes, sequence, is_clustered_by(file.file_path, digest))
        for file, sequence in files
    ]
    told = stored_ledger(table.properties)
    if told is None or told.by != digest:
        points = () if told is None else told.points
        return ClusteringLedger(by=digest, columns=by.columns, points=points).begun(found, upto)
    return told.model_copy(update={"columns": by.columns}).counting(found, upto)


def begin_ledger(catalog: Catalog, name: str, ledger: ClusteringLedger) -> None:
    """Let a table have a ledger, unless it has one of the same columns; that alone makes no snapshot.

    Where others commit at the same time, it is left to the next run.
    """
    table = open_table(catalog, name)
    told = stored_ledger(table.properties)
    if told is not None and told.by == ledger.by:
        return
    try:
        with reaching(catalog.name), table.transaction() as transaction:
            transaction.set_properties({LEDGER: ledger.model_dump_json()})
    except CommitFailedException:
        log.info("Table %s was changed by another writer; what comes in is counted later.", name)
    except CommitStateUnknownException as error:
        raise unknown_outcome(table, "its ledger of what comes in is not known to be there", error) from error


def stored_ledger(properties: Mapping[str, str]) -> ClusteringLedger | None:
    """The ledger among properties of a table; None if there is none, or none that can be read."""
    told = properties.get(LEDGER)
    if told is None:
        return None
    try:
        return ClusteringLedger.model_validate_json(told)
    except ValidationError:
        return None
