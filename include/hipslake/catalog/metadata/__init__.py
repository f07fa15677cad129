"""metadata.json: everything that a reader needs to know of one version of a catalog.

`python -m hipslake.catalog.metadata` prints its JSON Schema, kept in `docs/metadata.schema.json`.
"""

from hipslake.catalog.metadata.columns import Association, CoPartitioned, PlacingObjects, Position
from hipslake.catalog.metadata.earlier import EarlierIncrements
from hipslake.catalog.metadata.increments import Increment, Rejects, SourceEntry, Sources
from hipslake.catalog.metadata.indices import Index, IndexFile
from hipslake.catalog.metadata.leaves import Column, GroupMetadata, Margin, Partition
from hipslake.catalog.metadata.owner import Owner
from hipslake.catalog.metadata.version import CatalogMetadata, json_schema

__all__ = [
    "Association",
    "CatalogMetadata",
    "CoPartitioned",
    "Column",
    "EarlierIncrements",
    "GroupMetadata",
    "Increment",
    "Index",
    "IndexFile",
    "Margin",
    "Owner",
    "Partition",
    "PlacingObjects",
    "Position",
    "Rejects",
    "SourceEntry",
    "Sources",
    "json_schema",
]
