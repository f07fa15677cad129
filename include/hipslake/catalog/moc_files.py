"""MOCs in files: FITS, JSON, or text; and the regions that a text names, files included."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from hipslake.errors import RegionError
from hipslake.sphere.regions import Moc, Region, parse_region
from hipslake.sphere.regions.region_text import parse_moc
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json

MOST_BYTES = 64 << 20
"""Of the file of a MOC; one of all surveys together at order 11 has fewer."""
_INLINE = re.compile(r"[\d/,\s-]*")  # so much is in a MOC that is written out


def region_of(region: Any) -> Region:
    """A region as it is given to a read: a region, a text, or a `mocpy.MOC`. `moc URI` is read from the file.

    Raises
    ------
    RegionError
        It is no region and no text of one, or the file holds no MOC.
    StorageError
        The file cannot be read.
    """
    if not isinstance(region, str):
        if hasattr(region, "to_depth29_ranges"):
            return Moc.from_mocpy(region)
        if not callable(getattr(region, "cover", None)):
            raise RegionError(
                f"a region is one of hipslake.sphere.regions, or a text such as 'cone 56.75 24.12 3deg', "
                f"not {region!r}"
            )
        found: Region = region
        return found
    place = file_of_region(region)
    return parse_region(region) if place is None else read_moc(place)


def file_of_region(text: str) -> str | None:
    """The file that a text of a region names; None for one that is written out.

    Examples
    --------
    >>> file_of_region("moc s3://survey/area.fits"), file_of_region("moc 3/1 2")
    ('s3://survey/area.fits', None)
    """
    kind, _, rest = text.strip().partition(" ")
    return rest.strip() if kind.lower() == "moc" and not _INLINE.fullmatch(rest) else None


def read_moc(uri: str | Path) -> Moc:
    """Read a MOC from a FITS, JSON or text file; the content says which it is.

    Parameters
    ----------
    uri : str or Path
        A local path or a URI.

    Raises
    ------
    RegionError
        There is no such file, or it holds no MOC of the sky.
    StorageError
        The file cannot be read.
    """
    try:
        storage, name = Storage.of_file(uri)
    except ValueError as error:
        raise RegionError(f"MOC {error}") from None
    where = storage.uri(name)
    try:
        data = storage.read_plain(name, MOST_BYTES)
    except FileNotFoundError:
        raise RegionError(f"MOC {where} does not exist") from None
    except ValueError as error:
        raise RegionError(f"MOC {error}") from None
    if data.startswith(b"SIMPLE"):
        return _from_fits(data, where)
    try:
        text = data.decode("ascii")
        text = _from_json(text) if text.lstrip().startswith("{") else text
        if not text.strip():  # a MOC of nothing still says its order: a file without one was cut short
            raise ValueError("nothing is in it; a MOC without pixels is 0/")
        if not _INLINE.fullmatch(text):  # what else is in a file is nobody's who may name it in a form
            raise ValueError("it holds other than orders and pixels")
        return parse_moc(text)
    except (ValueError, RegionError) as error:
        raise RegionError(f"{where} is no MOC in FITS, JSON or text: {error}") from None


def _from_json(text: str) -> str:
    """A MOC in JSON, `{"3": [1, 2], "5": [7]}`, as text."""
    orders = plain_json(text)
    if not all(isinstance(pixels, list) for pixels in orders.values()):
        raise ValueError("JSON of a MOC has a list of pixels for each order")
    return " ".join(f"{order}/{','.join(map(str, pixels))}" for order, pixels in orders.items())


def _from_fits(data: bytes, where: str) -> Moc:
    from mocpy import MOC

    with tempfile.TemporaryDirectory(prefix="hipslake-") as folder:
        path = Path(folder, "moc.fits")
        path.write_bytes(data)
        try:
            return Moc.from_mocpy(MOC.load(path, format="fits"))
        except Exception as error:  # of many kinds, by what is wrong
            raise RegionError(f"{where} is no FITS file of a MOC of the sky: {error}") from error
        except BaseException as error:  # a panic of its Rust is no Exception
            if type(error).__name__ != "PanicException":
                raise
            raise RegionError(f"{where} is no FITS file of a MOC of the sky: {error}") from None
