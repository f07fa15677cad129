"""`hipslake match`: two catalogs are matched; the outcome is published, written to a file, or printed."""

from __future__ import annotations

import argparse
from typing import Any, Literal

from hipslake.cli.ingest_command import add_run_arguments, tell_outcome
from hipslake.cli.places import CATALOG, listed
from hipslake.cli.repeated_options import All
from hipslake.specs.error_columns import ARCSEC_OF


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "left", metavar="LEFT", help=f"{CATALOG}; or, alone, a spec of a join: a YAML file, or its name"
    )
    parser.add_argument("right", nargs="?", metavar="RIGHT", help=CATALOG)
    how = parser.add_argument_group("of two catalogs")
    how.add_argument("--radius", type=float, metavar="ARCSEC", help="largest separation of a match")
    for side in ("left", "right"):
        how.add_argument(
            f"--{side}-error",
            type=listed,
            metavar="COLUMN",
            help=f"in place of --radius, the column of the position errors of the {side} rows; or three: "
            "semi-major, semi-minor and position angle of ellipses, A,B,PA",
        )
    how.add_argument("--error-unit", choices=tuple(ARCSEC_OF), help="of the errors; by default arcsec")
    how.add_argument("--sigmas", type=float, metavar="N", help="how many times the errors count")
    how.add_argument(
        "--combine",
        choices=("quadrature", "sum"),
        help="how the errors of a pair add up; by default quadrature",
    )
    how.add_argument("--min-radius", type=float, metavar="ARCSEC", help="smallest separation of a match")
    how.add_argument(
        "--neighbours",
        metavar="N",
        help="how many of the nearest rows, or all; or pairs one to one: best, mutual; by default 1",
    )
    how.add_argument("--how", choices=("inner", "left", "anti", "outer"), help="by default inner")
    how.add_argument(
        "--columns", type=listed, action="extend", metavar="A,B", help="what is kept of the left catalog"
    )
    how.add_argument(
        "--right-columns", type=listed, action="extend", metavar="A,B", help="what is kept of the right one"
    )
    how.add_argument(
        "--filter", action=All, metavar="TEXT", help="which left rows take part, such as 'mag < 12'"
    )
    how.add_argument("--right-filter", action=All, metavar="TEXT", help="which right rows take part")
    parser.add_argument(
        "--region", metavar="TEXT", help="only left rows in it, such as 'cone 56.7 24.1 3deg'"
    )
    margin = parser.add_mutually_exclusive_group()
    margin.add_argument(
        "--build-margin",
        action="store_true",
        help="where the right catalog has no sufficient margin, build one for the catalog that is published",
    )
    margin.add_argument(
        "--without-margin",
        action="store_true",
        help="where it has none, do without, and say how many rows may lack partners in other leaves of it",
    )
    parser.add_argument("--name", metavar="NAME", help="publish the outcome as this catalog of the warehouse")
    parser.add_argument("--to", metavar="FILE", help="write the outcome to a Parquet, CSV or FITS file")
    parser.add_argument("--count", action="store_true", help="only say how many rows the outcome has")
    parser.add_argument(
        "--separation-bins",
        type=listed,
        metavar="A,B,C",
        help="with --count, edges of bins in arcseconds: how many rows have a separation in each",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    parser.add_argument("--threshold", metavar="SIZE", help="of a leaf of the catalog that is published")
    add_run_arguments(parser, "build a version even if the input is what the newest is made of")


def run(options: argparse.Namespace) -> int:
    """Match, and say what was published, or give the rows."""
    if options.name is not None and options.to is not None:
        raise argparse.ArgumentError(None, "--name publishes a catalog, --to writes a file; give one of them")
    if options.count and (options.name is not None or options.to is not None):
        raise argparse.ArgumentError(None, "--count gives no rows: leave --name and --to out")
    if options.separation_bins is not None and not options.count:
        raise argparse.ArgumentError(None, "--separation-bins are for --count; give it")
    _bins(options)  # before anything is opened
    if options.right is None:
        return _published(options, _spec_path(options))
    _check_radius(options)
    if options.name is not None:
        return _published(options, _plain_spec(options))
    if options.build_margin:
        raise argparse.ArgumentError(None, "--build-margin is for a catalog that is published: give --name")
    return _rows(options)


def _spec_path(options: argparse.Namespace) -> str:
    from hipslake.cli.places import spec_path

    given = (
        *("left_error", "right_error", "error_unit", "combine", "min_radius", "neighbours", "how"),
        *("columns", "right_columns", "filter", "right_filter", "to"),
    )
    extra = [name for name in given if getattr(options, name) is not None]
    if extra := [*extra, *(["count"] if options.count else [])]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in extra)
        raise argparse.ArgumentError(None, f"a spec says all of a match: leave {flags} out, or give RIGHT")
    return str(spec_path(options.left, "joins"))


def _check_radius(options: argparse.Namespace) -> None:
    """One radius for all pairs, or one that errors say."""
    errors = options.left_error or options.right_error
    if options.radius is None and errors is None:
        raise argparse.ArgumentError(
            None,
            "two catalogs are matched within --radius ARCSEC, or --sigmas N of --left-error and "
            "--right-error; give one of both",
        )
    if errors is not None and options.sigmas is None:
        raise argparse.ArgumentError(None, "--left-error and --right-error count --sigmas N times; give it")
    told = ("sigmas", "error_unit", "combine")
    if errors is None and (extra := [name for name in told if getattr(options, name) is not None]):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in extra)
        raise argparse.ArgumentError(None, f"{flags}: of --left-error and --right-error; give one of these")
    for side in (options.left_error, options.right_error):
        if side is not None and len(side) not in (1, 3):
            raise argparse.ArgumentError(
                None, f"errors are one column, or three (A,B,PA), not {len(side)}: {','.join(side)}"
            )


def _published(options: argparse.Namespace, match: Any) -> int:
    from hipslake.api.publishing import published_join
    from hipslake.cli.progress_bar import shown_progress

    with shown_progress() as told:
        outcome = published_join(
            match,
            name=options.name,
            warehouse=options.warehouse,
            radius_arcsec=options.radius if options.right is None else None,
            sigmas=options.sigmas if options.right is None else None,
            region=options.region,
            missing_margin="build" if options.build_margin else _without_margin(options),
            threshold=options.threshold,
            force=options.force,
            spark=options.spark,
            told=told,
        )
    return tell_outcome(outcome, options)


def _without_margin(options: argparse.Namespace) -> Literal["none"] | None:
    return "none" if options.without_margin else None


def _plain_spec(options: argparse.Namespace) -> dict[str, Any]:
    """The spec of the match that the arguments say."""
    sides = (
        (options.left, options.columns, options.filter),
        (options.right, options.right_columns, options.right_filter),
    )
    left, right = (
        {"catalog": name, "columns": columns, "filters": filters} for name, columns, filters in sides
    )
    return {"type": "crossmatch", "left": left, "right": right} | _options(options)


def _options(options: argparse.Namespace) -> dict[str, Any]:
    neighbours = options.neighbours
    given = {
        "radius_arcsec": options.radius,
        "radius": _error_radius(options),
        "min_radius_arcsec": options.min_radius,
        "neighbours": int(neighbours) if neighbours is not None and neighbours.isdigit() else neighbours,
        "how": options.how,
    }
    return {name: value for name, value in given.items() if value is not None}


def _error_radius(options: argparse.Namespace) -> dict[str, Any] | None:
    """The radius that errors say; None where there are none."""
    given = {"left": options.left_error, "right": options.right_error}
    unit = {} if options.error_unit is None else {"unit": options.error_unit}
    keys = {1: ("error",), 3: ("semi_major", "semi_minor", "position_angle")}
    sides = {
        side: dict(zip(keys[len(columns)], columns, strict=True)) | unit
        for side, columns in given.items()
        if columns is not None
    }
    combine = {} if options.combine is None else {"combine": options.combine}
    return {**sides, "sigmas": options.sigmas, **combine} if sides else None


def _rows(options: argparse.Namespace) -> int:
    """Match in memory; write the rows to a file, or print them."""
    from hipslake.cli.main import OK
    from hipslake.cli.places import opened
    from hipslake.cli.row_output import print_rows, write_rows
    from hipslake.exports.provenance import Provenance
    from hipslake.specs.join_specs import match_options

    left, right = opened(options, options.left), opened(options, options.right)
    rows = left.crossmatch(
        right,
        columns=options.columns,
        other_columns=options.right_columns,
        filters=options.filter,
        other_filters=options.right_filter,
        region=options.region,
        missing_margin=_without_margin(options) or "refuse",
        count_only=options.count,
        separation_bins=_bins(options),
        **_options(options),
    )
    if options.count:
        return _told_counts(options, rows)
    if options.to is None:
        print_rows(rows.schema, [rows], as_lines=options.json)
        return OK
    origin = Provenance(
        f"{left.name} with {right.name}",
        left.version,
        f"{left.uri}, version {left.version}, with {right.uri}, version {right.version}, within "
        + match_options(**_options(options)).within,
        region=options.region or "",
        filters=options.filter or "",
    )
    write_rows(options, rows.schema, [rows], origin)
    return OK


def _bins(options: argparse.Namespace) -> list[float] | None:
    """The edges of bins; None: none are asked for."""
    if options.separation_bins is None:
        return None
    try:
        return [float(edge) for edge in options.separation_bins]
    except ValueError:
        raise argparse.ArgumentError(
            None, f"--separation-bins: edges are numbers, not {','.join(options.separation_bins)}"
        ) from None


def _told_counts(options: argparse.Namespace, found: Any) -> int:
    """Print how many rows a match has, and how many lie in each bin."""
    from hipslake.cli.main import OK
    from hipslake.cli.printing import print_json, print_table

    bins, edges = found.separations, _bins(options)
    if options.json:
        told = {"rows": found.rows, "separations": None if bins is None else bins.tolist()}
        print_json(told | {"rows_near_borders": found.rows_near_borders})
        return OK
    print(found.rows)
    if bins is not None and edges is not None:
        print_table(["from", "to", "rows"], zip(edges, edges[1:], bins.tolist(), strict=False))
    return OK
