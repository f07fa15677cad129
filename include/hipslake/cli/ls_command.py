"""`hipslake ls`: the catalogs and cubes of a warehouse, or the columns of a catalog."""

from __future__ import annotations

import argparse
from typing import Any

from hipslake.cli.places import CATALOG


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("catalog", nargs="?", metavar="CATALOG", help=f"{CATALOG}; by default all are listed")
    parser.add_argument("--at", type=int, metavar="VERSION", help="this version; by default the newest")


def run(options: argparse.Namespace) -> int:
    """List catalogs, or columns."""
    return _list_all(options) if options.catalog is None else _show(options)


def _list_all(options: argparse.Namespace) -> int:
    from hipslake.api.step_runner import warehouse_uri
    from hipslake.cli.main import FAILED, OK
    from hipslake.cli.printing import print_json, print_table, size_text, time_text
    from hipslake.cube.store.layout import CUBES
    from hipslake.steps.run import CATALOGS
    from hipslake.storage.folder import Storage

    places = ((CATALOGS, _listed), (CUBES, _listed_cube))
    warehouse = Storage.at(warehouse_uri(options.warehouse))
    of_kind: dict[str, list[dict[str, Any]]] = {}
    for folder, listed in places:
        names = [entry.path.rpartition("/")[2] for entry in warehouse.list(folder) if entry.is_dir]
        entries = (listed(warehouse.uri(f"{folder}/{name}"), name) for name in names)
        of_kind[folder] = [entry for entry in entries if entry is not None]
    found = [{"kind": folder[:-1], **entry} for folder, entries in of_kind.items() for entry in entries]
    if options.json:
        print_json({"warehouse": warehouse.uri(), **of_kind})
    elif not found:
        print(f"{warehouse.uri()}: no catalog is published here")
    else:
        columns = ("kind", "name", "version", "rows", "partitions", "size", "published (UTC)", "description")
        print_table(
            columns,
            (
                (
                    each["kind"],
                    each["name"],
                    each["version"],
                    each["rows"],
                    each["partitions"],
                    size_text(each["bytes"]),
                    time_text(each["published"]) if each["published"] else None,
                    each["problem"] or each["description"],
                )
                for each in found
            ),
        )
    return FAILED if any(each["problem"] for each in found) else OK


def _listed(uri: str, name: str) -> dict[str, Any] | None:
    """A catalog in the list; one that cannot be opened says why; None: nothing is published."""
    from hipslake.api.catalog import Catalog
    from hipslake.errors import CatalogNotFoundError, HipslakeError

    try:
        catalog = Catalog.open(uri)
    except CatalogNotFoundError:
        return None
    except (HipslakeError, OSError) as error:
        return _unknown(name, error)
    metadata = catalog.metadata
    return {
        "name": name,
        "version": metadata.version,
        "rows": metadata.total_rows,
        "partitions": metadata.groups[0].leaves,
        "bytes": metadata.total_bytes,
        "published": metadata.created,
        "problem": None,
        "description": metadata.description,
    }


def _listed_cube(uri: str, name: str) -> dict[str, Any] | None:
    """A cube in the list; one that cannot be opened says why."""
    from hipslake.api.cube import Cube
    from hipslake.errors import CatalogNotFoundError, HipslakeError

    try:
        metadata = Cube.open(uri).metadata
    except CatalogNotFoundError:
        return None
    except (HipslakeError, OSError) as error:
        return _unknown(name, error)
    seed = metadata.dataset(metadata.roles.seed)
    return {
        "name": name,
        "version": metadata.version,
        "rows": seed.rows,
        "partitions": None,
        "bytes": sum(each.bytes for each in metadata.datasets),
        "published": metadata.created,
        "problem": None,
        "description": f"{', '.join(metadata.names)} on {', '.join(metadata.roles.partition_columns)}",
    }


def _unknown(name: str, error: Exception) -> dict[str, Any]:
    """Something in the list that cannot be opened."""
    empty = dict.fromkeys(("version", "rows", "partitions", "bytes", "published"))
    return {"name": name, **empty, "problem": f"{type(error).__name__}: {error}", "description": ""}


def _show(options: argparse.Namespace) -> int:
    from hipslake.cli.main import OK
    from hipslake.cli.places import opened
    from hipslake.cli.printing import print_json, print_table, printable, size_text, time_text

    catalog = opened(options, options.catalog, options.at)
    metadata = catalog.metadata
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "unit": column.unit,
            "group": group.name,
            "description": column.description,
        }
        for group in metadata.groups
        for column in group.columns
    ]
    facts = {
        "catalog": catalog.name,
        "uri": catalog.uri,
        "version": catalog.version,
        "published": metadata.created,
        "description": metadata.description,
        "attribution": metadata.attribution,
        "layout": metadata.layout.value,
        "rows": metadata.total_rows,
        "bytes": metadata.total_bytes,
        "partitions": metadata.groups[0].leaves,
        "margins_arcsec": [margin.radius_arcsec for margin in metadata.margins],
        "indices": [index.column for index in metadata.indices],
        "versions": catalog.versions(),
    }
    if options.json:
        print_json({**facts, "columns": columns})
        return OK
    told = {
        **facts,
        "published": f"{time_text(metadata.created)} UTC",
        "rows": f"{metadata.total_rows:,}",
        "bytes": size_text(metadata.total_bytes),
        "margins_arcsec": ", ".join(f"{each:g}" for each in facts["margins_arcsec"]),  # type: ignore[attr-defined]
        "indices": ", ".join(facts["indices"]),  # type: ignore[arg-type]
        "versions": ", ".join(map(str, facts["versions"])),  # type: ignore[call-overload]
    }
    for name, value in told.items():
        if value not in ("", None):
            print(f"{name.replace('_', ' '):<15} {printable(str(value))}")
    print()
    print_table(tuple(columns[0]), (tuple(column.values()) for column in columns))
    return OK
