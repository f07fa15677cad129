"""What a notebook shows of a cube."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hipslake import Cube
from hipslake.api.cube_changes import build
from hipslake.storage.folder import Storage

from tests.cube.small_cube import MORE, ROLES, SEED


def test_a_cube_shows_its_roles_datasets_and_columns(tmp_path: Path) -> None:
    place = Storage.at(tmp_path / "cube")
    strange = MORE.append_column("<script>", pa.array(["&", None]))
    build(place, "c", ROLES, {"seed": SEED, "more": strange})
    shown = Cube.open(place.uri())._repr_html_()
    for told in ("<strong>c</strong>", "version 1", "dimensions x", "partitioned by p", "<td>seed</td>"):
        assert told in shown
    assert "<td>&lt;script&gt;</td>" in shown
    assert "<script>" not in shown
