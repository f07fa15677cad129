"""`hipslake versions`: what each version of a catalog brought."""

from __future__ import annotations

import argparse

from hipslake.cli.places import CATALOG

CHANGES = ("rows_replaced", "inserted", "updated", "deleted")
"""Columns that are shown where a version has something to say in them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("catalog", metavar="CATALOG", help=CATALOG)
    parser.add_argument("--last", type=int, metavar="N", help="the newest ones only")


def run(options: argparse.Namespace) -> int:
    """List the versions that can be opened, the newest first."""
    from hipslake.api.catalog import Catalog
    from hipslake.catalog.comparing import summarize
    from hipslake.cli.main import OK
    from hipslake.cli.places import opened
    from hipslake.cli.printing import print_json, print_table, size_text, time_text
    from hipslake.errors import VersionNotFoundError

    if options.last is not None and options.last < 1:
        raise argparse.ArgumentError(None, f"--last {options.last}: list one version at least")
    newest = opened(options, options.catalog)
    found, known = [], {newest.version: newest.metadata}
    for number in newest.versions()[::-1][: options.last]:
        for each in (number, number - 1):
            try:
                if each > 0 and each not in known:
                    known[each] = Catalog.open(newest.uri, each).metadata
            except VersionNotFoundError:  # vacuumed, maybe just now
                continue
        if (metadata := known.get(number)) is not None:
            parent = None if metadata.parent is None else known.get(metadata.parent)
            found.append(summarize(newest.storage, metadata, parent))
    if options.json:
        print_json({"catalog": newest.name, "uri": newest.uri, "versions": found})
        return OK
    changes = [name for name in CHANGES if any(getattr(each, name) is not None for each in found)]
    heads = [name.replace("_", " ") for name in changes]
    columns = (
        "version",
        "published (UTC)",
        "kind",
        "rows",
        "rows added",
        *heads,
        "files",
        "size",
        "increments",
    )
    print_table(
        columns,
        (
            (
                each.version,
                time_text(each.created),
                f"{each.kind or '?'}{f' to {each.restored}' if each.restored else ''}",
                each.rows,
                each.rows_added,
                *(getattr(each, name) for name in changes),
                each.files,
                size_text(each.bytes),
                ", ".join(
                    _night(increment.key) for increment in each.increments_added if increment.key is not None
                ),
            )
            for each in found
        ),
    )
    return OK


def _night(key: str) -> str:
    return key.removesuffix("+00:00").removesuffix("T00:00:00")
