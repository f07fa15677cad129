"""`hipslake ingest`: files become a catalog, or one more increment of it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake.api.catalog_runner import Outcome

_OF_A_SPEC = {
    "name": "name of the catalog",
    "ra": "column of right ascension, or the longitude of the frame; by default ra",
    "dec": "column of declination, or the latitude of the frame; by default dec",
    "unit": "unit of the positions: deg (the default) or rad",
    "frame": "frame of the positions: icrs (the default), galactic or fk5",
    "epoch": "Julian year of the positions, such as 2016.0",
    "description": "what the catalog is",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="paths, URIs or globs (Parquet, CSV, FITS, VOTable, ECSV); by default those that the spec names",
    )
    parser.add_argument(
        "--spec", metavar="SPEC", help="YAML file of a catalog's spec, or its name in the deployment"
    )
    plain = parser.add_argument_group("without a spec file")
    for name, told in _OF_A_SPEC.items():
        plain.add_argument(f"--{name}", metavar=name.upper(), help=told)
    plain.add_argument("--append", action="store_true", help="add the rows to the catalog: mode append")
    plain.add_argument(
        "--margin", type=float, action="append", metavar="ARCSEC", help="build a margin; may be repeated"
    )
    plain.add_argument(
        "--bad-rows",
        type=float,
        metavar="FRACTION",
        help="keep rows without a place on the sky apart, up to this fraction; by default one is an error",
    )
    plain.add_argument("--index", action="append", metavar="COLUMN", help="build an index; may be repeated")
    parser.add_argument("--threshold", metavar="SIZE", help="of a leaf, such as '1 million rows' or '64 MiB'")
    parser.add_argument("--layout", choices=("hats", "hipscat"), help="of the files")
    add_interval(parser, "of mode append")
    add_run_arguments(parser, "build a version even if the input is what the newest is made of")


def add_interval(parser: argparse.ArgumentParser, of: str) -> None:
    """Add the argument that names an interval; `of` says what needs one."""
    parser.add_argument(
        "--interval",
        nargs="+",
        metavar="TIME",
        help=f"{of}: a start and an end, or a start from which on a day counts; ISO 8601 in UTC, or a "
        "Modified Julian Date",
    )


def add_run_arguments(parser: argparse.ArgumentParser, forces: str = "") -> None:
    """Add the arguments of commands that publish; `forces` says what force does, if there is such a thing."""
    if forces:
        parser.add_argument("--force", action="store_true", help=forces)
    parser.add_argument(
        "--spark",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="do all in Spark, or nothing; by default what is large",
    )
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with 3 where there was nothing to do, not with 0"
    )


def run(options: argparse.Namespace) -> int:
    """Ingest, and say what was published."""
    from hipslake.api.ingesting import ingested
    from hipslake.cli.places import spec_path
    from hipslake.cli.progress_bar import shown_progress

    spec: Any = _plain_spec(options) if options.spec is None else str(spec_path(options.spec, "catalogs"))
    with shown_progress() as told:
        outcome = ingested(
            options.files or None,
            spec=spec,
            warehouse=options.warehouse,
            interval=interval_of(options.interval),
            threshold=options.threshold,
            layout=options.layout,
            force=options.force,
            spark=options.spark,
            told=told,
        )
    return tell_outcome(outcome, options)


def tell_outcome(outcome: Outcome, options: argparse.Namespace) -> int:
    """Print what a run came to, and return the exit code."""
    from hipslake.cli.main import NOTHING_TO_DO, OK
    from hipslake.cli.printing import counted, print_json

    catalog, why = outcome.catalog, outcome.nothing_to_do
    metadata = catalog.metadata
    if options.json:
        answer = {
            "catalog": catalog.name,
            "uri": catalog.uri,
            "version": catalog.version,
            "published": not why,
            "nothing_to_do": why,
            "rows": metadata.total_rows,
            "bytes": metadata.total_bytes,
            "leaves": len(catalog.pixels),
            "run": outcome.run_uri,
        }
        print_json(answer)
    else:
        size = f"{counted(metadata.total_rows, 'row')} in {counted(len(catalog.pixels), 'partition')}"
        print(f"{catalog.name}, version {catalog.version}: {why or size}")
        print(catalog.uri)
    return NOTHING_TO_DO if why and options.exit_code else OK


def _plain_spec(options: argparse.Namespace) -> dict[str, Any]:
    """The spec that the arguments say."""
    if options.name is None or not options.files:
        raise argparse.ArgumentError(None, "give --spec, or --name and the files")
    return {
        "name": options.name,
        "description": options.description or "",
        "position": {
            "ra": options.ra or "ra",
            "dec": options.dec or "dec",
            **({"unit": options.unit} if options.unit else {}),
            **({"frame": options.frame} if options.frame else {}),
            **({"epoch": options.epoch} if options.epoch else {}),
        },
        "mode": "append" if options.append else "replace",
        "margin": {"arcsec": options.margin or []},
        "index": options.index or [],
        **(
            {}
            if options.bad_rows is None
            else {"bad_rows": {"policy": "quarantine", "max_fraction": options.bad_rows}}
        ),
    }


def interval_of(given: list[str] | None) -> Any:
    """The interval that an argument names, as the functions of the library take it."""
    if given is None:
        return None
    times = [float(text) if _is_number(text) else text for text in given]
    return times[0] if len(times) == 1 else tuple(times)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return len(text) < 8 or "." in text  # 20261120 is a date in ISO 8601
