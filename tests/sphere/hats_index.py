"""`_healpix_29` as hats computes it. For the peers' interpreter: `hats_index.py POSITIONS.npy INDEX.npy`."""

from __future__ import annotations

import sys

import numpy as np
from hats.pixel_math.spatial_index import compute_spatial_index

ra, dec = np.load(sys.argv[1])
np.save(sys.argv[2], compute_spatial_index(ra, dec))
