"""The picture of the boxes of files, before and after a compaction."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.picture import draw_boxes
from numpy.typing import NDArray

_SVG = "{http://www.w3.org/2000/svg}"


def boxes(*bounds: tuple[float, float, float, float]) -> FileBoxes:
    """Files by their (lowest x, lowest y, highest x, highest y)."""
    each = np.array(bounds, dtype=float).reshape(-1, 4)
    return FileBoxes(low=each[:, :2], high=each[:, 2:])


def panels(before: FileBoxes, after: FileBoxes) -> list[NDArray[np.bool_]]:
    """Where something is painted within each of the two frames, by pixels, y growing upwards."""
    shown = ET.fromstring(draw_boxes(before, after, ["ra", "dec"], "stars"))
    wide, high = int(shown.attrib["width"]), int(shown.attrib["height"])
    frames = [each for each in shown.iter(f"{_SVG}rect") if each.get("fill") == "none"]
    painted = np.zeros((high, wide), bool)
    for each in shown.iterfind(f"{_SVG}g/{_SVG}rect"):
        painted[_pixels(each)] = True
    return [painted[_pixels(frame)][::-1] for frame in frames]


def _pixels(rectangle: ET.Element) -> tuple[slice, slice]:
    x, y, width, height = (float(rectangle.attrib[name]) for name in ("x", "y", "width", "height"))
    return slice(round(y), round(y + height)), slice(round(x), round(x + width))


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
    assert left.mean() == pytest.approx(share, abs=0.005)
    assert right.mean() == pytest.approx(0.25, abs=0.005)
    assert right[: len(right) // 2 - 5, right.shape[1] // 2 + 5 :].all()
    left, right = panels(boxes((0.5, 0, 1, 0.5)), drawn)
    assert (left.mean(), right.mean()) == (pytest.approx(0.25, abs=0.005), pytest.approx(share, abs=0.005))


def test_boxes_of_one_column_are_drawn_one_above_the_other() -> None:
    one = FileBoxes(low=np.array([[0.0], [0.0]]), high=np.array([[1.0], [0.5]]))
    left, _ = panels(one, boxes())
    lower, upper = left[: len(left) // 2 - 5], left[len(left) // 2 + 5 :]
    assert lower.mean() == 1
    assert upper.mean() == pytest.approx(0.5, abs=0.005)


def test_names_of_any_text_are_shown() -> None:
    title, column = 'a "<table>" & \x00\ud800more', "ä<b>&\n"
    shown = ET.fromstring(draw_boxes(boxes(), boxes(), [column, "dec"], title))
    texts = [each.text for each in shown.iter(f"{_SVG}text")]
    assert texts[0] == 'a "<table>" & ??more'
    assert "ä<b>&?, share of the rows" in texts
