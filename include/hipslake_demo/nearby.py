"""A catalog of others for the demo to adopt: stars near to the Sun, as an observatory might publish them.

It is made of Hipparcos by our own writer, and nothing tells that: what lies there is a HATS tree alone,
without versions and metadata of ours. Its property file says what others say of theirs.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hipslake.api.ingesting import ingest
from hipslake.catalog.checksums import CHECKSUMS
from hipslake.catalog.hats.joined_footers import PARTS
from hipslake.sources.unification import described_field
from hipslake.storage.folder import Storage

from hipslake_demo.hipparcos import HIPPARCOS_ATTRIBUTION, hipparcos_as_published

NAME = "nearby_stars"
PLACE = f"others/{NAME}"
"""Where its tree lies, below the landing folder."""

PROPERTIES = ("hats.properties", "properties")
_NOT_OF_OTHERS = (CHECKSUMS, posixpath.basename(PARTS))
_LEAST_PARALLAX = 20.0  # mas: within 50 parsec
_OF_OURS = ("hats_builder", "hats_creation_date", "hats_release_date")
_OF_THEIRS = {"hats_creator": "an observatory", "hats_creation_date": "2026-01-01T00:00UTC"}
_FIELDS = {  # what theirs is called: the column of ours, type, unit, description
    "hip": ("HIP", pa.int32(), "", "Number in the Hipparcos catalogue"),
    "ra": ("RArad", pa.float64(), "deg", "Right ascension, ICRS, epoch J1991.25"),
    "dec": ("DErad", pa.float64(), "deg", "Declination, ICRS, epoch J1991.25"),
    "parallax": ("Plx", pa.float64(), "mas", "Parallax"),
    "pmra": ("pmRA", pa.float64(), "mas/yr", "Proper motion in right ascension, times cos(dec)"),
    "pmdec": ("pmDE", pa.float64(), "mas/yr", "Proper motion in declination"),
    "hp_mag": ("Hpmag", pa.float32(), "mag", "Magnitude in the band of Hipparcos"),
}
_SPEC = {
    "name": NAME,
    "description": "Stars of Hipparcos within 50 pc (van Leeuwen 2007, I/311)",
    "attribution": HIPPARCOS_ATTRIBUTION,
    "position": {"ra": "ra", "dec": "dec", "epoch": 1991.25},
    "threshold": "200 rows",
}


def nearby_table() -> pa.Table:
    """Return the stars within 50 parsec, positions in degrees."""
    text = hipparcos_as_published()
    text = text.filter(pc.greater_equal(text["Plx"].cast(pa.float64()), _LEAST_PARALLAX))
    columns, fields = [], []
    for name, (own, kind, unit, description) in _FIELDS.items():
        values = text[own].cast(pa.float64() if pa.types.is_floating(kind) else kind)
        if unit == "deg":
            values = pa.array(np.degrees(values.to_numpy()))
        columns.append(values.cast(kind))
        fields.append(described_field(name, kind, unit, description))
    return pa.table(columns, schema=pa.schema(fields))


def write_nearby(folder: Path | str) -> dict[str, bool]:
    """Write the tree below a landing folder; what is there with the right content is left alone.

    Parameters and what it returns are those of `hipslake_demo.landing.write_landing`. The property files are
    written last, so that nobody takes a part of the tree for all of it.
    """
    storage = Storage.at(folder)
    done = {}
    for path, content in _tree().items():
        where = f"{PLACE}/{path}"
        done[where] = not storage.exists(where) or storage.read(where) != content
        if done[where]:
            storage.write(where, content)
    return done


def _tree() -> dict[str, bytes]:
    """The content of every file of the tree, by path."""
    with TemporaryDirectory(prefix="hipslake-nearby-") as folder:
        made = ingest(nearby_table(), spec=_SPEC, warehouse=folder, spark=False)
        root = Path(made.path(made.groups[0]))
        files = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.name not in _NOT_OF_OTHERS
        }
    for name in PROPERTIES:
        files[name] = _as_of_others(files.pop(name))
    return files


def _as_of_others(properties: bytes) -> bytes:
    """A property file without what our writer says of itself."""
    lines = properties.decode().splitlines()
    kept = [line for line in lines if line.partition("=")[0] not in _OF_OURS]
    return "\n".join([*kept, *(f"{key}={text}" for key, text in _OF_THEIRS.items()), ""]).encode()
