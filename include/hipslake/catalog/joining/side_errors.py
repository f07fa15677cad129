"""The position errors of one side of a cross-match: read, held against what is said of them, and bounded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from hipslake.catalog.joining.value_bounds import leaf_bounds
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.catalog.schema import field_text
from hipslake.catalog.selection import select
from hipslake.errors import SpecError
from hipslake.joins.error_regions import ErrorRegions
from hipslake.specs.error_columns import ARCSEC_OF, ErrorColumns
from hipslake.sphere.coordinates import positions
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads


def regions_of(rows: pa.Table, columns: ErrorColumns) -> ErrorRegions:
    """The errors of rows; NaN where they are null."""
    major = columns.error or columns.semi_major
    held = {name: positions(rows[name], rows[name])[0] for name in columns.columns}
    lengths = [held[name] * ARCSEC_OF[columns.unit] for name in (major, columns.semi_minor) if name]
    angle = np.zeros(rows.num_rows) if columns.position_angle is None else held[columns.position_angle]
    return ErrorRegions(lengths[0], lengths[-1], angle)


def check_error_units(catalog: str, schema: pa.Schema, columns: ErrorColumns) -> None:
    """Hold the units that the columns have against those that are said; what has none passes.

    Raises
    ------
    SpecError
        A column is in another unit.
    """
    for name in columns.columns:
        said = columns.unit if name in columns.axes else "deg"
        told = field_text(schema.field(name), "unit")
        if told is not None and _is_another_angle(told, said):
            mends = told in ARCSEC_OF and name in columns.axes
            raise SpecError(
                f"catalog {catalog}: column {name!r} of its position errors is in {told}, but taken for "
                f"{said}; {f'write unit: {told}' if mends else 'convert it'}, or name another column"
            )


def _is_another_angle(told: str, said: str) -> bool:
    from astropy import units

    unit = units.Unit(told, parse_strict="silent")
    return bool(unit.physical_type == "angle" and unit != units.Unit(said))


def largest_error_in(
    storage: Storage,
    metadata: CatalogMetadata,
    columns: ErrorColumns,
    rows_in: Callable[[Intervals], pa.Table],
) -> float:
    """A bound on the errors of the rows of a catalog that take part in a match, in arcseconds.

    Parameters
    ----------
    storage : Storage
        At the catalog's root. Only footers are read, but for leaves in which one tells of an error that may
        not be: there may be rows that take no part.
    metadata : CatalogMetadata
    columns : ErrorColumns
    rows_in : callable
        Gives the rows that take part, of some stretches of the curve, with `_healpix_29` and the columns.

    Raises
    ------
    SpecError
        A row has a negative or an infinite error, or one above the maximum that is stated.
    """
    most = np.inf if columns.maximum is None else columns.maximum
    bound, doubtful = 0.0, []
    for group, held in select(metadata, columns.axes).columns.items():
        names = [name for name in held if name in columns.axes]
        files, schema = metadata.partitions(group, storage), metadata.schema_of(group)

        def bounds_of(path: str, names: list[str] = names, schema: pa.Schema = schema) -> tuple[float, float]:
            bounds = leaf_bounds(storage, path, schema, names)
            return float(bounds.min(initial=0.0)), float(bounds.max(initial=0.0))

        found = in_threads(storage, bounds_of, files["path"].to_pylist())
        starts, stops = (edges.tolist() for edges in leaf_spans(files))
        for start, stop, (least, largest) in zip(starts, stops, found, strict=True):
            if least < 0.0 or largest > most or np.isinf(largest):
                doubtful.append((start, stop))
            else:
                bound = max(bound, largest * ARCSEC_OF[columns.unit])
    for start, stop in doubtful:
        rows = rows_in(Intervals.union([start], [stop]))
        bound = max(bound, _largest_of(rows, columns, metadata.catalog))
    return bound


def _largest_of(rows: pa.Table, columns: ErrorColumns, catalog: str) -> float:
    """The largest error of rows, arcseconds."""
    most = np.inf if columns.maximum is None else columns.maximum
    largest = 0.0
    for name in columns.axes:
        values, _ = positions(rows[name], rows[name])
        if len(wrong := np.flatnonzero((values < 0.0) | (values > most) | np.isinf(values))):
            value = float(values[wrong[0]])
            why = (
                f"above the 'maximum' of {most:g}"
                if value > most
                else "none: it has to be finite, and not below 0"
            )
            raise SpecError(
                f"catalog {catalog}: the position error {name!r} of the row with {HEALPIX_COLUMN} "
                f"{rows[HEALPIX_COLUMN][int(wrong[0])]} is {value:g} {columns.unit}, which is {why}; leave "
                f"such rows out with filters, such as '{name} >= 0', or state a larger 'maximum'"
            )
        known = values[~np.isnan(values)] * ARCSEC_OF[columns.unit]
        largest = max(largest, float(known.max(initial=0.0)))
    return largest
