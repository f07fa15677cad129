"""`hipslake changes`: the rows that came, went or became others between two versions of a catalog."""

from __future__ import annotations

import argparse

from hipslake.cli.places import CATALOG, listed
from hipslake.cli.repeated_options import All


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("catalog", metavar="CATALOG", help=CATALOG)
    parser.add_argument(
        "--since", type=int, metavar="VERSION", help="by default the version before the other one"
    )
    parser.add_argument("--until", type=int, metavar="VERSION", help="by default the newest version")
    parser.add_argument(
        "--columns", type=listed, action="extend", metavar="A,B", help="compared and given; by default all"
    )
    parser.add_argument(
        "--key",
        type=listed,
        action="extend",
        metavar="A,B",
        help="columns that tell rows apart, so that updates are told; by default those of the spec, if any",
    )
    parser.add_argument(
        "--filter", action=All, metavar="TEXT", help="of the rows of either version, such as 'mag < 12'"
    )
    parser.add_argument(
        "--region",
        metavar="TEXT",
        help="part of the sky in ICRS: 'cone RA DEC RADIUS', 'polygon ...', 'box ...' or 'moc FILE'",
    )
    parser.add_argument("--count", action="store_true", help="print how many rows there are of each kind")
    parser.add_argument("--to", metavar="FILE", help="a .parquet, .csv or .fits file, in place of CSV here")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")


def run(options: argparse.Namespace) -> int:
    """Compare two versions, and print, count or write what changed."""
    from hipslake.cli.main import OK
    from hipslake.cli.places import earlier_version, opened
    from hipslake.cli.printing import print_json, print_table
    from hipslake.cli.row_output import print_rows, write_rows

    if options.count and options.to is not None:
        raise argparse.ArgumentError(None, "--count prints numbers, --to writes a file; give one of them")
    catalog = opened(options, options.catalog, options.until)
    since = earlier_version(catalog) if options.since is None else options.since
    changes = catalog.changes(
        since, columns=options.columns, filters=options.filter, region=options.region, key=options.key
    )
    if options.count:
        counts = changes.counts()
        if options.json:
            told = {"catalog": catalog.name, "since": changes.since, "until": changes.until}
            print_json({**told, **counts})
        else:
            print(f"{catalog.name}, from version {changes.since} to {changes.until}:")
            print_table(("change", "rows"), list(counts.items()))
    elif options.to is None:
        print_rows(changes.schema, changes.tables(), as_lines=options.json)
    else:
        write_rows(options, changes.schema, changes.tables(), changes.origin)
    return OK
