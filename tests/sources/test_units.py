"""Units of one column in several files: the same in meaning, or told."""

from __future__ import annotations

from pathlib import Path

import pytest
from astropy.io import fits
from hipslake.errors import SchemaMismatchError

from tests.sources.reading import read, source, told


def written(folder: Path, *units: str | None) -> None:
    for number, unit in enumerate(units):
        columns = [fits.Column("v", "D", array=[number], unit=unit), fits.Column("w", "D", array=[0])]
        fits.BinTableHDU.from_columns(columns).writeto(folder / f"{number}.fits")


@pytest.mark.parametrize("units", [("deg", "rad"), (None, "deg", "arcsec"), ("mag", "Jy"), ("km/s", "m s-1")])
def test_units_that_differ_are_told_with_files_and_column(
    tmp_path: Path, units: tuple[str | None, ...]
) -> None:
    written(tmp_path, *units)
    first, last = (unit for unit in units if unit)
    message = rf"column 'v' has unit '{last}' in .*{len(units) - 1}\.fits but '{first}' in .*\.fits"
    with pytest.raises(SchemaMismatchError, match=message):
        read(source("fits", f"{tmp_path}/*"))


@pytest.mark.parametrize(
    ("units", "kept"),
    [
        (("km/s", "km s-1", "km.s-1"), "km/s"),
        (("ct", "count"), "ct"),
        (("deg", None, "degree"), "deg"),
        ((None, "deg"), "deg"),
        (("sparks", "deg"), "sparks"),
        (("---", "deg"), "---"),
        (("e-/s", "electrons"), "e-/s"),
    ],
)
def test_units_that_mean_the_same_or_nothing_known_pass(
    tmp_path: Path, units: tuple[str | None, ...], kept: str
) -> None:
    written(tmp_path, *units)
    found = read(source("fits", f"{tmp_path}/*"))
    assert found["v"].to_pylist() == list(range(len(units)))
    assert told(found, "v") == (kept, None)
