"""Regions of the sky, respelt, and files of MOCs, spoilt."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from hipslake.catalog.moc_files import region_of

from tests.fuzz.mutation import spoilt
from tests.fuzz.target import Case, Target
from tests.fuzz.typed import text_of, typed

_REGIONS = (
    "cone 56.75 24.12 3deg",
    "box ra 350..10 dec -5..5",
    "polygon 10 0, 20 0, 15 10",
    "moc 3/1-4 5/7,9 29/12-13",
    "pixels 2/5,6 3/100",
)
_REGION_WORDS = (
    *(
        "cone",
        "box",
        "polygon",
        "moc",
        "pixels",
        "ra",
        "dec",
        "..",
        "deg",
        "arcmin",
        "mas",
        "29/",
        "0/0-11",
        "5/0-12287",
    ),
    *(
        "90",
        "-90",
        "360",
        "-360",
        "720",
        "180",
        "1e-9",
        "0",
        "30/1",
        "29/3458764513820540927",
        "90.0000001",
        "/",
        ",",
    ),
)


def _read_region(case: Case, folder: Path) -> None:
    region = region_of(typed(case))
    region.cover()
    region.contains(np.array([0.0, 10.0, 359.9]), np.array([-90.0, 0.0, 90.0]))
    assert str(region_of(str(region))) == str(region), "its text names another region"


_MOCS = (b"3/1-4 5/7,9 29/", b'{"3": [1, 2], "5": [7]}', b"0/0-11", b"29/")


@cache
def _mocs() -> list[bytes]:
    from mocpy import MOC

    moc = MOC.from_string("3/1-4 5/700", "ascii")
    place = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/tmp")
    path = place / f"hipslake-fuzz-moc-{id(moc)}.fits"
    moc.save(path, format="fits", overwrite=True)
    try:
        return [*_MOCS, path.read_bytes(), path.read_bytes()]
    finally:
        path.unlink()


def _moc_file(random: Random) -> Case:
    return Case(spoilt(random, random.choice(_mocs()), _mocs(), most=random.choice((1, 2, 5))), ".moc")


def _read_moc(case: Case, folder: Path) -> None:
    (folder / "a.moc").write_bytes(case.data)
    region_of(f"moc {folder}/a.moc").cover()


REGION = Target("region", text_of(_REGIONS, _REGION_WORDS), _read_region, share=4)
MOC_FILE = Target("moc file", _moc_file, _read_moc, share=2)
