"""Pixels that files say their rows lie in (`_healpix_29`, Norder, Dir, Npix), held against their positions.

The columns are those of HATS files. What is stored is never taken over: the pixel of each position has to be
worked out to compare it, and the one that is worked out is written.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.errors import SchemaMismatchError
from hipslake.sources.shaped_source import files_schema
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.source_columns import PIXEL_COLUMNS
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER
from hipslake.sphere.stored_pixels import lie_elsewhere

OTHER_PIXEL, OTHER_PARTITION = 1, 2
"""The faults of a row: `_healpix_29` is of another position; Norder, Dir or Npix are not those of it."""

_DIR_PIXELS = 10_000  # pixels whose files lie in one folder


def check_claims(spec: CatalogSpec, schema: pa.Schema) -> None:
    """Look whether files whose pixels are to be verified have them.

    Parameters
    ----------
    spec : CatalogSpec
    schema : pyarrow.Schema
        Of the source, which carries that of its files along.

    Raises
    ------
    SchemaMismatchError
        They have no `_healpix_29`, or a Npix without Norder, or a Dir without Npix.
    """
    files = files_schema(schema)
    if spec.source.healpix is None or files is None:
        return
    renamed = spec.source.columns.rename if spec.source.columns is not None else {}
    names = {renamed.get(name, name) for name in files.names}
    where = f"spec {spec.name!r}, source.healpix: verify"
    if HEALPIX_COLUMN not in names:
        raise SchemaMismatchError(
            f"{where}: the files have no column {HEALPIX_COLUMN}, which would be held against the positions; "
            "leave healpix out"
        )
    for name, needed in (("Npix", "Norder"), ("Dir", "Npix")):
        if name in names and needed not in names:
            raise SchemaMismatchError(
                f"{where}: the files have a column {name} and no {needed}, without which it says nothing; "
                f"leave healpix out, and write source: {{columns: {{drop: [{', '.join(PIXEL_COLUMNS)}]}}}}"
            )


def with_claims(schema: pa.Schema) -> pa.Schema:
    """A schema of a source with the columns of pixels, int64 each, as they are to be read."""
    added = [pa.field(name, pa.int64()) for name in PIXEL_COLUMNS if name not in schema.names]
    return pa.schema([*schema, *added], schema.metadata)


def claim_faults(
    rows: pa.RecordBatch | pa.Table,
    kept: NDArray[np.int64] | None,
    ra: NDArray[np.float64],
    dec: NDArray[np.float64],
    h29: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """What is wrong with the pixels that rows say they lie in.

    Parameters
    ----------
    rows : pyarrow.RecordBatch or pyarrow.Table
        With the columns of pixels; a null says nothing, but in `_healpix_29`, where it is a fault.
    kept : int64[n] or None
        The rows that are looked at; None: all.
    ra, dec : float64[n]
        ICRS degrees of these.
    h29 : int64[n]
        Their pixels by their positions.

    Returns
    -------
    uint8[n]
        0, `OTHER_PIXEL` or `OTHER_PARTITION`.
    """
    (stored, _), (norder, has_order), (folder, has_folder), (npix, has_npix) = (
        _claim(rows.column(name), kept) for name in PIXEL_COLUMNS
    )
    elsewhere = lie_elsewhere(ra, dec, stored, h29)
    is_order = has_order & (norder >= 0) & (norder <= MAX_ORDER)
    shift = 2 * (MAX_ORDER - np.where(is_order, norder, 0))
    wrong = has_order & ~is_order
    wrong |= has_npix & ~(is_order & ((stored >> shift) == npix))
    wrong |= has_folder & ~(has_npix & (folder == npix // _DIR_PIXELS * _DIR_PIXELS))
    return np.where(elsewhere, OTHER_PIXEL, np.where(wrong, OTHER_PARTITION, 0)).astype(np.uint8)


def claims_text(rows: pa.RecordBatch | pa.Table, at: int) -> str:
    """What a row says of its pixel, for people."""
    said = {name: rows.column(name)[at].as_py() for name in PIXEL_COLUMNS}
    shown = {name: value for name, value in said.items() if value is not None or name == HEALPIX_COLUMN}
    return ", ".join(f"{name} {'null' if value is None else value}" for name, value in shown.items())


def _claim(
    column: pa.Array | pa.ChunkedArray, kept: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The numbers of a column, -1 for null, and which are none."""
    there = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.fill_null(-1).to_numpy(zero_copy_only=False)
    return (values, there) if kept is None else (values[kept], there[kept])
