"""FITS files, spoilt above all in their cards."""

from __future__ import annotations

import io
from functools import cache
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.mutation import NUMBERS, TEXTS
from tests.fuzz.source_cases import case_of, read_as
from tests.fuzz.target import Target


@cache
def _fits() -> list[bytes]:
    from astropy.io import fits

    lists = np.empty(20, object)
    lists[:] = [np.arange(at % 4) for at in range(20)]
    columns = [
        fits.Column("id", "J", array=np.arange(20), null=-1),
        fits.Column("ra", "D", array=np.linspace(0, 350, 20), unit="deg"),
        fits.Column("name", "6A", array=np.arange(20).astype("S6")),
        fits.Column("list", "PI", array=lists),
        fits.Column("ok", "L", array=np.arange(20) % 2 == 0),
        fits.Column("bits", "11X", array=np.zeros((20, 11), bool)),
        fits.Column("grid", "6E", dim="(3,2)", array=np.zeros((20, 2, 3), "f4")),
        fits.Column("z", "M", array=np.arange(20) * 1j),
        fits.Column("count", "J", bzero=2**31, array=np.arange(20, dtype="u4")),
        fits.Column("scaled", "E", bscale=0.5, bzero=3.0, array=np.arange(20.0)),
        fits.Column("texts", "12A", dim="(4,3)", array=np.full((20, 3), b"ab")),
    ]
    made = []
    for chosen in (columns, columns[:3], columns[3:4], columns[5:7]):
        sink = io.BytesIO()
        fits.BinTableHDU.from_columns(chosen).writeto(sink)
        made.append(sink.getvalue())
    sink = io.BytesIO()
    image = fits.CompImageHDU(np.zeros((30, 40), "i2"), name="TILES")
    fits.HDUList(
        [fits.PrimaryHDU(np.zeros(5, "i2")), image, fits.BinTableHDU.from_columns(columns[:2])]
    ).writeto(sink)
    return [*made, sink.getvalue()]


_CARDS = (
    *(
        "NAXIS1",
        "NAXIS2",
        "PCOUNT",
        "GCOUNT",
        "TFIELDS",
        "THEAP",
        "BITPIX",
        "NAXIS",
        "XTENSION",
        "SIMPLE",
        "EXTEND",
    ),
    *(
        "TFORM1",
        "TFORM2",
        "TFORM4",
        "TTYPE1",
        "TTYPE2",
        "TDIM1",
        "TDIM7",
        "TNULL1",
        "TSCAL1",
        "TZERO1",
        "TUNIT1",
    ),
    *("EXTNAME", "ZIMAGE", "GROUPS", "NAXIS3", "CONTINUE", "COMMENT", "HIERARCH", "TCOMM1", "END"),
)
_FORMS = (
    *(
        "1J",
        "0J",
        "J",
        "99999999999999999999J",
        "2147483647D",
        "2147483648B",
        "PJ",
        "QD(5)",
        "1PX",
        "2PJ",
        "PA(3)",
    ),
    *(
        "0PJ",
        "12A4",
        "12A0",
        "0A",
        "3X",
        "0X",
        "C",
        "2M",
        "L",
        "9Z",
        "",
        "J J",
        "-1J",
        "1.5J",
        "rJ",
        "16A99999999999",
    ),
)


def _fits_cards(random: Random, data: bytes) -> bytes:
    """Put other values into the cards of the headers; each keeps its 80 bytes."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(0, max(len(data), 1), 80) if random.random() < 0.3 else _card(random, data)
        name = data[at : at + 8].decode("latin-1") if random.random() < 0.7 else random.choice(_CARDS)
        value = random.choice((*NUMBERS[:-10], *(f"'{form}'" for form in _FORMS), "T", "F", "", *TEXTS[:30]))
        card = f"{name[:8]:8}= {value}"[:80].encode("latin-1", "replace").ljust(80)
        data = data[:at] + card + data[at + 80 :]
    return data


def _card(random: Random, data: bytes) -> int:
    """Where a card of the table's header stands."""
    places = [data.find(name.encode().ljust(8) + b"=") for name in random.sample(_CARDS, 5)]
    return next((at for at in places if at >= 0), 0)


def _fits_options(random: Random) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if random.random() < 0.2:
        given["hdu"] = random.choice((0, 1, 2, 99, "TILES", "é"))
    if random.random() < 0.3:
        given |= {"encoding": "latin-1", "nan_is_null": False}
    return given


TARGET = Target("fits", case_of(_fits, ".fits", _fits_cards, _fits_options), read_as("fits"), share=12)
