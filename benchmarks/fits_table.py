"""A large FITS binary table of made-up stars, written in pieces so that writing needs little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from astropy.io import fits

ROW = np.dtype(
    [
        ("source_id", ">i8"),
        ("ra", ">f8"),
        ("dec", ">f8"),
        ("parallax", ">f8"),
        ("pmra", ">f4"),
        ("pmdec", ">f4"),
        ("mag", ">f4", (5,)),
        ("flux", ">i4"),
        ("flags", ">i2"),  # unsigned
        ("visits", ">i2"),  # with nulls
        ("name", "S20"),
        ("good", "S1"),
    ]
)
_FORMS = ("K", "D", "D", "D", "E", "E", "5E", "J", "I", "I", "20A", "L")
_BLOCK = 2880
_PIECE_ROWS = 500_000
SEED = 20261121


def write_table(path: Path, rows: int) -> None:
    """Write a file of one table with so many rows of `ROW`."""
    header = fits.Header([("XTENSION", "BINTABLE"), ("BITPIX", 8), ("NAXIS", 2), ("NAXIS1", ROW.itemsize)])
    header.update({"NAXIS2": rows, "PCOUNT": 0, "GCOUNT": 1, "TFIELDS": len(_FORMS)})
    for number, (name, form) in enumerate(zip(ROW.names or (), _FORMS, strict=True), 1):
        header[f"TTYPE{number}"], header[f"TFORM{number}"] = name, form
    header.update({"TZERO9": 32768, "TNULL10": -1})
    rng = np.random.default_rng(SEED)
    with path.open("wb") as file:
        primary = fits.Header([("SIMPLE", True), ("BITPIX", 8), ("NAXIS", 0), ("EXTEND", True)])
        file.write(primary.tostring().encode() + header.tostring().encode())
        for first in range(0, rows, _PIECE_ROWS):
            file.write(_piece(rng, first, min(_PIECE_ROWS, rows - first)).tobytes())
        file.write(bytes(-(rows * ROW.itemsize) % _BLOCK))


def _piece(rng: np.random.Generator, first: int, rows: int) -> np.ndarray:
    table = np.zeros(rows, ROW)
    table["source_id"] = np.arange(first, first + rows)
    table["ra"] = rng.uniform(0, 360, rows)
    table["dec"] = np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    for name in ("parallax", "pmra", "pmdec"):
        table[name] = rng.standard_normal(rows)
    table["mag"] = rng.uniform(10, 20, (rows, 5))
    for name in ("flux", "flags", "visits"):
        table[name] = rng.integers(-1, 1000, rows)
    table["name"] = np.char.add(b"star ", table["source_id"].astype("S10"))
    table["good"] = np.where(rng.random(rows) < 0.9, b"T", b"F")
    return table
