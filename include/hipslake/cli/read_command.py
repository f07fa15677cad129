"""`hipslake read`: rows of a catalog are printed, counted, or written to a file."""

from __future__ import annotations

import argparse

from hipslake.cli.places import add_catalog, listed
from hipslake.cli.repeated_options import All


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_catalog(parser)
    parser.add_argument("--columns", type=listed, action="extend", metavar="A,B", help="by default all")
    parser.add_argument(
        "--filter", action=All, metavar="TEXT", help="such as 'mag < 12 and parallax is not null'"
    )
    parser.add_argument(
        "--region",
        metavar="TEXT",
        help="part of the sky in ICRS: 'cone RA DEC RADIUS', 'polygon ...', 'box ...' or 'moc FILE'",
    )
    parser.add_argument("--limit", type=_number, metavar="N", help="the first rows only")
    parser.add_argument("--count", action="store_true", help="print how many rows there are")
    parser.add_argument("--to", metavar="FILE", help="a .parquet, .csv or .fits file, in place of CSV here")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")


def run(options: argparse.Namespace) -> int:
    """Read rows, and print, count or write them."""
    from hipslake.catalog.exporting import Export
    from hipslake.cli.main import OK
    from hipslake.cli.places import opened
    from hipslake.cli.printing import print_json
    from hipslake.cli.row_output import first_rows, print_rows, write_rows

    if options.count and options.to is not None:
        raise argparse.ArgumentError(None, "--count prints a number, --to writes a file; give one of them")
    catalog = opened(options, options.catalog, options.at)
    export = Export.of(
        catalog,
        options.to or "",
        region=options.region,
        columns=options.columns,
        filters=options.filter,
        format=None if options.to else "csv",
    )
    tables, schema = first_rows(export.rows(), options.limit), export.selection.schema
    if options.count:
        count = sum(table.num_rows for table in tables)
        print_json({"rows": count}) if options.json else print(count)
    elif options.to is None:
        print_rows(schema, tables, as_lines=options.json)
    else:
        write_rows(options, schema, tables, export.origin)
    return OK


def _number(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows")
    return int(text)
