"""The files of a HiPS catalogue beside its tiles: properties, columns, coverage, and the list of HiPS."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.exports.votable_types import DeclaredField, declared_field
from hipslake.library_version import __version__
from hipslake.sphere.pixels import MAX_ORDER, centers29

PROPERTIES = "properties"
COVERAGE = "Moc.fits"
COLUMNS = ("Metadata.xml", "metadata.xml")
"""The standard has the second name; Aladin Lite asks for the first."""
HIPS_LIST = "hipslist"
HIPS_VERSION = "1.4"
"""As version 1.0 of the standard calls itself."""
_MOST_TITLE = 80  # characters
_TILES_OF_A_FOLDER = 10_000
_WIDEST_VIEW = 180.0  # degrees


def tile_path(order: int, npix: int) -> str:
    """The file of a tile.

    Examples
    --------
    >>> tile_path(6, 10302)
    'Norder6/Dir10000/Npix10302.tsv'
    """
    folder = npix // _TILES_OF_A_FOLDER * _TILES_OF_A_FOLDER
    return f"Norder{order}/Dir{folder}/Npix{npix}.tsv"


def allsky_path(order: int) -> str:
    """The file of all tiles of an order together."""
    return f"Norder{order}/Allsky.tsv"


def completeness_line(shown: int, total: int) -> str:
    """The first line of a tile: how many rows of its pixel it and coarser tiles hold, of how many.

    Where they are all, clients do not ask for finer tiles. There are no blanks around the slash, as Aladin
    Desktop does not read numbers with blanks.
    """
    return f"# Completeness = {shown}/{total}\n"


@dataclass(frozen=True)
class HipsProperties:
    """What `properties` says of a HiPS catalogue.

    Attributes
    ----------
    creator_did : str
        Its identifier: `ivo://authority/path`.
    name, title, description, attribution : str
    origin : str
        Where the rows come from.
    rule : str
        Which rows stand in which tiles, for people.
    status : str
        Words of `hips_status`.
    created : datetime
        With a time zone.
    deepest : int
        The order of the finest tiles.
    rows, tiles, bytes : int
    sky_fraction : float
        Of the coverage.
    view : tuple of float
        Right ascension and declination of the first view, and its width, in degrees, ICRS.
    """

    creator_did: str
    name: str
    title: str
    description: str
    attribution: str
    origin: str
    rule: str
    status: str
    created: datetime
    deepest: int
    rows: int
    tiles: int
    bytes: int
    sky_fraction: float
    view: tuple[float, float, float]

    def fields(self) -> dict[str, str]:
        """Keywords and values, in the order in which they are written; empty ones are left out."""
        moment = f"{self.created:%Y-%m-%dT%H:%MZ}"
        values: Mapping[str, object] = {
            "creator_did": self.creator_did,
            "obs_collection": self.name,
            "obs_title": _title(self.title or self.name),
            "obs_description": self.description,
            "obs_copyright": self.attribution,
            "prov_progenitor": self.origin,
            "hips_builder": f"hipslake {__version__}",
            "hips_version": HIPS_VERSION,
            "hips_creation_date": moment,
            "hips_release_date": moment,
            "hips_processing": self.rule,
            "hips_status": self.status,
            "hips_frame": "equatorial",
            "hips_order": self.deepest,
            "hips_tile_format": "tsv",
            "hips_cat_nrows": self.rows,
            "hips_nb_tiles": self.tiles,
            "hips_estsize": -(-self.bytes // 1024),
            "hips_initial_ra": f"{self.view[0]:.6f}",
            "hips_initial_dec": f"{self.view[1]:.6f}",
            "hips_initial_fov": f"{self.view[2]:.6f}",
            "dataproduct_type": "catalog",
            "moc_sky_fraction": f"{self.sky_fraction:.9f}",
        }
        lines = {key: _in_one_line(str(value)) for key, value in values.items()}
        return {key: value for key, value in lines.items() if value}


def properties_text(fields: Mapping[str, str]) -> str:
    """The lines `keyword = value` of some properties."""
    return "".join(f"{key:<20} = {value}\n" for key, value in fields.items())


def hips_list(fields: Mapping[str, str], service_url: str) -> str:
    """The list of a HiPS node with one HiPS in it, which lies at an URL."""
    return properties_text({**fields, "hips_service_url": service_url})


def _title(text: str) -> str:
    line = _in_one_line(text)
    return line if len(line) <= _MOST_TITLE else f"{line[: _MOST_TITLE - 3].rstrip()}..."


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def view_of(start: NDArray[np.int64], stop: NDArray[np.int64]) -> tuple[float, float, float]:
    """The view that shows some pixels: its center and width, degrees, ICRS.

    Parameters
    ----------
    start, stop : int64[n]
        Order-29 pixels [start, stop), each of them a pixel.
    """
    if not len(start):
        return 0.0, 0.0, _WIDEST_VIEW
    middle = start + (stop - start) // 4 * 3  # the last of four children begins at the center of its parent
    ra, dec = np.radians(centers29(middle))
    vectors = np.stack([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)])
    mean = vectors.mean(axis=1)
    length = float(np.linalg.norm(mean))
    if length < 0.1:  # they lie all around
        return 0.0, 0.0, _WIDEST_VIEW
    mean /= length
    apart = float(np.degrees(np.arccos(np.clip(mean @ vectors, -1, 1))).max())
    widest = float(np.degrees(np.sqrt(4 * np.pi / 12 * (stop - start).max() / 4.0**MAX_ORDER)))
    center = np.degrees(np.arctan2(mean[1], mean[0])) % 360, np.degrees(np.arcsin(np.clip(mean[2], -1, 1)))
    return float(center[0]), float(center[1]), min(_WIDEST_VIEW, 2 * apart + 2 * widest)


def columns_file(schema: pa.Schema, position: Sequence[str], title: str, description: str) -> bytes:
    """The VOTable without rows that describes the columns of tiles.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the tiles. Field metadata says `unit`, `description` and `ucd`.
    position : sequence of str
        Names of the columns of right ascension and declination.
    title, description : str
    """
    from astropy.io.votable import tree

    document = tree.VOTableFile(version="1.4")
    resource = tree.Resource(name=_printable(title))
    document.resources.append(resource)
    resource.coordinate_systems.append(tree.CooSys(ID="ICRS", system="ICRS"))
    table = tree.TableElement(document, name=_printable(title))
    table.description = _printable(description) or None
    resource.tables.append(table)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # units and UCDs are those of the catalog, sound or not
        for field in schema:
            table.fields.append(_votable_field(document, field, position))
        document.to_xml(buffer)
    return buffer.getvalue()


def _votable_field(document: object, field: pa.Field, position: Sequence[str]) -> object:
    from astropy.io.votable import tree

    told = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    declared = declared_field(field.type, decimals=DeclaredField("double"))
    assert declared is not None, f"{field} was checked"
    ucd, unit = told.get("ucd", ""), told.get("unit", "")
    if field.name in position:
        ucd = ("pos.eq.ra;meta.main", "pos.eq.dec;meta.main")[list(position).index(field.name)]
        unit = "deg"
    else:  # only one position is the main one: that by which rows are drawn
        ucd = ";".join(word for word in ucd.split(";") if word.strip().lower() != "meta.main")
    made = tree.Field(
        document,
        name=_printable(field.name),
        datatype=declared.datatype,
        arraysize=declared.arraysize,
        xtype=declared.xtype,
        unit=_printable(unit or declared.unit or "") or None,
        ucd=_printable(ucd) or None,
        ref="ICRS" if field.name in position else None,
    )
    made.description = _printable(told.get("description", "")) or None
    return made


def _printable(text: str) -> str:
    """Text as XML can hold it, in one line."""
    return re.sub(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", " ", _in_one_line(text))
