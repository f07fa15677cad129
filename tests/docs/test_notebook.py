"""The notebook runs from its first cell to its last, keeps no outputs, and links to pages that are there."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT

NOTEBOOK = ROOT / "docs" / "notebooks" / "tutorial.ipynb"
CELLS: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text())["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
TEXT = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown"]


@pytest.mark.slow  # test_blocks.py runs the same cells in each run
def test_its_cells_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(CODE):
        exec(compile(source, f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    assert names["place"].parent == tmp_path
    assert {path.name for path in (names["warehouse"] / "catalogs").iterdir()} == {
        "bright_stars",
        "survey",
        "survey_x_bright_stars",
    }
    assert list(tmp_path.iterdir()) == [names["place"]]


def test_it_is_kept_as_it_is_written() -> None:
    document = json.loads(NOTEBOOK.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in CELLS}) == len(CELLS)
    for cell in CELLS:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert not [line for source in CODE for line in source.splitlines() if len(line) > 110]


def test_its_links_lead_to_pages() -> None:
    links = [link for text in TEXT for link in re.findall(r"\]\(([^)#]+)", text)]
    assert len(links) > 5
    for link in links:
        assert (NOTEBOOK.parent / link).is_file(), link
