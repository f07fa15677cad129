"""`hipslake hips`: a catalog becomes a HiPS catalogue, which Aladin shows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hipslake.cli.ingest_command import add_run_arguments
from hipslake.cli.places import CATALOG, listed
from hipslake.cli.repeated_options import All

if TYPE_CHECKING:
    from hipslake.steps.hips.request import HipsReport

_NUMBERS = {
    "tile_rows": "the most rows of a tile; by default 500",
    "allsky_rows": "the most rows of a tile of orders 1 and 2, which clients load at once; by default 60",
    "deepest_order": "the last order, whose tiles take all rows that are left; by default 12",
    "coverage_order": "of the MOC; by default 10",
    "keep_versions": "the HiPS of so many of the newest versions stay; by default 2",
}
_SWITCHES = ("descending", "public")
_TEXTS = ("order_by", "region", "service_url", "creator_did")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("catalog", metavar="CATALOG", help=CATALOG)
    parser.add_argument("--at", type=int, metavar="VERSION", help="this version; by default the newest")
    parser.add_argument(
        "--order-by",
        metavar="COLUMN",
        help="whose smallest values are shown first, such as a magnitude; by default rows come at random",
    )
    parser.add_argument("--descending", action="store_true", help="show the largest values first")
    parser.add_argument(
        "--columns",
        type=listed,
        action="extend",
        metavar="A,B",
        help="by default all that tiles have a form for; the position is always there",
    )
    parser.add_argument(
        "--filter", action=All, metavar="TEXT", help="only rows that pass, such as 'mag < 12'"
    )
    parser.add_argument("--region", metavar="TEXT", help="only rows in it, such as 'cone 56.7 24.1 3deg'")
    for name, told in _NUMBERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=told)
    parser.add_argument(
        "--to",
        metavar="FOLDER",
        help="that holds a folder for each version; by default exports/hips/<catalog> of the warehouse",
    )
    parser.add_argument("--service-url", metavar="URL", help="where that folder is served")
    parser.add_argument("--creator-did", metavar="IVOID", help="the IVOA identifier of the HiPS")
    parser.add_argument("--public", action="store_true", help="say so in hips_status")
    add_run_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Make the HiPS, and say where it lies."""
    from hipslake.api.hips_making import made_hips, place_of
    from hipslake.cli.main import NOTHING_TO_DO, OK
    from hipslake.cli.places import opened
    from hipslake.cli.printing import print_json
    from hipslake.cli.progress_bar import shown_progress

    catalog = opened(options, options.catalog, options.at)
    warehouse, name = place_of(catalog)
    with shown_progress() as told:
        made = made_hips(
            name,
            {"version": catalog.version, **_asked(options)},
            warehouse=warehouse,
            spark=options.spark,
            told=told,
        )
    if options.json:
        print_json({**made.summary(), "catalog": name})
    else:
        _print(name, made)
    return NOTHING_TO_DO if made.unchanged and options.exit_code else OK


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of the request that the arguments say."""
    from hipslake.storage.folder import Storage

    given = {name: getattr(options, name) for name in (*_TEXTS, *_NUMBERS, *_SWITCHES, "columns")}
    given["filters"] = options.filter
    given["output"] = None if options.to is None else Storage.at(options.to).uri()
    return {name: value for name, value in given.items() if value is not None}


def _print(name: str, made: HipsReport) -> None:
    from hipslake.cli.printing import counted, size_text

    size = (
        f"{counted(made.rows_out, 'row')} in {counted(made.tiles, 'tile')} down to order {made.deepest}, "
        f"{size_text(made.bytes)}"
    )
    print(f"{name}, version {made.version}: {'it stands there already: ' if made.unchanged else ''}{size}")
    print(made.output)
    for folder in made.removed:
        print(f"deleted {folder}")
