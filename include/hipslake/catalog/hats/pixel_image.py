"""Pixels in a figure of matplotlib, as they are: `imshow` would resample them, even where sizes are equal."""

from __future__ import annotations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.patches import Patch
from matplotlib.transforms import TransformedPatchPath
from numpy.typing import NDArray


class PixelImage(Artist):
    """An image whose pixels are those of the figure; of backends that draw pixels.

    Parameters
    ----------
    pixels : uint8[h, w, 4]
        RGBA, from the top row down.
    left, bottom : int
        Place of the lower left corner, in pixels from that of the figure.
    outline : Patch
        What lies in it is drawn.
    """

    def __init__(self, pixels: NDArray[np.uint8], left: int, bottom: int, outline: Patch) -> None:
        super().__init__()
        self._pixels, self._left, self._bottom = np.ascontiguousarray(pixels[::-1]), left, bottom
        self._outline = TransformedPatchPath(outline)

    def draw(self, renderer: RendererBase) -> None:
        """Draw the pixels."""
        context = renderer.new_gc()
        context.set_clip_path(self._outline)
        renderer.draw_image(context, self._left, self._bottom, self._pixels)
        context.restore()
