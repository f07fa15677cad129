"""What catalogs and cubes look like in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from hipslake.api.html import details_html, facts_html, picture_html, table_html
from hipslake.api.sky_plot import density_png
from hipslake.catalog.schema import field_text
from hipslake.errors import HipslakeError

if TYPE_CHECKING:
    from hipslake.catalog.catalog_reader import CatalogReader
    from hipslake.cube.store.cube_reader import CubeReader

MOST_VERSIONS = 20
"""Listed in a notebook, of those that can be opened."""


def catalog_html(catalog: CatalogReader) -> str:
    """A catalog as HTML: its facts, its map, its columns and its versions."""
    metadata = catalog.metadata
    facts = [
        ("version", metadata.version),
        ("rows", metadata.total_rows),
        ("leaves", len(catalog.pixels)),
        ("MB", round(metadata.total_bytes / 1e6)),
        ("layout", metadata.layout.value),
        ("created", f"{metadata.created:%Y-%m-%d %H:%M} UTC"),
    ]
    parts = [facts_html(catalog.name, facts)]
    if metadata.description or metadata.attribution:
        parts.append(facts_html("", [("", metadata.description), ("", metadata.attribution)]))
    try:
        parts.append(picture_html(density_png(catalog), f"rows of {catalog.name} on the sky"))
    except HipslakeError as error:
        parts.append(facts_html("no map", [("", error)]))
    groups = {group.name: group.to_arrow() for group in metadata.groups}
    owners = {
        name: [group for group in groups if name in groups[group].names] for name in catalog.schema.names
    }
    parts.append(columns_html(catalog.schema, {name: ", ".join(owners[name]) for name in owners}))
    parts.append(_versions_html(catalog))
    return "".join(parts)


def cube_html(cube: CubeReader) -> str:
    """A cube as HTML: its facts, and its datasets with their columns."""
    metadata = cube.metadata
    facts = [
        ("version", metadata.version),
        ("dimensions", ", ".join(metadata.roles.dimension_columns)),
        ("partitioned by", ", ".join(metadata.roles.partition_columns)),
        ("created", f"{metadata.created:%Y-%m-%d %H:%M} UTC"),
        ("by", metadata.operation),
    ]
    rows = [
        (each.name, column.name, column.type)
        for each in sorted(metadata.datasets, key=lambda each: each.name)
        for column in each.columns
    ]
    return facts_html(metadata.cube, facts) + table_html(("dataset", "column", "type"), rows)


def columns_html(schema: pa.Schema, owners: dict[str, str] | None = None) -> str:
    """Columns with their types, units, UCDs and descriptions."""
    heads = ["column", "type", "unit", "UCD", "description"]
    rows = [
        [each.name, each.type, *(field_text(each, key) or "" for key in ("unit", "ucd", "description"))]
        for each in schema
    ]
    if owners is not None and len(set(owners.values())) > 1:
        heads.append("column group")
        for row in rows:
            row.append(owners[row[0]])
    return table_html(heads, rows)


def _versions_html(catalog: CatalogReader) -> str:
    try:
        numbers = catalog.versions()
    except HipslakeError as error:
        return facts_html("versions cannot be listed", [("", error)])
    shown = numbers[-MOST_VERSIONS:]
    told = ", ".join(f"{number} (this one)" if number == catalog.version else str(number) for number in shown)
    earlier = f"{len(numbers) - len(shown)} earlier, " if len(shown) < len(numbers) else ""
    return details_html(
        f"{len(numbers)} version{'s' if len(numbers) != 1 else ''}",
        table_html(["versions"], [[earlier + told]]),
    )
