"""A picture of the bounds of files, on the first two columns that they are clustered by."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from io import BytesIO
from threading import Thread

import numpy as np

from hipslake.clustering.layout_quality import FileBoxes

_MOST_DRAWN = 2000


def load_beside() -> None:
    """Import what draws, in a thread of its own: a picture that is drawn later need not wait for it."""
    Thread(target=import_module, args=("matplotlib.figure",), name="load matplotlib", daemon=True).start()


def draw_boxes(before: FileBoxes, after: FileBoxes, columns: Sequence[str], title: str) -> bytes:
    """Draw the boxes of files before and after a compaction, side by side; return a PNG.

    Parameters
    ----------
    before, after : FileBoxes
        In shares of the rows, [0, 1].
    columns : sequence of str
        Their columns; one is drawn with a box per row of the picture.
    title : str
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(11, 5.6))
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.1, top=0.86, wspace=0.07)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, boxes, when in zip(panels, (before, after), ("before", "after"), strict=True):
        low, high = _drawn(boxes)
        patches = [Rectangle(tuple(a), *(b - a)) for a, b in zip(low, high, strict=True)]
        colours = np.arange(len(patches)) % 20
        panel.add_collection(
            PatchCollection(
                patches, array=colours, cmap="tab20", alpha=0.35, edgecolor="#333333", linewidth=0.5
            )
        )
        panel.set_title(f"{when}: {len(boxes)} files", loc="left")
        panel.set_xlim(0, 1)
        panel.set_ylim(0, 1)
        panel.set_xlabel(f"{columns[0]}, share of the rows")
    panels[0].set_ylabel(f"{columns[1]}, share of the rows" if len(columns) > 1 else "files")
    figure.suptitle(title)
    image = BytesIO()
    figure.savefig(image, format="png", dpi=110)
    return image.getvalue()


def _drawn(boxes: FileBoxes) -> tuple[np.ndarray, np.ndarray]:
    low, high = boxes.low[:_MOST_DRAWN, :2], boxes.high[:_MOST_DRAWN, :2]
    if boxes.low.shape[1] == 1:
        row = np.arange(len(low))[:, None] / max(1, len(low))
        low, high = np.hstack([low, row]), np.hstack([high, row + 1 / max(1, len(low))])
    whole = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    return low[whole], high[whole]
