"""healpy's pixel functions, loaded without healpy."""

from __future__ import annotations

import os
import subprocess
import sys

import healpy
import numpy as np
from hipslake.sphere.pixels import pixel_functions


def test_they_are_healpys_own() -> None:
    rng = np.random.default_rng(1)
    lon, lat = rng.uniform(-360, 720, 10_000), np.degrees(np.arcsin(rng.uniform(-1, 1, 10_000)))
    alone = pixel_functions()
    pixels = alone.ang2pix(1 << 29, lon, lat, nest=True, lonlat=True)
    assert np.array_equal(pixels, healpy.ang2pix(1 << 29, lon, lat, nest=True, lonlat=True))
    assert alone.__file__ == healpy.pixelfunc.__file__


def test_they_bring_nothing_along() -> None:
    program = """
import sys
from hipslake.sphere.pixels import pixel_functions
assert pixel_functions().nside2npix(1) == 12
print(*(name for name in ("healpy", "matplotlib", "astropy.io") if name in sys.modules))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert told.stdout.split() == []
