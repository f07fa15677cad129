"""Lines that open a catalog elsewhere, ready to be copied."""

from __future__ import annotations

from hipslake.catalog.layouts import HatsLayout
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.specs.base import Frozen
from hipslake.specs.catalog import Layout
from hipslake.storage import Storage

_PRIMARY = "hats_primary_table_url"


class Line(Frozen):
    """What to type where."""

    tool: str
    language: str
    text: str


def lines(uri: str, metadata: CatalogMetadata) -> tuple[Line, ...]:
    """The lines that open the newest version of a catalog.

    Parameters
    ----------
    uri : str
        Root of the catalog.
    metadata : CatalogMetadata
        Of the newest version.
    """
    found = []
    if metadata.layout is Layout.HATS:
        found.append(Line(tool="LSDB", language="python", text=f'import lsdb\n\nlsdb.open_catalog("{uri}")'))
    opened = f'from hipslake import Catalog\n\ncatalog = Catalog.open("{uri}")'
    found.append(Line(tool="hipslake", language="python", text=opened))
    found.append(Line(tool="Spark", language="python", text=f"{opened}\ncatalog.to_spark(spark)"))
    files = leaf_pattern(uri, metadata)
    if files is not None:
        found.append(
            Line(tool="DuckDB", language="sql", text=f"SELECT count(*) FROM read_parquet('{files}');")
        )
    return tuple(found)


def leaf_pattern(uri: str, metadata: CatalogMetadata) -> str | None:
    """A glob of all leaf files of the primary column group, for readers of plain Parquet; None if none fits.

    The tree that `collection.properties` names is whole. Layout hipscat has none; there one glob fits while a
    single write holds all files.
    """
    storage, group, paths = Storage.at(uri), metadata.groups[0], metadata.paths
    if metadata.layout is Layout.HATS:
        try:
            text = storage.read(HatsLayout.COLLECTION).decode()
        except FileNotFoundError:
            return None
        named = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
        write = named.get(_PRIMARY, "").strip().partition("/")[0]
        return storage.uri(paths.leaf_glob(write, group.name)) if write else None
    whole = all(part.path.startswith(f"{metadata.write_id}/") for part in group.partitions or ())
    return storage.uri(paths.leaf_glob(metadata.write_id, group.name)) if group.partitions and whole else None
