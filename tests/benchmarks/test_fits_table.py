"""The FITS table that benchmarks read is one that astropy reads too, with every kind of column in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from benchmarks import fits_table
from benchmarks.fits_reading import POSITIONS, read_astropy, read_hipslake
from benchmarks.fits_table import ROW, write_table


def test_the_table_is_whole_and_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits_table, "_PIECE_ROWS", 700)
    path = tmp_path / "stars.fits"
    write_table(path, 2000)
    with fits.open(path) as hdus:
        hdus.verify("exception")
        assert hdus[1].columns.names == list(ROW.names or ())
        assert hdus[1].data["source_id"].tolist() == list(range(2000))
        assert hdus[1].data["flags"].dtype == np.uint16
        assert hdus[1].data["good"].dtype == bool
    assert read_astropy(path, ()) == read_hipslake(path, POSITIONS) == 2000
