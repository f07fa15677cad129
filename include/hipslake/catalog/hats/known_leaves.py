"""What need not be read of leaf files when the HATS files of a version are written.

Of files that an older version has too, its own HATS files tell it; of files that this process has just
written, it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from hipslake.catalog.hats.first_rows import known_first_rows
from hipslake.catalog.hats.joined_footers import FooterJoin, FooterPart, breadth_first, known_parts
from hipslake.catalog.layouts import HATS
from hipslake.catalog.leaf import LeafEnds
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import together


class KnownLeaves(NamedTuple):
    """What is known of leaf files; each mapping of the innermost level is by their paths.

    Attributes
    ----------
    first_rows : mapping of str to mapping of str to pyarrow.RecordBatch
        By group: first rows.
    parts : mapping of str to mapping of str to FooterPart
        By group or margin: what stands in the joined footer.
    written : mapping of str to LeafEnds
        Of any group or margin: what this process has written.
    """

    first_rows: Mapping[str, Mapping[str, pa.RecordBatch]]
    parts: Mapping[str, Mapping[str, FooterPart]]
    written: Mapping[str, LeafEnds]


NOTHING_KNOWN = KnownLeaves({}, {}, {})


def known_leaves(
    storage: Storage,
    metadata: CatalogMetadata,
    older: CatalogMetadata | None,
    written: Mapping[str, LeafEnds],
) -> KnownLeaves:
    """What is known of the leaf files of a version; a store is asked for all that tells it side by side.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        The version.
    older : CatalogMetadata or None
        A version whose tree is whole.
    written : mapping of str to LeafEnds
        What this process has written.
    """
    if older is None:
        return KnownLeaves({}, {}, written)
    groups, named = metadata.groups, metadata.with_files
    asks: list[Callable[[], Any]] = [
        partial(known_first_rows, storage, older, each.name, metadata.schema_of(each.name)) for each in groups
    ]
    for each in named:
        schema = metadata.schema_of(each.name if each in groups else each.group)  # type: ignore[union-attr]
        asks.append(partial(_known_parts, storage, older, each.name, schema))
    found = together(storage, *asks)
    rows, parts = found[: len(groups)], found[len(groups) :]
    return KnownLeaves(
        {each.name: told for each, told in zip(groups, rows, strict=True)},
        {each.name: told for each, told in zip(named, parts, strict=True)},
        written,
    )


def _known_parts(
    storage: Storage, older: CatalogMetadata, name: str, schema: pa.Schema
) -> dict[str, FooterPart]:
    """The parts of the joined footer of a group or margin of a version, by the paths of leaf files."""
    found = next((each for each in older.with_files if each.name == name), None)
    if found is None:
        return {}
    files = found.table(storage)
    paths = files["path"].take(pa.array(breadth_first(files))).to_pylist()
    return known_parts(storage, partial(HATS.view_file, older.write_id, name), FooterJoin(schema), paths)
