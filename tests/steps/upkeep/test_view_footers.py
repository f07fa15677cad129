"""`_metadata` of a version that goes on from another has of it the footers of leaves that stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipslake.catalog.hats import view_files
from hipslake.catalog.hats.joined_footers import FOOTERS, PARTS
from hipslake.specs.catalog_spec import Unchanged
from hipslake.steps.upkeep.hats_view import point_map_of, show_newest, write_hats_files

from tests.examples import examples
from tests.steps.nights import Survey

MORE = """\
margin: {arcsec: [3600]}
column_groups:
  - {name: main, columns: [id, ra, dec]}
  - {name: details, columns: "*", threshold: 60 rows}
"""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The leaf files of which the footer is read."""
    paths: list[str] = []
    plain = view_files.read_footer

    def noted(storage: Any, path: str, size: int) -> Any:
        paths.append(path)
        return plain(storage, path, size)

    monkeypatch.setattr(view_files, "read_footer", noted)
    return paths


def files_of(survey: Survey) -> dict[str, bytes]:
    """The files of the newest version's tree that are no leaves."""
    root = survey.root / survey.catalog.metadata.write_id
    found = (path for path in root.rglob("*") if path.is_file() and "/Norder=" not in str(path))
    return {str(path.relative_to(root)): path.read_bytes() for path in found if path.suffix != ".png"}


def as_made_anew(survey: Survey) -> dict[str, bytes]:
    """The same, by the leaf files alone."""
    catalog = survey.catalog
    storage, metadata = catalog.storage, catalog.metadata
    write_hats_files(storage, metadata, point_map_of(storage, metadata, None))
    return files_of(survey)


@pytest.mark.parametrize("append", ["rewrite", "add_file"])
def test_the_tree_is_that_of_a_version_made_anew(tmp_path: Path, append: str, read: list[str]) -> None:
    rng = np.random.default_rng(len(append))
    survey = Survey(tmp_path, threshold="40 rows", more=f"append: {append}\n{MORE}")
    survey.night(0, rows=400)
    show_newest(survey.catalog.storage, Unchanged.LINK)
    for step in range(examples(12)):
        act = rng.choice(["night", "night", "again", "compact", "delete"])
        if act == "night":
            survey.night(step + 1, rows=int(rng.integers(1, 30)))
        elif act == "again":
            survey.night(0, rows=400, seed=step)
        elif act == "compact":
            survey.compact()
        else:
            start = float(rng.uniform(0, 300))
            survey.catalog.delete(filters=f"ra > {start} and ra < {start + 9}", force=True)
        metadata = survey.catalog.metadata
        read.clear()
        show_newest(survey.catalog.storage, Unchanged.LINK)
        others = [path for path in set(read) if not path.startswith(f"{metadata.write_id}/")]
        assert len(others) <= len(metadata.with_files), "one of each, for how large a footer is"
        found = files_of(survey)
        assert {f"main/{FOOTERS}", f"main/{PARTS}", f"details/{PARTS}"} <= found.keys()
        assert found == as_made_anew(survey)
        survey.catalog.verify().raise_if_failed()
