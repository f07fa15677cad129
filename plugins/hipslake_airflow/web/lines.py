"""Lines that open a catalog elsewhere, ready to be copied."""

from __future__ import annotations

from hipslake.catalog.foreign.foreign_metadata import ForeignMetadata
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.view_tree import has_tree
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import Layout
from hipslake.storage.folder import Storage


class Line(Frozen):
    """What to type where."""

    tool: str
    language: str
    text: str


def lines(uri: str, metadata: CatalogMetadata) -> tuple[Line, ...]:
    """The lines that open the newest version of a catalog, and no other.

    Readers that go by a folder have a line only where a folder holds all leaf files of the version: else they
    would open an older one, or a part.

    Parameters
    ----------
    uri : str
        Root of the catalog.
    metadata : CatalogMetadata
        Of the newest version.
    """
    storage = Storage.at(uri)
    whole = metadata.adopted is None and has_tree(storage, metadata)  # else the tree is of others
    found = _opened(uri, in_lsdb=whole and metadata.layout is Layout.HATS)
    if whole:
        files = storage.uri(metadata.paths.leaf_glob(metadata.write_id, metadata.groups[0].name))
        found.append(
            Line(tool="DuckDB", language="sql", text=f"SELECT count(*) FROM read_parquet('{files}');")
        )
    return tuple(found)


def lines_of_others(uri: str, metadata: ForeignMetadata) -> tuple[Line, ...]:
    """The lines that open a catalog of others where it lies; LSDB reads HATS, and not what was before it."""
    return tuple(_opened(uri, in_lsdb=not metadata.tree.is_hipscat))


def _opened(uri: str, *, in_lsdb: bool) -> list[Line]:
    opened = f'from hipslake import Catalog\n\ncatalog = Catalog.open("{uri}")'
    found = [
        Line(tool="hipslake", language="python", text=opened),
        Line(tool="Spark", language="python", text=f"{opened}\ncatalog.to_spark(spark)"),
    ]
    lsdb = Line(tool="LSDB", language="python", text=f'import lsdb\n\nlsdb.open_catalog("{uri}")')
    return [lsdb, *found] if in_lsdb else found
