"""The picture of the boxes of files, before and after a compaction."""

from __future__ import annotations

import io

import matplotlib.image
import numpy as np
import pytest
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.picture import draw_boxes
from numpy.typing import NDArray


def boxes(*bounds: tuple[float, float, float, float]) -> FileBoxes:
    """Files by their (lowest x, lowest y, highest x, highest y)."""
    each = np.array(bounds, dtype=float).reshape(-1, 4)
    return FileBoxes(low=each[:, :2], high=each[:, 2:])


def panels(before: FileBoxes, after: FileBoxes) -> list[NDArray[np.bool_]]:
    """Where something is painted within each of the two panels, y growing upwards; frames are cut off."""
    shown = matplotlib.image.imread(io.BytesIO(draw_boxes(before, after, ["ra", "dec"], "stars")))
    painted = (shown[..., :3] < 0.999).any(axis=2)[::-1]
    high, wide = painted.shape
    bottom, top = round(0.1 * high) + 4, round(0.86 * high) - 4
    width = 0.93 * wide / 2.07  # two panels and a gap of 0.07 of one, between 0.06 and 0.99 of the width
    lefts = (0.06 * wide, 0.06 * wide + 1.07 * width)
    return [painted[bottom:top, round(left) + 4 : round(left + width) - 4] for left in lefts]


@pytest.mark.parametrize(
    ("drawn", "share"),
    [
        (boxes((0, 0, 1, 1)), 1.0),
        (boxes((0, 0, 0.5, 0.5), (0.5, 0.5, 1, 1)), 0.5),
        (boxes((0, 0, 0.25, 1), (0, 0, 0.25, 1)), 0.25),
        (boxes((np.nan, 0, np.nan, 1), (0, 0, 1, 0.1)), 0.1),
        (boxes(), 0.0),
    ],
    ids=["whole", "quarters", "overlapping", "without values", "none"],
)
def test_a_panel_is_painted_where_its_boxes_are(drawn: FileBoxes, share: float) -> None:
    left, right = panels(drawn, boxes((0.5, 0, 1, 0.5)))
    assert left.mean() == pytest.approx(share, abs=0.02)
    assert right.mean() == pytest.approx(0.25, abs=0.02)
    assert right[: len(right) // 2 - 5, right.shape[1] // 2 + 5 :].all()
    left, right = panels(boxes((0.5, 0, 1, 0.5)), drawn)
    assert (left.mean(), right.mean()) == (pytest.approx(0.25, abs=0.02), pytest.approx(share, abs=0.02))


def test_boxes_of_one_column_are_drawn_one_above_the_other() -> None:
    one = FileBoxes(low=np.array([[0.0], [0.0]]), high=np.array([[1.0], [0.5]]))
    left, _ = panels(one, boxes())
    lower, upper = left[: len(left) // 2 - 5], left[len(left) // 2 + 5 :]
    assert lower.mean() == 1
    assert upper.mean() == pytest.approx(0.5, abs=0.02)
