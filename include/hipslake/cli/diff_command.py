"""`hipslake diff`: how two versions of a catalog differ."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hipslake.cli.places import CATALOG

if TYPE_CHECKING:
    from hipslake.catalog.comparing import IncrementSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("catalog", metavar="CATALOG", help=CATALOG)
    parser.add_argument("old", nargs="?", type=int, help="by default the version before the new one")
    parser.add_argument("new", nargs="?", type=int, help="by default the newest version")


def run(options: argparse.Namespace) -> int:
    """Say how a version differs from another."""
    from hipslake.catalog.comparing import compare
    from hipslake.cli.main import OK
    from hipslake.cli.places import earlier_version, opened
    from hipslake.cli.printing import print_json, print_table, size_text

    new = opened(options, options.catalog, options.new)
    number = earlier_version(new) if options.old is None else options.old
    old = opened(options, options.catalog, number)
    found = compare(new.storage, old.metadata, new.metadata)
    if options.json:
        print_json({"catalog": new.name, "uri": new.uri, **found.model_dump(mode="json")})
        return OK
    print(f"{new.name}, from version {found.old} to {found.new}: {found.rows:+,} rows")
    files = [
        (
            kind,
            each.name,
            each.files_added,
            each.files_removed,
            each.files_kept,
            each.rows_added,
            each.rows_removed,
            size_text(each.bytes_added),
        )
        for kind, several in (("group", found.groups), ("margin", found.margins))
        for each in several
    ]
    columns = ("files of", "name", "came", "went", "kept", "rows came", "rows went", "size came")
    print_table(columns, files)
    _print_list("increments that came", (_increment(each) for each in found.increments_added))
    _print_list("increments that went", (_increment(each) for each in found.increments_removed))
    _print_list(
        "columns", (f"{each.name}: {each.old or 'none'} -> {each.new or 'none'}" for each in found.columns)
    )
    _print_list("indices that came", found.indices_added)
    _print_list("indices that went", found.indices_removed)
    return OK


def _increment(increment: IncrementSummary) -> str:
    told = f"{increment.rows:,} rows"
    if increment.inserted is not None:
        told += (
            f": {increment.inserted:,} inserted, {increment.updated:,} updated, {increment.deleted:,} deleted"
        )
    return f"{increment.key or 'the rows of a whole version'} ({told})"


def _print_list(what: str, items: Iterable[str]) -> None:
    from hipslake.cli.printing import printable

    for at, item in enumerate(items):
        if at == 0:
            print(f"{what}:")
        print(f"  {printable(item)}")
