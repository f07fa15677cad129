"""The negative tree as hats computes it. For the peers' interpreter: JSON pixels in, JSON pixels out."""

from __future__ import annotations

import json
import sys

from hats.pixel_tree.negative_tree import compute_negative_tree_pixels
from hats.pixel_tree.pixel_tree import PixelTree

tree = PixelTree.from_healpix([tuple(pixel) for pixel in json.load(sys.stdin)])
json.dump([[int(pixel.order), int(pixel.pixel)] for pixel in compute_negative_tree_pixels(tree)], sys.stdout)
