"""metadata.json: everything that a reader needs to know of one version of a catalog.

`python -m hipslake.catalog.metadata` prints its JSON Schema, kept in `docs/metadata.schema.json`.
"""

from hipslake.catalog.metadata.adopted import Adopted
from hipslake.catalog.metadata.column_roles import (
    Association,
    CoPartitioned,
    Index,
    IndexedLeaves,
    IndexFile,
    PlacingObjects,
    Position,
)
from hipslake.catalog.metadata.deletions import Deletion
from hipslake.catalog.metadata.increments import EarlierIncrements, Increment, Rejects, SourceEntry, Sources
from hipslake.catalog.metadata.key_records import KeyChanges, KeyRecords, RecordFile, RecordRun
from hipslake.catalog.metadata.leaf_groups import Column, GroupMetadata, Margin, Partition
from hipslake.catalog.metadata.owners import Owner
from hipslake.catalog.metadata.reassignments import Reassignment, RowsOfNight
from hipslake.catalog.metadata.version import CatalogMetadata, json_schema

__all__ = [
    "Adopted",
    "Association",
    "CatalogMetadata",
    "CoPartitioned",
    "Column",
    "Deletion",
    "EarlierIncrements",
    "GroupMetadata",
    "Increment",
    "Index",
    "IndexFile",
    "IndexedLeaves",
    "KeyChanges",
    "KeyRecords",
    "Margin",
    "Owner",
    "Partition",
    "PlacingObjects",
    "Position",
    "Reassignment",
    "RecordFile",
    "RecordRun",
    "Rejects",
    "RowsOfNight",
    "SourceEntry",
    "Sources",
    "json_schema",
]
